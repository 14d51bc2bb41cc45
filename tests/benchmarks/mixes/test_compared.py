"""What is told of strategies: the same jobs for all, in a table, a page and lines of JSON; and what choosing gains."""

from __future__ import annotations

from dataclasses import fields

import pytest

from benchmarks.mixes.columns import TITLES, Columns
from benchmarks.mixes.compared import PAGE, Scene, as_json, as_markdown, as_text, measure
from benchmarks.mixes.contestants import CONTESTANTS

SMALL = Scene(clusters=5, days=0.3)
SEEDS = (1, 2)


@pytest.fixture(scope="module")
def found() -> dict[str, list[Columns]]:
    return measure(SMALL, SEEDS, ("race", "room", "hedge", "price"))


def test_each_column_has_a_title() -> None:
    assert list(TITLES) == [each.name for each in fields(Columns)]


def test_the_table_has_a_line_for_each_column(found: dict[str, list[Columns]]) -> None:
    lines = as_text(SMALL, found).splitlines()
    assert lines[0] == "seren, 5 unequal clusters, load 0.9, 0.3 days"
    assert len(lines) == 2 + len(TITLES)
    assert as_markdown(found).count("\n") == 1 + len(TITLES)


def test_lines_of_json_name_scene_strategy_and_seed(found: dict[str, list[Columns]]) -> None:
    lines = list(as_json(SMALL, SEEDS, found))
    assert [(line["strategy"], line["seed"]) for line in lines[:2]] == [("race", 1), ("race", 2)]
    assert {"mix", "clusters", "load", "mean", "writes"} <= lines[0].keys()


def test_one_copy_by_room_needs_few_writes_and_preempts_for_nobody_who_loses(found: dict[str, list[Columns]]) -> None:
    for race, room in zip(found["race"], found["room"], strict=True):
        assert room.by_losers == room.held == 0
        assert room.writes < race.writes / 2
        assert room.copies < 1.2


def test_price_saves_money(found: dict[str, list[Columns]]) -> None:
    for race, price in zip(found["race"], found["price"], strict=True):
        assert price.money < race.money


def test_the_page_plays_all_mixes_and_three_sizes_and_loads() -> None:
    assert {scene.mix for scene in PAGE} == {"seren", "philly", "helios", "pai", "openb"}
    assert {scene.clusters for scene in PAGE} == {3, 10, 40}
    assert {scene.load for scene in PAGE} == {0.6, 0.9, 1.1}
    assert {scene.equal for scene in PAGE} == {True, False}
    assert all(each.title for each in CONTESTANTS.values())
