"""The demo, played quickly: it ends by itself with every job done, and it can be kept for kubectl."""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
from base64 import b64decode
from io import StringIO

import aiohttp
import anyio
import pytest
import yaml
from rich.console import Console

from multikueue_simulator.demo import show
from multikueue_simulator.demo.show import Options, play

pytestmark = pytest.mark.anyio


async def test_it_ends_with_every_job_done_and_says_what_happened() -> None:
    text = StringIO()
    assert await play(Options(jobs=12, speed=10, workers=2), Console(file=text, width=120))
    shown = text.getvalue()
    assert "medium dies" in shown
    assert "medium comes back" in shown
    assert "a burst: 4 jobs at once" in shown
    assert re.search(r"jobs finished +12\b", shown)
    assert re.search(r"ran twice at no need +0\b", shown)


async def test_a_job_that_never_ends_is_told_by_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "PATIENCE", -30.0)
    monkeypatch.setattr(show, "_is_ready", lambda _manager: True)
    assert not await play(Options(jobs=2, speed=10, workers=1), Console(file=StringIO()))


async def test_kept_clusters_are_served_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    text = StringIO()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(play, Options(jobs=1, speed=10, workers=1, keep=True), Console(file=text, width=200))
        with anyio.fail_after(30):
            while "ran twice at no need" not in text.getvalue():  # noqa: ASYNC110
                await anyio.sleep(0.05)
        told = text.getvalue()
        assert told.index("KUBECONFIG=") < told.index("jobs finished"), "the way to look is told before the drama"
        file = anyio.Path(re.findall(r"KUBECONFIG=(\S+)", text.getvalue())[0])
        jobs = await _get(file, "/apis/batch/v1/namespaces/default/jobs")
        assert [job["metadata"]["name"] for job in jobs["items"]] == ["job-001"]
        clusters = yaml.safe_load(await file.read_text())
        assert [each["name"] for each in clusters["contexts"]] == ["manager", "small"]
        assert "small" in await _said("--kubeconfig", str(file), "events", "job-001"), "our commands get to the workers"
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
