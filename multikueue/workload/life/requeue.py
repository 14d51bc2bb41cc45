"""A workload queues again once the reason of its eviction is over."""

from __future__ import annotations

from msgspec.structs import replace

from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.kueue.unadmitted import INADMISSIBLE
from multikueue.api.kueue.workload import DEACTIVATED, PODS_READY_TIMEOUT, QUOTA_RESERVED, REQUEUED
from multikueue.api.meta import find_condition, without_condition
from multikueue.workload.life.life import Life
from multikueue.workload.life.transitions import ADMISSION_CHECK

__all__ = ["requeue"]

_RETRIED = (ADMISSION_CHECK, PODS_READY_TIMEOUT)
"""Reasons of Requeued=False that end with the back-off (quota-engine 4.4)."""


def requeue(life: Life) -> None:
    """Let a workload queue again when the reason of its eviction is over. If its queue runs again, it may have
    quota by then."""
    backing_off = not life.may_fit_now and life.is_waiting_for(life.requeue_at)
    if not life.has(QUOTA_RESERVED) and not backing_off and life.status.requeue_state and life.requeue_at:
        life.status = replace(life.status, requeue_state=replace(life.status.requeue_state, requeue_at=None))
    requeued = find_condition(life.status.conditions, REQUEUED)
    if requeued is None or requeued.status != "False":
        return
    if requeued.reason.startswith(DEACTIVATED):  # with a cause too: else it would never queue again (5.3)
        life.put(REQUEUED, "True", reason="Reactivated", message="The workload is active again")
    elif requeued.reason in _RETRIED and not backing_off:
        life.put(REQUEUED, "True", reason="BackoffFinished", message="The back-off is over")
    elif requeued.reason == "LocalQueueStopped" and _is_running(life.case.queues.local_queue):
        life.put(REQUEUED, "True", reason="LocalQueueRestarted", message="The LocalQueue runs again")
    elif requeued.reason == "ClusterQueueStopped" and _is_running(life.case.queues.cluster_queue):
        life.put(REQUEUED, "True", reason="ClusterQueueRestarted", message="The ClusterQueue runs again")
    elif requeued.reason == INADMISSIBLE and not life.case.scheduling.uncounted:
        for condition in (REQUEUED, QUOTA_RESERVED):
            life.status = replace(life.status, conditions=without_condition(life.status.conditions, condition))


def _is_running(queue: LocalQueue | ClusterQueue | None) -> bool:
    return queue is not None and queue.spec.stop_policy == "None"
