"""The main story: a stream of jobs, a worker that dies, one that others fill, a manager that is killed, and a burst."""

from __future__ import annotations

import random
from collections.abc import Sequence

from multikueue_simulator.demo.scripts.values import (
    Die,
    Fill,
    Hang,
    KillManager,
    Play,
    Recover,
    Return,
    Script,
    ScriptedEvent,
    Submission,
)
from multikueue_simulator.world.world import Layout, Share

__all__ = ["BURST_AT", "HERO", "QUEUES", "burst", "layout", "script", "story"]

QUEUES = ("research", "nightly")

HERO = "training"
"""The job whose logs are worth following: it runs longer than the worker it begins on."""

SIZES = (("small", 4), ("medium", 8), ("large", 16))
"""Workers and their CPUs; further workers have the size of the second."""

STREAM = 30.0
"""The duration in seconds of the stream of single jobs."""

BURST_AT = 33.0
BURST_SHARE = 0.35
"""The share of jobs in the burst near the end."""


def story(*, workers: int, jobs: int, seed: int, faults: str = "all") -> Play:
    """The play with so many workers and jobs. With the faults of the `race` nothing happens that was not measured with Kueue's
    own manager, too."""
    plan = layout(workers)
    names = [share.name for share in plan.workers]
    acts = _race(names, jobs) if faults == "race" else _acts(names, jobs)
    submissions = script(jobs, seed=seed)
    hero = HERO if any(each.name == HERO for each in submissions) else ""
    title = f"{jobs} jobs in {len(QUEUES)} queues, {workers} workers"
    return Play(name="story", title=title, layout=plan, script=Script(submissions, tuple(acts), hero))


def layout(workers: int) -> Layout:
    """A world with this many workers. The two queues of the manager share the workers' CPUs two to one; one worker alone is
    the largest, so that each job fits its queue."""
    sizes = [*SIZES, *((f"worker{number}", SIZES[1][1]) for number in range(len(SIZES) + 1, workers + 1))][:workers]
    sizes = sizes if workers > 1 else [SIZES[-1]]
    total = sum(cpu for _, cpu in sizes)
    quotas = (total - total // 3, total // 3)
    return Layout(
        queues=tuple(Share(name, cpu) for name, cpu in zip(QUEUES, quotas, strict=True)),
        workers=tuple(Share(name, cpu) for name, cpu in sizes),
        pods=True,
    )


def script(jobs: int, *, seed: int) -> tuple[Submission, ...]:
    """A stream of jobs, the hero among them, and a burst near the end."""
    rng = random.Random(seed)  # noqa: S311  # not a secret
    late = _in_burst(jobs)
    alone = jobs - late - (jobs > 1)
    times = [STREAM * number / max(1, alone) for number in range(alone)] + [BURST_AT] * late
    found = [_submission(rng, number, at) for number, at in enumerate(times, 1)]
    hero = Submission(at=1.0, name=HERO, queue=QUEUES[0], cpu=4, seconds=20.0)
    return tuple(sorted([*found, *[hero] * (jobs > 1)], key=lambda each: each.at))


def burst(count: int, *, at: float, seed: int, first: int) -> tuple[Submission, ...]:
    """Jobs that come at once, numbered from `first` on."""
    rng = random.Random(seed * 1000 + first)  # noqa: S311  # not a secret
    return tuple(_submission(rng, number, at) for number in range(first, first + count))


def _in_burst(jobs: int) -> int:
    return round(jobs * BURST_SHARE)


def _submission(rng: random.Random, number: int, at: float) -> Submission:
    return Submission(
        at=at,
        name=f"job-{number:03}",
        queue=rng.choices(QUEUES, weights=(2, 1))[0],
        cpu=rng.choice((1, 1, 2, 2, 3, 4)),
        seconds=rng.uniform(1.0, 4.0),
    )


def _acts(workers: Sequence[str], jobs: int) -> list[ScriptedEvent]:
    if len(workers) < 2:
        return [_burst_act(jobs)]
    fills = workers[-2]
    return [
        _dies(),
        _returns(),
        ScriptedEvent(24.0, f"others fill {fills} with work of their own: jobs go elsewhere", Fill(fills, 12.0)),
        ScriptedEvent(
            28.0, "the manager is killed: all it knew is in the clusters; it starts again in 2 s", KillManager()
        ),
        _burst_act(jobs),
    ]


def _race(workers: Sequence[str], jobs: int) -> list[ScriptedEvent]:
    if len(workers) < 2:
        return [_burst_act(jobs)]
    dies, hangs = workers[-1], workers[0]
    return [
        _dies(dies),
        _returns(dies),
        ScriptedEvent(22.0, f"the network to {hangs} hangs: connections are open, and silent", Hang(hangs)),
        _burst_act(jobs),
        ScriptedEvent(36.0, f"the network to {hangs} is back", Recover(hangs)),
    ]


def _dies(worker: str = "") -> ScriptedEvent:
    return ScriptedEvent(
        8.0,
        "{worker} dies: API server, Kueue and nodes; in 4 s its jobs are lost",
        Die(worker),
        hint=f"multikueue logs -f {HERO}",
    )


def _returns(worker: str = "") -> ScriptedEvent:
    return ScriptedEvent(19.0, "{worker} comes back, with all it had when it died: old copies must go", Return(worker))


def _burst_act(jobs: int) -> ScriptedEvent:
    return ScriptedEvent(BURST_AT, f"a burst: {_in_burst(jobs)} jobs at once", hint="multikueue queues list")
