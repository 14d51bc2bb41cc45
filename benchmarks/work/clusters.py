"""(c) Ever more workers, of which each job gets three copies: what a job costs then, and how fast a burst goes."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.bench import Load
from benchmarks.figures import at_least, at_most
from benchmarks.lines import grown
from benchmarks.sides import Ours
from benchmarks.work.core import Result, Setting, in_turn, of
from testbed.bed import Testbed

__all__ = ["measure"]

REAL, SIMULATED = (3, 10), (3, 30, 100)
"""Real control planes take 600 MiB each, and two cores serve ten of them."""

JOBS = 120
THREE_COPIES: Mapping[str, str] = {"MULTIKUEUE_DISPATCH__STRATEGY": '{"name": "incremental", "options": {"step": 3}}'}


async def measure(setting: Setting) -> Result:
    """The script has no strategy: it is no measure here."""
    result, few = Result(), (0.0, 0.0)
    load = Load(3, setting.burst(JOBS), hold=True)
    for workers in SIMULATED if setting.simulated else REAL:
        async with setting.clusters(workers) as bed:
            found = await in_turn(bed, {"ours": _of_three}, lambda _: load, setting)
        rate, cpu = found["ours"].dispatch_rate, found["ours"].cpu_ms
        few = few if few[0] else (rate, cpu)
        result.plot("rate-by-clusters", workers, **of(found, lambda each: each.dispatch_rate))
        result.plot("cpu-by-clusters", workers, **of(found, lambda each: each.cpu_ms))
        result.lines += [
            grown(f"{workers} clusters: dispatched per second", "the fewest", at_least(0.9), unit=few[0], ours=rate),
            grown(f"{workers} clusters: CPU per job, ms", "the fewest", at_most(1.3), unit=few[1], ours=cpu),
        ]
    return result


def _of_three(bed: Testbed) -> Ours:
    return Ours(bed, env=THREE_COPIES)
