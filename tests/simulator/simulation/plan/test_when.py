"""When events happen."""

from __future__ import annotations

import random

from multikueue_simulator.simulation.plan.plan import Crash
from multikueue_simulator.simulation.plan.when import When


def test_it_is_what_an_event_has_in_common_with_others() -> None:
    event = Crash(**When(3.0, 2, before=True)(lasts=1.5))
    assert (event.at, event.write, event.before, event.lasts) == (3.0, 2, True, 1.5)


def test_it_is_a_time_or_a_write_after_it() -> None:
    luck = random.Random(1)
    found = [When.drawn(luck, 7.0) for _ in range(500)]
    assert {when.at for when in found} == {7.0}
    assert all(0 <= when.write <= 30 for when in found)
    assert not any(when.before for when in found if not when.write)
    assert {(bool(when.write), when.before) for when in found} == {(False, False), (True, False), (True, True)}
