"""The task that runs quota cycles: at once when something happened, and when something parked is due."""

from __future__ import annotations

import anyio
import pytest

from multikueue.controllers.quota.admission import AT_ONCE, SchedulerLoop
from tests.controllers.table import table

pytestmark = pytest.mark.anyio


async def test_it_wakes_for_news_and_passes_on_what_was_decided() -> None:
    world = table()
    world.submit()
    key = await world.queues.jobs.get()
    await _create_workload(world, key)
    while len(world.queues.workloads):
        world.queues.workloads.done(await world.queues.workloads.get())
    admission = SchedulerLoop()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(admission.run, world.world)
        with anyio.fail_after(2):
            decided = await world.queues.workloads.get()
        assert decided == world.key()
        assert world.engine.scheduler.reservation(decided) is not None
        tasks.cancel_scope.cancel()


async def test_a_crowd_is_looked_at_with_its_quota() -> None:
    world = table()
    admission, seen = SchedulerLoop(), []

    async def look() -> None:
        while True:
            key = await world.queues.workloads.get()
            seen.append(world.engine.scheduler.reservation(key) is not None)
            world.queues.workloads.done(key)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(admission.run, world.world)
        await anyio.wait_all_tasks_blocked()
        for number in range(AT_ONCE):
            world.submit(f"job-{number}", cpu="10m")
            await _create_workload(world, await world.queues.jobs.get())
        admission.wake()
        tasks.start_soon(look)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert seen == [True] * AT_ONCE


async def _create_workload(world, key) -> None:  # type: ignore[no-untyped-def]
    from multikueue.controllers.workloads.jobs import Jobs

    await Jobs(world.world).reconcile(key)


async def test_without_news_it_rests() -> None:
    world = table()
    admission = SchedulerLoop()
    cycles = 0
    run = world.engine.scheduler.cycle

    def counted(now):  # type: ignore[no-untyped-def]
        nonlocal cycles
        cycles += 1
        return run(now)

    world.engine.scheduler.cycle = counted  # type: ignore[method-assign]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(admission.run, world.world)
        await anyio.wait_all_tasks_blocked()
        admission.wake()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert cycles == 0


async def test_news_go_before_what_is_said_of_those_who_wait() -> None:
    """The end of a job, which frees quota, is looked at before thousands of verdicts, as they are due after a start."""
    world = table(quota=0)
    names = [f"waits-{number}" for number in range(20)]
    for name in ("ends", *names):
        world.submit(name)
        await _create_workload(world, await world.queues.jobs.get())
    seen, admission = [], SchedulerLoop()
    admission.wake()
    async with anyio.create_task_group() as tasks:
        while len(world.queues.workloads):
            world.queues.workloads.done(await world.queues.workloads.get())
        tasks.start_soon(admission.run, world.world)
        await anyio.wait_all_tasks_blocked()
        world.queues.workloads.add(world.key("ends"))
        while len(world.queues.workloads):
            seen.append(await world.queues.workloads.get())
            world.queues.workloads.done(seen[-1])
        tasks.cancel_scope.cancel()
    assert len(seen) == len(names) + 1
    assert seen[0] == world.key("ends")
