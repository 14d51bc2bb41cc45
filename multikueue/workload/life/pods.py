"""The pods of a workload: ready, lacking, late, or out of time (quota-engine 5.2).

The status of the local job decides whether they are ready; it is a copy of the winner's.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import msgspec
from msgspec.structs import replace

from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    OUT_OF_TIME,
    PODS_FAILED,
    PODS_READY,
    PODS_READY_TIMEOUT,
    QUOTA_RESERVED,
    WAITING_FOR_REPLACEMENT,
    WorkloadStatus,
)
from multikueue.api.meta import find_condition, is_true
from multikueue.quota.workload.ends import time_is_up
from multikueue.workload.decision_rules import WaitForPodsReady
from multikueue.workload.life.life import Life
from multikueue.workload.life.reservation import hold_back

__all__ = [
    "RECOVERED",
    "REQUEUING_LIMIT_EXCEEDED",
    "STARTED",
    "WAIT_FOR_RECOVERY",
    "WAIT_FOR_START",
    "Deadline",
    "PodsReadyCondition",
    "deadline",
    "evict_if_pods_are_late",
    "finding",
    "is_given_up",
    "limit_execution_time",
    "look_at_pods",
    "look_for_members",
]

STARTED, RECOVERED = "Started", "Recovered"
WAIT_FOR_START, WAIT_FOR_RECOVERY = "WaitForStart", "WaitForRecovery"

REQUEUING_LIMIT_EXCEEDED = "RequeuingLimitExceeded"


class Deadline(msgspec.Struct, frozen=True):
    """When a workload is evicted, and what it waits for until then: the underlying cause of the eviction."""

    at: datetime
    cause: str


class PodsReadyCondition(msgspec.Struct, frozen=True):
    """The condition PodsReady to set."""

    status: Literal["True", "False"]
    reason: str
    message: str


_NOT_STARTED = PodsReadyCondition("False", WAIT_FOR_START, "Not all pods are ready or succeeded")
_NOT_RECOVERED = PodsReadyCondition("False", WAIT_FOR_RECOVERY, "At least one pod has failed, waiting for recovery")


def finding(status: WorkloadStatus, *, are_ready: bool) -> PodsReadyCondition:
    """The condition PodsReady that follows the one in `status`. A workload that is not admitted has not started."""
    if not is_true(status.conditions, ADMITTED):
        return _NOT_STARTED
    before = find_condition(status.conditions, PODS_READY)
    reason = before.reason if before else ""
    if are_ready:
        again = reason in (WAIT_FOR_RECOVERY, RECOVERED)
        message = "All pods reached readiness and the workload is running"
        return PodsReadyCondition("True", RECOVERED if again else STARTED, message)
    were_ready = before is not None and before.status == "True"
    return _NOT_RECOVERED if were_ready or reason == WAIT_FOR_RECOVERY else _NOT_STARTED


def deadline(status: WorkloadStatus, wait_for_pods_ready: WaitForPodsReady) -> Deadline | None:
    """When the pods have to be ready; None while nothing is waited for."""
    admitted, ready = find_condition(status.conditions, ADMITTED), find_condition(status.conditions, PODS_READY)
    if admitted is None or admitted.status != "True" or (ready is not None and ready.status == "True"):
        return None
    if ready is None or ready.reason == WAIT_FOR_START:
        return _deadline(admitted.last_transition_time, wait_for_pods_ready.timeout, WAIT_FOR_START)
    if ready.reason == WAIT_FOR_RECOVERY:
        return _deadline(ready.last_transition_time, wait_for_pods_ready.recovery_timeout, WAIT_FOR_RECOVERY)
    return None


def is_given_up(status: WorkloadStatus, wait_for_pods_ready: WaitForPodsReady) -> bool:
    """Whether a late workload has been requeued often enough.

    Its requeue state also counts evictions by checks, since their waits grow likewise; but those are not its pods'
    fault.
    """
    if wait_for_pods_ready.limit is None:
        return False
    requeued = (status.requeue_state.count or 0) if status.requeue_state else 0
    evictions = status.scheduling_stats.evictions if status.scheduling_stats else ()
    late = sum(each.count for each in evictions if each.reason == PODS_READY_TIMEOUT)
    return min(requeued, late) >= wait_for_pods_ready.limit


def _deadline(since: datetime | None, span: timedelta | None, cause: str) -> Deadline | None:
    return None if since is None or span is None else Deadline(since + span, cause)


def look_at_pods(life: Life) -> None:
    """Set PodsReady, but not before the first verdict: it is not worth a write of its own."""
    judged = find_condition(life.status.conditions, QUOTA_RESERVED) is not None
    if life.case.job.ready_pods is None or not judged or life.has(FINISHED):
        return
    found = finding(life.status, are_ready=life.case.job.ready_pods >= _pods_wanted(life))
    life.put(PODS_READY, found.status, reason=found.reason, message=found.message)


def look_for_members(life: Life) -> None:
    """Set WaitingForReplacementPods: whether a group of Pods lacks members, and why they went."""
    if life.case.job.replaceable is None:
        return
    said = find_condition(life.status.conditions, WAITING_FOR_REPLACEMENT)
    waits = said is not None and said.status == "True"
    evicted = find_condition(life.status.conditions, EVICTED)
    if life.case.job.replaceable and evicted is not None and evicted.status == "True":
        life.put(WAITING_FOR_REPLACEMENT, "True", reason=evicted.reason, message=evicted.message)
    elif life.case.job.replaceable and not waits:
        life.put(WAITING_FOR_REPLACEMENT, "True", reason=PODS_FAILED, message="Some Failed pods need replacement")
    elif waits and not life.case.job.replaceable:
        life.put(WAITING_FOR_REPLACEMENT, "False", reason=PODS_READY, message="No pods need replacement")


def _pods_wanted(life: Life) -> int:
    """The number of admitted pods; before the admission, of all pods."""
    all_ = {pod_set.name: pod_set.count for pod_set in life.spec.pod_sets}
    some = life.status.admission.pod_set_assignments if life.status.admission else ()
    return sum((all_ | {each.name: each.count for each in some if each.count is not None}).values())


def evict_if_pods_are_late(life: Life, wait_for_pods_ready: WaitForPodsReady) -> bool:
    """Evict a workload whose pods are not all ready in time; after too many times, deactivate it."""
    due = deadline(life.status, wait_for_pods_ready)
    if due is None or life.is_waiting_for(due.at):
        return False
    if is_given_up(life.status, wait_for_pods_ready):
        message = "exceeding the maximum number of re-queuing retries"
        life.target(REQUEUING_LIMIT_EXCEEDED, message)
        return True
    life.evict(PODS_READY_TIMEOUT, f"Exceeded the PodsReady timeout {life.case.local.key}", cause=due.cause)
    hold_back(life, until=life.now + (life.case.retry_backoff or timedelta()), retries=1)
    return True


def limit_execution_time(life: Life) -> None:
    end = time_is_up(life.status, life.spec)
    if end is None or life.is_waiting_for(end):
        return
    life.status = replace(life.status, accumulated_past_execution_time_seconds=None)
    message = "exceeding the maximum execution time"
    life.target(OUT_OF_TIME, message, event=OUT_OF_TIME)
