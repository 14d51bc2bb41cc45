"""The input of the jobs controller's decision, built from the store: one job, its Workloads, and its remote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue.dispatch.remote import Remote, attempt_of, is_of_attempt, is_taken_over
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.framework.workloads import may_be_its, prebuilt_name
from multikueue.jobs.kinds.batch_job.slices import is_sliced
from multikueue.jobs.reconciler.case import JobRules, JobView, is_over
from multikueue.jobs.reconciler.decide import resolve_priority
from multikueue.store.caches.cache import ByName
from multikueue.store.store import Store
from multikueue.store.views import Views
from multikueue.workload.decision_rules import DecisionRules
from multikueue.workload.handlers.evicting import is_holding

__all__ = ["JobViews"]


class JobViews(msgspec.Struct, frozen=True):
    """Read-only, as `Views`."""

    store: Store
    rules: DecisionRules
    job_rules: JobRules

    def of(self, job: AnyJob, adapter: Adapter) -> JobView:
        """All that is known of a job, which may lack the spec that only its kind's runtime has."""
        store = self.store
        job = store.runtimes.completed(job)
        if is_over(job, adapter):  # only its finalizers are left to remove
            return JobView(job=job)
        workloads = {workload.key: workload for workload in (*store.owned(job), *self._named(job))}
        remote = self._remote(workloads.values())
        queue = ObjectKey(job.metadata.namespace, adapter.queue_name(job))
        dispatched = store.should_dispatch(*queue)
        return JobView(
            job=job,
            workloads=tuple(workloads.values()),
            remote=remote.job if remote else None,
            is_remote_lost=remote is not None and remote.is_lost(store.now(), self.rules.lost_after),
            may_run=any(self._may_run(w) for w in workloads.values() if w.metadata.deletion_timestamp is not None),
            priority=resolve_priority(
                job,
                ByName(store.priority_classes),
                ByName(store.pod_priority_classes),
                adapter,
                should_count_system_classes=self.job_rules.should_count_system_classes,
            ),
            is_queue_multikueue=bool(dispatched),
            may_run_here=dispatched is False and store.has_manager_as_worker(queue),
            is_dispatched=any(store.multikueue_check(w) or self._is_asked_for(w) for w in workloads.values()),
            is_undispatched=remote is None and self._is_left_to_nobody(queue, workloads),
            flavors=ByName(store.flavors),
            is_elastic=store.slices is not None and dispatched is not False and is_sliced(job, workloads.values()),
            nested=store.nesting.of(job),
            label_keys=self.job_rules.label_keys,
            is_taken=lambda name: store.workloads.get(ObjectKey(job.metadata.namespace, name)) is not None,
            has_local_queue=store.local_queues.get(queue) is not None,
            unreadable=self._unreadable(job, adapter),
            tell_suspended_after=self.job_rules.tell_suspended_after,
        )

    def _is_left_to_nobody(self, queue: ObjectKey, workloads: Mapping[ObjectKey, Workload]) -> bool:
        """Whether no queue has a check of ours, and no worker may have the job from the time when one did."""
        without = self.store.is_never_dispatched(queue, workloads.values())
        return without and not any(map(self._is_asked_for, workloads.values()))

    def _is_asked_for(self, workload: Workload) -> bool:
        """Whether a nominated worker has the job, or may have it, before its win is written."""
        return bool(workload.status.nominated_cluster_names) and self._may_run(workload)

    def _may_run(self, workload: Workload) -> bool:
        return is_holding(Views(self.store).case(workload.key, self.rules))

    def _unreadable(self, job: AnyJob, adapter: Adapter) -> str:
        """Why a Workload that may be the job's cannot be read; empty if there is none."""
        for key, why in self.store.workloads.unreadable.items():
            if key.namespace == job.metadata.namespace and may_be_its(key.name, adapter.kind, job):
                return f"the Workload {key.name}, which may be the job's, cannot be read: {why}"
        return ""

    def _named(self, job: AnyJob) -> tuple[Workload, ...]:
        name = prebuilt_name(job)
        found = self.store.workloads.get(ObjectKey(job.metadata.namespace, name)) if name else None
        return (found,) if found else ()

    def _remote(self, workloads: Iterable[Workload]) -> Remote | None:
        """The worker with the job of the present attempt: the recorded winner, or the first that has it."""
        views = Views(self.store)
        for workload in workloads:
            attempt = attempt_of(workload)
            seen = (views.seen(workload.key, name) for name in self.store.with_job(workload.key))
            holding = [
                remote
                for remote in seen
                if is_of_attempt(remote.job, workload, attempt) or is_taken_over(remote.job, workload, attempt, remote)
            ]
            recorded = [remote for remote in holding if remote.cluster == workload.status.cluster_name]
            if holding:
                return (recorded or holding)[0]
        return None
