"""The console beside the demo."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import anyio
import pytest
from yarl import URL

from multikueue.api import kinds
from multikueue.errors import ConfigurationError
from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.kube.client import Client
from multikueue_console.web.sessions import COOKIE
from multikueue_simulator.demo.stage import page as module
from multikueue_simulator.demo.stage.page import page
from multikueue_simulator.serving.serve import Plan, Sandbox

pytestmark = pytest.mark.anyio


async def presser(web: aiohttp.ClientSession, link: str) -> Callable[[str, str], Awaitable[int]]:
    """What presses a button as a browser does that came by the link, and returns the status."""
    url = URL(link).origin()
    async with web.get(link, allow_redirects=False) as answer:
        headers = {"Origin": str(url), "Cookie": f"{COOKIE}={answer.cookies[COOKIE].value}"}

    async def press(button: str, cluster: str) -> int:
        async with web.post(url / f"api/buttons/{button}", data={"cluster": cluster}, headers=headers) as answer:
            return answer.status

    return press


async def test_its_link_opens_the_console_on_the_clusters_of_the_demo(tmp_path: Path) -> None:
    async with (
        Sandbox(Plan(workers=0), folder=tmp_path) as sandbox,
        page(sandbox["manager"].kubeconfig(), "manager", should_open=False) as opened,
        aiohttp.ClientSession() as web,
        web.get(opened.link, allow_redirects=False) as answer,
    ):
        assert answer.status == 303


async def test_buttons_that_are_pressed_there_are_told_with_their_cluster(tmp_path: Path) -> None:
    async with Sandbox(Plan(workers=0), folder=tmp_path) as sandbox:
        kubeconfig = sandbox["manager"].kubeconfig()
        async with Client.connect(await from_kubeconfig(kubeconfig)) as client:
            named = {"apiVersion": kinds.MULTIKUEUE_CLUSTERS.api_version, "kind": kinds.MULTIKUEUE_CLUSTERS.kind}
            where = {"kubeConfig": {"location": "east", "locationType": "Secret"}}
            east = {**named, "metadata": {"name": "east"}, "spec": {"clusterSource": where}}
            await client.create(kinds.MULTIKUEUE_CLUSTERS, "", east)
        shown = {"buttons": {"burst": "Submit jobs"}, "cluster_buttons": {"kill": "Kill"}}
        async with page(kubeconfig, "manager", **shown, should_open=False) as opened, aiohttp.ClientSession() as web:
            press = await presser(web, opened.link)
            with anyio.fail_after(10):
                while await press("kill", "east") != 200:  # noqa: ASYNC110  # the console has not seen it yet
                    await anyio.sleep(0.05)
            others = [("kill", "nowhere"), ("kill", ""), ("burst", "east"), ("nothing", "")]
            assert [await press(*each) for each in others] == [404] * 4
            assert await press("burst", "") == 200
            with anyio.fail_after(10):
                assert [await anext(opened.pressed), await anext(opened.pressed)] == [("kill", "east"), ("burst", "")]


@pytest.mark.timeout(60)
def test_a_demo_that_is_terminated_leaves_no_console_behind() -> None:
    command = [sys.executable, "-m", "multikueue", "demo", "--web", "--keep", "--jobs", "1"]
    env = {**os.environ, "BROWSER": "true", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as demo:
        assert demo.stdout is not None, "it is a pipe"
        said = next(line for line in demo.stdout if "in the browser: " in line)
        demo.terminate()
        assert demo.wait(30) == -signal.SIGTERM
    url = URL(said.split()[-1])
    assert url.host is not None
    while True:  # until nobody listens there, or the test has taken too long
        try:
            socket.create_connection((url.host, url.port or 80)).close()
        except ConnectionRefusedError:
            break
        time.sleep(0.1)


async def test_without_the_console_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _name: None)

    with pytest.raises(ConfigurationError, match="multikueue-console"):
        async with page(tmp_path, "manager"):
            pass
