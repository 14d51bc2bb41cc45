"""Pods that are not ready: what is said of them, and how long they are waited for (quota-engine 4.1, 5.2)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multikueue.api.kueue.workload import EvictionCount, RequeueState, SchedulingStats, WorkloadStatus
from multikueue.workload.decision_rules import WaitForPodsReady
from multikueue.workload.life.pods import deadline, finding, is_given_up
from tests.builders import WorkloadBuilder, workload
from tests.quota.builders import SECOND, after
from tests.workload.life import steps
from tests.workload.life.steps import MINUTELY, events, facts, taken, told

ADMITTED = workload("wl").admitted(at=after(10))
PATIENCE = WaitForPodsReady(timeout=300 * SECOND, recovery_timeout=3 * SECOND)


def said(builder: WorkloadBuilder, value: str, reason: str, at: float = 20) -> WorkloadBuilder:
    return builder.condition("PodsReady", "True" if value == "True" else "False", reason=reason, at=after(at))


STARTED = said(ADMITTED, "True", "Started")
RECOVERING = said(STARTED, "False", "WaitForRecovery", 60)

FINDINGS = {
    "of one that waits for quota, that it has not started": (workload("wl"), True, "False", "WaitForStart"),
    "of one just admitted, too": (ADMITTED, False, "False", "WaitForStart"),
    "of one that still starts, too": (said(ADMITTED, "False", "WaitForStart"), False, "False", "WaitForStart"),
    "that it started": (said(ADMITTED, "False", "WaitForStart"), True, "True", "Started"),
    "that it started, if nothing was said before": (ADMITTED, True, "True", "Started"),
    "that it is running still": (STARTED, True, "True", "Started"),
    "that one of its pods failed": (STARTED, False, "False", "WaitForRecovery"),
    "that it still waits for that one": (RECOVERING, False, "False", "WaitForRecovery"),
    "that it recovered": (RECOVERING, True, "True", "Recovered"),
    "that it recovered, again and again": (said(RECOVERING, "True", "Recovered", 70), True, "True", "Recovered"),
    "after an eviction, that it has not started": (RECOVERING.unreserved(), False, "False", "WaitForStart"),
}


@pytest.mark.parametrize(("builder", "ready", "value", "reason"), FINDINGS.values(), ids=FINDINGS)
def test_it_is_said(builder: WorkloadBuilder, ready: bool, value: str, reason: str) -> None:
    found = finding(builder.build().status, are_ready=ready)
    assert (found.status, found.reason) == (value, reason)


DEADLINES = {
    "from admission on while nothing was seen": (ADMITTED, (after(310), "WaitForStart")),
    "from admission on while it starts": (said(ADMITTED, "False", "WaitForStart"), (after(310), "WaitForStart")),
    "not at all once all run": (STARTED, None),
    "not at all before admission": (workload("wl").reserved(), None),
    "QE-333 from the failure on while it recovers": (RECOVERING, (after(63), "WaitForRecovery")),
}


@pytest.mark.parametrize(("builder", "expected"), DEADLINES.values(), ids=DEADLINES)
def test_pods_are_waited_for(builder: WorkloadBuilder, expected: object) -> None:
    found = deadline(builder.build().status, PATIENCE)
    assert (found and (found.at, found.cause)) == expected


def test_recovery_may_take_as_long_as_it_likes() -> None:
    assert deadline(RECOVERING.build().status, WaitForPodsReady(timeout=300 * SECOND)) is None


def tried(*, requeued: int | None, late: int) -> WorkloadStatus:
    """So many times queued again, and so often late in all its life."""
    evictions = (
        EvictionCount(reason="PodsReadyTimeout", underlying_cause="WaitForStart", count=late),
        EvictionCount(reason="Preempted", underlying_cause="", count=9),
    )
    state = None if requeued is None else RequeueState(count=requeued)
    return WorkloadStatus(requeue_state=state, scheduling_stats=SchedulingStats(evictions=evictions))


LIMITS = {
    "never without a limit": (tried(requeued=100, late=100), None, False),
    "with none allowed at the first time": (tried(requeued=None, late=0), 0, True),
    "not while one is left": (tried(requeued=1, late=1), 2, False),
    "QE-333 after the last": (tried(requeued=1, late=1), 1, True),
    "not for retries that checks asked for": (tried(requeued=5, late=1), 2, False),
    "not for what was before a reactivation": (tried(requeued=1, late=5), 2, False),
}


@pytest.mark.parametrize(("status", "limit", "expected"), LIMITS.values(), ids=LIMITS)
def test_it_is_given_up(status: WorkloadStatus, limit: int | None, expected: bool) -> None:
    assert is_given_up(status, WaitForPodsReady(timeout=timedelta(1), limit=limit)) is expected


LIFE = steps.workload().admitted()


def test_late_pods_are_evicted_when_their_time_is_over_and_wait() -> None:
    rule = WaitForPodsReady(timeout=300 * SECOND)
    known: dict[str, Any] = {"wait_for_pods_ready": rule, "requeue": MINUTELY, "may_run": True}
    before = taken(LIFE, facts(after(299), **known))
    assert (told(before, "Evicted"), before.again_after) == (None, SECOND)

    found = taken(LIFE, facts(after(300), **known))
    assert (told(found, "Evicted") or ())[:2] == ("True", "PodsReadyTimeout")
    assert found.status.requeue_state == RequeueState(count=1, requeue_at=after(360))


def test_late_pods_that_had_all_their_tries_are_switched_off_for_that_alone() -> None:
    rule = WaitForPodsReady(timeout=300 * SECOND, limit=0)
    late = LIFE.max_execution_time(300 * SECOND)
    found = taken(late, facts(after(300), wait_for_pods_ready=rule, may_run=True))

    assert (found.should_deactivate, told(found, "Evicted")) == (True, None)
    assert (told(found, "DeactivationTarget") or ())[:2] == ("True", "RequeuingLimitExceeded")
    assert events(found) == []


def test_pods_that_are_ready_are_not_late() -> None:
    rule = WaitForPodsReady(timeout=300 * SECOND)
    found = taken(said(LIFE, "True", "Started"), facts(after(900), wait_for_pods_ready=rule, may_run=True))

    assert (told(found, "Evicted"), found.again_after) == (None, None)


def test_pods_that_are_not_late_yet_give_nobody_more_time() -> None:
    rule = WaitForPodsReady(timeout=300 * SECOND)
    found = taken(LIFE.max_execution_time(60 * SECOND), facts(after(60), wait_for_pods_ready=rule, may_run=True))

    assert (told(found, "DeactivationTarget") or ())[:2] == ("True", "MaximumExecutionTimeExceeded")
