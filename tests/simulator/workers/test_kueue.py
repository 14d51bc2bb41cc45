"""The simulated Kueue on a sandbox cluster, on virtual time: what it makes of jobs, queues, checks, and its own death."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from fakekube.network.link import Weather
from fakekube.wire import Object
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.api.workload import Workload
from multikueue_simulator import objects
from multikueue_simulator.workers.behaviour import Behaviour, CheckAnswer, always
from multikueue_simulator.workers.jobs import drawn as drawn_lives
from multikueue_simulator.workers.kueue import RARE
from tests.simulator.bench import NAMESPACE, Bench, job_body, on_bench

PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
CONTROLLER = "example.com/check"
SECOND = timedelta(seconds=1)


def copy_body(job: Object, name: str = "copy", *, queue: str = "main") -> Object:
    """The Workload that a manager makes for a stored job."""
    template = {"metadata": {}, "spec": job["spec"]["template"]["spec"]}
    pod_set = {"name": "main", "count": job["spec"].get("parallelism", 1), "template": template}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"kueue.x-k8s.io/multikueue-origin": "multikueue"},
        },
        "spec": {"podSets": [pod_set], "queueName": queue, "priority": 0},
    }


# --- the way of one job ----------------------------------------------------------------------------------------------


@on_bench
async def test_a_job_is_admitted_runs_and_finishes(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit(seconds=10)
    await anyio.sleep(5)
    assert worker.conditions() == {"QuotaReserved": "True/QuotaReserved", "Admitted": "True/Admitted"}
    assert worker.job()["status"]["active"] == 1
    await anyio.sleep(20)
    assert worker.ended() == "Complete"
    assert worker.conditions()["Finished"] == "True/Succeeded"
    assert worker.message("Finished") == "Reached expected number of succeeded pods"
    assert not worker.workload()["metadata"].get("finalizers"), "it may go with its job"


@on_bench
async def test_its_writes_are_few(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    await worker.start_jobs()
    worker.writes.clear()
    worker.submit(seconds=10)
    await anyio.sleep(60)
    assert sorted(worker.writes) == sorted(
        [
            "POST workloads",
            "PATCH workloads/status",  # quota reserved and admitted
            "PATCH jobs",  # started
            "PATCH workloads/status",  # finished
            "PATCH workloads",  # let go
            *["PATCH jobs/status"] * 4,  # held, runs, succeeds, is complete
        ]
    )


@on_bench
async def test_at_rest_nothing_is_written(worker: Bench) -> None:
    worker.furnish(cpu=1)
    await worker.start_kueue(figures=SECOND)
    await worker.start_jobs()
    worker.submit("runs", seconds=100_000)
    await anyio.sleep(1)
    worker.submit("waits")
    await anyio.sleep(10)
    worker.writes.clear()
    await anyio.sleep(3600)
    assert worker.writes == []


@on_bench
async def test_pods_get_what_the_flavor_demands_and_give_it_back(worker: Bench) -> None:
    toleration = {"key": "blue", "operator": "Exists"}
    worker.furnish(flavor={"nodeLabels": {"pool": "blue"}, "tolerations": [toleration]})
    await worker.start_kueue()
    await worker.start_jobs()
    before = worker.submit(seconds=1000)["spec"]["template"]
    await anyio.sleep(5)
    pods = worker.job()["spec"]["template"]["spec"]
    assert (pods["nodeSelector"], pods["tolerations"]) == ({"pool": "blue"}, [toleration])
    worker.stop_queue("HoldAndDrain")
    await anyio.sleep(5)
    assert worker.job()["spec"]["template"] == before
    assert worker.job()["spec"]["suspend"]


@on_bench
async def test_a_job_waits_until_there_is_room(worker: Bench) -> None:
    worker.furnish(cpu=1)
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit("first", seconds=30)
    await anyio.sleep(1)
    worker.submit("second", seconds=1)
    await anyio.sleep(10)
    assert worker.conditions("second") == {"QuotaReserved": "False/Pending"}
    assert "insufficient unused quota for cpu" in worker.message("QuotaReserved", "second")
    await anyio.sleep(60)
    assert worker.ended("second") == "Complete"


@on_bench
async def test_the_more_urgent_goes_first(worker: Bench) -> None:
    worker.furnish(cpu=1)
    for name, value in (("low", 1), ("high", 100)):
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
        worker.site.create(kinds.WORKLOAD_PRIORITY_CLASSES, body | {"value": value})
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit("runs", seconds=20)
    await anyio.sleep(2)
    for name in ("low", "high"):
        worker.submit(name, seconds=20, labels={"kueue.x-k8s.io/priority-class": name})
        await anyio.sleep(2)
    await anyio.sleep(20)
    assert [worker.conditions(name)["QuotaReserved"] for name in ("high", "low")] == [
        "True/QuotaReserved",
        "False/Pending",
    ]


@on_bench
async def test_a_job_for_a_queue_that_does_not_exist_waits_for_it(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit(queue="later")
    await anyio.sleep(5)
    assert worker.conditions() == {"QuotaReserved": "False/Inadmissible"}
    assert worker.message("QuotaReserved") == "LocalQueue later doesn't exist"
    worker.site.create(kinds.LOCAL_QUEUES, objects.local_queue("later", NAMESPACE, cluster_queue="cq"))
    await anyio.sleep(10)
    assert worker.ended() == "Complete"


@on_bench
async def test_a_job_without_a_queue_is_none_of_its_business(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit(queue=None, spec={"suspend": False})
    await anyio.sleep(10)
    assert worker.ended() == "Complete"
    assert worker.site.all(kinds.WORKLOADS) == []


@on_bench
async def test_a_job_of_another_controller_is_queued_and_run_by_nobody(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit(spec={"managedBy": "example.com/other"})
    await anyio.sleep(10)
    assert worker.conditions()["Admitted"] == "True/Admitted"
    assert not worker.job()["spec"]["suspend"]
    assert not worker.job().get("status"), "its status is for its own controller"


@on_bench
async def test_pods_that_are_not_needed_again_make_room(worker: Bench) -> None:
    worker.furnish(cpu=2)
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit("waves", seconds=10, spec={"parallelism": 2, "completions": 3})
    await anyio.sleep(1)
    worker.submit("next", seconds=1)
    await anyio.sleep(13)
    assert worker.workload("waves")["status"]["reclaimablePods"] == [{"name": "main", "count": 1}]
    assert worker.ended("next") == "Complete"
    assert worker.ended("waves") == ""


# --- copies of a manager ---------------------------------------------------------------------------------------------


@on_bench
async def test_a_copy_gets_quota_and_then_its_job(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    await worker.start_jobs()
    held = worker.submit("other", queue=None)
    worker.site.create(kinds.WORKLOADS, copy_body(held))
    await anyio.sleep(5)
    assert worker.conditions("copy")["Admitted"] == "True/Admitted"
    assert not worker.workload("copy")["metadata"].get("finalizers")
    job = worker.submit(labels={PREBUILT: "copy"}, seconds=5)
    await anyio.sleep(2)
    assert [owner["uid"] for owner in worker.workload("copy")["metadata"]["ownerReferences"]] == [
        job["metadata"]["uid"]
    ]
    assert worker.workload("copy")["metadata"]["labels"]["kueue.x-k8s.io/job-uid"] == job["metadata"]["uid"]
    await anyio.sleep(20)
    assert worker.ended() == "Complete"
    assert worker.conditions("copy")["Finished"] == "True/Succeeded"
    assert len(worker.site.all(kinds.WORKLOADS)) == 1


@on_bench
async def test_a_job_may_come_before_its_copy(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    await worker.start_jobs()
    job = worker.submit(labels={PREBUILT: "copy"})
    await anyio.sleep(30)
    assert worker.job()["spec"]["suspend"]
    worker.site.create(kinds.WORKLOADS, copy_body(job))
    await anyio.sleep(10)
    assert worker.ended() == "Complete"


@on_bench
async def test_a_copy_that_does_not_fit_its_job_ends_out_of_sync(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    await worker.start_jobs()
    worker.site.create(kinds.WORKLOADS, copy_body(worker.submit("other", cpu=2, queue=None)))
    worker.submit(labels={PREBUILT: "copy"})
    await anyio.sleep(10)
    assert worker.conditions("copy")["Finished"] == "True/OutOfSync"
    assert worker.job()["spec"]["suspend"]


@on_bench
async def test_a_manager_has_a_copy_evicted(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    await worker.start_jobs()
    job = worker.submit(labels={PREBUILT: "copy"}, seconds=1000)
    worker.site.create(kinds.WORKLOADS, copy_body(job))
    await anyio.sleep(5)
    status = worker.workload("copy")["status"]
    target = {
        "type": "DeactivationTarget",
        "status": "True",
        "reason": "EvictedOnManagerCluster",
        "message": "Evicted on manager: so it is",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
    body = {"status": {"conditions": [*status["conditions"], target]}}
    worker.site.patch(kinds.WORKLOADS, ObjectKey(NAMESPACE, "copy"), body, subresource="status")
    await anyio.sleep(5)
    assert worker.workload("copy")["spec"]["active"] is False
    conditions = worker.conditions("copy")
    assert conditions["Evicted"] == "True/DeactivatedDueToEvictedOnManagerCluster"
    assert conditions["QuotaReserved"] == "False/Pending"
    assert conditions["DeactivationTarget"] == "True/EvictedOnManagerCluster", "it is not Kueue's to take back"
    assert worker.job()["spec"]["suspend"]


@on_bench
async def test_a_drained_copy_without_a_job_keeps_its_reservation(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    worker.site.create(kinds.WORKLOADS, copy_body(worker.submit("other", queue=None)))
    await anyio.sleep(5)
    worker.stop_queue("HoldAndDrain")
    await anyio.sleep(5)
    assert worker.conditions("copy")["Evicted"] == "True/ClusterQueueStopped"
    assert worker.conditions("copy")["QuotaReserved"] == "True/QuotaReserved"


@on_bench
async def test_a_copy_goes_at_once_when_it_is_deleted(worker: Bench) -> None:
    worker.furnish(cpu=1)
    await worker.start_kueue()
    await worker.start_jobs()
    body = copy_body(worker.submit("other", queue=None))
    body["metadata"]["finalizers"] = ["kueue.x-k8s.io/resource-in-use"]
    worker.site.create(kinds.WORKLOADS, body)
    await anyio.sleep(5)
    worker.site.delete(kinds.WORKLOADS, ObjectKey(NAMESPACE, "copy"))
    worker.submit()
    await anyio.sleep(10)
    assert worker.find(kinds.WORKLOADS, "copy") is None
    assert worker.ended() == "Complete"


# --- evictions -------------------------------------------------------------------------------------------------------


@on_bench
async def test_a_drained_queue_holds_its_jobs_until_it_runs_again(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit(seconds=10)
    await anyio.sleep(5)
    worker.stop_queue("HoldAndDrain")
    await anyio.sleep(5)
    conditions = worker.conditions()
    assert conditions["Evicted"] == "True/ClusterQueueStopped"
    assert conditions["Requeued"] == "False/ClusterQueueStopped"
    assert conditions["Admitted"] == "False/NoReservation"
    assert not worker.job()["status"].get("active")
    assert "startTime" not in worker.job()["status"]
    worker.stop_queue("None")
    await anyio.sleep(20)
    assert worker.conditions()["Evicted"] == "False/QuotaReserved"
    assert worker.ended() == "Complete"


@on_bench
async def test_an_evicted_job_keeps_its_quota_while_its_pods_end(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    worker.submit()
    await anyio.sleep(2)
    status = {"startTime": "2030-01-01T00:00:00Z", "active": 1, "ready": 1}
    worker.site.patch(kinds.JOBS, ObjectKey(NAMESPACE, "job"), {"status": status}, subresource="status")
    await anyio.sleep(2)
    worker.site.patch(kinds.WORKLOADS, worker.key(), {"spec": {"active": False}})
    await anyio.sleep(5)
    assert worker.conditions()["Evicted"] == "True/Deactivated"
    assert worker.conditions()["QuotaReserved"] == "True/QuotaReserved"
    worker.site.patch(
        kinds.JOBS, ObjectKey(NAMESPACE, "job"), {"status": {"active": 0, "ready": 0}}, subresource="status"
    )
    await anyio.sleep(5)
    assert worker.conditions()["QuotaReserved"] == "False/Pending"


@on_bench
async def test_a_deleted_workload_is_made_anew_once_its_job_is_held(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit(seconds=10)
    await anyio.sleep(5)
    first = worker.workload()["metadata"]["uid"]
    worker.site.delete(kinds.WORKLOADS, worker.key())
    await anyio.sleep(30)
    assert worker.workload()["metadata"]["uid"] != first
    assert worker.ended() == "Complete"


@on_bench
async def test_a_deleted_job_frees_its_quota(worker: Bench) -> None:
    worker.furnish(cpu=1)
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit("first", seconds=100_000)
    await anyio.sleep(1)
    worker.submit("second")
    await anyio.sleep(5)
    worker.site.delete(kinds.JOBS, ObjectKey(NAMESPACE, "first"))
    await anyio.sleep(10)
    assert worker.ended("second") == "Complete"
    assert len(worker.site.all(kinds.WORKLOADS)) == 1


# --- admission checks ------------------------------------------------------------------------------------------------


@on_bench
async def test_a_check_of_somebody_else_is_waited_for(worker: Bench) -> None:
    worker.check("check", CONTROLLER)
    worker.furnish(checks=("check",))
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit()
    await anyio.sleep(5)
    assert worker.message("QuotaReserved") == "ClusterQueue cq is inactive", "its check is not active"
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": _EPOCH}
    key = ObjectKey("", "check")
    worker.site.patch(kinds.ADMISSION_CHECKS, key, {"status": {"conditions": [active]}}, subresource="status")
    await anyio.sleep(5)
    assert worker.conditions() == {"QuotaReserved": "True/QuotaReserved"}
    (check,) = worker.workload()["status"]["admissionChecks"]
    assert (check["name"], check["state"]) == ("check", "Pending")
    patch = {"status": {"admissionChecks": [check | {"state": "Ready"}]}}
    worker.site.patch(kinds.WORKLOADS, worker.key(), patch, subresource="status")
    await anyio.sleep(10)
    assert worker.ended() == "Complete"


_EPOCH = "2030-01-01T00:00:00Z"


@on_bench
async def test_a_check_may_be_played_and_take_its_time(worker: Bench) -> None:
    worker.check("check", CONTROLLER)
    worker.furnish(checks=("check",))
    await worker.start_kueue(Behaviour(checks={CONTROLLER: lambda _w, _c: CheckAnswer(after=30 * SECOND)}))
    await worker.start_jobs()
    worker.submit()
    await anyio.sleep(25)
    assert worker.conditions() == {"QuotaReserved": "True/QuotaReserved"}
    await anyio.sleep(10)
    assert worker.ended() == "Complete"


@on_bench
async def test_a_check_may_want_another_try_and_then_reject(worker: Bench) -> None:
    def rule(workload: Workload, _check: str) -> CheckAnswer:
        tries = workload.status.admission_checks[0].retry_count or 0
        return CheckAnswer(state="Rejected") if tries else CheckAnswer(state="Retry", requeue_after_seconds=20)

    worker.check("check", CONTROLLER)
    worker.furnish(checks=("check",))
    await worker.start_kueue(Behaviour(checks={CONTROLLER: rule}))
    await worker.start_jobs()
    worker.submit()
    await anyio.sleep(10)
    assert worker.workload()["status"]["admissionChecks"][0]["state"] == "Retry"
    await anyio.sleep(60)
    assert worker.workload()["spec"]["active"] is False
    assert worker.conditions()["Evicted"] == "True/DeactivatedDueToAdmissionCheck"


# --- scripted behaviour ----------------------------------------------------------------------------------------------


@on_bench
async def test_admission_may_be_slow(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue(Behaviour(admission_delay=always(60 * SECOND)))
    await worker.start_jobs()
    worker.submit()
    await anyio.sleep(59)
    assert worker.conditions() == {}
    await anyio.sleep(10)
    assert worker.ended() == "Complete"


@on_bench
async def test_it_may_have_no_room_until_told_otherwise(worker: Bench) -> None:
    worker.furnish()
    kueue = await worker.start_kueue(Behaviour(refusal=lambda _workload: "no room today"))
    await worker.start_jobs()
    worker.submit()
    await anyio.sleep(600)
    assert worker.conditions() == {"QuotaReserved": "False/Pending"}
    assert worker.message("QuotaReserved") == "no room today"
    kueue.behave(Behaviour())
    await anyio.sleep(10)
    assert worker.ended() == "Complete"


@on_bench
async def test_it_may_evict_whom_it_admitted(worker: Bench) -> None:
    def once(workload: Workload) -> timedelta | None:
        return None if workload.status.scheduling_stats else 5 * SECOND

    worker.furnish()
    await worker.start_kueue(Behaviour(preempted_after=once))
    await worker.start_jobs()
    worker.submit(seconds=10)
    await anyio.sleep(60)
    conditions = worker.conditions()
    assert conditions["Preempted"] == "False/QuotaReserved"
    assert conditions["Requeued"] == "True/Preempted"
    assert worker.workload()["status"]["schedulingStats"]["evictions"][0]["reason"] == "Preempted"
    assert worker.ended() == "Complete"


@on_bench
async def test_it_may_do_without_what_a_cluster_does_not_have(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue(without=RARE)
    await worker.start_jobs()
    worker.submit()
    await anyio.sleep(10)
    assert worker.ended() == "Complete"


# --- its own death ---------------------------------------------------------------------------------------------------


@on_bench
async def test_the_next_one_goes_on_where_it_died(worker: Bench) -> None:
    worker.furnish(cpu=2)
    await worker.start_jobs()
    for number in range(6):
        worker.submit(f"job{number}", seconds=7)
    for _ in range(60):
        await worker.start_kueue()
        await anyio.lowlevel.checkpoint()
        worker.kill("kueue")
        await anyio.sleep(1)
    await worker.start_kueue()
    await anyio.sleep(120)
    assert {worker.ended(f"job{number}") for number in range(6)} == {"Complete"}
    assert len(worker.site.all(kinds.WORKLOADS)) == 6


@on_bench
async def test_it_gives_nothing_out_twice_after_a_restart(worker: Bench) -> None:
    worker.furnish(cpu=1)
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit("first", seconds=60)
    await anyio.sleep(5)
    worker.kill("kueue")
    worker.submit("second")
    await worker.start_kueue()
    await anyio.sleep(10)
    assert worker.conditions("second") == {"QuotaReserved": "False/Pending"}


# --- statuses of queues ----------------------------------------------------------------------------------------------


def active(body: Object | None) -> tuple[str, str]:
    assert body is not None
    (condition,) = (c for c in body["status"]["conditions"] if c["type"] == "Active")
    return condition["status"], condition["reason"]


@on_bench
async def test_queues_say_whether_they_work(worker: Bench) -> None:
    worker.furnish()
    await worker.start_kueue()
    await anyio.sleep(1)
    assert active(worker.find(kinds.CLUSTER_QUEUES, "cq")) == ("True", "Ready")
    assert active(worker.find(kinds.LOCAL_QUEUES, "main")) == ("True", "Ready")
    worker.stop_queue("Hold")
    await anyio.sleep(1)
    assert active(worker.find(kinds.CLUSTER_QUEUES, "cq")) == ("False", "Stopped")
    assert active(worker.find(kinds.LOCAL_QUEUES, "main")) == ("False", "ClusterQueueIsInactive")


@on_bench
async def test_figures_are_written_where_they_are_wanted(worker: Bench) -> None:
    worker.furnish(cpu=1)
    await worker.start_kueue(figures=SECOND)
    await worker.start_jobs()
    for name in ("first", "second"):
        worker.submit(name, seconds=1000)
        await anyio.sleep(2)
    await anyio.sleep(5)
    for kind, name in ((kinds.CLUSTER_QUEUES, "cq"), (kinds.LOCAL_QUEUES, "main")):
        status: dict[str, Any] = (worker.find(kind, name) or {})["status"]
        figures = [status.get(f"{which}Workloads", 0) for which in ("pending", "reserving", "admitted")]
        assert figures == [1, 1, 1]


# --- whatever happens ------------------------------------------------------------------------------------------------

ROUGH = Weather(
    lost_request=0.05, lost_answer=0.05, unwilling=0.05, broken_watch=0.02, doubled_line=0.05, slow_line=0.02
)


def reserved(worker: Bench) -> int:
    """CPUs that are given out."""
    admissions = (body.get("status", {}).get("admission") for body in worker.site.all(kinds.WORKLOADS))
    usages = (usage for a in admissions if a for usage in a["podSetAssignments"])
    live = sum(int(usage["resourceUsage"]["cpu"]) for usage in usages)
    ended = (body for body in worker.site.all(kinds.WORKLOADS) if is_finished(body) and body["status"].get("admission"))
    return live - sum(int(b["status"]["admission"]["podSetAssignments"][0]["resourceUsage"]["cpu"]) for b in ended)


def is_finished(body: Object) -> bool:
    return any(c["type"] == "Finished" for c in body.get("status", {}).get("conditions", []))


def rough_life(seed: int) -> list[str]:
    """What is written while jobs come and go, the queue is drained, and Kueue dies now and then on a bad connection."""
    luck = random.Random(seed)
    random.seed(seed)  # the client's own pauses between two tries of a call
    writes: list[str] = []

    @on_bench
    async def life(worker: Bench) -> None:
        worker.furnish(cpu=3)
        worker.network.link("kueue", "worker").weather = ROUGH
        await worker.start_jobs(drawn_lives(seed, shortest=SECOND, longest=30 * SECOND))
        await worker.start_kueue()
        for number in range(8):
            worker.submit(f"job{number}", cpu=luck.randint(1, 3))
            await anyio.sleep(luck.random() * 10)
            assert reserved(worker) <= 3
            if luck.random() < 0.3:
                worker.kill("kueue")
                await worker.start_kueue()
            if luck.random() < 0.2:
                worker.stop_queue("HoldAndDrain")
                await anyio.sleep(luck.random() * 5)
                worker.stop_queue("None")
        await anyio.sleep(900)
        assert [worker.ended(f"job{number}") for number in range(8)] == ["Complete"] * 8
        assert len(worker.site.all(kinds.WORKLOADS)) == 8
        assert reserved(worker) == 0
        writes.extend(worker.writes)

    life()
    return writes


@pytest.mark.parametrize("seed", range(5))
def test_all_jobs_end_and_no_quota_is_given_out_twice(seed: int) -> None:
    assert rough_life(seed)


def test_the_same_luck_gives_the_same_life() -> None:
    assert rough_life(7) == rough_life(7)


@on_bench
async def test_a_job_that_cannot_be_started_ends_with_the_reason(worker: Bench) -> None:
    worker.furnish(flavor={"nodeLabels": {"pool": "blue"}})
    await worker.start_kueue()
    template = job_body()["spec"]["template"] | {"metadata": {"labels": {"kueue.x-k8s.io/podset": "other"}}}
    worker.submit(spec={"template": template})
    await anyio.sleep(5)
    assert worker.conditions()["Finished"] == "True/FailedToStart"
    assert worker.job()["spec"]["suspend"]
