"""One cluster that is served over HTTPS: for a test of a controller, and as a program."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import anyio
import anyio.to_thread
import pytest
import yaml

from fakekube.model.wire import Refused
from fakekube.schemas.notation import Kind, Version, defined, number, record
from fakekube.serve import serve

pytestmark = pytest.mark.anyio

TOY = defined(
    Kind(
        group="example.com",
        kind="Toy",
        plural="toys",
        namespaced=True,
        versions=(Version(name="v1", storage=True, schema=record(spec=record(wheels=number(0, 8)))),),
    )
)


def fetched(kubeconfig: Any, path: str) -> Any:
    """What the server answers to whoever has that kubeconfig and nothing else."""
    (cluster,), (user,) = kubeconfig["clusters"], kubeconfig["users"]
    authority = b64decode(cluster["cluster"]["certificate-authority-data"]).decode()
    request = Request(cluster["cluster"]["server"] + path, headers={"Authorization": f"Bearer {user['user']['token']}"})
    with urlopen(request, context=ssl.create_default_context(cadata=authority), timeout=10) as answer:
        return json.load(answer)


def car(wheels: int) -> dict[str, Any]:
    return {"metadata": {"name": "car"}, "spec": {"wheels": wheels}}


async def test_what_is_created_is_served_to_who_has_the_kubeconfig() -> None:
    async with serve(definitions=[TOY]) as server:
        await server.create("example.com/v1", "Toy", car(4), "default")
        path = "/apis/example.com/v1/namespaces/default/toys/car"

        toy = await anyio.to_thread.run_sync(fetched, server.kubeconfig(), path)

        assert toy["spec"] == {"wheels": 4}
        assert toy == server.find("example.com/v1", "Toy", "car", "default")


async def test_what_an_api_server_would_refuse_is_refused() -> None:
    async with serve(definitions=[TOY]) as server:
        with pytest.raises(Refused, match="should be less than or equal to 8") as caught:
            await server.create("example.com/v1", "Toy", car(9), "default")
        assert (caught.value.code, caught.value.reason) == (422, "Invalid")
        with pytest.raises(LookupError, match="serves no Doll"):
            await server.create("example.com/v1", "Doll", car(4), "default")


async def test_kinds_without_a_namespace_are_created_in_none() -> None:
    async with serve() as server:
        made = await server.create("v1", "Namespace", {"metadata": {"name": "team"}})
        assert made == server.find("v1", "Namespace", "team")


async def test_the_same_seed_gives_the_same_uids() -> None:
    uids = []
    for _ in range(2):
        async with serve(seed=1) as server:
            found = server.find("v1", "Namespace", "default")
            assert found is not None
            uids.append(found["metadata"]["uid"])
    assert uids[0] == uids[1]


def test_as_a_program_it_writes_a_kubeconfig_that_nobody_else_reads_and_ends_when_it_is_told(tmp_path: Path) -> None:
    file = tmp_path / "fake.kubeconfig"
    command = [sys.executable, "-m", "fakekube", "--kubeconfig", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        url, export = program.stdout.readline().strip(), program.stdout.readline().strip()
        kubeconfig = yaml.safe_load(file.read_text())
        namespaces = fetched(kubeconfig, "/api/v1/namespaces")
        program.send_signal(signal.SIGTERM)

    assert program.returncode == 0
    assert kubeconfig["clusters"][0]["cluster"]["server"] == url
    assert export == f"export KUBECONFIG={file}"
    assert file.stat().st_mode & 0o077 == 0
    assert "default" in {each["metadata"]["name"] for each in namespaces["items"]}
