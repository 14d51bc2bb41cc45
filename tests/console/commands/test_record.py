from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from multikueue.api.kinds import WORKLOADS
from multikueue_console.history.runs import Run
from multikueue_console.history.store import RunHistory
from tests.cli.conftest import World
from tests.console.history.lives import at, finished, running

PATIENCE = 20.0


@contextmanager
def recording(url: str) -> Iterator[subprocess.Popen[str]]:
    """The program, from when it says that it records. It is killed in the end."""
    words = [sys.executable, "-m", "multikueue", "record", "--history", url, "-n", "team", "--detail", "36500d"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            assert process.stderr is not None
            assert "Recording workloads of team" in process.stderr.readline()
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def until(history: RunHistory, holds: Callable[[dict[str, Run]], bool]) -> dict[str, Run]:
    """The runs by name, once that holds."""
    deadline = monotonic() + PATIENCE
    while True:
        found = {run.name: run for run in history.runs()}
        if holds(found):
            return found
        assert monotonic() < deadline, {name: (run.workload, run.outcome) for name, run in found.items()}
        sleep(0.05)


def test_a_recorder_that_is_killed_goes_on_where_it_was(world: World, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    history = RunHistory.open(url)
    world.manager.add(WORKLOADS, running("one").build())
    world.manager.add(WORKLOADS, running("gone").build())

    with recording(url):
        until(history, lambda runs: runs.keys() == {"one", "gone"})

    world.manager.add(WORKLOADS, finished("one", end=100))
    world.manager.drop(WORKLOADS, running("gone").build().key)
    world.manager.add(WORKLOADS, finished("two", end=90))
    with recording(url):
        runs = until(history, lambda runs: len(runs) == 3 and all(run.outcome for run in runs.values()))

    assert {name: run.outcome for name, run in runs.items()} == {
        "one": "succeeded",
        "two": "succeeded",
        "gone": "unknown",
    }
    assert runs["one"].ended_at == at(100)
    history.close()


def test_another_database_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    words = [sys.executable, "-m", "multikueue", "record", "--history", "mysql://x"]
    assert subprocess.run(words, check=False, timeout=60).returncode == 2
    assert "sqlite:///FILE" in capfd.readouterr().err
