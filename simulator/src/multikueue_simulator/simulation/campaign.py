"""Runs many seeds in several processes, and counts the results."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.pool import Pool
from time import process_time

from multikueue_simulator.simulation.draw import drawn
from multikueue_simulator.simulation.life import live
from multikueue_simulator.simulation.recorder import Changes
from multikueue_simulator.simulation.shrink import invariant_broken_by, shrunk
from multikueue_simulator.simulation.story import story

__all__ = ["Result", "Tally", "alike", "campaign", "one", "told"]

CHUNK = 8
"""Seeds that a process gets at a time."""

LIVES_OF_A_PROCESS = 400
"""Then another one takes its place: what a life leaves behind is collected with the process."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a seed: the violated invariant and how, empty if none; the sum over its trace; its CPU seconds."""

    seed: int
    invariant: str
    violation: str
    digest: str
    phases: Changes
    seconds: float


@dataclass(slots=True)
class Tally:
    """The sum of results."""

    seeds: int = 0
    failed: list[Result] = field(default_factory=list)
    phases: Changes = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.phases += result.phases
        self.seconds += result.seconds
        if result.invariant:
            self.failed.append(result)


def campaign(seeds: Iterable[int], *, processes: int) -> Iterator[Result]:
    """The results, as they come."""
    with alike(processes, tasks=LIVES_OF_A_PROCESS // CHUNK) as pool:
        yield from pool.imap_unordered(one, seeds, chunksize=CHUNK)


@contextmanager
def alike(processes: int, *, tasks: int | None = None) -> Iterator[Pool]:
    """Processes in which a seed lives the same life each time. Each takes that many tasks; then another takes its place."""
    context = multiprocessing.get_context("spawn")
    with _fixed_hashes(), context.Pool(processes, maxtasksperchild=tasks) as pool:
        yield pool


def one(seed: int) -> Result:
    """The life of one seed, in this process."""
    began = process_time()
    outcome = live(drawn(seed))
    violation = outcome.violation
    result = Result(
        seed,
        violation.invariant if violation else "",
        str(violation or ""),
        outcome.digest,
        outcome.phases,
        process_time() - began,
    )
    gc.collect()
    gc.freeze()  # what is left stays: later collections need not look at it again
    return result


def told(seed: int, *, everything: bool) -> tuple[list[str], bool]:
    """The story of a seed, and whether it breaks an invariant; with `everything` its smallest form, event by event."""
    with alike(1) as pool:
        return pool.apply(_told, (seed, everything))


def _told(seed: int, everything: bool) -> tuple[list[str], bool]:  # as a pool calls it
    plan = drawn(seed)
    invariant = invariant_broken_by(plan)
    if invariant and everything:
        plan = shrunk(plan, lambda smaller: invariant_broken_by(smaller) == invariant)
    outcome = live(plan, tell=everything)
    return list(story(plan, outcome)), bool(invariant)


@contextmanager
def _fixed_hashes() -> Iterator[None]:
    """Processes that are begun in this block iterate over sets in the same order each time."""
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before
