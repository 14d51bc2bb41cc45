"""Counts and logs the changes of workloads in one file, from the changes of the store only.

Each log line and each count follows from the difference between two versions of an object. So there is no line without
a change, no line twice, and the changes of other writers (Kueue beside us, an administrator) are logged like ours. The
observer never acts. It looks after each change was made (`Cache.observe`), so an error of its own costs a line or a count
at most: `multikueue_look_failures_total` counts these.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from functools import partial
from time import monotonic
from typing import Any

from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.kueue.usage import WorkloadUsage
from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    PODS_READY,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    AdmissionCheckState,
    Workload,
    queue_of,
    workload_spec,
)
from multikueue.api.meta import ObjectKey, find_condition
from multikueue.controllers.metrics.unadmitted import Unadmitted, count
from multikueue.dispatch.remote import attempt_of
from multikueue.store.caches.rooms import WorkerRoom
from multikueue.store.store import Store
from multikueue.store.workers.known_objects import prebuilt_key
from multikueue.store.workers.worker import WorkerView
from multikueue.telemetry import get_logger
from multikueue.telemetry.metrics import Metrics, QueueInstruments

log = get_logger()


class Milestone(IntEnum):
    """The milestones of a workload, in order."""

    NOWHERE = 0
    SUBMITTED = 1
    CREATED = 2
    RESERVED = 3
    COPIED = 4
    ADMITTED = 5
    JOB_CREATED = 6
    READY = 7


PHASES = ("", "", "workload_created", "quota_reserved", "first_copy", "admitted_remotely", "job_created", "ready")
"""By milestone: the label `phase` of the time from the milestone before."""

FINISHED_PHASE = "finished"

_UID = re.compile(r"\(UID: ([^\s,)]{1,64})")


@dataclass(slots=True)
class _Story:
    """Memory of one workload: its queue and its progress, in seconds of a clock that never jumps.

    `since` is when `reached` was reached; `began` when its job was first seen, None for a later attempt; `ended` when
    its winner was seen to finish.
    """

    queue: ObjectKey
    priority_class: str
    generation: int
    reached: Milestone = Milestone.NOWHERE
    since: float = 0.0
    began: float | None = None
    ended: float | None = None


@dataclass(slots=True)
class Observer:
    """Owner of its stories. `attach` it once, before the caches are filled; it logs nothing until `is_acting`.

    `finished` counts the existing finished workloads, by LocalQueue; `unadmitted` those that are neither finished nor admitted,
    where they say why.
    """

    store: Store
    metrics: Metrics
    now: Callable[[], datetime]
    seconds: Callable[[], float] = monotonic
    is_acting: bool = False
    finished: Counter[ObjectKey] = field(default_factory=Counter)
    unadmitted: Counter[Unadmitted] = field(default_factory=Counter)
    _submitted: dict[JobKey, float] = field(default_factory=dict)
    _victims: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many were preempted for a copy that is there, by worker and UID of the copy."""
    _stories: dict[ObjectKey, _Story] = field(default_factory=dict)

    def attach(self) -> None:
        failed = self.metrics.look_failed
        self.store.jobs.observe(self._job_changed, partial(failed, "jobs"))
        self.store.workloads.observe(self._workload_changed, partial(failed, "workloads"))
        self.store.cluster_queues.observe(self._cluster_queue_changed, partial(failed, "cluster_queues"))
        self.store.local_queues.observe(self._local_queue_changed, partial(failed, "local_queues"))
        self.store.observe(self, partial(failed, "workers"))
        self.store.rooms.observe(self._room_met)

    # Workers.

    def worker_met(self, worker: WorkerView) -> None:
        failed = self.metrics.look_failed
        worker.workloads.observe(partial(self._copy_changed, worker), partial(failed, "copies"))
        worker.jobs.observe(partial(self._remote_job_changed, worker), partial(failed, "remote_jobs"))

    def _room_met(self, room: WorkerRoom) -> None:
        changed = partial(self._other_changed, room.name)
        room.workloads.observe(changed, partial(self.metrics.look_failed, "others"))

    def worker_forgotten(self, worker: WorkerView) -> None:
        self.metrics.forget_cluster(worker.name)
        for place in [each for each in self._victims if each[0] == worker.name]:
            del self._victims[place]

    def reach_changed(self, worker: WorkerView) -> None:
        self.metrics.cluster_changes(worker.name, worker.link.reach.value).inc()

    # Queues: a queue that is gone has no series.

    def _cluster_queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        if old is not None and new is None:
            self.metrics.forget_cluster_queue(old.metadata.name)

    def _local_queue_changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        if old is not None and new is None:
            self.metrics.forget_local_queue(old.metadata.namespace, old.metadata.name)

    # The job, and how far its workload came.

    def _job_changed(self, old: AnyJob | None, new: AnyJob | None) -> None:
        if new is None:
            assert old is not None
            self._submitted.pop(self.store.adapters.key_of(old), None)
        elif old is None and self.is_acting and self.store.adapters.of(new).queue_name(new):
            self._submitted[self.store.adapters.key_of(new)] = self.seconds()

    def _reach(self, story: _Story, milestone: Milestone) -> None:
        """Observes the time since the milestone before, unless this one was reached already in this attempt."""
        if story.reached is Milestone.NOWHERE or milestone <= story.reached:
            return
        now = self.seconds()
        self.metrics.phases(PHASES[milestone]).observe(now - story.since)
        story.reached, story.since = milestone, now
        if milestone is Milestone.READY and story.began is not None:
            self.metrics.dispatch.observe(now - story.began)

    def _story(self, workload: Workload) -> _Story:
        story = self._stories.get(workload.key)
        if story is None:
            spec = workload_spec(workload)
            queue = ObjectKey(workload.metadata.namespace, spec.queue_name)
            priority_class = spec.priority_class_ref.name if spec.priority_class_ref else ""
            story = self._stories[workload.key] = _Story(queue, priority_class, workload.metadata.generation)
        elif story.generation != workload.metadata.generation:
            fresh = workload_spec(workload)
            story.queue = ObjectKey(workload.metadata.namespace, fresh.queue_name)
            story.priority_class = fresh.priority_class_ref.name if fresh.priority_class_ref else ""
            story.generation = workload.metadata.generation
        return story

    # The local workload.

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        self._count_finished(old, new)
        if self.store.engine.rules.reasons.is_granular:
            count(self.unadmitted, old, new)
        if new is None:
            assert old is not None
            self._stories.pop(old.key, None)
        elif self.is_acting:
            if old is None:
                self._created(new)
            else:
                self._status_changed(old, new)

    def _count_finished(self, old: Workload | None, new: Workload | None) -> None:
        was, is_ = old is not None and old.has(FINISHED), new is not None and new.has(FINISHED)
        if was != is_:
            changed = new or old
            assert changed is not None
            self.finished[queue_of(changed)] += is_ - was

    def _created(self, new: Workload) -> None:
        story, owner = self._story(new), self.store.owner(new)
        began = self._submitted.pop(owner, None) if owner else None
        log.info("workload.created", workload=str(new.key), queue=story.queue.name, job=owner.name if owner else None)
        if began is not None:
            story.reached, story.since, story.began = Milestone.SUBMITTED, began, began
            self._reach(story, Milestone.CREATED)

    def _status_changed(self, old: Workload, new: Workload) -> None:
        before, after = _true(old), _true(new)
        if after != before:
            self._conditions_changed(old, new, before, after)
        named = new.status.nominated_cluster_names
        if named and named != old.status.nominated_cluster_names and not (after - before):
            self._log("workload.nominated", new, clusters=named)
        if new.status.admission_checks != old.status.admission_checks:
            self._checks_changed(old, new)

    def _conditions_changed(self, old: Workload, new: Workload, before: frozenset[str], after: frozenset[str]) -> None:
        gained = after - before
        if QUOTA_RESERVED in gained:
            self._reserved(new)
        if ADMITTED in gained:
            self._admitted(new)
        if PODS_READY in gained:
            self._ready(new)
        if EVICTED in gained:
            self._evicted(old, new)
        if QUOTA_RESERVED in before - after and FINISHED not in after:
            self._requeued(new)
        if FINISHED in gained:
            self._finished(new)

    def _reserved(self, new: Workload) -> None:
        story, queue = self._story(new), _cluster_queue(new)
        wait = self._waited(new)
        for instruments, labels in self._instruments(story, queue):
            instruments.reserved(*labels, story.priority_class).inc()
            instruments.reserved_wait(*labels, story.priority_class).observe(wait)
        if story.reached is Milestone.CREATED:
            self._reach(story, Milestone.RESERVED)
        else:  # a later attempt, or a job submitted before we began: times count from here
            story.reached, story.since, story.began = Milestone.RESERVED, self.seconds(), None
        self._log("workload.reserved", new, cluster_queue=queue, nominated=new.status.nominated_cluster_names)

    def _admitted(self, new: Workload) -> None:
        story, queue = self._story(new), _cluster_queue(new)
        wait, reserved = self._waited(new), new.condition(QUOTA_RESERVED)
        for instruments, labels in self._instruments(story, queue):
            instruments.admitted(*labels, story.priority_class).inc()
            instruments.admitted_wait(*labels, story.priority_class).observe(wait)
            if new.status.admission_checks and reserved is not None:
                checks = instruments.checks_wait(*labels, story.priority_class)
                checks.observe(self._since(reserved.last_transition_time))
        self._reach(story, Milestone.READY)
        self._log("workload.admitted", new, cluster=new.status.cluster_name)

    def _ready(self, new: Workload) -> None:
        story, wait, admitted = self._story(new), self._waited(new), new.condition(ADMITTED)
        for instruments, labels in self._instruments(story, _cluster_queue(new)):
            instruments.ready_wait(*labels, story.priority_class).observe(wait)
            if admitted is not None:
                since = self._since(admitted.last_transition_time)
                instruments.ready_since_admitted(*labels, story.priority_class).observe(since)
        self._log("workload.ready", new, cluster=new.status.cluster_name)

    def _evicted(self, old: Workload, new: Workload) -> None:
        story, queue, condition = self._story(new), _cluster_queue(new), new.condition(EVICTED)
        assert condition is not None
        reason, cause = condition.reason.partition("DueTo")[0], _underlying_cause(old, new)
        ready = new.condition(PODS_READY)
        if ready is not None and ready.status == "True":
            self.metrics.ready_until_evicted(queue, reason, cause).observe(self._since(ready.last_transition_time))
        for instruments, labels in self._instruments(story, queue):
            instruments.evicted(*labels, reason, cause, story.priority_class).inc()
        stats = new.status.scheduling_stats
        if stats is None or sum(entry.count for entry in stats.evictions) <= 1:
            self.metrics.evicted_once(queue, reason, cause, story.priority_class).inc()
        self._log("workload.evicted", new, reason=condition.reason, why=condition.message)

    def _requeued(self, new: Workload) -> None:
        state = new.status.requeue_state
        facts: dict[str, Any] = {"attempts": state.count, "not_before": state.requeue_at} if state else {}
        self._stories.pop(new.key, None)
        log.info("workload.requeued", workload=str(new.key), **facts)

    def _finished(self, new: Workload) -> None:
        story, condition = self._story(new), new.condition(FINISHED)
        assert condition is not None
        for instruments, labels in self._instruments(story, _cluster_queue(new) or self._queue_of(story)):
            instruments.finished(*labels, story.priority_class).inc()
        if story.ended is not None:
            self.metrics.phases(FINISHED_PHASE).observe(self.seconds() - story.ended)
        self._log("workload.finished", new, cluster=new.status.cluster_name, reason=condition.reason)
        self._stories.pop(new.key, None)

    def _checks_changed(self, old: Workload, new: Workload) -> None:
        check = self.store.multikueue_check(new)
        if check is None:
            return
        was, is_ = _check(old, check.metadata.name), _check(new, check.metadata.name)
        if is_ is None or (was is not None and was.state == is_.state):
            return
        if is_.state == "Ready":
            self.metrics.won(_cluster_queue(new), new.status.cluster_name or "").inc()
        elif is_.state == "Retry":
            self.metrics.retries(new.status.cluster_name or "").inc()
            self._log("workload.retried", new, cluster=new.status.cluster_name, why=is_.message)
        elif is_.state == "Rejected":
            self._log("workload.rejected", new, why=is_.message)

    # Objects on a worker. Until all were listed once, an object that appears is not new.

    def _copy_changed(self, worker: WorkerView, old: Workload | None, new: Workload | None) -> None:
        if not (self.is_acting and worker.link.is_known):
            return
        if old is None:
            assert new is not None
            self._copied(worker, new)
        elif _is_leaving(new) and not _is_leaving(old):
            self._removed(worker, old)
        elif new is not None and _preemptor(new) != _preemptor(old):
            self._preempted(worker, _preemptor(new))
        elif new is not None and (story := self._stories.get(new.key)) is not None:
            if story.reached is Milestone.COPIED and new.has(ADMITTED):
                self._reach(story, Milestone.ADMITTED)
            if new.has(FINISHED):
                self._ended(story)

    def _copied(self, worker: WorkerView, copy: Workload) -> None:
        local = self.store.workloads.get(copy.key)
        self.metrics.dispatched(_cluster_queue(local) if local else "", worker.name).inc()
        if (story := self._stories.get(copy.key)) is not None:
            self._reach(story, Milestone.COPIED)

    def _removed(self, worker: WorkerView, copy: Workload) -> None:
        why, held = self._why_removed(worker.name, copy.key), copy.condition(QUOTA_RESERVED)
        self.metrics.copies_removed(worker.name, why).inc()
        if why in ("lost", "withdrawn") and held is not None and held.status == "True":
            self.metrics.held_by_losers(worker.name).inc(self._since(held.last_transition_time))

        victims = self._victims.pop((worker.name, copy.metadata.uid), 0)
        if why in ("lost", "withdrawn") and victims:
            self.metrics.preempted_by_losers(worker.name).inc(victims)

    # Who loses quota there to a copy of ours: other copies, and what others run there, where it is watched.

    def _other_changed(self, name: str, old: WorkloadUsage | None, new: WorkloadUsage | None) -> None:
        worker = self.store.workers.get(name)
        if worker is not None and old is not None and new is not None and _preemptor(new) != _preemptor(old):
            self._preempted(worker, _preemptor(new))

    def _preempted(self, worker: WorkerView, preemptor: str) -> None:
        if preemptor and self.is_acting and any(copy.metadata.uid == preemptor for copy in worker.workloads):
            self._victims[worker.name, preemptor] += 1

    def _why_removed(self, cluster: str, key: ObjectKey) -> str:
        local = self.store.workloads.get(key)
        if local is None:
            return "orphan"
        if local.metadata.deletion_timestamp is not None:
            return "deleted"
        if local.has(FINISHED):
            return "finished"
        winner = local.status.cluster_name or self.store.plans.choice(key, attempt_of(local))
        return "lost" if winner and winner != cluster else "withdrawn"

    def _remote_job_changed(self, worker: WorkerView, old: AnyJob | None, new: AnyJob | None) -> None:
        if new is None or not (self.is_acting and worker.link.is_known):
            return
        for key in prebuilt_key(new):
            if (story := self._stories.get(key)) is None:
                continue
            if old is None:
                self._reach(story, Milestone.JOB_CREATED)
            elif self.store.adapters.of(new).finished(new) is not None:
                self._ended(story)

    def _ended(self, story: _Story) -> None:
        """Records the end of the winner's job or of its copy, whichever is seen first."""
        if story.ended is None:
            story.ended = self.seconds()

    # Helpers.

    def _instruments(self, story: _Story, cluster_queue: str) -> tuple[tuple[QueueInstruments, tuple[str, ...]], ...]:
        found: tuple[tuple[QueueInstruments, tuple[str, ...]], ...] = ((self.metrics.queues, (cluster_queue,)),)
        if self.metrics.local_queues is not None:
            found = (*found, (self.metrics.local_queues, (story.queue.name, story.queue.namespace)))
        return found

    def _queue_of(self, story: _Story) -> str:
        local = self.store.local_queues.get(story.queue)
        return local.spec.cluster_queue if local else ""

    def _waited(self, workload: Workload) -> float:
        """Seconds since it was queued, as Kueue counts them (quota-engine 7)."""
        requeued = workload.condition(REQUEUED)
        return self._since(requeued.last_transition_time if requeued else workload.metadata.creation_timestamp)

    def _since(self, when: datetime | None) -> float:
        return max(0.0, (self.now() - when).total_seconds()) if when is not None else 0.0

    def _log(self, event: str, workload: Workload, **facts: object) -> None:
        attempt = attempt_of(workload).partition("/")[0]
        named = {"attempt": attempt} if attempt else {}  # there is none before the first dispatch
        log.info(event, workload=str(workload.key), **named, **facts)


def _true(workload: Workload) -> frozenset[str]:
    return frozenset([c.type for c in workload.status.conditions if c.status == "True"])


def _check(workload: Workload, name: str) -> AdmissionCheckState | None:
    return {check.name: check for check in workload.status.admission_checks}.get(name)


def _cluster_queue(workload: Workload) -> str:
    return workload.status.admission.cluster_queue if workload.status.admission else ""


def _underlying_cause(old: Workload, new: Workload) -> str:
    """The underlying cause of the latest eviction, whose count grew."""
    before, after = (each.status.scheduling_stats for each in (old, new))
    known = before.evictions if before else ()
    grown = (each for each in (after.evictions if after else ()) if each not in known)
    return next((each.underlying_cause for each in grown), "")


def _preemptor(victim: Workload | WorkloadUsage) -> str:
    """The UID of the workload for which this one was evicted, as Kueue's message names it; empty if for none."""
    told = find_condition(victim.status.conditions, EVICTED)
    if told is None or told.status != "True" or told.reason != PREEMPTED:
        return ""
    named = _UID.search(told.message)
    return named[1] if named else ""


def _is_leaving(item: Workload | None) -> bool:
    return item is None or item.metadata.deletion_timestamp is not None
