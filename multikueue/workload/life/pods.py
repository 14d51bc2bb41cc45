"""The pods of a workload: ready, lacking, late, or out of time."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from multikueue.api.kueue.workload import (
    EVICTED,
    FINISHED,
    OUT_OF_TIME,
    PODS_FAILED,
    PODS_READY,
    PODS_READY_TIMEOUT,
    QUOTA_RESERVED,
    WAITING_FOR_REPLACEMENT,
)
from multikueue.api.meta import find_condition
from multikueue.quota.workload.ends import time_is_up
from multikueue.workload.life import readiness
from multikueue.workload.life.life import Life
from multikueue.workload.life.readiness import REQUEUING_LIMIT_EXCEEDED
from multikueue.workload.life.reservation import hold_back

__all__ = ["evict_if_pods_are_late", "limit_execution_time", "look_at_pods", "look_for_members"]


def look_at_pods(life: Life) -> None:
    """Set PodsReady, but not before the first verdict: it is not worth a write of its own."""
    judged = find_condition(life.status.conditions, QUOTA_RESERVED) is not None
    if life.rules.wait_for_pods_ready is None or life.case.job.ready_pods is None or not judged or life.has(FINISHED):
        return
    found = readiness.finding(life.status, are_ready=life.case.job.ready_pods >= _pods_wanted(life))
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


def evict_if_pods_are_late(life: Life) -> bool:
    """Evict a workload whose pods are not all ready in time; after too many times, deactivate it."""
    wait_for_pods_ready = life.rules.wait_for_pods_ready
    deadline = readiness.deadline(life.status, wait_for_pods_ready) if wait_for_pods_ready else None
    if wait_for_pods_ready is None or deadline is None or life.is_waiting_for(deadline.at):
        return False
    if readiness.is_given_up(life.status, wait_for_pods_ready):
        message = "exceeding the maximum number of re-queuing retries"
        life.target(REQUEUING_LIMIT_EXCEEDED, message)
        return True
    life.evict(PODS_READY_TIMEOUT, f"Exceeded the PodsReady timeout {life.case.local.key}", cause=deadline.cause)
    hold_back(life, until=life.now + (life.case.retry_backoff or timedelta()), retries=1)
    return True


def limit_execution_time(life: Life) -> None:
    end = time_is_up(life.status, life.spec)
    if end is None or life.is_waiting_for(end):
        return
    life.status = replace(life.status, accumulated_past_execution_time_seconds=None)
    message = "exceeding the maximum execution time"
    life.target(OUT_OF_TIME, message, event=OUT_OF_TIME)
