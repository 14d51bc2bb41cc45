"""The events of the demo and their times: jobs, and acts with a fault. Pure: values, drawn from a seed.

All times are seconds since the start, at speed 1.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from multikueue_simulator.world import Layout, Share

__all__ = ["QUEUES", "Script", "ScriptedEvent", "Submission", "layout", "script"]

QUEUES = ("research", "nightly")

SIZES = (("small", 4), ("medium", 8), ("large", 16))
"""Workers and their CPUs; further workers have the size of the second."""

STREAM = 30.0
"""The duration in seconds of the stream of single jobs."""

BURST_AT = 33.0
BURST_SHARE = 0.35
"""The share of jobs in the burst near the end."""

Deed = Literal["die", "return", "fill"]


@dataclass(frozen=True, slots=True)
class Submission:
    """A job: time and queue of its submission, its CPUs, and its duration in seconds."""

    at: float
    name: str
    queue: str
    cpu: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ScriptedEvent:
    """An act on a worker, and its announcement. `seconds` is how long jobs of others fill the worker."""

    at: float
    deed: Deed
    worker: str
    text: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Script:
    submissions: tuple[Submission, ...]
    acts: tuple[ScriptedEvent, ...]
    burst: int
    """The number of submissions in the burst."""


def layout(workers: int) -> Layout:
    """A world with this many workers. The two queues of the manager share the workers' CPUs two to one."""
    sizes = [*SIZES, *((f"worker{number}", SIZES[1][1]) for number in range(len(SIZES) + 1, workers + 1))][:workers]
    total = sum(cpu for _, cpu in sizes)
    quotas = (total - total // 3, total // 3)
    return Layout(
        queues=tuple(Share(name, cpu) for name, cpu in zip(QUEUES, quotas, strict=True)),
        workers=tuple(Share(name, cpu) for name, cpu in sizes),
    )


def script(jobs: int, workers: Sequence[str], *, seed: int) -> Script:
    """A stream of jobs and a burst near the end. In between the last worker dies and returns, and jobs of others fill
    the one before it."""
    rng = random.Random(seed)  # noqa: S311  # not a secret
    burst = round(jobs * BURST_SHARE)
    alone = jobs - burst
    times = [STREAM * number / max(1, alone) for number in range(alone)] + [BURST_AT] * burst
    submissions = tuple(_submission(rng, number, at) for number, at in enumerate(times, 1))
    return Script(submissions, tuple(_acts(workers)), burst)


def _submission(rng: random.Random, number: int, at: float) -> Submission:
    return Submission(
        at=at,
        name=f"job-{number:03}",
        queue=rng.choices(QUEUES, weights=(2, 1))[0],
        cpu=rng.choice((1, 1, 2, 2, 3, 4)),
        seconds=rng.uniform(1.0, 4.0),
    )


def _acts(workers: Sequence[str]) -> list[ScriptedEvent]:
    if len(workers) < 2:
        return []
    dies, fills = workers[-1], workers[-2]
    return [
        ScriptedEvent(8.0, "die", dies, f"{dies} dies: API server, Kueue and nodes"),
        ScriptedEvent(19.0, "return", dies, f"{dies} comes back, with what it had when it died"),
        ScriptedEvent(24.0, "fill", fills, f"others fill {fills} up with work of their own", seconds=12.0),
    ]
