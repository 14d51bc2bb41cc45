"""The sweep, as each role with workers runs it."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.runtime import WorkQueue
from multikueue.settings import (
    BESIDE_KUEUE,
    STANDALONE,
    Role,
)
from tests.controllers.table import table

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("roles", [STANDALONE, BESIDE_KUEUE], ids=["standalone", "beside Kueue"])
async def test_the_sweep_looks_again_at_what_workers_hold(roles: frozenset[Role]) -> None:
    world = table(roles=roles, gc_interval=timedelta(milliseconds=5))
    labels = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
    world.workers["w1"].put(kinds.WORKLOADS, {"metadata": {"name": "left", "namespace": "team", "labels": labels}})
    world.queues.workloads = WorkQueue()  # the event was missed
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.runnables.tasks[-1])
        assert await world.queues.workloads.get() == ObjectKey("team", "left")
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("roles", [STANDALONE, BESIDE_KUEUE], ids=["standalone", "beside Kueue"])
async def test_the_sweep_looks_again_at_workers_without_an_object(roles: frozenset[Role]) -> None:
    world = table(roles=roles, gc_interval=timedelta(milliseconds=5))
    world.manager.drop(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"))
    world.queues.clusters = WorkQueue()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.runnables.tasks[-1])
        assert await world.queues.clusters.get() == "w1"
        tasks.cancel_scope.cancel()
