"""Quota goes: why a reservation ends, when it is given back, and when the workload queues again."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from msgspec.structs import replace

from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.kueue.unadmitted import INADMISSIBLE, MISCONFIGURED, SUSPENDED
from multikueue.api.kueue.workload import (
    ADMITTED,
    DEACTIVATED,
    EVICTED,
    PODS_READY_TIMEOUT,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    AdmissionCheckState,
)
from multikueue.api.meta import find_condition, without_condition
from multikueue.quota.cache.budgets import keep_time
from multikueue.quota.workload.ends import end_of
from multikueue.quota.workload.outcome import Eviction
from multikueue.workload.life import transitions
from multikueue.workload.life.life import Life
from multikueue.workload.life.pods import evict_if_pods_are_late, limit_execution_time
from multikueue.workload.life.reservation import hold_back
from multikueue.workload.life.transitions import ADMISSION_CHECK

__all__ = ["look_for_trouble", "release", "requeue"]

_MESSAGE_LENGTH = 32_000
"""Characters of what checks say in a message of ours. A condition may have 32768, and more is put before it."""


def look_for_trouble(life: Life) -> None:
    """End a reservation if a rule says so; the first that applies decides, in the order of Kueue's own reconcile."""
    scheduling = life.case.scheduling
    if scheduling.is_switched_off:
        life.evict(DEACTIVATED, "The workload is deactivated")
        return
    if scheduling.preemption is not None and _evict_for(life, scheduling.preemption):
        return
    if _evict_if_backfilled_for_too_long(life) or _obey_checks(life) or _obey_queues(life):
        return
    if life.rules.wait_for_pods_ready is None or not evict_if_pods_are_late(life, life.rules.wait_for_pods_ready):
        limit_execution_time(life)


def _evict_for(life: Life, eviction: Eviction) -> bool:
    if QUOTA_RESERVED not in life.case.true:
        life.due.append(life.now)  # the reservation is written first: otherwise it would pass for one still to come
        return False
    life.status = transitions.preempt(
        life.status, eviction, unseen=life.unseen, generation=life.generation, now=life.now
    )
    life.status = keep_time(life.status, life.case.queues.cluster_queue, generation=life.generation, now=life.now)
    life.tell("Normal", "EvictedDueToPreempted", eviction.message)
    life.tell("Normal", PREEMPTED, eviction.message)
    return True


def _evict_if_backfilled_for_too_long(life: Life) -> bool:
    """Evict a backfilled workload when the head that it passed is to start, however late it started itself."""
    until = end_of(life.status)
    if until is None or life.is_waiting_for(until):
        return False
    life.evict(PREEMPTED, "Preempted since the head of its ClusterQueue, which it passed, is to start")
    return True


def _obey_checks(life: Life) -> bool:
    """A rejection goes before a retry."""
    found: dict[str, list[AdmissionCheckState]] = {}
    for check in sorted(life.status.admission_checks, key=attrgetter("name")):
        found.setdefault(check.state, []).append(check)
    if "Rejected" in found:
        _deactivate(life, found["Rejected"])
        return True
    return "Retry" in found and _evict_for_retry(life, found["Retry"])


def _deactivate(life: Life, rejected: Sequence[AdmissionCheckState]) -> None:
    """A check that says Rejected has no other answer next time (KEP 993): deactivated, the workload is not tried again
    and again."""
    names = ",".join(check.name for check in rejected)
    told = f"Admission check(s): {names}, were rejected"
    message = _about(rejected) if life.rules.compatibility.has_check_messages else told
    life.target(ADMISSION_CHECK, message, event="AdmissionCheckRejected")


def _evict_for_retry(life: Life, asking: Sequence[AdmissionCheckState]) -> bool:
    """A check that says Retry ends the reservation, but not before the delay that it asks for: until then, Kueue keeps
    the quota too."""
    if life.is_waiting_for(life.requeue_at):
        return False
    told = f"Evicted due to {_about(asking)}"
    life.evict(
        ADMISSION_CHECK,
        told if life.rules.compatibility.has_check_messages else "At least one admission check is false",
    )
    if life.case.retry_backoff is not None:
        hold_back(life, until=life.now + life.case.retry_backoff, retries=1)
    return True


def _obey_queues(life: Life) -> bool:
    """A stopped queue takes reservations back; admitted workloads it ends only with HoldAndDrain. The LocalQueue goes first."""
    queues, admission = life.case.queues, life.status.admission
    for kind, name, queue in (
        ("LocalQueue", life.spec.queue_name, queues.local_queue),
        ("ClusterQueue", admission.cluster_queue if admission else "", queues.cluster_queue),
    ):
        policy = queue.spec.stop_policy if queue else "None"
        is_gone = queue is None or queue.metadata.deletion_timestamp is not None
        if (policy != "None" or is_gone) and (policy == "HoldAndDrain" or not life.has(ADMITTED)):
            _take_back(life, kind, name, policy)
            return True
    return False


def _take_back(life: Life, kind: str, name: str, policy: str) -> None:
    if life.has(ADMITTED) or life.is_holding:
        life.evict(f"{kind}Stopped", f"The {kind} is stopped")
    else:
        reason, what = (MISCONFIGURED, "terminating or missing") if policy == "None" else (SUSPENDED, "stopped")
        life.status = transitions.unreserve(
            life.status,
            reason=life.rules.reasons.of(reason, before=INADMISSIBLE),
            message=f"{kind} {name} is {what}",
            generation=life.generation,
            now=life.now,
            reasons=life.rules.reasons,
        )


def release(life: Life) -> None:
    """Complete an eviction once nothing runs any more: only now does the quota go back."""
    if not (life.has(EVICTED) and life.has(QUOTA_RESERVED)) or life.is_holding or life.case.job.is_run_by_others:
        return
    life.status = transitions.release(life.status, generation=life.generation, now=life.now, reasons=life.rules.reasons)


def _about(checks: Sequence[AdmissionCheckState]) -> str:
    """Which checks are in a state, all in the same one, and what each says."""
    said = (f'"{check.name}" ({check.message})' if check.message else f'"{check.name}"' for check in checks)
    kind = "AdmissionCheck" if len(checks) == 1 else "AdmissionChecks"
    return f"{kind} in {checks[0].state} state: {'; '.join(said)}"[:_MESSAGE_LENGTH]


_RETRIED = (ADMISSION_CHECK, PODS_READY_TIMEOUT)
"""Reasons of Requeued=False that end with the back-off (quota-engine 4.4)."""


def requeue(life: Life) -> None:
    """Let a workload queue again when the reason of its eviction is over. If its queue runs again, it may have
    quota by then."""
    requeued, state = find_condition(life.status.conditions, REQUEUED), life.status.requeue_state
    is_held = requeued is not None and requeued.status == "False"
    if not is_held and (state is None or state.requeue_at is None):
        return
    backing_off = not life.may_fit_now and life.is_waiting_for(life.requeue_at)
    if not life.has(QUOTA_RESERVED) and not backing_off and state is not None:
        life.status = replace(life.status, requeue_state=replace(state, requeue_at=None))
    if requeued is None or not is_held:
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
