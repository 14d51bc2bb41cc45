"""The main job, running: what its tests share."""

from __future__ import annotations

from typing import Any

from multikueue.api.meta import ObjectKey
from tests.controllers.table import NAMESPACE, Table, table

JOB = ObjectKey(NAMESPACE, "job")


async def running(**settings: Any) -> Table:
    """A job that runs on w1."""
    world = table(**settings)
    world.submit()
    await world.settle()
    world.admit("w1")
    await world.settle()
    return world
