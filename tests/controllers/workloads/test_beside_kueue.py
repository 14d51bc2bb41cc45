"""Beside Kueue, over clusters in memory, one file: what we write, in whose name, and that the two of us come to rest."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast

import pytest

from multikueue.api import kinds
from multikueue.api.jobs.job import JobKey
from multikueue.api.kind import Kind
from multikueue.api.kueue.shared_status import KUEUE_ADMISSION
from multikueue.api.kueue.workload import FAILED_ON, NOMINATED
from multikueue.api.meta import ObjectKey, encode
from multikueue.kube.cluster_client import FIELD_MANAGER, ClusterClient
from multikueue.settings import BESIDE_KUEUE, EXTERNAL_DISPATCHER, Role, StrategyChoice
from tests.cluster import Cluster
from tests.controllers.kueue_core import Core
from tests.controllers.table import CHECK, NAMESPACE, Body, Table, table
from tests.kube.test_definitions import PLAIN, documents

pytestmark = pytest.mark.anyio

JOB = ObjectKey(NAMESPACE, "job")
STARTED = "2026-01-01T12:00:00Z"


def beside(roles: frozenset[Role] = BESIDE_KUEUE, **settings: Any) -> tuple[Table, Core]:
    world = table(roles=roles, **settings)
    return world, Core(world)


async def running() -> tuple[Table, Core]:
    """A job that runs on w1, with its counts at home."""
    world, core = beside()
    await core.submit()
    world.admit("w1")
    await core.settle()
    runs(world, active=1)
    await core.settle()
    return world, core


def runs(world: Table, *, active: int) -> None:
    """The job's pods on w1."""
    world.workers["w1"].change(kinds.JOBS, JOB, {"status": {"startTime": STARTED, "active": active, "ready": active}})


def by_us(core: Core) -> list[tuple[str, list[str]]]:
    """Each apply of ours: in whose name, and what it said beside the admission and the check."""
    known = ("clusterName", "nominatedClusterNames")
    return [(manager, [part for part in known if part in body["status"]]) for manager, body in core.applied]


async def test_a_job_runs_through() -> None:
    world, core = await running()
    assert (world.runs_on(), world.copies(), world.status()["clusterName"]) == (["w1"], ["w1"], "w1")
    local = core.job()
    assert local["spec"]["suspend"] is False
    assert local["status"]["active"] == 1
    world.finish("w1")
    await core.settle()
    assert core.job()["status"]["succeeded"] == 1
    assert world.condition("Finished") is not None
    assert (world.copies(), world.runs_on()) == ([], [])


async def test_what_a_newer_kueue_has_applied_stays_there() -> None:
    """An apply in its name that left it out would remove it."""
    world, core = beside()
    world.submit()
    core.make()
    core.reserve()

    def change(status: Body) -> None:
        status["conditions"].append(core.made("OfNewerKueue"))

    core.apply("job", change)
    assert core.owners("conditions", "OfNewerKueue") == {KUEUE_ADMISSION}
    await world.settle()
    world.admit("w1")
    await world.settle()
    assert world.status()["clusterName"] == "w1"
    assert world.condition("OfNewerKueue") is not None
    assert core.owners("conditions", "OfNewerKueue") == {KUEUE_ADMISSION}


async def test_the_writes_are_few_and_of_two_kinds() -> None:
    world, core = await running()
    world.finish("w1")
    await core.settle()
    writes = [call for call in world.manager.writes() if "admissionchecks" not in call]
    assert Counter(writes) == {"apply workloads/status": 3, "patch jobs/status": 2}
    assert by_us(core) == [
        (KUEUE_ADMISSION, ["nominatedClusterNames"]),
        (KUEUE_ADMISSION, ["clusterName"]),
        (KUEUE_ADMISSION, ["clusterName"]),  # finished
    ]


async def test_each_apply_holds_all_that_kueue_holds() -> None:
    _, core = await running()
    for _, body in core.applied:
        assert set(body["status"]) >= {"admission", "admissionChecks", "conditions"}
        assert body["metadata"]["resourceVersion"]


async def test_looking_at_everything_again_writes_nothing() -> None:
    world, core = await running()
    world.manager.calls.clear()
    world.queues.workloads.add(world.key())
    world.queues.jobs.add(JobKey("Job.batch", *JOB))
    await core.settle()
    assert world.manager.calls == []


async def test_kueue_alone_holds_what_it_must_clear() -> None:
    world, core = await running()
    assert core.owners("clusterName") == {KUEUE_ADMISSION}
    core.evict()
    assert "clusterName" not in world.status()


async def test_a_write_on_old_news_is_refused_and_decided_again() -> None:
    world, core = beside()
    await core.submit()
    calm = world.manager.fault

    def interfere(verb: str, _plural: str) -> None:
        if verb == "apply":
            world.manager.fault = calm
            core.evict()

    world.manager.fault = interfere
    world.admit("w1")
    await world.settle()
    assert "clusterName" not in world.status()
    assert world.runs_on() == ["w1"]  # made before the check is Ready; it goes as its reservation does
    await core.settle()
    assert (world.runs_on(), world.copies()) == ([], [])


async def test_an_eviction_on_the_worker_sends_it_round_again() -> None:
    world, core = await running()
    world.evict("w1")
    runs(world, active=0)
    await core.settle()
    assert (world.copies(), world.runs_on()) == ([], [])
    assert core.job()["spec"]["suspend"] is True
    assert not core.job()["status"].get("active")
    world.time += timedelta(seconds=2)
    core.reserve()
    await core.settle()
    assert world.status()["nominatedClusterNames"] == ["w1", "w2", "w3"]
    assert world.copies() == ["w1", "w2", "w3"]


async def test_an_eviction_by_kueue_stops_the_job_on_its_worker_before_the_quota_goes_back() -> None:
    world, core = await running()
    core.evict()
    await core.settle()
    target = world.workers["w1"].find(kinds.WORKLOADS, world.key())
    assert target is not None
    assert "DeactivationTarget" in [c["type"] for c in target["status"]["conditions"]]
    assert "admission" in world.status(), "the pods still run"
    world.evict("w1")
    runs(world, active=0)
    await core.settle()
    assert "admission" not in world.status()
    assert (world.copies(), world.runs_on()) == ([], [])


async def test_a_job_that_kueue_stops_does_not_get_its_start_back() -> None:
    """Kueue takes the start away to put the template back in place: what the worker still says must not undo it."""
    world, core = await running()
    core.evict()
    await core.settle()
    assert "startTime" not in core.job()["status"]
    runs(world, active=2)
    await core.settle()
    assert "startTime" not in core.job()["status"]
    assert core.job()["status"]["active"] == 2


async def test_a_job_that_is_not_ours_is_refused_and_runs_nowhere() -> None:
    world, core = beside()
    await core.submit(managed=False)
    check = world.status()["admissionChecks"][0]
    assert check["state"] == "Rejected"
    assert "managedBy" in check["message"]
    assert (world.copies(), core.job()["spec"]["suspend"]) == ([], True)


async def test_a_job_that_is_not_ours_is_refused_before_it_has_quota() -> None:
    """Else Kueue might preempt what runs for a job that can never run (contract 3.1 E4)."""
    world, core = beside()
    world.submit(managed=False)
    core.make()
    core.apply("job", lambda status: status.update(admissionChecks=[core.check_state("Pending", "")]))
    await core.settle()
    assert world.status()["admissionChecks"][0]["state"] == "Rejected"


async def test_a_worker_does_not_win_by_its_quota_alone() -> None:
    world, core = beside()
    await core.submit()
    status = {"conditions": [core.made("QuotaReserved")]}
    world.workers["w1"].change(kinds.WORKLOADS, world.key(), {"status": status})
    await core.settle()
    assert world.runs_on() == []


async def test_a_new_process_goes_on_where_the_old_one_was() -> None:
    world, core = beside()
    await core.submit()
    for step in (partial(world.admit, "w1"), partial(runs, world, active=1), partial(world.finish, "w1")):
        world.start()
        await core.settle()
        step()
        world.start()
        await core.settle()
    assert core.job()["status"]["succeeded"] == 1
    assert (world.copies(), world.runs_on()) == ([], [])


async def test_copies_that_kueue_made_before_us_are_taken_over() -> None:
    """The hand-over from Kueue's own MultiKueue, which knows no attempts."""
    world, core = await running()
    for kind, key in ((kinds.WORKLOADS, world.key()), (kinds.JOBS, JOB)):
        created = {"creationTimestamp": core.stamp(), "annotations": None}
        world.workers["w1"].change(kind, key, {"metadata": created})
    uid = (world.workers["w1"].find(kinds.JOBS, JOB) or {})["metadata"]["uid"]
    world.start()
    world.manager.calls.clear()
    await core.settle()
    assert world.manager.calls == []
    assert (world.workers["w1"].find(kinds.JOBS, JOB) or {})["metadata"]["uid"] == uid
    world.finish("w1")
    await core.settle()
    assert world.condition("Finished") is not None


SKEWS = [timedelta(seconds=each) for each in (-86400, -601, -600, -5, -1, 0, 1, 600, 86400)]


@pytest.mark.parametrize("skew", SKEWS, ids=str)
async def test_what_runs_is_taken_over_whatever_the_clock_of_its_worker(skew: timedelta) -> None:
    """Kueue's own MultiKueue recorded the win; the clock of w1 is behind (below zero) or ahead of the manager cluster's."""
    world, core = await running()
    jobs_uid = (world.workers["w1"].find(kinds.JOBS, JOB) or {})["metadata"]["uid"]
    unmark(world, "w1", reserved_at(world) + skew)
    world.time += timedelta(minutes=10)
    world.start()
    world.manager.calls.clear()
    await core.settle()
    assert (world.manager.calls, world.runs_on()) == ([], ["w1"])
    assert (world.workers["w1"].find(kinds.JOBS, JOB) or {})["metadata"]["uid"] == jobs_uid
    world.finish("w1")
    await core.settle()
    assert world.condition("Finished") is not None


@pytest.mark.parametrize("skew", SKEWS, ids=str)
async def test_what_just_started_is_taken_over_before_its_win_is_recorded(skew: timedelta) -> None:
    """Within ten minutes of difference: then a job without a mark may be left from an earlier attempt."""
    world, core = beside()
    await core.submit()
    world.admit("w2")
    await core.settle()
    job_uid = (world.workers["w2"].find(kinds.JOBS, JOB) or {})["metadata"]["uid"]

    def forget_the_win(status: dict[str, Any]) -> None:
        status.pop("clusterName", None)
        status["nominatedClusterNames"] = ["w1", "w2", "w3"]
        status["admissionChecks"] = [core.check_state("Pending", "")]
        status["conditions"] = [c for c in status["conditions"] if c["type"] != "Admitted"]

    core.apply("job", forget_the_win)
    unmark(world, "w2", reserved_at(world) + skew)
    world.start()
    await core.settle()
    job = world.workers["w2"].find(kinds.JOBS, JOB)
    if skew >= timedelta(minutes=-10):
        assert (world.runs_on(), world.status()["clusterName"]) == (["w2"], "w2")
        assert job is not None
        assert job["metadata"]["uid"] == job_uid
    else:
        assert job is None or job["metadata"]["uid"] != job_uid


@pytest.mark.parametrize("skew", SKEWS, ids=str)
async def test_a_copy_without_a_job_is_taken_over_or_made_again(skew: timedelta) -> None:
    world, core = beside()
    await core.submit()
    unmark(world, "w2", reserved_at(world) + skew, kinds.WORKLOADS)
    world.start()
    await core.settle()
    assert world.copies() == ["w1", "w2", "w3"]
    world.admit("w2")
    await core.settle()
    assert (world.runs_on(), world.status()["clusterName"]) == (["w2"], "w2")


def reserved_at(world: Table) -> datetime:
    return datetime.fromisoformat((world.condition("QuotaReserved") or {})["lastTransitionTime"])


def unmark(world: Table, worker: str, created: datetime, *only: Kind[Any]) -> None:
    """What the worker has of the job is that of a manager that sets no marks, made then by the worker's clock."""
    stamp = created.strftime("%Y-%m-%dT%H:%M:%SZ")
    for kind, key in ((kinds.WORKLOADS, world.key()), (kinds.JOBS, JOB)):
        if kind in only or not only:
            metadata = {"creationTimestamp": stamp, "annotations": None}
            world.workers[worker].change(kind, key, {"metadata": metadata})


@pytest.mark.parametrize("ahead", [0, 1, 2, 3, 5, 60, 600, 86400])
async def test_what_its_worker_evicts_is_tried_again_whatever_the_clock_of_who_reserved(ahead: int) -> None:
    world, core = beside()
    world.submit()
    core.make()
    now = world.time
    world.time = now + timedelta(seconds=ahead)
    core.reserve()
    world.time = now
    await core.settle()
    world.admit("w1")
    await core.settle()
    assert world.status()["clusterName"] == "w1"
    world.evict("w1")
    for _ in range(3):
        world.time += timedelta(seconds=2)
        world.queues.workloads.add(world.key())
        await core.settle()
    assert world.status().get("clusterName") is None


def shares(core: Core, status: dict[str, Any]) -> None:
    """Another field manager owns these fields, too: a Kueue before an upgrade, or a person."""
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {}, "status": status}
    path = kinds.WORKLOADS.path(core.table.key(), subresource="status")
    core.site.call(
        "PATCH",
        path,
        body,
        content_type="application/apply-patch+yaml",
        query={"fieldManager": "somebody", "force": "true"},
    )


async def test_a_winner_that_somebody_else_owns_too_is_cleared_for_the_next_attempt() -> None:
    world, core = beside()
    await core.submit()
    world.admit("w1")
    await core.settle()
    shares(core, {"clusterName": "w1"})
    core.evict()
    await core.settle()
    assert world.runs_on() == []
    world.time += timedelta(seconds=5)
    core.reserve()
    world.errors.clear()
    await core.settle()
    assert world.errors == []
    assert world.status().get("clusterName") is None
    assert world.copies() == world.status()["nominatedClusterNames"] == ["w1", "w2", "w3"]
    world.admit("w2")
    await core.settle()
    assert (world.runs_on(), world.status()["clusterName"]) == (["w2"], "w2")


async def test_a_winner_that_somebody_sets_once_there_is_quota_again_is_cleared() -> None:
    world, core = beside()
    await core.submit()
    world.admit("w1")
    await core.settle()
    core.evict()
    await core.settle()
    shares(core, {"clusterName": "w1"})
    world.time += timedelta(seconds=5)
    core.reserve()
    world.errors.clear()
    await core.settle()
    assert world.errors == []
    assert world.copies() == world.status()["nominatedClusterNames"] == ["w1", "w2", "w3"]


async def test_nominations_that_somebody_else_owns_too_are_cleared_by_a_win() -> None:
    world, core = beside()
    await core.submit()
    shares(core, {"nominatedClusterNames": ["w1", "w2", "w3"]})
    world.admit("w2")
    world.errors.clear()
    await core.settle()
    assert world.errors == []
    assert (world.runs_on(), world.status()["clusterName"]) == (["w2"], "w2")
    assert "nominatedClusterNames" not in world.status()


async def test_our_own_conditions_have_a_field_manager_of_their_own_and_survive_kueue() -> None:
    world, core = beside(strategy=StrategyChoice(name="incremental", options={"step": 1}))
    await core.submit()
    assert world.status()["nominatedClusterNames"] == ["w1"]
    assert core.owners("conditions", NOMINATED) == {FIELD_MANAGER}
    core.cluster.requests.clear()
    world.admit("w1")
    await core.settle()
    assert world.condition(NOMINATED) is None
    # Not before the win: whoever nominates would miss it.
    assert by_us(core) == [(KUEUE_ADMISSION, ["clusterName"]), (FIELD_MANAGER, [])]
    world.evict("w1")
    await core.settle()
    assert world.condition("QuotaReserved") is not None
    assert world.condition(FAILED_ON) is not None
    assert core.owners("conditions", FAILED_ON) == {FIELD_MANAGER}


# --- as Kueue's external dispatcher ------------------------------------------------------------------------------------


async def test_only_the_nomination_is_written_and_no_worker_is_spoken_to() -> None:
    world, core = beside(EXTERNAL_DISPATCHER)
    await core.submit()
    assert world.status()["nominatedClusterNames"] == ["w1", "w2", "w3"]
    assert world.manager.writes() == ["apply workloads/status"]
    assert by_us(core) == [(KUEUE_ADMISSION, ["nominatedClusterNames"])]
    assert [cluster.calls for cluster in world.workers.values()] == [[], [], []]


async def test_kueue_empties_the_list_when_it_records_the_winner_and_we_leave_it_empty() -> None:
    world, core = beside(EXTERNAL_DISPATCHER)
    await core.submit()

    def won(status: dict[str, Any]) -> None:
        status["clusterName"] = status.pop("nominatedClusterNames")[0]
        status["admissionChecks"] = [core.check_state("Ready", "")]

    core.apply("job", won)
    world.manager.calls.clear()
    await core.settle()
    assert (world.status()["clusterName"], world.status().get("nominatedClusterNames")) == ("w1", None)
    assert world.manager.writes() == []
    core.evict()
    await core.settle()
    world.time += timedelta(seconds=2)
    core.reserve()
    await core.settle()
    assert world.status()["nominatedClusterNames"] == ["w1", "w2", "w3"]


async def test_only_workers_that_kueue_calls_active_are_named() -> None:
    world, core = beside(EXTERNAL_DISPATCHER)
    say(world, "w2", "False")
    await core.submit()
    assert world.status()["nominatedClusterNames"] == ["w1", "w3"]
    say(world, "w2", "True")
    await core.settle()
    assert sorted(world.status()["nominatedClusterNames"]) == ["w1", "w2", "w3"]


def say(world: Table, cluster: str, status: str) -> None:
    condition = {"type": "Active", "status": status, "reason": "x", "message": "", "lastTransitionTime": STARTED}
    world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", cluster), {"status": {"conditions": [condition]}})


async def test_nobody_is_named_before_the_other_checks_are_ready() -> None:
    world, core = beside(EXTERNAL_DISPATCHER)
    world.submit()
    core.make()
    core.reserve()
    other = {"name": "other", "state": "Pending", "message": "", "lastTransitionTime": core.stamp()}
    core.apply("job", lambda status: status["admissionChecks"].append(other))
    await core.settle()
    assert "nominatedClusterNames" not in world.status()
    core.apply("job", lambda status: status["admissionChecks"][1].update(state="Ready"))
    await core.settle()
    assert world.status()["nominatedClusterNames"] == ["w1", "w2", "w3"]


async def test_kinds_of_jobs_that_we_do_not_know_are_named_for_too() -> None:
    world, core = beside(EXTERNAL_DISPATCHER)
    world.submit()
    core.make()
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "job", "uid": "u", "controller": True}
    world.manager.change(kinds.WORKLOADS, world.key(), {"metadata": {"ownerReferences": [owner]}})
    core.reserve()
    await core.settle()
    assert world.status()["nominatedClusterNames"] == ["w1", "w2", "w3"]
    assert world.status()["admissionChecks"][0]["state"] == "Pending"


async def test_a_new_dispatcher_finds_the_round_where_the_old_one_left_it() -> None:
    world, core = beside(
        EXTERNAL_DISPATCHER, strategy=StrategyChoice(name="incremental", options={"step": 1, "round_length": "5m"})
    )
    await core.submit()
    assert world.status()["nominatedClusterNames"] == ["w1"]
    world.time += timedelta(minutes=2)
    world.start()
    await core.settle()
    assert world.status()["nominatedClusterNames"] == ["w1"]
    world.time += timedelta(minutes=4)
    world.queues.workloads.add(world.key())
    await core.settle()
    assert world.status()["nominatedClusterNames"] == ["w1", "w2"]


async def test_the_check_of_somebody_else_is_left_alone() -> None:
    world, core = beside(EXTERNAL_DISPATCHER)
    world.manager.change(kinds.ADMISSION_CHECKS, ObjectKey("", CHECK), {"spec": {"controllerName": "example.com/x"}})
    await core.submit()
    assert world.manager.writes() == []


class _Newer:
    """A client of a worker whose definitions are those of Kueue 0.18."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def request(self, _method: str, path: str) -> bytes:
        return encode(documents(PLAIN, 10)[path])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


async def test_a_name_too_long_for_a_label_goes_where_kueue_reads_it() -> None:
    """An older Kueue would make a second Workload for the job, and both would hold quota."""
    world, core = beside()
    world.outboxes["w2"].client = cast("ClusterClient", _Newer(world.workers["w2"]))
    world.submit()
    core.make(workload="job-" + "x" * 60)
    core.reserve()
    await core.settle()
    assert world.copies() == ["w2"]
    world.admit("w2")
    await core.settle()
    assert world.runs_on() == ["w2"]
    told = [message for _, message in world.said()]
    assert [name for name in world.workers if any(f'"{name}" cannot take' in text for text in told)] == ["w1", "w3"]


async def test_a_copy_with_too_long_a_name_is_removed_from_where_kueue_does_not_read_it() -> None:
    world, core = beside()
    world.outboxes["w2"].client = cast("ClusterClient", _Newer(world.workers["w2"]))
    world.submit()
    core.make(workload="job-" + "x" * 60)
    core.reserve()
    await core.settle()
    outbox = world.outboxes["w2"]
    outbox.client = world.workers["w2"]
    world.manager.drop(kinds.JOBS, JOB)
    world.manager.drop(kinds.WORKLOADS, world.key())
    await core.settle()
    assert world.workers["w2"].all(kinds.WORKLOADS) == []
