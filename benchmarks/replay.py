"""Kueue's published scheduler workloads, replayed through the quota engine alone, on virtual time.

The same queues, arrivals and run times (Kueue's `test/performance/scheduler`), without API servers: a reservation counts
the moment it is decided, a workload ends after its run time, and an evicted one waits again at once. The measured time is
CPU of the engine and of the objects that it observes; times to admission are those of the replay's own clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import count

import msgspec

from multikueue.api.kueue.workload import ADMITTED, EVICTED, QUOTA_RESERVED, REQUEUED, Admission, Workload
from multikueue.api.meta import Condition, ObjectKey, with_condition
from multikueue.quota.engine import Engine
from tests.builders import NOW, cluster_queue, flavor, local_queue, namespace, workload
from tests.builders.queues import limits

__all__ = ["BASELINE", "LARGE", "SIZES", "Class", "Outcome", "Scenario", "crowded", "replay"]

PREEMPTED = "Preempted"


@dataclass(frozen=True, slots=True)
class Class:
    """Equal workloads: how many arrive in each queue, one each `every_ms`, to run for `runs_ms` on `cpu`.

    `published_ms` is the mean time to admission that Kueue's own run of this scenario had.
    """

    name: str
    each: int
    every_ms: int
    runs_ms: int
    priority: int
    cpu: int
    published_ms: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """Cohorts of equal ClusterQueues, and the workloads that arrive in each queue. `goal` is in seconds of wall time."""

    name: str
    cohorts: int
    queues: int
    classes: tuple[Class, ...]
    goal: float

    @property
    def size(self) -> int:
        return self.cohorts * self.queues * sum(each.each for each in self.classes)


BASELINE = Scenario(
    "baseline",
    cohorts=5,
    queues=6,
    classes=(
        Class("small", 350, 100, 200, 50, 1, 215_468),
        Class("medium", 100, 500, 500, 100, 5, 76_768),
        Class("large", 50, 1200, 1000, 200, 20, 6_666),
    ),
    goal=10.0,
)
LARGE = Scenario(
    "large-scale",
    cohorts=10,
    queues=100,
    classes=(
        Class("small", 35, 60, 150, 50, 1, 700_379),
        Class("medium", 11, 300, 350, 100, 5, 256_413),
        Class("large", 4, 700, 700, 200, 20, 105_604),
    ),
    goal=60.0,
)


SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
"""Numbers of pending workloads, for the time per workload."""


def crowded(size: int) -> Scenario:
    """A scenario of `size` workloads that arrive together at ten queues with room for some 200 of them."""
    tenth = size // 10
    classes = (
        Class("small", tenth * 6 // 10, 0, 1000, 50, 1, 0),
        Class("medium", tenth * 3 // 10, 0, 2000, 100, 3, 0),
        Class("large", tenth // 10, 0, 4000, 200, 10, 0),
    )
    return Scenario(f"{size} at once", cohorts=1, queues=10, classes=classes, goal=0.0)


@dataclass(slots=True)
class Outcome:
    """The CPU seconds of a replay. `waited`: mean milliseconds to the last admission, by class."""

    scenario: Scenario
    seconds: float = 0.0
    cycles: int = 0
    heads: int = 0
    evictions: int = 0
    lasted: float = 0.0
    """Seconds of virtual time."""
    waited: dict[str, float] = field(default_factory=dict)

    @property
    def each(self) -> float:
        """Microseconds per workload."""
        return 1e6 * self.seconds / self.scenario.size

    @property
    def met(self) -> bool:
        """Whether the goal is met, and no class waited longer than under Kueue."""
        in_time = all(self.waited[each.name] <= each.published_ms for each in self.scenario.classes)
        return self.seconds <= self.scenario.goal and in_time


@dataclass(slots=True)
class _Life:
    """A workload in its present version, with the times of its creation and last admission."""

    of: Class
    seen: Workload
    arrived: datetime
    admitted: datetime | None = None
    runs: int = 0


def replay(scenario: Scenario) -> Outcome:
    """Play a scenario from its first arrival until every workload has run. Raises RuntimeError if some never do."""
    return _Replay(scenario).play()


class _Replay:
    """The clock, the events to come, and the engine in between."""

    def __init__(self, scenario: Scenario) -> None:
        self._outcome = Outcome(scenario)
        self._engine = _engine(scenario)
        self._lives: dict[ObjectKey, _Life] = {}
        self._count = count()
        self._events: list[tuple[datetime, int, _Life, int]] = [
            (life.arrived, next(self._count), life, 0) for life in _arrivals(scenario)
        ]
        heapify(self._events)

    def play(self) -> Outcome:
        began = time.process_time()
        now = NOW
        while (due := self._next(now)) is not None:
            now = max(now, due)
            while self._events and self._events[0][0] <= now:
                self._happen(now)
            self._look(now)
        if not all(life.admitted for life in self._lives.values()):
            raise RuntimeError("some workloads never got quota")
        self._outcome.seconds = time.process_time() - began
        self._outcome.lasted = (now - NOW).total_seconds()
        self._outcome.waited = self._waited()
        return self._outcome

    def _next(self, now: datetime) -> datetime | None:
        times = [self._events[0][0]] if self._events else []
        look = self._engine.scheduler.next_look(now)
        return min([*times, *([look] if look is not None else [])], default=None)

    def _happen(self, now: datetime) -> None:
        """A workload arrives, or has run to its end."""
        _, _, life, run = heappop(self._events)
        if run == 0:
            self._lives[life.seen.key] = life
            self._engine.observe(None, life.seen, now)
        elif run == life.runs:
            self._engine.observe(life.seen, None, now)

    def _look(self, now: datetime) -> None:
        while (due := self._engine.scheduler.next_look(now)) is not None and due <= now:
            done = self._engine.scheduler.cycle(now)
            self._outcome.cycles += 1
            self._outcome.heads += done.heads
            for key in done.reserved:
                self._admit(self._lives[key], now)
            for key in done.evicted:
                self._evict(self._lives[key], now)

    def _admit(self, life: _Life, now: datetime) -> None:
        admission = self._engine.scheduler.reservation(life.seen.key)
        assert admission is not None, "it was just given"
        life.seen = _with(life.seen, (QUOTA_RESERVED, ADMITTED), now, admission=admission)
        life.admitted = now
        life.runs += 1
        self._engine.observe(None, life.seen, now)
        ends = now + timedelta(milliseconds=life.of.runs_ms)
        heappush(self._events, (ends, next(self._count), life, life.runs))

    def _evict(self, life: _Life, now: datetime) -> None:
        self._outcome.evictions += 1
        life.runs += 1  # the end of an interrupted run does not count
        evicted = _with(life.seen, (EVICTED,), now, admission=life.seen.status.admission)
        self._engine.observe(None, evicted, now)
        life.seen = _with(evicted, (REQUEUED,), now, admission=None, gone=(QUOTA_RESERVED, ADMITTED))
        self._engine.observe(None, life.seen, now)

    def _waited(self) -> dict[str, float]:
        waits: dict[str, list[float]] = {}
        for life in self._lives.values():
            assert life.admitted is not None
            waits.setdefault(life.of.name, []).append((life.admitted - life.arrived).total_seconds())
        return {name: 1000 * sum(each) / len(each) for name, each in waits.items()}


def _with(
    seen: Workload, true: Sequence[str], now: datetime, *, admission: Admission | None, gone: Sequence[str] = ()
) -> Workload:
    conditions = seen.status.conditions
    for type_, status in (*((name, "True") for name in true), *((name, "False") for name in gone)):
        condition = Condition(type=type_, status=status, reason=PREEMPTED, message="")  # type: ignore[arg-type]
        conditions = with_condition(conditions, condition, now)
    status_ = msgspec.structs.replace(seen.status, conditions=conditions, admission=admission)
    return msgspec.structs.replace(seen, status=status_)


def _arrivals(scenario: Scenario) -> Iterator[_Life]:
    for cohort in range(scenario.cohorts):
        for queue in range(scenario.queues):
            for each in scenario.classes:
                for number in range(each.each):
                    arrived = NOW + timedelta(milliseconds=each.every_ms * (number + 1))
                    name = f"{each.name}-{cohort}-{queue}-{number}"
                    made = workload(name).queue(f"lq-{cohort}-{queue}").priority(each.priority).request(cpu=each.cpu)
                    yield _Life(each, made.created(arrived).build(), arrived)


def _engine(scenario: Scenario) -> Engine:
    engine = Engine()
    engine.observe(None, namespace("default").build(), NOW)
    engine.observe(None, flavor("default").build(), NOW)
    for cohort in range(scenario.cohorts):
        for queue in range(scenario.queues):
            name = f"{cohort}-{queue}"
            made = cluster_queue(f"cq-{name}").cohort(f"cohort-{cohort}")
            made = made.quota("default", cpu=limits(20, borrowing=100))
            made = made.preempt(reclaim_within_cohort="Any", within_cluster_queue="LowerPriority")
            engine.observe(None, made.build(), NOW)
            engine.observe(None, local_queue(f"lq-{name}", f"cq-{name}").build(), NOW)
    return engine
