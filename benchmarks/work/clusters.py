"""(c) Ever more workers, of which each job gets three copies: what a job costs then, and how fast a burst goes.

Where there are more than real control planes fit, three are real, and all others have nothing to do but to be connected: a
MultiKueueConfig names twenty workers at most, so those of a large fleet are in queues of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import anyio

from benchmarks.bench import Load
from benchmarks.figures import Figures, at_least, at_most
from benchmarks.fleet.idle_workers import Servers, idle_servers, make_known
from benchmarks.fleet.rest import QUIET_SECONDS
from benchmarks.lines import grown
from benchmarks.sides import Ours
from benchmarks.work.core import Enter, Result, Setting, in_turn
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
    result, played = Result(), await _play(setting)
    _, _, few = played[0]
    for what, workers, ours in played:
        rate, cpu = ours.dispatch_rate, ours.cpu_ms
        result.plot("rate-by-clusters", workers, ours=rate)
        result.plot("cpu-by-clusters", workers, ours=cpu)
        result.lines += [
            grown(f"{what}: dispatched per second", "the fewest", at_least(0.9), unit=few.dispatch_rate, ours=rate),
            grown(f"{what}: CPU per job, ms", "the fewest", at_most(1.3), unit=few.cpu_ms, ours=cpu),
        ]
    return result


async def _play(setting: Setting) -> list[tuple[str, int, Figures]]:
    """What was played, with how many workers, and what ours made of it; the fewest first."""
    played = []
    for workers in SIMULATED if setting.simulated else REAL:
        async with setting.clusters(workers) as bed:
            played.append((f"{workers} clusters", workers, await _burst(bed, _of_three, setting)))
    async with setting.clusters(FEW) as bed, idle_servers(bed) as servers:
        for workers in AMONG[setting.full]:
            enter = partial(Among, servers=servers, idle=workers - FEW)
            found = await _burst(bed, enter, setting)
            played.append((f"{workers} clusters, {FEW} of them busy", workers, found))
    return played


async def _burst(bed: Testbed, enter: Enter, setting: Setting) -> Figures:
    load = Load(3, setting.burst(JOBS), hold=True)
    return (await in_turn(bed, {"ours": enter}, lambda _: load, setting))["ours"]


class Among(Ours):
    """Ours with three copies for each job, among many workers that have none, and to all of which it is connected in full:
    the first heartbeat to a worker opens the connection for calls."""

    def __init__(self, bed: Testbed, *, servers: Servers, idle: int) -> None:
        super().__init__(bed, env=THREE_COPIES)
        self._servers, self._idle = servers, idle

    async def start(self) -> None:
        await make_known(self.bed, self._servers, self._idle, namespace=f"{self.namespace}-idle")
        await super().start()
        await anyio.sleep(QUIET_SECONDS)


def _of_three(bed: Testbed) -> Ours:
    return Ours(bed, env=THREE_COPIES)
