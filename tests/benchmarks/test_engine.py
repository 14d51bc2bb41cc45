"""What is shown of the engine's speed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.engine import as_markdown, as_text, into_docs
from benchmarks.replay import BASELINE, Outcome, crowded

PUBLISHED = [Outcome(BASELINE, seconds=3.0, waited={"small": 79910.0, "medium": 53775.0, "large": 0.0})]
CROWDS = [Outcome(crowded(size), seconds=size * 250e-6) for size in (1_000, 10_000)]


def test_a_line_per_run() -> None:
    first, second, third = as_text(PUBLISHED, CROWDS).splitlines()[1:]
    assert first.split()[:5] == ["baseline", "15000", "3.0", "10", "200"]
    assert "small 79910 (215468)" in first
    assert first.endswith("pass")
    assert [line.split()[-1] for line in (second, third)] == ["250", "250"]


def test_the_page_gets_tables_and_a_chart(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    page.write_text("# Speed\n\n<!-- engine -->\n\nold\n")
    into_docs(PUBLISHED, CROWDS, page)
    text = page.read_text()
    assert text == f"# Speed\n\n<!-- engine -->\n\n{as_markdown(PUBLISHED, CROWDS)}\n"
    assert "| 10000 | 250 |" in text
    assert "line [250, 250]" in text


def test_a_page_without_a_place_for_them_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    page.write_text("# Speed\n")
    with pytest.raises(ValueError, match="<!-- engine -->"):
        into_docs(PUBLISHED, CROWDS, page)
