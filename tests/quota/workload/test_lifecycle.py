"""What comes next for a workload: several rules, one status (quota-engine 9.13, multikueue-contract 3.11)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.api.event import Event
from multikueue.api.meta import find_condition
from multikueue.api.queues import ClusterQueue, LocalQueue, StopPolicy
from multikueue.api.workload import (
    ADMISSION_GATED_BY_ANNOTATION,
    Admission,
    AdmissionCheckState,
    Finish,
    PodSetRequest,
    ReclaimablePod,
    RequeueState,
    Workload,
    WorkloadStatus,
)
from multikueue.quota.workload.lifecycle import Facts, Step, step
from multikueue.quota.workload.outcome import Verdict
from multikueue.testing import NOW, ClusterQueueBuilder, LocalQueueBuilder, WorkloadBuilder, cluster_queue, local_queue
from multikueue.testing import workload as new_workload
from tests.quota.builders import SECOND, after, facts_of, knowing

QUEUE, LOCAL = cluster_queue("cq"), local_queue("lq")
ADMISSION = Admission(cluster_queue="cq")
MINUTE = timedelta(minutes=1)


def workload() -> WorkloadBuilder:
    return new_workload("wl").queue("lq").generation(7)


def facts(
    now: datetime = NOW + 100 * SECOND,
    *,
    queue: ClusterQueueBuilder | ClusterQueue | None = QUEUE,
    local: LocalQueueBuilder | LocalQueue | None = LOCAL,
    active: bool = True,
    **known: Any,
) -> Facts:
    """Everything is well and nothing runs, unless said otherwise."""
    return facts_of(
        now,
        cluster_queue=queue.build() if isinstance(queue, ClusterQueueBuilder) else queue,
        local_queue=local.build() if isinstance(local, LocalQueueBuilder) else local,
        cluster_queue_active=active,
        **known,
    )


def shown(value: Workload, status: WorkloadStatus) -> Workload:
    return msgspec.structs.replace(value, status=status)


def taken(builder: WorkloadBuilder, known: Facts) -> Step:
    """The step, after making sure that repeating it changes nothing."""
    value = builder.build()
    first = step(value, known)
    again = step(shown(value, first.status), known)
    assert again.status is first.status
    assert again.deactivate == first.deactivate
    return first


def told(found: Step, type_: str) -> tuple[str, str, str] | None:
    condition = find_condition(found.status.conditions, type_)
    return (condition.status, condition.reason, condition.message) if condition else None


def events(found: Step) -> list[str]:
    return [event.reason for event in found.events]


def retrying(*, delay: int | None = None, at: datetime = NOW) -> WorkloadBuilder:
    builder = workload().reserved()
    check = AdmissionCheckState(
        name="mk", state="Retry", message="", last_transition_time=at, requeue_after_seconds=delay
    )
    return builder._with_status(admission_checks=(check,))


# --- the end ---------------------------------------------------------------------------------------------------------


def test_nothing_happens_to_a_finished_workload() -> None:
    finished = workload().admitted().finished().check("mk", "Rejected").build()
    found = step(finished, facts(job_finished=Finish(reason="Failed", message=""), queue=None, required_checks=("x",)))

    assert found == Step(finished.status)
    assert found.status is finished.status


def test_a_finished_job_finishes_its_workload_and_nothing_else_happens() -> None:
    found = taken(
        workload().admitted().check("mk", "Retry"), facts(job_finished=Finish(reason="Succeeded", message="all done"))
    )

    assert told(found, "Finished") == ("True", "Succeeded", "all done")
    assert told(found, "Evicted") is None


def test_a_job_that_finished_while_its_workload_was_switched_off_counts() -> None:
    found = taken(workload().admitted().inactive(), facts(job_finished=Finish(reason="Failed", message="boom")))

    assert told(found, "Finished") == ("True", "Failed", "boom")
    assert told(found, "Evicted") is None


# --- reserving and admitting -----------------------------------------------------------------------------------------


def test_a_reservation_and_its_checks_are_one_write() -> None:
    found = taken(workload(), facts(reservation=ADMISSION, required_checks=("mk",)))

    assert told(found, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
    assert found.status.admission == ADMISSION
    assert [check.name for check in found.status.admission_checks] == ["mk"]
    assert told(found, "Admitted") is None
    assert all(condition.observed_generation == 7 for condition in found.status.conditions)
    assert found.events == (
        Event("Normal", "QuotaReserved", "Quota reserved in ClusterQueue cq, wait time since queued was 100s"),
    )


def test_without_checks_it_is_admitted_in_the_same_write() -> None:
    found = taken(workload(), facts(reservation=ADMISSION))

    assert told(found, "Admitted") == ("True", "Admitted", "The workload is admitted")
    assert events(found) == ["QuotaReserved", "Admitted"]


def test_the_wait_is_counted_from_the_last_requeueing() -> None:
    found = taken(workload().condition("Requeued", reason="Preempted", at=after(90)), facts(reservation=ADMISSION))

    assert found.events[0].message.endswith("was 10s")


def test_a_reservation_is_not_applied_twice() -> None:
    reserved = workload().reserved().check("mk")
    found = taken(reserved, facts(reservation=ADMISSION, required_checks=("mk",)))

    assert found.status is not None
    assert found.events == ()


def test_admission_follows_when_the_last_check_is_ready() -> None:
    found = taken(workload().reserved(at=after(60)).check("mk", "Ready"), facts(required_checks=("mk",)))

    assert told(found, "Admitted") == ("True", "Admitted", "The workload is admitted")
    assert found.events[0].message == "Admitted by ClusterQueue cq, wait time since reservation was 40s"


def test_checks_that_are_no_longer_required_do_not_hold_up() -> None:
    found = taken(workload().reserved().check("old"), facts(required_checks=()))

    assert found.status.admission_checks == ()
    assert told(found, "Admitted") == ("True", "Admitted", "The workload is admitted")


# --- waiting ---------------------------------------------------------------------------------------------------------

VERDICT = Verdict("no room", (PodSetRequest(name="main", resources={"cpu": "1"}),))


def test_a_verdict_is_written_once_with_what_was_requested_and_the_checks() -> None:
    found = taken(workload(), facts(verdict=VERDICT, required_checks=("mk",)))

    assert told(found, "QuotaReserved") == ("False", "Pending", "no room")
    assert found.status.resource_requests == VERDICT.resource_requests
    assert [check.name for check in found.status.admission_checks] == ["mk"]
    assert found.events == (Event("Warning", "Pending", "no room"),)


def test_a_new_verdict_keeps_the_transition_time() -> None:
    before = workload().unreserved(message="little room", at=after(3))
    found = taken(before, facts(verdict=VERDICT))

    condition = find_condition(found.status.conditions, "QuotaReserved")
    assert condition
    assert condition.last_transition_time == after(3)


def test_a_long_verdict_makes_a_short_event() -> None:
    assert len(taken(workload(), facts(verdict=Verdict("x" * 5000))).events[0].message) == 1024


def test_a_workload_nobody_has_judged_yet_costs_no_write() -> None:
    pending = workload().build()
    found = step(pending, facts(NOW + SECOND, required_checks=("mk",)))

    assert found.status is pending.status
    assert found.again_after == SECOND


def test_a_workload_nobody_judges_lists_its_checks_nonetheless_after_a_while() -> None:
    found = taken(workload(), facts(NOW + 2 * SECOND, required_checks=("mk",)))

    assert [(check.name, check.state) for check in found.status.admission_checks] == [("mk", "Pending")]
    assert found.again_after is None


def test_a_workload_that_was_made_switched_off_lists_its_checks_too() -> None:
    found = taken(workload().inactive(), facts(required_checks=("mk",)))

    assert told(found, "Evicted") == ("True", "Deactivated", "The workload is deactivated")
    assert [(check.name, check.state) for check in found.status.admission_checks] == [("mk", "Pending")]


INADMISSIBLE = {
    "LocalQueue lq doesn't exist": facts(local=None),
    "LocalQueue lq is inactive": facts(local=LOCAL.stopped()),
    "ClusterQueue cq doesn't exist": facts(queue=None, active=False),
    "ClusterQueue cq is inactive": facts(active=False),
}


@pytest.mark.parametrize(("message", "known"), INADMISSIBLE.items())
def test_qe_330_why_a_pending_workload_cannot_even_wait(message: str, known: Facts) -> None:
    assert told(taken(workload(), known), "QuotaReserved") == ("False", "Inadmissible", message)


def test_being_inadmissible_outweighs_a_verdict() -> None:
    found = taken(workload(), facts(local=LOCAL.stopped(), verdict=VERDICT))

    assert told(found, "QuotaReserved") == ("False", "Inadmissible", "LocalQueue lq is inactive")


GATED = workload().annotations({ADMISSION_GATED_BY_ANNOTATION: "example.com/a,example.com/b"})
GATED_TOLD = ("False", "AdmissionGated", "Admission is gated by: example.com/a,example.com/b")


def test_a_gated_workload_says_who_holds_it_back() -> None:
    found = taken(GATED, facts(verdict=VERDICT))

    assert told(found, "QuotaReserved") == GATED_TOLD
    assert events(found) == ["AdmissionGated"]


def test_another_gate_that_opens_is_no_news() -> None:
    found = taken(GATED.unreserved(reason="AdmissionGated", message="Admission is gated by: more"), facts())

    assert told(found, "QuotaReserved") == GATED_TOLD
    assert events(found) == []


def test_the_last_gate_that_opens_leaves_it_waiting() -> None:
    found = taken(workload().unreserved(reason="AdmissionGated"), facts())

    waits = "AdmissionGatedBy cleared, waiting for quota reservation"
    assert told(found, "QuotaReserved") == ("False", "Pending", waits)
    assert events(found) == ["AdmissionGateCleared"]


def test_a_gate_takes_no_quota_back() -> None:
    assert told(taken(GATED.reserved(), facts()), "QuotaReserved") == told(
        taken(workload().reserved(), facts()), "QuotaReserved"
    )


def test_a_missing_queue_outweighs_a_gate() -> None:
    assert told(taken(GATED, facts(local=None)), "QuotaReserved") == (
        "False",
        "Inadmissible",
        "LocalQueue lq doesn't exist",
    )


# --- evictions -------------------------------------------------------------------------------------------------------


def test_an_evicted_workload_keeps_its_quota_while_it_holds() -> None:
    evicted = workload().admitted().evicted("Preempted", message="for another").build()

    assert step(evicted, facts(holding=True)).status is evicted.status


def test_and_gives_it_back_when_nothing_runs_any_more() -> None:
    found = taken(workload().admitted().evicted("Preempted", message="for another"), facts())

    assert told(found, "QuotaReserved") == ("False", "Pending", "for another")
    assert told(found, "Admitted") == ("False", "NoReservation", "The workload has no reservation")
    assert told(found, "Requeued") == ("True", "Preempted", "for another")
    assert found.status.admission is None


@pytest.mark.parametrize(
    "builder",
    [
        pytest.param(workload().admitted().evicted("Preempted", message="for another"), id="preempted"),
        pytest.param(workload().admitted().evicted("Deactivated", message="by its user").inactive(), id="switched off"),
    ],
)
def test_what_others_run_keeps_its_quota_until_they_take_it_back(builder: WorkloadBuilder) -> None:
    """Only the controller of its job ends an eviction in Kueue; a workload without a job waits for whoever made it."""
    evicted = builder.build()

    assert step(evicted, facts(run_by_others=True)).status is evicted.status


def test_a_stopped_queue_takes_back_what_others_would_run_but_do_not_yet() -> None:
    known = facts(queue=QUEUE.stopped(), required_checks=("mk",), run_by_others=True)
    found = taken(workload().reserved().check("mk"), known)

    assert told(found, "QuotaReserved") == ("False", "Inadmissible", "ClusterQueue cq is stopped")
    assert told(found, "Evicted") is None


def test_a_retry_evicts_and_waits_for_what_runs() -> None:
    found = taken(retrying(), facts(holding=True, required_checks=("mk",)))

    assert told(found, "Evicted") == ("True", "AdmissionCheck", "At least one admission check is false")
    assert told(found, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
    assert events(found) == ["EvictedDueToAdmissionCheck"]


def test_a_retry_where_nothing_runs_is_back_in_the_queue_in_one_write() -> None:
    found = taken(retrying(), facts(required_checks=("mk",)))

    assert told(found, "QuotaReserved") == ("False", "Pending", "At least one admission check is false")
    assert told(found, "Requeued") == ("True", "BackoffFinished", "The back-off is over")
    (check,) = found.status.admission_checks
    assert (check.state, check.retry_count) == ("Pending", 1)


def test_a_back_off_after_a_retry_counts_and_ends() -> None:
    known = facts(required_checks=("mk",), retry_backoff=MINUTE)
    builder = retrying().requeue_state(2)
    found = taken(builder, known)

    assert found.status.requeue_state == RequeueState(count=3, requeue_at=after(160))
    assert told(found, "Requeued") == ("False", "AdmissionCheck", "At least one admission check is false")
    assert found.again_after == MINUTE

    waiting = shown(builder.build(), found.status)
    over = step(waiting, facts(after(160), required_checks=("mk",), retry_backoff=MINUTE))
    assert told(over, "Requeued") == ("True", "BackoffFinished", "The back-off is over")
    assert over.status.requeue_state == RequeueState(count=3)
    assert over.again_after is None

    at_once = step(waiting, facts(after(101), required_checks=("mk",), retry_backoff=MINUTE, may_fit_now=True))
    assert told(at_once, "Requeued") == ("True", "BackoffFinished", "The back-off is over")
    assert (at_once.status.requeue_state, at_once.again_after) == (RequeueState(count=3), None)


@pytest.mark.parametrize(
    ("delay", "at", "until"),
    [
        (2**63 - 1, NOW, NOW + timedelta(seconds=2**31 - 1)),
        (-(2**63), NOW, NOW - timedelta(seconds=2**31 - 1)),
        (60, NOW.replace(year=9999), None),
    ],
    ids=["longer than ever", "before the beginning", "from a time at the end of the calendar"],
)
def test_a_delay_that_cannot_be_is_none_or_as_long_as_one_can_be(
    delay: int, at: datetime, until: datetime | None
) -> None:
    after_step = step(retrying(delay=delay, at=at).build(), facts()).status
    assert (after_step.requeue_state.requeue_at if after_step.requeue_state else None) == until


def test_section_12_2_a_delay_holds_the_eviction_up() -> None:
    builder = retrying(delay=60, at=after(50))
    found = taken(builder, facts(required_checks=("mk",)))

    assert told(found, "Evicted") is None
    assert found.status.requeue_state == RequeueState(requeue_at=after(110))
    assert found.again_after == 10 * SECOND

    later = step(shown(builder.build(), found.status), facts(after(110), required_checks=("mk",), holding=True))
    assert told(later, "Evicted") == ("True", "AdmissionCheck", "At least one admission check is false")


def test_qe_332_the_latest_end_counts_and_never_moves_back() -> None:
    first = AdmissionCheckState(
        name="a", state="Pending", message="", last_transition_time=after(90), requeue_after_seconds=30
    )
    second = AdmissionCheckState(
        name="b", state="Retry", message="", last_transition_time=after(99), requeue_after_seconds=15
    )
    checks = (first, second)
    builder = workload().reserved()._with_status(admission_checks=checks)

    found = taken(builder, facts(required_checks=("a", "b")))
    assert found.status.requeue_state == RequeueState(requeue_at=after(120))

    found = taken(builder.requeue_state(1, at=after(500)), facts(required_checks=("a", "b")))
    assert found.status.requeue_state == RequeueState(count=1, requeue_at=after(500))


def test_qe_331_a_rejected_check_switches_the_workload_off() -> None:
    rejected = workload().reserved().check("b", "Rejected").check("a", "Rejected").check("c", "Retry")
    found = taken(rejected, facts(required_checks=("a", "b", "c"), holding=True))

    assert found.deactivate
    assert told(found, "DeactivationTarget") == (
        "True",
        "AdmissionCheck",
        "Admission check(s): a,b, were rejected",
    )
    assert told(found, "Evicted") is None
    assert events(found) == ["AdmissionCheckRejected"]


def test_and_then_it_is_evicted_for_that_cause() -> None:
    target = workload().admitted().condition("DeactivationTarget", reason="AdmissionCheck", message="it was rejected")
    found = taken(target.inactive().requeue_state(3), facts(holding=True))

    assert told(found, "Evicted") == (
        "True",
        "DeactivatedDueToAdmissionCheck",
        "The workload is deactivated due to it was rejected",
    )
    assert told(found, "DeactivationTarget") is None
    assert found.status.requeue_state is None
    assert events(found) == ["EvictedDueToDeactivatedDueToAdmissionCheck"]


def test_a_workload_switched_off_by_its_user_is_evicted_and_released() -> None:
    found = taken(workload().admitted().inactive(), facts())

    assert told(found, "Evicted") == ("True", "Deactivated", "The workload is deactivated")
    assert told(found, "Requeued") == ("False", "Deactivated", "The workload is deactivated")
    assert told(found, "QuotaReserved") == ("False", "Pending", "The workload is deactivated")


def test_section_12_5_a_workload_born_inactive_is_evicted_and_not_requeued() -> None:
    found = taken(workload().inactive(), facts())

    assert told(found, "Evicted") == ("True", "Deactivated", "The workload is deactivated")
    assert told(found, "Requeued") is None
    assert told(found, "QuotaReserved") is None


def test_a_workload_that_is_switched_off_says_too_that_its_queue_is_stopped() -> None:
    held, stopped = cluster_queue("cq").stopped("Hold"), "ClusterQueue cq is inactive"

    waiting = taken(workload().unreserved().inactive(), facts(queue=held, active=False))
    assert told(waiting, "QuotaReserved") == ("False", "Inadmissible", stopped)
    running = taken(workload().admitted().inactive(), facts(queue=held, active=False, holding=True))
    assert told(running, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")


def test_a_workload_that_gets_quota_as_soon_as_its_queue_runs_again_says_that_it_does() -> None:
    reason = "LocalQueueStopped"
    drained = workload().unreserved().evicted(reason).condition("Requeued", "False", reason=reason)

    found = taken(drained, facts(reservation=ADMISSION))
    assert told(found, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
    assert told(found, "Requeued") == ("True", "LocalQueueRestarted", "The LocalQueue runs again")


def test_qe_335_an_earlier_reason_of_eviction_survives_deactivation() -> None:
    found = taken(workload().admitted().evicted("Preempted", message="first").inactive(), facts(holding=True))

    assert told(found, "Evicted") == ("True", "Preempted", "first")


@pytest.mark.parametrize("reason", ["Deactivated", "DeactivatedDueToAdmissionCheck"])
def test_a_reactivated_workload_queues_again_whoever_switched_it_off(reason: str) -> None:
    off = workload().unreserved().evicted(reason).condition("Requeued", "False", reason=reason)

    assert told(taken(off, facts()), "Requeued") == ("True", "Reactivated", "The workload is active again")


def test_reactivation_before_the_eviction_is_written_is_too_late() -> None:
    found = taken(workload().admitted(), facts(holding=True, switched_off=True))
    assert told(found, "Evicted") == ("True", "Deactivated", "The workload is deactivated")
    assert events(found) == ["EvictedDueToDeactivated"]


def test_reactivation_before_the_eviction_is_complete_completes_it_first() -> None:
    early = workload().admitted().evicted("Deactivated", message="off")
    assert told(taken(early, facts(holding=True)), "QuotaReserved") == (
        "True",
        "QuotaReserved",
        "Quota reserved in ClusterQueue cq",
    )

    found = taken(early, facts())
    assert told(found, "QuotaReserved") == ("False", "Pending", "off")
    assert told(found, "Requeued") == ("True", "Reactivated", "The workload is active again")


# --- stopped queues --------------------------------------------------------------------------------------------------

STOPPED = {
    "ClusterQueue, Hold": ("ClusterQueue", "cq", facts(queue=QUEUE.stopped(), active=False)),
    "ClusterQueue, HoldAndDrain": ("ClusterQueue", "cq", facts(queue=QUEUE.stopped("HoldAndDrain"), active=False)),
    "LocalQueue, Hold": ("LocalQueue", "lq", facts(local=LOCAL.stopped())),
    "LocalQueue, HoldAndDrain": ("LocalQueue", "lq", facts(local=LOCAL.stopped("HoldAndDrain"))),
}


@pytest.mark.parametrize(("kind", "name", "known"), STOPPED.values(), ids=STOPPED)
def test_a_stopped_queue_takes_a_reservation_back(kind: str, name: str, known: Facts) -> None:
    found = taken(workload().reserved().check("mk"), knowing(known, required_checks=("mk",)))

    condition = told(found, "QuotaReserved")
    assert condition
    assert condition[:2] == ("False", "Inadmissible")
    assert condition[2] == f"{kind} {name} is inactive"  # its being stopped is told for the moment it happens only
    assert told(found, "Evicted") is None
    assert found.status.admission is None


@pytest.mark.parametrize(("kind", "name", "known"), STOPPED.values(), ids=STOPPED)
def test_unless_something_may_run_then_it_is_evicted_in_good_order(kind: str, name: str, known: Facts) -> None:
    found = taken(workload().reserved().check("mk"), knowing(known, required_checks=("mk",), holding=True))

    assert told(found, "Evicted") == ("True", f"{kind}Stopped", f"The {kind} is stopped")
    assert found.status.admission is not None


@pytest.mark.parametrize(("kind", "name", "known"), STOPPED.values(), ids=STOPPED)
def test_qe_328_only_draining_evicts_what_is_admitted(kind: str, name: str, known: Facts) -> None:
    found = taken(workload().admitted(), knowing(known, holding=True))
    policy = known.queues.local_queue.spec.stop_policy if kind == "LocalQueue" and known.queues.local_queue else None
    if known.queues.cluster_queue and kind == "ClusterQueue":
        policy = known.queues.cluster_queue.spec.stop_policy

    drained = ("True", f"{kind}Stopped", f"The {kind} is stopped")
    assert told(found, "Evicted") == (drained if policy == "HoldAndDrain" else None)


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
def test_qe_334_a_drained_workload_queues_again_when_its_queue_runs(kind: str) -> None:
    drained = workload().unreserved().evicted(f"{kind}Stopped").condition("Requeued", "False", reason=f"{kind}Stopped")
    still = facts(queue=QUEUE.stopped(), local=LOCAL.stopped(), active=False)

    assert told(taken(drained, still), "Requeued") == ("False", f"{kind}Stopped", "")
    assert told(taken(drained, facts()), "Requeued") == ("True", f"{kind}Restarted", f"The {kind} runs again")


GONE = {
    "a deleted LocalQueue": (facts(local=None), "LocalQueue lq doesn't exist"),
    "a ClusterQueue being deleted": (facts(queue=QUEUE.deleted(), active=False), "ClusterQueue cq is inactive"),
}


@pytest.mark.parametrize(("known", "message"), GONE.values(), ids=GONE)
def test_qe_330_a_reservation_ends_with_its_queue_an_admission_does_not(known: Facts, message: str) -> None:
    found = taken(workload().reserved().check("mk"), knowing(known, required_checks=("mk",)))
    assert told(found, "QuotaReserved") == ("False", "Inadmissible", message)

    admitted = taken(workload().admitted(), known)
    assert told(admitted, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")


# --- time ------------------------------------------------------------------------------------------------------------


def test_qe_336_a_workload_that_runs_too_long_is_switched_off() -> None:
    limited = workload().max_execution_time(timedelta(hours=1)).admitted()
    found = taken(limited, facts(after(3600), holding=True))

    assert found.deactivate
    assert told(found, "DeactivationTarget") == (
        "True",
        "MaximumExecutionTimeExceeded",
        "exceeding the maximum execution time",
    )
    assert found.status.accumulated_past_execution_time_seconds is None
    assert events(found) == ["MaximumExecutionTimeExceeded"]


def test_qe_336_time_of_earlier_admissions_counts() -> None:
    limited = workload().max_execution_time(timedelta(hours=1)).admitted()
    before = limited._with_status(accumulated_past_execution_time_seconds=3000)

    assert taken(before, facts(after(599), holding=True)).again_after == SECOND
    assert taken(before, facts(after(600), holding=True)).deactivate


def test_a_workload_to_be_switched_off_says_so_until_it_is() -> None:
    target = workload().reserved().condition("DeactivationTarget", reason="X", message="y").build()
    found = step(target, facts())

    assert found == Step(target.status, deactivate=True)


# --- laws ------------------------------------------------------------------------------------------------------------


@st.composite
def anything(draw: st.DrawFn) -> WorkloadBuilder:
    """A workload in any state that could be met, sensible or not."""
    builder = workload()
    if draw(st.booleans()):
        builder = builder.reserved(at=after(draw(st.integers(0, 99))))
    if draw(st.booleans()):
        builder = builder.admitted(at=after(draw(st.integers(0, 99))))
    for type_ in draw(st.sets(st.sampled_from(["Evicted", "Preempted", "Requeued", "DeactivationTarget"]))):
        reasons = ["Preempted", "AdmissionCheck", "Deactivated", "ClusterQueueStopped", "LocalQueueStopped"]
        builder = builder.condition(
            type_, draw(st.sampled_from(["True", "False"])), reason=draw(st.sampled_from(reasons)), at=after(50)
        )
    for name in draw(st.sets(st.sampled_from(["mk", "x"]))):
        builder = builder.check(name, draw(st.sampled_from(["Pending", "Ready", "Retry", "Rejected"])))
    if draw(st.booleans()):
        builder = builder.requeue_state(draw(st.integers(0, 3)), at=after(draw(st.integers(0, 200))))
    if draw(st.booleans()):
        builder = builder.unreserved(at=after(60))
    if draw(st.booleans()):
        builder = builder.max_execution_time(timedelta(seconds=draw(st.integers(1, 200))))
    return builder.inactive() if draw(st.booleans()) else builder


@st.composite
def any_facts(draw: st.DrawFn) -> Facts:
    stops: st.SearchStrategy[StopPolicy] = st.sampled_from(["None", "Hold", "HoldAndDrain"])
    local, queue = LOCAL.stopped(draw(stops)), QUEUE.stopped(draw(stops))
    return facts(
        local=draw(st.sampled_from([local, local, None])),
        queue=draw(st.sampled_from([queue, queue, None])),
        active=draw(st.booleans()),
        holding=draw(st.booleans()),
        run_by_others=draw(st.booleans()),
        reservation=draw(st.sampled_from([None, ADMISSION])),
        verdict=draw(st.sampled_from([None, VERDICT])),
        required_checks=draw(st.sampled_from([(), ("mk",), ("mk", "x")])),
        retry_backoff=draw(st.sampled_from([None, timedelta(), MINUTE])),
        replaceable=draw(st.sampled_from([None, 0, 1])),
        job_finished=draw(st.sampled_from([None, None, None, Finish(reason="Succeeded", message="")])),
    )


@settings(max_examples=500)
@given(anything(), any_facts())
def test_repeating_a_step_comes_to_rest_at_once_or_in_one_more(builder: WorkloadBuilder, known: Facts) -> None:
    value = builder.build()
    given_once = knowing(known, reservation=None)  # a reservation is confirmed once it was written
    for attempt in (known, given_once, given_once):
        found = step(value, attempt)
        value = shown(value, found.status)

    assert step(value, given_once).status is value.status


@settings(max_examples=500)
@given(anything(), any_facts())
def test_no_step_leaves_a_contradiction(builder: WorkloadBuilder, known: Facts) -> None:
    before = builder.build()
    found = shown(before, step(before, known).status)

    if found.status != before.status and not found.has("Finished"):
        assert not (found.has("Admitted") and not found.has("QuotaReserved"))
        assert not (found.status.admission and found.status.cluster_name and found.status.nominated_cluster_names)
        if before.has("QuotaReserved") and not found.has("QuotaReserved"):
            assert found.status.admission is None
            assert all(check.state == "Pending" for check in found.status.admission_checks)
    if before.has("QuotaReserved") and before.has("Admitted") and known.job.holding:
        assert found.has("QuotaReserved")


# Pods that are over.

RECLAIM: dict[str, tuple[WorkloadBuilder, dict[str, int] | None, dict[str, int]]] = {
    "are given back": (workload().admitted(), {"main": 1}, {"main": 1}),
    "are never taken again": (workload().admitted().reclaimable(main=2), {"main": 1}, {"main": 2}),
    "stay while nothing is known": (workload().admitted().reclaimable(main=2), {}, {"main": 2}),
    "stay where there is no job to ask": (workload().reclaimable(main=2), None, {"main": 2}),
    "are needed again without quota": (workload().reclaimable(main=2), {}, {}),
    "count no more in the end": (workload().admitted().finished(), {"main": 1}, {}),
}


@pytest.mark.parametrize(("built", "over", "expected"), RECLAIM.values(), ids=RECLAIM.keys())
def test_pods_that_are_over(built: WorkloadBuilder, over: dict[str, int] | None, expected: dict[str, int]) -> None:
    pods = None if over is None else tuple(ReclaimablePod(name=n, count=c) for n, c in over.items())
    found = taken(built, facts(reclaimable=pods))
    assert {each.name: each.count for each in found.status.reclaimable_pods} == expected


# Members of a group of Pods that are to be replaced.

WAITS = "WaitingForReplacementPods"
NEEDED = ("True", "PodsFailed", "Some Failed pods need replacement")
WAITING = workload().admitted().condition(WAITS, reason="Preempted", message="for others")
REPLACE: dict[str, tuple[WorkloadBuilder, Facts, tuple[str, str, str] | None]] = {
    "nobody asks where there is no group": (workload().admitted(), facts(), None),
    "nothing is said while all are there": (workload().admitted(), facts(replaceable=0), None),
    "one that is not there is told of": (workload().admitted(), facts(replaceable=1), NEEDED),
    "with why they went": (
        workload().admitted().evicted(message="for others"),
        facts(replaceable=2, holding=True),
        ("True", "Preempted", "for others"),
    ),
    "which is said as long as it lasts": (WAITING, facts(replaceable=1), ("True", "Preempted", "for others")),
    "until all are there": (WAITING, facts(replaceable=0), ("False", "PodsReady", "No pods need replacement")),
    "also in the end": (
        workload().admitted(),
        facts(replaceable=1, job_finished=Finish(reason="Succeeded", message="")),
        NEEDED,
    ),
}


@pytest.mark.parametrize(("built", "known", "expected"), REPLACE.values(), ids=REPLACE.keys())
def test_members_that_are_to_be_replaced(
    built: WorkloadBuilder, known: Facts, expected: tuple[str, str, str] | None
) -> None:
    assert told(taken(built, known), WAITS) == expected
