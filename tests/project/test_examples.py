"""What the READMEs of the two libraries show as a program is one that runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.files import blocks, read

EXAMPLES = [
    (path, number, text)
    for path in ("fakekube/README.md", "simulator/README.md")
    for number, text in enumerate(blocks(read(path), "python"), start=1)
]


@pytest.mark.parametrize("text", [text for _, _, text in EXAMPLES], ids=[f"{path} {n}" for path, n, _ in EXAMPLES])
def test_an_example_runs(text: str, tmp_path: Path) -> None:
    program = tmp_path / "example.py"
    program.write_text(text)

    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_each_of_them_shows_one() -> None:
    assert {path for path, _, _ in EXAMPLES} == {"fakekube/README.md", "simulator/README.md"}
