"""Plots of figures."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks.lines import Point
from benchmarks.plot import DARK, LIGHT, Plot, svg

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
