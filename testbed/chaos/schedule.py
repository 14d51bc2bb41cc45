"""The faults of a run, drawn from a seed: the same seed gives the same faults. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["CLUSTERS", "KUEUES", "REPLICAS", "WORKERS", "Incident", "cuts", "draw", "link"]

REPLICAS = ("replica1", "replica2", "replica3")
WORKERS = ("worker1", "worker2", "worker3")
CLUSTERS = ("manager", *WORKERS)
KUEUES = ("kueue1", "kueue2", "kueue3")

GAP_SECONDS = 5.0
"""What was faulty is whole for so long before its next fault."""

LONGEST_LAG = 0.4
"""Seconds. A slow link still counts as one over which a worker can be reached, so an answer must come within the two
seconds of a heartbeat (`Timings.heartbeat_timeout`), on a new connection, too."""

FARTHEST_CLOCK = 600.0
"""Seconds by which a replica's clock is wrong at most."""

CUTS = ("hang", "mute", "blackhole", "reset", "refuse")


@dataclass(frozen=True, slots=True)
class Incident:
    """One fault: from second `at` of the run for some seconds, `what` happens to `on`.

    `on` is a replica, a cluster (its API server), a Kueue, or a link (`replica1>worker2`). `amount` is the lag of a slow
    link in seconds, the error of a clock in seconds, or 1 where a link's connections do not survive its fault.
    """

    at: float
    seconds: float
    what: str
    on: str
    amount: float = 0.0

    @property
    def end(self) -> float:
        return self.at + self.seconds

    @property
    def subject(self) -> tuple[str, str]:
        """What can have one fault at a time: a clock, a disk, or the thing itself."""
        return self.on, self.what if self.what in ("skew", "full disk") else ""

    def __str__(self) -> str:
        amount = f" ({self.amount:+g} s)" if self.what in ("slow", "skew") else ""
        return f"{self.at:7.1f} s  for {self.seconds:5.1f} s  {self.what}{amount}: {self.on}"


def link(replica: str, cluster: str) -> str:
    return f"{replica}>{cluster}"


def cuts(incident: Incident) -> tuple[str, str] | None:
    """The way that the fault closes as (replica, cluster), where an empty word means all of them; None if it closes none."""
    if ">" in incident.on:
        replica, _, cluster = incident.on.partition(">")
        return None if incident.what == "slow" else (replica, cluster)
    if incident.what not in ("kill", "stop", "freeze") or incident.on in KUEUES:
        return None
    return (incident.on, "") if incident.on in REPLICAS else ("", incident.on)


def draw(seed: int, seconds: float, *, mean_gap: float = 6.0) -> list[Incident]:
    """The faults of a run of so many seconds, in the order in which they begin: one each `mean_gap` seconds on average.
    All end before the run does."""
    chance = random.Random(seed)
    free: dict[tuple[str, str], float] = {}
    found: list[Incident] = []
    at = 0.0
    while (at := at + chance.expovariate(1 / mean_gap)) < seconds:
        kind = chance.choices(list(KINDS), weights=list(KINDS.values()))[0]
        for incident in kind(chance, at):
            fits = incident.end < seconds and free.get(incident.subject, 0.0) <= at
            if fits:
                free[incident.subject] = incident.end + GAP_SECONDS
                found.append(incident)
    return found


def _cut_link(chance: random.Random, at: float) -> Iterator[Incident]:
    seconds = _seconds(chance, often=(1, 25), rarely=(100, 170))
    yield _cut(chance, at, seconds, chance.choice(REPLICAS), chance.choice(CLUSTERS))


def _slow_link(chance: random.Random, at: float) -> Iterator[Incident]:
    on = link(chance.choice(REPLICAS), chance.choice(CLUSTERS))
    yield Incident(at, _seconds(chance, often=(5, 60)), "slow", on, round(chance.uniform(0.02, LONGEST_LAG), 2))


def _worker_away(chance: random.Random, at: float) -> Iterator[Incident]:
    """A worker that no replica can reach, often for longer than until it is lost."""
    worker, seconds = chance.choice(WORKERS), _seconds(chance, often=(95, 170), rarely=(5, 80))
    for replica in REPLICAS:
        yield _cut(chance, at, seconds, replica, worker)


def _replica_alone(chance: random.Random, at: float) -> Iterator[Incident]:
    """A replica that reaches the manager cluster and no worker: it may lead all the same."""
    replica, seconds = chance.choice(REPLICAS), _seconds(chance, often=(5, 60), rarely=(95, 150))
    for worker in WORKERS:
        yield _cut(chance, at, seconds, replica, worker)


def _cut(chance: random.Random, at: float, seconds: float, replica: str, cluster: str) -> Incident:
    return Incident(at, seconds, chance.choice(CUTS), link(replica, cluster), float(chance.random() < 0.5))


def _process(on: Sequence[str], words: Sequence[str], often: tuple[float, float]) -> Kind:
    def one(chance: random.Random, at: float) -> Iterator[Incident]:
        yield Incident(at, _seconds(chance, often=often), chance.choice(words), chance.choice(on))

    return one


def _wrong_clock(chance: random.Random, at: float) -> Iterator[Incident]:
    error = round(chance.uniform(-FARTHEST_CLOCK, FARTHEST_CLOCK), 1)
    yield Incident(at, _seconds(chance, often=(30, 240)), "skew", chance.choice(REPLICAS), error)


def _full_disk(chance: random.Random, at: float) -> Iterator[Incident]:
    yield Incident(at, _seconds(chance, often=(5, 60)), "full disk", chance.choice(REPLICAS))


def _seconds(chance: random.Random, *, often: tuple[float, float], rarely: tuple[float, float] | None = None) -> float:
    bounds = rarely if rarely is not None and chance.random() < 0.1 else often
    return round(chance.uniform(*bounds), 1)


Kind = Callable[[random.Random, float], Iterator[Incident]]

KINDS: Mapping[Kind, int] = {
    _cut_link: 36,
    _slow_link: 12,
    _worker_away: 4,
    _replica_alone: 4,
    _process(REPLICAS, ("kill", "stop", "freeze"), (0.5, 30)): 14,
    _process(KUEUES, ("freeze", "freeze", "kill"), (2, 40)): 10,
    _process(CLUSTERS, ("freeze", "kill"), (1, 20)): 6,
    _wrong_clock: 7,
    _full_disk: 7,
}
"""How often each kind of fault is drawn, of 100."""
