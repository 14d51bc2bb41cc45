"""Situations on simulated clusters with a manager that runs: what `why` says helps is done, and then the job runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from multikueue.api.kueue.workload import PRIORITY_CLASS_LABEL
from multikueue_simulator.serving.serve import MANAGER, Plan, Sandbox
from multikueue_simulator.world import objects
from testbed.client import Client, eventually
from testbed.objects import JOB, LOCAL_QUEUE
from tests.cli.conftest import Result
from tests.cli.field import Program

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

Tree = dict[str, Any]

TEAM, WORKERS = "team-a", ("worker1", "worker2")
KINDS = {"job": JOB}


@dataclass(frozen=True)
class Fleet:
    """A manager at work, and two workers that can hold 4 CPUs each for LocalQueue `mine` of team-a."""

    clients: dict[str, Client]
    folder: Path
    capsys: pytest.CaptureFixture[str]

    async def run(self, *words: str) -> Result:
        program = Program(self.capsys)
        await anyio.to_thread.run_sync(program.run, *words)
        return await program.result()

    async def submit(self, *, queue: str | None = "mine", managed: bool = True, priority: str = "") -> Tree:
        made = objects.job("train", TEAM, queue=queue, seconds=3600, managed=managed)
        if priority:
            made["metadata"]["labels"][PRIORITY_CLASS_LABEL] = priority
        made["spec"]["suspend"] = managed
        return await self.clients[MANAGER].create(made)

    async def why(self) -> Tree:
        done = await self.run("why", "-n", TEAM, "job/train", "-o", "json")
        told: Tree
        told, _ = json.JSONDecoder().raw_decode(done.out, done.out.index("{\n"))  # simulated workers may log beside it
        return told

    async def does(self, command: str) -> None:
        """As a person would at a shell, with a manifest in FILE."""
        file = self.folder / "train.yaml"
        file.write_text(yaml.safe_dump(objects.job("train", TEAM, queue=None, seconds=3600)))
        words = shlex.split(command.replace("FILE", str(file)).replace("QUEUE", "mine").replace("CLASS", "urgent"))
        if words[0] == "multikueue":
            yes = ["--yes"] if "cancel" in words else []
            done = await self.run(*words[1:], *yes)
            assert done.code == 0, f"{command}: {done.err}"
        elif words[0] == "echo":
            manifest = json.loads(words[1].replace("CLUSTERmine", "theirs"))
            await self.clients[words[words.index("--context") + 1]].create(manifest)
        else:
            await self.kubectl(words[1], [word for word in words[2:] if word not in ("-n", TEAM, "--overwrite")])

    async def kubectl(self, verb: str, words: list[str]) -> None:
        kind, _, name = words[0].partition("/")
        if verb == "delete":
            await self.clients[MANAGER].delete(KINDS[kind], name, TEAM)
            return
        assert verb == "label"
        key, _, value = words[1].partition("=")
        labels = {key.removesuffix("-"): value or None}
        await self.clients[MANAGER].patch(KINDS[kind], name, {"metadata": {"labels": labels}}, TEAM)


async def cordoned(fleet: Fleet) -> None:
    for name in WORKERS:
        assert (await fleet.run("clusters", "cordon", name)).code == 0
    await fleet.submit()


async def held(fleet: Fleet) -> None:
    await fleet.submit()
    await eventually(lambda: _succeeds(fleet, "workloads", "hold", "-n", TEAM, "train", "--yes"))


async def no_queue_there(fleet: Fleet) -> None:
    for name in WORKERS:
        await fleet.clients[name].delete(LOCAL_QUEUE, "mine", TEAM)
    await fleet.submit()


async def misspelt(fleet: Fleet) -> None:
    await fleet.submit(queue="min")


async def misspelt_and_unmanaged(fleet: Fleet) -> None:
    await fleet.submit(queue="min", managed=False)


async def no_label(fleet: Fleet) -> None:
    await fleet.submit(queue=None, managed=False)


async def no_class(fleet: Fleet) -> None:
    made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}}
    await fleet.clients[MANAGER].create({**made, "value": 1})
    await fleet.submit(priority="nonesuch")


async def _succeeds(fleet: Fleet, *words: str) -> bool:
    return (await fleet.run(*words)).code == 0


Make = Callable[[Fleet], Awaitable[None]]

MADE: dict[str, tuple[Make, str]] = {
    "all workers are cordoned": (cordoned, "WorkersCordoned"),
    "held": (held, "Held"),
    "the LocalQueue is missing on the workers": (no_queue_there, "LocalQueueMissingOnWorkers"),
    "a misspelt queue": (misspelt, "QueueNotFound"),
    "a misspelt queue in a job without managedBy": (misspelt_and_unmanaged, "QueueNotFound"),
    "no queue label": (no_label, "NoQueueLabel"),
    "a priority class that does not exist": (no_class, "PriorityClassNotFound"),
}


@pytest.mark.parametrize(("make", "code"), MADE.values(), ids=MADE)
async def test_what_it_says_helps_is_done_and_the_job_runs(
    make: Make, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fleet_in(tmp_path, capsys, monkeypatch) as fleet:
        await make(fleet)
        found: Tree = {}

        async def is_told() -> bool:
            nonlocal found
            found = await fleet.why()
            assert [each["code"] for each in found["obstacles"]][:1] == [code], found
            return True

        await eventually(is_told, timeout=60)
        for command in found["obstacles"][0]["repair"]["commands"]:
            await fleet.does(command)

        async def runs() -> bool:
            told = await fleet.why()
            assert told["state"] == "Running", told
            assert re.fullmatch(r"Running on worker[12] since \S+", told["summary"])
            return True

        await eventually(runs, timeout=60)


@asynccontextmanager
async def fleet_in(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        plan = Plan(workers=len(WORKERS), kueue=True, jobs=True)
        sandbox = await stack.enter_async_context(Sandbox(plan, folder=folder))
        monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
        clients = {}
        for name, served in sandbox.items():
            token = served.cluster.users.token("admin")
            client = Client(served.front_end.url, ca=served.front_end.ca, token=token)
            clients[name] = await stack.enter_async_context(client)
        for name in WORKERS:
            await _make(clients[name], objects.flavor(), objects.cluster_queue("theirs", cpu=4), _queue("theirs"))
            served = sandbox[name]
            secret = objects.kubeconfig_secret(
                name,
                "kueue-system",
                server=served.front_end.url,
                token=served.cluster.users.token("admin"),
                ca=served.front_end.ca,
            )
            await _make(clients[MANAGER], objects.namespace("kueue-system"), secret, objects.multikueue_cluster(name))
        await _make(
            clients[MANAGER],
            objects.flavor(),
            objects.multikueue_config(clusters=WORKERS),
            objects.admission_check(),
            objects.cluster_queue("mine-cq", cpu=8, checks=[objects.CHECK]),
            _queue("mine-cq"),
        )
        environment = {**os.environ, "MULTIKUEUE_PROBES__PORT": "0"}
        process = await stack.enter_async_context(
            await anyio.open_process(
                [sys.executable, "-m", "multikueue", "run", "--context", MANAGER],
                stdout=None,
                stderr=None,
                env=environment,
            )
        )
        try:
            yield Fleet(clients, folder, capsys)
        finally:
            process.terminate()


def _queue(behind: str) -> Tree:
    return objects.local_queue("mine", TEAM, cluster_queue=behind)


async def _make(client: Client, *bodies: Tree) -> None:
    for body in (objects.namespace(TEAM), *bodies):
        await client.apply(body)
