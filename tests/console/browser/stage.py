"""A simulated fleet with the console on it, and a real browser in front: what `make test-console` and its pictures use."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.kube.client import Client
from multikueue.runtime import SystemClock
from multikueue.settings import InForce
from multikueue_console.commands.acts import ACTIONS
from multikueue_console.history.outlook import Forecast
from multikueue_console.history.store import RunHistory
from multikueue_console.watch.fleet_watch import FleetWatch
from multikueue_console.web.rights import OpenAccess
from multikueue_console.web.server import Connect, ConsoleServer, Options
from multikueue_simulator.demo.stage import options as demo
from multikueue_simulator.demo.stage.served import serve
from multikueue_simulator.world import objects
from multikueue_simulator.world.processes import ManagerProcess
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World

__all__ = ["Show", "browser", "fleet", "page_on"]

LAYOUT = Layout(
    queues=(Share("research", 12), Share("training", 16), Share("nightly", 6)),
    workers=(Share("frankfurt", 6), Share("oslo", 10), Share("dublin", 14)),
)
JOBS = (
    ("research", "embed", 2, 1, 500),
    ("research", "tokenize", 1, 3, 400),
    ("research", "ablation", 2, 1, 900),
    ("training", "finetune", 4, 1, 600),
    ("training", "distill", 2, 2, 700),
    ("training", "reward-model", 6, 1, 800),
    ("nightly", "report", 1, 1, 3),
    ("nightly", "evaluate", 2, 1, 300),
)


@dataclass(slots=True)
class Show:
    """The world, its manager and the console's server."""

    world: World
    manager: ManagerProcess
    watch: FleetWatch
    server: ConsoleServer
    history: RunHistory
    starts: dict[ObjectKey, Forecast | None]
    connect: Connect
    url: str

    def submit(self, name: str, queue: str, *, cpu: int = 1, pods: int = 1, seconds: float = 600) -> None:
        body = objects.job(name, NAMESPACE, queue=queue, cpu=cpu, parallelism=pods, seconds=seconds)
        self.world.manager.create(kinds.JOBS, body)

    def busy(self) -> None:
        """Jobs enough that some run, some wait, and one can never run."""
        for number in range(4):
            for queue, name, cpu, pods, seconds in JOBS:
                self.submit(f"{name}-{number + 1}", queue, cpu=cpu, pods=pods, seconds=seconds)
        self.submit("huge", "training", cpu=64)

    async def until(self, holds: Any) -> None:
        with anyio.fail_after(30):
            while not holds():  # noqa: ASYNC110  # it looks at the world's objects, which tell nobody
                await anyio.sleep(0.05)


@asynccontextmanager
async def fleet(folder: Path) -> AsyncIterator[Show]:
    """The fleet with its manager, and the console on it as on a laptop, with a history in the folder."""
    clock, play = SystemClock(), demo.play_of(demo.Options())
    world = World(LAYOUT, clock=clock, seed=1)
    world.apply_fixtures()
    settings = demo.settings_of(demo.Options(), play, webhook=False)
    manager = world.add_manager("manager-0", InForce(settings, demo.timings_of(demo.Options())))
    history = RunHistory.open(f"sqlite:///{folder / 'history.db'}")
    async with serve(world) as served, anyio.create_task_group() as tasks:
        await world.start(tasks)
        await manager.begin(tasks).wait()
        credentials = await from_kubeconfig(served.kubeconfig, "manager")
        async with Client.connect(credentials) as client:
            watch = FleetWatch(client, ("",), clock)

            @asynccontextmanager
            async def connect(_person: object) -> AsyncIterator[Client]:
                yield client

            await tasks.start(watch.run)
            starts: dict[ObjectKey, Forecast | None] = {}
            options = Options(name="demo", actions=ACTIONS)
            server = ConsoleServer(watch, OpenAccess(), connect, clock, options, history=history, starts=lambda: starts)
            async with server.serving() as url:
                yield Show(world, manager, watch, server, history, starts, connect, url)
            tasks.cancel_scope.cancel()
    history.close()
    for site in world.sites:
        await site.cluster.admission.aclose()


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Chromium from the system, or from CHROMIUM."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        await opened.close()


@dataclass(slots=True)
class Watched:
    """A page, and what it must not have: errors, and requests to elsewhere."""

    page: Page
    errors: list[str]
    elsewhere: list[str]


@asynccontextmanager
async def page_on(
    browser_: Browser,
    server: ConsoleServer,
    path: str = "/",
    *,
    theme: str = "light",
    width: int = 1440,
    height: int = 900,
    zone: str | None = None,
) -> AsyncIterator[Watched]:
    """A page of a new browser profile, logged in by a link of its own."""
    context: BrowserContext = await browser_.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
        bypass_csp=False,
        timezone_id=zone,
    )
    page = await context.new_page()
    seen = Watched(page, [], [])
    page.on("console", lambda told: seen.errors.append(told.text) if told.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(server.url) else seen.elsewhere.append(asked.url))
    await page.goto(f"{server.url}/login?ticket={server.sessions.ticket()}")
    if path != "/":
        await page.goto(server.url + path)
    await page.wait_for_selector("#live.on")
    yield seen
    await context.close()
