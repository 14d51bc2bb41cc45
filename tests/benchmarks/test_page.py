"""Each table has its place on the page of figures, and what stands around it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import WORKS
from benchmarks.page import FIGURES, put


def test_a_text_goes_between_its_marker_and_the_next_end(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n<!-- a -->\nold\n<!-- end -->\n\n<!-- b -->\nother\n<!-- end -->\nrest\n")
    for _ in range(2):
        put(page, "a", "new")
        assert page.read_text() == (
            "# Title\n\n<!-- a -->\n\nnew\n\n<!-- end -->\n\n<!-- b -->\nother\n<!-- end -->\nrest\n"
        )


@pytest.mark.parametrize("text", ["text\n", "<!-- a -->\n", "<!-- end -->\n<!-- a -->\n"])
def test_a_page_without_such_a_place_is_left_alone(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match=r"page\.md has no <!-- a -->"):
        put(page, "a", "new")
    assert page.read_text() == text


@pytest.mark.parametrize("name", ["bench", "engine", "events", "jobs", "plots", "sharing", *WORKS])
def test_the_page_of_figures_has_a_place_for_each_table(name: str) -> None:
    text = FIGURES.read_text()
    assert text.count(f"<!-- {name} -->") == 1
    assert "<!-- end -->" in text.partition(f"<!-- {name} -->")[2]
