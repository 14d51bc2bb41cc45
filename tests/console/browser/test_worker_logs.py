"""Pods and logs of workers in a real browser: over the manager's visibility API, with the rights of who looks."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest
from playwright.async_api import Browser, Page

from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.kube.auth.tokens import FixedToken
from multikueue.kube.client import Client
from multikueue.runtime import SystemClock
from multikueue_console.watch.fleet_watch import FleetWatch, scope_of
from multikueue_console.web.rights import Person, ReviewedAccess
from multikueue_console.web.server import ConsoleServer, Options
from multikueue_simulator.serving.serve import MANAGER
from tests.answers.made import USER
from tests.answers.test_namespace_user import TEAM, Stage, _serving, asks, stage  # noqa: F401  # the fixture
from tests.console.browser.stage import browser
from tests.console.web.test_server import may_list

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

VIEWER = "viewer"
"""Sees workloads, and no pods."""


@pytest.fixture(name="anyio_backend")
def _anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def console(stage: Stage) -> AsyncIterator[ConsoleServer]:  # noqa: F811
    """For many people, on the manager of the stage."""
    mine = await from_kubeconfig(stage.sandbox[MANAGER].kubeconfig("admin"))
    clock = SystemClock()

    @asynccontextmanager
    async def connect(person: Person) -> AsyncIterator[Client]:
        own = replace(mine, token=FixedToken(f"Bearer {person.token}"), certificate=b"", key=b"")
        async with Client.connect(own) as client:
            yield client

    async with Client.connect(mine) as admin, anyio.create_task_group() as tasks:
        await may_list(admin, VIEWER, TEAM)
        watch = FleetWatch(admin, await scope_of(admin, [], TEAM), clock)
        await tasks.start(watch.run)
        server = ConsoleServer(watch, ReviewedAccess(admin, clock.monotonic), connect, clock, Options())
        async with server.serving():
            yield server
        tasks.cancel_scope.cancel()


async def log_in(page: Page, server: ConsoleServer, token: str) -> None:
    await page.goto(server.url)
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_selector("#live.on")
    await page.goto(f"{server.url}/workloads")
    await page.get_by_role("link", name="job/first").click()
    await page.get_by_role("heading", name="Timeline").wait_for()


async def test_pods_and_logs_of_a_worker_are_shown_to_who_may_see_them(stage: Stage) -> None:  # noqa: F811
    await _serving(stage)
    await stage.submit("first", asks())
    worker = (await stage.comes_to("first", "Running"))["cluster"]
    users = stage.sandbox[MANAGER].cluster.users
    users.add(VIEWER, token="of-the-viewer")
    async with console(stage) as server, browser() as chrome:
        page = await _page(chrome)
        await log_in(page, server, users.token(USER))
        await page.get_by_role("tab", name="Pods").click()
        pod = page.get_by_role("row").filter(has_text="Running")
        await pod.get_by_role("cell", name="first-").wait_for()
        await page.get_by_role("tab", name="Log").click()
        log = page.locator("pre[aria-label=Log]").filter(has_text=f"begins on {worker}")
        await log.wait_for()
        so_far = len(re.findall("step", await log.inner_text()))
        await log.filter(has_text=re.compile(rf"step +{so_far + 2} ")).wait_for()

        page = await _page(chrome)
        await log_in(page, server, users.token(VIEWER))
        for tab in ("Pods", "Log"):
            await page.get_by_role("tab", name=tab).click()
            await page.get_by_text("Not seen: ").filter(has_text="forbidden").wait_for()
        assert await page.locator("pre[aria-label=Log]").count() == 0


async def _page(chrome: Browser) -> Page:
    return await (await chrome.new_context()).new_page()
