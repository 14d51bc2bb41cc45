"""deploy/ against real API servers: what it grants is what the manager needs, and the manifests are accepted."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

from testbed import objects
from testbed.audit import Mark
from testbed.bed import Testbed
from testbed.client import APPLY_PATCH, eventually
from testbed.objects import JOB, Object, namespace
from testbed.ports import free_port
from tests.real.deployment import DEPLOY, NAMESPACE, granted, rendered, rights
from tests.real.harness import Manager, Team, complaints, logged, played
from tests.real.skipping import needs_programs

pytestmark = [pytest.mark.real, pytest.mark.anyio, pytest.mark.timeout(180)]

OVERLAYS = ("standalone", "beside-kueue", "external-dispatcher")


class Right(NamedTuple):
    """A verb on a resource, in the whole cluster or in our namespace."""

    group: str
    resource: str
    verb: str


UNUSED: dict[Right, str] = {
    Right("", "configmaps", "get"): "the visibility API is not registered here",
    Right("apiregistration.k8s.io", "apiservices", "create"): "the visibility API is not registered here",
    Right("apiregistration.k8s.io", "apiservices", "get"): "the visibility API is not registered here",
    Right("apiregistration.k8s.io", "apiservices", "patch"): "the visibility API is not registered here",
    Right("authorization.k8s.io", "subjectaccessreviews", "create"): "nobody asks the visibility API here",
    Right("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "patch"): "nobody spoils the registration",
    Right("batch", "jobs/finalizers", "update"): "asked for only where owner references are enforced",
    Right("kueue.x-k8s.io", "cohorts/status", "patch"): "only fair sharing writes there, and it is off here",
}
"""What is granted and not used in the life below, and why it is granted all the same."""

BY_CHANCE = {Right("kueue.x-k8s.io", "workloads", "get")}
"""What is used only where an answer to a creation was lost: on a quick machine it never is here."""


def granted_by(bodies: list[Object]) -> set[Right]:
    return {
        Right(group, resource, verb)
        for role in bodies
        for rule in role.get("rules") or ()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.fixture(scope="module")
def before(bed: Testbed) -> Mark:
    return bed.manager.audit.mark()


@pytest.fixture(scope="module")
def manager(bed: Testbed, before: Mark) -> Iterator[Manager]:
    """The manager with the rights of the standalone overlay, with lease and webhook, and no others."""
    token, port = anyio.run(granted, bed, "standalone"), free_port()
    process = Manager(
        bed,
        access=bed.manager.kubeconfig(token=token),
        LEADER_ELECTION__ENABLED="true",
        WEBHOOK__ENABLED="true",
        WEBHOOK__URL=f"https://127.0.0.1:{port}",
        WEBHOOK__HOST="127.0.0.1",
        WEBHOOK__PORT=str(port),
        WEBHOOK__FAILURE_POLICY="Ignore",
    )
    process.start()
    yield process
    process.stop()
    anyio.run(_forget, bed)


async def _forget(bed: Testbed) -> None:
    async with bed.manager.client() as client:
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/multikueue-manager"
        await client.request("DELETE", path)


def forbidden(manager: Manager) -> list[Object]:
    return [entry for entry in logged(manager) if "forbidden" in str(entry).lower()]


async def changed(crew: Team) -> None:
    """A flavor is new. A job that waits gets smaller, another is deleted where it runs: its Workload goes, or is recreated."""
    await crew.manager.create(objects.resource_flavor(crew.namespace))
    await crew.stop()
    await crew.submit("waits", parallelism=3)
    await crew.waiting(name="waits")
    await crew.manager.patch(JOB, "waits", {"spec": {"parallelism": 2}}, crew.namespace)
    await eventually(lambda: has_shrunk(crew))
    await crew.go()
    await crew.runs_on("waits")
    await crew.manager.delete(JOB, "waits", crew.namespace)
    await crew.gone("waits")


async def has_shrunk(crew: Team) -> bool:
    """Whether the manager has seen it before anybody may admit it as it was."""
    (main,) = (await crew.workload("waits"))["spec"]["podSets"]
    return bool(main["count"] == 2)


async def renewed(bed: Testbed, before: Mark) -> bool:
    """The lease is renewed every two seconds: a quick life may be over before."""
    await bed.manager.audit.settled()
    return any((event.resource, event.verb) == ("leases", "patch") for event in bed.manager.audit.events(before))


async def test_the_manager_lives_with_what_deploy_grants_and_uses_all_of_it(
    bed: Testbed, crew: Team, manager: Manager, before: Mark
) -> None:
    async with played(crew, after=0.2):
        await crew.submit_all([f"job-{number}" for number in range(5)])
        await crew.all_over(timeout=60)
    await changed(crew)
    await eventually(lambda: renewed(bed, before))
    assert forbidden(manager) == []
    assert complaints(manager) == []

    account = f"system:serviceaccount:{NAMESPACE}:multikueue-manager"
    await bed.manager.audit.settled()
    calls = [event for event in bed.manager.audit.events(before) if event.user == account]
    assert [event for event in calls if event.code == 403] == []
    used = {Right(event.group, event.resource, event.verb) for event in calls}
    allowed = granted_by(rights(rendered("overlays/standalone")))

    assert used - allowed == set(), "used, and granted by something else"
    assert allowed - used - BY_CHANCE == set(UNUSED), (
        "not used, and no reason is given; or used, and a reason is given why not"
    )


@needs_programs("an API server that serves all kinds of the manifests")
@pytest.mark.parametrize("overlay", OVERLAYS)
async def test_the_api_server_takes_every_manifest(bed: Testbed, overlay: str) -> None:
    async with bed.manager.client() as client:
        await client.apply(namespace(NAMESPACE))
        for body in rendered(f"overlays/{overlay}"):
            path = await client._own_path(body)
            query = {"fieldManager": "test", "force": "true", "dryRun": "All", "fieldValidation": "Strict"}
            answer = await client._object("PATCH", path, body=body, query=query, content_type=APPLY_PATCH)
            assert answer["metadata"]["name"] == body["metadata"]["name"]


@needs_programs("it builds what the image has")
@pytest.mark.timeout(600)
def test_the_commands_of_the_image_make_a_program_that_starts(tmp_path: Path) -> None:
    """Its RUN lines, in a folder of ours: what is installed is whole, has its bytecode, and needs no build tool."""
    for command in commands(tmp_path):
        subprocess.run(command, check=True, cwd=tmp_path / "source", capture_output=True, timeout=300)

    program = tmp_path / "multikueue" / "bin" / "multikueue"
    told = subprocess.run(
        [program, "strategies", "list"], check=True, capture_output=True, timeout=60, env={"PATH": ""}
    )
    assert b"all-at-once" in told.stdout
    (installed,) = (tmp_path / "multikueue" / "lib").glob("python*/site-packages")
    assert not (installed / "pip").exists()
    sources = list((installed / "multikueue").rglob("*.py"))
    compiled = list((installed / "multikueue").rglob("*.pyc"))
    assert sources
    assert len(sources) == len(compiled)


def commands(folder: Path) -> list[list[str]]:
    """The RUN lines of the first stage, with a Python and folders of ours instead of the image's."""
    python = folder / "python"
    subprocess.run([sys.executable, "-m", "venv", python], check=True, timeout=120)
    source = folder / "source"
    source.mkdir()
    for part in ("pyproject.toml", "README.md", "LICENSE", "requirements", "multikueue", "strategies"):
        origin = DEPLOY.parent / part
        copy = shutil.copytree if origin.is_dir() else shutil.copyfile
        copy(origin, source / part)
    text = (DEPLOY.parent / "Dockerfile").read_text().partition("\nFROM build AS build-console\n")[0]
    lines = [line.removeprefix("RUN ") for line in text.splitlines() if line.startswith("RUN ")]
    ours = [shlex.split(line.replace("/opt/multikueue", str(folder / "multikueue"))) for line in lines]
    return [[str(python / "bin" / "python"), *line[1:]] for line in ours]
