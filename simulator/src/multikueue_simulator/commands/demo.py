"""`multikueue demo`: jobs, workers and some faults in this process, with Python alone."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from multikueue.cli.access.connection import run_async
from multikueue.cli.terminal.exit import CommandFailed

__all__ = ["demo"]


class ActName(StrEnum):
    """The short plays, which `demo.scripts.acts` has; here for the command line alone, as that takes long to load."""

    PREEMPTION = "preemption"
    FAIR_SHARING = "fair-sharing"
    OCM = "ocm"
    ELASTIC = "elastic"


Strategy = Annotated[str, typer.Option(help="How workers are chosen; `multikueue strategies list` shows them.")]
Workers = Annotated[int, typer.Option(min=1, max=20, help="How many workers.")]
Jobs = Annotated[int, typer.Option(min=1, max=1000, help="How many jobs.")]
Speed = Annotated[float, typer.Option(min=0.1, max=10, help="Factor by which the script runs faster.")]
Seed = Annotated[int, typer.Option(help="What jobs look like; the same number, the same jobs.")]
OneAct = Annotated[
    ActName | None, typer.Option("--act", help="A short play about one thing instead of the story.", show_default=False)
]
Versus = Annotated[
    bool,
    typer.Option("--versus", help="Beside it Kueue's own manager, as it was measured, with the same jobs and faults."),
]
Record = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        writable=True,
        help="Record to this file: an animated picture if it ends in .svg, else for `asciinema play`.",
    ),
]
Web = Annotated[bool, typer.Option("--web", help="Open the console in the browser beside it (multikueue-console).")]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the clusters running at the end, for kubectl, until Ctrl-C.")]


def demo(
    strategy: Strategy = "all-at-once",
    workers: Workers = 3,
    jobs: Jobs = 90,
    speed: Speed = 1.0,
    seed: Seed = 1,
    act: OneAct = None,
    versus: Versus = False,
    record: Record = None,
    web: Web = False,
    keep: Keep = False,
) -> None:
    """Show the main job, and things that go wrong.

    One manager, workers of different size, jobs in two queues.
    A worker dies and comes back, others fill another one, the manager is killed, a burst arrives. All of it happens in this
    process: simulated clusters, and the manager as it runs in production. It ends by itself, with a summary.

    The first line is a kubeconfig with which kubectl and our own commands work on its clusters. On a terminal keys kill and
    hang workers, kill the manager, and ask why a job waits.

    \b
    Examples:
      multikueue demo --act preemption
      multikueue demo --versus --seed 4
      multikueue demo --web --keep
      multikueue demo --record demo.svg
    """
    from multikueue.settings import Log
    from multikueue.telemetry import logs
    from multikueue_simulator.demo.screen.cast import console
    from multikueue_simulator.demo.screen.film import filmed
    from multikueue_simulator.demo.stage.options import Options
    from multikueue_simulator.demo.stage.show import play

    if act is not None and versus:
        raise typer.BadParameter("give either --act or --versus: acts were not measured with the other manager")
    logs.configure(Log(level="error"))
    options = Options(
        strategy=strategy,
        workers=workers,
        jobs=jobs,
        speed=speed,
        seed=seed,
        keep=keep,
        act=act.value if act else "",
        versus=versus,
        web=web,
    )
    if record is not None and record.suffix == ".svg":
        with console(None) as screen, filmed(record) as take:
            over = run_async(lambda: play(options, screen, take))
    else:
        with console(record) as screen:
            over = run_async(lambda: play(options, screen))
    if not over:
        raise CommandFailed("not all jobs came to their end")
