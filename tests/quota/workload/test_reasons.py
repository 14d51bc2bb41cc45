"""Why a workload without quota has none: granular reasons (KEP 10852), step by step."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from multikueue.api.kueue.workload import ADMISSION_GATED_BY_ANNOTATION, UNDISPATCHABLE_ANNOTATION
from multikueue.quota.workload.outcome import Reasons, Verdict
from multikueue.workload.case import Case
from tests.builders import NOW, WorkloadBuilder
from tests.quota.builders import SECOND
from tests.workload.life.steps import ADMISSION, LOCAL, QUEUE, VERDICT, events, facts, taken, told, workload

GRANULAR = Reasons(is_granular=True)
EXPLICIT = Reasons(is_granular=True, is_explicit=True)
LATER = NOW + 100 * SECOND
FULL = Verdict("no room", VERDICT.resource_requests, "WaitingForQuota")


def known(now: datetime = LATER, *, reasons: Reasons = GRANULAR, **more: Any) -> Case:
    return facts(now, reasons=reasons, **more)


def reason(builder: WorkloadBuilder, facts: Case, type_: str = "QuotaReserved") -> str:
    """The reason of that condition, which is False; empty if there is none."""
    found = told(taken(builder, facts), type_)
    assert found is None or found[0] == "False"
    return found[1] if found else ""


NEW = workload()
GATED = NEW.annotations({ADMISSION_GATED_BY_ANNOTATION: "example.com/a"})
HELD = NEW.reserved().check("mk", "Pending")
WAITS = NEW.unreserved(reason="WaitingForQuota", message="no room")
TABLE = {
    "nobody has looked at it": (NEW, known(), ""),
    "nobody has looked at it, and it says so": (NEW, known(reasons=EXPLICIT), "PendingEvaluation"),
    "a cycle has": (NEW, known(verdict=FULL), "WaitingForQuota"),
    "its LocalQueue is missing": (NEW, known(local=None, verdict=FULL), "Misconfigured"),
    "its LocalQueue is stopped": (NEW, known(local=LOCAL.stopped(), verdict=FULL), "Suspended"),
    "its ClusterQueue is missing": (NEW, known(queue=None, active=False), "Misconfigured"),
    "its ClusterQueue is inactive": (NEW, known(active=False), "Suspended"),
    "no cycle would judge it": (NEW, known(misconfiguration="no such namespace", verdict=FULL), "Misconfigured"),
    "it is gated": (GATED, known(verdict=FULL), "AdmissionGated"),
    "it is gated and its queue is stopped": (GATED, known(active=False), "Suspended"),
    "its gate is open": (NEW.unreserved(reason="AdmissionGated"), known(), "PendingEvaluation"),
    "it is switched off": (WAITS.inactive(), known(active=False), "Deactivated"),
    "it is switched on again": (NEW.unreserved(reason="Deactivated"), known(), "PendingEvaluation"),
    "its queue runs again": (NEW.unreserved(reason="Suspended"), known(), "PendingEvaluation"),
    "what was wrong is corrected": (NEW.unreserved(reason="Misconfigured"), known(), "PendingEvaluation"),
    "it was told otherwise before": (NEW.unreserved(reason="Pending"), known(), "PendingEvaluation"),
    "a cycle of a process before has looked at it": (WAITS, known(), "WaitingForQuota"),
    "it was evicted": (NEW.admitted().evicted(), known(), "PendingEvaluation"),
    "its reservation ends with a stopped queue": (
        HELD,
        known(queue=QUEUE.stopped(), active=False, required_checks=("mk",)),
        "Suspended",
    ),
    "its reservation ends with a queue that is gone": (
        HELD,
        known(queue=None, required_checks=("mk",)),
        "Misconfigured",
    ),
}


@pytest.mark.parametrize(("builder", "facts", "expected"), TABLE.values(), ids=TABLE)
def test_why_a_workload_has_no_quota(builder: WorkloadBuilder, facts: Case, expected: str) -> None:
    assert reason(builder, facts) == expected


@pytest.mark.parametrize(("builder", "facts", "expected"), TABLE.values(), ids=TABLE)
def test_admitted_is_false_for_want_of_quota_wherever_that_is_told(
    builder: WorkloadBuilder, facts: Case, expected: str
) -> None:
    assert reason(builder, facts, "Admitted") == ("NoReservation" if expected else "")


def test_one_step_after_its_reservation_a_workload_waits_for_its_checks() -> None:
    assert reason(WAITS, known(reservation=ADMISSION, required_checks=("mk",)), "Admitted") == (
        "UnsatisfiedAdmissionChecks"
    )


def test_a_new_workload_that_says_so_lists_its_checks_in_the_same_write() -> None:
    found = taken(NEW.created(LATER), known(reasons=EXPLICIT, required_checks=("mk",)))

    assert [check.name for check in found.status.admission_checks] == ["mk"]


def test_the_event_has_the_reason_of_the_condition() -> None:
    assert events(taken(NEW, known(verdict=FULL))) == ["WaitingForQuota"]


def test_who_is_held_back_until_pods_are_ready_is_told_in_the_condition_alone() -> None:
    found = taken(NEW, known(verdict=Verdict("wait", reason="WaitingForPodsReady")))

    assert told(found, "QuotaReserved") == ("False", "WaitingForPodsReady", "wait")
    assert events(found) == []


def test_a_workload_whose_job_cannot_be_dispatched_says_what_is_wrong_with_it() -> None:
    kept = NEW.annotations({UNDISPATCHABLE_ANNOTATION: "spec.managedBy is another's"}).inactive()

    assert told(taken(kept, known()), "QuotaReserved") == ("False", "Misconfigured", "spec.managedBy is another's")


def test_as_before_a_workload_that_was_never_admitted_has_no_condition_admitted() -> None:
    assert told(taken(WAITS, facts(verdict=VERDICT)), "Admitted") is None
