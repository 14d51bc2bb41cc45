"""The site has each page once, in the layout of the repository, and nothing that leads nowhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from release.site import COMMANDS, linked, pages, stage
from tests.project.files import DOCS, ROOT
from tests.project.test_commands import COMMANDS as ALL

BESIDE = {COMMANDS, "deploy/chart/README.md"}
"""Pages that are made, and pages of a part of the repository."""


def test_each_page_is_in_it_once() -> None:
    counted = Counter(pages(ROOT))

    assert {page: count for page, count in counted.items() if count > 1} == {}
    assert set(counted) == {str(path.relative_to(ROOT)) for path in DOCS} | BESIDE


def test_what_a_page_shows_comes_along(tmp_path: Path) -> None:
    stage(ROOT, tmp_path / "pages")

    assert (tmp_path / "pages/docs/demo.svg").is_file()
    assert (tmp_path / "pages/docs/plots/pause-dark.svg").is_file()
    assert (tmp_path / "pages/docs/client.ipynb").is_file()


def test_the_help_of_each_command_is_a_section(tmp_path: Path) -> None:
    stage(ROOT, tmp_path / "pages")

    lines = (tmp_path / "pages" / COMMANDS).read_text().splitlines()

    assert {f"## multikueue {name}" for name in ALL} <= set(lines)


@pytest.mark.parametrize("link", ["[x](nowhere.md)", '<img src="nowhere.svg">'])
def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path, link: str) -> None:
    (tmp_path / "page.md").write_text(link)

    with pytest.raises(FileNotFoundError):
        linked(tmp_path, "page.md")


def test_links_elsewhere_and_to_places_of_a_page_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("[a](https://example.com/x) [b](#here) [c](page.md#there)")

    assert linked(tmp_path, "page.md") == {"page.md"}
