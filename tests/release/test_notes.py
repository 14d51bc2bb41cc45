"""The notes of a release are its section of the changelog."""

from __future__ import annotations

import pytest

from release.notes import notes
from release.source import ReleaseError
from tests.project.files import read

CHANGELOG = """# Changelog

## [Unreleased]

Next.

## [0.2.0] - 2026-11-30

### Added

- Two.

## [0.1.0] - 2026-01-01

- One.
"""


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.2.0", "# 0.2.0\n\n### Added\n\n- Two.\n"),
        ("0.1.0", "# 0.1.0\n\n- One.\n"),
        ("0.3.0", "# 0.3.0\n\nNext.\n"),
    ],
    ids=["a section in between", "the last section", "what has no section yet"],
)
def test_the_section_of_the_version_is_taken(version: str, expected: str) -> None:
    assert notes(CHANGELOG, version) == expected


def test_a_changelog_with_nothing_of_it_is_refused() -> None:
    with pytest.raises(ReleaseError, match="no section"):
        notes("# Changelog\n", "0.1.0")


def test_the_changelog_of_the_project_has_notes() -> None:
    assert "### Added" in notes(read("CHANGELOG.md"), "0.1.0")
