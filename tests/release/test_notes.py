"""The notes of a release are its section of the changelog, which is made of the files in changes/."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from release.notes import notes, section
from release.source import ReleaseError
from tests.project.files import ROOT

EPOCH = 1_790_000_000
KINDS = {"added", "changed", "removed"}
CHANGELOG = """# Changelog

## [Unreleased]

<!-- Versions are written below. -->

## [0.2.0] - 2026-11-30

### Added

- Two.

## [0.1.0] - 2026-01-01

- One.
"""


def folder_with(path: Path, **changes: str) -> Path:
    """A source with that changelog, the project's way to write it, and some changes by name and kind."""
    (path / "changes").mkdir()
    (path / "CHANGELOG.md").write_text(CHANGELOG)
    for name in ("pyproject.toml", "changes/template.md", "changes/README.md"):
        shutil.copyfile(ROOT / name, path / name)
    for name, text in changes.items():
        (path / "changes" / f"+{name.replace('__', '.')}.md").write_text(text)
    return path


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.2.0", "### Added\n\n- Two."), ("0.1.0", "- One."), ("0.3.0", None)],
    ids=["a section in between", "the last section", "a version without one"],
)
def test_a_section_is_what_stands_below_the_heading_of_a_version(version: str, expected: str | None) -> None:
    assert section(CHANGELOG, version) == expected


def test_a_version_that_is_written_down_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, three__added="Three.")

    assert notes(folder, "0.2.0", epoch=EPOCH) == "# 0.2.0\n\n### Added\n\n- Two.\n"
    assert (folder / "CHANGELOG.md").read_text() == CHANGELOG


def test_a_new_version_is_made_of_the_files_by_kind(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, a__changed="Other\nthan before.\n", b__added="More.\n", c__added="And more.\n")

    told = notes(folder, "0.3.0", epoch=EPOCH)

    assert told == "# 0.3.0\n\n### Added\n\n- And more.\n- More.\n\n### Changed\n\n- Other\n  than before.\n"
    written = (folder / "CHANGELOG.md").read_text()
    assert re.findall(r"^## .*", written, re.MULTILINE)[:3] == [
        "## [Unreleased]",
        "## [0.3.0] - 2026-09-21",
        "## [0.2.0] - 2026-11-30",
    ]
    assert {path.name for path in (folder / "changes").iterdir()} == {"README.md", "template.md"}


def test_a_source_that_cannot_say_it_is_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / "changes/template.md").write_text("{% if %}")

    with pytest.raises(ReleaseError, match="towncrier"):
        notes(folder, "0.3.0", epoch=EPOCH)


def test_the_files_of_the_project_are_of_a_known_kind_and_end_in_the_notes(tmp_path: Path) -> None:
    named = [path.name for path in (ROOT / "changes").iterdir() if path.name not in {"README.md", "template.md"}]
    assert [name for name in named if not re.fullmatch(rf"\+[a-z0-9-]+\.({'|'.join(KINDS)})\.md", name)] == []

    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "changes", tmp_path / "changes")
    told = notes(tmp_path, "0.1.0", epoch=EPOCH)

    assert "### Added" in told
    assert "The first release." in told
