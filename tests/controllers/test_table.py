"""The table's own rule: a test decides when time passes, not the machine."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from multikueue.api.meta import ObjectKey
from tests.controllers.table import table

pytestmark = pytest.mark.anyio


async def test_a_key_that_is_due_later_stays_undone_on_a_slow_machine() -> None:
    world = table()
    await world.settle()
    world.queues.cohorts.add_after("all", timedelta(microseconds=1))
    world.queues.outboxes["w1"].add_after(ObjectKey("team", "a"), timedelta(microseconds=1))
    await anyio.sleep(0.01)
    assert (len(world.queues.cohorts), len(world.queues.outboxes["w1"])) == (0, 0)
