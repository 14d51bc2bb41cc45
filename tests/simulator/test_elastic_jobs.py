"""Elastic jobs in a world: a batch Job changes its size while it runs, and stays on its worker."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from multikueue.api import kinds
from multikueue.api.kueue.workload import (
    ELASTIC_ANNOTATION,
    PREBUILT_LABEL,
    REPLACES_ANNOTATION,
    SLICE_NAME_ANNOTATION,
    SLICE_REPLACED,
)
from multikueue.api.meta import ObjectKey, render_time
from multikueue.settings import STANDALONE, Cluster, InForce, Role, Settings
from multikueue.settings.tree import BESIDE_KUEUE, Integrations
from multikueue.testing import NOW
from multikueue_simulator.world import objects
from multikueue_simulator.world.processes import Process
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World
from tests.simulator.stage import perform

LAYOUT = Layout(queues=(Share("main", 8),), workers=(Share("w1", 6), Share("w2", 6)))
JOB = ObjectKey(NAMESPACE, "job")
Tree = dict[str, Any]


def in_a_world(test: Callable[[World, TaskGroup], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def wrapped() -> None:
        perform(LAYOUT, test)

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


def beside_kueue(test: Callable[[World, TaskGroup], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The same with a Kueue on the manager cluster, which makes, admits and finishes the slices."""

    def wrapped() -> None:
        perform(replace(LAYOUT, core=True), test)

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


def in_force(*, elastic: bool = True, roles: frozenset[Role] = STANDALONE) -> InForce:
    integrations = Integrations(elastic_jobs=elastic)
    return InForce(Settings(roles=roles, cluster=Cluster(namespace=LAYOUT.secrets), integrations=integrations))


async def until(holds: Callable[[], bool], *, within: float = 120.0) -> None:
    with anyio.fail_after(within):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.25)


async def running(world: World, tasks: TaskGroup, *, parallelism: int = 3, elastic: bool = True) -> None:
    """A manager, and a job of that size that runs on some worker."""
    roles = BESIDE_KUEUE if world.layout.core else STANDALONE
    await world.add_manager("manager-0", in_force(elastic=elastic, roles=roles)).begin(tasks).wait()
    body = objects.job("job", NAMESPACE, queue="main", parallelism=parallelism, seconds=600.0)
    body["spec"]["completions"] = 100
    body["metadata"]["annotations"][ELASTIC_ANNOTATION] = "true"
    world.manager.create(kinds.JOBS, body)
    await until(lambda: active(world) == parallelism)
    assert len(remotes(world)) == 1


def scale(world: World, parallelism: int) -> None:
    world.manager.patch(kinds.JOBS, JOB, {"spec": {"parallelism": parallelism}})


def active(world: World) -> int:
    return int((world.manager.stored(kinds.JOBS, JOB) or {}).get("status", {}).get("active") or 0)


def remotes(world: World) -> dict[str, Tree]:
    return {name: job for name, w in world.workers.items() if (job := w.site.stored(kinds.JOBS, JOB))}


def uids(world: World) -> dict[str, str]:
    """Which job each worker has."""
    return {name: job["metadata"]["uid"] for name, job in remotes(world).items()}


def workloads(world: World) -> list[Tree]:
    return sorted(world.manager.all(kinds.WORKLOADS), key=lambda w: len(w["metadata"].get("annotations", {})))


def ended(workload: Tree) -> str:
    found = (c for c in workload["status"]["conditions"] if c["type"] == "Finished" and c["status"] == "True")
    return next((str(c["reason"]) for c in found), "")


def used(world: World) -> str:
    (queue,) = world.manager.all(kinds.CLUSTER_QUEUES)
    flavors = queue.get("status", {}).get("flavorsReservation") or ()
    return next((str(resource["total"]) for flavor in flavors for resource in flavor["resources"]), "")


@in_a_world
async def test_a_job_scaled_down_keeps_its_workload_and_gives_quota_back(world: World, tasks: TaskGroup) -> None:
    await running(world, tasks)
    (where, before), (was,) = next(iter(remotes(world).items())), workloads(world)
    scale(world, 2)
    await until(lambda: remotes(world)[where]["spec"]["parallelism"] == 2 and used(world) == "2")
    await anyio.sleep(60)
    (workload,) = workloads(world)
    assert workload["metadata"]["uid"] == was["metadata"]["uid"]
    assert workload["spec"]["podSets"][0]["count"] == 2
    (copy,) = world.workers[where].site.all(kinds.WORKLOADS)
    assert (copy["spec"]["podSets"][0]["count"], ended(copy)) == (2, "")
    assert remotes(world).keys() == {where}
    assert remotes(world)[where]["metadata"]["uid"] == before["metadata"]["uid"]


@in_a_world
async def test_a_job_scaled_up_gets_another_slice_on_the_same_worker(world: World, tasks: TaskGroup) -> None:
    await running(world, tasks)
    (where, before), (was,) = next(iter(remotes(world).items())), workloads(world)
    scale(world, 5)
    await until(lambda: active(world) == 5)
    await until(lambda: used(world) == "5")
    old, new = workloads(world)
    assert old["metadata"]["uid"] == was["metadata"]["uid"]
    assert (ended(old), ended(new)) == (SLICE_REPLACED, "")
    assert new["metadata"]["annotations"][REPLACES_ANNOTATION] == f"{NAMESPACE}/{old['metadata']['name']}"
    assert new["metadata"]["annotations"][SLICE_NAME_ANNOTATION] == old["metadata"]["name"]
    assert (new["spec"]["podSets"][0]["count"], new["status"]["clusterName"]) == (5, where)
    after = remotes(world)
    assert after.keys() == {where}
    assert after[where]["metadata"]["uid"] == before["metadata"]["uid"]
    assert after[where]["metadata"]["labels"][PREBUILT_LABEL] == new["metadata"]["name"]
    assert not world.manager.stored(kinds.JOBS, JOB)["spec"].get("suspend")  # type: ignore[index]


@in_a_world
async def test_up_and_up_and_down_again_and_the_end_leaves_nothing(world: World, tasks: TaskGroup) -> None:
    await running(world, tasks, parallelism=1)
    before = uids(world)
    for size in (3, 5, 2, 4):
        scale(world, size)
        await until(lambda size=size: active(world) == size and used(world) == str(size))  # type: ignore[misc]
    assert uids(world) == before
    assert sorted(map(ended, workloads(world))) == ["", *([SLICE_REPLACED] * 3)]
    world.manager.delete(kinds.JOBS, JOB)
    await until(lambda: not workloads(world) and not remotes(world))
    await until(lambda: not any(w.site.all(kinds.WORKLOADS) for w in world.workers.values()))


@in_a_world
async def test_scaled_again_and_again_without_a_pause_it_stays_where_it_is(world: World, tasks: TaskGroup) -> None:
    await running(world, tasks, parallelism=1)
    before = uids(world)
    for pause, size in ((0.01, 2), (0.03, 3), (0.02, 4), (0.04, 5), (0.02, 3), (0.05, 6), (0.01, 4), (0.03, 5)):
        scale(world, size)
        await anyio.sleep(pause)
    await until(lambda: active(world) == 5 and used(world) == "5")
    assert uids(world) == before
    assert {ended(w) for w in workloads(world)} == {"", SLICE_REPLACED}


@in_a_world
async def test_without_quota_for_more_the_job_runs_on_as_it_is(world: World, tasks: TaskGroup) -> None:
    await running(world, tasks)
    scale(world, 9)
    await anyio.sleep(60)
    old, new = workloads(world)
    assert (ended(old), used(world), active(world)) == ("", "3", 3)
    scale(world, 4)
    await until(lambda: active(world) == 4)
    assert [ended(w) for w in workloads(world)] == [SLICE_REPLACED, ""]
    assert workloads(world)[1]["metadata"]["uid"] == new["metadata"]["uid"]


@in_a_world
async def test_without_room_on_the_worker_it_runs_there_with_what_it_has(world: World, tasks: TaskGroup) -> None:
    """Kueue too keeps it on that worker, however much room others have."""
    await running(world, tasks)
    (where,) = remotes(world)
    scale(world, 8)
    await anyio.sleep(60)
    assert (remotes(world)[where]["spec"]["parallelism"], active(world)) == (3, 3)
    assert remotes(world).keys() == {where}


@in_a_world
async def test_a_manager_that_is_killed_at_any_time_goes_on(world: World, tasks: TaskGroup) -> None:
    await running(world, tasks)
    before = uids(world)
    manager = world.managers["manager-0"]
    scale(world, 5)
    for _ in range(8):
        await anyio.sleep(0.02)
        manager.kill()
        await manager.begin(tasks).wait()
    await until(lambda: active(world) == 5)
    assert uids(world) == before
    assert [ended(w) for w in workloads(world)] == [SLICE_REPLACED, ""]


@in_a_world
async def test_a_slice_whose_job_is_gone_before_it_runs_is_admitted_again(world: World, tasks: TaskGroup) -> None:
    """The job at home is not stopped while a slice waits for its turn, so nothing could be copied for it."""
    await running(world, tasks)
    (where,) = remotes(world)
    there = world.workers[where]
    there.kueue.kill()
    scale(world, 5)
    await until(lambda: len(there.site.all(kinds.WORKLOADS)) == 2)
    there.site.delete(kinds.JOBS, JOB)
    await until(lambda: not remotes(world))
    await there.kueue.begin(tasks).wait()
    await until(lambda: active(world) == 5, within=300)
    assert len(remotes(world)) == 1


@beside_kueue
async def test_a_slice_that_is_out_of_step_for_a_moment_costs_nothing(world: World, tasks: TaskGroup) -> None:
    """Real Kueue, where its cache of jobs is behind, finishes a slice that it has just made, and takes that back."""
    await running(world, tasks)
    before = uids(world)
    programs = (world.core, *(worker.kueue for worker in world.workers.values()))
    scale(world, 5)
    await until(lambda: [ended(w) for w in workloads(world)] == [SLICE_REPLACED, ""])
    for each in programs:
        each.kill()  # type: ignore[union-attr]
    (new,) = (w for w in workloads(world) if not ended(w))
    name, conditions = ObjectKey(NAMESPACE, new["metadata"]["name"]), new["status"]["conditions"]
    for seen in ([*conditions, condition("Finished", "OutOfSync")], conditions):
        world.manager.patch(kinds.WORKLOADS, name, {"status": {"conditions": seen}}, subresource="status")
        await anyio.sleep(5)
        assert uids(world) == before
    for each in programs:
        await each.begin(tasks).wait()  # type: ignore[union-attr]
    await until(lambda: active(world) == 5)
    assert uids(world) == before


def condition(type_: str, reason: str) -> Tree:
    return {"type": type_, "status": "True", "reason": reason, "message": "", "lastTransitionTime": render_time(NOW)}


@in_a_world
async def test_an_evicted_slice_stops_the_job_and_gets_it_back(world: World, tasks: TaskGroup) -> None:
    await running(world, tasks)
    scale(world, 5)
    await until(lambda: active(world) == 5)
    name = workloads(world)[1]["metadata"]["name"]
    world.manager.patch(kinds.WORKLOADS, ObjectKey(NAMESPACE, name), {"spec": {"active": False}})
    await until(lambda: not remotes(world) and used(world) == "0")
    world.manager.patch(kinds.WORKLOADS, ObjectKey(NAMESPACE, name), {"spec": {"active": True}})
    await until(lambda: active(world) == 5)
    assert len(remotes(world)) == 1


@in_a_world
async def test_without_the_setting_a_running_job_of_another_size_starts_over(world: World, tasks: TaskGroup) -> None:
    await running(world, tasks, elastic=False)
    (was,) = workloads(world)
    scale(world, 2)
    await until(lambda: active(world) == 2)
    (workload,) = workloads(world)
    assert workload["metadata"]["uid"] != was["metadata"]["uid"]


@beside_kueue
async def test_beside_kueue_a_job_goes_up_and_down_on_its_worker(world: World, tasks: TaskGroup) -> None:
    await running(world, tasks, parallelism=2)
    before = uids(world)
    (where,) = before
    for size in (1, 4, 3, 5):
        scale(world, size)
        await until(lambda size=size: active(world) == size)  # type: ignore[misc]
    await until(
        lambda: remotes(world)[where]["metadata"]["labels"][PREBUILT_LABEL] == current(world)["metadata"]["name"]
    )
    assert uids(world) == before
    assert sorted(map(ended, workloads(world))) == ["", *([SLICE_REPLACED] * 2)]
    assert current(world)["status"]["clusterName"] == where
    world.manager.delete(kinds.JOBS, JOB)
    await until(lambda: not workloads(world) and not remotes(world))


def current(world: World) -> Tree:
    (found,) = (w for w in workloads(world) if not ended(w))
    return found


@pytest.mark.parametrize("core", [False, True], ids=["standalone", "beside Kueue"])
@pytest.mark.parametrize("seed", range(3))
def test_a_story_of_sizes_and_deaths_ends_well(seed: int, core: bool) -> None:
    """Wherever managers and Kueues die, the job stays one, on one worker, and comes to its last size."""
    luck = random.Random(seed)

    async def story(world: World, tasks: TaskGroup) -> None:
        await running(world, tasks, parallelism=2)
        before = uids(world)
        (where,) = before
        programs: list[Process] = [world.managers["manager-0"], world.workers[where].kueue]
        for _ in range(25):
            if luck.random() < 0.3:
                victim = luck.choice(programs)
                victim.kill()
                await anyio.sleep(luck.uniform(0, 2))
                await victim.begin(tasks).wait()
            else:
                scale(world, luck.randint(1, 6))
            await anyio.sleep(luck.choice((0.0, 0.02, 0.05, 0.5, 3.0)))
        scale(world, 4)
        await until(lambda: active(world) == 4, within=900)
        await anyio.sleep(30)
        assert uids(world) == before
        assert current(world)["spec"]["podSets"][0]["count"] == active(world) == 4
        assert current(world)["status"]["clusterName"] == where
        assert {ended(w) for w in workloads(world)} <= {"", SLICE_REPLACED}

    perform(replace(LAYOUT, core=core), story)


# --- scaled below what is over ---------------------------------------------------------------------------------------

SCALED: dict[str, tuple[int, Tree, Tree, Tree, Tree, int]] = {
    "a work queue, below what has succeeded": (4, {}, {"succeeded": 3, "active": 1}, {"parallelism": 2}, {}, 1),
    "indexes, of which those are over that go": (
        5,
        {"completions": 5, "completionMode": "Indexed"},
        {"succeeded": 3, "active": 2, "completedIndexes": "2-4"},
        {"parallelism": 2, "completions": 2},
        {"succeeded": None, "completedIndexes": None},
        2,
    ),
    "completions, to as many pods as still run": (
        6,
        {"completions": 10},
        {"succeeded": 6, "active": 4},
        {"parallelism": 4},
        {},
        4,
    ),
}
"""By sentence: the pods of a job, what else its spec has, its status on the worker, the size it is scaled to, what its
controller then makes of its status, and how many pods run all the time."""


@pytest.mark.parametrize(("pods", "spec", "status", "size", "after", "runs"), SCALED.values(), ids=SCALED)
def test_scaled_below_what_is_over_it_keeps_quota_for_what_runs(
    pods: int, spec: Tree, status: Tree, size: Tree, after: Tree, runs: int
) -> None:
    async def story(world: World, tasks: TaskGroup) -> None:
        await world.add_manager("manager-0", in_force()).begin(tasks).wait()
        body = objects.job("job", NAMESPACE, queue="main", parallelism=pods, seconds=600.0)
        body["spec"] |= {"completions": None} | spec
        body["metadata"]["annotations"][ELASTIC_ANNOTATION] = "true"
        world.manager.create(kinds.JOBS, body)
        await until(lambda: active(world) == pods)
        (where,) = remotes(world)
        there = world.workers[where]
        there.runner.kill()
        there.site.patch(kinds.JOBS, JOB, {"status": {"ready": 0} | status}, subresource="status")
        await until(lambda: used(world) == str(runs))
        world.manager.patch(kinds.JOBS, JOB, {"spec": size})
        await steady(lambda: remotes(world)[where]["spec"]["parallelism"] == size["parallelism"], str(runs), world)
        there.site.patch(kinds.JOBS, JOB, {"status": after}, subresource="status")
        settled = anyio.current_time() + 10
        await steady(lambda: anyio.current_time() > settled, str(runs), world)
        (copy,) = there.site.all(kinds.WORKLOADS)
        for workload in (*workloads(world), copy):
            (pod_set,) = workload["spec"]["podSets"]
            over = {each["name"]: each["count"] for each in workload["status"].get("reclaimablePods", ())}
            assert pod_set["count"] - over.get("main", 0) == runs

    perform(LAYOUT, story)


async def steady(holds: Callable[[], bool], usage: str, world: World) -> None:
    """Until then, usage is never another one."""
    with anyio.fail_after(120):
        while not holds():
            assert used(world) == usage
            await anyio.sleep(0.05)
