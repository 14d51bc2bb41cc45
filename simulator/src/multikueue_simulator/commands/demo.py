"""`multikueue demo`: jobs, workers and some faults in this process, with Python alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multikueue.cli.access.connection import run_async
from multikueue.cli.terminal.exit import CommandFailed

__all__ = ["demo"]

Strategy = Annotated[str, typer.Option(help="How workers are chosen; `multikueue strategies list` shows them.")]
Workers = Annotated[int, typer.Option(min=1, max=20, help="How many workers.")]
Jobs = Annotated[int, typer.Option(min=1, max=1000, help="How many jobs.")]
Speed = Annotated[float, typer.Option(min=0.1, max=10, help="How many times faster than in life.")]
Seed = Annotated[int, typer.Option(help="What jobs look like; the same number, the same jobs.")]
Record = Annotated[
    Path | None,
    typer.Option(dir_okay=False, writable=True, help="Record the terminal to this file, for `asciinema play`."),
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the clusters running at the end, for kubectl, until Ctrl-C.")]


def demo(
    strategy: Strategy = "all-at-once",
    workers: Workers = 3,
    jobs: Jobs = 90,
    speed: Speed = 1.0,
    seed: Seed = 1,
    record: Record = None,
    keep: Keep = False,
) -> None:
    """Show the main job, and things that go wrong.

    One manager, workers of different size, jobs in two queues.
    A worker dies and comes back, another one is filled by others, a burst arrives. All of it happens in this process:
    simulated clusters, and the manager as it runs in production. It ends by itself, with a summary.
    """
    from multikueue.settings import Log
    from multikueue.telemetry import logs
    from multikueue_simulator.demo.cast import console
    from multikueue_simulator.demo.show import Options, play

    logs.configure(Log(level="error"))
    options = Options(strategy=strategy, workers=workers, jobs=jobs, speed=speed, seed=seed, keep=keep)
    with console(record) as screen:
        over = run_async(lambda: play(options, screen))
    if not over:
        raise CommandFailed("not all jobs came to their end")
