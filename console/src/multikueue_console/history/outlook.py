"""When will it start? The line of the queues, played forward through the manager's own quota engine with drawn run times.

A play begins with what there is: queues, what runs, and who waits. Each job ends after a run time that is drawn from those that
were seen, and the engine decides who starts next. Jobs come as they came before, from a moment on that is drawn. Many plays
give a range.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count

import msgspec
from msgspec.structs import replace

from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    REQUEUED,
    Admission,
    PodSet,
    PodSetAssignment,
    Workload,
    WorkloadSpec,
    queue_of,
    waits_for_quota,
    workload_spec,
)
from multikueue.api.meta import Condition, ConditionStatus, Object, ObjectKey, ObjectMeta, encode, with_condition
from multikueue.api.values import quantity
from multikueue.quota.engine import Engine, EngineRules
from multikueue_console.history.run_times import DrawnTimes, JobShape, RunTimes, size_class
from multikueue_console.history.story import is_gpu
from multikueue_console.model.objects import SeenObjects
from multikueue_console.model.workloads import USER_LABEL, amounts

__all__ = ["Forecast", "PlayedJob", "forecast", "jobs_of", "objects_of", "play"]

PLAYS = 40
"""Plays of one forecast."""

LOW, HIGH = 0.1, 0.9
"""The quantiles of a range: four of five starts lie within."""

HORIZON = timedelta(days=30)
"""A start that is later is not told."""


class PlayedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a play. `amounts`: what all its pods ask for, by resource, in Kueue's counting units; `flavors` the flavor by
    resource of one that runs, which has `started`; both are empty for one that waits."""

    key: ObjectKey
    queue: str
    shape: JobShape
    amounts: Mapping[str, int]
    created: datetime
    priority: int = 0
    started: datetime | None = None
    flavors: Mapping[str, str] = {}


class Forecast(msgspec.Struct, frozen=True):
    """The range in which a job starts in four of five cases, and the middle."""

    low: datetime
    middle: datetime
    high: datetime


def objects_of(seen: SeenObjects) -> list[Object]:
    """What a play needs of what a console has seen; flavors and namespaces are not among it."""
    kinds = (seen.checks, seen.cohorts, seen.cluster_queues, seen.local_queues)
    return [each for kind in kinds for each in (kind or {}).values()]


def jobs_of(seen: SeenObjects, *, is_over: bool = False) -> list[PlayedJob]:
    """The jobs that have quota or wait for it; those that are over, if `is_over`. One that waits and does not tell yet what it
    asks for is left out."""
    found = []
    for key, each in seen.workloads.items():
        has_quota = each.has(QUOTA_RESERVED) and each.status.admission is not None
        asked, created = amounts(each), each.metadata.creation_timestamp
        if created is None or not asked or each.has(FINISHED) is not is_over:
            continue
        if not (has_quota or waits_for_quota(each)):
            continue
        reserved = each.condition(QUOTA_RESERVED)
        admission = each.status.admission if has_quota else None
        queue = admission.cluster_queue if admission is not None else seen.cluster_queue_of(queue_of(each))
        gpus = sum(amount for name, amount in asked.items() if is_gpu(name))
        size = size_class(asked.get("cpu", 0) / quantity.scale("cpu"), gpus)
        shape = JobShape(queue, each.metadata.labels.get(USER_LABEL) or key.namespace, size)
        assigned = admission.pod_set_assignments if admission is not None else ()
        job = PlayedJob(
            key=key,
            queue=queue_of(each).name,
            shape=shape,
            amounts=asked,
            created=created,
            priority=workload_spec(each).priority,
            started=reserved.last_transition_time if has_quota and reserved is not None else None,
            flavors={resource: flavor for sets in assigned for resource, flavor in sets.flavors.items()},
        )
        found.append(job)
    return found


Seconds = Callable[[PlayedJob, float], float | None]
"""The run time of a job that has run for so many seconds; None if it is not known."""


def forecast(
    objects: Sequence[Object],
    jobs: Sequence[PlayedJob],
    times: RunTimes,
    now: datetime,
    luck: random.Random,
    *,
    past: Sequence[PlayedJob] = (),
    rules: EngineRules | None = None,
    plays: int = PLAYS,
) -> dict[ObjectKey, Forecast | None]:
    """When each job starts that waits; None where it is unknown: too few run times were seen in its queue or in one that it
    shares quota with, the engine would never start it, or not before the horizon in one of five plays.

    `objects` are the queues, cohorts, flavors, checks and namespaces, as the manager sees them; `past` are the jobs that were
    submitted so far, as which others will come.
    """
    waiting = {job.key for job in jobs if job.started is None}
    starts: dict[ObjectKey, list[datetime]] = {key: [] for key in waiting}
    for _ in range(plays):
        drawn = times.resampled(luck)
        to_come = _as_before(past, now, luck)
        played = _Play(objects, jobs, to_come, partial(_drawn, drawn), now, rules or EngineRules())
        for key, start in played.until(now + HORIZON, wanted=waiting).items():
            starts[key].append(start)
    return {key: _range(sorted(each), plays) for key, each in starts.items()}


def _as_before(past: Sequence[PlayedJob], now: datetime, luck: random.Random) -> list[PlayedJob]:
    """The jobs of the past once more, from a moment on that is drawn; after the last one it goes on with the first."""
    first = min((job.created for job in past), default=now)
    span = (now - first).total_seconds()
    if span <= 0:
        return []
    begin = luck.uniform(0.0, span)
    return [
        replace(
            job,
            key=ObjectKey(job.key.namespace, f"{job.key.name} again"),
            created=now + timedelta(seconds=((job.created - first).total_seconds() - begin) % span),
            started=None,
            flavors={},
        )
        for job in past
    ]


def _drawn(times: DrawnTimes, job: PlayedJob, elapsed: float) -> float | None:
    return times.draw(job.shape, elapsed=elapsed)


def _range(starts: Sequence[datetime], plays: int) -> Forecast | None:
    """Plays in which it did not start count as later than all others. One more start lies between two neighbours of so many
    with the same chance."""
    last = round(HIGH * (plays + 1)) - 1
    if last >= len(starts):
        return None
    return Forecast(starts[max(0, round(LOW * (plays + 1)) - 1)], starts[plays // 2], starts[last])


def play(
    objects: Iterable[Object],
    jobs: Iterable[PlayedJob],
    seconds: Seconds,
    now: datetime,
    *,
    rules: EngineRules | None = None,
    arrivals: Iterable[PlayedJob] = (),
    horizon: timedelta = HORIZON,
) -> dict[ObjectKey, datetime]:
    """The first start of each job that waits at `now`, and of the `arrivals`, which come when they are created. A job without
    a run time holds its quota for ever."""
    jobs, arrivals = [*jobs], [*arrivals]
    wanted = {job.key for job in (*jobs, *arrivals) if job.started is None}
    return _Play(objects, jobs, arrivals, seconds, now, rules or EngineRules()).until(now + horizon, wanted=wanted)


class _Life:
    """A job of a play, with its object as of now. `run` counts its starts, so that the end of an interrupted one is not its
    end."""

    __slots__ = ("job", "run", "seen")

    def __init__(self, job: PlayedJob) -> None:
        self.job, self.run, self.seen = job, 0, _workload(job)


class _Play:
    def __init__(
        self,
        objects: Iterable[Object],
        jobs: Iterable[PlayedJob],
        arrivals: Iterable[PlayedJob],
        seconds: Seconds,
        now: datetime,
        rules: EngineRules,
    ) -> None:
        self._engine, self._seconds, self._count = Engine(rules), seconds, count()
        self._events: list[tuple[datetime, int, _Life, int]] = []
        self._lives: dict[ObjectKey, _Life] = {}
        self._starts: dict[ObjectKey, datetime] = {}
        self._now = now
        for each in objects:
            self._engine.observe(None, each, now)
        for job in jobs:
            self._arrive(_Life(job))
        self._events += [(job.created, next(self._count), _Life(job), -1) for job in arrivals]
        heapify(self._events)

    def until(self, horizon: datetime, *, wanted: Collection[ObjectKey]) -> dict[ObjectKey, datetime]:
        """The starts of these jobs, as far as they come before the horizon."""
        left = set(wanted)
        self._look()
        while (left := left - self._starts.keys()) and (due := self._due()) is not None and due <= horizon:
            self._now = max(self._now, due)
            while self._events and self._events[0][0] <= self._now:
                _, _, life, run = heappop(self._events)
                if run < 0:
                    self._arrive(life)
                elif run == life.run:
                    self._engine.observe(life.seen, None, self._now)
            self._look()
        return {key: start for key, start in self._starts.items() if key in wanted}

    def _due(self) -> datetime | None:
        look = self._engine.scheduler.next_look(self._now)
        times = [*([self._events[0][0]] if self._events else []), *([look] if look is not None else [])]
        return min(times, default=None)

    def _arrive(self, life: _Life) -> None:
        self._lives[life.job.key] = life
        self._engine.observe(None, life.seen, self._now)
        if life.job.started is not None:
            self._run(life, life.job.started)

    def _run(self, life: _Life, started: datetime) -> None:
        life.run += 1
        elapsed = (self._now - started).total_seconds()
        seconds = self._seconds(life.job, max(0.0, elapsed))
        if seconds is not None:
            ends = max(self._now, started + timedelta(seconds=min(seconds, HORIZON.total_seconds() * 2)))
            heappush(self._events, (ends, next(self._count), life, life.run))

    def _look(self) -> None:
        while (due := self._engine.scheduler.next_look(self._now)) is not None and due <= self._now:
            done = self._engine.scheduler.cycle(self._now)
            for key in done.reserved:
                self._admit(self._lives[key])
            for key in done.evicted:
                self._evict(self._lives[key])
            if not (done.reserved or done.evicted or done.heads):
                break  # the engine waits for something that no play has, as pods that are ready

    def _admit(self, life: _Life) -> None:
        admission = self._engine.scheduler.reservation(life.seen.key)
        assert admission is not None, "it was just given"
        life.seen = _with(life.seen, (QUOTA_RESERVED, ADMITTED), self._now, admission=admission)
        self._engine.observe(None, life.seen, self._now)
        self._starts.setdefault(life.seen.key, self._now)
        self._run(life, self._now)

    def _evict(self, life: _Life) -> None:
        life.run += 1
        evicted = _with(life.seen, (EVICTED,), self._now, admission=life.seen.status.admission)
        self._engine.observe(None, evicted, self._now)
        gone = (QUOTA_RESERVED, ADMITTED)
        life.seen = _with(evicted, (REQUEUED,), self._now, admission=None, gone=gone)
        self._engine.observe(None, life.seen, self._now)


def _workload(job: PlayedJob) -> Workload:
    """The job as one pod that asks for all, which is the same to quota."""
    requests = {name: quantity.render(name, amount) for name, amount in job.amounts.items()}
    template = {"spec": {"containers": [{"name": "all", "resources": {"requests": requests}}]}}
    spec = WorkloadSpec(
        pod_sets=(PodSet(template=msgspec.Raw(encode(template))),), queue_name=job.queue, priority=job.priority
    )
    meta = ObjectMeta(name=job.key.name, namespace=job.key.namespace, uid=str(job.key), creation_timestamp=job.created)
    waiting = Workload(metadata=meta, spec=msgspec.Raw(encode(spec)))
    if job.started is None:
        return waiting
    assigned = PodSetAssignment(name="main", flavors=dict(job.flavors), resource_usage=requests, count=1)
    admission = Admission(cluster_queue=job.shape.cluster_queue, pod_set_assignments=(assigned,))
    return _with(waiting, (QUOTA_RESERVED, ADMITTED), job.started, admission=admission)


def _with(
    seen: Workload, true: Collection[str], now: datetime, *, admission: Admission | None, gone: Collection[str] = ()
) -> Workload:
    conditions = seen.status.conditions
    values: list[tuple[str, ConditionStatus]] = [
        *((name, "True") for name in true),
        *((name, "False") for name in gone),
    ]
    for type_, status in values:
        conditions = with_condition(conditions, Condition(type=type_, status=status, reason="Played", message=""), now)
    return replace(seen, status=replace(seen.status, conditions=conditions, admission=admission))
