"""The notes of a release: its section of CHANGELOG.md, which towncrier makes of the files in changes/."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from release.source import ReleaseError

__all__ = ["notes", "section"]

_SECTION = r"^## \[{name}\][^\n]*\n(.*?)(?=^## |\Z)"


def notes(folder: Path, version: str, *, epoch: int) -> str:
    """What a version's section of CHANGELOG.md says, in a folder with the source.

    Where there is none yet, it is written there first, as `make notes` does it, with the day of `epoch` (seconds).
    Raises ReleaseError where it cannot be written.
    """
    changelog = folder / "CHANGELOG.md"
    found = section(changelog.read_text(), version)
    if found is None:
        _write(folder, version, epoch)
        found = section(changelog.read_text(), version)
    if found is None:
        raise ReleaseError(f"CHANGELOG.md has no section [{version}]")
    return f"# {version}\n\n{found}\n"


def section(changelog: str, version: str) -> str | None:
    """What a changelog says of a version, without the heading; None if it says nothing."""
    found = re.search(_SECTION.format(name=re.escape(version)), changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else None


def _write(folder: Path, version: str, epoch: int) -> None:
    day = datetime.fromtimestamp(epoch, UTC).date().isoformat()
    command = [sys.executable, "-m", "towncrier", "build", "--yes", "--version", version, "--date", day]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        raise ReleaseError(f"towncrier: {(ran.stderr or ran.stdout).strip()}")
