from __future__ import annotations

import pytest

from multikueue.api.meta import ObjectKey
from multikueue_console.terminal import views
from multikueue_console.terminal.views import Line, TextTable
from tests.console.terminal.fleets import LATER, a_fleet


def test_workloads_that_are_not_over_come_first_with_their_places_and_reasons() -> None:
    table = views.workloads(a_fleet())
    rows = [dict(zip(table.titles, line.cells, strict=True)) for line in table.lines]
    assert [(row["JOB"], row["STATE"], row["CLUSTER"], row["#"]) for row in rows] == [
        ("job/bert", "Starting", "east", ""),
        ("job/llama-0", "Pending", "", "1"),
        ("job/llama-1", "Pending", "", "2"),
        ("job/llama-2", "Pending", "", "3"),
        ("job/eval", "Finished", "west", ""),
    ]
    assert rows[1]["WHY"]
    assert rows[1]["AGE"] == "90m"


def test_workloads_of_a_queue_or_of_a_cluster() -> None:
    assert [line.key for line in views.workloads(a_fleet(), of="west").lines] == ["team-b/eval"]
    assert len(views.workloads(a_fleet(), of="research").lines) == 4


def test_queues_have_a_line_for_each_resource_and_say_why_they_admit_nothing() -> None:
    table = views.queues(a_fleet())
    rows = {line.cells[0]: dict(zip(table.titles, line.cells, strict=True)) for line in table.lines}
    assert rows["research"]["QUOTA"] == "8 nvidia.com/gpu of a100"
    assert rows["product"]["WHY NOT"]


def test_clusters_tell_what_is_there() -> None:
    table = views.clusters(a_fleet())
    rows = [dict(zip(table.titles, line.cells, strict=True)) for line in table.lines]
    assert [(row["CLUSTER"], row["STARTING"], row["DONE"]) for row in rows] == [("east", "1", ""), ("west", "", "1")]


TABLE = TextTable(
    ("NAME", "AGE"),
    tuple(Line(name, (name, age)) for name, age in (("b10", "2h"), ("a", "90s"), ("c", ""), ("b9", "1d"))),
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("", ["b10", "a", "c", "b9"], id="nothing is all"),
        pytest.param("B 2H", ["b10"], id="each word must be in some cell, in any case"),
        pytest.param("!b", ["a", "c"], id="a word after ! must be in none"),
    ],
)
def test_filters(words: str, expected: list[str]) -> None:
    assert [line.key for line in views.filtered(TABLE, words).lines] == expected


def test_ages_are_sorted_by_time_and_empty_cells_come_last() -> None:
    assert [line.key for line in views.sorted_by(TABLE, 1).lines] == ["a", "b10", "b9", "c"]
    assert [line.key for line in views.sorted_by(TABLE, 1, is_falling=True).lines] == ["b9", "b10", "a", "c"]


def test_a_story_says_why_it_waits_where_it_stands_and_what_happened() -> None:
    story = a_fleet().story(ObjectKey("team-a", "llama-1"))
    assert story is not None
    lines = views.story_lines(story, LATER)
    assert "Place:     2 of 3" in lines
    assert "Starts:    soon" in views.story_lines(story, LATER, "soon")
    assert any(line.strip().endswith("Submitted") for line in lines)
    ran = a_fleet().story(ObjectKey("team-a", "bert"))
    assert ran is not None
    assert any("Won on east" in line for line in views.story_lines(ran, LATER))


def test_what_a_terminal_would_obey_is_not_shown() -> None:
    assert views.plain("a\tb \x1b[2Jc\r") == "a       b \N{REPLACEMENT CHARACTER}[2Jc\N{REPLACEMENT CHARACTER}"
    assert views.plain("größer ✓") == "größer ✓"
