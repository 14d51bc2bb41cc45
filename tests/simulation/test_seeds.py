"""Lives of managers with all that can go wrong: none of these seeds violates an invariant.

CI lives 250 seeds more (`.ci/run`), and `make simulate` as many as are wanted.
"""

from __future__ import annotations

import os

import pytest

from multikueue_simulator.simulation.plan.draw import AT_HOME_FROM
from multikueue_simulator.simulation.runs.batch import Tally, run_batch

SEEDS = (
    *range(50),
    *(3000882, 3001628, 3003984, 3005229, 4001455, 4001746, 4004465),
    *(5000953, 5000990, 5002048, 5002130, 5002359, 5004306, 5007849, 5008232, 5009011),
    *(
        6000042,
        6000129,
        6000547,
        6001627,
        6002151,
        6002761,
        6003582,
        6004155,
        6011579,
        6011942,
        6013146,
        6013224,
        6014463,
        7001756,
        7002342,
    ),
    *range(AT_HOME_FROM, AT_HOME_FROM + 12),
)
"""The large ones have failed before, but for the last dozen, in which the manager cluster is a worker too."""


@pytest.mark.timeout(600)
def test_no_invariant_is_violated_whatever_goes_wrong() -> None:
    tally = Tally()
    for result in run_batch(SEEDS, processes=os.cpu_count() or 1):
        tally.add(result)
    assert [f"seed {result.seed}: {result.violation}" for result in tally.failed] == []
    assert tally.seeds == len(SEEDS)
