"""docs/ocm.md, followed from an empty hub: each of its commands is run as it stands, in the order of the page.

OCM's controllers and the agents of the clusters are real. The comments of the page name methods of `Reader` (tests/pages.py):
what has to hold there, and what others do in the meantime.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from multikueue_simulator.serving.serve import merged
from testbed import objects, ocm
from testbed.bed import Testbed
from testbed.client import Client, Kind, eventually
from testbed.jobs import complete_job
from testbed.kubeconfig import dump, kubeconfig
from testbed.objects import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    JOB,
    KUEUE_NAMESPACE,
    LOCAL_QUEUE,
    MULTIKUEUE_CLUSTER,
    MULTIKUEUE_CONFIG,
    SECRET,
    WORKLOAD,
    Object,
)
from testbed.ocm import MANAGED_CLUSTER, PLACEMENT
from testbed.plane import ControlPlane
from testbed.process import Process
from testbed.programs import DEFAULT_KUEUE, Release
from tests.pages import Commands, Event, File, parts
from tests.project.files import ROOT, read
from tests.real import managed_accounts
from tests.real.harness import QUICK
from tests.real.skipping import needs_programs

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(240),
    needs_programs("OCM's controllers"),
    pytest.mark.skipif(Release.chosen().kueue != DEFAULT_KUEUE, reason="others come without PlacementDecisions"),
]

PAGE = "docs/ocm.md"
WORKERS = ("worker-1", "worker-2", "worker-3")
EVERYWHERE, QUEUE, NAMESPACE = "everywhere", "batch", "default"
"""The names that the page has."""
PLACED = "placement"
"""The AdmissionCheck of the kueue-addon that goes."""
DECISION = Kind("multicluster.x-k8s.io/v1alpha1", "PlacementDecision")

RUNS = re.compile(r"(?:\w+=\S+ )*multikueue run\b")


@dataclass(slots=True)
class Reader:
    """Who has the page, a shell, and a context for each cluster; and what happens around that person."""

    bed: Testbed
    folder: Path
    hub: Client
    workers: dict[str, Client]
    manager: Process | None = None
    exports: list[str] = field(default_factory=list)
    uids: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "KUBECONFIG": str(self.folder / "kubeconfig")}

    async def type(self, commands: str) -> None:
        """Run the lines. The last one may be the manager, which goes on, and takes the place of the one before."""
        *before, last = commands.splitlines()
        run = RUNS.match(last)
        if lines := before if run else [*before, last]:
            await self._shell(lines)
        self.exports += [line for line in before if line.startswith("export ")]
        if run:
            await self._manage(last)

    async def _shell(self, lines: list[str]) -> None:
        command = ["bash", "-euo", "pipefail", "-c", "\n".join([*self.exports, *lines])]
        with (self.folder / "yes").open() as answers:
            done = await anyio.run_process(
                command,
                cwd=self.folder,
                env=self.environment,
                stdin=answers,
                stderr=subprocess.STDOUT,
                check=False,
            )
        assert done.returncode == 0, f"code {done.returncode}:\n" + "\n".join([*lines, done.stdout.decode()])

    async def _manage(self, line: str) -> None:
        await self.stop()
        script = "\n".join([f"cd {shlex.quote(str(self.folder))}", *self.exports, f"exec env {line}"])
        log = self.folder / "manager.log"
        began = log.stat().st_size if log.exists() else 0
        self.manager = Process("manager", ["/bin/bash", "-c", script], log=log, env={**self.environment, **QUICK})
        self.manager.start()

        async def is_ready() -> bool:
            return b'"manager.ready"' in log.read_bytes()[began:]

        await self.manager.wait_until(is_ready)

    async def stop(self) -> None:
        if self.manager is not None:
            await self.manager.stop()

    async def play(self, words: str) -> None:
        verb, *rest = words.split()
        await getattr(self, verb.replace("-", "_"))(*rest)

    async def job(self, worker: str, name: str) -> Object | None:
        """The job there, if it may run."""
        found = await self.workers[worker].find(JOB, name, NAMESPACE)
        return None if found is None or found["spec"].get("suspend") else found

    async def runs(self, name: str, *workers: str) -> None:
        """The job runs on one of these workers; without any, on one that OCM has decided for."""
        wanted = workers or await ocm.decided_clusters(self.hub, EVERYWHERE, KUEUE_NAMESPACE)

        async def where() -> list[str]:
            return [worker for worker in self.workers if await self.job(worker, name)]

        (worker,) = await eventually(where, timeout=40)
        assert worker in wanted

    async def kueue_addon(self) -> None:
        """No manager of ours runs, and all that the page made is now as the kueue-addon of OCM makes it."""
        await self.stop()
        registered = [each for worker in WORKERS for each in _registered(worker)]
        for kind, name, namespace in [*registered, (ADMISSION_CHECK, EVERYWHERE, None)]:
            metadata = (await self.hub.get(kind, name, namespace))["metadata"]
            bare = {part: dict.fromkeys(metadata.get(part) or (), None) for part in ("labels", "annotations")}
            await self.hub.patch(kind, name, {"metadata": bare}, namespace)
        for worker in WORKERS:
            account = managed_accounts.SERVICE_ACCOUNT
            metadata = {"name": managed_accounts.ACCOUNT, "namespace": worker}
            body = {"apiVersion": account.api_version, "kind": account.kind, "metadata": metadata}
            await self.hub.apply(body | {"spec": {"rotation": {"enabled": True, "validity": "720h"}}})
        check = {"apiVersion": ADMISSION_CHECK.api_version, "kind": ADMISSION_CHECK.kind, "metadata": {"name": PLACED}}
        await self.hub.apply(check | {"spec": {"controllerName": "open-cluster-management.io/placement"}})
        both = [{"name": name} for name in (EVERYWHERE, PLACED)]
        await self.hub.patch(CLUSTER_QUEUE, QUEUE, {"spec": {"admissionChecksStrategy": {"admissionChecks": both}}})
        self.uids = await self._uids()

    async def agents(self) -> None:
        """OCM's agents have seen the accounts and the ManifestWorks."""
        for worker, plane in _planes(self.bed).items():
            await managed_accounts.carry(self.hub, worker, plane)

    async def keeps(self, name: str, worker: str) -> None:
        """The fleet has the very objects of the kueue-addon, with new credentials, and what ran there runs on, to its end."""
        await eventually(self._follows, timeout=60)
        assert await self._uids() == self.uids
        assert await self.job(worker, name)
        await complete_job(self.workers[worker], NAMESPACE, name)

        async def is_over() -> bool:
            return bool((await self.hub.get(JOB, name, NAMESPACE)).get("status", {}).get("succeeded"))

        await eventually(is_over, timeout=40)

    async def _follows(self) -> bool:
        for worker in WORKERS:
            body = await self.hub.get(MULTIKUEUE_CLUSTER, worker)
            condition = objects.condition(body, "Active")
            assert condition is not None, f"{worker} has no condition Active"
            assert condition["status"] == "True", condition["message"]
            secret = await self.hub.get(SECRET, f"multikueue-{worker}", KUEUE_NAMESPACE)
            assert secret["metadata"].get("annotations"), f"the fleet has not made the Secret of {worker} yet"
        config = await self.hub.get(MULTIKUEUE_CONFIG, EVERYWHERE)
        return sorted(config["spec"]["clusters"]) == [*WORKERS]

    async def _uids(self) -> dict[str, str]:
        """What identifies all that stays: the objects of the hub, and the jobs that run on the workers."""
        kept = [(kind, name, namespace) for worker in WORKERS for kind, name, namespace in _registered(worker)]
        bodies = [await self.hub.get(*each) for each in [*kept, (MULTIKUEUE_CONFIG, EVERYWHERE, None)]]
        for client in self.workers.values():
            bodies += await client.list(JOB, NAMESPACE)
        return {body["metadata"]["uid"]: body["metadata"]["name"] for body in bodies}


def _registered(worker: str) -> list[tuple[Kind, str, str | None]]:
    return [(MULTIKUEUE_CLUSTER, worker, None), (SECRET, f"multikueue-{worker}", KUEUE_NAMESPACE)]


def _planes(bed: Testbed) -> dict[str, ControlPlane]:
    return dict(zip(WORKERS, bed.workers, strict=True))


@pytest.fixture
async def reader(bed: Testbed, tmp_path: Path) -> AsyncIterator[Reader]:
    """A hub that three clusters have joined, and a manager cluster of which nobody has made anything."""
    planes = _planes(bed)
    (tmp_path / "kind-configs").symlink_to(ROOT / "kind-configs")
    (tmp_path / "yes").write_text("y\n")  # to what a command asks
    for name, words in (("multikueue", f"{sys.executable} -m multikueue"), ("kubectl", str(bed.programs.kubectl))):
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (tmp_path / name).chmod(0o755)
    home = bed.manager
    configs = [kubeconfig(home.url, ca=home.ca, token=home.tokens["admin"], name="manager")]
    configs += [
        kubeconfig(each.url, ca=each.ca, token=each.tokens["admin"], name=name) for name, each in planes.items()
    ]
    (tmp_path / "kubeconfig").write_bytes(dump(merged(configs)))
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(home.client())
        clients = {name: await stack.enter_async_context(plane.client()) for name, plane in planes.items()}
        made = Reader(bed, tmp_path, hub, clients)
        for start in (bed.start_placement, bed.start_registration):
            stack.push_async_callback((await start(home)).stop)
        await managed_accounts.served(hub, MANAGED_CLUSTER)
        await _emptied(hub)
        await bed.install(home, ["decisions"])
        await managed_accounts.define(hub)
        await hub.apply(objects.namespace(KUEUE_NAMESPACE))
        for name, plane in planes.items():
            stack.push_async_callback((await bed.start_agent(plane, name)).stop)
        await ocm.joined(hub, *WORKERS)
        try:
            yield made
        except BaseException as error:
            if made.manager is not None:
                error.add_note(f"the manager's log ends with:\n{made.manager.tail()}")
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await _cleared(made)


async def _emptied(hub: Client) -> None:
    """No cluster is on the hub, whatever other tests left there; OCM's controllers have let go of each."""
    for body in await hub.list(MANAGED_CLUSTER):
        await hub.delete(MANAGED_CLUSTER, body["metadata"]["name"])
    await eventually(lambda: _has_none(MANAGED_CLUSTER, None, hub), timeout=30)


async def _has_none(kind: Kind, namespace: str | None, *clusters: Client) -> bool:
    left = [body["metadata"]["name"] for client in clusters for body in await client.list(kind, namespace)]
    assert not left, f"{kind.kind}: {left} are left"
    return True


async def _cleared(reader: Reader) -> None:
    """Take everything of the page away, for the tests that follow; first the jobs, which keep the queues."""
    hub, clusters = reader.hub, [reader.hub, *reader.workers.values()]
    for body in await hub.list(JOB, NAMESPACE):
        await hub.delete(JOB, body["metadata"]["name"], NAMESPACE)
    await eventually(lambda: _has_none(WORKLOAD, NAMESPACE, *clusters), timeout=40)
    for client in clusters:
        await client.delete(LOCAL_QUEUE, QUEUE, NAMESPACE)
        await client.delete(CLUSTER_QUEUE, QUEUE)
    await reader.stop()
    for worker in WORKERS:
        for kind, name, namespace in _registered(worker):
            await hub.delete(kind, name, namespace)
    await hub.delete(PLACEMENT, EVERYWHERE, KUEUE_NAMESPACE)
    await hub.delete(DECISION, "nightly", KUEUE_NAMESPACE)
    for name in (EVERYWHERE, PLACED):
        await hub.delete(ADMISSION_CHECK, name)
    await hub.delete(MULTIKUEUE_CONFIG, EVERYWHERE)
    await _emptied(hub)


async def test_the_page_leads_from_an_empty_hub_to_jobs_that_follow_its_placement(reader: Reader) -> None:
    page, typed, saved = read(PAGE), "", []
    for part in parts(page):
        match part:
            case Commands(text):
                await reader.type(text)
                typed += text
            case File(name, text):
                (reader.folder / name).write_text(text)
                saved.append(name)
            case Event(words):
                await reader.play(words)
    assert [name for name in saved if name not in typed] == [], "no command uses these"
