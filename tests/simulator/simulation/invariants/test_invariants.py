"""Each invariant is broken by what it forbids, and by nothing that it allows: one file, writes are fed one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import anyio.lowlevel
import pytest

from fakekube.model.storage import Change, Version
from fakekube.model.wire import Object, Request, Response
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.settings import InForce, Settings
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector
from multikueue_simulator.simulation.faults.odd_objects import ROGUE
from multikueue_simulator.simulation.invariants.invariants import Course, Invariants, Write
from multikueue_simulator.simulation.plan.plan import JobPlan, Plan, Replica, Timing
from multikueue_simulator.time import VirtualClock, run
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import MANAGER, NAMESPACE, World

PLAN = Plan(seed=1, timing=Timing(lost=20.0, heartbeat=2.0, call=5.0), jobs=(JobPlan(name="job"),))
RESERVED = "2030-01-01T00:00:05Z"
ATTEMPT = f"{RESERVED}/wl-uid"


def condition(type_: str, status: str = "True", *, since: str = RESERVED, reason: str = "") -> Object:
    return {"type": type_, "status": status, "reason": reason or type_, "message": "", "lastTransitionTime": since}


def workload(*conditions: Object, **status: Any) -> Object:
    """The local workload of the job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job-uid", "controller": True}
    metadata = {"name": "wl", "namespace": NAMESPACE, "uid": "wl-uid", "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"active": True}, "status": {"conditions": list(conditions), **status}}


def reserved(*conditions: Object, cpu: str = "1", **status: Any) -> Object:
    admission = {
        "clusterQueue": "main",
        "podSetAssignments": [{"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": cpu}}],
    }
    return workload(condition("QuotaReserved"), *conditions, admission=admission, **status)


def check(state: str, message: str = "") -> list[Object]:
    return [{"name": objects.CHECK, "state": state, "message": message}]


def won(worker: str = "worker1") -> Object:
    return reserved(admissionChecks=check("Ready"), clusterName=worker)


def remote(name: str = "job", *, ours: bool = True, attempt: str = ATTEMPT, **status: Any) -> Object:
    """A job, or a copy, on a worker."""
    labels = {"kueue.x-k8s.io/multikueue-origin": "multikueue"} if ours else {}
    annotations = {"multikueue.dev/attempt": attempt} if ours else {}
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"{name}-there", "labels": labels}
    return {"metadata": metadata | {"annotations": annotations}, "spec": {}, "status": status}


def done(**status: Any) -> Object:
    return {"conditions": [condition("Complete")], "succeeded": 1, **status}


class Court:
    """Invariants, and writes to break them with. What is written is stored too, unseen by others."""

    def __init__(self, world: World, plan: Plan = PLAN) -> None:
        self.world = world
        self.injector = FaultInjector(world, plan, None)  # type: ignore[arg-type]  # nothing is begun here
        self.invariants = Invariants(world, plan, self.injector, on_violation=lambda: None)

    @property
    def broken(self) -> list[str]:
        return [violation.invariant for violation in self.invariants.violations]

    def write(
        self,
        host: str,
        kind: Kind[Any],
        new: Object,
        *,
        at: float = 5.0,
        by: str = "",
        type_: str = "",
        had: bool = True,
    ) -> None:
        storage, key = f"{kind.plural}.{kind.group}", f"{NAMESPACE}/{new['metadata']['name']}"
        store = self.world.site(host).cluster.storage
        old = store.get(storage, key) if had else None
        version = store.remove(storage, key) if type_ == "DELETED" else store.put(storage, key, new)
        told: Any = type_ or ("ADDED" if old is None else "MODIFIED")
        self.invariants.judge(Write(host, at, Change(told, storage, version, old), by))

    def local(self, new: Object, *, at: float = 5.0) -> None:
        self.write(MANAGER, kinds.WORKLOADS, new, at=at)

    def job(self, worker: str, new: Object | None = None, *, at: float = 5.0, by: str = "manager-0") -> None:
        self.write(worker, kinds.JOBS, new or remote(), at=at, by=by)

    def copy(self, worker: str, *conditions: Object, at: float = 5.0, by: str = "") -> None:
        body = remote("wl")
        body["status"] = {"conditions": list(conditions)}
        self.write(worker, kinds.WORKLOADS, body, at=at, by=by)


@contextmanager
def court(plan: Plan = PLAN) -> Iterator[Court]:
    """Within virtual time, though none passes."""
    made: list[Court] = []

    async def main() -> None:
        world = World(plan.layout, clock=VirtualClock(), seed=1)
        world.apply_fixtures()
        world.add_manager("manager-0", InForce(Settings()))
        for site in world.sites:
            site.cluster.controllers.close()
        made.append(Court(world, plan))
        await anyio.lowlevel.checkpoint()

    run(main)
    yield made[0]


def dispatched(to: Court, worker: str = "worker1") -> None:
    """The workload has quota, its copy is admitted on a worker, and the job is there."""
    to.local(reserved(nominatedClusterNames=["worker1", "worker2", "worker3"]))
    to.copy(worker, condition("Admitted"))
    to.job(worker)


def test_the_main_job_violates_no_invariant() -> None:
    with court() as judge:
        dispatched(judge)
        judge.local(won())
        judge.job("worker1", remote(active=1), by="")
        judge.job("worker1", remote(**done()), by="")
        judge.write(MANAGER, kinds.JOBS, {"metadata": {"name": "job", "uid": "job-uid"}, "spec": {}, "status": done()})
        judge.local(
            reserved(condition("Finished", reason="Succeeded"), admissionChecks=check("Ready"), clusterName="worker1")
        )
        judge.write("worker1", kinds.JOBS, remote(), by="manager-0", type_="DELETED")
    assert judge.broken == []


# --- the manager cluster as a worker ---------------------------------------------------------------------------------

AT_HOME = replace(PLAN, layout=replace(PLAN.layout, home=2))


def here(**status: Any) -> Object:
    """The job of the manager cluster."""
    return {"metadata": {"name": "job", "namespace": NAMESPACE, "uid": "job-uid"}, "spec": {}, "status": status}


def reserved_here(*conditions: Object, flavor: str = objects.HOME_FLAVOR) -> Object:
    made = reserved(*conditions)
    made["status"]["admission"]["podSetAssignments"][0]["flavors"]["cpu"] = flavor
    return made


def test_a_job_that_runs_on_the_manager_cluster_violates_no_invariant() -> None:
    with court(AT_HOME) as judge:
        judge.local(reserved_here(condition("Admitted")))
        judge.write(MANAGER, kinds.JOBS, here(active=1))
        judge.write(MANAGER, kinds.JOBS, here(**done()))
        judge.local(reserved_here(condition("Finished", reason="Succeeded")))
    assert judge.broken == []


def test_a_job_runs_on_the_manager_cluster_or_on_a_worker() -> None:
    with court(AT_HOME) as judge:
        dispatched(judge)
        judge.job("worker1", remote(active=1), by="")
        judge.write(MANAGER, kinds.JOBS, here(active=1), at=6.0)
    assert "twice" in judge.broken
    with court(AT_HOME) as judge:
        judge.local(reserved_here(condition("Admitted")))
        judge.write(MANAGER, kinds.JOBS, here(active=1))
        judge.job("worker1", at=6.0)
    assert judge.broken == ["I1"]


@pytest.mark.parametrize(
    ("local", "expected"),
    [(reserved_here(), []), (reserved_here(flavor="default"), ["quota"]), (workload(), ["quota"])],
    ids=["of its own", "of a worker's", "none"],
)
def test_a_job_runs_on_the_manager_cluster_with_quota(local: Object, expected: list[str]) -> None:
    with court(AT_HOME) as judge:
        judge.local(local)
        judge.write(MANAGER, kinds.JOBS, here(active=1))
    assert judge.broken == expected


def test_a_job_that_runs_on_the_manager_cluster_keeps_its_quota() -> None:
    with court(AT_HOME) as judge:
        judge.local(reserved_here(condition("Admitted")))
        judge.write(MANAGER, kinds.JOBS, here(active=1))
        judge.local(workload(), at=15.0)
    assert judge.broken == ["release"]


def test_a_job_that_has_ended_on_the_manager_cluster_runs_nowhere_again() -> None:
    with court(AT_HOME) as judge:
        judge.local(reserved_here(condition("Admitted")))
        judge.write(MANAGER, kinds.JOBS, here(active=1))
        judge.write(MANAGER, kinds.JOBS, here(**done()), at=6.0)
        judge.job("worker1", at=7.0)
    assert judge.broken == ["twice"]


# --- who wins --------------------------------------------------------------------------------------------------------


def test_i1_a_second_worker_gets_no_job() -> None:
    with court() as judge:
        dispatched(judge)
        judge.job("worker2")
    assert judge.broken == ["I1"]


@pytest.mark.parametrize(
    ("away", "expected"), [(10.0, ["I1"]), (19.5, []), (60.0, [])], ids=["a while", "lost", "long"]
)
def test_i1_unless_the_first_is_lost(away: float, expected: list[str]) -> None:
    with court() as judge:
        dispatched(judge)
        judge.injector.faults.begin("*", "worker1", 6.0)
        judge.job("worker2", at=6.0 + away)
    assert judge.broken == expected


def test_i1_is_about_one_job_not_about_another_of_that_name() -> None:
    with court() as judge:
        dispatched(judge)
        other = workload(condition("QuotaReserved"))
        other["metadata"] |= {
            "name": "wl2",
            "uid": "wl2-uid",
            "ownerReferences": [{"name": "job", "uid": "recreated", "controller": True}],
        }
        judge.local(other)
        judge.job("worker2", remote(attempt=f"{RESERVED}/wl2-uid"))
    assert judge.broken == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (reserved(nominatedClusterNames=["worker2"]), won("worker1")),
        (won("worker2"), won("worker1")),
        (
            reserved(nominatedClusterNames=["worker1"]),
            reserved(nominatedClusterNames=["worker1"], clusterName="worker1"),
        ),
    ],
    ids=["who was not nominated", "from one to another", "beside nominations"],
)
def test_i2_how_nobody_wins(before: Object, after: Object) -> None:
    with court() as judge:
        dispatched(judge)
        judge.local(before)
        judge.invariants.violations.clear()
        judge.local(after)
    assert "I2" in judge.broken


def test_i3_only_who_admitted_this_attempt_wins() -> None:
    with court() as judge:
        judge.local(reserved(nominatedClusterNames=["worker1"]))
        judge.copy("worker1", condition("Admitted", "False"))
        judge.job("worker1")
        judge.local(won())
    assert judge.broken == ["I3"]


def test_i3_somebody_must_have_won() -> None:
    with court() as judge:
        dispatched(judge)
        judge.local(reserved(admissionChecks=check("Ready")))
    assert judge.broken == ["I3"]


def test_i4_the_job_comes_before_the_win() -> None:
    with court() as judge:
        judge.local(reserved(nominatedClusterNames=["worker1"]))
        judge.copy("worker1", condition("Admitted"))
        judge.local(won())
    assert judge.broken == ["I4"]


def test_i4_is_not_asked_of_a_cluster_that_was_restored() -> None:
    with court() as judge:
        judge.injector.restored["worker1"] = 0.0
        judge.local(reserved(nominatedClusterNames=["worker1"]))
        judge.copy("worker1", condition("Admitted"))
        judge.local(won())
    assert judge.broken == []


# --- whose it is -------------------------------------------------------------------------------------------------------


def test_i6_what_is_not_ours_is_not_changed() -> None:
    with court() as judge:
        judge.job("worker1", remote(ours=False), by="")
        judge.job("worker1", remote(ours=False, active=1))
    assert judge.broken == ["I6"]


def test_i6_nor_deleted_nor_anything_else_written() -> None:
    with court() as judge:
        judge.job("worker1", remote(ours=False), by="")
        judge.write("worker1", kinds.JOBS, remote(), by="manager-0", type_="DELETED")
        judge.write("worker1", kinds.SECRETS, remote(), by="manager-0")
    assert judge.broken == ["I6", "I6"]


def test_i7_nothing_is_made_for_a_reservation_that_never_was() -> None:
    with court() as judge:
        judge.copy("worker1", by="manager-0")
    assert judge.broken == ["I7"]


@pytest.mark.parametrize(
    ("after", "fault", "expected"),
    [(3.0, False, []), (30.0, False, ["I7"]), (30.0, True, [])],
    ids=["it is on its way", "it is over for long", "nobody could know"],
)
def test_i7_nor_for_one_that_is_over(after: float, fault: bool, expected: list[str]) -> None:
    with court() as judge:
        judge.local(reserved())
        judge.local(workload(), at=10.0)
        if fault:
            judge.injector.faults.begin("manager-0", MANAGER, 9.0)
        judge.copy("worker1", by="manager-0", at=10.0 + after)
    assert judge.broken == expected


# --- the end of a job --------------------------------------------------------------------------------------------------


FINISHED = reserved(condition("Finished", reason="Succeeded"), admissionChecks=check("Ready"), clusterName="worker1")


def local_job(**status: Any) -> Object:
    return {"metadata": {"name": "job", "namespace": NAMESPACE, "uid": "job-uid"}, "spec": {}, "status": status}


def test_i8_the_job_is_final_first() -> None:
    with court() as judge:
        dispatched(judge)
        judge.write(MANAGER, kinds.JOBS, local_job(active=1))
        judge.local(won())
        judge.local(FINISHED)
    assert judge.broken == ["I8"]


def test_i8_is_not_asked_of_what_somebody_meddled_with() -> None:
    with court() as judge:
        dispatched(judge)
        judge.injector.disturbed.add("job")
        judge.write(MANAGER, kinds.JOBS, local_job(active=1))
        judge.local(won())
        judge.local(FINISHED)
    assert judge.broken == []


def test_the_result_is_that_of_the_worker() -> None:
    with court() as judge:
        dispatched(judge)
        judge.local(won())
        judge.job("worker1", remote(**done(succeeded=3)), by="")
        judge.write(MANAGER, kinds.JOBS, local_job(**done()))
        judge.local(FINISHED)
    assert judge.broken == ["result"]


def test_a_job_that_ended_is_not_made_again() -> None:
    with court() as judge:
        dispatched(judge)
        judge.job("worker1", remote(**done()), by="")
        judge.write("worker1", kinds.JOBS, remote(), by="manager-0", type_="DELETED")
        judge.job("worker2")
    assert judge.broken == ["twice"]


@pytest.mark.parametrize(
    ("left", "by", "ended", "expected"),
    [
        (True, "manager-1", 10.0, []),
        (True, "manager-1", 7.0, ["twice"]),
        (True, "manager-0", 10.0, ["twice"]),
        (False, "manager-1", 10.0, ["twice"]),
    ],
    ids=["it can win no more", "it ended before that", "who dispatches drops it", "it is in the configuration"],
)
def test_what_ends_on_a_worker_that_was_taken_away_before_its_win_is_not_believed(
    left: bool, by: str, ended: float, expected: list[str]
) -> None:
    replicas = (*PLAN.replicas, Replica(name="manager-1", nominates=True))
    with court(replace(PLAN, replicas=replicas)) as judge:
        dispatched(judge)
        if left:
            (config,) = judge.world.manager.all(kinds.MULTIKUEUE_CONFIGS)
            storage = f"{kinds.MULTIKUEUE_CONFIGS.plural}.{kinds.MULTIKUEUE_CONFIGS.group}"
            without = {**config, "spec": {"clusters": ["worker2", "worker3"]}}
            judge.world.manager.cluster.storage.put(storage, config["metadata"]["name"], without)
        if ended < 8.0:
            judge.job("worker1", remote(**done()), by="", at=ended)
        judge.write(MANAGER, kinds.WORKLOADS, reserved(nominatedClusterNames=["worker2"]), at=8.0, by=by)
        if ended > 8.0:
            judge.job("worker1", remote(**done()), by="", at=ended)
        judge.write("worker1", kinds.JOBS, remote(), by="manager-0", type_="DELETED")
        judge.job("worker2", at=11.0)
    assert judge.broken == expected


def test_what_a_reservation_of_the_past_comes_to_is_not_believed() -> None:
    newer = "2030-01-01T00:00:09Z"
    with court() as judge:
        dispatched(judge)
        judge.local(workload(condition("QuotaReserved", "False")), at=8.0)
        admission = reserved()["status"]["admission"]
        judge.local(workload(condition("QuotaReserved", since=newer), admission=admission), at=9.0)
        judge.job("worker1", remote(**done()), by="", at=10.0)
        judge.write("worker1", kinds.JOBS, remote(), by="manager-0", type_="DELETED")
        judge.job("worker2", remote(attempt=f"{newer}/wl-uid"), at=11.0)
    assert "twice" not in judge.broken


@pytest.mark.parametrize("recorded", [{"clusterName": "worker1"}, {}], ids=["it had won", "its job had been asked for"])
def test_what_an_attempt_came_to_that_was_given_up_with_its_worker_is_not_believed(recorded: dict[str, str]) -> None:
    lost = check("Retry", 'Admitting remote lost: worker cluster "worker1" is out of reach for too long')
    with court() as judge:
        dispatched(judge)
        judge.local(won() if recorded else reserved())
        judge.job("worker1", remote(**done()), by="", at=10.0)
        fault = judge.injector.faults.begin("*", "worker1", 10.0)
        judge.local(reserved(admissionChecks=lost, **recorded), at=100.0)
        fault.end = 110.0
        judge.job("worker2", at=200.0)
    assert "twice" not in judge.broken


def test_no_job_runs_twice_at_a_time() -> None:
    with court() as judge:
        dispatched(judge)
        judge.job("worker1", remote(active=1), by="")
        judge.job("worker2", remote(), by="")
        judge.job("worker2", remote(active=1), by="")
    assert judge.broken == ["twice", "counted"]


@pytest.mark.parametrize(("away", "expected"), [(5.0, ["twice"]), (20.0, [])], ids=["away for a while", "lost"])
def test_a_lost_worker_may_begin_again_what_runs_elsewhere(away: float, expected: list[str]) -> None:
    with court() as judge:
        dispatched(judge)
        judge.job("worker1", remote(), by="")
        judge.job("worker2", remote(active=1), by="")
        judge.injector.faults.begin("*", "worker1", 10.0)
        judge.job("worker1", remote(active=1), by="", at=10.0 + away)
    assert judge.broken[:1] == expected


# --- quota, loss, leadership ---------------------------------------------------------------------------------------------


def test_quota_is_not_given_out_twice() -> None:
    with court() as judge:
        judge.local(reserved(cpu="9"))
    assert judge.broken == ["quota"]


def test_pods_that_are_over_count_no_more() -> None:
    with court() as judge:
        for name in ("first", "second"):
            half = reserved(cpu="8", reclaimablePods=[{"name": "main", "count": 1}])
            half["status"]["admission"]["podSetAssignments"][0]["count"] = 2
            half["metadata"] |= {"name": name, "uid": name}
            judge.local(half)
    assert judge.broken == []


def sized(count: int, over: int = 0) -> Object:
    """The local workload with so many pods, of which some gave their quota back."""
    made = reserved(cpu=str(count), reclaimablePods=[{"name": "main", "count": over}] if over else [])
    made["status"]["admission"]["podSetAssignments"][0]["count"] = count
    return made


@pytest.mark.parametrize(
    ("active", "over", "expected"),
    [(2, 1, []), (3, 1, ["counted"]), (1, 3, ["counted"]), (0, 3, [])],
    ids=["as many run as count", "more run", "one runs and none counts", "none runs and none counts"],
)
def test_no_more_pods_run_than_are_counted(active: int, over: int, expected: list[str]) -> None:
    with court() as judge:
        judge.local(sized(3))
        judge.job("worker1", remote(), by="manager-0")
        judge.job("worker1", remote(active=active), by="")
        judge.local(sized(3, over))
    assert [each for each in judge.broken if each == "counted"] == expected


@pytest.mark.parametrize(
    ("core", "active", "expected"),
    [(True, 2, []), (True, 3, ["counted"]), (False, 2, ["counted"])],
    ids=["beside a Kueue", "more than the job has", "where we count ourselves"],
)
def test_a_kueue_does_not_reserve_again_what_was_over_in_an_attempt_before(
    core: bool, active: int, expected: list[str]
) -> None:
    newer = "2030-01-01T00:00:09Z"
    with court(replace(PLAN, layout=replace(PLAN.layout, core=core))) as judge:
        judge.local(sized(2))
        judge.local(workload(condition("QuotaReserved", "False")), at=8.0)
        again = workload(condition("QuotaReserved", since=newer), admission=sized(1)["status"]["admission"])
        again["spec"]["podSets"] = [{"name": "main", "count": 2}]
        judge.local(again, at=9.0)
        judge.job("worker1", remote(attempt=f"{newer}/wl-uid", active=active), by="", at=10.0)
    assert judge.broken == expected


def test_pods_of_all_workers_count_and_those_that_begin_later() -> None:
    with court() as judge:
        judge.local(sized(3, over=1))
        judge.job("worker1", remote(active=1), by="")
        judge.job("worker2", remote(active=1), by="")
        assert "counted" not in judge.broken
        judge.job("worker2", remote(active=2), by="")
    assert "counted" in judge.broken


@pytest.mark.parametrize("excuse", ["disturbed", "lost", "of another attempt", "deactivated", "over"])
def test_pods_that_nobody_can_count_are_not_judged(excuse: str) -> None:
    with court() as judge:
        body = sized(1)
        if excuse == "deactivated":
            body["spec"] = {"active": False}
        if excuse == "over":
            body["status"]["conditions"].append(condition("Finished"))
        judge.local(body)
        if excuse == "disturbed":
            judge.injector.disturbed.add("job")
        if excuse == "lost":
            judge.injector.faults.begin("*", "worker1", 10.0)
        attempt = "another/wl-uid" if excuse == "of another attempt" else ATTEMPT
        judge.job("worker1", remote(attempt=attempt, active=2), by="", at=100.0)
    assert "counted" not in judge.broken


@pytest.mark.parametrize(("total", "expected"), [("0", []), ("3", []), ("-1m", ["counted"])])
@pytest.mark.parametrize("where", ["flavorsReservation", "flavorsUsage"])
def test_no_usage_is_below_zero(where: str, total: str, expected: list[str]) -> None:
    with court() as judge:
        resources = [{"name": "cpu", "total": total}]
        queue = {"metadata": {"name": "main"}, "status": {where: [{"name": "default", "resources": resources}]}}
        judge.write(MANAGER, kinds.CLUSTER_QUEUES, queue, had=False)
    assert judge.broken == expected


def test_a_deactivated_workload_counts_no_more() -> None:
    with court() as judge:
        idle = reserved(cpu="8")
        idle["metadata"] |= {"name": "idle", "uid": "idle"}
        idle["spec"] = {"active": False}
        judge.local(idle)
        judge.local(reserved(cpu="8"))
    assert judge.broken == []


@pytest.mark.parametrize(
    ("active", "since", "woken", "expected"),
    [(1, 5.0, 0.0, ["release"]), (0, 5.0, 0.0, []), (1, 8.5, 0.0, []), (1, 5.0, 8.5, []), (1, 5.0, 6.0, ["release"])],
    ids=["it runs", "it does not", "it runs since a moment", "just awake", "awake for a while"],
)
def test_quota_comes_back_when_nothing_runs(active: int, since: float, woken: float, expected: list[str]) -> None:
    with court() as judge:
        judge.injector.woken = woken
        dispatched(judge)
        judge.job("worker1", remote(active=active), by="", at=since)
        judge.local(workload(condition("QuotaReserved", "False")), at=9.0)
    assert judge.broken == expected


@pytest.mark.parametrize(
    ("acts", "begun", "pods", "expected"),
    [(True, 0.0, 0, ["release"]), (True, 15.0, 0, []), (False, 0.0, 0, []), (False, 0.0, 1, ["release"])],
    ids=["a manager could have told", "it just began", "there is none", "it was told"],
)
def test_a_kueue_gives_quota_back_by_what_the_local_job_was_told(
    acts: bool, begun: float, pods: int, expected: list[str]
) -> None:
    with court(replace(PLAN, layout=replace(PLAN.layout, core=True))) as judge:
        judge.world.managers["manager-0"] = SimpleNamespace(acts=acts, begun=[begun])  # type: ignore[assignment]
        local = {"metadata": {"name": "job", "namespace": NAMESPACE, "uid": "job-uid"}, "status": {"active": pods}}
        judge.write(MANAGER, kinds.JOBS, local)
        dispatched(judge)
        judge.job("worker1", remote(active=1), by="", at=5.0)
        judge.local(workload(condition("QuotaReserved", "False")), at=20.0)
    assert judge.broken == expected


@pytest.mark.parametrize(
    ("conditions", "at", "expected"),
    [((), 6.0, []), ((), 60.0, ["quota"]), ((condition("Evicted"),), 60.0, [])],
    ids=["it may not be known yet", "it stays as it is", "it has to go"],
)
def test_what_a_deactivated_workload_gave_back_is_not_its_own_when_it_is_activated_again(
    conditions: tuple[Object, ...], at: float, expected: list[str]
) -> None:
    with court() as judge:
        for active in (True, False, True):
            idle = reserved(*(conditions if active else ()), cpu="8")
            idle["metadata"] |= {"name": "idle", "uid": "idle"}
            idle["spec"] = {"active": active}
            judge.local(idle, at=5.0)
        judge.local(reserved(cpu="8"), at=at)
    assert judge.broken == expected


@pytest.mark.parametrize("recorded", [{"clusterName": "worker1"}, {}], ids=["it had won", "its job had been asked for"])
@pytest.mark.parametrize(
    ("away", "expected"), [(None, ["I9"]), (5.0, ["I9"]), (25.0, [])], ids=["never", "briefly", "long"]
)
def test_i9_who_counts_as_lost_is_away_for_long(
    away: float | None, expected: list[str], recorded: dict[str, str]
) -> None:
    with court() as judge:
        dispatched(judge)
        judge.local(won() if recorded else reserved())
        if away is not None:
            judge.injector.faults.begin("*", "worker1", 100.0 - away)
        lost = check("Retry", 'Admitting remote lost: worker cluster "worker1" is out of reach for too long')
        judge.local(reserved(admissionChecks=lost, **recorded), at=100.0)
    assert judge.broken == expected


def test_only_who_holds_the_lease_writes() -> None:
    write = Request(method="PATCH", path="/api")

    def lease(holder: str, version: int) -> Write:
        item = {"metadata": {"name": "lease"}, "spec": {"holderIdentity": holder}}
        return Write(
            MANAGER, 10.0, Change("MODIFIED", "leases.coordination.k8s.io", Version(version, "lease", item), None)
        )

    with court() as judge:
        judge.invariants.sent("manager-0", "worker1", write, 100.0)
        judge.invariants.judge(lease("manager-0_0", 1))
        judge.invariants.sent("manager-0", "worker1", write, 100.0)
        judge.invariants.judge(lease("other", 2))
        judge.invariants.sent("manager-0", "worker1", write, 10.5)
        assert judge.broken == []
        judge.invariants.sent("manager-0", "worker1", write, 20.0)
    assert judge.broken == ["leads"]


@pytest.mark.parametrize(
    ("namespace", "why", "broken"),
    [
        (NAMESPACE, "status.message: Too long", ["valid"]),
        (ROGUE, "status.message: Too long", []),
        (NAMESPACE, "metadata.uid: field is immutable", []),
    ],
    ids=["of somebody's", "of the hostile tenant's", "of what was recreated meanwhile"],
)
def test_no_manager_writes_what_is_not_valid(namespace: str, why: str, broken: list[str]) -> None:
    write = Request(method="PATCH", path=f"/apis/batch/v1/namespaces/{namespace}/jobs/job/status")
    with court() as judge:
        judge.invariants.invalid("manager-0", write, Response(status=422, body=why.encode()), 5.0)
        assert judge.broken == broken


def test_clocks_that_differ_are_allowed_for() -> None:
    plan = replace(PLAN, replicas=(replace(PLAN.replicas[0], skew=4.0),))
    with court(plan) as judge:
        dispatched(judge)
        judge.injector.faults.begin("*", "worker1", 6.0)
        judge.job("worker2", at=17.0)
    assert judge.broken == []


def test_the_turn_of_a_job_comes_when_a_worker_has_admitted_it_however_long_it_had_quota() -> None:
    with court() as judge:
        dispatched(judge)
        judge.local(won(), at=9.0)
        judge.job("worker1", remote(**done()), by="")
        judge.write(MANAGER, kinds.JOBS, {"metadata": {"name": "job", "uid": "job-uid"}, "spec": {}, "status": done()})
        over = condition("Finished", reason="Succeeded")
        judge.local(reserved(over, admissionChecks=check("Ready"), clusterName="worker1"), at=12.0)
    assert judge.invariants.courses() == {"job": Course(ended=12.0, admitted=9.0, winner="worker1")}


def running() -> Object:
    body = remote(active=1)
    body["metadata"]["labels"]["kueue.x-k8s.io/prebuilt-workload-name"] = "wl"
    return body


def test_a_winner_may_have_another_name_than_its_worker() -> None:
    with court() as judge:
        judge.injector.aliases["second-name"] = "worker1"
        judge.local(reserved(nominatedClusterNames=["second-name", "worker2"]))
        judge.copy("worker1", condition("Admitted"))
        judge.job("worker1")
        judge.local(won("second-name"))
        judge.job("worker1", running(), by="")
        judge.write("worker1", kinds.JOBS, running(), by="manager-0", type_="DELETED")
    assert judge.broken == ["stays"]


@pytest.mark.parametrize(
    ("local", "by", "broken"),
    [
        (won(), "manager-0", ["stays"]),
        (won(), "", []),
        (won("worker2"), "manager-0", []),
        (reserved(condition("Evicted"), clusterName="worker1"), "manager-0", []),
        (reserved(condition("Finished", reason="Succeeded"), clusterName="worker1"), "manager-0", []),
        (won() | {"spec": {"active": False}}, "manager-0", []),
    ],
    ids=[
        "by a manager where it was won",
        "by somebody else",
        "by a manager where another one won",
        "of an evicted workload",
        "of a finished workload",
        "of a workload that is switched off",
    ],
)
def test_what_runs_is_not_removed(local: Object, by: str, broken: list[str]) -> None:
    with court() as to:
        dispatched(to)
        to.job("worker1", running())
        to.invariants.violations.clear()
        to.write(MANAGER, kinds.WORKLOADS, local, at=6.0)
        to.invariants.violations.clear()
        to.write("worker1", kinds.JOBS, running(), at=7.0, by=by, type_="DELETED")
        assert to.broken == broken


def test_what_becomes_of_a_hostile_tenants_own_is_not_judged_but_nobody_elses_is_touched_for_it() -> None:
    with court() as to:
        mine, theirs = remote(), remote(ours=False)
        for body in (mine, theirs):
            body["metadata"]["namespace"] = ROGUE
        to.job("worker1", mine)
        assert to.broken == []
        to.job("worker1", theirs)
        assert to.broken == ["I6"]
