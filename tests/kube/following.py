"""A reflector at work against a scripted server, and what its sink sees."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from multikueue.api.jobs.job import Job
from multikueue.api.kinds import JOBS
from multikueue.api.meta import ObjectKey
from multikueue.kube.client import Client
from multikueue.kube.reflector import Pace, Reflector
from tests.kube.server import (
    Answer,
    Script,
    client_of,
    job,
    lists,
    streams,
)

LISTED = lists(job("a", version=1))
OPEN = streams(then="silence")


class Seen:
    """A sink that keeps names and versions, and notes what it was told."""

    def __init__(self) -> None:
        self.unreadable: dict[ObjectKey, str] = {}
        self.versions: dict[str, int] = {}
        self.highest = 0
        self.told: list[str] = []
        self.expected = 0
        self.refusing = ""
        self.wanted: Callable[[str], bool] = lambda _name: True
        self.kept: dict[ObjectKey, Job] = {}

    def __len__(self) -> int:
        return len(self.versions)

    def get(self, key: ObjectKey, /) -> Job | None:
        return self.kept.get(key)

    def newest(self, _namespace: str, /) -> int:
        return self.highest

    def expect_list(self, _namespace: str, /) -> None:
        self.expected += 1

    def gathering(self) -> MutableMapping[ObjectKey, Job]:
        return {}

    def replacing(self, items: Mapping[ObjectKey, Job], version: int, _namespace: str, /) -> Iterator[None]:
        yield
        self.versions = {key.name: item.version for key, item in items.items()}
        self.kept = {key: item for key, item in items.items() if key.name != self.refusing}
        self.unreadable |= {key: "refused" for key in items if key.name == self.refusing}
        self.told.append(f"replace {version}")

    def should_keep(self, item: Job, /) -> bool:
        return self.wanted(item.key.name)

    def upsert(self, item: Job, /) -> None:
        if item.key.name == self.refusing:
            self.unreadable[item.key] = "refused"
        self.versions[item.key.name] = item.version
        self.kept[item.key] = item
        self.told.append(f"upsert {item.key.name}")

    def remove(self, item: Job, /) -> None:
        del self.versions[item.key.name], self.kept[item.key]
        self.told.append(f"remove {item.key.name}")


class Run:
    """A reflector at work, its sink, its states, its pauses, and what it asked."""

    def __init__(self) -> None:
        self.sink = Seen()
        self.states: list[tuple[bool, str]] = []
        self.pauses: list[float] = []
        self.garbage: list[ObjectKey | None] = []
        self.client: Client
        self.script: Script
        self.reflector: Reflector[Job]

    @property
    def asked(self) -> list[str]:
        """Each request: "list", "check" of a version, or "watch" and the version it started from."""
        starts = zip(self.script.queries("watch"), self.script.queries("resourceVersion"), strict=True)
        return [f"{'watch' if watch else 'check'} {version}" if version else "list" for watch, version in starts]

    def has_a_state(self) -> bool:
        return self.states != []

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await anyio.lowlevel.checkpoint()

    async def paused(self, times: int) -> None:
        await self.until(lambda: len(self.pauses) >= times)

    async def until(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(5):
            while not condition():  # noqa: ASYNC110  # what is waited for happens in a server, not in an event of ours
                await anyio.sleep(0.002)


@asynccontextmanager
async def running(
    *answers: Answer,
    call_timeout: float = 5.0,
    refusing: str = "",
    wanted: Callable[[str], bool] = lambda _name: True,
    sink: Seen | None = None,
    **options: Any,
) -> AsyncIterator[Run]:
    run = Run()
    run.sink = Seen() if sink is None else sink
    run.sink.refusing, run.sink.wanted = refusing, wanted
    given = {"jitter": lambda: 0.5, "sleep": run.pause} | options
    pace = Pace(**{each: given.pop(each) for each in Pace.__dataclass_fields__ if each in given})
    async with (
        client_of(
            *answers, call_timeout=call_timeout, on_undecodable=lambda _c, _k, about, _e: run.garbage.append(about.key)
        ) as (
            run.client,
            run.script,
        ),
        anyio.create_task_group() as tasks,
    ):
        run.reflector = Reflector(
            run.client, JOBS, run.sink, on_state=lambda ok, why: run.states.append((ok, why)), pace=pace, **given
        )
        tasks.start_soon(run.reflector.run)
        yield run
        tasks.cancel_scope.cancel()
