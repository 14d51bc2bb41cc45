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

from multikueue_simulator.simulation.plan.draw import drawn
from multikueue_simulator.simulation.runs.life import live
from multikueue_simulator.simulation.runs.recorder import Changes
from multikueue_simulator.simulation.runs.shrink import invariant_broken_by, shrunk
from multikueue_simulator.simulation.runs.story import story

__all__ = ["Result", "Tally", "alike", "one", "run_batch", "told"]

CHUNK = 8
"""Seeds per task of a process."""

LIVES_OF_A_PROCESS = 400
"""Runs after which a process is replaced, as its end also frees what the runs left behind."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a seed: the violated invariant and its description, both empty if none; the digest of the trace;
    CPU seconds."""

    seed: int
    invariant: str
    violation: str
    digest: str
    phases: Changes
    seconds: float


@dataclass(slots=True)
class Tally:
    """The aggregate of results."""

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


def run_batch(seeds: Iterable[int], *, processes: int) -> Iterator[Result]:
    """The results, in the order of completion."""
    with alike(processes, tasks=LIVES_OF_A_PROCESS // CHUNK) as pool:
        yield from pool.imap_unordered(one, seeds, chunksize=CHUNK)


@contextmanager
def alike(processes: int, *, tasks: int | None = None) -> Iterator[Pool]:
    """Processes in which a seed always has the same run. Each is replaced after `tasks` tasks."""
    context = multiprocessing.get_context("spawn")
    with _fixed_hashes(), context.Pool(processes, maxtasksperchild=tasks) as pool:
        yield pool


def one(seed: int) -> Result:
    """Run one seed in this process."""
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
    gc.freeze()  # excludes the remaining objects from later collections
    return result


def told(seed: int, *, everything: bool) -> tuple[list[str], bool]:
    """The story of a seed, and whether it violates an invariant; with `everything` the shrunk plan, event by event."""
    with alike(1) as pool:
        return pool.apply(_told, (seed, everything))


def _told(seed: int, everything: bool) -> tuple[list[str], bool]:  # the form that a pool calls
    plan = drawn(seed)
    invariant = invariant_broken_by(plan)
    if invariant and everything:
        plan = shrunk(plan, lambda smaller: invariant_broken_by(smaller) == invariant)
    outcome = live(plan, describe=everything)
    return list(story(plan, outcome)), bool(invariant)


@contextmanager
def _fixed_hashes() -> Iterator[None]:
    """Make processes that start in this block iterate over sets in the same order each time."""
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before
