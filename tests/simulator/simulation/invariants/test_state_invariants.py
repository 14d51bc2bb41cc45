"""The invariants about states, looked at in worlds that somebody brought out of order."""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from fakekube.model.wire import Object
from multikueue.api import kinds
from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION, ORIGIN_LABEL
from multikueue.api.meta import ObjectKey
from multikueue.quota.capacity.spend import SPEND_LIMIT_REACHED
from multikueue.settings import InForce
from multikueue_simulator.simulation.faults.adversary_injector import AdversaryInjector
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector
from multikueue_simulator.simulation.faults.odd_objects import ROGUE
from multikueue_simulator.simulation.invariants.state_invariants import StateInvariants
from multikueue_simulator.simulation.plan.plan import JobPlan, Plan, Timing
from multikueue_simulator.simulation.runs.life import settings_of, timings_of
from multikueue_simulator.time import VirtualClock, run
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import MANAGER, NAMESPACE, Layout, Share, World

PLAN = Plan(
    seed=1,
    layout=Layout(workers=(Share("w1", 2), Share("w2", 2))),
    timing=Timing(lost=1000.0, heartbeat=1.0),
    jobs=(JobPlan(name="job0", seconds=500.0),),
)


class Watch:
    """A world in which a job runs, and a manager that can be put out of action so that nothing is repaired."""

    def __init__(self, tasks: TaskGroup, plan: Plan) -> None:
        self.broken: list[str] = []
        self.world = World(plan.layout, clock=VirtualClock(), seed=1)
        self.injector = FaultInjector(self.world, plan, tasks)
        adversary_injector = AdversaryInjector(
            self.world, self.injector, lambda invariant, _text: self.broken.append(invariant)
        )
        self.states = StateInvariants(
            self.world,
            plan,
            self.injector,
            adversary_injector,
            lambda invariant, _at, _text: self.broken.append(invariant),
        )
        self.tasks = tasks
        self.manager = self.world.add_manager(
            "manager-0", InForce(settings_of(plan, plan.replicas[0]), timings_of(plan))
        )

    async def look(self, seconds: float) -> None:
        for _ in range(int(seconds / 2)):
            await anyio.sleep(2)
            self.states.look(anyio.current_time())

    def blind(self) -> None:
        """From now on the manager acts, as far as anybody can see, and does nothing."""
        for site in self.world.sites:
            link = self.world.network.link("manager-0", site.name)
            link.weather = replace(link.weather, lost_request=1.0)
            link.cut()

    def workload(self) -> Object:
        (found,) = self.world.manager.all(kinds.WORKLOADS)
        return found

    @property
    def winner(self) -> str:
        return str(self.workload()["status"]["clusterName"])

    @property
    def loser(self) -> str:
        return next(name for name in self.world.workers if name != self.winner)


def watching(test: Callable[[Watch], Coroutine[Any, Any, None]], plan: Plan = PLAN) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            watch = Watch(tasks, plan)
            watch.world.apply_fixtures()
            await watch.world.start(tasks)
            for job in plan.jobs:
                watch.injector.submit(job)
            watch.manager.begin(tasks)
            await watch.look(30)
            await test(watch)
            tasks.cancel_scope.cancel()

    run(main)


def test_what_goes_well_violates_no_invariant() -> None:
    async def body(watch: Watch) -> None:
        await watch.look(60)
        assert watch.broken == []

    watching(body)


def test_a_copy_that_a_loser_keeps_is_noticed() -> None:
    async def body(watch: Watch) -> None:
        watch.blind()
        copy = watch.world.site(watch.winner).all(kinds.WORKLOADS)[0]
        metadata = {key: copy["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
        kind = {"apiVersion": copy["apiVersion"], "kind": copy["kind"]}
        body = {**kind, "metadata": metadata, "spec": copy["spec"]}
        watch.world.site(watch.loser).create(kinds.WORKLOADS, body)
        await watch.look(4)
        assert set(watch.broken) == {"losers"}

    watching(body)


def test_what_runs_on_the_manager_cluster_leaves_nothing_on_workers() -> None:
    async def body(watch: Watch) -> None:
        assert watch.world.manager.all(kinds.JOBS)[0]["status"]["active"] == 1
        assert watch.broken == []
        watch.blind()
        metadata: Object = {"name": watch.workload()["metadata"]["name"], "namespace": NAMESPACE}
        marks = {ATTEMPT_ANNOTATION: f"earlier/{watch.workload()['metadata']['uid']}"}
        metadata |= {"labels": {ORIGIN_LABEL: "multikueue"}, "annotations": marks}
        copy = {"apiVersion": kinds.WORKLOADS.api_version, "kind": kinds.WORKLOADS.kind, "metadata": metadata}
        watch.world.site("w1").create(kinds.WORKLOADS, copy | {"spec": watch.workload()["spec"]})
        await watch.look(4)
        assert set(watch.broken) == {"losers"}

    watching(body, replace(PLAN, layout=replace(PLAN.layout, home=1)))


def test_a_winner_that_does_not_admit_any_more_is_noticed() -> None:
    async def body(watch: Watch) -> None:
        watch.blind()
        site, key = watch.world.site(watch.winner), ObjectKey(NAMESPACE, watch.workload()["metadata"]["name"])
        site.patch(kinds.WORKLOADS, key, {"spec": {"active": False}})
        await watch.look(8)
        assert watch.broken == [], "that may be news still"
        await watch.look(10)
        assert set(watch.broken) == {"I3"}

    watching(body)


HUGE = JobPlan(name="huge", cpu=6, room="w1", room_at=90.0)


@pytest.mark.parametrize("is_held", [False, True], ids=["gives way", "holds on"])
def test_what_fits_no_worker_gives_way_and_says_so(monkeypatch: pytest.MonkeyPatch, is_held: bool) -> None:
    if is_held:
        monkeypatch.setattr("multikueue.workload.phases.can_fit_nowhere", lambda _group: False)

    async def body(watch: Watch) -> None:
        await watch.look(70)
        assert set(watch.broken) == ({"fits"} if is_held else set())

    watching(body, replace(PLAN, jobs=(HUGE,)))


def test_what_ran_while_somebody_raised_a_quota_need_not_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.workload.phases.can_fit_nowhere", lambda _group: False)

    async def body(watch: Watch) -> None:
        key = ObjectKey(NAMESPACE, watch.workload()["metadata"]["name"])
        stamp = watch.workload()["status"]["conditions"][0]["lastTransitionTime"]
        over = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": stamp}
        conditions = [*watch.workload()["status"]["conditions"], over]
        watch.world.manager.patch(kinds.WORKLOADS, key, {"status": {"conditions": conditions}}, subresource="status")
        await watch.look(70)
        assert "fits" not in watch.broken

    watching(body, replace(PLAN, jobs=(HUGE,)))


def test_what_fits_and_has_not_ended_beside_what_fits_nowhere_is_noticed() -> None:
    async def body(watch: Watch) -> None:
        await watch.look(70)
        assert watch.broken == ["fits"]

    watching(body, replace(PLAN, jobs=(HUGE, *PLAN.jobs)))


def test_what_is_evicted_and_runs_on_is_noticed() -> None:
    async def body(watch: Watch) -> None:
        watch.blind()
        key = ObjectKey(NAMESPACE, watch.workload()["metadata"]["name"])
        evicted = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": ""}
        stamp = {"lastTransitionTime": watch.workload()["status"]["conditions"][0]["lastTransitionTime"]}
        conditions = [*watch.workload()["status"]["conditions"], evicted | stamp]
        watch.world.manager.patch(kinds.WORKLOADS, key, {"status": {"conditions": conditions}}, subresource="status")
        await watch.look(4)
        assert "stops" in watch.broken

    watching(body)


def test_a_worker_that_is_away_for_too_long_and_not_given_up_is_noticed() -> None:
    plan = replace(PLAN, timing=replace(PLAN.timing, lost=10.0))

    async def body(watch: Watch) -> None:
        watch.blind()
        watch.injector.faults.begin("*", watch.winner, anyio.current_time())
        await watch.look(30)
        assert watch.broken == []
        await watch.look(10)
        assert set(watch.broken) == {"overdue"}

    watching(body, plan)


def test_nothing_is_asked_while_there_is_trouble_or_nobody_acts() -> None:
    async def body(watch: Watch) -> None:
        watch.injector.faults.begin("*", MANAGER, anyio.current_time())
        watch.blind()
        site, key = watch.world.site(watch.winner), ObjectKey(NAMESPACE, watch.workload()["metadata"]["name"])
        site.patch(kinds.WORKLOADS, key, {"spec": {"active": False}})
        await watch.look(60)
        assert watch.broken == []

    watching(body)


@pytest.mark.parametrize(("nominated", "expected"), [(1, []), (2, ["rounds"])], ids=["one", "two at once"])
def test_rounds_bring_so_many_and_no_more(nominated: int, expected: list[str]) -> None:
    """Another manager's nominations, as it were: this one is blind."""
    options = {"step": 1, "round_length": "300s"}
    plan = replace(PLAN, strategy="incremental", options=options, jobs=())

    async def body(watch: Watch) -> None:
        for name in watch.world.workers:  # it is to wait
            stopped = {"spec": {"stopPolicy": "Hold"}}
            watch.world.site(name).patch(kinds.CLUSTER_QUEUES, ObjectKey("", name), stopped)
        watch.injector.submit(JobPlan(name="job0"))
        await watch.look(10)
        watch.blind()
        key = ObjectKey(NAMESPACE, watch.workload()["metadata"]["name"])
        names = list(watch.world.workers)[:nominated]
        watch.world.manager.patch(
            kinds.WORKLOADS, key, {"status": {"nominatedClusterNames": names}}, subresource="status"
        )
        await watch.look(4)
        assert sorted(set(watch.broken)) == expected

    watching(body, plan)


# --- in the end ------------------------------------------------------------------------------------------------------


def test_all_is_settled_when_everything_has_ended_and_nothing_is_left() -> None:
    async def body(watch: Watch) -> None:
        assert watch.states.unsettled(anyio.current_time()) == "job job0 has not ended"
        await watch.look(600)
        assert watch.states.unsettled(anyio.current_time()) == ""
        watch.states.at_the_end(anyio.current_time())
        assert watch.broken == []

    watching(body)


def test_what_is_left_over_is_named() -> None:
    plan = replace(PLAN, jobs=(JobPlan(name="job0"),))

    async def body(watch: Watch) -> None:
        ours = objects.job("left", NAMESPACE, queue=None)
        ours["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] = "multikueue"
        watch.blind()
        watch.world.site("w2").create(kinds.JOBS, ours)
        assert watch.states.unsettled(anyio.current_time()) == "w2 still has Job left of ours"
        watch.world.site("w2").delete(kinds.JOBS, ObjectKey(NAMESPACE, "left"))
        watch.manager.kill()
        await watch.look(4)
        assert watch.states.unsettled(anyio.current_time()) == "nobody leads for long enough"

    watching(body, plan)


def test_a_job_that_is_gone_without_anybody_deleting_it_is_lost() -> None:
    async def body(watch: Watch) -> None:
        watch.world.manager.delete(kinds.JOBS, ObjectKey(NAMESPACE, "job0"))
        watch.states.at_the_end(anyio.current_time())
        assert watch.broken == ["lost"]
        watch.injector.deleted.add("job0")
        watch.states.at_the_end(anyio.current_time())
        assert watch.broken == ["lost"]

    watching(body)


def test_what_users_of_workers_have_of_their_own_is_there_in_the_end() -> None:
    async def body(watch: Watch) -> None:
        site = watch.world.site("w1")
        own = site.create(kinds.JOBS, objects.job("own", NAMESPACE, queue=None, managed=False))
        watch.injector.foreign["w1", "jobs", "own"] = own
        watch.states.at_the_end(anyio.current_time())
        assert watch.broken == []
        site.delete(kinds.JOBS, ObjectKey(NAMESPACE, "own"))
        await watch.look(2)
        watch.states.at_the_end(anyio.current_time())
        assert watch.broken == ["I6"]

    watching(body)


def put_odd_workload(watch: Watch, *conditions: str) -> None:
    """A workload of the hostile tenant with these conditions, made of the one that is there."""
    odd = copy.deepcopy(watch.workload())
    odd["metadata"] = {"name": "odd", "namespace": ROGUE, "ownerReferences": odd["metadata"]["ownerReferences"]}
    watch.world.manager.create(kinds.NAMESPACES, objects.namespace(ROGUE))
    watch.world.manager.create(kinds.WORKLOADS, odd)
    since = {"status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2030-01-01T00:00:00Z"}
    body = {"status": {"conditions": [{"type": each, **since} for each in conditions]}}
    watch.world.manager.patch(kinds.WORKLOADS, ObjectKey(ROGUE, "odd"), body, subresource="status")


@pytest.mark.parametrize(
    ("conditions", "spends"),
    [(("QuotaReserved",), True), ((), False), (("QuotaReserved", "Finished"), False)],
    ids=["it holds quota", "it waits", "it is over"],
)
def test_a_job_of_the_hostile_tenant_that_does_not_end_spends(conditions: tuple[str, ...], spends: bool) -> None:
    async def body(watch: Watch) -> None:
        watch.blind()
        put_odd_workload(watch, *conditions)
        paths = {path.rpartition("v1beta2/")[2] for path in watch.states.spending()}
        assert paths == (
            {"namespaces/rogue/localqueues/rogue/status", "clusterqueues/rogue/status"} if spends else set()
        )

    watching(body)


def test_a_queue_above_its_limit_of_spend_will_be_within_it_again() -> None:
    async def body(watch: Watch) -> None:
        watch.blind()
        over = {"type": SPEND_LIMIT_REACHED, "status": "True", "reason": "OverLimit", "message": "m"}
        (queue,) = watch.world.manager.all(kinds.CLUSTER_QUEUES)
        name = queue["metadata"]["name"]
        patch = {"status": {"conditions": [over | {"lastTransitionTime": "2030-01-01T00:00:00Z"}]}}
        watch.world.manager.patch(kinds.CLUSTER_QUEUES, ObjectKey("", name), patch, subresource="status")
        assert {path.rpartition("v1beta2/")[2] for path in watch.states.spending()} == {f"clusterqueues/{name}/status"}

    watching(body)


def test_nothing_is_settled_while_a_job_of_the_hostile_tenant_still_has_to_stop() -> None:
    plan = replace(PLAN, jobs=(JobPlan(name="job0"),))

    async def body(watch: Watch) -> None:
        await watch.look(30)
        assert watch.states.unsettled(anyio.current_time()) == ""
        watch.blind()
        put_odd_workload(watch, "QuotaReserved", "Evicted")
        assert watch.states.unsettled(anyio.current_time()) == "the job of workload odd still has to stop"

    watching(body, plan)
