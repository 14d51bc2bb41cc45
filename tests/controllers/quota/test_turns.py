"""The history of what a LocalQueue used, in its status (quota-engine 5.1)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.controllers.quota.queue_status import QueueStatuses
from multikueue.quota.cache.consumed_resources import USAGE_BASED
from multikueue.runtime import DONE
from multikueue.settings import AdmissionSharing, Quota
from tests.controllers.table import NAMESPACE, QUEUE, Table, table

pytestmark = pytest.mark.anyio

KEY = ObjectKey(NAMESPACE, QUEUE)
MINUTE = timedelta(minutes=1)


def with_turns() -> Table:
    sharing = AdmissionSharing(enabled=True, usage_half_life_time=5 * MINUTE)
    world = table(rules=Quota(admission_fair_sharing=sharing))
    for kind in (kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES, kinds.RESOURCE_FLAVORS, kinds.ADMISSION_CHECKS):
        for body in world.manager.all(kind):
            scope = {"admissionScope": {"admissionMode": USAGE_BASED}} if kind is kinds.CLUSTER_QUEUES else {}
            spec = {**body.get("spec", {}), **scope}
            world.manager.put(kind, {**body, "spec": spec, "metadata": {**body["metadata"], "generation": 9}})
    for body in world.manager.all(kinds.NAMESPACES):
        world.manager.put(kinds.NAMESPACES, body)
    return world


def shown(world: Table) -> Any:
    return (world.manager.find(kinds.LOCAL_QUEUES, KEY) or {})["status"].get("fairSharing")


async def test_the_history_is_sampled_and_shown_each_interval() -> None:
    world = with_turns()
    queues = QueueStatuses(world.world)
    assert (await queues.reconcile_local_queue(KEY)).again_after == 5 * MINUTE
    history = {"consumedResources": {}, "lastUpdate": "2026-01-01T12:00:00Z"}
    assert shown(world) == {"weightedShare": 0, "admissionFairSharingStatus": history}

    world.time += 2 * MINUTE
    writes = len(world.manager.calls)
    assert (await queues.reconcile_local_queue(KEY)).again_after == 3 * MINUTE
    assert len(world.manager.calls) == writes


async def test_without_turns_there_is_none() -> None:
    world = table()
    assert await QueueStatuses(world.world).reconcile_local_queue(KEY) == DONE
    assert shown(world) is None


async def test_what_runs_gets_into_the_history() -> None:
    world = with_turns()
    world.submit(cpu="2")
    await world.settle()
    world.admit("w1")
    await world.settle()
    await QueueStatuses(world.world).reconcile_local_queue(KEY)
    world.time += 5 * MINUTE
    await QueueStatuses(world.world).reconcile_local_queue(KEY)
    # Half of the penalty of one interval, and half of what runs.
    assert shown(world)["admissionFairSharingStatus"]["consumedResources"] == {"cpu": "1500m"}
