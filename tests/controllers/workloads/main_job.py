"""The main job, running: what its tests share."""

from __future__ import annotations

from typing import Any

from multikueue.api.meta import ObjectKey
from tests.controllers.table import NAMESPACE, Table, table

JOB = ObjectKey(NAMESPACE, "job")


async def running(**settings: Any) -> Table:
    """A job that runs on w1."""
    world = table(**settings)
    await world.begin()
    return world
