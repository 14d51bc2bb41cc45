"""What a report of figures says to programs, and to readers of the docs."""

from __future__ import annotations

import json

from benchmarks.report import Report, as_json, as_markdown
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


def test_the_tables_for_the_docs_name_their_command_and_machine() -> None:
    text = as_markdown(REPORT)
    assert text.startswith("`python -m benchmarks` on 2 cores:\n\n| figure |")
    assert text.endswith("|")
