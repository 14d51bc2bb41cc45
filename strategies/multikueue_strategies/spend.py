"""The parts that read what queues have spent: the filter `spend`, a bound, and the scorer `spend`, a preference."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from multikueue.strategy import Fleet, Score, Spend, Worker, Workload
from multikueue_strategies.once import Once

_STEP = timedelta(minutes=10)
"""To which the end of a hold is rounded up, for what is reported must not change all the time."""


@dataclass(frozen=True, slots=True)
class SpendBound:
    """Refuses workers that cost money while a queue of the workload has spent what it may.

    The bound is in the annotation `multikueue.dev/max-spend` of the LocalQueue or ClusterQueue: `100/7d`. Workers without
    prices, and those where what the workload requests costs nothing, are not refused. What runs already goes on.
    """

    reads: ClassVar[tuple[str, ...]] = ("flavors", "spend")

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        over = next((each for each in workload.spends if each.spent >= each.most), None)
        return _told(over) if over is not None and workload.hourly(worker.prices) > 0 else ""


@dataclass(frozen=True, slots=True)
class SpendShare:
    """Prefers cheaper workers, the more the more of what they may the workload's queues have spent.

    While nothing is spent all workers have 1. Once a queue has spent it all, a worker of double the cheapest price has 0.5.
    """

    reads: ClassVar[tuple[str, ...]] = ("flavors", "spend")

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        if not workload.spends:
            return Score(None, "no bound of spend")
        share = max(min(1.0, each.spent / each.most) if each.most else 1.0 for each in workload.spends)
        price = workload.hourly(worker.prices)
        cheaper = _cheapest(workload, fleet) / price if price > 0 else 1.0
        return Score(1 - share * (1 - cheaper), f"{price:.4g} an hour")


@Once
def _cheapest(workload: Workload, fleet: Fleet) -> float:
    return min(workload.hourly(worker.prices) for worker in fleet.workers)


def _told(over: Spend) -> str:
    bound = f"{over.queue[:150]} has spent {over.most:g} within {over.window / timedelta(hours=1):g}h"
    if over.until is None:
        return f"{bound}, and what runs goes on spending"
    rounded = over.until + (datetime.min.replace(tzinfo=over.until.tzinfo) - over.until) % _STEP
    return f"{bound}, until {rounded:%Y-%m-%dT%H:%MZ}"
