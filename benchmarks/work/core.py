"""What the kinds of work share: the clusters, the sides and their turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from benchmarks.bench import Load, Say, measure
from benchmarks.figures import Figures, typical
from benchmarks.lines import Line, Point
from benchmarks.sides import Ceiling, Ours, Peer, Side
from testbed.bed import Testbed
from testbed.sandbox import SandboxBed

__all__ = ["Enter", "Measure", "Result", "Setting", "few_for_the_peer", "in_turn", "of"]

PEER_JOBS = 30

Enter = Callable[[Testbed], Side]


@dataclass(frozen=True, slots=True)
class Setting:
    """`full`: all sizes, for hours; else what fits into minutes. `simulated`: on simulated clusters, where no peer runs.
    `rounds`: how often each side has its turn. `workers`, `jobs` of a burst: where a kind's own number is not wanted.
    `minutes`: how long a stream is; `pending`, `running`: workloads at a restart.
    `kueue`: a Kueue to run as the peer, in place of the testbed's."""

    say: Say
    full: bool = False
    simulated: bool = False
    peer: bool = True
    rounds: int = 2
    workers: int | None = None
    jobs: int | None = None
    minutes: float | None = None
    pending: int | None = None
    running: int | None = None
    kueue: Path | None = None

    def burst(self, usual: int) -> int:
        return self.jobs or usual

    @asynccontextmanager
    async def clusters(self, workers: int) -> AsyncIterator[Testbed]:
        self.say(f"starting {workers} workers")
        kind: type[Testbed] = SandboxBed if self.simulated else Testbed
        async with kind.start(workers=workers) as bed:
            yield bed

    @property
    def sides(self) -> Mapping[str, Enter]:
        """The sides, in the order of their turns."""
        both: dict[str, Enter] = {"ours": Ours, "script": Ceiling}
        return both | ({"peer": partial(Peer, binary=self.kueue)} if self.peer and not self.simulated else {})


@dataclass(slots=True)
class Result:
    """What a kind of work gave."""

    lines: list[Line] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)

    def plot(self, name: str, x: float, **y_of: float | None) -> None:
        """One value for each side."""
        self.points += [Point(name, side, x, y) for side, y in y_of.items() if y is not None]


class Measure(Protocol):
    def __call__(self, setting: Setting, /) -> Awaitable[Result]: ...


def few_for_the_peer(jobs: int) -> Callable[[str], Load]:
    """The loads of a burst by side: so many jobs, of which the peer, which dispatches about one a second, gets 30 at most."""
    many, few = (Load(3, number, hold=True) for number in (jobs, min(jobs, PEER_JOBS)))
    return lambda name: few if name == "peer" else many


async def in_turn(
    bed: Testbed, sides: Mapping[str, Enter], load_of: Callable[[str], Load], setting: Setting
) -> dict[str, Figures]:
    """The figures of each side: they take turns, so that what else the machine does in a minute meets all of them."""
    found: dict[str, list[Figures]] = {name: [] for name in sides}
    for number in range(setting.rounds):
        setting.say(f"round {number + 1} of {setting.rounds}")
        for name, enter in sides.items():
            found[name].append(await measure(enter(bed), load_of(name), setting.say))
    return {name: typical(figures) for name, figures in found.items()}


def of(sides: Mapping[str, Figures], figure: Callable[[Figures], float | None]) -> dict[str, float | None]:
    """One figure of each side, as the lines take them."""
    return {name: figure(sides[name]) if name in sides else None for name in ("ours", "peer", "script")}
