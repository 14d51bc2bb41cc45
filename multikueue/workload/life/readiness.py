"""Whether the pods of a workload are ready, and how long that may take (quota-engine 5.2).

The status of the local job decides; it is a copy of the winner's.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from multikueue.api.kueue.workload import ADMITTED, PODS_READY, PODS_READY_TIMEOUT, WorkloadStatus
from multikueue.api.meta import find_condition, is_true
from multikueue.workload.decision_rules import WaitForPodsReady

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
