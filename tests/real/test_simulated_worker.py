"""The simulated worker against the real one: one file, the same scenarios on both, and the same story in the API.

The real side has Kueue and the job controller of Kubernetes, and a kubelet played by the test; the other is a control
plane without either, with `SimulatedKueue` and `JobRunner` in the process of the test.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from testbed import objects
from testbed.bed import Plan, Testbed, unique
from testbed.controllers import GARBAGE, JOBS
from testbed.objects import JOB, WORKLOAD, Object
from testbed.plane import ControlPlane
from tests.real.sides import Side, agree, kubelet, recorded, simulated
from tests.real.skipping import needs_programs

pytestmark = [
    pytest.mark.real,
    pytest.mark.anyio,
    pytest.mark.timeout(180),
    needs_programs("it compares a simulated worker with a real one"),
]

TTL = "ttl-after-finished-controller"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
Scenario = Callable[[Side], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def planes() -> Iterator[tuple[ControlPlane, ControlPlane]]:
    """The plane of the real worker, and the one for the simulated."""
    bed = Testbed(Plan(manager=False, workers=1, controllers={"worker1": [JOBS, GARBAGE, TTL]}))

    async def start() -> ControlPlane:
        await bed.open()
        plane = await bed.start_plane("simulated")
        await bed.start_controllers(plane, [GARBAGE])
        return plane

    try:
        yield bed.workers[0], anyio.run(start)
    finally:
        anyio.run(bed.close)


@asynccontextmanager
async def real_side(plane: ControlPlane, namespace: str) -> AsyncIterator[Side]:
    async with plane.client() as client, kubelet(plane, namespace):
        side = Side(client, namespace)
        async with recorded(side):
            yield side


@asynccontextmanager
async def simulated_side(plane: ControlPlane, namespace: str) -> AsyncIterator[Side]:
    async with plane.client() as client, simulated(plane):
        side = Side(client, namespace)
        async with recorded(side):
            yield side


SCENARIOS: dict[str, Scenario] = {}


def scenario(play: Scenario) -> Scenario:
    SCENARIOS[play.__name__] = play
    return play


# --- own jobs ---------------------------------------------------------------------------------------------------------


@scenario
async def a_job_of_the_worker_runs(side: Side) -> None:
    await side.queue()
    await side.submit()
    await side.until_over()


@scenario
async def a_job_waits_for_quota(side: Side) -> None:
    await side.queue(quota={"cpu": "1", "memory": "1Gi"})
    await side.submit("first", seconds=10)
    await side.until("Admitted", job="first")
    await side.submit("second")
    await side.until("QuotaReserved", "False", job="second")
    await side.until_over("first")
    await side.until_over("second")


@scenario
async def a_job_asks_for_a_queue_that_comes_later(side: Side) -> None:
    await side.queue()
    await side.submit(queue="later")
    await side.until("QuotaReserved", "False", reason="Inadmissible")
    await side.client.apply(objects.local_queue("later", side.namespace, cluster_queue=side.namespace))
    await side.until_over()


@scenario
async def a_job_changes_queues_while_it_waits(side: Side) -> None:
    await side.queue()
    await side.submit(queue="nowhere")
    await side.until("QuotaReserved", "False")
    await side.client.patch(JOB, "job", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "main"}}}, side.namespace)
    await side.until_over()


@scenario
async def a_waiting_job_changes_its_size(side: Side) -> None:
    await side.queue()
    await side.submit(parallelism=1, completions=2, queue="nowhere")
    await side.until("QuotaReserved", "False")
    await side.client.patch(JOB, "job", {"spec": {"parallelism": 2}}, side.namespace)
    await side.eventually(lambda: has_count(side, 2))


async def has_count(side: Side, count: int) -> bool:
    return bool((await side.workload())["spec"]["podSets"][0]["count"] == count)


@scenario
async def a_job_fails(side: Side) -> None:
    await side.queue()
    await side.submit(fail="true", spec={"backoffLimit": 0})
    await side.until_over()


@scenario
async def a_job_takes_too_long(side: Side) -> None:
    await side.queue()
    await side.submit(seconds=None, spec={"activeDeadlineSeconds": 2})
    await side.until_over()


@scenario
async def an_indexed_job_runs_in_waves(side: Side) -> None:
    await side.queue()
    await side.submit(parallelism=2, completions=3, seconds=3, spec={"completionMode": "Indexed"})
    await side.until_over()
    assert (await side.workload())["status"]["reclaimablePods"], "the second wave takes half of what it got"


@scenario
async def a_finished_job_vanishes(side: Side) -> None:
    await side.queue()
    await side.submit(spec={"ttlSecondsAfterFinished": 3})
    await side.until_gone(JOB, "job")
    await side.eventually(lambda: has_no_workloads(side))


async def has_no_workloads(side: Side) -> bool:
    return not await side.client.list(WORKLOAD, side.namespace)


@scenario
async def a_running_job_is_deleted(side: Side) -> None:
    await side.queue()
    await side.submit(seconds=None)
    await side.until_running()
    await side.client.delete(JOB, "job", side.namespace)
    await side.until_gone(JOB, "job")
    await side.eventually(lambda: has_no_workloads(side))


@scenario
async def a_job_that_was_not_admitted_is_started_by_its_user(side: Side) -> None:
    await side.queue(quota={"cpu": "0", "memory": "1Gi"})
    await side.submit()
    await side.until("QuotaReserved", "False")
    await side.client.patch(JOB, "job", {"spec": {"suspend": False}}, side.namespace)
    await side.until_job(lambda body: body["spec"]["suspend"])


@scenario
async def a_job_of_another_controller_is_queued_and_not_run(side: Side) -> None:
    await side.queue()
    await side.submit(managed_by="example.com/other")
    await side.until_job(lambda body: not body["spec"]["suspend"])


# --- evictions --------------------------------------------------------------------------------------------------------


@scenario
async def a_drained_queue_stops_its_jobs(side: Side) -> None:
    await side.queue()
    await side.submit(seconds=10)
    await side.until_running()
    await side.policy("HoldAndDrain")
    await side.until("QuotaReserved", "False")
    await side.until_job(is_held_again)
    await side.policy("None")
    await side.until_over()


@scenario
async def a_workload_is_switched_off_and_on(side: Side) -> None:
    await side.queue()
    await side.submit(seconds=10)
    await side.until_running()
    await side.patch_workload({"spec": {"active": False}})
    await side.until("QuotaReserved", "False")
    await side.until_job(is_held_again)
    await side.patch_workload({"spec": {"active": True}})
    await side.until_over()


def is_held_again(job: Object) -> bool:
    """Whether all who hold a job have done so: Kueue, and then the job controller, which notes it."""
    noted = objects.condition(job, "Suspended")
    free_of_flavor = "nodeSelector" not in job["spec"]["template"]["spec"]
    return bool(job["spec"]["suspend"] and free_of_flavor and noted is not None and noted["status"] == "True")


@scenario
async def a_job_runs_longer_than_its_label_allows(side: Side) -> None:
    await side.queue()
    await side.submit(seconds=None, labels={"kueue.x-k8s.io/max-exec-time-seconds": "2"})
    await side.until("Evicted")
    await side.until("QuotaReserved", "False")


# --- workloads made by a manager --------------------------------------------------------------------------------------


@scenario
async def a_copy_gets_its_job_and_runs(side: Side) -> None:
    await side.queue()
    await side.copy()
    await side.until("Admitted")
    await side.submit(labels={PREBUILT: "copy-job"})
    await side.until_over()


@scenario
async def a_job_comes_before_its_copy(side: Side) -> None:
    await side.queue()
    await side.submit(labels={PREBUILT: "copy-job"})
    await anyio.sleep(1)
    await side.copy()
    await side.until_over()


@scenario
async def a_copy_does_not_fit_its_job(side: Side) -> None:
    await side.queue()
    await side.copy(requests={"cpu": "2", "memory": "1Gi"})
    await side.until("Admitted")
    await side.submit(labels={PREBUILT: "copy-job"})
    await side.until("Finished")


@scenario
async def a_copy_belongs_to_another_job(side: Side) -> None:
    await side.queue()
    await side.copy()
    await side.submit(seconds=None, labels={PREBUILT: "copy-job"})
    await side.until_running()
    await side.submit("thief", labels={PREBUILT: "copy-job"})
    await anyio.sleep(1)


@scenario
async def a_manager_evicts_a_copy(side: Side) -> None:
    await side.queue()
    await side.copy()
    await side.submit(seconds=None, labels={PREBUILT: "copy-job"})
    await side.until_running()

    def target(status: Object) -> None:
        status["conditions"].append(
            {
                "type": "DeactivationTarget",
                "status": "True",
                "reason": "EvictedOnManagerCluster",
                "message": "Evicted on manager: by the test",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        )

    await side.patch_status(target)
    await side.until("QuotaReserved", "False")


@scenario
async def a_copy_without_a_job_is_drained(side: Side) -> None:
    await side.queue()
    await side.copy()
    await side.until("Admitted")
    await side.policy("HoldAndDrain")
    await side.until("Evicted")
    await anyio.sleep(1)


@scenario
async def a_copy_is_deleted_with_its_job(side: Side) -> None:
    await side.queue()
    await side.copy()
    await side.submit(seconds=None, labels={PREBUILT: "copy-job"})
    await side.until_running()
    await side.client.delete(JOB, "job", side.namespace)
    await side.client.delete(WORKLOAD, "copy-job", side.namespace)
    await side.until_gone(WORKLOAD, "copy-job")


# --- admission checks -------------------------------------------------------------------------------------------------


@scenario
async def a_check_must_be_ready_before_a_job_runs(side: Side) -> None:
    await side.check(side.namespace)
    await side.queue(checks=(side.namespace,))
    await side.submit()
    await side.until("QuotaReserved")
    await side.answer(side.namespace, "Ready")
    await side.until_over()


@scenario
async def a_check_asks_for_another_try(side: Side) -> None:
    await side.check(side.namespace)
    await side.queue(checks=(side.namespace,))
    await side.submit()
    await side.until("QuotaReserved")
    await side.answer(side.namespace, "Retry")
    await side.eventually(lambda: is_asked_again(side))
    await side.answer(side.namespace, "Ready")
    await side.until_over()


async def is_asked_again(side: Side) -> bool:
    """Whether the next attempt has its quota: while the last one is being evicted its check is Pending, too."""
    status = (await side.workload())["status"]
    reserved, evicted = (objects.condition({"status": status}, type_) for type_ in ("QuotaReserved", "Evicted"))
    if reserved is None or evicted is None or (reserved["status"], evicted["status"]) != ("True", "False"):
        return False
    (check,) = status["admissionChecks"]
    return bool(check.get("retryCount") == 1 and check["state"] == "Pending")


@scenario
async def a_check_rejects_a_job(side: Side) -> None:
    await side.check(side.namespace)
    await side.queue(checks=(side.namespace,))
    await side.submit()
    await side.until("QuotaReserved")
    await side.answer(side.namespace, "Rejected")
    await side.until("Evicted")
    await side.until("QuotaReserved", "False")


@scenario
async def a_check_changes_the_pods(side: Side) -> None:
    await side.check(side.namespace)
    await side.queue(checks=(side.namespace,))
    await side.submit(seconds=None)
    await side.until("QuotaReserved")
    update = {
        "name": "main",
        "labels": {"example.com/told": "yes"},
        "annotations": {"example.com/why": "because"},
        "nodeSelector": {"example.com/rack": "7"},
        "tolerations": [{"key": "example.com/red", "operator": "Exists"}],
    }
    await side.answer(side.namespace, "Ready", podSetUpdates=[update])
    await side.until_running()


@scenario
async def a_stopped_queue_takes_a_reservation_back(side: Side) -> None:
    await side.check(side.namespace)
    await side.queue(checks=(side.namespace,))
    await side.submit()
    await side.until("QuotaReserved")
    await side.policy("Hold")
    await side.until("QuotaReserved", "False")
    await side.policy("None")
    await side.until("QuotaReserved")


# --- the test ---------------------------------------------------------------------------------------------------------


STARTED_AT_ONCE = (".Job job.conditions.Suspended", ".Job job.last.status.conditions.Suspended")
"""Who sees first a job that Kueue starts the moment it is there: the job controller, which notes that it is held, or
Kueue."""

RACES = {
    "a_copy_gets_its_job_and_runs": STARTED_AT_ONCE,
    "a_copy_belongs_to_another_job": STARTED_AT_ONCE,
    "a_manager_evicts_a_copy": STARTED_AT_ONCE,
    "a_copy_is_deleted_with_its_job": STARTED_AT_ONCE,
    # How many of the last pods Kueue sees as done before the job is over.
    "an_indexed_job_runs_in_waves": (".Workload job-job-HASH.last.status.reclaimablePods",),
    # Who sees first that it runs: Kueue, which holds it, or the job controller, which notes a start.
    "a_job_that_was_not_admitted_is_started_by_its_user": (".Job job.conditions.Suspended", ".Job job.last.status"),
    # Kueue asks for the end once more while the job is being stopped, if that takes a while, and leaves it at that.
    "a_job_runs_longer_than_its_label_allows": (".Workload job-job-HASH.last.status.conditions.DeactivationTarget",),
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_simulated_worker_does_as_the_real_one(planes: tuple[ControlPlane, ControlPlane], name: str) -> None:
    namespace, (with_kueue, without) = unique("alike"), planes
    async with real_side(with_kueue, namespace) as real, simulated_side(without, namespace) as ours:
        async with anyio.create_task_group() as tasks:
            for side in (real, ours):
                tasks.start_soon(SCENARIOS[name], side)
        await agree(real.story, ours.story, races=RACES.get(name, ()))
