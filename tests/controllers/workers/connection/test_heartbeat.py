"""The heartbeat of a worker, over HTTP: what an answer means, and when the next one is due."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from multikueue.api.meta import ObjectKey
from multikueue.controllers.workers.connection.heartbeat import RECHECK, TIME_TO_STAND
from multikueue.controllers.workers.connection.outbox import Outbox
from multikueue.dispatch.remote import Reach
from multikueue.errors import ClusterUnreachable
from multikueue.kube.reflector import Reflector
from multikueue.store.workers.worker import NEVER
from multikueue.testing import NOW
from tests.controllers.workers.connection.line import (
    QUICK,
    connected,
    connecting,
    never_asked,
)
from tests.controllers.workers.worker_server import worker_server

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("trouble", ["heartbeats", "watches"])
async def test_a_worker_is_asked_in_vain_for_as_long_as_it_is_away(trouble: str) -> None:
    async with worker_server("one") as server, connecting(server) as line:
        if trouble == "watches":
            server.lacks = {"workloads"}
        else:
            server.tokens.clear()
        await line.until(lambda: line.worker.link.reach is Reach.ISOLATED)
        never_asked(line)
        line.world.time += TIME_TO_STAND + timedelta(seconds=1)
        await line.until(lambda: line.worker.link.last_failed_probe != NEVER)
        server.tokens, server.lacks = {"one"}, set()
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
        assert not line.worker.is_lost(NOW + timedelta(days=1), timedelta(minutes=1))


async def test_a_worker_that_answers_again_has_a_while_for_its_watches_to_stand() -> None:
    async with worker_server("one") as server, connecting(server) as line:
        server.lacks = {"workloads"}
        await line.until(lambda: line.worker.link.reach is Reach.ISOLATED)
        never_asked(line)
        line.world.time += TIME_TO_STAND
        server.asked.clear()
        await line.until(lambda: server.uses("one").count("GET api") > 2)
        assert line.worker.link.last_failed_probe == NEVER


async def test_watches_do_not_rest_while_their_worker_shows_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reflector, "_pause_after", lambda *_: 3600.0)
    async with worker_server("one") as server, connecting(server) as line:
        server.lacks = {"workloads"}
        await line.until(lambda: "no kind Workload" in line.worker.why)
        server.lacks = set()
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)


async def test_a_worker_that_answers_heartbeats_only_is_not_asked_without_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each call that fails asks for a heartbeat, and each heartbeat lets the call be tried again."""
    tried = []

    async def fails(_outbox: Outbox, key: ObjectKey, _plan: object) -> bool:
        tried.append(key)
        raise ClusterUnreachable("w1", "the answer is no JSON")

    async with worker_server("one") as server, connected(server) as line:
        line.connection.settings = QUICK.model_copy(update={"heartbeat_interval": timedelta(hours=1)})
        line.world.submit()
        await line.world.settle()
        monkeypatch.setattr(Outbox, "_may_create", fails)
        made = line.world.workload()["metadata"]
        line.world.queues.outboxes["w1"].add(ObjectKey(made["namespace"], made["name"]))
        await line.until(lambda: len(tried) == 2)
        began = anyio.current_time()
        await line.until(lambda: len(tried) == 4)
        assert anyio.current_time() - began > RECHECK.total_seconds()


async def test_who_waits_for_the_loss_of_a_worker_is_told_of_it() -> None:
    async with worker_server("one") as server:
        server.put("Workload", "job-a", "u1")
        async with connected(server) as line:
            server.tokens.clear()
            await line.until(lambda: line.worker.link.reach is Reach.ISOLATED)
            line.world.queues.workloads = type(line.world.queues.workloads)()
            line.world.time += line.world.world.lost_after + timedelta(minutes=1)
            await line.until(lambda: len(line.world.queues.workloads))
            assert line.worker.is_lost(line.world.time, line.world.world.lost_after)


async def test_a_worker_is_asked_as_soon_as_its_time_is_up() -> None:
    async with (
        worker_server("one") as server,
        connected(server, worker_lost_timeout=timedelta(milliseconds=20)) as line,
    ):
        server.tokens.clear()
        await line.until(lambda: line.worker.link.reach is Reach.ISOLATED)
        line.connection.settings = QUICK.model_copy(update={"heartbeat_interval": timedelta(hours=1)})
        await anyio.sleep(0.05)  # the last of the short intervals is over
        never_asked(line)
        await line.until(lambda: line.worker.link.last_failed_probe != NEVER)
