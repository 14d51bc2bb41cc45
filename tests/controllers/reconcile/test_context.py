"""The work queues of a manager, all together."""

from __future__ import annotations

import pytest

from multikueue.api.meta import ObjectKey
from multikueue.controllers.reconcile.context import WorkQueues
from multikueue.runtime import WorkQueue

pytestmark = pytest.mark.anyio


async def test_what_failed_is_hurried_but_not_what_waits_for_a_worker() -> None:
    outbox: WorkQueue[ObjectKey] = WorkQueue()
    queues, key = WorkQueues(outboxes={"worker1": outbox}), ObjectKey("default", "job")
    for _ in range(3):
        queues.flavors.retry("default")
        outbox.retry(key)
    queues.hurry()
    assert (queues.flavors.failures("default"), outbox.failures(key)) == (1, 3)
