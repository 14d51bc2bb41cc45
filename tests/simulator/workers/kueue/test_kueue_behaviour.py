"""The simulated Kueue with admission checks, and with a behaviour that is scripted."""

from __future__ import annotations

from datetime import timedelta

import anyio
import anyio.lowlevel

from multikueue.api import kinds
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue_simulator.workers.kueue.behaviour import Behaviour, CheckAnswer, always
from multikueue_simulator.workers.kueue.kueue import RARE
from tests.simulator.bench import Bench, on_bench
from tests.simulator.workers.kueue.copies import SECOND

CONTROLLER = "example.com/check"


# --- admission checks ------------------------------------------------------------------------------------------------


@on_bench
async def test_a_check_of_somebody_else_is_waited_for(worker: Bench) -> None:
    worker.check("check", CONTROLLER)
    worker.apply_fixtures(checks=("check",))
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
    worker.apply_fixtures(checks=("check",))
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
    worker.apply_fixtures(checks=("check",))
    await worker.start_kueue(Behaviour(checks={CONTROLLER: rule}))
    await worker.start_jobs()
    worker.submit()
    await anyio.sleep(10)
    assert worker.workload()["status"]["admissionChecks"][0]["state"] == "Retry"
    await anyio.sleep(60)
    assert worker.workload()["spec"]["active"] is False
    assert worker.conditions()["Evicted"] == "True/DeactivatedDueToAdmissionCheck"
    (evicted,) = (each for each in worker.workload()["status"]["conditions"] if each["type"] == "Evicted")
    assert evicted["message"].endswith("Admission check(s): check, were rejected"), (
        "as the release that is played says it"
    )


# --- scripted behaviour ----------------------------------------------------------------------------------------------


@on_bench
async def test_admission_may_be_slow(worker: Bench) -> None:
    worker.apply_fixtures()
    await worker.start_kueue(Behaviour(admission_delay=always(60 * SECOND)))
    await worker.start_jobs()
    worker.submit()
    await anyio.sleep(59)
    assert worker.conditions() == {}
    await anyio.sleep(10)
    assert worker.ended() == "Complete"


@on_bench
async def test_it_may_have_no_room_until_told_otherwise(worker: Bench) -> None:
    worker.apply_fixtures()
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

    worker.apply_fixtures()
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
    worker.apply_fixtures()
    await worker.start_kueue(without=RARE)
    await worker.start_jobs()
    worker.submit()
    await anyio.sleep(10)
    assert worker.ended() == "Complete"
