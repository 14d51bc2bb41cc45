"""The drill of docs/backup.md: the manager cluster is lost, and a new one is made of a backup of its manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from fakekube.model.wire import Object
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.settings import Cluster, InForce, Settings
from multikueue_simulator.time import VirtualClock, run
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import NAMESPACE, ClusterHandle, Layout, Share, World

LAYOUT = Layout(queues=(Share("main", 8),), workers=(Share("w1", 4), Share("w2", 4)))

CONFIGURED = (
    kinds.NAMESPACES,
    kinds.RESOURCE_FLAVORS,
    kinds.MULTIKUEUE_CLUSTERS,
    kinds.MULTIKUEUE_CONFIGS,
    kinds.ADMISSION_CHECKS,
    kinds.CLUSTER_QUEUES,
    kinds.LOCAL_QUEUES,
    kinds.SECRETS,
)
"""What is backed up beside jobs, in the order of its restoration."""

GIVEN = ("name", "namespace", "labels", "annotations")
"""The metadata of a manifest."""


def manifests(site: ClusterHandle, kind: Kind[Any]) -> list[Object]:
    """Objects as a backup of manifests has them: what the server gives is left out, and the status too."""
    found = site.all(kind)
    heads = [{key: each["metadata"][key] for key in GIVEN if key in each["metadata"]} for each in found]
    bodies = [{key: each[key] for key in each if key not in ("metadata", "status")} for each in found]
    return [{**body, "metadata": head} for body, head in zip(bodies, heads, strict=True)]


def without_uids(job: Object) -> Object:
    """What Kubernetes made of the old UID would be refused: a backup leaves it out."""
    spec = {key: each for key, each in job["spec"].items() if key != "selector"}
    labels = spec["template"]["metadata"].get("labels", {})
    own = {key: value for key, value in labels.items() if not key.endswith(("controller-uid", "job-name"))}
    return {**job, "spec": {**spec, "template": {**spec["template"], "metadata": {"labels": own}}}}


def running(world: World) -> list[tuple[str, str]]:
    """Name and UID of each job that has pods on a worker."""
    jobs = [job["metadata"] for w in world.workers.values() for job in w.site.all(kinds.JOBS) if is_active(job)]
    return [(meta["name"], meta["uid"]) for meta in jobs]


def is_active(job: Object) -> bool:
    return bool(job.get("status", {}).get("active"))


def complete(world: World) -> set[str]:
    return {
        job["metadata"]["name"]
        for job in world.manager.all(kinds.JOBS)
        if any(each["type"] == "Complete" for each in job.get("status", {}).get("conditions", ()))
    }


@dataclass(slots=True)
class Seen:
    """`most`: on how many workers each job ran at once; `starts`: the UIDs of what was started for it."""

    most: Counter[str] = field(default_factory=Counter)
    starts: dict[str, set[str]] = field(default_factory=dict)

    async def watch(self, world: World) -> None:
        while True:
            now = running(world)
            self.most |= Counter(name for name, _ in now)
            for name, uid in now:
                self.starts.setdefault(name, set()).add(uid)
            await anyio.sleep(0.05)


async def lose(tasks: TaskGroup, away: float, restore: Callable[[World], Callable[[], None]]) -> tuple[World, Seen]:
    """Four jobs of two CPUs run and two wait; then the manager and its cluster are lost for `away` seconds. `restore` makes the
    backup, and answers what makes a cluster of it, once there is an empty one."""
    world, seen = World(LAYOUT, clock=VirtualClock(), seed=1), Seen()
    empty = world.manager.cluster.storage.backup()
    world.apply_fixtures()
    await world.start(tasks)
    in_force = InForce(Settings(cluster=Cluster(namespace=LAYOUT.secrets)))
    first = world.add_manager("manager-0", in_force)
    await first.begin(tasks).wait()
    for number in range(6):
        world.manager.create(kinds.JOBS, objects.job(f"job-{number}", NAMESPACE, queue="main", cpu=2, seconds=300))
    tasks.start_soon(seen.watch, world)
    await anyio.sleep(60)
    assert len(running(world)) == 4

    restored = restore(world)
    first.kill()
    world.manager.cluster.storage.restore(empty)
    await anyio.sleep(away)
    assert world.manager.all(kinds.JOBS) == []
    restored()
    await world.add_manager("manager-1", in_force).begin(tasks).wait()
    return world, seen


def from_manifests(world: World, *, with_jobs: bool = True) -> Callable[[], None]:
    jobs = [without_uids(job) for job in manifests(world.manager, kinds.JOBS)] if with_jobs else []
    kept = [(kind, body) for kind in CONFIGURED for body in manifests(world.manager, kind)]

    def restored() -> None:
        there = {each["metadata"]["name"] for each in world.manager.all(kinds.NAMESPACES)}
        for kind, body in [*kept, *((kinds.JOBS, job) for job in jobs)]:
            if kind is not kinds.NAMESPACES or body["metadata"]["name"] not in there:
                world.manager.create(kind, body)

    return restored


def from_snapshot(world: World) -> Callable[[], None]:
    snapshot = world.manager.cluster.storage.backup()
    return lambda: world.manager.cluster.storage.restore(snapshot)


async def all_end(world: World) -> None:
    with anyio.fail_after(3600):
        while len(complete(world)) < 6:  # noqa: ASYNC110
            await anyio.sleep(1)


AWAY = pytest.mark.parametrize("away", [5.0, 100.0, 600.0], ids=["at once", "while they run", "after they ended"])


@AWAY
def test_jobs_of_a_backup_of_manifests_begin_again_and_never_run_on_two_workers(away: float) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            world, seen = await lose(tasks, away, from_manifests)
            await all_end(world)
            assert max(seen.most.values()) == 1
            assert sorted(len(uids) for uids in seen.starts.values()) == [1, 1, 2, 2, 2, 2]
            tasks.cancel_scope.cancel()

    run(main)


@AWAY
def test_jobs_of_a_snapshot_of_etcd_go_on(away: float) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            world, seen = await lose(tasks, away, from_snapshot)
            await all_end(world)
            assert [len(uids) for uids in seen.starts.values()] == [1] * 6
            tasks.cancel_scope.cancel()

    run(main)


def test_what_no_backup_has_is_removed_from_workers() -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            world, _ = await lose(tasks, 5.0, partial(from_manifests, with_jobs=False))
            await anyio.sleep(180)
            for worker in world.workers.values():
                assert (worker.site.all(kinds.JOBS), worker.site.all(kinds.WORKLOADS)) == ([], [])
            tasks.cancel_scope.cancel()

    run(main)
