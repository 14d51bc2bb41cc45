"""(c) Ever more workers, of which each job gets three copies: what a job costs then, and how fast a burst goes.

The peer dispatches incrementally too, as it ships: to three workers at first, and to three more each five minutes.

Where there are more than real control planes fit, three are real, and all others have nothing to do but to be connected: a
MultiKueueConfig names twenty workers at most, so those of a large fleet are in queues of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio

from benchmarks.figures import Figures, at_least, at_most
from benchmarks.fleet.idle_workers import Servers, idle_servers, make_known
from benchmarks.fleet.rest import QUIET_SECONDS
from benchmarks.lines import grown
from benchmarks.sides import Ours, Peer
from benchmarks.work.core import Enter, Result, Setting, few_for_the_peer, in_turn, of
from testbed.bed import Testbed

__all__ = ["measure"]

REAL, SIMULATED = (3, 10), (3, 30, 100)
"""Real control planes take 600 MiB each, and two cores serve ten of them."""

FEW, AMONG = 3, {True: (100, 300, 1000), False: (100,)}
"""Workers that are real, and how many there are together."""

JOBS = 120
THREE_COPIES: Mapping[str, str] = {"MULTIKUEUE_DISPATCH__STRATEGY": '{"name": "incremental", "options": {"step": 3}}'}
INCREMENTAL: Mapping[str, Any] = {"multiKueue": {"dispatcherName": "kueue.x-k8s.io/multikueue-dispatcher-incremental"}}

Played = Mapping[str, Figures]
"""Of each side."""


async def measure(setting: Setting) -> Result:
    """The script has no strategy: it is no measure here."""
    result, played = Result(), await _play(setting)
    few = played[0][2]["ours"]
    for what, workers, sides in played:
        rate, cpu = of(sides, lambda each: each.dispatch_rate), of(sides, lambda each: each.cpu_ms)
        result.plot("rate-by-clusters", workers, **rate)
        result.plot("cpu-by-clusters", workers, **cpu)
        result.lines += [
            grown(f"{what}: dispatched per second", "the fewest", at_least(0.9), unit=few.dispatch_rate, **rate),
            grown(f"{what}: CPU per job, ms", "the fewest", at_most(1.3), unit=few.cpu_ms, **cpu),
        ]
    return result


async def _play(setting: Setting) -> list[tuple[str, int, Played]]:
    """What was played, with how many workers, and what came of it; the fewest first."""
    played = []
    sides: dict[str, Enter] = {"ours": _of_three}
    if "peer" in setting.sides:
        sides["peer"] = partial(Peer, configuration=INCREMENTAL, binary=setting.kueue)
    for workers in SIMULATED if setting.simulated else REAL:
        async with setting.clusters(workers) as bed:
            played.append((f"{workers} clusters", workers, await _burst(bed, sides, setting)))
    async with setting.clusters(FEW) as bed, idle_servers(bed) as servers:
        for workers in AMONG[setting.full]:
            enter = partial(Among, servers=servers, idle=workers - FEW)
            found = await _burst(bed, {"ours": enter}, setting)
            played.append((f"{workers} clusters, {FEW} of them busy", workers, found))
    return played


async def _burst(bed: Testbed, sides: Mapping[str, Enter], setting: Setting) -> Played:
    return await in_turn(bed, sides, few_for_the_peer(setting.burst(JOBS)), setting)


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
