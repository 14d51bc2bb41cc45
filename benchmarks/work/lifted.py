"""(j) Jobs at once beside the peer with its limits lifted (`sides.LIFTED`), so that nothing else holds it back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.bench import Load
from benchmarks.figures import Figures, at_least
from benchmarks.lines import Line, beside, itself
from benchmarks.sides import Lifted
from benchmarks.work.core import Enter, Result, Setting, in_turn, of

__all__ = ["lines", "measure"]

WORKERS = 3
JOBS, MORE_JOBS = 60, 200
RESTED = 5


async def measure(setting: Setting) -> Result:
    """All sides get as many jobs. On simulated clusters no Kueue runs, nor where the peer is not wanted."""
    sides: dict[str, Enter] = dict(setting.sides)
    if "peer" in sides:
        sides["peer"] = partial(Lifted, binary=setting.kueue)
    jobs = setting.burst(MORE_JOBS if setting.full else JOBS)
    async with setting.clusters(setting.workers or WORKERS) as bed:
        found = await in_turn(bed, sides, lambda _: Load(RESTED, jobs, hold=True), setting)
    return Result(lines(found, f"{jobs} jobs at once, the peer without limits"))


def lines(sides: Mapping[str, Figures], what: str) -> list[Line]:
    rate, cpu = of(sides, lambda each: each.dispatch_rate), of(sides, lambda each: each.cpu_ms)
    return [
        beside(f"{what}: dispatched per second", "peer", at_least(2), **rate),
        beside(f"{what}: CPU per job, ms", "peer", None, **cpu),
        itself(f"{what}: jobs that never finished", sides["ours"].unfinished),
    ]
