"""The namespaces that have a LocalQueue `default`, and who is told when there are others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import anyio
import pytest

from multikueue.api.kueue.queues import LocalQueue
from multikueue.controllers.serving.webhooks import DefaultQueues
from multikueue.store.caches.cache import Cache
from tests.builders import NOW, local_queue

pytestmark = pytest.mark.anyio


def queue(namespace: str, name: str = "default", *, leads_to: str = "cq", version: int = 1) -> LocalQueue:
    return local_queue(name, leads_to, namespace=namespace).version(version).build()


def following(*queues: LocalQueue) -> tuple[Cache[LocalQueue], DefaultQueues]:
    cache: Cache[LocalQueue] = Cache()
    for each in queues:
        cache.upsert(each)
    return cache, DefaultQueues(cache)


@dataclass
class StoppedClock:
    """Time that does not pass: whoever sleeps does so until something else ends it."""

    slept: float = 0.0

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept = seconds
        await anyio.sleep_forever()


async def test_those_that_were_there_and_those_that_come_and_go() -> None:
    cache, defaults = following(queue("b"), queue("c", "main"))
    assert defaults.take() == ("b",)

    cache.upsert(queue("a"))
    cache.upsert(queue("d", "main"))
    assert defaults.take() == ("a", "b")
    assert "a" in defaults
    assert "c" not in defaults

    cache.remove(queue("b"))
    cache.remove(queue("c", "main"))
    assert defaults.take() == ("a",)


@pytest.mark.parametrize(
    ("news", "woken"),
    [
        (queue("new"), True),
        (queue("new", "main"), False),
        (queue("old", leads_to="other", version=2), False),
    ],
    ids=["one more", "a queue of another name", "one that leads elsewhere now"],
)
async def test_a_pause_ends_when_there_are_others(news: LocalQueue, woken: bool) -> None:
    cache, defaults = following(queue("old"))
    defaults.take()
    clock, ended = StoppedClock(), anyio.Event()

    async def pause() -> None:
        await defaults.pause(clock, 15)
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pause)
        await anyio.wait_all_tasks_blocked()
        assert clock.slept == 15
        cache.upsert(news)
        await anyio.wait_all_tasks_blocked()
        assert ended.is_set() is woken
        tasks.cancel_scope.cancel()


async def test_news_between_taking_and_pausing_are_not_missed() -> None:
    cache, defaults = following()
    defaults.take()
    cache.upsert(queue("new"))
    with anyio.fail_after(5):
        await defaults.pause(StoppedClock(), 15)
    assert defaults.take() == ("new",)


async def test_a_pause_ends_when_its_time_is_up() -> None:
    class Clock(StoppedClock):
        async def sleep(self, seconds: float) -> None:
            self.slept = seconds

    _, defaults = following(queue("old"))
    defaults.take()
    clock = Clock()
    with anyio.fail_after(5):
        await defaults.pause(clock, 15)
    assert clock.slept == 15
