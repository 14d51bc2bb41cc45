"""What is shown of the engine's speed."""

from __future__ import annotations

from benchmarks.engine import as_markdown, as_text
from benchmarks.replay import BASELINE, Outcome, crowded

PUBLISHED = [Outcome(BASELINE, seconds=3.0, waited={"small": 79910.0, "medium": 53775.0, "large": 0.0})]
CROWDS = [Outcome(crowded(size), seconds=size * 250e-6) for size in (1_000, 10_000)]


def test_a_line_per_run() -> None:
    first, second, third = as_text(PUBLISHED, CROWDS).splitlines()[1:]
    assert first.split()[:5] == ["baseline", "15000", "3.0", "10", "200"]
    assert "small 79910 (215468)" in first
    assert first.endswith("pass")
    assert [line.split()[-1] for line in (second, third)] == ["250", "250"]


def test_the_docs_get_tables_and_a_chart() -> None:
    text = as_markdown(PUBLISHED, CROWDS)
    assert "| 10000 | 250 |" in text
    assert "line [250, 250]" in text
