"""One worker cluster as last seen: its copies and jobs with our origin, and how it can be reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from multikueue.api.foreign import asked
from multikueue.api.job import AnyJob, JobKey
from multikueue.api.meta import ObjectKey
from multikueue.api.pod import GROUP_LABEL, POD_FINALIZER, Pod, PodGroup
from multikueue.api.workload import ADMITTED, DEACTIVATION_TARGET, EVICTED, FINISHED, PREBUILT_LABEL, Workload
from multikueue.dispatch.group import Reach, is_lost
from multikueue.jobs.adapter import Adapter
from multikueue.jobs.table import BATCH_ONLY, Adapters
from multikueue.store.cache import Cache
from multikueue.store.jobs import JobCaches
from multikueue.store.sight import Sight

NEVER = datetime.min.replace(tzinfo=UTC)

CONFLICT_MEMORY = timedelta(minutes=5)
"""How long a worker is passed over for a workload after a foreign object was found in its place."""

AWAY_MEMORY = timedelta(seconds=5)
"""The same after its job could not even be asked for there, or not yet; by then it is known whether the worker is away."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The attempt whose job was asked for, and until when that may be carried out, should no answer come."""

    attempt: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a worker cannot take a workload, in words, and until when we take that to be so."""

    text: str
    until: datetime


def _workload_of(job: AnyJob) -> Iterable[ObjectKey]:
    """The workload whose job this is: no member of a group is, but the group."""
    return () if type(job) is Pod and GROUP_LABEL in job.metadata.labels else prebuilt_key(job)


def prebuilt_key(job: AnyJob) -> Iterable[ObjectKey]:
    """The workload a remote job belongs to."""
    name = job.metadata.labels.get(PREBUILT_LABEL)
    return (ObjectKey(job.metadata.namespace, name),) if name else ()


def _nothing(*_news: object) -> bool:
    return False


class Places:
    """Which workers have, or may have, something to do with a workload: found without a look at all the others.

    A worker is noted whenever something of the workload comes there, and taken off when a look finds nothing left.
    """

    def __init__(self) -> None:
        self._of: dict[ObjectKey, dict[str, None]] = {}

    def note(self, key: ObjectKey, worker: str) -> None:
        self._of.setdefault(key, {})[worker] = None

    def of(self, key: ObjectKey, concerns: Callable[[str], bool]) -> tuple[str, ...]:
        """The workers noted for it that it still concerns."""
        noted = self._of.get(key)
        if noted is None:
            return ()
        for name in [name for name in noted if not concerns(name)]:
            del noted[name]
        if not noted:
            del self._of[key]
        return tuple(noted)


@dataclass(slots=True)
class WorkerView:
    """Owner of the state: the worker's connection task (caches, reach) and its outbox (silent, asked, creating, conflicts).

    `known` turns True once all its objects were seen, and stays. `asked` holds, per workload, the job we asked for without
    having learned the outcome; `read` when the job of a workload was last asked about; `creating` the copies being made,
    which may be there before they are seen. The caches survive a lost connection: they are the last known state. `leaving`
    says, in words, why its name is about to be given to another cluster, so that it gets nothing new. `silent` turns True
    when it did not answer the last time it was asked, and ends with its next sign of life. `in_vain` is until when it was
    asked, or looked for, in vain. `sight` is what it lets us see. `settled` tells, of a copy before and after a change,
    whether that is no news. `places` notes what comes here.
    """

    name: str
    touch_workload: Callable[[ObjectKey, str, bool], None]
    touch_job: Callable[[JobKey, bool], None]
    pods_changed: Callable[[ObjectKey, str], None]
    settled: Callable[[Workload | None, Workload | None, str, bool], bool] = _nothing
    places: Places = field(default_factory=Places)
    adapters: Adapters = BATCH_ONLY
    reach: Reach = Reach.SUSPECT
    since: datetime | None = None
    in_vain: datetime | None = None
    why: str = "not connected yet"
    known: bool = False
    silent: bool = False
    leaving: str = ""
    asked: dict[ObjectKey, Asked] = field(default_factory=dict)
    read: dict[ObjectKey, datetime] = field(default_factory=dict)
    conflicts: dict[ObjectKey, Conflict] = field(default_factory=dict)
    creating: set[ObjectKey] = field(default_factory=set)
    sight: Sight = field(init=False)
    workloads: Cache[Workload] = field(init=False)
    jobs: JobCaches = field(init=False)

    def __post_init__(self) -> None:
        self.sight = Sight(self.since or NEVER)
        self.workloads = Cache(self._workload_changed)
        self.jobs = JobCaches(
            self.adapters, self._job_changed, touch=self._touch_group, indexes={"workload": _workload_of}, copies=True
        )

    def job_of(self, key: ObjectKey) -> AnyJob | None:
        """Our job for the workload of that key."""
        return self.jobs.first("workload", key)

    def ask(self, key: ObjectKey, asked_: Asked) -> None:
        """The job of a workload is asked for."""
        self.places.note(key, self.name)
        self.asked[key] = asked_

    def pass_over(self, key: ObjectKey, conflict: Conflict) -> None:
        """For a while it cannot take that workload."""
        self.places.note(key, self.name)
        self.conflicts[key] = conflict

    def concerns(self, key: ObjectKey) -> bool:
        """Whether it holds, or hides, anything of the workload, or was passed over for it."""
        return self.holds(key) or key in self.conflicts or key in self.workloads.unreadable

    def conflict(self, key: ObjectKey, now: datetime) -> Conflict | None:
        conflict = self.conflicts.get(key)
        if conflict is not None and now >= conflict.until:
            del self.conflicts[key]
            return None
        return conflict

    def lost(self, now: datetime, timeout: timedelta) -> bool:
        """Whether it is out of reach for so long that nothing of it counts any more."""
        return self.reach is not Reach.CONNECTED and is_lost(self.since, self.in_vain, now, timeout)

    def holds(self, key: ObjectKey) -> bool:
        """Whether anything of the workload is, or may be, there."""
        return self.workloads.get(key) is not None or self.job_of(key) is not None or key in self.asked

    def may_run(self, key: ObjectKey) -> bool:
        """Whether the job of the workload is there, or may be."""
        return self.job_of(key) is not None or key in self.asked

    def forget(self) -> None:
        """Another cluster has the name from now on: what was seen of the one before is nothing of its."""
        self.known = False
        self.asked.clear()
        self.read.clear()
        self.conflicts.clear()
        self.workloads.replace(())
        self.jobs.forget()

    def hides(self, key: ObjectKey, job: JobKey | None) -> bool:
        """Whether the copy or the job of a workload is there and cannot be read: nothing can be said of it."""
        return key in self.workloads.unreadable or (job is not None and self.jobs.hides(job))

    def held(self) -> set[ObjectKey]:
        """The workloads that have something there."""
        return {w.key for w in self.workloads} | {key for job in self.jobs for key in prebuilt_key(job)}

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        touched = new or old
        assert touched is not None
        if new is not None:
            self.places.note(new.key, self.name)
        if self.settled(old, new, self.name, touched.key in self.creating):
            return
        if old is None or new is None or _traits(old) != _traits(new):
            self.touch_workload(touched.key, self.name, _is_leaving(new))

    def _touch_group(self, key: JobKey) -> None:
        self.touch_job(key, False)

    def _job_changed(self, adapter: Adapter, old: AnyJob | None, new: AnyJob | None) -> None:
        touched = new or old
        assert touched is not None
        if not isinstance(touched, PodGroup):  # of a group that was told when a member changed
            self.touch_job(
                JobKey(adapter.kind.name, touched.metadata.namespace, touched.metadata.name),
                _is_idle(adapter, old, new),
            )
        for key in prebuilt_key(touched):
            if new is not None:
                self.places.note(key, self.name)
            self.asked.pop(key, None)
            if old is None or new is None or _job_traits(old) != _job_traits(new):
                self.touch_workload(key, self.name, _is_leaving(new))
            elif _has_pods(adapter, old) != _has_pods(adapter, new):
                self.pods_changed(key, self.name)


_DECISIVE = frozenset({ADMITTED, EVICTED, FINISHED, DEACTIVATION_TARGET})


def _is_leaving(item: Workload | AnyJob | None) -> bool:
    return item is None or item.metadata.deletion_timestamp is not None


def _traits(copy: Workload) -> tuple[object, ...]:
    """What a decision can depend on. A worker's Kueue writes more than that: finalizers, owners, pending messages."""
    conditions = copy.status.conditions
    states = tuple(
        (c.type, c.status, c.reason) for c in conditions if c.type in _DECISIVE or c.reason == "Inadmissible"
    )
    meta = copy.metadata
    return states, meta.deletion_timestamp is None, meta.uid, meta.annotations, bytes(copy.spec)


def _job_traits(job: AnyJob) -> tuple[object, ...]:
    meta = job.metadata
    return meta.deletion_timestamp is None, _is_kept(job), meta.uid, meta.annotations


def _has_pods(adapter: Adapter, job: AnyJob) -> bool | None:
    """The worker's words may be odd; what comes after them must be seen all the same."""
    return asked(lambda: adapter.is_active(job), otherwise=None)


def _is_idle(adapter: Adapter, old: AnyJob | None, new: AnyJob | None) -> bool:
    """Whether a job that is there neither has pods nor shows an end, and did not before."""
    return new is not None and all(_waits(adapter, job) for job in (old, new) if job is not None)


def _waits(adapter: Adapter, job: AnyJob) -> bool:
    return asked(lambda: adapter.finished(job) is None and not adapter.is_active(job), otherwise=False)


def _is_kept(job: AnyJob) -> bool:
    """Whether it is a Pod that Kueue keeps: it counts as one of its group, also while it is being deleted."""
    return type(job) is Pod and POD_FINALIZER in job.metadata.finalizers
