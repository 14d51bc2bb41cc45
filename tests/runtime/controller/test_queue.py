"""The work queue: once each, by priority and turn, never twice at a time, nothing lost; one file, one queue."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count

import anyio
import pytest
from anyio.lowlevel import checkpoint

from multikueue.runtime import Backoff, Closed, Depth, QueuePriority, WorkQueue
from multikueue.runtime.controller.queue import MOST_PASSED_OVER, RESYNCS_PER_TURN

pytestmark = pytest.mark.anyio

SECOND = timedelta(seconds=1)
LIVE, REQUEUE, RESYNC = QueuePriority


def queue() -> WorkQueue[str]:
    """A queue whose back-off is 1 s, 2 s, 4 s, ... up to a minute, without jitter."""
    return WorkQueue(retries=Backoff(first=SECOND, cap=60 * SECOND, jitter=0))


async def drain(work: WorkQueue[str]) -> list[str]:
    """All that can be had without waiting, each done at once."""
    keys = []
    while len(work):
        keys.append(await work.get())
        work.done(keys[-1])
    return keys


async def test_keys_come_in_the_order_they_were_added() -> None:
    work = queue()
    for key in "bca":
        work.add(key)
    assert await drain(work) == ["b", "c", "a"]


async def test_a_waiting_key_is_not_added_twice() -> None:
    work = queue()
    for key in "aba":
        work.add(key)
    assert len(work) == 2
    assert await drain(work) == ["a", "b"]


async def test_higher_priorities_go_first_and_each_is_in_order() -> None:
    work = queue()
    for key, priority in (("s1", RESYNC), ("q1", REQUEUE), ("l1", LIVE), ("s2", RESYNC), ("q2", REQUEUE), ("l2", LIVE)):
        work.add(key, priority)
    assert await drain(work) == ["l1", "l2", "q1", "q2", "s1", "s2"]


@pytest.mark.parametrize("priorities", [(RESYNC, LIVE), (LIVE, RESYNC)], ids=["raised", "not lowered"])
async def test_a_key_keeps_its_highest_priority(priorities: tuple[QueuePriority, QueuePriority]) -> None:
    work = queue()
    work.add("a", priorities[0])
    work.add("b", REQUEUE)
    work.add("a", priorities[1])
    assert await drain(work) == ["a", "b"]


async def flooded(work: WorkQueue[str], flood: Callable[[], None], *, takes: int) -> list[str]:
    """What is taken while somebody sees to it that there is always more."""
    taken = []
    for _ in range(takes):
        flood()
        taken.append(await work.get())
        work.done(taken[-1])
        await checkpoint()
    return taken


@pytest.mark.parametrize(
    ("flood", "waits"),
    [
        ([LIVE], REQUEUE),
        ([LIVE], RESYNC),
        ([LIVE, REQUEUE], RESYNC),
        ([LIVE, RESYNC], REQUEUE),
    ],
    ids=[
        "news do not starve retries and timers",
        "news do not starve the sweep",
        "news and retries together do not starve the sweep",
        "news and a sweep together do not starve retries and timers",
    ],
)
async def test_a_key_of_a_lower_priority_has_its_share_of_the_takes(
    flood: list[QueuePriority], waits: QueuePriority
) -> None:
    work, numbers = queue(), count()
    for number in range(2):
        work.add(f"waits-{number}", waits)

    def more() -> None:
        for priority in flood:
            work.add(f"flood-{next(numbers)}", priority)

    taken = await flooded(work, more, takes=3 * (MOST_PASSED_OVER + 1))

    assert {"waits-0", "waits-1"} <= set(taken)


async def test_of_a_flood_and_what_waits_most_takes_are_of_the_flood() -> None:
    work, numbers = queue(), count()
    for number in range(100):
        work.add(f"waits-{number}", RESYNC)
    taken = await flooded(work, lambda: work.add(f"flood-{next(numbers)}"), takes=90)
    assert sum(key.startswith("waits") for key in taken) == 90 // (MOST_PASSED_OVER + 1)


async def test_of_a_sweep_a_few_are_taken_per_turn_of_the_event_loop_and_news_wait_for_none() -> None:
    work, loop, taken = queue(), asyncio.get_running_loop(), [list[str]()]

    def turn() -> None:
        taken.append([])
        if len(work):
            loop.call_soon(turn)

    async def worker() -> None:
        with suppress(Closed):
            while True:
                key = await work.get()
                taken[-1].append(key)
                work.done(key)
                await checkpoint()

    for number in range(10 * RESYNCS_PER_TURN):
        work.add(f"sweep-{number}", RESYNC)
    for number in range(20):
        work.add(f"news-{number}")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            loop.call_soon(turn)
            for _ in range(40):
                tasks.start_soon(worker)
            while len(work):
                await checkpoint()
            work.close()

    swept = [sum(key.startswith("sweep") for key in keys) for keys in taken]
    assert sum(swept) == 10 * RESYNCS_PER_TURN
    assert max(swept) == RESYNCS_PER_TURN
    assert max(len(keys) for keys in taken) >= 20, "news of one turn wait for another"


async def test_tenants_take_turns() -> None:
    work: WorkQueue[str] = WorkQueue(tenant=lambda key: key[0])
    for number in range(1000):
        work.add(f"a{number}")
    work.add("b0")
    work.add("b1")
    assert (await drain(work))[:6] == ["a0", "b0", "a1", "b1", "a2", "a3"]


async def test_a_tenant_whose_key_rose_leaves_nothing_behind() -> None:
    work: WorkQueue[str] = WorkQueue(tenant=lambda key: key[0])
    work.add("b", RESYNC)
    work.add("a", RESYNC)
    work.add("b", LIVE)
    assert await drain(work) == ["b", "a"]


async def test_a_key_that_rose_leaves_nothing_behind_in_its_old_place() -> None:
    work = queue()
    work.add("a", RESYNC)
    work.add("a", LIVE)
    assert await drain(work) == ["a"]
    work.add("b", RESYNC)
    work.add("a", RESYNC)
    assert await drain(work) == ["b", "a"]


async def test_a_key_is_never_given_to_two_workers() -> None:
    work = queue()
    work.add("a")
    assert await work.get() == "a"
    work.add("a")
    work.add("b")

    assert await work.get() == "b"
    with anyio.move_on_after(10) as waiting:
        await work.get()
    assert waiting.cancelled_caught


async def test_a_key_added_while_it_is_worked_on_comes_once_more_after_done() -> None:
    work = queue()
    work.add("a")
    await work.get()
    work.add("a", RESYNC)
    work.add("a", REQUEUE)
    work.add("b", RESYNC)
    work.done("a")

    assert await drain(work) == ["a", "b"], "with the highest of the priorities it was added with"


async def test_done_of_a_key_that_nobody_has_is_an_error() -> None:
    with pytest.raises(KeyError):
        queue().done("a")


async def test_get_waits_for_a_key() -> None:
    work = queue()
    asyncio.get_running_loop().call_later(5, work.add, "a")
    before = anyio.current_time()
    assert await work.get() == "a"
    assert anyio.current_time() == pytest.approx(before + 5)


async def test_a_delayed_key_comes_at_its_time() -> None:
    work = queue()
    work.add_after("a", 90 * SECOND)
    assert len(work) == 0
    before = anyio.current_time()
    assert await work.get() == "a"
    assert anyio.current_time() == pytest.approx(before + 90)


@pytest.mark.parametrize("delays", [(30, 10), (10, 30)], ids=["a later add is sooner", "a later add is not sooner"])
async def test_of_several_delays_the_shortest_counts_and_once(delays: tuple[int, int]) -> None:
    work = queue()
    for seconds in delays:
        work.add_after("a", seconds * SECOND)
    before = anyio.current_time()

    assert await work.get() == "a"
    work.done("a")

    assert anyio.current_time() == pytest.approx(before + 10)
    assert work.depth().delayed == 0


async def test_an_add_overtakes_the_delay_and_keeps_its_priority() -> None:
    work = queue()
    work.add_after("a", 30 * SECOND, LIVE)
    work.add("b", REQUEUE)
    work.add("a", RESYNC)
    assert await drain(work) == ["a", "b"]
    assert work.depth().delayed == 0


async def test_a_delay_for_a_key_that_waits_already_changes_only_its_priority() -> None:
    work = queue()
    work.add("a", RESYNC)
    work.add("b", REQUEUE)
    work.add_after("a", 30 * SECOND, LIVE)
    assert work.depth().delayed == 0
    assert await drain(work) == ["a", "b"]


async def test_a_delay_that_ends_while_the_key_is_worked_on_counts_after_done() -> None:
    work = queue()
    work.add("a")
    await work.get()
    work.add_after("a", 5 * SECOND)
    await anyio.sleep(6)
    assert len(work) == 1
    work.done("a")
    assert await drain(work) == ["a"]


@pytest.mark.parametrize("seconds", [0, -3])
async def test_no_delay_is_an_add(seconds: int) -> None:
    work = queue()
    work.add_after("a", seconds * SECOND)
    assert await drain(work) == ["a"]


async def test_retries_wait_longer_each_time_until_the_key_is_forgotten() -> None:
    work = queue()
    assert [work.retry("a") / SECOND for _ in range(3)] == [1, 2, 4]
    assert work.failures("a") == 3
    work.forget("a")
    assert work.failures("a") == 0
    assert work.retry("a") == SECOND


async def test_a_retry_waits_as_long_as_it_is_told() -> None:
    work = queue()
    assert work.retry("a", at_least=20 * SECOND) == 20 * SECOND
    assert work.retry("b", at_least=SECOND / 2) == SECOND


async def taken_after(work: WorkQueue[str], key: str) -> float:
    """Seconds until a worker gets that key and no other one."""
    began = anyio.current_time()
    assert await work.get() == key
    work.done(key)
    return anyio.current_time() - began


async def test_what_failed_often_is_hurried_and_fails_as_for_the_first_time() -> None:
    work = queue()
    for _ in range(6):
        work.retry("a")
        assert await taken_after(work, "a") > 0
    work.retry("a")
    work.hurry()
    assert await taken_after(work, "a") == pytest.approx(1)
    assert work.retry("a") == 2 * SECOND, "it counts as failed once"


async def test_nobody_is_hurried_beyond_what_it_was_told_to_wait() -> None:
    work = queue()
    work.retry("a", at_least=20 * SECOND)
    work.hurry()
    assert await taken_after(work, "a") == pytest.approx(20)


async def test_what_did_not_fail_keeps_its_time_and_what_comes_sooner_does_too() -> None:
    work = queue()
    work.add_after("later", 30 * SECOND)
    work.retry("soon", at_least=20 * SECOND)
    work.add_after("soon", SECOND / 2)
    work.hurry()
    assert await taken_after(work, "soon") == pytest.approx(0.5)
    assert await taken_after(work, "later") == pytest.approx(29.5)


async def test_who_fails_while_all_are_hurried_waits_as_after_few_failures() -> None:
    work = queue()
    for _ in range(6):
        work.retry("a")
        await work.get()
        work.done("a")
    work.add("a")
    await work.get()
    work.hurry()
    assert work.retry("a") == 2 * SECOND


async def test_the_usual_backoff_goes_from_a_fifth_of_a_second_to_five_minutes() -> None:
    work: WorkQueue[str] = WorkQueue()
    delays = [work.retry("a") for _ in range(40)]
    assert timedelta(milliseconds=100) <= delays[0] <= timedelta(milliseconds=200)
    assert timedelta(minutes=2.5) <= delays[-1] <= timedelta(minutes=5)
    assert work.retry("b") <= timedelta(milliseconds=200), "each key counts its own failures"


async def test_a_cancelled_getter_passes_its_key_on() -> None:
    work = queue()
    got: list[str] = []

    async def take() -> None:
        got.append(await work.get())

    first, second = asyncio.create_task(take()), asyncio.create_task(take())
    await checkpoint()
    work.add("a")  # wakes the first ...
    first.cancel()  # ... which never gets to take it
    await asyncio.wait([first, second])

    assert first.cancelled()
    assert got == ["a"]


async def test_a_getter_cancelled_before_a_key_comes_does_not_swallow_the_wake_up() -> None:
    work = queue()
    got: list[str] = []

    async def take() -> None:
        got.append(await work.get())

    first, second = asyncio.create_task(take()), asyncio.create_task(take())
    await checkpoint()
    first.cancel()
    work.add("a")  # the first stands in line still, cancelled
    await asyncio.wait([first, second])

    assert first.cancelled()
    assert got == ["a"]


async def test_close_wakes_all_who_wait() -> None:
    work = queue()
    ended = Counter[str]()

    async def take() -> None:
        try:
            await work.get()
        except Closed:
            ended["closed"] += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(take)
        await checkpoint()
        work.close()

    assert ended == {"closed": 3}


async def test_after_close_there_is_nothing_to_get_and_adds_are_ignored() -> None:
    work = queue()
    work.add("a")
    await work.get()
    work.add("a")
    work.add("b")
    work.add_after("c", SECOND)

    work.close()
    work.add("d")
    work.add_after("e", SECOND)
    work.retry("f")
    work.done("a")
    await anyio.sleep(60)

    assert len(work) == 0
    assert work.depth().delayed == 0
    with pytest.raises(Closed):
        await work.get()


async def test_depth_says_how_full_it_is() -> None:
    work = queue()
    work.add("worked on")
    await work.get()
    work.add("worked on", RESYNC)
    work.add("live")
    work.add("requeued", REQUEUE)
    work.add_after("later", SECOND)
    work.retry("failed")

    assert work.depth() == Depth(waiting=(1, 1, 1), delayed=2, processing=1, failing=1, taken=1)
    assert len(work) == 3


async def test_nothing_is_lost_and_nothing_runs_twice_at_a_time_among_many_workers() -> None:
    """Each add is followed by a run of its key that begins after it."""
    work = queue()
    wanted, seen, running = Counter[str](), dict[str, int](), set[str]()

    async def worker() -> None:
        while True:
            try:
                key = await work.get()
            except Closed:
                return
            assert key not in running
            running.add(key)
            seen[key] = wanted[key]
            await anyio.sleep(0.001 * (len(key) + wanted[key] % 3))
            running.remove(key)
            work.done(key)

    def add(key: str) -> None:
        wanted[key] += 1
        ways[wanted[key] % len(ways)](key)

    ways: tuple[Callable[[str], object], ...] = (
        work.add,
        lambda key: work.add(key, RESYNC),
        lambda key: work.add_after(key, SECOND / 100),
        work.retry,
    )
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(worker)
        for step in range(2000):
            add("k" * (1 + step * 7 % 11))
            if step % 3 == 0:
                await anyio.sleep(0.0007)
        await anyio.sleep(200)
        work.close()

    assert seen == wanted


async def test_a_queue_is_drained_when_the_last_worker_is_done() -> None:
    work = queue()
    for key in ("a", "b", "c"):
        work.add(key)
    await work.get()
    await work.get()
    ended: list[float] = []

    async def end(key: str, after: float) -> None:
        await anyio.sleep(after)
        work.done(key)
        ended.append(after)

    work.close()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end, "a", 1)
        tasks.start_soon(end, "b", 3)
        await work.drained()
        assert ended == [1, 3]


async def test_a_queue_nobody_works_on_is_drained_already() -> None:
    work = queue()
    work.add("a")
    work.close()
    await work.drained()


async def test_who_gives_up_waiting_for_the_drain_disturbs_nobody() -> None:
    work = queue()
    work.add("a")
    await work.get()
    work.close()
    with anyio.move_on_after(1):
        await work.drained()
    work.done("a")
    await work.drained()


async def failed_with_news(work: WorkQueue[str], *, at_least: timedelta = timedelta()) -> float:
    """The key that a worker has fails while there are news of it. Returns the seconds until a worker has it again."""
    work.add("a")
    work.retry("a", at_least=at_least)
    work.done("a")
    began = anyio.current_time()
    assert await work.get() == "a"
    return anyio.current_time() - began


async def test_news_are_looked_at_at_once_after_one_failure_and_not_after_many() -> None:
    work = queue()
    work.add("a")
    assert await work.get() == "a"
    assert await failed_with_news(work) == 0
    for _ in range(5):
        assert await failed_with_news(work) == pytest.approx(1), "as after a first failure"
    work.forget("a")
    assert await failed_with_news(work) == 0


async def test_news_do_not_shorten_what_a_server_asked_for() -> None:
    work = queue()
    work.add("a")
    assert await work.get() == "a"
    assert await failed_with_news(work, at_least=20 * SECOND) == pytest.approx(20)


@pytest.mark.parametrize(
    ("failures", "options", "seconds"),
    [
        pytest.param(1, {}, 0, id="after one failure they come at once"),
        pytest.param(2, {}, 1, id="after more as after a first failure"),
        pytest.param(9, {}, 1, id="however many there are"),
        pytest.param(1, {"at_least": 20 * SECOND}, 20, id="a server that asks for more gets it"),
        pytest.param(1, {"unheard": 5 * SECOND}, 0, id="what may be fought over is tried at once, too"),
        pytest.param(3, {"unheard": 5 * SECOND}, 4, id="and then within its back-off"),
        pytest.param(9, {"unheard": 5 * SECOND}, 5, id="up to the bound"),
    ],
)
@pytest.mark.parametrize("late", [0, 0.1])
async def test_news_within_a_backoff(failures: int, options: dict[str, timedelta], seconds: float, late: float) -> None:
    work = queue()
    for _ in range(failures - 1):
        work.retry("a")
        assert await taken_after(work, "a") > 0
    work.retry("a", **options)
    began = anyio.current_time()
    await anyio.sleep(late)
    work.add("a")
    work.add("a")
    await taken_after(work, "a")
    assert anyio.current_time() - began == pytest.approx(max(late, seconds))
    assert work.depth().delayed == 0
