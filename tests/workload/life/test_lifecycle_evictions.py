"""Evictions, and what stopped and deleted queues take back (quota-scenarios 9.13): one file, as each rule may evict."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.compatibility import NEWEST
from multikueue.api.kueue.workload import BACKFILLED, FITS_NO_WORKER, AdmissionCheckState, RequeueState
from multikueue.api.meta import ConditionStatus, find_condition, render_time
from multikueue.dispatch.remote import Remote
from multikueue.quota.workload.outcome import Cause, Eviction
from multikueue.workload.case import Case
from multikueue.workload.decision_rules import WaitForPodsReady
from tests.builders import NOW, WorkloadBuilder, cluster_queue
from tests.quota.builders import SECOND, after, knowing, step
from tests.workload.builders import away, but, worker
from tests.workload.life.steps import (
    ADMISSION,
    LOCAL,
    MINUTE,
    MINUTELY,
    QUEUE,
    events,
    facts,
    shown,
    taken,
    told,
    workload,
)

RETRIED = 'Evicted due to AdmissionCheck in Retry state: "mk" (not here)'


def retrying(*, delay: int | None = None, at: datetime = NOW) -> WorkloadBuilder:
    builder = workload().reserved()
    check = AdmissionCheckState(
        name="mk", state="Retry", message="not here", last_transition_time=at, requeue_after_seconds=delay
    )
    return builder._with_status(admission_checks=(check,))


# --- evictions -------------------------------------------------------------------------------------------------------


def test_an_evicted_workload_keeps_its_quota_while_it_holds() -> None:
    evicted = workload().admitted().evicted("Preempted", message="for another").build()

    assert step(evicted, facts(may_run=True)).status is evicted.status


@pytest.mark.parametrize(
    ("remote", "kept"),
    [
        pytest.param(away(but(worker("w1"), is_known=False)), ("w1",), id="nobody has seen it since the start"),
        pytest.param(away(but(worker("w1"), is_known=False), since=NOW - timedelta(days=1)), (), id="it is lost"),
        pytest.param(away(worker("w1")), (), id="it was seen, and had no job"),
        pytest.param(worker("w1"), (), id="it is there"),
        pytest.param(away(but(worker("w3"), is_known=False)), (), id="it was not nominated"),
    ],
)
@pytest.mark.parametrize("by", ["a stopped queue", "another workload"])
def test_a_nomination_outlives_an_eviction_where_nobody_has_seen_its_worker(
    remote: Remote, kept: tuple[str, ...], by: str
) -> None:
    """The process before may have made the job there, and nothing else tells of it: its quota would be given back, and its
    result lost. `is_holding` reads it."""
    local = workload().reserved().nominated("w1", "w2").build()
    known = (
        facts(NOW, remotes=(remote,), queue=QUEUE.stopped("HoldAndDrain"))
        if by == "a stopped queue"
        else facts(NOW, remotes=(remote,), preemption=FOR_ANOTHER)
    )
    status = step(local, known).status
    evicted = find_condition(status.conditions, "Evicted")
    assert evicted is not None
    assert evicted.status == "True"
    assert status.nominated_cluster_names == kept


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

    assert step(evicted, facts(is_run_by_others=True)).status is evicted.status


def test_a_stopped_queue_takes_back_what_others_would_run_but_do_not_yet() -> None:
    known = facts(queue=QUEUE.stopped(), required_checks=("mk",), is_run_by_others=True)
    found = taken(workload().reserved().check("mk"), known)

    assert told(found, "QuotaReserved") == ("False", "Inadmissible", "ClusterQueue cq is stopped")
    assert told(found, "Evicted") is None


@pytest.mark.parametrize(
    ("has_check_messages", "message"), [(True, RETRIED), (False, "At least one admission check is false")]
)
def test_a_retry_evicts_and_waits_for_what_runs(has_check_messages: bool, message: str) -> None:
    release = replace(NEWEST, has_check_messages=has_check_messages)
    found = taken(retrying(), facts(may_run=True, required_checks=("mk",), compatibility=release))

    assert told(found, "Evicted") == ("True", "AdmissionCheck", message)
    assert told(found, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
    assert events(found) == ["EvictedDueToAdmissionCheck"]


def test_a_retry_where_nothing_runs_is_back_in_the_queue_in_one_write() -> None:
    found = taken(retrying(), facts(required_checks=("mk",)))

    assert told(found, "QuotaReserved") == ("False", "Pending", RETRIED)
    assert told(found, "Requeued") == ("True", "BackoffFinished", "The back-off is over")
    (check,) = found.status.admission_checks
    assert (check.state, check.retry_count) == ("Pending", 1)


def test_a_back_off_after_a_retry_counts_and_ends() -> None:
    known = facts(required_checks=("mk",), requeue=MINUTELY)
    builder = retrying().requeue_state(2)
    found = taken(builder, known)

    assert found.status.requeue_state == RequeueState(count=3, requeue_at=after(160))
    assert told(found, "Requeued") == ("False", "AdmissionCheck", RETRIED)
    assert found.again_after == MINUTE

    waiting = shown(builder.build(), found.status)
    over = step(waiting, facts(after(160), required_checks=("mk",), requeue=MINUTELY))
    assert told(over, "Requeued") == ("True", "BackoffFinished", "The back-off is over")
    assert over.status.requeue_state == RequeueState(count=3)
    assert over.again_after is None

    too_large = dataclasses.replace(builder, value=waiting).condition(
        FITS_NO_WORKER, reason="TooLarge", message="cpu: w1"
    )
    news = facts(after(101), required_checks=("mk",), requeue=MINUTELY, has_ceiling_news=True)
    at_once = step(too_large.build(), news)
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

    later = step(shown(builder.build(), found.status), facts(after(110), required_checks=("mk",), may_run=True))
    assert told(later, "Evicted") == ("True", "AdmissionCheck", RETRIED)


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


@pytest.mark.parametrize(
    ("has_check_messages", "message"),
    [(True, 'AdmissionChecks in Rejected state: "a"; "b"'), (False, "Admission check(s): a,b, were rejected")],
)
def test_qe_331_a_rejected_check_switches_the_workload_off(has_check_messages: bool, message: str) -> None:
    release = replace(NEWEST, has_check_messages=has_check_messages)
    rejected = workload().reserved().check("b", "Rejected").check("a", "Rejected").check("c", "Retry")
    found = taken(rejected, facts(required_checks=("a", "b", "c"), may_run=True, compatibility=release))

    assert found.should_deactivate
    assert told(found, "DeactivationTarget") == (
        "True",
        "AdmissionCheck",
        message,
    )
    assert told(found, "Evicted") is None
    assert events(found) == ["AdmissionCheckRejected"]


def test_and_then_it_is_evicted_for_that_cause() -> None:
    target = workload().admitted().condition("DeactivationTarget", reason="AdmissionCheck", message="it was rejected")
    found = taken(target.inactive().requeue_state(3), facts(may_run=True))

    assert told(found, "Evicted") == (
        "True",
        "DeactivatedDueToAdmissionCheck",
        "The workload is deactivated due to it was rejected",
    )
    assert told(found, "DeactivationTarget") is None
    assert found.status.requeue_state is None
    assert events(found) == ["EvictedDueToDeactivatedDueToAdmissionCheck"]


CAUSES = {
    "that is over": (
        workload().admitted().condition("DeactivationTarget", "False", reason="AdmissionCheck"),
        "Deactivated",
    ),
    "that is none of ours": (
        workload().admitted().condition("DeactivationTarget", reason="Other", message="x"),
        "DeactivatedDueToOther",
    ),
}


@pytest.mark.parametrize(("builder", "reason"), CAUSES.values(), ids=CAUSES)
def test_a_workload_that_is_switched_off_is_evicted_with_a_cause(builder: WorkloadBuilder, reason: str) -> None:
    found = taken(builder.inactive(), facts(may_run=True))

    assert (told(found, "Evicted") or ())[:2] == ("True", reason)
    assert told(found, "DeactivationTarget") is None


def test_that_its_time_was_up_is_not_said_of_what_runs_no_more() -> None:
    over = workload().unreserved().evicted("DeactivatedDueToMaximumExecutionTimeExceeded").inactive()
    found = taken(over.condition("DeactivationTarget", reason="MaximumExecutionTimeExceeded"), facts())

    assert told(found, "DeactivationTarget") is None


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
    running = taken(workload().admitted().inactive(), facts(queue=held, active=False, may_run=True))
    assert told(running, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")


def test_a_workload_that_gets_quota_as_soon_as_its_queue_runs_again_says_that_it_does() -> None:
    reason = "LocalQueueStopped"
    drained = workload().unreserved().evicted(reason).condition("Requeued", "False", reason=reason)

    found = taken(drained, facts(reservation=ADMISSION))
    assert told(found, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
    assert told(found, "Requeued") == ("True", "LocalQueueRestarted", "The LocalQueue runs again")


def test_qe_335_an_earlier_reason_of_eviction_survives_deactivation() -> None:
    found = taken(workload().admitted().evicted("Preempted", message="first").inactive(), facts(may_run=True))

    assert told(found, "Evicted") == ("True", "Preempted", "first")


@pytest.mark.parametrize("reason", ["Deactivated", "DeactivatedDueToAdmissionCheck"])
def test_a_reactivated_workload_queues_again_whoever_switched_it_off(reason: str) -> None:
    off = workload().unreserved().evicted(reason).condition("Requeued", "False", reason=reason)

    assert told(taken(off, facts()), "Requeued") == ("True", "Reactivated", "The workload is active again")


def test_reactivation_before_the_eviction_is_written_is_too_late() -> None:
    found = taken(workload().admitted(), facts(may_run=True, is_switched_off=True))
    assert told(found, "Evicted") == ("True", "Deactivated", "The workload is deactivated")
    assert events(found) == ["EvictedDueToDeactivated"]


def test_reactivation_before_the_eviction_is_complete_completes_it_first() -> None:
    early = workload().admitted().evicted("Deactivated", message="off")
    assert told(taken(early, facts(may_run=True)), "QuotaReserved") == (
        "True",
        "QuotaReserved",
        "Quota reserved in ClusterQueue cq",
    )

    found = taken(early, facts())
    assert told(found, "QuotaReserved") == ("False", "Pending", "off")
    assert told(found, "Requeued") == ("True", "Reactivated", "The workload is active again")


# --- the first rule that applies decides -----------------------------------------------------------------------------

FOR_ANOTHER = Eviction(key=workload().build().key, cause=Cause.IN_QUEUE, message="for another", by="cq")
DRAINED: dict[str, Any] = {
    "queue": QUEUE.stopped("HoldAndDrain"),
    "local": LOCAL.stopped("HoldAndDrain"),
    "active": False,
}
PAST = workload().admitted().condition(BACKFILLED, reason="KnownEnds", message=render_time(after(100)))
ONE_MINUTE = WaitForPodsReady(timeout=MINUTE)

FIRST = {
    "that it was switched off, of all": (
        workload().admitted().check("mk", "Retry"),
        facts(is_switched_off=True, preemption=FOR_ANOTHER, **DRAINED),
        "Deactivated",
    ),
    "a preemption, of a check's Retry and drained queues": (
        workload().admitted().check("mk", "Retry"),
        facts(preemption=FOR_ANOTHER, **DRAINED),
        "Preempted",
    ),
    "the end of a backfill, of a check's Retry and drained queues": (
        PAST.check("mk", "Retry"),
        facts(**DRAINED),
        "Preempted",
    ),
    "a check's Retry, of drained queues": (
        workload().admitted().check("mk", "Retry"),
        facts(**DRAINED),
        "AdmissionCheck",
    ),
    "the LocalQueue, of two that are drained": (workload().admitted(), facts(**DRAINED), "LocalQueueStopped"),
    "the queue that is drained, of two that are stopped": (
        workload().admitted(),
        facts(queue=QUEUE.stopped("HoldAndDrain"), local=LOCAL.stopped("Hold"), active=False),
        "ClusterQueueStopped",
    ),
    "a drained queue, of late pods": (
        workload().admitted(),
        facts(local=LOCAL.stopped("HoldAndDrain"), wait_for_pods_ready=ONE_MINUTE),
        "LocalQueueStopped",
    ),
    "late pods, of a time that is up": (
        workload().admitted().max_execution_time(MINUTE),
        facts(wait_for_pods_ready=ONE_MINUTE),
        "PodsReadyTimeout",
    ),
}


@pytest.mark.parametrize(("builder", "known", "reason"), FIRST.values(), ids=FIRST)
def test_a_workload_is_evicted_once_and_the_reason_is(builder: WorkloadBuilder, known: Case, reason: str) -> None:
    found = taken(builder, knowing(known, required_checks=("mk",), may_run=True))

    stats = found.status.scheduling_stats
    assert stats is not None
    assert [(each.reason, each.count) for each in stats.evictions] == [(reason, 1)]
    assert not found.should_deactivate


def test_one_whose_pods_are_in_time_ends_when_its_time_is_up() -> None:
    found = taken(workload().admitted().max_execution_time(MINUTE), facts(may_run=True))

    assert (found.should_deactivate, events(found)) == (True, ["MaximumExecutionTimeExceeded"])


def test_what_holds_nothing_is_evicted_from_a_drained_queue_and_has_given_its_quota_back() -> None:
    found = taken(workload().admitted(), facts(queue=QUEUE.stopped("HoldAndDrain"), active=False))

    assert told(found, "Evicted") == ("True", "ClusterQueueStopped", "The ClusterQueue is stopped")
    assert found.status.admission is None


def test_a_backfilled_workload_runs_until_the_head_is_to_start() -> None:
    found = taken(PAST, facts(after(99), may_run=True))

    assert (told(found, "Evicted"), found.again_after) == (None, SECOND)


def test_quota_that_is_preempted_before_it_is_written_is_written_first() -> None:
    known = facts(reservation=ADMISSION, preemption=FOR_ANOTHER, required_checks=("mk",))
    found = step(workload().build(), known)
    assert told(found, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
    assert (told(found, "Evicted"), found.again_after) == (None, timedelta())

    then = taken(
        dataclasses.replace(workload(), value=shown(workload().build(), found.status)), knowing(known, reservation=None)
    )
    assert told(then, "Preempted") == ("True", "InClusterQueue", "for another")

    stopped = facts(queue=QUEUE.stopped(), reservation=ADMISSION, preemption=FOR_ANOTHER, required_checks=("mk",))
    assert taken(workload(), stopped).status.admission is None, "what stops its queue counts nonetheless"


# --- stopped queues --------------------------------------------------------------------------------------------------


STOPPED = {
    "ClusterQueue, Hold": ("ClusterQueue", "cq", facts(queue=QUEUE.stopped(), active=False)),
    "ClusterQueue, HoldAndDrain": ("ClusterQueue", "cq", facts(queue=QUEUE.stopped("HoldAndDrain"), active=False)),
    "LocalQueue, Hold": ("LocalQueue", "lq", facts(local=LOCAL.stopped())),
    "LocalQueue, HoldAndDrain": ("LocalQueue", "lq", facts(local=LOCAL.stopped("HoldAndDrain"))),
}


@pytest.mark.parametrize(("kind", "name", "known"), STOPPED.values(), ids=STOPPED)
def test_a_stopped_queue_takes_a_reservation_back(kind: str, name: str, known: Case) -> None:
    found = taken(workload().reserved().check("mk"), knowing(known, required_checks=("mk",)))

    condition = told(found, "QuotaReserved")
    assert condition
    assert condition[:2] == ("False", "Inadmissible")
    assert condition[2] == f"{kind} {name} is inactive"  # its being stopped is told for the moment it happens only
    assert told(found, "Evicted") is None
    assert found.status.admission is None


@pytest.mark.parametrize(("kind", "name", "known"), STOPPED.values(), ids=STOPPED)
def test_unless_something_may_run_then_it_is_evicted_in_good_order(kind: str, name: str, known: Case) -> None:
    found = taken(workload().reserved().check("mk"), knowing(known, required_checks=("mk",), may_run=True))

    assert told(found, "Evicted") == ("True", f"{kind}Stopped", f"The {kind} is stopped")
    assert found.status.admission is not None


@pytest.mark.parametrize(("kind", "name", "known"), STOPPED.values(), ids=STOPPED)
def test_qe_328_only_draining_evicts_what_is_admitted(kind: str, name: str, known: Case) -> None:
    found = taken(workload().admitted(), knowing(known, may_run=True))
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
def test_qe_330_a_reservation_ends_with_its_queue_an_admission_does_not(known: Case, message: str) -> None:
    found = taken(workload().reserved().check("mk"), knowing(known, required_checks=("mk",)))
    assert told(found, "QuotaReserved") == ("False", "Inadmissible", message)

    admitted = taken(workload().admitted(), known)
    assert told(admitted, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")


def test_what_others_would_run_says_that_its_queue_is_deleted() -> None:
    known = facts(queue=QUEUE.deleted(), required_checks=("mk",), is_run_by_others=True)
    found = taken(workload().reserved().check("mk"), known)

    message = "ClusterQueue cq is terminating or missing"
    assert told(found, "QuotaReserved") == ("False", "Inadmissible", message)


def test_a_reservation_without_an_admission_is_taken_back_too() -> None:
    odd = workload().condition("QuotaReserved", reason="QuotaReserved").check("mk")

    found = taken(odd, facts(queue=None, required_checks=("mk",)))
    assert told(found, "QuotaReserved") == ("False", "Inadmissible", "ClusterQueue cq doesn't exist")


WAITS: dict[str, tuple[str, ConditionStatus, Case]] = {
    "its LocalQueue is gone": ("LocalQueueStopped", "False", facts(local=None)),
    "it does not fit its own count yet": ("Inadmissible", "False", facts(uncounted="a DeviceClass")),
    "it is said to queue, whatever the reason": ("AdmissionCheck", "True", facts()),
}


@pytest.mark.parametrize(("reason", "value", "known"), WAITS.values(), ids=WAITS)
def test_requeued_stays_as_it_is_where(reason: str, value: ConditionStatus, known: Case) -> None:
    item = workload().unreserved().condition("Requeued", value, reason=reason)

    found = find_condition(taken(item, known).status.conditions, "Requeued")
    assert found is not None
    assert (found.status, found.reason, found.last_transition_time) == (value, reason, NOW)


def test_a_workload_that_can_be_counted_again_waits_as_if_it_were_new() -> None:
    item = workload().unreserved().condition("Requeued", "False", reason="Inadmissible")
    found = taken(item, facts())

    assert (told(found, "Requeued"), told(found, "QuotaReserved")) == (None, None)
