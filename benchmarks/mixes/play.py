"""A fleet on virtual time, one file: a strategy nominates, workers admit by priority and time, the first wins, losers go.

The manager's ClusterQueue has as much quota as all clusters together. A copy takes a second to reach its worker, a win a second
to be seen, a removal another one: so more than one worker may admit a job, and what the losers hold meanwhile is counted. A
worker is a ClusterQueue with BestEffortFIFO that preempts lower priorities; who is preempted goes on from its last
checkpoint. Strategies see each worker as the manager shows it: its room with all that is nominated there, and learned waits.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from heapq import heapify, heappop, heappush
from itertools import count

from benchmarks.mixes.traces import Cluster, Job
from multikueue import registry
from multikueue.api.meta import ObjectKey
from multikueue.dispatch.copies.remote import LOWEST
from multikueue.quota.capacity.waits import Like, WaitTimes, size_of
from multikueue.strategy import FlavorRoom, Fleet, Nomination, Placement, Room, Strategy, Worker, Workload
from multikueue.workload.strategy_call import ROOM, WAITS
from multikueue_strategies.scorers import DATA

__all__ = ["Chooser", "Record", "Result", "World", "play"]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
STEP = 1.0
"""Seconds that a copy, a win or a removal takes."""

CHECKPOINT = 600.0
"""Seconds between two checkpoints of a job."""

GPU = "nvidia.com/gpu"
AGAIN = 10.0
"""Seconds after which a strategy that reads room and named nobody is asked again."""

WRITES_PER_COPY, WRITES_PER_JOB, WRITES_PER_NOMINATION = 2, 4, 1
"""Making and removing a copy; the job on its worker, its start, its end and the status that comes home; a nomination."""


@dataclass(slots=True)
class Record:
    """What became of a job. `started` is its last start."""

    job: Job
    cluster: str = ""
    started: float = -1.0
    ended: float = -1.0
    copies: int = 0
    starts: int = 0
    done: float = 0.0
    """Seconds up to its last checkpoint."""
    lost: float = 0.0
    """Part-seconds that it ran for nothing before it was preempted."""


@dataclass(slots=True)
class Result:
    """All that happened in one run, until all jobs were over. `demand`: part-seconds asked of each cluster."""

    clusters: tuple[Cluster, ...]
    records: list[Record]
    span: float = 0.0
    writes: int = 0
    held_by_losers: float = 0.0
    preempted: int = 0
    preempted_by_losers: int = 0
    demand: dict[str, float] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class _Copy:
    """A job's copy on a cluster: it waits, or runs since a time."""

    record: Record
    worker: _Worker
    order: tuple[int, float, int]
    since: float
    runs_since: float | None = None
    waits: bool = True
    victims: int = 0
    wins: bool = False

    @property
    def priority(self) -> int:
        return -self.order[0]

    @property
    def is_running(self) -> bool:
        return self.runs_since is not None


@dataclass(eq=False, slots=True)
class _Worker:
    """`waiting` is in its order."""

    cluster: Cluster
    free: int
    waiting: list[_Copy] = field(default_factory=list)
    running: list[_Copy] = field(default_factory=list)
    asked: int = 0
    """Parts of all that waits."""
    lower: int = 0
    """Parts of what runs without a higher priority."""
    yielding: int = 0
    """Parts of what runs and yields."""
    times: WaitTimes = field(default_factory=WaitTimes)
    is_woken: bool = False
    shown: tuple[tuple[int, int, int], Room] | None = None
    """Its room, for as long as these numbers are the same."""

    def joins(self, copy: _Copy) -> None:
        insort(self.waiting, copy, key=_order)

    def leaves(self, copy: _Copy) -> None:
        del self.waiting[bisect_left(self.waiting, copy.order, key=_order)]

    def counts(self, copy: _Copy, sign: int) -> None:
        """What begins to run, or ends."""
        self.lower += sign * copy.record.job.parts if copy.priority <= 0 else 0
        self.yielding += sign * copy.record.job.parts if copy.priority < 0 else 0

    def room(self) -> Room:
        """As the manager shows it, with all that waits counted as used."""
        now = self.free, self.asked, self.lower
        if self.shown is None or self.shown[0] != now:
            parts, free = self.cluster.parts, self.free - self.asked
            room = FlavorRoom(
                flavor="default",
                resource=GPU,
                nominal=parts,
                used=parts - free,
                most=parts,
                free=free,
                preemptible=((0, self.lower),) if self.lower else (),
            )
            self.shown = now, Room(quotas=(room,))
        return self.shown[1]


def _order(copy: _Copy) -> tuple[int, float, int]:
    return copy.order


@dataclass(eq=False, slots=True)
class _Attempt:
    """A job with quota that waits for a worker."""

    record: Record
    workload: Workload
    copies: dict[str, _Copy] = field(default_factory=dict)
    version: int = 0
    shown: tuple[Worker, ...] = ()
    """What the strategy saw when it answered that nobody is to have it, and that time alone changes nothing."""


Chooser = Strategy | Callable[["World", Job], Nomination]
"""A strategy, or somebody who sees all: the bound."""


class World:
    """One run. Events are calls at a time, in the order in which they were made."""

    def __init__(self, clusters: Sequence[Cluster], chooser: Chooser) -> None:
        self.workers = {each.name: _Worker(each, each.parts) for each in clusters}
        self._nomination: Callable[[_Attempt], Nomination] = (
            partial(self._nominated_by, chooser)
            if isinstance(chooser, Strategy)
            else lambda attempt: chooser(self, attempt.record.job)
        )
        self.now, self.result = 0.0, Result(tuple(clusters), [])
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers, self._quota = count(), sum(each.parts for each in clusters)
        self._queue: list[tuple[tuple[int, float, int], Record]] = []
        self._attempts: dict[str, _Attempt] = {}
        self._reads = registry.reads(chooser) if isinstance(chooser, Strategy) else frozenset[str]()
        self._seen_last: dict[tuple[bool, ...], tuple[Worker, ...]] = {}
        self._placement = Placement(name="order", groups=tuple((each.name,) for each in clusters))

    def play(self, jobs: Sequence[Job]) -> Result:
        self.result.span = max((job.at for job in jobs), default=0.0)
        for job in jobs:
            self._at(job.at, lambda job=job: self._submit(job))  # type: ignore[misc]
        while self._events:
            self.now, _, happen = heappop(self._events)
            happen()
        return self.result

    def _at(self, when: float, happen: Callable[[], None]) -> None:
        heappush(self._events, (when, next(self._numbers), happen))

    # At home.

    def _submit(self, job: Job) -> None:
        record = Record(job)
        self.result.records.append(record)
        if job.local:
            self._arrive(record, self.workers[job.local])
        else:
            self._queue_up(record)

    def _queue_up(self, record: Record) -> None:
        heappush(self._queue, ((-record.job.priority, record.job.at, next(self._numbers)), record))
        self._at(self.now, self._admit)

    def _admit(self) -> None:
        """Who fits gets quota, in order; who does not holds nobody up."""
        left = []
        while self._queue and self._quota > 0:
            order, record = heappop(self._queue)
            if record.job.parts > self._quota:
                left.append((order, record))
                continue
            self._quota -= record.job.parts
            attempt = _Attempt(record, _workload(record.job, self._time()))
            self._attempts[record.job.name] = attempt
            self._ask(attempt)
        for each in left:
            heappush(self._queue, each)

    def _ask(self, attempt: _Attempt) -> None:
        """The strategy, now: copies go where it says, and from where it does not."""
        attempt.version += 1
        nomination = self._nomination(attempt)
        before, named = attempt.workload.nominated_clusters, nomination.clusters
        if named != before:
            self.result.writes += WRITES_PER_NOMINATION
            since = self._time() if set(named) - set(before) else attempt.workload.nominated_at
            attempt.workload = replace(
                attempt.workload, nominated_clusters=named, nominated_at=since if named else None
            )
        for name in set(before) - set(named):
            self._remove(attempt.copies.pop(name))
        for name in [name for name in named if name not in attempt.copies]:
            attempt.copies[name] = self._arrive(attempt.record, self.workers[name], STEP)
        for name, copy in attempt.copies.items():
            self._rank(copy, LOWEST if name in nomination.yielding else attempt.record.job.priority)
        after = nomination.revisit_after
        again = after.total_seconds() if after is not None else None if named else AGAIN
        if again is not None:
            version = attempt.version
            self._at(self.now + again, lambda: self._ask_again(attempt, version))

    def _ask_again(self, attempt: _Attempt, version: int) -> None:
        if attempt.version == version and self._attempts.get(attempt.record.job.name) is attempt:
            self._ask(attempt)

    def _nominated_by(self, strategy: Strategy, attempt: _Attempt) -> Nomination:
        shown = self._shown(attempt.record.job)
        if shown is attempt.shown:
            return Nomination()
        made = strategy.nominate(attempt.workload, Fleet(workers=shown, now=self._time(), placement=self._placement))
        is_nobody = not (made.clusters or attempt.workload.nominated_clusters or made.revisit_after)
        attempt.shown = shown if is_nobody else ()
        return made

    # On a worker.

    def _arrive(self, record: Record, worker: _Worker, after: float = 0.0) -> _Copy:
        job = record.job
        record.copies += 1
        self.result.writes += 0 if job.local else WRITES_PER_COPY
        copy = _Copy(record, worker, (-job.priority, self.now, next(self._numbers)), self.now + after)
        worker.joins(copy)
        worker.asked += job.parts
        if WAITS in self._reads:
            worker.times.begins(_key(job), _like(job.parts), self._time())
        self._at(self.now + after, lambda: self._schedule(worker))
        return copy

    def _rank(self, copy: _Copy, priority: int) -> None:
        if copy.priority == priority:
            return
        worker, order = copy.worker, (-priority, *copy.order[1:])
        if copy.waits:
            worker.leaves(copy)
            copy.order = order
            worker.joins(copy)
            self._wake(worker)
        else:
            worker.counts(copy, -1)
            copy.order = order
            worker.counts(copy, 1)

    def _wake(self, worker: _Worker) -> None:
        """It looks at its queue once what happens now is done."""
        if not worker.is_woken:
            worker.is_woken = True
            self._at(self.now, lambda: self._schedule(worker))

    def _schedule(self, worker: _Worker) -> None:
        worker.is_woken = False
        for copy in list(worker.waiting):
            if copy.since > self.now or not copy.waits:
                continue
            need = copy.record.job.parts
            if need > worker.free and (copy.priority > 0 or (copy.priority == 0 and worker.yielding)):
                self._preempt(worker, copy)
            if need <= worker.free:
                self._start(worker, copy)
            if worker.free <= 0 and not worker.yielding and not (worker.waiting and worker.waiting[0].priority > 0):
                break

    def _preempt(self, worker: _Worker, copy: _Copy) -> None:
        """Lower priorities make room, the youngest first, if that is enough."""
        job, victims, room = copy.record.job, list[_Copy](), worker.free
        if room + (worker.lower if copy.priority > 0 else worker.yielding) < job.parts:
            return
        for other in sorted(worker.running, key=lambda each: -(each.runs_since or 0.0)):
            if room < job.parts and other.priority < copy.priority:
                victims.append(other)
                room += other.record.job.parts
        for victim in victims:
            self.result.preempted += 1
            self._lose(victim)
        copy.victims = len(victims)

    def _lose(self, copy: _Copy) -> None:
        """It was preempted: a local one waits again, one of ours goes home."""
        record = copy.record
        assert copy.runs_since is not None
        ran = self.now - copy.runs_since if copy.wins else 0.0
        record.done += ran - ran % CHECKPOINT
        record.lost += ran % CHECKPOINT * record.job.parts
        self._stop(copy)
        if WAITS in self._reads:
            copy.worker.times.loses(_key(record.job), self._time())
        self._gone(copy)
        if record.job.local:
            self._arrive(record, copy.worker)
            return
        attempt = self._attempts.get(record.job.name)
        is_tried = attempt is not None and attempt.copies.get(copy.worker.cluster.name) is copy
        if not copy.wins and not is_tried:  # it had lost, and was about to go
            return
        if attempt is not None:  # it was admitted a moment ago, and not seen yet
            del self._attempts[record.job.name]
            for other in attempt.copies.values():
                if other is not copy:
                    self._remove(other)
        self._quota += record.job.parts
        self._queue_up(record)

    def _start(self, worker: _Worker, copy: _Copy) -> None:
        job = copy.record.job
        worker.leaves(copy)
        copy.waits = False
        worker.asked -= job.parts
        worker.free -= job.parts
        worker.counts(copy, 1)
        worker.running.append(copy)
        copy.runs_since = self.now
        if WAITS in self._reads:
            worker.times.gets(_key(job), _like(job.parts), timedelta(seconds=self.now - copy.since), self._time())
        if job.local:
            self._run(copy)
        else:
            self._at(self.now + STEP, lambda: self._seen(copy))

    def _seen(self, copy: _Copy) -> None:
        """The manager sees that a worker has admitted a copy: the first wins."""
        attempt = self._attempts.get(copy.record.job.name)
        if attempt is None or not copy.is_running or attempt.copies.get(copy.worker.cluster.name) is not copy:
            return
        del self._attempts[copy.record.job.name]
        self.result.writes += WRITES_PER_JOB
        for other in attempt.copies.values():
            if other is not copy:
                self._at(self.now + STEP, lambda other=other: self._remove(other))  # type: ignore[misc]
        self._run(copy)

    def _run(self, copy: _Copy) -> None:
        record, copy.wins = copy.record, True
        self._rank(copy, record.job.priority)
        record.cluster, record.started, record.starts = copy.worker.cluster.name, self.now, record.starts + 1
        self._at(self.now + record.job.seconds - record.done, lambda: self._end(copy))

    def _end(self, copy: _Copy) -> None:
        if not copy.is_running:
            return
        self._stop(copy)
        copy.record.ended = self.now
        self._gone(copy)
        if not copy.record.job.local:
            self._quota += copy.record.job.parts
            self._at(self.now, self._admit)
        self._wake(copy.worker)

    def _stop(self, copy: _Copy) -> None:
        worker, parts = copy.worker, copy.record.job.parts
        worker.running.remove(copy)
        worker.free += parts
        worker.counts(copy, -1)
        name, span = worker.cluster.name, self.result.span
        asked = parts * (min(self.now, span) - min(copy.since, span))
        self.result.demand[name] = self.result.demand.get(name, 0.0) + asked
        copy.runs_since = None

    def _remove(self, copy: _Copy) -> None:
        """A copy that has lost, or is nominated no more."""
        worker, job = copy.worker, copy.record.job
        self.result.writes += 1
        if copy.runs_since is not None:
            self.result.held_by_losers += job.parts * (self.now - copy.runs_since)
            self.result.preempted_by_losers += copy.victims
            self._stop(copy)
        elif copy.waits:
            worker.leaves(copy)
            copy.waits = False
            worker.asked -= job.parts
        self._gone(copy)
        self._wake(worker)

    def _gone(self, copy: _Copy) -> None:
        if WAITS in self._reads:
            copy.worker.times.goes(_key(copy.record.job), self._time())

    def starts(self, job: Job) -> Iterator[tuple[float, str]]:
        """When it would start on each worker that can hold it, if nobody came after it and run times were known."""
        for name, worker in self.workers.items():
            if job.gpu in ("", worker.cluster.gpu) and job.parts <= worker.cluster.parts:
                yield _start_of(worker, job, self.now), name

    # What a strategy sees.

    def _time(self) -> datetime:
        return EPOCH + timedelta(seconds=self.now)

    def _shown(self, job: Job) -> tuple[Worker, ...]:
        """With what the strategy reads, and nothing else, as the manager shows them; the same value while nothing changes."""
        can = tuple(
            [job.gpu in ("", each.cluster.gpu) and job.parts <= each.cluster.parts for each in self.workers.values()]
        )
        like, now, before = _like(job.parts), self._time(), self._seen_last.get(can, ())
        has_room, has_waits = ROOM in self._reads, WAITS in self._reads
        workers = self.workers.values()
        rooms = [each.room() for each in workers] if has_room else [None] * len(can)
        waits = [each.times.waits(like, now) for each in workers] if has_waits else [None] * len(can)
        if before and all(
            worker.room is room and worker.waits is wait
            for worker, room, wait in zip(before, rooms, waits, strict=True)
        ):
            return before
        whys = ["" if able else "it can never hold it" for able in can]
        parts = zip(self.workers, can, whys, rooms, waits, strict=True)
        found = tuple([Worker(name=n, usable=u, why=y, room=r, waits=w) for n, u, y, r, w in parts])
        self._seen_last[can] = found
        return found


def play(clusters: Sequence[Cluster], jobs: Sequence[Job], chooser: Chooser) -> Result:
    return World(clusters, chooser).play(jobs)


def _start_of(worker: _Worker, job: Job, now: float) -> float:
    """After those that wait before it, in their order, as workers end."""
    ends = [
        ((copy.runs_since or now) + copy.record.job.seconds - copy.record.done, copy.record.job.parts)
        for copy in worker.running
    ]
    free, at = worker.free, now
    heapify(ends)
    before = [copy.record.job for copy in worker.waiting if copy.record.job.priority >= job.priority]
    for each in (*before, job):
        while free < each.parts and ends:
            end, parts = heappop(ends)
            at, free = max(at, end), free + parts
        free -= each.parts
        heappush(ends, (at + each.seconds, each.parts))
    return at


def _key(job: Job) -> ObjectKey:
    return ObjectKey("mix", job.name)


@cache
def _like(parts: int) -> Like:
    return Like(ObjectKey("mix", "queue"), size_of({GPU: parts}))


def _workload(job: Job, now: datetime) -> Workload:
    data = {DATA: f"{job.data[0]}={job.data[1]:.3f}G"} if job.data is not None else {}
    return Workload(
        namespace="mix",
        name=job.name,
        queue="queue",
        priority=job.priority,
        annotations=data,
        requests={GPU: job.parts},
        created_at=EPOCH + timedelta(seconds=job.at),
        reserved_at=now,
    )
