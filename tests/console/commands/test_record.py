from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import monotonic, sleep
from typing import Any, ClassVar

import pytest

from multikueue.api.kinds import WORKLOADS
from multikueue_console.history.runs import Run
from multikueue_console.history.store import RunHistory
from tests.cli.conftest import World
from tests.console.history.lives import at, finished, running, submitted

PATIENCE = 20.0


@contextmanager
def recording(url: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The program, from when it says that it records. It is killed in the end."""
    words = [sys.executable, "-m", "multikueue", "record", "--history", url, "-n", "team", "--detail", "36500d", *more]
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


class Hook(BaseHTTPRequestHandler):
    """Takes notices in."""

    taken: ClassVar[SimpleQueue[dict[str, Any]]] = SimpleQueue()

    def do_POST(self) -> None:  # as http.server calls it
        self.taken.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextmanager
def hook() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_with_a_file_of_notices_it_tells_what_starts(world: World, tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=1)
    file = tmp_path / "notices.yaml"
    with hook() as address:
        file.write_text(f"{{to: '{address}', queues: [{{queue: team/main, notices: [started]}}]}}")
        with recording(f"sqlite:///{tmp_path / 'history.db'}", "--notices", str(file)):
            started = submitted("new").reserved("cq", at=now).cluster_name("east").admitted(at=now)
            for each in (running("old"), started):
                world.manager.in_its_thread(world.manager.add, WORKLOADS, each.build())
            event = Hook.taken.get(timeout=PATIENCE)
    assert (event["subject"], event["type"]) == ("team/new", "dev.multikueue.workload.started")
    assert Hook.taken.empty()


def test_notices_of_runs_that_are_kept_no_more_are_refused(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "notices.yaml"
    file.write_text("{to: 'https://a', within: 2d, queues: [{queue: team/main, notices: [started]}]}")
    words = [sys.executable, "-m", "multikueue", "record", "--notices", str(file), "--detail", "1d"]
    assert subprocess.run(words, check=False, timeout=60).returncode == 2
    assert "within: expected at most the time for which runs are kept" in capfd.readouterr().err
