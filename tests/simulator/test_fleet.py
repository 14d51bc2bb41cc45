"""A fleet that follows its hub, in a whole manager on virtual time, with no more rights than deploy/ gives it."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
import yaml
from anyio.abc import TaskGroup

from fakekube.cluster import Cluster as ApiServer
from fakekube.model.wire import Request, Response, User, Watch
from fakekube.network.transport import Line
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import FLEET_LABEL, LEAVING_ANNOTATION
from multikueue.registration.discovery import JOINED
from multikueue.settings import Cluster, FleetMembers, InForce, Settings
from multikueue_simulator import definitions
from multikueue_simulator.time import VirtualClock, run
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import MANAGER, NAMESPACE, Layout, Share, World, token
from tests.costs.fleet import quickly
from tests.project.files import ROOT
from tests.simulator.rights import Asked, account, guard
from tests.simulator.stage import perform
from tests.simulator.test_job_kinds import until

WORKERS = tuple(f"w{n}" for n in range(1, 6))
LAYOUT = Layout(queues=(Share("main", 40),), workers=tuple(Share(name, 8) for name in WORKERS))
RIGHTS = ("overlays/standalone/rights.yaml", "components/fleet/rights.yaml")
JOB = ObjectKey(NAMESPACE, "job")


def apply_rights(world: World) -> None:
    for file in RIGHTS:
        for body in yaml.safe_load_all((ROOT / "deploy" / file).read_text()):
            for subject in body.get("subjects", ()):
                subject["namespace"] = LAYOUT.secrets
            is_namespaced = body["kind"] in ("Role", "RoleBinding")
            place = f"/apis/{body['apiVersion']}" + (f"/namespaces/{LAYOUT.secrets}" if is_namespaced else "")
            world.manager.call("POST", f"{place}/{body['kind'].lower()}s", body)


def managed(world: World, name: str) -> None:
    body = {
        "apiVersion": kinds.MANAGED_CLUSTERS.api_version,
        "kind": "ManagedCluster",
        "metadata": {"name": name},
        "spec": {"hubAcceptsClient": True},
    }
    world.manager.create(kinds.MANAGED_CLUSTERS, body)
    conditions = [
        {"type": kind, "status": "True", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T12:00:00Z"}
        for kind, _ in JOINED
    ]
    key = ObjectKey("", name)
    world.manager.patch(kinds.MANAGED_CLUSTERS, key, {"status": {"conditions": conditions}}, subresource="status")


def staged(test: Callable[[World], Awaitable[None]], **fleet: Any) -> Asked:
    """A hub with five clusters, whose workers nobody has registered; their Secrets are there, and the config is the fleet's."""
    asked = Asked()

    async def scenario(world: World, tasks: TaskGroup) -> None:
        world.manager.cluster.install((*definitions.ocm(), *definitions.managed_service_accounts()))
        for name in WORKERS:
            world.manager.delete(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name))
            managed(world, name)
        label = {"metadata": {"labels": {FLEET_LABEL: "multikueue"}}}
        world.manager.patch(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", objects.CONFIG), label)
        apply_rights(world)
        host, user = world.network.hosts[MANAGER], account(LAYOUT.secrets, "multikueue-manager")
        guard(host, world.manager.cluster, "manager-0", user, asked, others=())
        members = FleetMembers(inventory="ocm", config=objects.CONFIG, secret="{cluster}-kubeconfig", **fleet)
        settings = Settings(cluster=Cluster(namespace=LAYOUT.secrets), fleet=members)
        world.add_manager("manager-0", InForce(settings)).begin(tasks)
        await test(world)

    perform(LAYOUT, scenario)
    return asked


def connected(world: World) -> list[str]:
    return [
        each["metadata"]["name"]
        for each in world.manager.all(kinds.MULTIKUEUE_CLUSTERS)
        if any(c["type"] == "Active" and c["status"] == "True" for c in each.get("status", {}).get("conditions", ()))
    ]


def runs_on(world: World) -> list[str]:
    return [name for name, worker in world.workers.items() if worker.site.stored(kinds.JOBS, JOB) is not None]


def leaving(world: World) -> list[str]:
    return [
        each["metadata"]["name"]
        for each in world.manager.all(kinds.MULTIKUEUE_CLUSTERS)
        if LEAVING_ANNOTATION in each["metadata"].get("annotations", {})
    ]


def config(world: World) -> list[str]:
    found = world.manager.stored(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", objects.CONFIG)) or {}
    clusters: list[str] = found["spec"]["clusters"]
    return clusters


async def run_job(world: World) -> str:
    """Where the job runs that has begun."""
    world.manager.create(kinds.JOBS, objects.job(JOB.name, NAMESPACE, queue="main", seconds=3600.0))
    await until(lambda: len(runs_on(world)) == 1)
    return runs_on(world)[0]


def test_clusters_of_the_hub_join_and_one_that_leaves_is_drained_with_its_job_moved() -> None:
    async def test(world: World) -> None:
        await until(lambda: len(connected(world)) == 5, within=30)
        assert config(world) == list(WORKERS)
        first = await run_job(world)

        world.manager.delete(kinds.MANAGED_CLUSTERS, ObjectKey("", first))
        await until(lambda: world.manager.find(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", first)) is None, within=600)
        assert first not in config(world)
        await until(lambda: runs_on(world) not in ([], [first]), within=600)

        managed(world, first)
        await until(lambda: len(connected(world)) == 5, within=120)

    assert staged(test, drain="requeue").refused == set()


def test_a_hub_that_empties_itself_drains_nobody_and_its_jobs_go_on() -> None:
    async def test(world: World) -> None:
        await until(lambda: len(connected(world)) == 5, within=30)
        first = await run_job(world)
        for name in WORKERS:
            world.manager.delete(kinds.MANAGED_CLUSTERS, ObjectKey("", name))
        await anyio.sleep(1800)
        assert leaving(world) == []
        assert runs_on(world) == [first]
        assert len(connected(world)) == 5
        for name in WORKERS[1:]:
            managed(world, name)
        await until(lambda: leaving(world) == ["w1"], within=120)

    assert staged(test, drain="requeue").refused == set()


# A thousand of them. Nobody runs jobs there, so these are API servers alone.

MANY = 1000
MOST_CALLS = 20
"""Of the manager and of a worker together, from the discovery of a worker until it is connected."""


@dataclass
class Calls:
    """An observer of the manager's line."""

    number: int = 0

    def arriving(self, _line: Line, _host: str, _request: Request) -> None:
        self.number += 1

    def arrived(self, _line: Line, _host: str, _request: Request, _answer: Response | Watch) -> None:
        pass


@pytest.mark.timeout(600)
def test_a_thousand_clusters_are_workers_within_a_minute_with_few_calls_each() -> None:
    async def main() -> None:
        random.seed(1)
        world = World(Layout(workers=()), clock=VirtualClock(), seed=1)
        world.manager.cluster.install((*definitions.ocm(), *definitions.managed_service_accounts()))
        world.manager.create(kinds.NAMESPACES, objects.namespace(LAYOUT.secrets))
        for number in range(MANY):
            name = f"w{number}"
            server = ApiServer(
                name, now=world.clock.now, rng=random.Random(number), definitions=definitions.kueue_alone()
            )
            host = world.network.add(name, server.api)
            host.users, host.stranger = {f"Bearer {token(name)}": User("multikueue")}, None
            world.trust(name, token(name))
            managed(world, name)
        members = FleetMembers(inventory="ocm", secret="{cluster}-kubeconfig")
        settings, calls = Settings(cluster=Cluster(namespace=LAYOUT.secrets), fleet=members), Calls()
        async with anyio.create_task_group() as tasks:
            world.add_manager("manager-0", InForce(settings), observer=calls).begin(tasks)
            await until(lambda: len(connected(world)) == MANY, within=60)
            tasks.cancel_scope.cancel()
        assert calls.number <= MANY * MOST_CALLS

    with quickly():
        run(main)
