"""PUBLIC: the contract of a strategy, the part of the manager that says which workers see a workload, and when.

A strategy is a frozen dataclass whose fields are its options and whose docstring is its help. It has one pure method,
`nominate`: same question, same answer; no I/O, no clock (time is `fleet.now`), no memory of its own. What must survive
between two calls is in the workload: whom it nominated, since when, and where earlier attempts failed.

A complete strategy of your own, in a distribution of your own::

    from dataclasses import dataclass
    from multikueue.strategy import Fleet, Nomination, Workload

    @dataclass(frozen=True, slots=True)
    class FirstOnly:
        \"\"\"Always the first usable worker.\"\"\"

        def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
            return Nomination(fleet.names[:1])

registered as ``[project.entry-points."multikueue.strategies"]`` ``first-only = "my_package:FirstOnly"``.
`multikueue.testing.check_strategy` checks whether it keeps the contract.

The strategy `composed` is made of parts: filters, which say which workers are not for a workload, and scorers, which say
how good each of the others is. A part is a frozen dataclass as a strategy is, as pure, and registered in the same way, in
the group ``multikueue.filters`` or ``multikueue.scorers``::

    @dataclass(frozen=True, slots=True)
    class Newest:
        \"\"\"Prefers workers with a newer Kubernetes.\"\"\"

        def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
            return Score(1.0 if worker.labels.get("version") == "1.37" else 0.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

__all__ = [
    "Explaining",
    "Filter",
    "FlavorRoom",
    "Fleet",
    "Nomination",
    "Opinion",
    "Placement",
    "Room",
    "Score",
    "Scorer",
    "Spend",
    "Strategy",
    "Waits",
    "Weighted",
    "Worker",
    "Workload",
    "hourly",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """What one queue of a workload has spent, of what it may spend. Money has the unit in which prices are given.

    `spent` is the money of the last `window`, roughly: older money counts less and less, and a queue that spends at a steady
    rate has exactly what it spends in one `window`. `until` is when it will have spent less than `most`, if nothing else
    begins; None: it has by now, or it never will while what runs goes on.
    """

    queue: str
    spent: float
    most: float
    window: timedelta
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a strategy may know of the workload it places.

    `kind` is that of its job, such as `JobSet`.
    `annotations` are its own, and those of its job where it has none of that name. Amounts in `requests` are as Kueue counts
    them: milli-units of cpu, whole units of all else, summed over pod sets. `nominated_clusters` is the present nomination.
    `nominated_at` is when the newest of them was nominated, in whole seconds; it is known only while the answers ask to be
    revisited or give a reason. `told` is the reason of the present nomination; other words alone are no other question.
    `failed_on` says when an earlier attempt ended on which cluster.

    `mates` says how many others of its group are on which cluster, or nominated there: unfinished workloads of its namespace
    with the same label `multikueue.dev/group`. Only a strategy that says so gets them, or one with a part that says so:
    ``reads: ClassVar[tuple[str, ...]] = ("mates",)``. Other mates alone are no other question. `assigned` are the amounts of
    `requests` by flavor and resource, with the flavors that the manager gave it (`reads` has `flavors`). `spends` is what
    those of its queues spent that have a bound (`reads` has `spend`); other figures alone are no other question.
    """

    namespace: str
    name: str
    kind: str = ""
    queue: str = ""
    cluster_queue: str = ""
    priority: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=dict)
    created_at: datetime | None = None
    reserved_at: datetime | None = None
    nominated_clusters: tuple[str, ...] = ()
    nominated_at: datetime | None = None
    told: str = field(default="", compare=False)
    failed_on: Mapping[str, datetime] = field(default_factory=dict)
    mates: Mapping[str, int] = field(default_factory=dict, compare=False)
    assigned: Mapping[tuple[str, str], int] = field(default_factory=dict)
    spends: tuple[Spend, ...] = field(default=(), compare=False)

    def waited_less_than(self, patience: timedelta, now: datetime) -> bool:
        """Whether the present nomination is younger than `patience`; False when nothing is nominated."""
        return self.nominated_at is not None and now < self.nominated_at + patience

    def hourly(self, prices: Mapping[str, float]) -> float:
        """What an hour of it costs by `prices`, as `Worker.prices` has them. Where `assigned` is not known, flavors do not
        count."""
        return hourly(prices, self.assigned or {("", name): amount for name, amount in self.requests.items()})


def hourly(prices: Mapping[str, float], amounts: Mapping[tuple[str, str], int]) -> float:
    """What an hour of these amounts costs. They are by flavor and resource, counted as in `Workload.requests`; the price of
    `flavor/resource` goes before that of the resource, and what has none costs nothing."""
    return sum(
        amount / _UNITS.get(resource, 1.0) * prices.get(f"{flavor}/{resource}", prices.get(resource, 0.0))
        for (flavor, resource), amount in amounts.items()
    )


_UNITS = {"cpu": 1000.0, "memory": 2.0**30, "ephemeral-storage": 2.0**30}
"""How many of the amounts in which Kueue counts make the unit that has a price, where that is not one."""


Share = tuple[int, int]
"""A priority, and what workloads of that priority have together: an amount, or their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorRoom:
    """One resource of one flavor, as the workload's queue on a worker has it. Amounts are counted as in `Workload.requests`.

    `flavor` is the manager's name of it, or the worker's own if the manager has none like it. `nominal` is the quota of the
    queue, `used` what has been given out of the queue, `borrowed` the part of that beyond `nominal`, `lent` what others of its
    cohort use of `nominal`, and `most` what the queue could use if no other queue used anything.

    `free` is what it could give out now, with all that it may borrow. What was nominated there and has no quota yet counts
    as used, so `free` is below 0 where more waits than there is. `reclaimable` is what others borrow of it and would lose to
    the queue by preemption, `preemptible` what its own workloads would lose, each by priority.
    """

    flavor: str
    resource: str
    nominal: int = 0
    used: int = 0
    borrowed: int = 0
    lent: int = 0
    most: int = 0
    free: int = 0
    reclaimable: tuple[Share, ...] = ()
    preemptible: tuple[Share, ...] = ()

    def free_after_reclaim(self, priority: int) -> int:
        """What is free for a workload of that priority once others have lost what they borrow."""
        return self.free + sum(amount for other, amount in self.reclaimable if other < priority)

    def free_after_preemption(self, priority: int) -> int:
        """What is free for a workload of that priority once all have lost what they would lose to it."""
        own = sum(amount for other, amount in self.preemptible if other < priority)
        return self.free_after_reclaim(priority) + own


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a worker has for a workload, from the worker's own queues as last seen by its watches.

    `quotas` are those of the queue that the workload's LocalQueue leads to there; none: nothing is known of it. `waiting`
    says how many workloads wait in it, by priority. `doubt` is why all this may be out of date, or less than there is to
    know; empty: it is neither.
    """

    quotas: tuple[FlavorRoom, ...] = ()
    waiting: tuple[Share, ...] = ()
    doubt: str = ""

    def waiting_before(self, priority: int) -> int:
        """How many wait in that queue before a workload of that priority that comes now."""
        return sum(number for other, number in self.waiting if other >= priority)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long jobs like a workload waited for quota on a worker recently, from their copy to quota there.

    `of` says of which jobs: `its queue and size`, `its queue`, or `all there`; of the widest that enough is known of. `seen` is
    how many count; those of six hours ago count half. `steps` are shares of them, and the time within which that share had
    quota. A copy that was taken away while it waited, or still waits, is not taken for one that got it: the last share
    is below 1 then. `longest` is the longest wait seen, whatever its end; `evicted` the share that the worker
    evicted after they had quota.
    """

    of: str = ""
    seen: float = 0.0
    steps: tuple[tuple[float, timedelta], ...] = ()
    longest: timedelta = timedelta()
    evicted: float = 0.0

    def within(self, share: float) -> timedelta | None:
        """The time within which that share had quota; None if fewer ever had."""
        return next((time for reached, time in self.steps if reached >= share - 1e-9), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker cluster of the workload's MultiKueueConfig, as seen now.

    Not `usable` means: not connected, cordoned, or unable to take this workload; `why` says which. `room` is what it has for
    the workload, `waits` how long jobs like it waited there; only a strategy that says so gets them, or one with a part that
    says so: ``reads: ClassVar[tuple[str, ...]] = ("room", "waits")``. None: that is unknown. Other values of these alone are no
    reason to ask again. `kueue` is the release of Kueue there, if some strategy or part has `kueue` in its `reads`: `0.20.3`,
    the minor alone as `0.18`, or `0.19+` for that or a newer one; empty if it is not known. `prices` are those in the
    annotation `multikueue.dev/prices` of its MultiKueueCluster: money for an hour of a core of cpu, a GiB of memory or
    ephemeral storage, or one of anything else, by resource or `flavor/resource`. `scores` (`reads` has `scores`) are those of
    OCM's AddOnPlacementScores, from -100 to 100, by `object/score`; one that is absent or over is not among them.
    """

    name: str
    usable: bool = True
    why: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)
    room: Room | None = None
    waits: Waits | None = None
    scores: Mapping[str, int] = field(default_factory=dict)
    kueue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The OCM Placement named for a workload, as its decisions say now: groups of cluster names in order of preference.

    While decisions are being rewritten a cluster may be missing for a moment: `absent_since` says of each worker of the
    fleet that is in no group since when it has been seen to be in none. A worker in neither is not known of yet.
    `problem` is why the decisions are not to be followed, in words.
    """

    name: str
    groups: tuple[tuple[str, ...], ...] = ()
    absent_since: Mapping[str, datetime] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The workers a workload may use, in the order of its MultiKueueConfig, and the time.

    `placement` is the one named for the workload, None if none is; only a strategy that says so gets it:
    ``reads: ClassVar[tuple[str, ...]] = ("placementdecisions",)``. If that strategy has an option `placement`, it names
    the one for workloads that name none.
    """

    workers: tuple[Worker, ...] = ()
    now: datetime
    placement: Placement | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The usable workers, in order."""
        return tuple([worker.name for worker in self.workers if worker.usable])


@dataclass(frozen=True, slots=True)
class Nomination:
    """The workers that should hold a copy now; when to ask again if nothing happens; why, for people.

    `reason` is written into the workload whenever it changes, so it must not contain the time. With `give_back` no worker
    is nominated: the workload gives its quota back, waits for its back-off and queues again, behind which others may go.
    `yielding` are those of `clusters` whose copies wait behind all else there: with the lowest priority, until one of them has
    won, and without any preemption where workers have preemption gates.
    """

    clusters: tuple[str, ...] = ()
    revisit_after: timedelta | None = None
    reason: str = ""
    give_back: bool = False
    yielding: tuple[str, ...] = ()


@runtime_checkable
class Strategy(Protocol):
    """Says which workers should hold a copy of a workload that has quota and no winner yet."""

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        """Answer with names of `fleet`; they replace the present nomination, of which any name may stay."""
        ...


@dataclass(frozen=True, slots=True)
class Score:
    """How good a worker is for a workload, from 0 to 1. None: the scorer cannot tell, and the worker gets the middle.

    `reason` is for people, such as `tier spot`. It must not tell the time.
    """

    value: float | None
    reason: str = ""


@runtime_checkable
class Filter(Protocol):
    """Says which workers a workload must not use. Filters together only narrow: none can bring a worker back."""

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        """Why this worker of `fleet` is not for this workload, for people; empty if it may be."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """Says how good a worker is for a workload, by itself or beside the other usable workers of the fleet."""

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        """The score of that worker of `fleet`. The order of the fleet's workers changes it only if that is its purpose."""
        ...


@dataclass(frozen=True, slots=True)
class Weighted:
    """A scorer and its weight beside the others, more than 0."""

    scorer: Scorer
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.weight < float("inf"):
            raise ValueError("expected weight to be a number greater than 0")


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a strategy made of parts thinks of one worker, for people who ask why.

    `refused` is why a filter refuses the worker, `by` that filter. If none does, `scores` are those of the scorers, and `total`
    is what follows from them.
    """

    worker: str
    refused: str = ""
    by: Filter | None = None
    scores: tuple[tuple[Weighted, Score], ...] = ()
    total: float | None = None


@runtime_checkable
class Explaining(Protocol):
    """A strategy that can say what it thinks of each worker. No strategy has to: without it, people see whom it nominated."""

    def explain(self, workload: Workload, fleet: Fleet) -> tuple[Opinion, ...]:
        """For each worker of the fleet, usable or not. As pure as `nominate`."""
        ...
