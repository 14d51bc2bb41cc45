"""Calls in the words of the API: a collection's verbs, the events of a watch, a namespace of a test's own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import anyio
import pytest

from tests.contract.server import JSON, PATIENCE, Answer, Object, Server, Stream

__all__ = [
    "APPLY",
    "JSON_PATCH",
    "MERGE",
    "STRATEGIC",
    "Collection",
    "Event",
    "Events",
    "Forgotten",
    "Space",
    "eventually",
    "needs",
]

T = TypeVar("T")

Names = list[str]  # `list` inside `Collection` is its method

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Event(NamedTuple):
    type: str
    object: Object

    @property
    def name(self) -> str:
        name: str = self.object["metadata"]["name"]
        return name

    @property
    def version(self) -> int:
        return int(self.object["metadata"]["resourceVersion"])


class Events:
    """The events of a watch, in order."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def any(self, *, within: float = PATIENCE) -> Event:
        """The next event, a bookmark too."""
        line = await self._stream.line(within=within)
        assert line, "the watch ended"
        assert line.endswith(b"\n")
        event = json.loads(line)
        assert set(event) == {"type", "object"}
        return Event(event["type"], event["object"])

    async def next(self, *, within: float = PATIENCE) -> Event:
        """The next event that is no bookmark."""
        while (event := await self.any(within=within)).type == "BOOKMARK":
            pass
        return event

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Type and name of so many events."""
        return [(event.type, event.name) for event in [await self.next() for _ in range(count)]]

    async def until(self, type_: str, name: str) -> Event:
        """The first event of this type about this object; what comes before goes by."""
        while (event := await self.next())[0] != type_ or event.name != name:
            pass
        return event

    async def rest(self, *, within: float = PATIENCE) -> list[Event]:
        """All that still comes until the server ends the stream."""
        events = []
        while line := await self._stream.line(within=within):
            event = json.loads(line)
            events.append(Event(event["type"], event["object"]))
        return events


class Collection:
    """The objects of one kind, in one namespace, in all, or in none. Query parameters are given by their names."""

    def __init__(self, server: Server, path: str) -> None:
        self.server, self.path = server, path

    def item(self, name: str, subresource: str = "") -> str:
        return f"{self.path}/{name}" + (f"/{subresource}" if subresource else "")

    async def create(self, body: Object, **query: str) -> Answer:
        return await self.server.call("POST", self.path, query=query, body=body)

    async def made(self, body: Object, **query: str) -> Object:
        """Create it; the object as the server made it."""
        return (await self.create(body, **query)).good(201)

    async def get(self, name: str, subresource: str = "", *, accept: str = JSON, **query: str) -> Answer:
        return await self.server.call("GET", self.item(name, subresource), query=query, accept=accept)

    async def got(self, name: str) -> Object:
        return (await self.get(name)).good(200)

    async def list(self, *, accept: str = JSON, **query: str) -> Answer:
        return await self.server.call("GET", self.path, query=query, accept=accept)

    async def names(self, **query: str) -> Names:
        """The names of what is listed, in order."""
        return [item["metadata"]["name"] for item in (await self.list(**query)).good(200)["items"]]

    async def version(self) -> str:
        """The resource version of the collection now."""
        version: str = (await self.list(limit="1")).good()["metadata"]["resourceVersion"]
        return version

    async def put(self, body: Object, subresource: str = "", *, name: str = "", **query: str) -> Answer:
        path = self.item(name or body["metadata"]["name"], subresource)
        return await self.server.call("PUT", path, query=query, body=body)

    async def patch(
        self, name: str, patch: Any, subresource: str = "", *, content_type: str = MERGE, **query: str
    ) -> Answer:
        path = self.item(name, subresource)
        return await self.server.call("PATCH", path, query=query, body=patch, content_type=content_type)

    async def apply(
        self, body: Object, subresource: str = "", *, manager: str = "contract", force: bool = False, **query: str
    ) -> Answer:
        """Server-side apply; the body's name is the path's."""
        query = {"fieldManager": manager, "force": "true" if force else "false", **query}
        return await self.patch(body["metadata"]["name"], body, subresource, content_type=APPLY, **query)

    async def delete(self, name: str, options: Object | None = None, **query: str) -> Answer:
        return await self.server.call("DELETE", self.item(name), query=query, body=options)

    async def clear(self, options: Object | None = None, **query: str) -> Answer:
        """Delete the whole collection, or what is selected."""
        return await self.server.call("DELETE", self.path, query=query, body=options)

    async def gone(self, name: str) -> None:
        """Wait until there is none of that name."""
        await eventually(lambda: self._is_gone(name))

    async def _is_gone(self, name: str) -> bool:
        return (await self.get(name)).status == 404

    @asynccontextmanager
    async def watch(self, *, accept: str = JSON, **query: str) -> AsyncIterator[Events]:
        async with self.server.watch(self.path, query, accept=accept) as stream:
            yield Events(stream)


class Space:
    """A namespace of a test's own, and the collections in it."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.server, self.namespace = server, namespace

    @property
    def maps(self) -> Collection:
        """ConfigMaps: the plainest objects there are."""
        return self.core("configmaps")

    @property
    def widgets(self) -> Collection:
        """Custom resources with all that a definition can say."""
        return self.of("contract.multikueue.dev/v1", "widgets")

    @property
    def gadgets(self) -> Collection:
        """Custom resources without a schema and without subresources."""
        return self.of("contract.multikueue.dev/v1", "gadgets")

    @property
    def jobs(self) -> Collection:
        return self.of("batch/v1", "jobs")

    def core(self, plural: str) -> Collection:
        return Collection(self.server, f"/api/v1/namespaces/{self.namespace}/{plural}")

    def of(self, group_version: str, plural: str) -> Collection:
        """`of("batch/v1", "jobs")`."""
        return Collection(self.server, f"/apis/{group_version}/namespaces/{self.namespace}/{plural}")


class Forgotten(NamedTuple):
    """Widgets `a` to `c`, and how a list of them went on after `a` at a time that is forgotten."""

    widgets: Collection
    continuation: str


async def eventually(holds: Callable[[], Awaitable[T | None]], *, within: float = 20.0) -> T:
    """What `holds` answers once it is true; for what controllers do in their own time."""
    deadline = monotonic() + within
    while not (answer := await holds()):
        assert monotonic() < deadline, "not in time"
        await anyio.sleep(0.02)
    return answer


async def needs(server: Server, minor: int) -> None:
    """Skip where a real server is older than the Kubernetes 1.`minor` that the sandbox plays, and does it otherwise."""
    version = (await server.call("GET", "/version")).good(200)
    if int(version["minor"]) < minor:
        pytest.skip(f"Kubernetes 1.{minor} does it otherwise than {version['gitVersion']}")
