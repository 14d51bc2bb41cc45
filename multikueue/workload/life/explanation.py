"""Why a workload has no quota."""

from __future__ import annotations

from msgspec.structs import replace

from multikueue.api.kueue.unadmitted import (
    ADMISSION_GATED,
    INADMISSIBLE,
    MISCONFIGURED,
    OF_CYCLES,
    PENDING_EVALUATION,
    SUSPENDED,
    WAITING,
    WAITING_FOR_PODS_READY,
)
from multikueue.api.kueue.workload import (
    DEACTIVATED,
    QUOTA_RESERVED,
    REQUEUED,
    UNDISPATCHABLE_ANNOTATION,
    WAITING_FOR_REPLACEMENT,
    admission_gates,
)
from multikueue.api.meta import Condition, find_condition
from multikueue.quota.workload.outcome import Verdict, is_news
from multikueue.workload.life.life import Life
from multikueue.workload.life.reservation import admit

__all__ = ["explain", "explain_deactivation"]


def explain(life: Life) -> None:
    """Say why a workload without quota has none."""
    verdict = life.case.scheduling.verdict
    if _check_queue_problem(life) or _check_devices(life) or _check_misconfiguration(life):
        return
    if _check_gates(life) or _check_members(life):
        return
    if verdict is not None:
        _pass_on(life, verdict)
    elif life.rules.reasons.is_granular:
        _await_evaluation(life)


def _pass_on(life: Life, verdict: Verdict) -> None:
    """Say what a cycle found, unless all that is new about it are amounts."""
    before, told = life.status, find_condition(life.status.conditions, QUOTA_RESERVED)
    if told is None or _is_news(life, verdict, told):
        life.put(QUOTA_RESERVED, "False", reason=verdict.reason, message=verdict.message)
    if verdict.reason in (WAITING, WAITING_FOR_PODS_READY):
        return
    if life.status.resource_requests != verdict.resource_requests:
        life.status = replace(life.status, resource_requests=verdict.resource_requests)
    if life.status is not before:
        life.tell("Warning", verdict.reason, verdict.message)


def _is_news(life: Life, verdict: Verdict, told: Condition) -> bool:
    """Whether the condition QuotaReserved of this generation does not say so yet."""
    if (told.status, told.reason, told.observed_generation) != ("False", verdict.reason, life.generation):
        return True
    return is_news(verdict.message, told.message)


def _await_evaluation(life: Life) -> None:
    """No cycle has looked at the workload since it was held up, or at all. A new one says so only explicitly."""
    told = find_condition(life.status.conditions, QUOTA_RESERVED)
    is_new = told.reason not in OF_CYCLES if told else life.rules.reasons.is_explicit
    if is_new:
        message = "No scheduling cycle has looked at the workload yet"
        life.put(QUOTA_RESERVED, "False", reason=PENDING_EVALUATION, message=message)


def explain_deactivation(life: Life) -> None:
    """Say why a workload that is not active has no quota. One that we keep inactive says what is wrong with its
    job."""
    if not life.rules.reasons.is_granular:
        _check_queue_problem(life)
    elif not life.has(QUOTA_RESERVED):
        wrong = life.case.local.metadata.annotations.get(UNDISPATCHABLE_ANNOTATION)
        reason, message = (MISCONFIGURED, wrong) if wrong else (DEACTIVATED, "The workload is deactivated")
        life.put(QUOTA_RESERVED, "False", reason=reason, message=message)
        admit(life)


def _check_gates(life: Life) -> bool:
    """A gated workload queues once no gate holds it back any more (Kueue 0.19). Returns whether one does."""
    gates = admission_gates(life.case.local.metadata) if life.rules.should_check_gates else ""
    told = find_condition(life.status.conditions, QUOTA_RESERVED)
    was_gated = told is not None and told.reason == ADMISSION_GATED
    if gates:
        life.put(QUOTA_RESERVED, "False", reason=ADMISSION_GATED, message=f"Admission is gated by: {gates}")
        if not was_gated:
            life.tell("Normal", ADMISSION_GATED, f"Workload admission is gated by: {gates}")
    elif was_gated:
        message, reason = "AdmissionGatedBy cleared, waiting for quota reservation", PENDING_EVALUATION
        life.put(QUOTA_RESERVED, "False", reason=life.rules.reasons.of(reason), message=message)
        life.tell("Normal", "AdmissionGateCleared", "Admission gate cleared, workload is now admissible")
    return bool(gates)


def _check_members(life: Life) -> bool:
    """A group of Pods that lacks members does not queue until others replace them (kueue#12768, 0.19). Returns whether
    that is so."""
    lacking = life.case.job.replaceable
    if lacking:
        told = life.rules.reasons.of(WAITING_FOR_REPLACEMENT)
        message = f"The group waits for Pods that replace failed or missing ones: {lacking}"
        life.put(QUOTA_RESERVED, "False", reason=told, message=message)
    return bool(lacking)


def _check_queue_problem(life: Life) -> bool:
    """A workload without quota cannot get any while its queue gives none, active or not. Returns whether that is
    so."""
    reason, problem = ("", "") if life.has(QUOTA_RESERVED) else _queue_problem(life)
    if problem:
        told = life.rules.reasons.of(reason, before=INADMISSIBLE)
        life.put(QUOTA_RESERVED, "False", reason=told, message=problem)
    return bool(problem)


def _queue_problem(life: Life) -> tuple[str, str]:
    """Reason and message; empty if its queues are well."""
    local_queue, queue = life.case.queues.local_queue, life.case.queues.cluster_queue
    if local_queue is None:
        return MISCONFIGURED, f"LocalQueue {life.spec.queue_name} doesn't exist"
    if local_queue.spec.stop_policy != "None":
        return SUSPENDED, f"LocalQueue {life.spec.queue_name} is inactive"
    if queue is None:
        return MISCONFIGURED, f"ClusterQueue {local_queue.spec.cluster_queue} doesn't exist"
    is_active = life.case.queues.is_cluster_queue_active
    return ("", "") if is_active else (SUSPENDED, f"ClusterQueue {queue.metadata.name} is inactive")


def _check_devices(life: Life) -> bool:
    """Work whose devices cannot be counted does not queue (KEP 2941). Returns whether that is so."""
    problem = life.case.scheduling.uncounted
    if problem:
        told = life.rules.reasons.of(MISCONFIGURED, before=INADMISSIBLE)
        life.put(QUOTA_RESERVED, "False", reason=told, message=problem)
        life.put(REQUEUED, "False", reason=INADMISSIBLE, message=problem)
    return bool(problem)


def _check_misconfiguration(life: Life) -> bool:
    """Granular reasons say at once what keeps a workload from being judged; else that waits for a cycle."""
    problem = life.case.scheduling.misconfiguration if life.rules.reasons.is_granular else ""
    if problem:
        life.put(QUOTA_RESERVED, "False", reason=MISCONFIGURED, message=problem)
    return bool(problem)
