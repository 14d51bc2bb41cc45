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
`multikueue.testing.check_strategy` tells whether it keeps the contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

__all__ = ["Fleet", "Nomination", "Placement", "Strategy", "Worker", "Workload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a strategy may know of the workload it places.

    Amounts in `requests` are as Kueue counts them: milli-units of cpu, whole units of all else, summed over pod sets.
    `nominated_clusters` is the present nomination, made at `nominated_at`; `failed_on` says when an earlier attempt
    ended on which cluster.
    """

    namespace: str
    name: str
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
    failed_on: Mapping[str, datetime] = field(default_factory=dict)

    def waited_less_than(self, patience: timedelta, now: datetime) -> bool:
        """Whether the present nomination is younger than `patience`; False when nothing is nominated."""
        return self.nominated_at is not None and now < self.nominated_at + patience


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker cluster of the workload's MultiKueueConfig, as seen now.

    Not `usable` means: not connected, cordoned, or unable to take this workload; `why` says which.
    """

    name: str
    usable: bool = True
    why: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One OCM Placement as its decisions say: groups of cluster names in order of preference."""

    name: str
    groups: tuple[tuple[str, ...], ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The workers a workload may use, in the order of its MultiKueueConfig, and the time."""

    workers: tuple[Worker, ...] = ()
    now: datetime
    placements: Mapping[str, Placement] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The usable workers, in order."""
        return tuple(worker.name for worker in self.workers if worker.usable)


@dataclass(frozen=True, slots=True)
class Nomination:
    """The workers that shall hold a copy now; when to ask again if nothing happens; why, for people."""

    clusters: tuple[str, ...] = ()
    revisit_after: timedelta | None = None
    reason: str = ""


@runtime_checkable
class Strategy(Protocol):
    """Says which workers shall hold a copy of a workload that has quota and no winner yet."""

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        """Answer with names of `fleet` only; the names given replace the present nomination."""
        ...
