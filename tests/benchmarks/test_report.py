"""What a report of figures says to programs, and how it gets into the README."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.report import Report, as_json, into_readme
from tests.benchmarks.builders import figures, peer

REPORT = Report(command="python -m benchmarks", machine={"cores": "2 cores"}, sides={"ours": figures(), "peer": peer()})


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
