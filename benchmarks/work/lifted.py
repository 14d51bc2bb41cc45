"""(j) Jobs at once beside the peer as it ships, and beside one with its limits lifted (`sides.LIFTED`), so that nothing else
holds it back. The latter's clients of workers make 1,000 calls a second, as they do by default since Kueue 0.19.4: it is the
testbed's Kueue with that line changed (`testbed.edits.QUICK_CLIENTS`), unless another binary is given."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import anyio

from benchmarks.bench import Load
from benchmarks.figures import Figures, Target, at_least, at_most
from benchmarks.lines import Line, beside, itself
from benchmarks.sides import Lifted, Peer
from benchmarks.work.core import Enter, Result, Setting, in_turn, of
from testbed.programs import kueue_with_quick_clients

__all__ = ["lines", "measure"]

WORKERS = 3
JOBS, MORE_JOBS, SHIPPED_JOBS = 60, 200, 20
"""As it ships the peer dispatches about one a second."""

RESTED = 5
SHIPPED = "as shipped"


async def measure(setting: Setting) -> Result:
    """All sides get as many jobs, but the peer as it ships. On simulated clusters no Kueue runs, nor where none is wanted."""
    sides: dict[str, Enter] = dict(setting.sides)
    if "peer" in sides:
        binary = setting.kueue or await anyio.to_thread.run_sync(partial(kueue_with_quick_clients, setting.say))
        sides |= {"peer": partial(Lifted, binary=binary), SHIPPED: Peer}
    jobs = setting.burst(MORE_JOBS if setting.full else JOBS)
    few, many = (Load(RESTED, number, hold=True) for number in (min(jobs, SHIPPED_JOBS), jobs))
    async with setting.clusters(setting.workers or WORKERS) as bed:
        found = await in_turn(bed, sides, lambda name: few if name == SHIPPED else many, setting)
    return Result(lines(found, f"{jobs} jobs at once"))


def lines(sides: Mapping[str, Figures], what: str) -> list[Line]:
    without, shipped = ({**sides, "peer": sides[name]} if name in sides else sides for name in ("peer", SHIPPED))
    return [
        *_beside(without, f"{what}, the peer without limits", at_least(2)),
        *(_beside(shipped, f"{what}, the peer as shipped", None) if SHIPPED in sides else ()),
        itself(f"{what}: jobs that never finished", sides["ours"].unfinished, at_most(0)),
    ]


def _beside(sides: Mapping[str, Figures], what: str, goal: Target | None) -> list[Line]:
    rate, cpu = of(sides, lambda each: each.dispatch_rate), of(sides, lambda each: each.cpu_ms)
    return [
        beside(f"{what}: dispatched per second", "peer", goal, **rate),
        beside(f"{what}: CPU per job, ms", "peer", None, **cpu),
    ]
