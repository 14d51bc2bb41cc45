"""Lines of results: ratios decide, and what was not measured is not judged."""

from __future__ import annotations

from pathlib import Path

from benchmarks.figures import at_least, at_most, typical
from benchmarks.lines import Line, Point, as_lines, beside, grown, itself, keep, read_lines, read_points
from tests.benchmarks.builders import figures


def test_a_ratio_to_another_side_decides() -> None:
    reached = beside("rate", "script", at_least(0.95), ours=9.8, script=10.0, peer=1.0)
    assert reached == Line("rate", "≥ 0.95 x script", 9.8, 1.0, 10.0, 0.98, ok=True)
    assert beside("rate", "script", at_least(0.95), ours=9.4, script=10.0).ok is False


def test_a_side_that_was_not_measured_judges_nobody() -> None:
    line = beside("rate", "peer", at_least(2), ours=9.8, script=10.0)
    assert (line.ratio, line.ok) == (None, None)


def test_a_ratio_without_a_goal_is_told_and_not_judged() -> None:
    line = beside("CPU", "peer", None, ours=2.0, peer=4.0)
    assert (line.goal, line.ratio, line.ok) == ("", 0.5, None)


def test_a_figure_alone_is_judged_itself() -> None:
    assert itself("turn", 99.0, at_most(100)).ok is True
    assert itself("turn", 101.0, at_most(100)).ok is False
    assert itself("turn", None, at_most(100)).ok is None
    assert itself("strangers", 3.0).ok is None


def test_a_row_is_judged_by_its_first() -> None:
    line = grown("30 clusters: rate", "the fewest", at_least(0.9), unit=10.0, ours=9.5)
    assert (line.goal, line.ratio, line.ok) == ("≥ 0.9 x the fewest", 0.95, True)


def test_results_are_lines_of_json_that_can_be_read_again(tmp_path: Path) -> None:
    line, point = itself("turn", 12.345678, at_most(100)), Point("rest-cpu", "ours", 10, 0.5)
    keep("growth", [line], [point], tmp_path)
    keep("growth", [line], [point], tmp_path)
    assert read_lines(tmp_path) == {"growth": [line]}
    assert read_points(tmp_path) == [point]
    fields = '{"figure":"turn","goal":"≤ 100","ours":12.35,"peer":null,"script":null,"ratio":null,"ok":true}\n'
    assert as_lines([line]) == fields


def test_rounds_of_a_side_are_one_by_their_medians() -> None:
    rounds = [
        figures(dispatch_rate=9.0, cpu_ms=30.0, unfinished=1),
        figures(dispatch_rate=12.0, cpu_ms=10.0),
        figures(dispatch_rate=10.0, cpu_ms=11.0, unfinished=1),
    ]
    found = typical(rounds)
    assert (found.dispatch_rate, found.cpu_ms, found.unfinished, found.jobs) == (10.0, 11.0, 2, 100)
