"""The queues of workers, read for users who ask."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
import pytest

from multikueue.api.meta import ObjectKey
from multikueue.controllers.serving import foreseeing
from multikueue.controllers.serving.foreseeing import LIFETIME, QueueReads
from multikueue.errors import ClusterUnreachable
from multikueue.store.workers.worker import WorkerView
from tests.cluster import Cluster
from tests.controllers.serving.worker import has_queue

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINE = ObjectKey("default", "lq")


class Fleet:
    """Two workers with a queue, and a clock."""

    def __init__(self) -> None:
        self.time = 0.0
        self.workers = {name: Cluster(name, lambda: NOW, cluster=name) for name in ("w1", "w2")}
        for worker in self.workers.values():
            has_queue(worker, cpu=1)
        self.reads = QueueReads(self.workers, {name: WorkerView(name) for name in self.workers}, lambda: self.time)

    def calls(self) -> int:
        return sum(len(worker.calls) for worker in self.workers.values())


async def test_a_worker_is_read_at_most_once_in_a_while_whoever_asks() -> None:
    fleet = Fleet()

    first = await fleet.reads.of(["w1", "w2"])
    again = await fleet.reads.of(["w2"])
    once = fleet.calls()
    fleet.time += LIFETIME.total_seconds()
    await fleet.reads.of(["w1", "w2"])

    assert [[*each.local] for each in first.values()] == [[MINE]] * 2
    assert [*again] == ["w2"]
    assert (once, fleet.calls()) == (4, 8)


async def test_a_worker_that_fails_is_left_out_and_not_asked_again_at_once() -> None:
    fleet = Fleet()
    asked = 0

    async def fails(*_words: object, **_more: object) -> None:
        nonlocal asked
        asked += 1
        raise ClusterUnreachable("w1", "gone")

    fleet.workers["w1"].list = fails  # type: ignore[method-assign, assignment]

    assert [*await fleet.reads.of(["w1", "w2"])] == ["w2"]
    assert [*await fleet.reads.of(["w1", "w2"])] == ["w2"]
    assert asked == 1


async def test_a_worker_that_hangs_keeps_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet()
    monkeypatch.setattr(foreseeing, "PATIENCE", 0.05 * foreseeing.PATIENCE)

    async def hangs(*_words: object, **_more: object) -> None:
        await anyio.sleep_forever()

    fleet.workers["w1"].list = hangs  # type: ignore[method-assign, assignment]

    assert [*await fleet.reads.of(["w1", "w2"])] == ["w2"]


async def test_a_worker_without_a_connection_is_not_asked() -> None:
    fleet = Fleet()

    assert await fleet.reads.of(["w3"]) == {}
    assert fleet.calls() == 0
