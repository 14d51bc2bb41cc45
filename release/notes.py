"""The notes of a release: its section of CHANGELOG.md."""

from __future__ import annotations

import re

from release.source import ReleaseError

__all__ = ["notes"]

_SECTION = r"^## \[{name}\][^\n]*\n(.*?)(?=^## |\Z)"


def notes(changelog: str, version: str) -> str:
    """What CHANGELOG.md says of a version, and under `Unreleased` where it has no section of its own yet.

    Raises ReleaseError where there is neither.
    """
    for name in (re.escape(version), "Unreleased"):
        if found := re.search(_SECTION.format(name=name), changelog, re.MULTILINE | re.DOTALL):
            return f"# {version}\n\n{found[1].strip()}\n"
    raise ReleaseError(f"CHANGELOG.md has no section [{version}] and none [Unreleased]")
