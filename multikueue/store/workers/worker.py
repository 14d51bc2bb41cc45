"""One worker cluster as last seen: its copies and jobs with our origin, and its connectivity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal, Protocol

from msgspec.structs import replace

from multikueue.api.jobs.job import AnyJob
from multikueue.api.jobs.pod import Pod, group_of
from multikueue.api.kind import Kind
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue.dispatch.remote import Asked, Link, Reach, Unfit
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.integrations.frameworks import BATCH_ONLY, Adapters
from multikueue.store.caches.cache import Cache
from multikueue.store.caches.jobs import JobCaches
from multikueue.store.workers.known_objects import Expectations, Known, KnownObjects, prebuilt_key
from multikueue.store.workers.watch_scope import WatchScope

__all__ = ["FOREVER", "NEVER", "Places", "WorkerAspect", "WorkerView"]

NEVER, FOREVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

WorkerAspect = Literal["reach", "use", "silence", "why"]
"""The aspect of a worker that changed: connectivity, other uses, whether it answers, or only its problem's text."""

Changed = Callable[["WorkerView", WorkerAspect], None]


def _workload_of(job: AnyJob) -> Iterable[ObjectKey]:
    """The workload of a job. A group of Pods has one, its members have none."""
    return () if type(job) is Pod and group_of(job.metadata) else prebuilt_key(job)


def _nobody(_worker: WorkerView, _aspect: WorkerAspect) -> None:
    """Does nothing."""


class Concerned(Protocol):
    """A worker, as `Places` asks it."""

    def is_concerned_by(self, key: ObjectKey, /) -> bool: ...


class Places:
    """Index of the workers that have, or may have, something of a workload: no scan over all workers.

    A worker is added whenever something of the workload comes there, and removed when a read finds nothing left.
    """

    def __init__(self) -> None:
        self._of: dict[ObjectKey, dict[str, None]] = {}

    def note(self, key: ObjectKey, worker: str) -> None:
        self._of.setdefault(key, {})[worker] = None

    def of(self, key: ObjectKey, workers: Mapping[str, Concerned]) -> tuple[str, ...]:
        """The noted workers that the workload still concerns.

        To ask one may rebuild a group of Pods; that change is applied then, and may note workers and ask for them.
        """
        gone = list[str]()
        for name in tuple(self._of.get(key, ())):
            if name not in workers or not workers[name].is_concerned_by(key):
                gone.append(name)
        left = self._of.get(key, {})
        for name in gone:
            left.pop(name, None)
        if not left:
            self._of.pop(key, None)
        return tuple(left)


class WorkerView:
    """Changed by its methods only; each calls `changed` with the aspect. The worker's watches fill the caches.

    Callers: the worker's connection (connectivity), and its outbox (expectations). The caches survive a lost
    connection: they are the last known state. `why` is the text of its problem. `leaving` says why its name is about to
    stand for another cluster, so that it gets nothing new. `watch_scope` says what
    can be watched there. `kueue` is the release of Kueue there, by `kube.definitions.kueue_release`; empty while it is
    not known.

    Objects there that belong to something `known` are always cached; of the others a few at a time, to be swept
    (`KnownObjects`), and without `known` all.
    """

    __slots__ = (
        "_changed",
        "_grace",
        "_is_recorded",
        "_places",
        "_reached_by_us",
        "expectations",
        "expires",
        "job_of",
        "jobs",
        "known_objects",
        "kueue",
        "leaving",
        "link",
        "name",
        "watch_scope",
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
        never_lost_before: datetime | None = None,
        known: Known | None = None,
    ) -> None:
        self.name, self.why, self.leaving = name, "not connected yet", ""
        self.expires: datetime | None = None
        self.kueue = ""
        self.link = Link(Reach.SUSPECT, since, is_known=False, never_lost_before=never_lost_before)
        self._grace, self._reached_by_us, self._is_recorded = never_lost_before, NEVER, False
        self.watch_scope = WatchScope(since or NEVER)
        self.expectations = Expectations()
        self.known_objects = KnownObjects(known, self.expectations)
        self.workloads: Cache[Workload] = Cache(self._copy_changed, unknown=self.known_objects.limit_of_copies())
        self.jobs = JobCaches(
            adapters,
            self._job_changed,
            indexes={"workload": _workload_of},
            are_copies=True,
            unknown=self.known_objects.limit_of_jobs,
        )
        self.job_of: Callable[[ObjectKey], AnyJob | None] = partial(self.jobs.first, "workload")
        """Our job there for the workload of that key."""
        self._changed, self._places = changed, places if places is not None else Places()

    # Contents.

    def may_have(self, key: ObjectKey) -> bool:
        """Whether it has, or may have, anything of the workload."""
        return self.workloads.get(key) is not None or self.may_run(key)

    def may_run(self, key: ObjectKey) -> bool:
        """Whether it has, or may have, the job of the workload."""
        return self.job_of(key) is not None or self.expectations.asked(key) is not None

    def is_concerned_by(self, key: ObjectKey) -> bool:
        """Whether it has anything of the workload, decodable or not, or was found unfit for it."""
        if self.workloads.get(key) is not None or key in self.workloads.unreadable:
            return True
        return self.may_run(key) or self.expectations.is_passed_over(key)

    def may_have_left_out(self, names: Iterable[ObjectKey]) -> bool:
        """Whether it may have a copy or job of one of these names that was not cached."""
        if not self.known_objects.room.has_left_out:
            return False
        return self.workloads.may_have_left_out(names) or self.jobs.may_have_left_out(names)

    def held(self) -> set[ObjectKey]:
        """The workloads that have a copy or a job there."""
        return {w.key for w in self.workloads} | {key for job in self.jobs for key in prebuilt_key(job)}

    @property
    def is_in_use(self) -> bool:
        """Whether it has, or may have, anything of ours."""
        return bool(self.held() or self.expectations)

    def is_lost(self, now: datetime, timeout: timedelta) -> bool:
        """Whether it is out of reach for longer than the timeout."""
        return self.link.is_lost(now, timeout)

    # Connectivity.

    def connected(self) -> bool:
        """Its watches run, and it answers requests. Returns, as `suspected` and `isolated`, whether this is a
        change."""
        self.why = ""
        never_lost_before = FOREVER if self._grace is FOREVER else None
        link = replace(self.link, reach=Reach.CONNECTED, since=None, is_known=True, never_lost_before=never_lost_before)
        return self._reached(link)

    def suspected(self, since: datetime, why: str | None = None) -> bool:
        """It has a problem since then, which is not shown to users yet."""
        self.why = self.why if why is None else why
        reach = Reach.SUSPECT if self.link.is_connected else self.link.reach
        return self._reached(replace(self.link, reach=reach, since=self.link.since or since))

    def isolated(self) -> bool:
        """Its problem is shown to users."""
        return self._reached(replace(self.link, reach=Reach.ISOLATED))

    def disconnected(self, why: str, now: datetime) -> None:
        """It has lost its connection."""
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
        """Another process has the connection, and reports it: active if `why` is empty, else inactive `since` then.
        `namespaces` are the offered ones, None if unknown."""
        is_news = (why != self.why) | (namespaces is not None and self.watch_scope.offer(namespaces, now))
        self.why = why
        lost = replace(self.link, reach=Reach.ISOLATED, since=since or self.link.since)
        found = lost if why else replace(self.link, reach=Reach.CONNECTED, since=None)
        if not self._reached(found) and is_news:
            self._changed(self, "use")

    def recorded(self, since: datetime | None) -> None:
        """The leader before this process recorded since when it is away; None: that one reached it. Only the first call
        counts since this process leads, and nothing older than what it reached itself as a standby."""
        if not (self._is_recorded or since is None or self.link.is_connected):
            since = max(since, self._reached_by_us)
            self.link = replace(self.link, since=since, never_lost_before=self._grace)
        self._is_recorded = True

    def stands_by(self) -> None:
        """This process does not act. What it cannot reach is not lost."""
        self._grace = FOREVER
        self.link = replace(self.link, never_lost_before=FOREVER)

    def leads(self, now: datetime, never_lost_before: datetime) -> None:
        """This process acts from now on. Until now another one may have reached the worker, so what is away is away
        since now, unless that one recorded more (`recorded`)."""
        link = self.link
        self._reached_by_us = link.since if link.is_known and link.since is not None else NEVER
        self._grace = never_lost_before
        is_away = not link.is_connected
        self.link = replace(
            link, since=now if is_away else None, never_lost_before=never_lost_before if is_away else None
        )
        self.watch_scope.restart(now)
        self._is_recorded = False

    def uses_credential(self, expires: datetime | None) -> None:
        """None for a credential without an end."""
        self.expires = expires

    def troubled(self, why: str) -> None:
        """Why it is away, or may be soon."""
        self.why = why
        self._changed(self, "why")

    def awaited(self) -> None:
        """Probes of it begin: its absence counts by failed probes."""
        self.link = replace(self.link, last_failed_probe=self.link.last_failed_probe or NEVER)

    def probe_failed(self, until: datetime, now: datetime, timeout: timedelta) -> None:
        """Probes have failed until then. If that makes it lost, its workloads are reconciled."""
        was_lost = self.is_lost(now, timeout)
        self.link = replace(self.link, last_failed_probe=until)
        if self.is_lost(now, timeout) and not was_lost:
            self._changed(self, "use")

    def fell_silent(self) -> None:
        """It did not answer the last request."""
        self._voiced(is_silent=True)

    def answered(self) -> None:
        """It answered."""
        self._voiced(is_silent=False)

    # Other uses.

    def offers(self, namespaces: tuple[str, ...], now: datetime) -> bool:
        """It offers these namespaces; returns whether that is new. Then namespaces not listed before are unknown."""
        is_news = self.watch_scope.offer(namespaces, now)
        if is_news:
            self.link = replace(self.link, is_known=False)
            self._changed(self, "why")
        return is_news

    def record_watch(self, kind: Kind[Any], why: str, now: datetime, *, namespace: str = "") -> None:
        """A kind cannot be watched in one of its namespaces, for the reason `why`; empty: it can."""
        if self.watch_scope.record(kind, namespace, why, now):
            self._changed(self, "use")

    def runs(self, kueue: str) -> None:
        """That release of Kueue runs there; empty: it is unknown."""
        if kueue != self.kueue:
            self.kueue = kueue
            self._changed(self, "use")

    def leaves(self, why: str) -> None:
        """Its name is about to stand for another cluster, for the reason `why`; empty: it is not."""
        if why != self.leaving:
            self.leaving = why
            self._changed(self, "use")

    def forget(self) -> None:
        """Its name stands for another cluster from now on: nothing seen before applies."""
        self.link, self.kueue = replace(self.link, is_known=False), ""
        self.expectations.clear()
        self.workloads.replace(())
        self.jobs.forget()

    # Expectations.

    def ask_for_job(self, key: ObjectKey, asked: Asked) -> None:
        """The job of a workload is requested: from now on it may exist."""
        self._places.note(key, self.name)
        self.expectations.ask(key, asked)

    def call_in(self, key: ObjectKey, now: datetime) -> None:
        """A copy or job of a new workload was left out, and is known from now on. Until the job is read live, it may
        exist, as if it had been requested and no answer had come."""
        if self.expectations.asked(key) is None:
            self.ask_for_job(key, Asked("", now))
        self.known_objects.list_anew()

    def pass_over(self, key: ObjectKey, unfit: Unfit) -> None:
        """The worker is skipped for that workload for a while."""
        self._places.note(key, self.name)
        self.expectations.pass_over(key, unfit)

    # Changes.

    def _reached(self, link: Link) -> bool:
        is_news, self.link = link.reach is not self.link.reach, link
        if is_news:
            self._changed(self, "reach")
        return is_news

    def _voiced(self, *, is_silent: bool) -> None:
        if self.link.is_silent is not is_silent:
            self.link = replace(self.link, is_silent=is_silent)
            self._changed(self, "silence")

    def _copy_changed(self, _old: Workload | None, new: Workload | None) -> None:
        if new is not None:
            self._places.note(new.key, self.name)

    def _job_changed(self, _adapter: Adapter, old: AnyJob | None, new: AnyJob | None) -> None:
        """Any change of a job answers the request for it."""
        seen = new if new is not None else old
        assert seen is not None
        for key in prebuilt_key(seen):
            if new is not None:
                self._places.note(key, self.name)
            self.expectations.answered(key)
