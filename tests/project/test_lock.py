"""What is installed here, in CI and in the image: the versions of uv.lock, with the hashes that it has, from PyPI."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from tests.project.files import ROOT, read

FILES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "requirements").iterdir())
HASHED = re.compile(r"^[\w.-]+==[\w.]+( ; [^\\\n]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+$", re.MULTILINE)


def exports() -> dict[str, list[str]]:
    """The files that pip installs from, and how `make lock` writes them to its output."""
    plan = subprocess.run(
        ["make", "--dry-run", "lock", f"VENV={sys.prefix}"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    commands = [shlex.split(line) for line in plan.splitlines() if " export " in line]
    return {command[-1]: command[: command.index("--output-file")] for command in commands}


@pytest.mark.parametrize("path", FILES)
def test_what_pip_installs_from_is_what_the_lock_says_and_the_lock_what_the_project_says(path: str) -> None:
    exported = subprocess.run(exports()[path], cwd=ROOT, capture_output=True, text=True)

    assert exported.returncode == 0, f"`make lock` rewrites it: {exported.stderr}"
    assert read(path) == exported.stdout, "`make lock` rewrites it"


@pytest.mark.parametrize("path", FILES)
def test_each_requirement_has_one_version_and_its_hashes(path: str) -> None:
    assert HASHED.sub("", read(path)).strip() == ""


def test_it_comes_from_the_public_index_and_from_nowhere_else() -> None:
    hosts = {urlsplit(url).netloc for url in re.findall(r"https?://[^\"\s]+", read("uv.lock"))}

    assert hosts == {"pypi.org", "files.pythonhosted.org"}
