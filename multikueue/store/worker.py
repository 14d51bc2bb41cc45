"""One worker cluster as last seen: its copies and jobs with our origin, and how it can be reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from multikueue.api.job import AnyJob, JobKey
from multikueue.api.kinds import Kind
from multikueue.api.meta import ObjectKey
from multikueue.api.pod import GROUP_LABEL, Pod
from multikueue.api.workload import Workload, prebuilt_workload
from multikueue.dispatch.group import Asked, Link, Reach, Unfit
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.integrations.frameworks import BATCH_ONLY, Adapters
from multikueue.store.cache import Cache
from multikueue.store.expectations import Expectations
from multikueue.store.jobs import JobCaches
from multikueue.store.sight import Sight

__all__ = ["NEVER", "Places", "WorkerAspect", "WorkerView", "prebuilt_key"]

NEVER = datetime.min.replace(tzinfo=UTC)

WorkerAspect = Literal["reach", "use", "silence", "why"]
"""What of a worker changed: its reach, what else it can be used for, whether it answers, or only the words for its trouble."""

Changed = Callable[["WorkerView", WorkerAspect], None]


def _workload_of(job: AnyJob) -> Iterable[ObjectKey]:
    """The workload whose job this is: no member of a group is, but the group."""
    return () if type(job) is Pod and GROUP_LABEL in job.metadata.labels else prebuilt_key(job)


def prebuilt_key(job: AnyJob) -> Iterable[ObjectKey]:
    """The workload a remote job belongs to."""
    name = prebuilt_workload(job.metadata)
    return (ObjectKey(job.metadata.namespace, name),) if name else ()


def _nobody(_worker: WorkerView, _aspect: WorkerAspect) -> None:
    """Nobody to tell."""


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


class WorkerView:
    """Changed by its methods only; each tells `changed` what is another now. The caches are filled by the worker's watches.

    Callers: the worker's connection (how it can be reached), and its outbox (what is expected there). The caches survive a
    lost connection: they are the last known state. `why` says in words what trouble it has, `leaving` why its name is about
    to be given to another cluster, so that it gets nothing new. `sight` is what it lets us see.
    """

    __slots__ = (
        "_changed",
        "_places",
        "expectations",
        "jobs",
        "leaving",
        "link",
        "name",
        "sight",
        "why",
        "workloads",
    )

    def __init__(
        self,
        name: str,
        changed: Changed = _nobody,
        *,
        places: Places | None = None,
        adapters: Adapters = BATCH_ONLY,
        since: datetime | None = None,
    ) -> None:
        self.name, self.why, self.leaving = name, "not connected yet", ""
        self.link = Link(Reach.SUSPECT, since, known=False)
        self.sight = Sight(since or NEVER)
        self.expectations = Expectations()
        self.workloads: Cache[Workload] = Cache(self._copy_changed)
        self.jobs = JobCaches(adapters, self._job_changed, indexes={"workload": _workload_of}, copies=True)
        self._changed, self._places = changed, places if places is not None else Places()

    # What is there.

    def job_of(self, key: ObjectKey) -> AnyJob | None:
        """Our job for the workload of that key."""
        return self.jobs.first("workload", key)

    def holds(self, key: ObjectKey) -> bool:
        """Whether anything of the workload is, or may be, there."""
        return self.workloads.get(key) is not None or self.may_run(key)

    def may_run(self, key: ObjectKey) -> bool:
        """Whether the job of the workload is there, or may be."""
        return self.job_of(key) is not None or self.expectations.asked(key) is not None

    def concerns(self, key: ObjectKey) -> bool:
        """Whether it holds, or hides, anything of the workload, or was passed over for it."""
        return self.holds(key) or self.expectations.is_passed_over(key) or key in self.workloads.unreadable

    def hides(self, key: ObjectKey, job: JobKey | None) -> bool:
        """Whether the copy or the job of a workload is there and cannot be read: nothing can be said of it."""
        return key in self.workloads.unreadable or (job is not None and self.jobs.hides(job))

    def held(self) -> set[ObjectKey]:
        """The workloads that have something there."""
        return {w.key for w in self.workloads} | {key for job in self.jobs for key in prebuilt_key(job)}

    @property
    def is_in_use(self) -> bool:
        """Whether anything of ours is, or may be, there."""
        return bool(self.held() or self.expectations)

    def is_lost(self, now: datetime, timeout: timedelta) -> bool:
        """Whether it is out of reach for so long that nothing of it counts any more."""
        return self.link.is_lost(now, timeout)

    # How it can be reached.

    def connected(self) -> bool:
        """Its watches run, and calls are answered. Answers, as all of these, whether its reach is another now."""
        self.why = ""
        return self._reached(replace(self.link, reach=Reach.CONNECTED, since=None, known=True))

    def suspected(self, since: datetime, why: str | None = None) -> bool:
        """It has trouble since then; for now nothing is shown."""
        self.why = self.why if why is None else why
        reach = Reach.SUSPECT if self.link.is_connected else self.link.reach
        return self._reached(replace(self.link, reach=reach, since=self.link.since or since))

    def isolated(self) -> bool:
        """Its trouble is shown."""
        return self._reached(replace(self.link, reach=Reach.ISOLATED))

    def disconnected(self, why: str, now: datetime) -> None:
        """It has no connection any more."""
        link, is_news = self.link, (self.why, self.leaving) != (why, "")
        self.why, self.leaving = why, ""
        since = now if link.is_connected else link.since
        if (
            not self._reached(
                replace(link, reach=Reach.ISOLATED, since=since, last_failed_probe=link.last_failed_probe or NEVER)
            )
            and is_news
        ):
            self._changed(self, "use")

    def reported(self, since: datetime | None, why: str, now: datetime, namespaces: tuple[str, ...] | None) -> None:
        """Somebody else speaks to it, and says: active, if there is no `why`; else not, `since` then. `namespaces` is what
        it offers, None if nobody can tell."""
        is_news = (why != self.why) | (namespaces is not None and self.sight.offer(namespaces, now))
        self.why = why
        lost = replace(self.link, reach=Reach.ISOLATED, since=since or self.link.since)
        found = lost if why else replace(self.link, reach=Reach.CONNECTED, since=None)
        if not self._reached(found) and is_news:
            self._changed(self, "use")

    def recorded(self, since: datetime | None) -> None:
        """An earlier process has written down since when it is away."""
        if not self.link.is_connected:
            self.link = replace(self.link, since=since)

    def troubled(self, why: str) -> None:
        """Why it is, or may soon be, away."""
        self.why = why
        self._changed(self, "why")

    def awaited(self) -> None:
        """From now on it is asked for signs of life: it is away for as long as that was in vain."""
        self.link = replace(self.link, last_failed_probe=self.link.last_failed_probe or NEVER)

    def asked_in_vain(self, until: datetime, now: datetime, timeout: timedelta) -> None:
        """So long. If that settles that it is lost, those who wait for it need not wait any longer."""
        was_lost = self.is_lost(now, timeout)
        self.link = replace(self.link, last_failed_probe=until)
        if self.is_lost(now, timeout) and not was_lost:
            self._changed(self, "use")

    def fell_silent(self) -> None:
        """It did not answer the last time it was asked."""
        self._voiced(silent=True)

    def answered(self) -> None:
        """It gave a sign of life."""
        self._voiced(silent=False)

    # What else it can be used for.

    def offers(self, namespaces: tuple[str, ...], now: datetime) -> bool:
        """It lets us see these; answers whether that is news. Then nothing is known of those that were not looked at before."""
        is_news = self.sight.offer(namespaces, now)
        if is_news:
            self.link = replace(self.link, known=False)
            self._changed(self, "why")
        return is_news

    def lacks(self, kind: Kind[Any], why: str, now: datetime, *, namespace: str = "") -> None:
        """It does not have that kind in one of its namespaces, or does not let us see it, as `why` says; empty: now it does."""
        if self.sight.note(kind, namespace, why, now):
            self._changed(self, "use")

    def leaves(self, why: str) -> None:
        """Its name is about to be given to another cluster; empty: it is not."""
        if why != self.leaving:
            self.leaving = why
            self._changed(self, "use")

    def forget(self) -> None:
        """Another cluster has the name from now on: what was seen of the one before is nothing of its."""
        self.link = replace(self.link, known=False)
        self.expectations.clear()
        self.workloads.replace(())
        self.jobs.forget()

    # What is expected there.

    def ask_for_job(self, key: ObjectKey, asked: Asked) -> None:
        """The job of a workload is asked for: from now on it may be there."""
        self._places.note(key, self.name)
        self.expectations.ask(key, asked)

    def pass_over(self, key: ObjectKey, unfit: Unfit) -> None:
        """For a while it cannot take that workload."""
        self._places.note(key, self.name)
        self.expectations.pass_over(key, unfit)

    def _reached(self, link: Link) -> bool:
        is_news, self.link = link.reach is not self.link.reach, link
        if is_news:
            self._changed(self, "reach")
        return is_news

    def _voiced(self, *, silent: bool) -> None:
        if self.link.silent is not silent:
            self.link = replace(self.link, silent=silent)
            self._changed(self, "silence")

    def _copy_changed(self, _old: Workload | None, new: Workload | None) -> None:
        if new is not None:
            self._places.note(new.key, self.name)

    def _job_changed(self, _adapter: Adapter, old: AnyJob | None, new: AnyJob | None) -> None:
        """Whatever becomes of it, it answers what was asked."""
        for key in prebuilt_key(new) if new is not None else ():
            self._places.note(key, self.name)
        seen = new if new is not None else old
        assert seen is not None
        for key in prebuilt_key(seen):
            self.expectations.answered(key)
