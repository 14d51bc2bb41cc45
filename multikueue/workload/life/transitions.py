"""The steps of a workload's life, each from one status to the next (quota-engine 4.1-4.3, contract 3.11).

A step that changes nothing returns the same object, so that a caller can tell that there is nothing to write.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from operator import attrgetter

from msgspec.structs import replace

from multikueue.api.kueue.unadmitted import (
    NO_RESERVATION,
    NO_RESERVATION_UNSATISFIED_CHECKS,
    PENDING_DELAYED_TOPOLOGY_REQUESTS,
    PENDING_EVALUATION,
    UNSATISFIED_ADMISSION_CHECKS,
)
from multikueue.api.kueue.workload import (
    ADMITTED,
    DEACTIVATED,
    DEACTIVATION_TARGET,
    EVICTED,
    OUT_OF_TIME,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    Admission,
    AdmissionCheckState,
    EvictionCount,
    SchedulingStats,
    WorkloadStatus,
    put_condition,
    without_nomination,
)
from multikueue.api.meta import find_condition, without_condition
from multikueue.quota.workload.outcome import AS_BEFORE, Eviction, Reasons

ADMISSION_CHECK = "AdmissionCheck"
"""The reason of an eviction by a check."""

_REQUEUED_AT_ONCE = ("Preempted", "NodeFailures")
"""Reasons of an eviction that sets Requeued=True at once; after others a rule of `lifecycle` does (quota-engine
4.3)."""

_SECOND = timedelta(seconds=1)
_NAME, _STATE, _TYPE = attrgetter("name"), attrgetter("state"), attrgetter("type")


def reserve(
    status: WorkloadStatus, admission: Admission, checks: Iterable[str], *, generation: int, now: datetime
) -> WorkloadStatus:
    """Quota is reserved. The transition time is later than any before, in whole seconds: it distinguishes attempts."""
    old = find_condition(status.conditions, QUOTA_RESERVED)
    at = now
    if old and old.last_transition_time:
        at = max(now, old.last_transition_time + _SECOND)
    message = f"Quota reserved in ClusterQueue {admission.cluster_queue}"
    status = put_condition(
        status, QUOTA_RESERVED, "True", reason=QUOTA_RESERVED, message=message, generation=generation, now=at
    )
    for type_ in (EVICTED, PREEMPTED):
        past = find_condition(status.conditions, type_)
        if past and past.status == "True":
            message = f"Previously: {past.message}"
            status = put_condition(
                status, type_, "False", reason=QUOTA_RESERVED, message=message, generation=generation, now=now
            )
    status = replace(status, admission=admission, resource_requests=())
    return synchronise_checks(status, checks, now=now)


def synchronise_checks(status: WorkloadStatus, required: Iterable[str], *, now: datetime) -> WorkloadStatus:
    """List the required checks and no others: known ones as they are, new ones Pending."""
    names = tuple(required)
    if names == tuple(map(_NAME, status.admission_checks)):  # nearly always
        return status
    kept = tuple(check for check in status.admission_checks if check.name in names)
    known = {check.name for check in kept}
    at = now.replace(microsecond=0)
    new = tuple(
        AdmissionCheckState(name=name, state="Pending", message="", last_transition_time=at)
        for name in names
        if name not in known
    )
    if not new and len(kept) == len(status.admission_checks):
        return status
    return replace(status, admission_checks=kept + new)


def synchronise_admitted(
    status: WorkloadStatus, generation: int, now: datetime, reasons: Reasons = AS_BEFORE
) -> WorkloadStatus:
    """Admitted follows from the reservation and the checks; call it whenever one of them changed.

    Once admitted, a workload stays so while it has its reservation, whatever its checks say: it may be running, and
    only an eviction stops it. When Admitted ends, its seconds are added to the accumulated execution time.
    """
    known = dict(zip(map(_TYPE, status.conditions), status.conditions, strict=True))
    admitted, reservation = known.get(ADMITTED), known.get(QUOTA_RESERVED)
    is_admitted = admitted is not None and admitted.status == "True"
    reserved = reservation is not None and reservation.status == "True"
    if reserved and is_admitted:
        return status
    ready = {*map(_STATE, status.admission_checks)} <= {"Ready"}
    if reserved and ready and not _is_awaiting_topology(status):
        message = "The workload is admitted"
        return put_condition(status, ADMITTED, "True", reason=ADMITTED, message=message, generation=generation, now=now)
    if not is_admitted and not (reasons.is_granular and (admitted or reservation or reasons.is_explicit)):
        return status  # never admitted, and what was not said yet is said only explicitly
    reason, message = _why_not_admitted(reserved=reserved, ready=ready, reasons=reasons)
    if admitted is not None and is_admitted:
        since = admitted.last_transition_time
        elapsed = max(0, int((now - since).total_seconds())) if since else 0
        past = status.accumulated_past_execution_time_seconds or 0
        status = replace(status, accumulated_past_execution_time_seconds=past + elapsed)
    return put_condition(status, ADMITTED, "False", reason=reason, message=message, generation=generation, now=now)


def _why_not_admitted(*, reserved: bool, ready: bool, reasons: Reasons) -> tuple[str, str]:
    """Reason and message of Admitted=False."""
    if not reserved and not ready and not reasons.is_granular:
        return NO_RESERVATION_UNSATISFIED_CHECKS, "The workload has no reservation and not all checks ready"
    if not reserved:
        return NO_RESERVATION, "The workload has no reservation"
    if not ready:
        return UNSATISFIED_ADMISSION_CHECKS, "Not all admission checks are ready"
    return PENDING_DELAYED_TOPOLOGY_REQUESTS, "Pods have no place in a topology yet"


def _is_awaiting_topology(status: WorkloadStatus) -> bool:
    pod_sets = status.admission.pod_set_assignments if status.admission else ()
    return any(pod_set.delayed_topology_request == "Pending" for pod_set in pod_sets)


def evict(
    status: WorkloadStatus,
    *,
    reason: str,
    message: str,
    cause: str = "",
    unseen: tuple[str, ...] = (),
    generation: int,
    now: datetime,
) -> WorkloadStatus:
    """Begin an eviction. The workload keeps its quota until nothing of it runs any more: `release`.

    The winner stays recorded until then: a process that starts meanwhile must know where something may still run. So do the
    nominated workers that this process has not seen yet (`unseen`), where its predecessor may have made the job.
    """
    full_reason = f"{reason}DueTo{cause}" if cause and reason == DEACTIVATED else reason
    status = put_condition(status, EVICTED, "True", reason=full_reason, message=message, generation=generation, now=now)
    return replace(
        without_nomination(reset_checks(status, now=now)),
        nominated_cluster_names=unseen,
        scheduling_stats=_counted(status.scheduling_stats, reason=reason, cause=cause),
    )


def preempt(
    status: WorkloadStatus, eviction: Eviction, *, unseen: tuple[str, ...] = (), generation: int, now: datetime
) -> WorkloadStatus:
    """Begin an eviction because another workload needs the quota."""
    message = eviction.message
    status = evict(status, reason=PREEMPTED, message=message, unseen=unseen, generation=generation, now=now)
    return put_condition(
        status, PREEMPTED, "True", reason=eviction.cause.value, message=message, generation=generation, now=now
    )


def reset_checks(status: WorkloadStatus, *, now: datetime) -> WorkloadStatus:
    """Set all checks back to Pending: they have to be passed again."""
    at = now.replace(microsecond=0)
    checks = tuple(
        AdmissionCheckState(
            name=check.name,
            state="Pending",
            message=f"Reset to Pending after eviction. Previously: {check.state}",
            last_transition_time=at,
            retry_count=(check.retry_count or 0) + 1 if check.state == "Retry" else check.retry_count,
        )
        for check in status.admission_checks
    )
    return replace(status, admission_checks=checks)


def _counted(stats: SchedulingStats | None, *, reason: str, cause: str) -> SchedulingStats:
    old = stats.evictions if stats else ()
    past = next((each.count for each in old if (each.reason, each.underlying_cause) == (reason, cause)), 0)
    new = EvictionCount(reason=reason, underlying_cause=cause, count=past + 1)
    if past == 0:
        return SchedulingStats(evictions=(*old, new))
    return SchedulingStats(
        evictions=tuple(new if (each.reason, each.underlying_cause) == (reason, cause) else each for each in old)
    )


def release(status: WorkloadStatus, *, generation: int, now: datetime, reasons: Reasons = AS_BEFORE) -> WorkloadStatus:
    """End an eviction: nothing runs any more, and the quota goes back. `status` has an Evicted condition."""
    eviction = find_condition(status.conditions, EVICTED)
    assert eviction is not None, "only an evicted workload is released"
    at_once = eviction.reason in _REQUEUED_AT_ONCE
    status = put_condition(
        status,
        REQUEUED,
        "True" if at_once else "False",
        reason=eviction.reason,
        message=eviction.message,
        generation=generation,
        now=now,
    )
    reason = reasons.of(PENDING_EVALUATION)
    status = unreserve(status, reason=reason, message=eviction.message, generation=generation, now=now, reasons=reasons)
    status = replace(status, conditions=without_condition(status.conditions, DEACTIVATION_TARGET))  # for a reactivation
    if eviction.reason == f"{DEACTIVATED}DueTo{OUT_OF_TIME}":
        status = replace(status, accumulated_past_execution_time_seconds=None)  # a reactivation grants it all again
    return status


def unreserve(
    status: WorkloadStatus,
    *,
    reason: str,
    message: str,
    generation: int,
    now: datetime,
    reasons: Reasons = AS_BEFORE,
) -> WorkloadStatus:
    """Give the quota back, with all that was built on it.

    Nominations stay, as Kueue leaves them: who dispatches takes them away once nothing can be left on those workers."""
    status = put_condition(
        status, QUOTA_RESERVED, "False", reason=reason, message=message, generation=generation, now=now
    )
    status = replace(status, admission=None, cluster_name=None)
    if any(check.state != "Pending" for check in status.admission_checks):
        status = reset_checks(status, now=now)
    return synchronise_admitted(status, generation, now, reasons)
