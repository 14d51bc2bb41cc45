"""What a workload's life on the manager cluster depends on: the scheduler's decisions, its queues, its job."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kinds import WORKLOAD_PRIORITY_CLASSES
from multikueue.api.kueue.queues import LocalQueue
from multikueue.api.kueue.workload import (
    EVICTED,
    QUOTA_RESERVED,
    ReclaimablePod,
    Workload,
    is_orphan,
    queue_of,
    workload_spec,
)
from multikueue.api.meta import ObjectKey
from multikueue.dispatch.remote import Remote, attempt_of, is_of_attempt, is_taken_over
from multikueue.jobs.framework.adapter import OwnJob, is_told_at_home
from multikueue.jobs.kinds.batch_job.slices import freed
from multikueue.jobs.kinds.pods.members import replaceable
from multikueue.store.store import Store
from multikueue.workload.case import JobFacts, Queues, Scheduling
from multikueue.workload.decision_rules import DecisionRules

__all__ = ["LifeFacts"]


class LifeFacts(msgspec.Struct, frozen=True):
    """Read-only, as `Views`. `local_queue` is that of the workload."""

    store: Store
    rules: DecisionRules
    local_queue: LocalQueue | None

    @classmethod
    def of(cls, store: Store, rules: DecisionRules, workload: Workload) -> LifeFacts:
        return cls(store, rules, store.local_queues.get(queue_of(workload)))

    def scheduling(self, key: ObjectKey, workload: Workload) -> Scheduling:
        scheduler, quota = self.store.engine.scheduler, self.store.engine.view
        assumed, waiting = scheduler.assumption(key), quota.pending_workload(key)
        admission = assumed.admission if assumed is not None else workload.status.admission
        is_granular = waiting is not None and self.rules.reasons.is_granular
        return Scheduling(
            reservation=assumed.admission if assumed is not None else None,
            until=assumed.until if assumed is not None else None,
            preemption=scheduler.eviction(key),
            is_switched_off=scheduler.was_switched_off(key),
            verdict=quota.verdict(key) if waiting is not None else None,
            misconfiguration=quota.misconfiguration(key) if is_granular else "",
            uncounted=waiting.uncounted if waiting is not None else "",
            required_checks=quota.required_checks(
                admission.cluster_queue if admission else self._cluster_queue, admission
            ),
        )

    def queues(self) -> Queues:
        name = self._cluster_queue
        return Queues(
            local_queue=self.local_queue,
            cluster_queue=self.store.cluster_queues.get(ObjectKey("", name)),
            is_cluster_queue_active=self.store.engine.view.is_active(name),
        )

    def class_value(self, workload: Workload) -> int | None:
        """The value of its WorkloadPriorityClass; None without one."""
        ref = workload_spec(workload).priority_class_ref
        if ref is None or ref.kind != WORKLOAD_PRIORITY_CLASSES.kind:
            return None
        found = self.store.priority_classes.get(ObjectKey("", ref.name))
        return found.value if found is not None else None

    @property
    def _cluster_queue(self) -> str:
        return self.local_queue.spec.cluster_queue if self.local_queue is not None else ""

    def job(self, workload: Workload, own: OwnJob | None, remotes: Iterable[Remote]) -> JobFacts:
        store = self.store
        if own is None:
            return JobFacts(is_let_go=is_orphan(workload), is_run_by_others=store.owner(workload) is None)
        job, winner = own.job, workload.status.cluster_name
        remote = _winners_job(workload, winner, remotes) if winner else None
        return JobFacts(
            finished=own.finished,
            failed_start=lambda now: store.failed_start(now, job),
            may_run=own.may_run,
            ready_pods=self._ready_pods(workload, job, remote) if self.rules.wait_for_pods_ready is not None else None,
            reclaimable=self._reclaimable(workload, own, remote),
            replaceable=replaceable(job, workload),
        )

    def _reclaimable(self, workload: Workload, own: OwnJob, remote: AnyJob | None) -> tuple[ReclaimablePod, ...]:
        """The reclaimable pods by the winner's job: the counters of the local job may still be those of an earlier
        attempt, also of one that had another Workload. An ending attempt frees nothing, or the next would get quota for
        fewer pods than it has."""
        store, runs = self.store, own.job
        if remote is None and store.slices is None and not self._told(own, runs):
            return ()  # nearly always, and the same for a job that is dispatched
        if self._is_dispatched(workload):
            if remote is None or workload.has(EVICTED):
                return ()
            runs = remote
        told = self._told(own, runs)
        return told if store.slices is None else freed(told, runs, workload)

    def _told(self, own: OwnJob, runs: AnyJob) -> tuple[ReclaimablePod, ...]:
        return own.adapter.reclaimable(self.store.runtimes.completed(runs))

    def _is_dispatched(self, workload: Workload) -> bool:
        if workload.has(QUOTA_RESERVED):
            return self.store.multikueue_check(workload) is not None
        return not self.store.is_never_dispatched(
            queue_of(workload), (workload,)
        )  # it has no checks before it has quota

    def _ready_pods(self, workload: Workload, job: AnyJob, remote: AnyJob | None) -> int:
        adapter = self.store.adapters.of(job)
        if is_told_at_home(adapter, job) or self.store.multikueue_check(workload) is None:
            return adapter.ready_pods(self.store.runtimes.completed(job))
        return adapter.ready_pods(remote) if remote is not None else 0


def _winners_job(workload: Workload, name: str, remotes: Iterable[Remote]) -> AnyJob | None:
    """The job of the winner of that name, if it is of the present attempt."""
    winner = next((remote for remote in remotes if remote.cluster == name), None)
    if winner is None or winner.job is None:
        return None
    attempt = attempt_of(workload)
    is_current = is_of_attempt(winner.job, workload, attempt) or is_taken_over(winner.job, workload, attempt, winner)
    return winner.job if is_current else None
