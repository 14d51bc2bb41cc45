"""The turnstile: nobody waits for one who is stuck, and no place is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import pytest

from multikueue.runtime.concurrency.turnstile import Turnstile

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
