"""A fleet that follows its hub: OCM's placement controller, six clusters in two sets, and jobs that run all the while.

Three of the clusters have a real Kueue, and three are simulated ones. OCM's placement and registration controllers are real,
and so is the agent by which one cluster joins, falls silent and comes back. The test plays the agents of the others, the
add-on that carries an account and its rights to a cluster, and whoever sets labels, taints and scores. It hands the others
over to the fleet by the label that docs/clusters.md names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import anyio.to_thread
import pytest
import yaml

from multikueue_simulator.serving.serve import merged
from testbed import objects, ocm, queues
from testbed.bed import Testbed, unique
from testbed.client import Client, eventually
from testbed.objects import KUEUE_NAMESPACE, MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG, Object
from testbed.ocm import MANAGED_CLUSTER, PLACEMENT
from testbed.plane import ControlPlane
from testbed.sandbox import SandboxBed
from tests.real import managed_accounts
from tests.real.harness import Manager, Starts, Team, complaints, starts
from tests.real.managed_accounts import ACCOUNT
from tests.real.skipping import needs_programs

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(240),
    needs_programs("OCM's controllers"),
]

REAL = ("worker1", "worker2", "worker3")
SIMULATED = ("worker4", "worker5", "worker6")
LATE = "worker3"
"""The cluster that joins when work is under way, by OCM's agent, with an account that the hub's add-on makes."""

MINE = "test.example/fleet"
FLEET_LABEL = "multikueue.dev/fleet"
LEAVING = "multikueue.dev/leaving"
HUB_TAINTS = "multikueue.dev/hub-taints"
SCORE = "free-gpus"


@dataclass(slots=True)
class Estate:
    """The hub, and the team whose namespace is on all clusters: a ManagedCluster is called as its MultiKueueCluster."""

    crew: Team
    kubeconfig: Path
    started: Starts
    sets: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def hub(self) -> Client:
        return self.crew.manager

    @property
    def name(self) -> str:
        return self.crew.namespace

    def labels(self, worker: str) -> dict[str, str]:
        return {MINE: self.name, "worker": worker} | self.sets["eu" if worker in REAL else "us"]

    async def label(self, worker: str) -> None:
        await self.hub.patch(MANAGED_CLUSTER, self.crew.cluster(worker), {"metadata": {"labels": self.labels(worker)}})

    async def lease(self, worker: str, *, seconds: int) -> None:
        """How often the agent of a cluster is to call; after five times that the hub takes it for silent."""
        await self.hub.patch(MANAGED_CLUSTER, self.crew.cluster(worker), {"spec": {"leaseDurationSeconds": seconds}})

    async def found(self, *workers: str) -> None:
        """These clusters are on the hub, accepted, joined and available."""
        for worker in workers:
            await ocm.register_cluster(self.hub, self.crew.cluster(worker), labels=self.labels(worker))
        for worker in workers:
            await self.hub_taints(worker)

    async def hub_taints(self, worker: str, *keys: str) -> None:
        """Waits until a cluster has these taints on the hub, by OCM's controllers too, and no others."""

        async def has() -> bool:
            cluster = await self.hub.get(MANAGED_CLUSTER, self.crew.cluster(worker))
            found = sorted(taint["key"] for taint in cluster["spec"].get("taints") or [])
            assert found == sorted(keys), f"{worker} has the taints {found}"
            return True

        await eventually(has, timeout=60)

    async def run(self, *words: str) -> str:
        """Run the program with the contexts of all clusters, by their names on the hub; what it printed."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        command = [sys.executable, "-m", "multikueue", "clusters", *words]
        call = partial(subprocess.run, command, env=environment, capture_output=True, text=True, timeout=100)
        done = await anyio.to_thread.run_sync(partial(call, check=False))
        assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    async def is_empty(self) -> bool:
        """Whether OCM's controllers have let go of all clusters: each has a finalizer of theirs."""
        left = {body["metadata"]["name"] for body in await self.hub.list(MANAGED_CLUSTER)}
        assert not left & {*map(self.crew.cluster, self.crew.clients)}, f"{left} are left"
        return True

    async def discovered(self) -> dict[str, str]:
        """The state of each cluster on the hub, by worker."""
        text = await self.run("discover", "--from", "ocm", "-l", f"{MINE}={self.name}", "-o", "json")
        return {self.crew.worker_of(each["name"]): each["state"] for each in json.loads(text)["items"]}

    async def hand_over(self, *workers: str) -> None:
        label = {"metadata": {"labels": {FLEET_LABEL: "multikueue"}}}
        for worker in workers:
            await self.hub.patch(MULTIKUEUE_CLUSTER, self.crew.cluster(worker), label)

    async def place(self, *workers: str, name: str = "", **spec: Any) -> str:
        """A Placement over both sets, for these workers or for all; answers its name."""
        name = name or self.name
        body = ocm.placement(name, KUEUE_NAMESPACE, sets=[f"{self.name}-{each}" for each in self.sets])
        selector: Object = {"matchLabels": {MINE: self.name}}
        if workers:
            selector["matchExpressions"] = [{"key": "worker", "operator": "In", "values": list(workers)}]
        body["spec"] |= {"predicates": [{"requiredClusterSelector": {"labelSelector": selector}}]} | spec
        await self.hub.apply(body)
        return name

    async def decided(self, *workers: str) -> None:
        """Waits until the placement controller has decided for exactly these."""
        wanted = sorted(map(self.crew.cluster, workers))

        async def has() -> bool:
            found = await ocm.decided_clusters(self.hub, self.name, KUEUE_NAMESPACE)
            assert found == wanted, f"decided for {found}"
            return True

        await eventually(has, timeout=30)

    async def submit(self, *names: str, on: str = "") -> None:
        """Jobs for the team's Placement, or for one worker, by a Placement of its own."""
        if on:
            only = await self.place(on, name=f"{self.name}-{on}")
        for name in names:
            body = objects.job(name, self.name, managed_by=objects.MULTIKUEUE_CONTROLLER)
            body["metadata"]["annotations"] = {"multikueue.dev/placement": only} if on else {}
            await self.hub.create(body)

    async def run_on(self, *names: str) -> set[str]:
        """The workers where these jobs have started."""
        return {await self.started.first(name) for name in names}

    async def complete(self, *names: str) -> None:
        for name in names:
            await self.crew.complete(await self.started.first(name), name)

    async def worker(self, worker: str) -> Object:
        return await self.hub.find(MULTIKUEUE_CLUSTER, self.crew.cluster(worker)) or {}

    async def noted(self, worker: str, annotation: str, value: str = "") -> None:
        """Waits until a worker has the annotation, with this in it; or without `value`, whatever is in it."""

        async def has() -> bool:
            found = (await self.worker(worker))["metadata"].get("annotations", {}).get(annotation)
            assert found is not None, f"there is no {annotation}"
            assert value in found, f"{annotation} is {found}"
            return True

        await eventually(has, timeout=90)

    async def is_fleet(self, *workers: str) -> None:
        """Waits until these are the workers in the fleet's config, and connected."""

        async def has() -> bool:
            config = await self.hub.get(MULTIKUEUE_CONFIG, self.name)
            found = sorted(map(self.crew.worker_of, config["spec"]["clusters"]))
            assert found == sorted(workers), f"the config has {found}"
            return True

        await eventually(has, timeout=90)
        for worker in workers:
            await self.crew.active(worker)


def context(plane: ControlPlane, name: str) -> Object:
    """The administrator of a plane, as a context of that name."""
    found = plane.kubeconfig()
    for section in ("clusters", "users", "contexts"):
        found[section][0]["name"] = name
    found["contexts"][0]["context"] = {"cluster": name, "user": name}
    return found | {"current-context": name}


@pytest.fixture
async def estate(bed: Testbed, tmp_path: Path) -> AsyncIterator[Estate]:
    """The hub with both sets, and six clusters of which it does not know yet. No manager runs."""
    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(SandboxBed.start(workers=len(SIMULATED)))
        planes = dict(zip((*REAL, *SIMULATED), (*bed.workers, *sandbox.workers), strict=True))
        for start in (bed.start_placement, bed.start_registration):
            stack.push_async_callback((await start(bed.manager)).stop)
        hub = await stack.enter_async_context(bed.manager.client())
        await managed_accounts.define(hub)
        clients = {name: await stack.enter_async_context(plane.client()) for name, plane in planes.items()}
        crew = Team(bed, unique("fleet"), hub, clients, {})
        await queues.workers_setup(planes.values(), namespace=crew.namespace)
        await hub.apply(objects.namespace(KUEUE_NAMESPACE))
        await hub.apply(objects.admission_check(crew.namespace, config=crew.namespace))
        body = objects.cluster_queue(crew.namespace, checks=[crew.namespace], quota={"cpu": "100", "memory": "100Gi"})
        await queues.setup_queue(hub, namespace=crew.namespace, queue="main", cluster_queue=body)
        kubeconfig = tmp_path / "kubeconfig"
        there = [context(plane, crew.cluster(worker)) for worker, plane in planes.items()]
        kubeconfig.write_text(yaml.safe_dump(merged([bed.manager.kubeconfig(), *there])))
        started = await stack.enter_async_context(starts(crew))
        made = Estate(crew, kubeconfig, started)
        for each in ("eu", "us"):
            made.sets[each] = await ocm.cluster_set(hub, f"{crew.namespace}-{each}", KUEUE_NAMESPACE)
        try:
            yield made
        finally:
            with anyio.CancelScope(shield=True):
                for kind in (MULTIKUEUE_CLUSTER, MANAGED_CLUSTER):
                    for worker in planes:
                        await hub.delete(kind, crew.cluster(worker))
                await eventually(made.is_empty, timeout=30)


@asynccontextmanager
async def following(estate: Estate) -> AsyncIterator[Manager]:
    """A manager with `fleet:` in its settings, that follows the team's Placement."""
    options = {"placement": estate.name, "shrink_after": "2s"}
    settings = {
        "FLEET__INVENTORY": "ocm",
        "FLEET__SELECTOR": f"{MINE}={estate.name}",
        "FLEET__CONFIG": estate.name,
        "FLEET__DRAIN": "wait",
        "FLEET__SERVICE_ACCOUNT": ACCOUNT,
        "DISPATCH__STRATEGY__NAME": "external",
        "DISPATCH__STRATEGY__OPTIONS": json.dumps(options),
        "DISPATCH__WORKLOAD_PLACEMENTS": "true",
    }
    manager = Manager(estate.crew.bed, **settings)  # type: ignore[arg-type]  # no setting is called `command`
    async with manager.running():
        await manager.ready()
        yield manager
        assert not complaints(manager)


async def test_a_fleet_follows_its_hub_while_jobs_are_in_flight(estate: Estate) -> None:
    crew, early = estate.crew, tuple(worker for worker in (*REAL, *SIMULATED) if worker != LATE)

    # Discover, and register all.
    await estate.found(*early)
    assert await estate.discovered() == dict.fromkeys(early, "Possible")
    everyone = ("--from", "ocm", "-l", f"{MINE}={estate.name}")
    await estate.run("register", *everyone, "--config-name", estate.name, "--yes")
    assert await estate.discovered() == dict.fromkeys(early, "Registered")
    await estate.hand_over(*early)
    await estate.hub.patch(MULTIKUEUE_CONFIG, estate.name, {"metadata": {"labels": {FLEET_LABEL: "multikueue"}}})

    async with following(estate):
        await estate.place()
        await estate.is_fleet(*early)
        await estate.decided(*early)
        flight = [f"flight{number}" for number in range(6)]
        await estate.submit(*flight)
        await estate.submit("leaver", on="worker1")
        await estate.submit("tainted", on="worker4")
        assert await estate.run_on(*flight) <= {*early}
        assert await estate.run_on("leaver") == {"worker1"}
        assert await estate.run_on("tainted") == {"worker4"}

        # One leaves: its minute begins, and the hub does not choose it any more.
        await estate.hub.delete(MANAGED_CLUSTER, crew.cluster("worker1"))
        left_at = monotonic()

        # One joins by its agent, with no more rights than its ManifestWork has.
        plane, name = crew.bed.planes[LATE], crew.cluster(LATE)
        agent = await crew.bed.start_agent(plane, name)
        await ocm.joined(estate.hub, name)
        await estate.label(LATE)
        await estate.run("register", name, "--from", "ocm", "--managed-accounts")
        await managed_accounts.carry(estate.hub, name, plane)
        await estate.is_fleet(*early, LATE)
        await estate.decided(*early[1:], LATE)
        await estate.submit("late", on=LATE)
        assert await estate.run_on("late") == {LATE}

        # One is tainted: what runs there goes on, and nothing new comes.
        await ocm.taint(estate.hub, crew.cluster("worker4"), "test.example/repair")
        await estate.noted("worker4", HUB_TAINTS, "test.example/repair")
        await estate.decided("worker2", "worker5", "worker6", LATE)
        after = [f"after{number}" for number in range(6)]
        await estate.submit(*after)
        assert await estate.run_on(*after) <= {"worker2", "worker5", "worker6", LATE}
        await estate.complete("tainted", *after)
        await ocm.taint(estate.hub, crew.cluster("worker4"))

        # The agent falls silent: the hub taints its cluster when the lease is over, and takes that back when the agent is.
        await agent.stop()
        await estate.lease(LATE, seconds=1)
        await estate.hub_taints(LATE, ocm.UNREACHABLE)
        await estate.noted(LATE, HUB_TAINTS, ocm.UNREACHABLE)
        await estate.decided("worker2", "worker4", "worker5", "worker6")
        await estate.lease(LATE, seconds=60)
        await agent.start()
        await estate.hub_taints(LATE)
        await estate.decided("worker2", "worker4", "worker5", "worker6", LATE)

        # Scores change, and with them the one cluster that is chosen.
        await ocm.set_score(estate.hub, crew.cluster("worker2"), SCORE, 90)
        await ocm.set_score(estate.hub, crew.cluster("worker5"), SCORE, -90)
        score = {"type": "AddOn", "addOn": {"resourceName": SCORE, "scoreName": SCORE}}
        policy = {"mode": "Exact", "configurations": [{"scoreCoordinate": score, "weight": 1}]}
        await estate.place(numberOfClusters=1, prioritizerPolicy=policy)
        await estate.decided("worker2")
        await estate.submit("first")
        assert await estate.run_on("first") == {"worker2"}
        await ocm.set_score(estate.hub, crew.cluster("worker2"), SCORE, -90)
        await ocm.set_score(estate.hub, crew.cluster("worker5"), SCORE, 90)
        await estate.decided("worker5")
        await estate.submit("second")
        assert await estate.run_on("second") == {"worker5"}

        # The Placement is deleted and comes back: what runs goes on, and what waits is told why.
        await estate.hub.delete(PLACEMENT, estate.name, KUEUE_NAMESPACE)
        await estate.submit("waits")

        async def told() -> bool:
            message = (await crew.check("waits"))["message"]
            assert f"there is no Placement {KUEUE_NAMESPACE}/{estate.name}" in message, message
            return True

        await eventually(told)
        await estate.complete("first", "second")
        await estate.place()
        assert await estate.run_on("waits") <= {*early[1:], LATE}

        # The one that left is drained once its minute is over, and goes when its job has ended.
        await estate.noted("worker1", LEAVING)
        assert monotonic() - left_at > 55, "a cluster is missed for a minute before its worker leaves"
        assert not await started_twice(estate), "a job was started twice"
        await estate.complete("leaver", "late", "waits", *flight)
        await estate.is_fleet(*early[1:], LATE)

        async def gone() -> bool:
            assert not await estate.worker("worker1"), "it is still there"
            return True

        await eventually(gone)
        assert set((await crew.all_over()).values()) == {"Complete"}
        assert not await started_twice(estate), "a job was started twice"


async def started_twice(estate: Estate) -> dict[str, list[str]]:
    """The jobs that started more than once, and where."""
    return (await estate.started.settled()).twice()
