"""The turnstile: nobody waits for one who is stuck, and no place is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta

import anyio
import anyio.lowlevel
import pytest

from multikueue.runtime import AdaptiveLimit, DeadlineExceeded, DeadlinePool, PoolSaturated, first
from multikueue.runtime.concurrency import LEAST, START, Turnstile

pytestmark = pytest.mark.anyio


class Crowd:
    """People who go through, and stay inside until they are let out."""

    def __init__(self, turnstile: Turnstile) -> None:
        self.turnstile = turnstile
        self.entered: list[str] = []
        self.ways_out: dict[str, Callable[[], None]] = {}

    async def enter(self, name: str) -> None:
        self.ways_out[name] = await self.turnstile.enter()
        self.entered.append(name)


async def test_so_many_go_through_at_a_time_in_the_order_in_which_they_came() -> None:
    crowd = Crowd(Turnstile(2, 100))
    async with anyio.create_task_group() as tasks:
        for name in "abcde":
            tasks.start_soon(crowd.enter, name)
            await anyio.sleep(1)
        assert crowd.entered == ["a", "b"]
        crowd.ways_out["b"]()
        crowd.ways_out["b"]()
        await anyio.sleep(1)
        assert crowd.entered == ["a", "b", "c"]
        crowd.ways_out["a"]()
        crowd.ways_out["c"]()
        await anyio.sleep(1)
        assert crowd.entered == ["a", "b", "c", "d", "e"]


async def test_one_who_is_stuck_counts_for_a_while_only() -> None:
    crowd = Crowd(Turnstile(1, 5))
    async with anyio.create_task_group() as tasks:
        for name in "ab":
            tasks.start_soon(crowd.enter, name)
            await anyio.sleep(1)
        assert crowd.entered == ["a"]
        await anyio.sleep(4)
        assert crowd.entered == ["a", "b"]
        crowd.ways_out["a"]()
        tasks.start_soon(crowd.enter, "c")
        await anyio.sleep(1)
        assert crowd.entered == ["a", "b"]
        crowd.ways_out["b"]()


async def test_hundreds_who_are_stuck_hold_up_the_last_one_for_some_turns_and_not_for_a_turn_each() -> None:
    crowd = Crowd(Turnstile(16, 1))
    async with anyio.create_task_group() as tasks:
        for number in range(300):
            tasks.start_soon(crowd.enter, f"stuck{number}")
        tasks.start_soon(crowd.enter, "well")
        await anyio.sleep(3.5)
        assert crowd.entered[-1] == "well"
        for leave in crowd.ways_out.values():
            leave()
        crowd.entered.clear()
        for number in range(17):
            tasks.start_soon(crowd.enter, f"later{number}")
        await anyio.sleep(0.5)
        assert len(crowd.entered) == 16, "once all have left it is as wide as before"
        crowd.ways_out["later0"]()


async def test_one_who_goes_away_takes_no_place_along() -> None:
    crowd = Crowd(Turnstile(1, 100))
    async with anyio.create_task_group() as tasks:
        await crowd.enter("a")
        with anyio.move_on_after(1):
            await crowd.enter("b")
        tasks.start_soon(crowd.enter, "c")
        await anyio.sleep(1)
        crowd.ways_out["a"]()
        await anyio.sleep(1)
        assert crowd.entered == ["a", "c"]


async def test_one_who_is_let_in_and_goes_away_at_once_gives_the_place_back() -> None:
    crowd = Crowd(Turnstile(1, 100))
    await crowd.enter("a")
    entering = asyncio.ensure_future(crowd.enter("b"))
    await anyio.sleep(1)
    crowd.ways_out["a"]()
    entering.cancel()
    with anyio.fail_after(1):
        await crowd.enter("c")
    assert crowd.entered == ["a", "c"]


async def test_the_first_to_end_ends_the_others() -> None:
    ended: list[str] = []

    async def patient() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("patient")

    async def quick() -> None:
        await anyio.lowlevel.checkpoint()
        ended.append("quick")

    await first(patient, quick)

    assert ended == ["quick", "patient"]


async def test_what_one_raises_is_raised_and_ends_the_others() -> None:
    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ExceptionGroup) as raised:
        await first(anyio.sleep_forever, fails)

    assert raised.group_contains(ValueError, match="no")


MOST = 64


def served(limit: AdaptiveLimit, *, way: float, service: float, places: int, rounds: int = 200, busy: int = 0) -> int:
    """The limit after so many rounds in which all that may be under way are sent at once to a server: it works on so many at
    a time, each for `service` seconds. With `busy` it refuses what is beyond that number."""
    at = limit_at = 0.0
    for _ in range(rounds):
        sent = limit()
        for number in range(sent):
            seconds = way + service * (1 + number // places)
            if busy and number >= busy:
                limit.refused(at=at + way, seconds=way)
            else:
                limit.answered(at=at + seconds, seconds=seconds, was_used_up=True)
            limit_at = max(limit_at, at + seconds)
        at = limit_at
    return limit()


@pytest.mark.parametrize("way", [0.0, 0.08, 0.2, 1.0])
def test_a_server_that_keeps_up_gets_as_much_as_may_be_however_far_it_is(way: float) -> None:
    assert served(AdaptiveLimit(MOST), way=way, service=0.01, places=1000, rounds=5) == MOST


def test_a_server_that_does_one_thing_at_a_time_gets_few() -> None:
    assert served(AdaptiveLimit(MOST), way=0.0, service=1.0, places=1) <= 4


def test_a_server_with_some_places_gets_about_as_many_twice_over() -> None:
    assert 8 <= served(AdaptiveLimit(MOST), way=0.0, service=1.0, places=8) <= 20


def test_a_server_that_refuses_what_is_too_much_is_asked_for_less() -> None:
    assert served(AdaptiveLimit(MOST), way=0.05, service=0.01, places=1000, busy=20) <= 21


def test_it_does_not_grow_unless_it_is_used_up() -> None:
    limit = AdaptiveLimit(MOST)
    for second in range(100):
        limit.answered(at=second, seconds=0.1, was_used_up=False)
    assert limit() == START


def test_what_was_sent_before_it_shrank_does_not_shrink_it_again() -> None:
    limit = AdaptiveLimit(MOST)
    for number in range(10):
        limit.refused(at=1 + number / 100, seconds=0.5)
    assert limit() == START // 2
    limit.refused(at=2, seconds=0.5)
    assert limit() == START // 4


def test_it_keeps_within_its_bounds() -> None:
    assert AdaptiveLimit(3)() == 3
    assert served(AdaptiveLimit(1), way=0.0, service=1.0, places=1) == 1
    limit = AdaptiveLimit(MOST)
    for second in range(20):
        limit.refused(at=second, seconds=0.1)
    assert limit() == LEAST


def test_a_way_that_has_become_longer_is_the_normal_one_after_a_while() -> None:
    limit = AdaptiveLimit(MOST)
    served(limit, way=0.01, service=0.01, places=1000, rounds=5)
    assert served(limit, way=0.3, service=0.01, places=1000, rounds=3) < MOST
    assert served(limit, way=0.3, service=0.01, places=1000, rounds=400) == MOST


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Real time: virtual time does not wait for threads."""
    return "asyncio"


SOON, LONG = timedelta(milliseconds=50), timedelta(seconds=20)


class Outcomes:
    """What was told, in order."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.threads: list[threading.Thread] = []
        self._news = anyio.Event()

    def __call__(self, outcome: object) -> None:
        self.told.append(outcome)
        self.threads.append(threading.current_thread())
        self._news.set()
        self._news = anyio.Event()

    async def reach(self, count: int) -> list[object]:
        with anyio.fail_after(10):
            while len(self.told) < count:
                await self._news.wait()
        return self.told


async def test_a_result_and_what_was_raised_are_told_in_the_loop() -> None:
    pool: DeadlinePool[int] = DeadlinePool(LONG)
    told = Outcomes()
    pool.run(lambda: 7, told)
    assert await told.reach(1) == [7]
    pool.run(lambda: 1 // 0, told)
    assert isinstance((await told.reach(2))[1], ZeroDivisionError)
    assert set(told.threads) == {threading.main_thread()}


async def test_the_call_runs_in_a_thread_that_does_not_hold_up_the_end_of_the_process() -> None:
    pool: DeadlinePool[tuple[bool, bool]] = DeadlinePool(LONG)
    told = Outcomes()
    main = threading.main_thread()
    pool.run(lambda: (threading.current_thread() is main, threading.current_thread().daemon), told)
    assert await told.reach(1) == [(False, True)]


async def test_what_blocks_is_overdue_and_is_not_told_again_when_it_comes_back() -> None:
    pool: DeadlinePool[str] = DeadlinePool(SOON)
    told, gate = Outcomes(), threading.Event()
    pool.run(lambda: _after(gate), told)
    (overdue,) = await told.reach(1)
    assert isinstance(overdue, DeadlineExceeded)
    assert str(overdue) == "no answer within 0.05s"
    gate.set()
    pool.run(lambda: "next", told)
    assert (await told.reach(2))[1] == "next"


def _after(gate: threading.Event) -> str:
    gate.wait()
    return "late"


async def test_others_are_served_beside_one_that_blocks() -> None:
    pool: DeadlinePool[str] = DeadlinePool(LONG, size=2)
    told, gate = Outcomes(), threading.Event()
    pool.run(lambda: _after(gate), told)
    for number in range(3):
        pool.run(lambda number=number: f"quick {number}", told)  # type: ignore[misc]
    assert await told.reach(3) == ["quick 0", "quick 1", "quick 2"]
    gate.set()
    await told.reach(4)


async def test_no_more_than_its_seats_run_at_once() -> None:
    pool: DeadlinePool[str] = DeadlinePool(LONG, size=2)
    told, gate, running = Outcomes(), threading.Event(), []

    def call() -> str:
        running.append(threading.current_thread())
        return _after(gate)

    for _ in range(5):
        pool.run(call, told)
    assert len(running) <= 2
    gate.set()
    assert await told.reach(5) == ["late"] * 5


async def test_once_all_seats_are_lost_everybody_is_told_at_once() -> None:
    pool: DeadlinePool[str] = DeadlinePool(SOON, size=2)
    told, gate = Outcomes(), threading.Event()
    for _ in range(4):
        pool.run(lambda: _after(gate), told)
    kinds = [type(each) for each in await told.reach(4)]
    assert kinds == [DeadlineExceeded, DeadlineExceeded, PoolSaturated, PoolSaturated]
    pool.run(lambda: "hopeless", told)
    assert str(told.told[-1]) == "2 calls have not come back; once one does, it is asked again"
    gate.set()
    await _until(lambda: not pool._running)
    pool.run(lambda: "seats again", told)
    assert (await told.reach(6))[-1] == "seats again"


async def _until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_an_overdue_thread_is_left_alone() -> None:
    """Whatever was raised in it would come anywhere, in the middle of another library that holds a lock, say."""
    pool: DeadlinePool[str] = DeadlinePool(SOON, size=1)
    told, gate, ended = Outcomes(), threading.Event(), []

    def call() -> str:
        while not gate.wait(0.001):
            pass
        ended.append("by itself")
        return "late"

    pool.run(call, told)
    assert isinstance((await told.reach(1))[0], DeadlineExceeded)
    pool.run(lambda: "hopeless", told)
    assert isinstance((await told.reach(2))[1], PoolSaturated)
    gate.set()
    await _until(lambda: not pool._running)
    assert ended == ["by itself"]


async def test_a_call_that_ends_its_thread_is_no_silence() -> None:
    pool: DeadlinePool[str] = DeadlinePool(LONG)
    told = Outcomes()

    def leave() -> str:
        raise SystemExit(1)

    pool.run(leave, told)
    assert isinstance((await told.reach(1))[0], DeadlineExceeded)


def test_a_call_that_outlives_its_loop_disturbs_nobody() -> None:
    gate, ended = threading.Event(), threading.Event()

    def call() -> str:
        gate.wait()
        ended.set()
        return "late"

    async def ask() -> None:
        DeadlinePool[str](LONG).run(call, lambda _: None)
        await anyio.lowlevel.checkpoint()

    anyio.run(ask)
    gate.set()
    assert ended.wait(10)
