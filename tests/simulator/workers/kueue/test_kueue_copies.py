"""The simulated Kueue and the copies of a manager."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from fakekube.model.wire import Object
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from tests.simulator.bench import NAMESPACE, Bench, on_bench

PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"


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


# --- copies of a manager ---------------------------------------------------------------------------------------------


@on_bench
async def test_a_copy_gets_quota_and_then_its_job(worker: Bench) -> None:
    worker.apply_fixtures()
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
    worker.apply_fixtures()
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
    worker.apply_fixtures()
    await worker.start_kueue()
    await worker.start_jobs()
    worker.site.create(kinds.WORKLOADS, copy_body(worker.submit("other", cpu=2, queue=None)))
    worker.submit(labels={PREBUILT: "copy"})
    await anyio.sleep(10)
    assert worker.conditions("copy")["Finished"] == "True/OutOfSync"
    assert worker.job()["spec"]["suspend"]


@on_bench
async def test_a_manager_has_a_copy_evicted(worker: Bench) -> None:
    worker.apply_fixtures()
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
    worker.apply_fixtures()
    await worker.start_kueue()
    worker.site.create(kinds.WORKLOADS, copy_body(worker.submit("other", queue=None)))
    await anyio.sleep(5)
    worker.stop_queue("HoldAndDrain")
    await anyio.sleep(5)
    assert worker.conditions("copy")["Evicted"] == "True/ClusterQueueStopped"
    assert worker.conditions("copy")["QuotaReserved"] == "True/QuotaReserved"


@on_bench
async def test_a_copy_goes_at_once_when_it_is_deleted(worker: Bench) -> None:
    worker.apply_fixtures(cpu=1)
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
