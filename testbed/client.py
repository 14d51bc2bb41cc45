"""A tiny Kubernetes client for tests and benchmarks: plain dictionaries in and out.

It shares nothing with `multikueue.kube`, so a mistake there cannot hide itself in the tests.
"""

from __future__ import annotations

import json
import socket
import ssl
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from weakref import WeakSet

import aiohttp
import anyio
import yaml

from fakekube.front_end.authority import Certificate

__all__ = ["ApiError", "Client", "Kind", "eventually"]

T = TypeVar("T")
Object = dict[str, Any]
Objects = list[Object]  # `list` inside `Client` is its method

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class Kind(NamedTuple):
    """A kind of object with its group and version, as in its manifests."""

    api_version: str
    kind: str


@dataclass(frozen=True, slots=True)
class _Resource:
    """The paths of a kind's objects on the server."""

    root: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        scope = ["namespaces", namespace] if self.namespaced and namespace else []
        return "/".join(part for part in (self.root, *scope, self.plural, name, subresource) if part)


class ApiError(Exception):
    """The server refused the request."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class Client:
    """Requests to one API server as one user; open it with `async with`, in the event loop that uses it.

    The user is known by a token or by a client certificate.
    """

    def __init__(
        self,
        server: str,
        *,
        ca: bytes,
        token: str = "",
        certificate: Certificate | None = None,
        user_agent: str = "testbed",
        timeout: float = 30,
    ) -> None:
        self.server = server
        self._ca = ca
        self._certificate = certificate
        self._headers = {"User-Agent": user_agent, **({"Authorization": f"Bearer {token}"} if token else {})}
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None
        self.sockets: WeakSet[socket.socket] = WeakSet()
        self._resources: dict[Kind, _Resource] = {}

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._tls(), limit=0, socket_factory=self._socket)
        self._session = aiohttp.ClientSession(
            self.server, connector=connector, headers=self._headers, timeout=self._timeout
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()
        self._session = None
        await self._end_connections()

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        made = socket.socket(*address[:3])
        self.sockets.add(made)
        return made

    async def _end_connections(self) -> None:
        """Shut sockets down without TLS's farewell: a test's event loop may end before a slow server answers that."""
        for each in self.sockets:
            with suppress(OSError):  # it is closed already
                each.shutdown(socket.SHUT_RDWR)
        with anyio.move_on_after(1):
            while any(each.fileno() >= 0 for each in self.sockets):  # noqa: ASYNC110 - there is no event for it
                await anyio.sleep(0.001)

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self._ca.decode())
        if self._certificate is not None:
            with tempfile.TemporaryDirectory() as folder:  # the interface takes files only
                context.load_cert_chain(*self._certificate.write(Path(folder)))
        return context

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        return await self._object("GET", await self._path(kind, namespace, name))

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Object | None:
        """Like `get`, but None for a missing object."""
        try:
            return await self.get(kind, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def list(self, kind: Kind, namespace: str | None = None, *, labels: str | None = None) -> Objects:
        """All objects of the kind, in one namespace or everywhere; `labels` is a label selector."""
        query = {"labelSelector": labels} if labels else {}
        answer = await self._object("GET", await self._path(kind, namespace), query=query)
        # Items of a list have no apiVersion and kind.
        return [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in answer["items"]]

    async def watch(
        self, kind: Kind, namespace: str | None = None, *, on_list: Callable[[], object] = lambda: None
    ) -> AsyncIterator[tuple[str, Object]]:
        """Each change as (`ADDED`, `MODIFIED` or `DELETED`, object), after the present objects as `ADDED`; never ends.

        `on_list` is called once, after the present objects: from then on no change is missed. When the server goes away it
        lists again: objects are then repeated, and those that are gone are `DELETED` at the version of that list.
        """
        version, told = "", False
        known: dict[str, Object] = {}
        while True:
            try:
                if not version:
                    answer = await self._object("GET", await self._path(kind, namespace))
                    version = answer["metadata"]["resourceVersion"]
                    gone = known.keys() - {item["metadata"]["uid"] for item in answer["items"]}
                    for body in [known.pop(uid) for uid in sorted(gone)]:
                        yield "DELETED", {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
                    for item in answer["items"]:
                        known[item["metadata"]["uid"]] = item
                        yield "ADDED", item
                if not told:
                    told = True
                    on_list()
                async with aclosing(self._events(await self._path(kind, namespace), version)) as events:
                    async for event in events:
                        if event["type"] == "ERROR":
                            version = ""
                            break
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] == "DELETED":
                            known.pop(event["object"]["metadata"]["uid"], None)
                        elif event["type"] != "BOOKMARK":
                            known[event["object"]["metadata"]["uid"]] = event["object"]
                        if event["type"] != "BOOKMARK":
                            yield event["type"], event["object"]
            except (aiohttp.ClientError, TimeoutError, ApiError):
                version = ""
                await anyio.sleep(0.1)

    async def _events(self, path: str, version: str) -> AsyncGenerator[Object, None]:
        assert self._session is not None, "open the client with `async with`"
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        patience = aiohttp.ClientTimeout(total=None)
        async with self._session.get(path, params=query, headers={}, timeout=patience, read_bufsize=2**22) as response:
            if response.status >= 400:
                raise _error(response.status, await response.read())
            while line := await response.content.readline():
                yield json.loads(line)

    @asynccontextmanager
    async def changes(
        self, kind: Kind, namespace: str | None = None
    ) -> AsyncIterator[AsyncIterator[tuple[str, Object]]]:
        """Changes from now on, each as its type (`ADDED`, `MODIFIED`, `DELETED`) and the object, until the server ends.

        From the moment the block is entered, nothing is missed.
        """
        assert self._session is not None, "open the client with `async with`"
        path = await self._path(kind, namespace)
        listed = await self._object("GET", path, query={"limit": "1"})
        query = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(path, params=query, timeout=timeout) as response:
            if response.status >= 400:
                raise _error(response.status, await response.read())
            yield _changes(response.content)

    async def create(self, body: Object, *, dry_run: bool = False) -> Object:
        query = {"dryRun": "All"} if dry_run else {}
        kind, _, namespace = _identity(body)
        return await self._object("POST", await self._path(kind, namespace), body=body, query=query)

    async def replace(self, body: Object, *, subresource: str | None = None) -> Object:
        return await self._object("PUT", await self._own_path(body, subresource), body=body)

    async def patch(
        self, kind: Kind, name: str, body: Object, namespace: str | None = None, *, subresource: str | None = None
    ) -> Object:
        """Merge patch: None removes a key."""
        path = await self._path(kind, namespace, name, subresource)
        return await self._object("PATCH", path, body=body, content_type=MERGE_PATCH)

    async def patch_status(self, kind: Kind, name: str, status: Object, namespace: str | None = None) -> Object:
        return await self.patch(kind, name, {"status": status}, namespace, subresource="status")

    async def apply(self, body: Object) -> Object:
        """Server-side apply as field manager `testbed`, which wins conflicts."""
        query = {"fieldManager": "testbed", "force": "true"}
        return await self._object("PATCH", await self._own_path(body), body=body, query=query, content_type=APPLY_PATCH)

    async def apply_yaml(self, text: str) -> Objects:
        """Apply each document of a YAML text, in order."""
        return [await self.apply(document) for document in yaml.safe_load_all(text) if document]

    async def delete(
        self, kind: Kind, name: str, namespace: str | None = None, *, propagation: str = "Background"
    ) -> None:
        """Request deletion; a missing object is no error."""
        options = {"propagationPolicy": propagation}
        try:
            await self._object("DELETE", await self._path(kind, namespace, name), body=options)
        except ApiError as error:
            if error.status != 404:
                raise

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Object | bytes | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """One raw request; an answer of 400 or more raises `ApiError`."""
        assert self._session is not None, "open the client with `async with`"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if data is not None else {}
        async with self._session.request(method, path, data=data, headers=headers, params=query or {}) as response:
            content = await response.read()
            if response.status >= 400:
                raise _error(response.status, content)
            return content

    async def _object(self, method: str, path: str, **options: Any) -> Object:
        answer: Object = json.loads(await self.request(method, path, **options))
        return answer

    async def _own_path(self, body: Object, subresource: str | None = None) -> str:
        kind, name, namespace = _identity(body)
        return await self._path(kind, namespace, name, subresource)

    async def _path(
        self, kind: Kind, namespace: str | None, name: str | None = None, subresource: str | None = None
    ) -> str:
        resource = self._resources.get(kind) or await self._discover(kind)
        return resource.path(namespace, name, subresource)

    async def _discover(self, kind: Kind) -> _Resource:
        root = f"/api/{kind.api_version}" if kind.api_version == "v1" else f"/apis/{kind.api_version}"
        for entry in (await self._object("GET", root))["resources"]:
            if "/" not in entry["name"]:
                known = Kind(kind.api_version, entry["kind"])
                self._resources[known] = _Resource(root, entry["name"], entry["namespaced"])
        if kind not in self._resources:
            raise ApiError(404, "NotFound", f"the server does not know {kind.kind} of {kind.api_version}")
        return self._resources[kind]


async def _changes(stream: aiohttp.StreamReader) -> AsyncIterator[tuple[str, Object]]:
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            event = json.loads(line)
            yield event["type"], event["object"]


async def eventually(predicate: Callable[[], Awaitable[T | None]], *, timeout: float = 30, interval: float = 0.05) -> T:
    """Call `predicate` until its result is true, and return that. The timeout only ends a wait that nothing ends: it is no
    measure, since a busy machine is slow.

    In `predicate`, a failed `assert` and a missing object mean "not yet"; the last one is the cause a failed test shows.
    """
    deadline = time.monotonic() + timeout
    while True:
        cause: Exception | None = None
        try:
            if answer := await predicate():
                return answer
        except AssertionError as error:
            cause = error
        except ApiError as error:
            if error.status != 404:
                raise
            cause = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {cause or _name(predicate)}") from cause
        await anyio.sleep(interval)


def _name(predicate: Callable[..., object]) -> str:
    return getattr(predicate, "__qualname__", repr(predicate))


def _identity(body: Object) -> tuple[Kind, str, str | None]:
    metadata = body["metadata"]
    return Kind(body["apiVersion"], body["kind"]), metadata.get("name", ""), metadata.get("namespace")


def _error(status: int, content: bytes) -> ApiError:
    try:
        answer = json.loads(content)
        return ApiError(status, answer.get("reason", ""), answer.get("message", ""))
    except (ValueError, AttributeError):
        return ApiError(status, "", content.decode(errors="replace")[:500])
