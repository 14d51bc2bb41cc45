"""Plots and the page they are on."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.figures import at_most
from benchmarks.lines import Point, itself
from benchmarks.performance import into_docs
from benchmarks.plot import DARK, LIGHT, PLOTS, Plot, svg

SVG = "{http://www.w3.org/2000/svg}"
PLOT = Plot("rate", "Rate <of> jobs", "clusters", "jobs/s", goal=5)
POINTS = [Point("rate", side, x, y) for side in ("ours", "peer") for x, y in ((3, 9.0), (30, 8.0), (300, 8.5))]


def drawn(plot: Plot = PLOT) -> ElementTree.Element:
    return ElementTree.fromstring(svg(plot, [*POINTS, Point("another", "ours", 1, 1)], LIGHT))


def test_a_plot_has_a_line_for_each_side_and_a_dot_for_each_point() -> None:
    root = drawn()
    assert len(root.findall(f"{SVG}polyline")) == 2
    assert len(root.findall(f"{SVG}circle")) == len(POINTS)
    texts = [each.text for each in root.findall(f"{SVG}text")]
    assert {"Rate <of> jobs", "clusters", "jobs/s", "goal", "ours", "peer", "300"} <= set(texts)


def test_equal_factors_are_equally_far_apart_on_a_logarithmic_axis() -> None:
    across = sorted({float(each.attrib["cx"]) for each in drawn().findall(f"{SVG}circle")})
    assert across[1] - across[0] == pytest.approx(across[2] - across[1], abs=0.2)


def test_names_of_sides_do_not_lie_over_one_another() -> None:
    heights = [float(each.attrib["y"]) for each in drawn().findall(f"{SVG}text") if each.text in ("ours", "peer")]
    assert abs(heights[0] - heights[1]) >= 14


def test_light_and_dark_differ_in_colours_only() -> None:
    light, dark = (re.sub("#[0-9a-f]{6}", "#", svg(PLOT, POINTS, theme)) for theme in (LIGHT, DARK))
    assert light == dark
    assert svg(PLOT, POINTS, LIGHT) != svg(PLOT, POINTS, DARK)


def test_without_points_there_is_no_plot() -> None:
    with pytest.raises(ValueError, match="no points of rate"):
        svg(PLOT, [], LIGHT)


def test_the_page_gets_tables_and_plots_between_their_markers(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    marked = "".join(f"<!-- {name} -->\n{name} of old\n<!-- end -->\n" for name in ("growth", "burst", "plots"))
    page.write_text(f"Before.\n{marked}After.\n")
    lines = {"growth": [itself("turn", 150.0, at_most(100))]}
    points = [Point(PLOTS[0].name, "ours", 0, 9.0), Point(PLOTS[0].name, "ours", 80, 8.0)]
    for _ in range(2):
        into_docs(lines, points, tmp_path)
    text = page.read_text()
    assert "| turn | ≤ 100 | 150 |  |  |  | MISSED |" in text
    assert ("growth of old" in text, "burst of old" in text, "plots of old" in text) == (False, True, False)
    assert (text.count("<picture>"), text.startswith("Before."), text.endswith("After.\n")) == (1, True, True)
    assert sorted(each.name for each in (tmp_path / "plots").iterdir()) == [
        f"{PLOTS[0].name}-dark.svg",
        f"{PLOTS[0].name}-light.svg",
    ]


def test_a_plot_without_new_points_stays(tmp_path: Path) -> None:
    (tmp_path / "performance.md").write_text("<!-- plots -->\n<!-- end -->\n")
    into_docs({}, [Point(PLOTS[1].name, "ours", 3, 9.0)], tmp_path)
    into_docs({}, [Point(PLOTS[0].name, "ours", 0, 9.0)], tmp_path)
    text = (tmp_path / "performance.md").read_text()
    assert text.index(PLOTS[0].title) < text.index(PLOTS[1].title)


def test_a_page_without_the_marker_of_a_kind_of_work_is_refused(tmp_path: Path) -> None:
    (tmp_path / "performance.md").write_text("Nothing.")
    with pytest.raises(ValueError, match="has no <!-- growth -->"):
        into_docs({"growth": []}, [], tmp_path)
