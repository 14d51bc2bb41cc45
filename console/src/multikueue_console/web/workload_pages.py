"""What a workload's page asks for beside the watch: its object, and what the manager tells of it on its worker.

Each call is made with the credentials of who looks: what they may not read they do not see. Nothing is asked of a worker: the
manager's aggregated API has pods, events and logs, where it is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from multikueue.answers.answer import JobAnswer, better_seen
from multikueue.api import kinds
from multikueue.errors import ApiError, ClusterUnreachable, MultiKueueError, NotFound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from multikueue.api.meta import ObjectKey
    from multikueue.kube.cluster_client import Lines, WatchingClient
    from multikueue_console.watch.fleet_watch import FleetWatch
    from multikueue_console.web.rights import Person

__all__ = ["NotInstalled", "WorkloadPages"]

EXPLANATIONS = "/apis/visibility.multikueue.dev/v1alpha1"

LOG_OPTIONS = ("pod", "container", "follow", "tailLines", "previous", "timestamps")


class NotInstalled(MultiKueueError):
    """The API server does not know the API of the manager that tells it."""


class _Told(msgspec.Struct):
    """What the manager tells of a workload: `workers` with what each is to it, `answer` why it waits."""

    answer: JobAnswer | None = None
    workers: list[Any] = []
    quota: Any = None
    choice: Any = None


class WorkloadPages:
    """`connect` gives a client with somebody's credentials."""

    def __init__(
        self, watch: FleetWatch, connect: Callable[[Person], AbstractAsyncContextManager[WatchingClient]]
    ) -> None:
        self._watch, self._connect = watch, connect

    async def story(self, key: ObjectKey, person: Person) -> dict[str, Any] | None:
        """The story with what the manager adds, if there is one that tells; None if there is no such workload."""
        told, mine = await self._told(key, person), self._watch.story(key)
        if mine is None:
            return None
        if told.answer is not None and (better := better_seen(mine.answer, told.answer)) is not mine.answer:
            mine = self._watch.story(key, better) or mine
        fields = type(mine.row).__struct_fields__
        full: dict[str, Any] = msgspec.to_builtins(mine)
        row = dict(zip(fields, full["row"], strict=True))
        return {**full, "row": row, "workers": told.workers, "quota": told.quota, "choice": told.choice}

    async def _told(self, key: ObjectKey, person: Person) -> _Told:
        try:
            async with self._connect(person) as client:
                return msgspec.json.decode(await client.request("GET", f"{_place(key)}/explanation"), type=_Told)
        except (ApiError, ClusterUnreachable, msgspec.DecodeError):
            return _Told()

    async def part(self, key: ObjectKey, what: str, person: Person) -> bytes:
        """Its `object`, or its `pods` or `events` on its worker, as JSON. Raises ApiError, ClusterUnreachable, NotInstalled."""
        if what == "object":
            async with self._connect(person) as client:
                return await client.request("GET", kinds.WORKLOADS.path(key))
        async with self._connect(person) as client, _installed(client):
            return await client.request("GET", f"{_place(key)}/{what}")

    @asynccontextmanager
    async def log(self, key: ObjectKey, options: Mapping[str, str], person: Person) -> AsyncIterator[Lines]:
        """The log of one of its pods. Raises ApiError and ClusterUnreachable."""
        wanted = {name: text for name, text in options.items() if name in LOG_OPTIONS}
        async with self._connect(person) as client, client.stream(f"{_place(key)}/log", wanted, idle=None) as stream:
            yield stream


@asynccontextmanager
async def _installed(client: WatchingClient) -> AsyncIterator[None]:
    """What is not found, for there is no such API, raises NotInstalled."""
    try:
        yield
    except NotFound as error:
        try:
            await client.request("GET", EXPLANATIONS)
        except NotFound:
            raise NotInstalled(
                "pods, events and logs come through the manager's visibility API, which is not installed here"
            ) from None
        raise error from None


def _place(key: ObjectKey) -> str:
    return f"{EXPLANATIONS}/namespaces/{key.namespace}/workloads/{key.name}"
