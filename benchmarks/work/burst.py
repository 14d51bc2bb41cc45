"""(a) Jobs at once, over three workers: the first table of docs/figures.md, and the ratios that it is about."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.bench import Load
from benchmarks.figures import Figures, at_least, at_most
from benchmarks.lines import Line, beside, itself
from benchmarks.timeline import Distribution
from benchmarks.work.core import Result, Setting, in_turn, of

__all__ = ["lines", "load_of", "measure"]

WORKERS = 3
PEER_JOBS = 60
"""The peer dispatches about one job a second: so many show its rate, and leave time for the others."""


async def measure(setting: Setting) -> Result:
    result = Result()
    for jobs in (200, 1000) if setting.full else (setting.burst(200),):
        async with setting.clusters(setting.workers or WORKERS) as bed:
            sides = await in_turn(bed, setting.sides, lambda name, jobs=jobs: load_of(name, jobs), setting)  # type: ignore[misc]
        result.lines += lines(sides, f"{jobs} jobs at once")
    return result


def load_of(name: str, jobs: int) -> Load:
    if name != "peer":
        return Load(rested=20, burst=jobs, hold=True)
    return Load(rested=10, burst=min(jobs, PEER_JOBS), hold=True)


def lines(sides: Mapping[str, Figures], what: str) -> list[Line]:
    """What the sides are to one another, in one run."""
    rate, cpu, memory = (
        of(sides, lambda each: each.dispatch_rate),
        of(sides, lambda each: each.cpu_ms),
        of(sides, lambda each: each.memory),
    )
    start, end = of(sides, lambda each: _p50(each.start)), of(sides, lambda each: _p50(each.completion))
    script, peer = rate["script"], rate["peer"]
    most = at_least(0.95 * script / peer) if script and peer else at_least(1)
    return [
        beside(f"{what}: dispatched per second", "script", at_least(0.95), **rate),
        beside(f"{what}: dispatched per second", "peer", most, **rate),
        beside(f"{what}: CPU per job, ms", "script", at_most(1.5), **cpu),
        beside(f"{what}: CPU per job, ms", "peer", at_most(0.25), **cpu),
        beside(f"one by one, before {what}: submission to remote job, p50 ms", "script", at_most(1.05), **start),
        beside(f"one by one, before {what}: remote complete to local complete, p50 ms", "script", at_most(1.15), **end),
        beside(f"{what}: memory afterwards, MiB", "peer", at_most(1), **memory),
        itself(f"{what}: CPU from the start until ready, ms", sides["ours"].startup_cpu_ms, at_most(1200)),
        itself(f"{what}: jobs that never finished", sides["ours"].unfinished, at_most(0)),
        itself(f"{what}: share of the machine that strangers had, %", 100 * sides["ours"].others),
    ]


def _p50(found: Distribution | None) -> float | None:
    return None if found is None else 1000 * found.p50
