"""Keys: what each does to the world, and what a viewer has chosen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from multikueue.api import kinds
from multikueue_simulator.demo.scripts.story import story
from multikueue_simulator.demo.stage.hands import BURST, Hands
from multikueue_simulator.demo.stage.stage import Stage
from tests.simulator.demo.stage.on_stage import on_stage


def with_hands(test: Callable[[Hands], Awaitable[None]], *, jobs: int = 3) -> None:
    async def main(stage: Stage) -> None:
        await test(Hands(stage))

    on_stage(story(workers=3, jobs=jobs, seed=1), main)


async def press(hands: Hands, *keys: str) -> None:
    for key in keys:
        await hands.press(key)


def said(hands: Hands) -> str:
    return hands.stage.board.act


def test_a_worker_is_killed_and_brought_back_by_the_same_key() -> None:
    async def test(hands: Hands) -> None:
        await press(hands, "2", "k")
        assert (hands.stage.director.dead, said(hands)) == (["medium"], "you kill medium")
        await press(hands, "k")
        assert (hands.stage.director.dead, said(hands)) == ([], "you bring back medium")

    with_hands(test)


def test_a_network_hangs_and_is_repaired_by_the_same_key() -> None:
    async def test(hands: Hands) -> None:
        await press(hands, "1", "h")
        assert hands.stage.director.hanging == {"small"}
        await press(hands, "h")
        assert hands.stage.director.hanging == set()

    with_hands(test)


def test_buttons_of_a_page_do_what_keys_do_to_the_worker_they_name() -> None:
    async def test(hands: Hands) -> None:
        director, told = hands.stage.director, []
        for button, worker in (("kill", "medium"), ("return", "medium"), ("hang", "small"), ("recover", "small")):
            await hands.push(button, worker)
            told.append((said(hands), [*director.dead], {*director.hanging}))
        assert told == [
            ("you kill medium", ["medium"], set()),
            ("you bring back medium", [], set()),
            ("you let hang the network to small", [], {"small"}),
            ("you repair the network to small", [], set()),
        ]
        await hands.push("burst", "")
        assert hands.stage.jobs == 3 + BURST
        await hands.push("strategy", "")
        await hands.push("manager", "")
        assert director.is_manager_down

    with_hands(test)


@pytest.mark.parametrize(("button", "worker"), [("kill", "nowhere"), ("kill", ""), ("nothing", "small")])
def test_other_buttons_do_nothing(button: str, worker: str) -> None:
    async def test(hands: Hands) -> None:
        await hands.push(button, worker)
        assert (hands.stage.director.dead, said(hands)) == ([], "")

    with_hands(test)


def test_a_burst_and_a_dead_manager_lose_no_job() -> None:
    async def test(hands: Hands) -> None:
        await press(hands, "b", "m")
        assert hands.stage.jobs == 3 + BURST
        with anyio.fail_after(120):
            while hands.stage.board.finished < 3:  # noqa: ASYNC110
                await anyio.sleep(0.5)
        assert (hands.stage.director.manager.runs, hands.stage.board.repeated) == (2, 0)

    with_hands(test)


def test_strategies_go_round_while_the_manager_runs() -> None:
    async def test(hands: Hands) -> None:
        for expected in ("incremental", "all-at-once", "incremental"):
            await press(hands, "s")
            (check,) = hands.stage.world.manager.all(kinds.ADMISSION_CHECKS)
            assert check["metadata"]["annotations"]["multikueue.dev/strategy"] == expected

    with_hands(test)


def test_arrows_go_round_the_jobs_that_are_not_over() -> None:
    async def test(hands: Hands) -> None:
        await press(hands, "down")
        assert hands.hand.job == ""
        for job in hands.stage.play.script.submissions:
            await hands.stage.submit(job)
        names = [job.name for job in hands.stage.play.script.submissions]
        seen = []
        for key in ("down", "down", "up", "up"):
            await press(hands, key)
            seen.append(hands.hand.job)
        assert seen == [names[0], names[1], names[0], names[-1]]

    with_hands(test)


@pytest.mark.parametrize("key", ["x", "9", "0", "escape", "w"])
def test_other_keys_do_nothing(key: str) -> None:
    async def test(hands: Hands) -> None:
        before = hands.hand
        await press(hands, key)
        assert (hands.hand, hands.is_done, said(hands)) == (before, False, "")

    with_hands(test)


def test_a_viewer_who_has_seen_enough_may_leave() -> None:
    async def test(hands: Hands) -> None:
        await press(hands, "q")
        assert hands.is_done

    with_hands(test)
