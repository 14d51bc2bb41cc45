"""PUBLIC: for authors of strategies: `check_strategy`, and builders of what a strategy is asked about.

`check_strategy(strategy)` checks whether a strategy keeps the contract of `multikueue.strategy`. `strategy_workload` and
`fleet` build its input. A builder is immutable: each method returns a new builder, and `build()` returns the value::

    workers = fleet("worker-1", "worker-2")
    urgent = strategy_workload("wl").queue("main").request(cpu=2).priority(10).build()

Defaults: times are `NOW`. Amounts are Kubernetes quantities: `cpu=2`, `memory="4Gi"`. Resource names that are no Python
names go into a mapping: `request({"nvidia.com/gpu": 8}, cpu=2)`.

Only the parts of the product that are for tests themselves import this room.
"""

from multikueue.testing.contract import check_strategy
from multikueue.testing.fleets import (
    NOW,
    FleetBuilder,
    Quantity,
    StrategyWorkloadBuilder,
    fleet,
    strategy_workload,
)

__all__ = [
    "NOW",
    "FleetBuilder",
    "Quantity",
    "StrategyWorkloadBuilder",
    "check_strategy",
    "fleet",
    "strategy_workload",
]
