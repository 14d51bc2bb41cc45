"""The tables and plots of kinds of work on the page of figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.figures import at_most
from benchmarks.lines import Point, itself
from benchmarks.performance import into_docs
from benchmarks.plot import PLOTS


def test_the_page_gets_tables_and_plots_between_their_markers(tmp_path: Path) -> None:
    page = tmp_path / "figures.md"
    marked = "".join(f"<!-- {name} -->\n{name} of old\n<!-- end -->\n" for name in ("growth", "burst", "plots"))
    page.write_text(f"Before.\n{marked}After.\n")
    lines = {"growth": [itself("turn", 150.0, at_most(100))]}
    points = [Point(PLOTS[0].name, "ours", 0, 9.0), Point(PLOTS[0].name, "ours", 80, 8.0)]
    for _ in range(2):
        into_docs(lines, points, page)
    text = page.read_text()
    assert "| turn | ≤ 100 | 150 |  |  |  | MISSED |" in text
    assert ("growth of old" in text, "burst of old" in text, "plots of old" in text) == (False, True, False)
    assert (text.count("<picture>"), text.startswith("Before."), text.endswith("After.\n")) == (1, True, True)
    assert sorted(each.name for each in (tmp_path / "plots").iterdir()) == [
        f"{PLOTS[0].name}-dark.svg",
        f"{PLOTS[0].name}-light.svg",
    ]


def test_a_plot_without_new_points_stays(tmp_path: Path) -> None:
    page = tmp_path / "figures.md"
    page.write_text("<!-- plots -->\n<!-- end -->\n")
    into_docs({}, [Point(PLOTS[1].name, "ours", 3, 9.0)], page)
    into_docs({}, [Point(PLOTS[0].name, "ours", 0, 9.0)], page)
    text = page.read_text()
    assert text.index(PLOTS[0].title) < text.index(PLOTS[1].title)


def test_a_page_without_the_marker_of_a_kind_of_work_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "figures.md"
    page.write_text("Nothing.")
    with pytest.raises(ValueError, match="has no <!-- growth -->"):
        into_docs({"growth": []}, [], page)
