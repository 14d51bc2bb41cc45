"""The map in CONTRIBUTING.md leads to places that are there."""

from __future__ import annotations

import re

from tests.project.files import ROOT

PACKAGE = ROOT / "multikueue"


def places() -> list[str]:
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where is what")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and "Question" not in line]
    return [place for row in rows for place in re.findall(r"`([a-z_/]+)`", row.split("|")[2])]


def test_every_place_on_the_map_is_there() -> None:
    missing = [
        place for place in places() if not (PACKAGE / place).is_dir() and not (PACKAGE / f"{place}.py").is_file()
    ]
    assert missing == []


def test_there_are_twenty_questions_at_least() -> None:
    assert len(places()) >= 20
