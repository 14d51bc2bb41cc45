"""Each event does something to the world, and what has an end is undone by it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from fakekube.model.wire import Refused
from fakekube.network.link import State, Weather
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.settings import InForce
from multikueue_simulator.simulation import seen
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector, attempted
from multikueue_simulator.simulation.plan import plan as plans
from multikueue_simulator.simulation.plan.plan import Event, JobPlan, Plan
from multikueue_simulator.simulation.runs.life import settings_of, timings_of
from multikueue_simulator.time import VirtualClock, run
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import MANAGER, NAMESPACE, Layout, Share, World

JOB = JobPlan(name="job0", seconds=300.0)
PLAN = Plan(seed=1, layout=Layout(workers=(Share("w1", 4), Share("w2", 4)), placement=("w1",)), jobs=(JOB,))

HERE: dict[str, Any] = {"job": "job0", "worker": "@job0"}
LASTING: list[Event] = [
    plans.Break(host="w1", state=State.HANG),
    plans.Storm(host="w1", weather=Weather(late=0.5)),
    plans.Outage(host="w1"),
    plans.Outage(host=MANAGER),
    plans.Quota(host="w1", cpu=1),
    plans.Quota(host=MANAGER, cpu=1),
    plans.StopQueue(host="w1", policy="Hold"),
    plans.Revoke(worker="w1", rotated=False),
    plans.RestartKueue(worker="w1"),
    plans.LoseLocalQueue(worker="w1"),
    plans.LeaveConfig(worker="w1"),
    plans.ForgetCluster(worker="w1"),
    plans.LoseSecret(worker="w1"),
    plans.Foreign(job="other", worker="w1"),
    plans.Deactivate(job="job0"),
    plans.Decide(clusters=("w2",)),
]
ENDLESS: list[Event] = [
    plans.Cut(host="w1"),
    plans.Preempt(**HERE),
    plans.DeleteCopy(**HERE),
    plans.DeleteRemoteJob(**HERE),
    plans.TakeOver(**HERE),
    plans.EditCopy(**HERE, what="inactive"),
    plans.EditCopy(**HERE, what="priority"),
    plans.EditCopy(**HERE, what="annotation"),
    plans.DeleteJob(job="job0"),
    plans.Recreate(job="job0"),
    plans.Suspend(job="job0"),
    plans.EditJob(job="job0", what="annotation"),
    plans.EditJob(job="job0", what="parallelism"),
    plans.DeleteWorkload(job="job0"),
    plans.StrategyChange(name="incremental", options={"step": 1}),
]


def name_of(event: Event) -> str:
    return event.describe()


class Scene:
    """A world in which a job runs on a worker."""

    def __init__(self, world: World, injector: FaultInjector) -> None:
        self.world, self.injector = world, injector

    def happen(self, event: Event) -> Callable[[], None] | None:
        return self.injector.do(self.injector.placed(event))

    def picture(self) -> dict[str, Any]:
        """All that somebody could see who knows everything, but for versions and marks of identity."""
        objects = {
            f"{site.name} {storage} {version.key}": _plain(version.object)
            for site in self.world.sites
            for storage in site.cluster.storage.storages()
            for version in site.cluster.storage.select(storage)
        }
        network = self.world.network
        links = {
            f"{source} {site.name}": (link.state, link.weather, link.age if link.state is State.UP else 0)
            for site in self.world.sites
            for source in network.sources(site.name)
            for link in [network.link(source, site.name)]
        }
        users = {name: sorted(host.users) for name, host in network.hosts.items()}
        running = {name: worker.kueue.is_running for name, worker in self.world.workers.items()}
        return {"objects": objects, "links": links, "users": users, "running": running}


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    volatile = ("uid", "resourceVersion", "creationTimestamp", "generation")
    metadata = {key: value for key, value in body["metadata"].items() if key not in volatile}
    if body["kind"] == "MultiKueueCluster":
        metadata.pop("annotations", None)  # a manager notes there what its cluster is
    told = body["kind"] == "PlacementDecision"
    return {key: value for key, value in body.items() if key != "status" or told} | {"metadata": metadata}


def staged(test: Callable[[Scene], Coroutine[Any, Any, None]], plan: Plan = PLAN) -> None:
    """Run the test in a world where the jobs of the plan run already."""

    async def main() -> None:
        world = World(plan.layout, clock=VirtualClock(), seed=1)
        world.apply_fixtures()
        async with anyio.create_task_group() as tasks:
            await world.start(tasks)
            injector = FaultInjector(world, plan, tasks)
            for job in plan.jobs:
                injector.submit(job)
            world.add_manager("manager-0", InForce(settings_of(plan, plan.replicas[0]), timings_of(plan))).begin(tasks)
            await anyio.sleep(5)
            await test(Scene(world, injector))
            tasks.cancel_scope.cancel()

    run(main)


@pytest.mark.parametrize("event", LASTING, ids=name_of)
def test_what_has_an_end_is_as_it_was_afterwards(event: Event) -> None:
    async def body(scene: Scene) -> None:
        before = scene.picture()
        undo = scene.happen(event)
        assert scene.picture() != before
        assert undo is not None
        undo()
        after = scene.picture()
        before.pop("links")
        assert all(state is State.UP for state, _, _ in after.pop("links").values())
        assert after == before

    staged(body)


@pytest.mark.parametrize("event", ENDLESS, ids=name_of)
def test_other_events_leave_their_mark(event: Event) -> None:
    async def body(scene: Scene) -> None:
        before = scene.picture()
        if isinstance(event, plans.Preempt):
            (copy,) = (w for site in scene.world.sites[1:] for w in site.all(kinds.WORKLOADS))
            assert not seen.is_true(copy, "Evicted")
            scene.happen(event)
            (copy,) = (w for site in scene.world.sites[1:] for w in site.all(kinds.WORKLOADS))
            assert seen.is_true(copy, "Evicted")
            return
        scene.happen(event)
        assert scene.picture() != before

    staged(body)


def test_every_kind_of_event_is_tried_here_or_has_a_test_of_its_own() -> None:
    kinds_of_events = {k for name in plans.__all__ if issubclass(k := getattr(plans, name), Event)}
    own = {
        Event,
        plans.Adversity,
        plans.Compact,
        plans.Restore,
        plans.SlowAdmission,
        plans.Crash,
        plans.Stop,
        plans.Freeze,
    }
    assert kinds_of_events - {type(event) for event in (*LASTING, *ENDLESS)} == own


def test_a_restored_cluster_is_as_it_was_and_forgot_what_came_after() -> None:
    async def body(scene: Scene) -> None:
        site, restore = scene.world.site("w1"), plans.Restore(host="w1", age=1.0)
        scene.injector.back_up(restore)
        then = site.all(kinds.CLUSTER_QUEUES)
        scene.happen(plans.Quota(host="w1", cpu=1))
        version = site.cluster.storage.rv
        undo = scene.happen(restore)
        assert undo is not None
        undo()
        assert site.all(kinds.CLUSTER_QUEUES) == then
        assert site.cluster.storage.rv < version
        assert "job0" in scene.injector.disturbed

    staged(body)


@pytest.mark.parametrize(
    "event",
    [
        plans.Quota(host="w1", cpu=1),
        plans.StopQueue(host="w1", policy="Hold"),
        plans.LoseLocalQueue(worker="w1"),
        plans.Foreign(job="other", worker="w1"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_a_backup_has_wrong_is_set_right_again(event: Event) -> None:
    async def body(scene: Scene) -> None:
        site, restore = scene.world.site("w1"), plans.Restore(host="w1", age=1.0)

        def specs() -> dict[ObjectKey, Any]:
            found = (body for kind in (kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES, kinds.JOBS) for body in site.all(kind))
            return {seen.key(body): body["spec"] for body in found}

        before = specs()
        wrong = scene.happen(event)
        assert specs() != before
        scene.injector.back_up(restore)
        down = scene.happen(restore)
        assert wrong is not None
        assert down is not None
        wrong()
        down()
        assert specs() == before

    staged(body)


def test_a_stranger_takes_back_their_own_thing_only() -> None:
    async def body(scene: Scene) -> None:
        site = scene.world.site("w1")
        undo = scene.happen(plans.Foreign(job="other", worker="w1"))
        assert undo is not None
        undo()
        other = site.create(kinds.JOBS, objects.job("other", NAMESPACE, queue=None, seconds=1))
        undo()
        assert site.stored(kinds.JOBS, seen.key(other)) is not None

    staged(body)


def test_a_compacted_cluster_makes_watchers_list_again() -> None:
    async def body(scene: Scene) -> None:
        scene.happen(plans.Compact(host="w1"))
        with pytest.raises(Exception, match="too old resource version"):
            scene.world.site("w1").cluster.storage.since("jobs.batch", 1)

    staged(body)


def test_a_slow_worker_takes_its_time_to_admit() -> None:
    plan = Plan(seed=1, layout=Layout(workers=(Share("w1", 4),)), jobs=())

    async def body(scene: Scene) -> None:
        undo = scene.happen(plans.SlowAdmission(worker="w1", seconds=8.0))
        scene.injector.submit(JobPlan(name="late", seconds=100.0))
        await anyio.sleep(6)
        assert scene.world.site("w1").all(kinds.JOBS) == []
        await anyio.sleep(6)
        assert len(scene.world.site("w1").all(kinds.JOBS)) == 1
        assert undo is not None
        undo()
        scene.injector.submit(JobPlan(name="soon", seconds=100.0))
        await anyio.sleep(2)
        assert len(scene.world.site("w1").all(kinds.JOBS)) == 2

    staged(body, plan)


def test_the_last_worker_does_not_leave_the_config() -> None:
    async def body(scene: Scene) -> None:
        assert scene.happen(plans.LeaveConfig(worker="w1")) is not None
        assert scene.happen(plans.LeaveConfig(worker="w2")) is None

    staged(body)


def test_what_cannot_be_done_is_refused_or_does_nothing() -> None:
    async def body(scene: Scene) -> None:
        before = scene.picture()
        with pytest.raises(Refused, match="not found"):
            scene.happen(plans.DeleteJob(job="nobody"))
        for event in (
            plans.Preempt(job="nobody", worker="w1"),
            plans.EditCopy(job="nobody", worker="w1", what="priority"),
        ):
            assert scene.happen(event) is None
        assert scene.happen(plans.Foreign(**HERE)) is None, "the name is taken"
        assert scene.picture() == before

    staged(body)


@pytest.mark.parametrize(
    "lost", [plans.ForgetCluster(worker="w1"), plans.LoseSecret(worker="w1")], ids=lambda event: type(event).__name__
)
def test_what_is_lost_twice_is_no_trouble_once_it_is_back(lost: Event) -> None:
    async def body(scene: Scene) -> None:
        undo = scene.happen(lost)
        with pytest.raises(Refused, match="not found"):
            scene.happen(lost)
        assert undo is not None
        undo()
        assert all(fault.end is not None for fault in scene.injector.faults.all)

    staged(body)


def test_who_was_deactivated_is_activated_though_the_job_has_another_workload_by_then() -> None:
    async def body(scene: Scene) -> None:
        (first,) = scene.world.manager.all(kinds.WORKLOADS)
        undo = scene.happen(plans.Deactivate(job=seen.owner(first)))
        assert undo is not None
        names = {"name": "another", "ownerReferences": first["metadata"]["ownerReferences"]}
        scene.world.manager.create(kinds.WORKLOADS, {**first, "metadata": {"namespace": NAMESPACE} | names})
        undo()
        (now,) = (body for body in scene.world.manager.all(kinds.WORKLOADS) if seen.key(body) == seen.key(first))
        assert now["spec"]["active"]

    staged(body)


def test_an_outage_goes_before_a_break_and_leaves_it_when_it_is_over() -> None:
    async def body(scene: Scene) -> None:
        link = scene.world.network.link("manager-0", "w1")
        unbreak = scene.happen(plans.Break(host="w1", state=State.MUTE))
        light = scene.happen(plans.Outage(host="w1"))
        assert link.state is State.REFUSE
        assert light is not None
        light()
        assert link.state is State.MUTE
        assert unbreak is not None
        unbreak()
        assert link.state is State.UP

    staged(body)


def test_a_job_that_is_recreated_is_another_one() -> None:
    async def body(scene: Scene) -> None:
        site = scene.world.manager
        (old,) = site.all(kinds.JOBS)
        undo = scene.happen(plans.Recreate(job="job0"))
        assert site.all(kinds.JOBS) == []
        assert "job0" in scene.injector.deleted
        assert undo is not None
        undo()
        (new,) = site.all(kinds.JOBS)
        assert (new["metadata"]["name"], new["metadata"]["namespace"]) == ("job0", NAMESPACE)
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        assert scene.injector.deleted == set()

    staged(body)


def test_a_token_that_is_taken_again_ends_all_refusals() -> None:
    async def test(scene: Scene) -> None:
        first = scene.happen(plans.Revoke(worker="w1", rotated=True))
        second = scene.happen(plans.Revoke(worker="w1", rotated=True))
        assert first is not None
        assert second is not None
        first()
        assert all(fault.end is not None for fault in scene.injector.faults.all)
        second()

    staged(test)


def test_what_is_too_deep_to_be_read_cannot_be_changed() -> None:
    """A hostile worker has such copies (seed 14832)."""

    def too_deep() -> None:
        raise RecursionError

    assert attempted(too_deep) is None
