from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, RichLog, Static

from multikueue.api.meta import ObjectKey
from multikueue_console.terminal.app import TopApp, WorkloadAction
from tests.builders.workloads import workload
from tests.console.terminal.fleets import FixedFleet, a_fleet
from tests.console.terminal.picture import picture
from tests.project.files import read

pytestmark = pytest.mark.anyio

SIZES = pytest.mark.parametrize("size", [(80, 24), (240, 60)], ids=["80x24", "240x60"])


async def logs(key: ObjectKey) -> AsyncIterator[str]:
    for number in range(3):
        yield f"[{key.name}] epoch {number}\x1b"


def app(fleet: FixedFleet | None = None, act: WorkloadAction | None = None) -> TopApp:
    return TopApp(fleet or a_fleet(), title="all namespaces", logs=logs, act=act)


def names(pilot: Pilot[None]) -> list[str]:
    table = pilot.app.screen_stack[0].query_one(DataTable)
    return [str(key.value) for key in table.rows]


def text_of(pilot: Pilot[None], which: str) -> str:
    return str(pilot.app.screen.query_one(which, Static).content)


async def typed(pilot: Pilot[None], text: str) -> None:
    await pilot.press(*("slash" if each == "/" else "colon" if each == ":" else each for each in text))


@SIZES
async def test_it_begins_with_the_workloads(size: tuple[int, int]) -> None:
    async with app().run_test(size=size) as pilot:
        assert names(pilot)[0] == "team-a/bert"
        assert "workloads (5)  all namespaces" in text_of(pilot, "#title")


@SIZES
async def test_a_command_changes_the_view_and_enter_goes_into_a_row(size: tuple[int, int]) -> None:
    async with app().run_test(size=size) as pilot:
        await typed(pilot, ":clusters")
        await pilot.press("enter")
        assert names(pilot) == ["east", "west"]
        await pilot.press("j", "enter")
        assert names(pilot) == ["team-b/eval"]
        await pilot.press("escape")
        assert names(pilot) == ["east", "west"]
        await typed(pilot, ":q")
        await pilot.press("enter")
        assert names(pilot) == ["product/0", "research/0"]


async def test_a_filter_works_as_it_is_typed_and_escape_clears_it() -> None:
    async with app().run_test() as pilot:
        await typed(pilot, "/llama")
        assert len(names(pilot)) == 3
        await pilot.press("enter")
        assert "/llama" in text_of(pilot, "#facts")
        await pilot.press("escape")
        assert len(names(pilot)) == 5


async def test_rows_are_sorted_by_a_column_and_the_other_way_round() -> None:
    async with app().run_test() as pilot:
        await pilot.press("s", "s")
        assert names(pilot)[0] == "team-a/bert"
        await pilot.press("S")
        assert names(pilot)[0] == "team-a/llama-2"


async def test_a_story_and_its_logs() -> None:
    async with app().run_test(size=(100, 40)) as pilot:
        await pilot.press("enter")
        assert "Won on east" in text_of(pilot, "#story")
        await pilot.press("l")
        await pilot.pause()
        lines = [line.text for line in pilot.app.screen.query_one(RichLog).lines]
        assert lines == [
            *(f"[bert] epoch {number}\N{REPLACEMENT CHARACTER}" for number in range(3)),
            "The logs end here.",
        ]
        await pilot.press("escape", "escape")
        assert names(pilot)


async def test_what_changes_is_drawn_and_the_cursor_stays_on_its_row() -> None:
    fleet = a_fleet()
    async with app(fleet).run_test() as pilot:
        await pilot.press("j")
        fleet.show(workload("aaa", namespace="team-a").queue("train").build())
        shown = pilot.app
        assert isinstance(shown, TopApp)
        shown.refresh_table()
        assert len(names(pilot)) == 6
        assert shown._chosen() == "team-a/llama-0"


async def test_help_lists_the_keys() -> None:
    async with app().run_test() as pilot:
        await pilot.press("question_mark")
        assert "follow the logs" in text_of(pilot, "#help")
        assert "cancel" not in text_of(pilot, "#help")
        await pilot.press("escape")
        assert names(pilot)


async def test_without_actions_no_key_changes_anything() -> None:
    async with app().run_test() as pilot:
        await pilot.press("d")
        await pilot.pause()
        assert any("--actions" in each.message for each in pilot.app._notifications)


@pytest.mark.parametrize(("answer", "expected"), [("y", [("cancel", "bert")]), ("n", [])])
async def test_an_action_is_done_after_a_yes(answer: str, expected: list[tuple[str, str]]) -> None:
    done: list[tuple[str, str]] = []

    async def act(verb: str, key: ObjectKey) -> str:
        done.append((verb, key.name))
        return "done"

    async with app(act=act).run_test() as pilot:
        await pilot.press("d")
        await pilot.pause()
        assert "Cancel team-a/bert?" in text_of(pilot, "#help")
        await pilot.press(answer)
        await pilot.pause()
        assert done == expected


async def test_an_unknown_command_is_told() -> None:
    async with app().run_test() as pilot:
        await typed(pilot, ":moon")
        await pilot.press("enter")
        await pilot.pause()
        assert any("moon" in each.message for each in pilot.app._notifications)


async def test_the_picture_in_the_docs_is_as_it_is_drawn() -> None:
    assert read("docs/top.svg") == await picture()
