"""The rules of a workload's life, in their order (quota-engine 4.2-4.4, 5.3, 12; contract 3.11)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import (
    ADMITTED,
    DEACTIVATED,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    JOB_UID_LABEL,
    OUT_OF_TIME,
    QUOTA_RESERVED,
    SLICE_REPLACED,
    Finish,
    ReclaimablePod,
    Workload,
    WorkloadStatus,
    workload_spec,
)
from multikueue.api.meta import find_condition, without_condition
from multikueue.workload.case import Case
from multikueue.workload.life.eviction import look_for_trouble, release, requeue
from multikueue.workload.life.explanation import explain, explain_deactivation
from multikueue.workload.life.life import Life
from multikueue.workload.life.pods import look_at_pods, look_for_members
from multikueue.workload.life.reservation import admit, check_delays, list_checks, reserve

__all__ = ["Step", "step"]


class Step(msgspec.Struct, frozen=True):
    """The status to write if it differs; then, with `should_deactivate`, `spec.active` becomes false.

    `again_after`: when time alone makes another step due; None: never.
    """

    status: WorkloadStatus
    should_deactivate: bool = False
    again_after: timedelta | None = None
    events: tuple[Event, ...] = ()


def step(case: Case) -> Step:
    """The next status of a workload: everything that is due at once. It is safe to repeat: with nothing new it returns the
    same status object. Raises msgspec.ValidationError if the spec cannot be decoded."""
    local, before = case.local, case.local.status
    life = Life(case, workload_spec(local), before, case.rules, case.now, local.metadata.generation)
    if not life.has(FINISHED):
        _go_on(life)
    again_after = min(life.due) - life.now if life.due else None
    return Step(before if life.status == before else life.status, life.deactivate, again_after, tuple(life.events))


def _go_on(life: Life) -> None:
    end = life.end
    if end is not None:
        _finish(life, end)
    elif life.case.successor is not None:
        _make_way(life, life.case.successor)
    elif not life.spec.active:
        _end_deactivation(life)
        release(life)
        explain_deactivation(life)
        list_checks(life)
    elif life.has(DEACTIVATION_TARGET) and not life.has(EVICTED):
        life.deactivate = True
    else:
        _live(life)
    _reclaim(life)
    if life.rules.wait_for_pods_ready is not None:
        look_at_pods(life)
    if life.case.job.replaceable is not None:
        look_for_members(life)


def _live(life: Life) -> None:
    reserve(life)
    check_delays(life)
    list_checks(life)
    admit(life)
    if life.rules.wait_for_pods_ready is not None:
        look_at_pods(life)
    if life.has(QUOTA_RESERVED):
        if not life.has(EVICTED):
            look_for_trouble(life)
        release(life)
    if life.deactivate:
        return
    requeue(life)
    if not life.has(QUOTA_RESERVED):
        explain(life)
        list_checks(life)
        admit(life)


def _finish(life: Life, finish: Finish) -> None:
    life.put(FINISHED, "True", reason=finish.reason, message=finish.message)


def _make_way(life: Life, successor: Workload) -> None:
    """Finish the workload as replaced. A later slice has quota in its place by now, so running pods are never
    without quota."""
    meta = successor.metadata
    job = meta.labels.get(JOB_UID_LABEL, "UNKNOWN")
    message = f"Replaced by a later slice of its elastic job: Workload {meta.name} (UID: {meta.uid}, JobUID: {job})"
    life.put(FINISHED, "True", reason=SLICE_REPLACED, message=message)
    life.tell("Normal", SLICE_REPLACED, message)


def _end_deactivation(life: Life) -> None:
    """Evict a deactivated workload: its user deactivated it, or we did, for the cause in DeactivationTarget.

    As in Kueue that condition is over with the eviction, but for a workload whose time is up: it says so until nothing
    of it runs.
    """
    target = find_condition(life.status.conditions, DEACTIVATION_TARGET)
    if not life.has(EVICTED):
        cause, message = "", "The workload is deactivated"
        if target and target.status == "True":
            cause, message = target.reason, f"{message} due to {target.message}"
        life.evict(DEACTIVATED, message, cause=cause)
    is_kept = target is not None and target.reason == OUT_OF_TIME and life.has(ADMITTED)
    conditions = life.status.conditions if is_kept else without_condition(life.status.conditions, DEACTIVATION_TARGET)
    if conditions is not life.status.conditions or life.status.requeue_state is not None:
        life.status = replace(life.status, conditions=conditions, requeue_state=None)


def _reclaim(life: Life) -> None:
    """Free the quota of pods that are over. It cannot be taken again (Kueue's webhook), but by a pod set that was scaled
    down since its admission: what is over of it depends on its size (kueue#12670, #12958)."""
    told, known = life.case.job.reclaimable, life.status.reclaimable_pods
    if told is None or not (told or known) or life.has(FINISHED):
        return
    sizes = {pod_set.name: pod_set.count for pod_set in life.spec.pod_sets}
    old = {pods.name: pods.count for pods in known}
    freed = {pods.name: min(pods.count, sizes[pods.name]) for pods in told if pods.name in sizes}
    if life.has(QUOTA_RESERVED):
        kept = {name: count for name, count in old.items() if name not in _scaled_down(life, sizes)}
        freed |= {name: min(max(count, freed.get(name, 0)), sizes.get(name, 0)) for name, count in kept.items()}
    if freed != old:
        pods = tuple(ReclaimablePod(name=name, count=count) for name, count in freed.items())
        life.status = replace(life.status, reclaimable_pods=pods)


def _scaled_down(life: Life, sizes: Mapping[str, int]) -> set[str]:
    """The pod sets of an elastic job with fewer pods than they were admitted with: no others can have fewer."""
    admission = life.status.admission
    made = admission.pod_set_assignments if admission is not None else ()
    return {each.name for each in made if each.count is not None and each.count > sizes.get(each.name, 0)}
