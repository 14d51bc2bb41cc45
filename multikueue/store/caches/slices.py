"""The Workloads of one elastic job as slices: which replaces which."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from multikueue.api.kueue.slices import is_elastic, is_past, job_of, replaced_key
from multikueue.api.kueue.workload import EVICTED, FINISHED, QUOTA_RESERVED, Workload
from multikueue.api.meta import ObjectKey
from multikueue.api.values.foreign import answer_or
from multikueue.dispatch.slices import NO_SLICE, Slice, with_templates_of
from multikueue.store.caches.cache import Cache

__all__ = ["Slices", "replaced"]


def replaced(workload: Workload) -> Iterable[ObjectKey]:
    """The slice that a workload replaces, as an index."""
    key = replaced_key(workload)
    return () if key is None else (key,)


class Slices(msgspec.Struct, frozen=True):
    """Questions about slices. `workloads` are all of the manager cluster, with the index `replaces`."""

    workloads: Cache[Workload]

    def of(self, key: ObjectKey, local: Workload | None, *, is_job_running: bool) -> Slice:
        """The workload's relation to other slices. Of a deleted one only its replacement is known. `is_job_running`: the
        local job is neither stopped nor finished."""
        if local is not None and not is_elastic(local):
            return NO_SLICE
        if local is None or local.has(FINISHED):
            left = self._left(key, local, is_job_running=is_job_running)
            return Slice(is_elastic=True, heir=(left,)) if left else NO_SLICE
        before = self.replaced_by(local)
        pinned = replaced_key(local) is not None and not _is_ready(local)
        stays = (local.status.cluster_name or _inherited(local, before)) if pinned else ""
        return Slice(is_elastic=True, stays=stays, is_too_early=before is not None and not before.has(FINISHED))

    def _left(self, key: ObjectKey, local: Workload | None, *, is_job_running: bool) -> str | None:
        """The worker where the remains of an ended slice belong to the job that goes on; None if nowhere.

        That can be so before a replacement is seen: with Kueue beside us, its cache of jobs may be stale, so that it
        finishes a slice at its creation and reverts that in its next write. A job that is really to end is stopped.
        """
        later = self.replacement(key)
        if later is not None:
            return None if later.has(EVICTED) else (local or later).status.cluster_name
        return local.status.cluster_name if local is not None and is_past(local) and is_job_running else None

    def replaced_by(self, workload: Workload) -> Workload | None:
        """The slice that the workload replaces, if it exists and is of the same job."""
        key = replaced_key(workload)
        found = self.workloads.get(key) if key is not None else None
        return found if found is not None and _is_of_same_job(found, workload) else None

    def as_asked(self, workload: Workload) -> Workload:
        """The workload with the pods that its user asked for: a later slice with the templates of the first one there is."""
        first, met = workload, {workload.key}
        while (before := self.replaced_by(first)) is not None and before.key not in met:
            met.add(before.key)
            first = before
        if first is workload:
            return workload
        return answer_or(lambda: with_templates_of(first, workload), otherwise=workload)

    def replacement(self, key: ObjectKey) -> Workload | None:
        """The slice that goes on after the slice of that key: the first unfinished one among its replacements. An
        evicted one too, though it inherits nothing."""
        met: set[ObjectKey] = set()
        while key not in met:
            met.add(key)
            later = [w for w in self.workloads.by("replaces", key) if w.metadata.deletion_timestamp is None]
            going_on = next((w for w in later if not w.has(FINISHED)), None)
            if going_on is not None:
                return going_on
            if not later:
                return None
            key = later[0].key
        return None

    def successor(self, workload: Workload) -> Workload | None:
        """The replacement that has quota."""
        later = self.workloads.by("replaces", workload.key)
        return next(
            (w for w in later if w.has(QUOTA_RESERVED) and not w.has(FINISHED) and _is_of_same_job(w, workload)), None
        )

    def stays(self, workload: Workload) -> str | None:
        """The cluster that the workload is pinned to: that of the slice it replaces, while that one has quota."""
        before = self.replaced_by(workload)
        runs = before is not None and before.has(QUOTA_RESERVED) and not before.has(EVICTED)
        return before.status.cluster_name if before is not None and runs else None

    def before(self, workload: Workload) -> tuple[ObjectKey, ...]:
        """The ended slices that it replaces, directly or through others, newest first: their remains on workers are its
        own, until it ends itself."""
        if not is_elastic(workload) or workload.has(FINISHED) or workload.metadata.deletion_timestamp is not None:
            return ()
        found: dict[ObjectKey, None] = {}
        key = replaced_key(workload)
        while key is not None and key not in found:
            earlier = self.workloads.get(key)
            if earlier is not None and not (earlier.has(FINISHED) and _is_of_same_job(earlier, workload)):
                break
            found[key] = None
            key = replaced_key(earlier) if earlier is not None else None
        return tuple(found)

    def beside(self, workload: Workload) -> tuple[ObjectKey, ...]:
        """The slice it replaces and its replacements, existing or gone."""
        if not is_elastic(workload):
            return ()
        key = replaced_key(workload)
        return (*(() if key is None else (key,)), *self.after(workload.key))

    def after(self, key: ObjectKey) -> tuple[ObjectKey, ...]:
        """The replacements of the slice, present or to come."""
        return tuple(w.key for w in self.workloads.by("replaces", key))


def _inherited(local: Workload, before: Workload | None) -> str:
    """The worker of the previous slice, if another program reserved the quota and did not record the worker. Only in the
    first attempt: an eviction stops the job, and the next attempt may go to any worker."""
    is_first = local.has(QUOTA_RESERVED) and local.condition(EVICTED) is None
    runs = before is not None and not before.has(EVICTED)
    return (before.status.cluster_name or "") if before is not None and is_first and runs else ""


def _is_ready(workload: Workload) -> bool:
    """Whether its checks are Ready: then the worker in its status is its winner, not only its pin."""
    checks = workload.status.admission_checks
    return bool(checks) and all(check.state == "Ready" for check in checks)


def _is_of_same_job(one: Workload, other: Workload) -> bool:
    return bool(job_of(one)) and job_of(one) == job_of(other)
