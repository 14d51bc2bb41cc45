"""The demo, played quickly: it ends by itself with every job done, and it can be kept for kubectl."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import ssl
import subprocess
import sys
import termios
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from typing import Any, Self

import aiohttp
import anyio
import pytest
import yaml
from rich.console import Console

from multikueue_simulator.demo.stage import show
from multikueue_simulator.demo.stage import stage as stages
from multikueue_simulator.demo.stage.options import Options
from multikueue_simulator.demo.stage.show import play

pytestmark = pytest.mark.anyio


async def test_it_ends_with_every_job_done_and_says_what_happened() -> None:
    text = StringIO()
    assert await play(Options(jobs=12, speed=10, workers=2), Console(file=text, width=120))
    shown = text.getvalue()
    assert re.search(r"(small|medium) dies", shown)
    assert re.search(r"(small|medium) comes back", shown)
    assert "the manager is killed" in shown
    assert "a burst: 4 jobs at once" in shown
    assert re.search(r"jobs finished +12\b", shown)
    assert re.search(r"ran twice without need +0\b", shown)


async def test_a_job_that_never_ends_is_told_by_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "PATIENCE", -30.0)
    monkeypatch.setattr(show, "_is_ready", lambda _manager: True)
    assert not await play(Options(jobs=2, speed=10, workers=1), Console(file=StringIO()))


async def test_kept_clusters_are_served_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    text = StringIO()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(play, Options(jobs=1, speed=10, workers=1, keep=True), Console(file=text, width=200))
        with anyio.fail_after(30):
            while "ran twice without need" not in text.getvalue():  # noqa: ASYNC110
                await anyio.sleep(0.05)
        told = text.getvalue()
        assert told.startswith("export KUBECONFIG="), "the way to look is told before the drama"
        assert "multikueue why job-001\n" in told, "the only job that there is"
        with anyio.fail_after(30):
            while "go on until Ctrl-C; the keys of the terminal are off" not in text.getvalue():  # noqa: ASYNC110
                await anyio.sleep(0.05)
        file = anyio.Path(re.findall(r"KUBECONFIG=(\S+)", text.getvalue())[0])
        jobs = await _get(file, "/apis/batch/v1/namespaces/default/jobs")
        assert [job["metadata"]["name"] for job in jobs["items"]] == ["job-001"]
        clusters = yaml.safe_load(await file.read_text())
        assert [each["name"] for each in clusters["contexts"]] == ["manager", "large"]
        checked = await _said("clusters", "check", "--kubeconfig", str(file))
        assert "API server  " in checked, "by the URLs and tokens in the manager's Secrets"
        assert not re.search("unreachable|missing|fail", checked), checked
        tasks.cancel_scope.cancel()
    assert not await file.exists()


async def _said(*words: str) -> str:
    done = await anyio.run_process([sys.executable, "-m", "multikueue", *words], stderr=subprocess.STDOUT)
    return done.stdout.decode()


async def _get(file: anyio.Path, path: str) -> dict[str, list[dict[str, dict[str, str]]]]:
    config = yaml.safe_load(await file.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
    headers = {"Authorization": f"Bearer {user['token']}"}
    url = cluster["server"] + path
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url, ssl=tls) as answer:
        found: dict[str, list[dict[str, dict[str, str]]]] = await answer.json()
        return found


async def test_both_managers_are_told_side_by_side() -> None:
    text = StringIO()
    assert await play(Options(jobs=4, speed=10, workers=2, versus=True), Console(file=text, width=120))
    shown = text.getvalue()
    assert re.search(r"^this manager, live +: .* jobs finished", shown, re.MULTILINE)
    assert re.search(r"^Kueue's own, as measured: .* small hangs: nothing is admitted anywhere", shown, re.MULTILINE)
    assert re.search(r"jobs that never finish +0 +\d", shown)


async def test_on_a_terminal_keys_act_and_ask_and_ctrl_c_leaves_it_as_it_was() -> None:
    with Terminal("demo", "--jobs", "60", "--workers", "2", "--speed", "3") as terminal:  # no end before the keys
        before = terminal.attributes
        await terminal.shows("chosen, by 1-9")
        terminal.press("1kh")
        await terminal.shows("you let hang the network to small")
        terminal.press("w")
        await terminal.shows("$ multikueue why")
        terminal.press("m")
        await terminal.shows("you kill the manager")
        terminal.press("\x03")
        assert await terminal.code() == 130
        assert terminal.attributes == before
        assert "Traceback" not in terminal.text


class Terminal:
    """Our command on a pseudo-terminal of 80 columns, and its keyboard."""

    def __init__(self, *words: str) -> None:
        self._ours, self._theirs = pty.openpty()
        termios.tcsetwinsize(self._theirs, (24, 80))
        os.set_blocking(self._ours, False)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "multikueue", *words],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env={**os.environ, "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=self._take,
        )
        self.text = ""

    def _take(self) -> None:
        fcntl.ioctl(self._theirs, termios.TIOCSCTTY, 0)  # so that Ctrl-C becomes a signal
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a shell has its background jobs ignore

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for each in (self._ours, self._theirs):
            os.close(each)

    @property
    def attributes(self) -> list[Any]:
        return termios.tcgetattr(self._theirs)

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    async def shows(self, text: str) -> None:
        """Wait until this was shown since the last key."""
        await self._until(lambda: text in self.text)
        self.text = self.text[self.text.index(text) + len(text) :]

    async def code(self) -> int:
        await self._until(lambda: self._process.poll() is not None)
        return self._process.returncode

    async def _until(self, holds: Callable[[], bool]) -> None:
        with anyio.move_on_after(30):  # below the limit of a test, so that a failure shows the screen
            while not holds() and self._process.poll() is None:
                self._read()
                await anyio.sleep(0.02)
            self._read()
        assert holds(), self.text[-3000:]

    def _read(self) -> None:
        with suppress(BlockingIOError, OSError):
            while data := os.read(self._ours, 65536):
                self.text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode(errors="replace"))
