"""(c) Ever more workers, of which each job gets three copies: what a job costs then, and how fast a burst goes.

Where there are more than real control planes fit, three are real, and all others have nothing to do but to be connected: a
MultiKueueConfig names twenty workers at most, so those of a large fleet are in queues of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.bench import Load
from benchmarks.figures import at_least, at_most
from benchmarks.fleet.idle_workers import Servers, idle_servers, make_known
from benchmarks.lines import grown
from benchmarks.sides import Ours
from benchmarks.work.core import Enter, Result, Setting, in_turn, of
from testbed.bed import Testbed

__all__ = ["measure"]

REAL, SIMULATED = (3, 10), (3, 30, 100)
"""Real control planes take 600 MiB each, and two cores serve ten of them."""

FEW, AMONG = 3, {True: (100, 300, 1000), False: (100,)}
"""Workers that are real, and how many there are together."""

JOBS = 120
THREE_COPIES: Mapping[str, str] = {"MULTIKUEUE_DISPATCH__STRATEGY": '{"name": "incremental", "options": {"step": 3}}'}


async def measure(setting: Setting) -> Result:
    """The script has no strategy: it is no measure here."""
    result, few = Result(), (0.0, 0.0)
    for workers in SIMULATED if setting.simulated else REAL:
        async with setting.clusters(workers) as bed:
            few = await _add(result, few, f"{workers} clusters", workers, bed, _of_three, setting)
    async with setting.clusters(FEW) as bed, idle_servers(bed) as servers:
        for workers in AMONG[setting.full]:
            enter = partial(Among, servers=servers, idle=workers - FEW)
            await _add(result, few, f"{workers} clusters, {FEW} of them busy", workers, bed, enter, setting)
    return result


async def _add(
    result: Result, few: tuple[float, float], what: str, workers: int, bed: Testbed, enter: Enter, setting: Setting
) -> tuple[float, float]:
    """Measures so many workers, beside `few`: jobs per second and CPU per job of the fewest, which are themselves without
    others. Returns those."""
    load = Load(3, setting.burst(JOBS), hold=True)
    found = await in_turn(bed, {"ours": enter}, lambda _: load, setting)
    rate, cpu = found["ours"].dispatch_rate, found["ours"].cpu_ms
    few = few if few[0] else (rate, cpu)
    result.plot("rate-by-clusters", workers, **of(found, lambda each: each.dispatch_rate))
    result.plot("cpu-by-clusters", workers, **of(found, lambda each: each.cpu_ms))
    result.lines += [
        grown(f"{what}: dispatched per second", "the fewest", at_least(0.9), unit=few[0], ours=rate),
        grown(f"{what}: CPU per job, ms", "the fewest", at_most(1.3), unit=few[1], ours=cpu),
    ]
    return few


class Among(Ours):
    """Ours with three copies for each job, among many workers that have none."""

    def __init__(self, bed: Testbed, *, servers: Servers, idle: int) -> None:
        super().__init__(bed, env=THREE_COPIES)
        self._servers, self._idle = servers, idle

    async def start(self) -> None:
        await make_known(self.bed, self._servers, self._idle, namespace=f"{self.namespace}-idle")
        await super().start()


def _of_three(bed: Testbed) -> Ours:
    return Ours(bed, env=THREE_COPIES)
