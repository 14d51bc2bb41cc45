"""A watch of one collection of a cluster: each present object, then each change."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

from multikueue.api.kind import Kind
from multikueue.api.meta import Object, ObjectKey
from multikueue.cli.terminal.output import note
from multikueue.kube.reflector import Reflector

if TYPE_CHECKING:
    from multikueue.kube.cluster_client import WatchingClient

__all__ = ["follow"]

T = TypeVar("T", bound=Object)


class _Changes(Generic[T]):
    """A reflector's sink that passes changes on: the object, and whether it is gone."""

    def __init__(self, tell: Callable[[tuple[T, bool]], None]) -> None:
        self.unreadable: dict[ObjectKey, str] = {}
        self._tell, self._known = tell, dict[ObjectKey, T]()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: ObjectKey, /) -> T | None:
        return self._known.get(key)

    def newest(self, _namespace: str, /) -> int:
        return 0

    def expect_list(self, _namespace: str, /) -> None:
        """Nothing to do: no other source changes these objects."""

    def gathering(self) -> MutableMapping[ObjectKey, T]:
        return {}

    def replacing(self, items: Mapping[ObjectKey, T], _version: int, _namespace: str, /) -> Iterator[None]:
        for item in [item for key, item in self._known.items() if key not in items]:
            self.remove(item)
        for item in items.values():
            self.upsert(item)
        return iter(())

    def should_keep(self, _item: T, /) -> bool:
        return True

    def upsert(self, item: T, /) -> None:
        old = self._known.get(item.key)
        if old is None or old.metadata.resource_version != item.metadata.resource_version:
            self._known[item.key] = item
            self._tell((item, False))

    def remove(self, item: T, /) -> None:
        if self._known.pop(item.key, None) is not None:
            self._tell((item, True))


async def follow(
    client: WatchingClient,
    kind: Kind[T],
    namespace: str,
    take: Callable[[T, bool], Awaitable[None]],
    *,
    rest: Callable[[], None] = lambda: None,
) -> None:
    """Call `take` with each present object and each change, until cancelled; the flag says that the object is gone. `rest`
    is called after the last one that is known: first after all that are present.

    An empty `namespace` means all. A broken connection is made again, with a remark. Raises Forbidden.
    """
    path = kind.collection(namespace) if namespace else kind.path()
    await client.request("GET", path, params={"limit": "1"})
    send, receive = anyio.create_memory_object_stream[tuple[T, bool]](math.inf)

    def remark(is_healthy: bool, why: str) -> None:
        if not is_healthy:
            note(f"{client.cluster or 'the manager'}: {why}; trying again")

    reflector = Reflector(client, kind, _Changes(send.send_nowait), on_state=remark, namespace=namespace)
    async with receive, send, anyio.create_task_group() as tasks:
        tasks.start_soon(reflector.run)
        async for item, gone in receive:
            await take(item, gone)
            if not receive.statistics().current_buffer_used:
                rest()
