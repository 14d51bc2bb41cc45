"""How a workload ends: finished, replaced by a later slice, deactivated; and pods that are over before it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

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
)
from multikueue.api.meta import find_condition, without_condition
from multikueue.workload.life.life import Life

__all__ = ["end_deactivation", "finish", "make_way", "reclaim"]


def finish(life: Life, finish: Finish) -> None:
    life.put(FINISHED, "True", reason=finish.reason, message=finish.message)


def make_way(life: Life, successor: Workload) -> None:
    """Finish the workload as replaced. A later slice has quota in its place by now, so running pods are never
    without quota."""
    meta = successor.metadata
    job = meta.labels.get(JOB_UID_LABEL, "UNKNOWN")
    message = f"Replaced by a later slice of its elastic job: Workload {meta.name} (UID: {meta.uid}, JobUID: {job})"
    life.put(FINISHED, "True", reason=SLICE_REPLACED, message=message)
    life.tell("Normal", SLICE_REPLACED, message)


def end_deactivation(life: Life) -> None:
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
    life.status = replace(life.status, conditions=conditions, requeue_state=None)


def reclaim(life: Life) -> None:
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
