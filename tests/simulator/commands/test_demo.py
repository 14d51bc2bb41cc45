"""`multikueue demo` as a user starts it: in a process of its own, as it sets the logs of its process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def demo(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "multikueue", "demo", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def test_it_shows_the_main_job_ends_by_itself_and_leaves_a_recording(tmp_path: Path) -> None:
    ended = demo("--jobs", "6", "--speed", "10", "--record", str(tmp_path / "demo.cast"))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "jobs finished" in ended.stdout
    head, *frames = [json.loads(line) for line in (tmp_path / "demo.cast").read_text().splitlines()]
    assert head["version"] == 2
    assert "".join(text for _, _, text in frames).replace("\r\n", "\n") == ended.stdout


def test_an_unknown_strategy_is_a_mistake_of_the_user() -> None:
    ended = demo("--strategy", "no-such")
    assert ended.returncode == 2
    assert "no-such" in ended.stderr
    assert "Traceback" not in ended.stderr
