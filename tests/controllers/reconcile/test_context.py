"""The work queues of a manager, all together."""

from __future__ import annotations

import anyio
import pytest

from multikueue.api.meta import ObjectKey
from multikueue.controllers.reconcile.context import Followed, WorkQueues
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


async def test_nobody_waits_for_what_is_so_already() -> None:
    followed = Followed()
    await followed.until("w1", is_followed=False)
    followed.put(["w1"])
    await followed.until("w1", is_followed=True)


async def test_who_waits_for_a_worker_hears_of_no_other() -> None:
    followed, said = Followed(), list[str]()

    async def wait(*, is_followed: bool) -> None:
        await followed.until("w1", is_followed=is_followed)
        said.append("followed" if is_followed else "not followed")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: wait(is_followed=True))
        for workers in (["w2"], ["w2", "w3"], []):
            followed.put(workers)
            await anyio.wait_all_tasks_blocked()
        assert said == []
        followed.put(["w1", "w2"])
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(lambda: wait(is_followed=False))
        followed.put(["w1"])
        await anyio.wait_all_tasks_blocked()
        assert said == ["followed"]
        followed.put([])
    assert said == ["followed", "not followed"]
