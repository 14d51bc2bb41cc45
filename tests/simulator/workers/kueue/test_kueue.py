"""The simulated Kueue of a worker, on virtual time: what it makes of jobs and queues, and its own death."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue_simulator.world import objects
from tests.simulator.bench import NAMESPACE, Bench, job_body, on_bench
from tests.simulator.workers.kueue.copies import SECOND, active

# --- the way of one job ----------------------------------------------------------------------------------------------


@on_bench
async def test_a_job_is_admitted_runs_and_finishes(worker: Bench) -> None:
    worker.apply_fixtures()
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
    worker.apply_fixtures()
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
    worker.apply_fixtures(cpu=1)
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
    worker.apply_fixtures(flavor={"nodeLabels": {"pool": "blue"}, "tolerations": [toleration]})
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
    worker.apply_fixtures(cpu=1)
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
    worker.apply_fixtures(cpu=1)
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
    worker.apply_fixtures()
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
    worker.apply_fixtures()
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit(queue=None, spec={"suspend": False})
    await anyio.sleep(10)
    assert worker.ended() == "Complete"
    assert worker.site.all(kinds.WORKLOADS) == []


@on_bench
async def test_a_job_of_another_controller_is_queued_and_run_by_nobody(worker: Bench) -> None:
    worker.apply_fixtures()
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit(spec={"managedBy": "example.com/other"})
    await anyio.sleep(10)
    assert worker.conditions()["Admitted"] == "True/Admitted"
    assert not worker.job()["spec"]["suspend"]
    assert not worker.job().get("status"), "its status is for its own controller"


@on_bench
async def test_pods_that_are_not_needed_again_make_room(worker: Bench) -> None:
    worker.apply_fixtures(cpu=2)
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit("waves", seconds=10, spec={"parallelism": 2, "completions": 3})
    await anyio.sleep(1)
    worker.submit("next", seconds=1)
    await anyio.sleep(13)
    assert worker.workload("waves")["status"]["reclaimablePods"] == [{"name": "main", "count": 1}]
    assert worker.ended("next") == "Complete"
    assert worker.ended("waves") == ""


# --- evictions -------------------------------------------------------------------------------------------------------


@on_bench
async def test_a_drained_queue_holds_its_jobs_until_it_runs_again(worker: Bench) -> None:
    worker.apply_fixtures()
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
    worker.apply_fixtures()
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
async def test_a_deleted_workload_is_recreated_once_its_job_is_held(worker: Bench) -> None:
    worker.apply_fixtures()
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
    worker.apply_fixtures(cpu=1)
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


# --- its own death ---------------------------------------------------------------------------------------------------


@on_bench
async def test_the_next_one_goes_on_where_it_died(worker: Bench) -> None:
    worker.apply_fixtures(cpu=2)
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
    worker.apply_fixtures(cpu=1)
    await worker.start_kueue()
    await worker.start_jobs()
    worker.submit("first", seconds=60)
    await anyio.sleep(5)
    worker.kill("kueue")
    worker.submit("second")
    await worker.start_kueue()
    await anyio.sleep(10)
    assert worker.conditions("second") == {"QuotaReserved": "False/Pending"}


@on_bench
async def test_queues_say_whether_they_work(worker: Bench) -> None:
    worker.apply_fixtures()
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
    worker.apply_fixtures(cpu=1)
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


@on_bench
async def test_a_job_that_cannot_be_started_ends_with_the_reason(worker: Bench) -> None:
    worker.apply_fixtures(flavor={"nodeLabels": {"pool": "blue"}})
    await worker.start_kueue()
    template = job_body()["spec"]["template"] | {"metadata": {"labels": {"kueue.x-k8s.io/podset": "other"}}}
    worker.submit(spec={"template": template})
    await anyio.sleep(5)
    assert worker.conditions()["Finished"] == "True/FailedToStart"
    assert worker.job()["spec"]["suspend"]
