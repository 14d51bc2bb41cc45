"""How figures are printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.report import Report, as_json, as_markdown, as_text, into_readme
from tests.benchmarks.builders import figures, peer

REPORT = Report(command="python -m benchmarks", machine={"cores": "2 cores"}, sides={"ours": figures(), "peer": peer()})


def lines_with(text: str, label: str) -> list[str]:
    return [line for line in text.splitlines() if label in line]


def test_the_table_has_a_line_per_figure_with_both_sides_ratio_target_and_verdict() -> None:
    (line,) = lines_with(as_text(REPORT), "dispatch of a burst")
    assert line.split()[4:] == ["jobs/s", "12.00", "1.20", "10.00", "≥", "10", "x", "peer", "pass"]


def test_markdown_says_command_and_machine_and_is_tables() -> None:
    where, *tables = as_markdown(REPORT).split("\n\n")
    assert where == "`python -m benchmarks` on 2 cores:"
    assert tables[0].startswith("| figure | ours | peer | ratio | target |  |\n| --- |")
    assert tables[1].startswith("| ratio of one run | value | target |  |\n| --- |")
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_json_has_what_was_measured_and_the_verdicts() -> None:
    tree = json.loads(as_json(REPORT))
    assert tree["sides"]["peer"]["cpu_ms"] == 58.0
    assert tree["rows"][0]["met"] is True
    assert tree["ratios"][1]["met"] is True


def test_missed_targets_are_listed() -> None:
    report = Report(command="", machine={}, sides={"ours": figures(unfinished=2), "peer": peer()})
    assert report.missed == ["jobs of the burst that never finished"]
    assert REPORT.missed == []


def test_the_readme_gets_the_table_below_its_marker_and_keeps_the_rest(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# a\n\n## Figures\n\n<!-- bench -->\n\nold\n\n## Next\n\ntext\n")
    into_readme(REPORT, readme)
    text = readme.read_text()
    assert text.startswith("# a\n\n## Figures\n\n<!-- bench -->\n\n`python -m benchmarks` on 2 cores:")
    assert text.endswith("|\n\n## Next\n\ntext\n")
    assert "old" not in text


def test_the_readme_can_be_written_again(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("<!-- bench -->\n")
    into_readme(REPORT, readme)
    once = readme.read_text()
    into_readme(REPORT, readme)
    assert readme.read_text() == once


def test_a_readme_without_the_marker_is_left_alone(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("text\n")
    with pytest.raises(ValueError, match="<!-- bench -->"):
        into_readme(REPORT, readme)
    assert readme.read_text() == "text\n"
