"""Calls of strangers, in threads: each outcome is told once, in time, and who never comes back costs a seat and no more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import anyio
import anyio.lowlevel
import pytest

from multikueue.runtime import DeadlineExceeded, DeadlinePool, PoolSaturated

pytestmark = pytest.mark.anyio


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
