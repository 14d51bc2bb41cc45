from __future__ import annotations

import os
import socket
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from signal import SIGTERM
from typing import IO, Any

import aiohttp
import msgspec
import pytest
import yaml

from fakekube.front_end.authority import Authority
from multikueue.api.kinds import JOBS, LOCAL_QUEUES
from multikueue.errors import NotFound
from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.kube.client import Client
from multikueue_simulator.__main__ import main
from multikueue_simulator.serving.serve import MANAGER, USERS, Plan, Sandbox, Served
from multikueue_simulator.world import objects
from testbed.audit import Audit
from testbed.client import Client as RealClient
from testbed.client import eventually
from testbed.objects import JOB

pytestmark = pytest.mark.anyio


async def connected(served: Served, user: str = "admin") -> Any:
    return Client.connect(await from_kubeconfig(served.kubeconfig(user)), cluster=served.name)


def asking(served: Served) -> RealClient:
    """A client of the testbed, which shares nothing with ours."""
    users = served.cluster.users
    return RealClient(served.front_end.url, ca=served.front_end.ca, token=users.token("admin"))


async def test_each_cluster_is_served_to_each_user(tmp_path: Path) -> None:
    async with Sandbox(Plan(workers=2), folder=tmp_path) as sandbox:
        assert list(sandbox) == [MANAGER, "worker1", "worker2"]
        assert len({served.front_end.port for served in sandbox.values()}) == 3
        for served in sandbox.values():
            assert set(served.described["kubeconfigs"]) == set(USERS)
            async with await connected(served, "placement") as client:
                assert await client.list(LOCAL_QUEUES)
        merged = yaml.safe_load((tmp_path / "kubeconfig").read_text())
        assert [each["name"] for each in merged["contexts"]] == [MANAGER, "worker1", "worker2"]
        assert merged["current-context"] == MANAGER
    with pytest.raises(aiohttp.ClientConnectorError):
        async with aiohttp.ClientSession() as session:
            await session.get(served.front_end.url)


async def test_one_cluster_knows_nothing_of_the_others_users(tmp_path: Path) -> None:
    async with Sandbox(Plan(workers=1), folder=tmp_path) as sandbox:
        one, other = sandbox.values()
        assert one.cluster.users.by_token(other.cluster.users.token("admin")) is None


async def test_what_was_called_is_in_the_audit_log(tmp_path: Path) -> None:
    async with Sandbox(Plan(workers=0), folder=tmp_path) as sandbox:
        served = sandbox[MANAGER]
        async with await connected(served, "kueue") as client:
            await client.list(JOBS)
        events = Audit(served.audit, None).events()  # type: ignore[arg-type]  # nothing is asked of the plane
    assert [(event.user, event.verb, event.resource, event.code) for event in events] == [
        ("kueue", "list", "jobs", 200)
    ]


async def test_the_same_seed_gives_the_same_names(tmp_path: Path) -> None:
    tokens = []
    for run in ("a", "b"):
        async with Sandbox(Plan(workers=0, seed=7), folder=tmp_path / run) as sandbox:
            tokens.append(sandbox[MANAGER].cluster.users.token("admin"))
    assert tokens[0] == tokens[1]


async def test_a_job_runs_on_a_simulated_worker(tmp_path: Path) -> None:
    plan = Plan(workers=1, kueue=True, jobs=True)
    async with Sandbox(plan, folder=tmp_path) as sandbox, asking(sandbox["worker1"]) as client:
        for body in (
            objects.flavor(),
            objects.cluster_queue("cq", cpu=4),
            objects.local_queue("main", "default", cluster_queue="cq"),
            objects.job("one", "default", queue="main", seconds=0.1, managed=False),
        ):
            await client.create(body)
        await eventually(lambda: _is_complete(client))


async def _is_complete(client: RealClient) -> bool:
    job = await client.get(JOB, "one", "default")
    return any(each["type"] == "Complete" for each in job["status"].get("conditions", ()))


def two_free_ports() -> int:
    """The lower of two adjacent free ports, below those that the system gives to whoever asks for any."""
    start = 20_000 + os.getpid() % 5_000 * 2  # tests of other processes begin elsewhere
    for lower in range(start, start + 2_000, 2):
        with ExitStack() as stack, suppress(OSError):
            for port in (lower, lower + 1):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return lower
    raise AssertionError("no two free ports")


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_open(tmp_path: Path) -> None:
    free = two_free_ports()
    async with Sandbox(Plan(workers=0, port=free + 1), folder=tmp_path / "one"):
        with pytest.raises(OSError, match="address"):
            async with Sandbox(Plan(workers=1, port=free), folder=tmp_path / "two"):
                raise AssertionError
        async with Sandbox(Plan(workers=0, port=free), folder=tmp_path / "three"):
            pass


class Process:
    """The sandbox in a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "multikueue_simulator", "--workers", "1", "--folder", str(folder), *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.clusters = {each["name"]: each for each in (self.read(), self.read())}

    def read(self) -> Any:
        assert self.process.stdout is not None
        return msgspec.json.decode(self.process.stdout.readline())

    def describe(self, text: bytes) -> Any:
        commands: IO[bytes] | None = self.process.stdin
        assert commands is not None
        commands.write(text + b"\n")
        commands.flush()
        return self.read()

    def do(self, what: str, cluster: str) -> Any:
        return self.describe(msgspec.json.encode({"do": what, "cluster": cluster}))

    def end(self) -> int:
        self.process.send_signal(SIGTERM)
        try:
            return self.process.wait(10)
        finally:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    made = Process(tmp_path, "--rbac", "--user", "anne=staff,ops")
    yield made
    made.end()


async def test_a_process_serves_until_it_is_told_to_end(process: Process) -> None:
    assert list(process.clusters) == [MANAGER, "worker1"]
    worker = process.clusters["worker1"]
    credentials = await from_kubeconfig(Path(worker["kubeconfigs"]["anne"]))
    async with Client.connect(credentials, cluster="worker1") as client:
        with pytest.raises(Exception, match='User "anne" cannot list resource "jobs"'):
            await client.list(JOBS)
        assert process.do("stop", "worker1") == {"done": "stop", "cluster": "worker1"}
        with pytest.raises(Exception, match=r"(?i)connect"):
            await client.list(JOBS)
        assert process.do("start", "worker1") == {"done": "start", "cluster": "worker1"}
        with pytest.raises(Exception, match='User "anne" cannot list resource "jobs"'):
            await client.list(JOBS)
    assert process.do("compact", "worker1") == {"done": "compact", "cluster": "worker1"}
    assert process.do("stop", "nowhere") == {"error": "'nowhere'"}
    assert process.do("dance", "worker1") == {"error": "'unknown command dance'"}
    assert "malformed" in process.describe(b"x")["error"]
    for what in ("start-kueue", "stop-kueue", "remove-kueue", "start-jobs", "stop-jobs"):
        assert process.do(what, "worker1") == {"done": what, "cluster": "worker1"}
    assert process.end() == 0


async def test_a_process_serves_one_more_cluster_with_the_kinds_it_is_told(process: Process) -> None:
    answer = process.describe(b'{"do": "add", "cluster": "more", "definitions": ["ocm"]}')
    assert (answer["done"], answer["name"]) == ("add", "more")
    assert "there is a cluster more" in process.do("add", "more")["error"]
    async with Client.connect(await from_kubeconfig(Path(answer["kubeconfigs"]["admin"])), cluster="more") as client:
        with pytest.raises(NotFound):
            await client.list(LOCAL_QUEUES)
        assert "done" in process.describe(b'{"do": "define", "cluster": "more", "definitions": ["kueue", "ocm"]}')
        assert (await client.list(LOCAL_QUEUES)).items == ()
    assert "error" in process.describe(b'{"do": "define", "cluster": "more", "definitions": ["nonsense"]}')


async def test_over_one_store_versions_are_counted_together(tmp_path: Path) -> None:
    versions = {}
    for one_store in (True, False):
        async with Sandbox(Plan(workers=1, one_store=one_store, seed=1), folder=tmp_path / str(one_store)) as sandbox:
            versions[one_store] = [served.cluster.storage.rv for served in sandbox.values()]
    assert versions[True][0] == versions[True][1] > max(versions[False])


def test_the_authority_may_be_a_given_one(tmp_path: Path) -> None:
    authority = Authority()
    authority_folder = tmp_path / "authority"
    authority_folder.mkdir()
    (authority_folder / "tls.crt").write_bytes(authority.pem)
    (authority_folder / "tls.key").write_bytes(authority.key_pem)
    made = Process(tmp_path, "--authority", str(authority_folder))
    try:
        config = Path(made.clusters["worker1"]["kubeconfigs"]["admin"]).read_text()
        assert b64encode(authority.pem).decode() in config
    finally:
        made.end()


def test_wrong_words_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--definitions", "nonsense"])
    assert "invalid choice: 'nonsense'" in capsys.readouterr().err
