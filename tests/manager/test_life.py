"""One life of a manager: for what it waits, and what it says of it; its whole course is in tests/real."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import anyio
import pytest
from structlog.testing import capture_logs

from multikueue.api.meta import ObjectKey
from multikueue.errors import ConfigurationError
from multikueue.manager import life
from multikueue.manager.life import Manager
from multikueue.manager.readiness import STANDSTILL, Readiness
from multikueue.roles import Runnables
from multikueue.runtime import Clock
from multikueue.settings import BESIDE_KUEUE, EXTERNAL_DISPATCHER, InForce, Role, Settings
from multikueue.settings.tree import Webhook
from multikueue.testing import NOW
from multikueue.web.server import Server
from tests.cluster import Cluster
from tests.controllers.table import table

pytestmark = pytest.mark.anyio


async def test_a_webhook_does_not_start_without_the_authority_that_it_was_told_of(tmp_path: Path) -> None:
    settings = Settings(webhook=Webhook(enabled=True, client_ca_file=tmp_path / "none"))
    manager = Manager(InForce(settings), Cluster("manager", lambda: NOW))
    with pytest.raises(ConfigurationError, match="none: expected certificates in PEM"):
        await manager._serve_webhook(cast("Server", None))


async def test_workers_that_were_not_reached_yet_and_a_webhook_that_does_not_stand_are_told_as_such() -> None:
    contact = anyio.Event()
    manager = Manager(InForce(Settings(webhook=Webhook(enabled=True))), Cluster("manager", lambda: NOW))
    manager.readiness = Readiness(caches=[], has_webhook=True)
    runnables = Runnables(watches=(), cluster_loops=(), contact=contact.wait, loops=())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(manager._connect, tasks, runnables)
        await anyio.wait_all_tasks_blocked()
        assert manager.readiness.problem == "workers: no first contact yet"
        contact.set()
    assert manager.readiness.problem == "webhook: not in place yet"


@pytest.mark.parametrize(("roles", "told"), [(EXTERNAL_DISPATCHER, True), (BESIDE_KUEUE, False)])
async def test_a_webhook_that_kueue_has_already_is_warned_of(
    roles: frozenset[Role], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def kept(*_words: object, **_more: object) -> None:
        return None

    monkeypatch.setattr(life, "keep_webhook", kept)
    settings = Settings(roles=roles, webhook=Webhook(enabled=True))
    with capture_logs() as logs:
        await Manager(InForce(settings), Cluster("manager", lambda: NOW))._serve_webhook(cast("Server", None))
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == ["webhook.not_needed"] * told


async def test_a_scrape_says_that_dispatch_stands_still_though_nobody_asks_for_readiness() -> None:
    now = [NOW, NOW + STANDSTILL]
    world = table()
    manager = Manager(InForce(Settings()), world.manager, clock=cast("Clock", SimpleNamespace(now=lambda: now[0])))
    parts = manager.assemble()
    render = manager._renderer(parts.context, parts.observer)
    parts.context.queues.workloads.add(ObjectKey("team", "waits"))

    found = []
    for _ in range(2):
        found.append(re.findall(r"^multikueue_dispatch_stalled (\S+)$", (await render()).decode(), re.MULTILINE))
        now.pop(0)

    assert found == [["0.0"], ["1.0"]]
