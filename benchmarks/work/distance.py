"""(d) Workers far away: the same burst with a round trip of so many milliseconds to each of them."""

from __future__ import annotations

from benchmarks.figures import at_least
from benchmarks.lines import grown
from benchmarks.sides import Side
from benchmarks.work.core import Enter, Result, Setting, few_for_the_peer, in_turn, of
from testbed.bed import Testbed

__all__ = ["measure"]

WORKERS = 3
ROUND_TRIPS = (0, 20, 80, 200)
JOBS = 120
NEAR_ENOUGH = {80: 0.9}
"""What is to be left of the rate at no distance."""


async def measure(setting: Setting) -> Result:
    result, near = Result(), 0.0
    load_of = few_for_the_peer(setting.burst(JOBS))
    async with setting.clusters(setting.workers or WORKERS) as bed:
        for milliseconds in ROUND_TRIPS if setting.full else (0, 80):
            sides = {name: _far(enter, milliseconds / 1000) for name, enter in setting.sides.items()}
            found = await in_turn(bed, sides, load_of, setting)
            rate = of(found, lambda each: each.dispatch_rate)
            ours = found["ours"].dispatch_rate
            near = near or ours
            result.plot("rate-by-distance", milliseconds, **rate)
            goal = at_least(NEAR_ENOUGH[milliseconds]) if milliseconds in NEAR_ENOUGH else None
            others = {side: value for side, value in rate.items() if side != "ours"}
            figure = f"{milliseconds} ms away: dispatched per second"
            result.lines.append(grown(figure, "no distance", goal, unit=near, ours=ours, **others))
    return result


def _far(enter: Enter, seconds: float) -> Enter:
    def enter_far(bed: Testbed) -> Side:
        side = enter(bed).through_links()
        for link in side.links.values():
            link.latency(seconds / 2)
        return side

    return enter_far
