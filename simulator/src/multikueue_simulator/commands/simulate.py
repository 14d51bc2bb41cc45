"""`multikueue simulate-faults`: runs of managers and workers with faults, on virtual time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.output import note

if TYPE_CHECKING:
    from multikueue_simulator.simulation.runs.batch import Result, Tally

__all__ = ["simulate_faults"]

PROGRESS_EVERY = 500
"""Seeds between two lines of progress."""

TOLD = 10
"""The maximum number of failed seeds that are listed."""


def simulate_faults(
    *,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run.")] = 100,
    first: Annotated[int, typer.Option("--from", min=0, help="The first of them.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Processes; 0: one for each core.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="Run this seed only, and print what happened.")] = None,
    story: Annotated[
        bool, typer.Option("--story", help="With --seed: print everything, and shrink what fails.")
    ] = False,
) -> None:
    """Search for faults of the manager in simulated runs.

    Crashes, broken networks, lost workers and users who interfere, by the thousand.
    One of seven runs has hostile tenants, hostile workers or clumsy administrators too.

    Each seed is one run, the same each time: a manager cluster, workers, jobs, and faults. The invariants are checked after
    each write; at the end all must have healed. It needs no cluster, no network and no files.

    \b
    Examples:
      multikueue simulate-faults --seeds 1000
      multikueue simulate-faults --seed 4711 --story
    """
    if story and seed is None:
        raise typer.BadParameter("--story tells of one life: say which with --seed")
    if seed is not None:
        _describe(seed, everything=story)
        return
    _live_all(range(first, first + seeds), processes=jobs or os.cpu_count() or 1)


def _live_all(seeds: range, *, processes: int) -> None:
    from multikueue_simulator.simulation.runs.batch import Tally, run_batch
    from multikueue_simulator.simulation.runs.story import phase_table

    tally = Tally()
    for result in run_batch(seeds, processes=processes):
        tally.add(result)
        _report(result, tally, of=len(seeds))
    print(f"{len(tally.phases)} changes of phase were seen:")
    for line in phase_table(tally.phases):
        print(f"  {line}")
    print(f"{tally.seeds} seeds, {len(tally.failed)} failed")
    if tally.failed:
        worst = min(tally.failed, key=lambda result: result.seed).seed
        raise CommandFailed(
            f"some seeds violate an invariant; look at one: multikueue simulate-faults --seed {worst} --story"
        )


def _report(result: Result, tally: Tally, *, of: int) -> None:
    if result.invariant and len(tally.failed) <= TOLD:
        print(f"seed {result.seed}: {result.violation}", flush=True)
    if tally.seeds % PROGRESS_EVERY == 0:
        spent = 1000 * tally.seconds / tally.seeds
        note(f"{tally.seeds} of {of} seeds, {len(tally.failed)} failed, {spent:.0f} ms of CPU each")


def _describe(seed: int, *, everything: bool) -> None:
    from multikueue_simulator.simulation.runs.batch import told

    lines, failed = told(seed, everything=everything)
    for line in lines:
        print(line)
    if failed:
        raise CommandFailed(f"seed {seed} violates an invariant")
