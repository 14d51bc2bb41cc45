"""Requests and watches as bytes: the driver shares two cores with the measured programs, so it does nothing twice."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Self

import aiohttp
import anyio
import anyio.abc
import msgspec

from testbed.plane import ControlPlane

__all__ = ["RefusedError", "Wire"]

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
CONNECTIONS = 16
WATCHES = 4
CALL_SECONDS = 60
WATCH_SECONDS = 3600
LINE_BYTES = 2**21


class RefusedError(RuntimeError):
    """The API server refused a request of the driver, or ended a watch of it."""


class Wire:
    """One user's calls to one API server."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    @classmethod
    @asynccontextmanager
    async def open(cls, plane: ControlPlane, *, user: str = "admin", agent: str = "bench") -> AsyncIterator[Self]:
        """Calls to a plane as one of its users."""
        async with cls.connect(plane.url, ca=plane.ca, token=plane.tokens[user], agent=agent) as wire:
            yield wire

    @classmethod
    @asynccontextmanager
    async def connect(cls, url: str, *, ca: bytes, token: str, agent: str) -> AsyncIterator[Self]:
        trust = ssl.create_default_context(cadata=ca.decode())
        connector = aiohttp.TCPConnector(ssl=trust, limit=CONNECTIONS + WATCHES, keepalive_timeout=600)
        async with aiohttp.ClientSession(
            connector=connector,
            headers={"Authorization": f"Bearer {token}", "User-Agent": agent},
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=LINE_BYTES,
            timeout=aiohttp.ClientTimeout(total=CALL_SECONDS),
        ) as session:
            yield cls(url, session)

    async def get(self, path: str) -> bytes:
        return await self._call("GET", path, None, JSON)

    async def post(self, path: str, body: bytes) -> bytes:
        return await self._call("POST", path, body, JSON)

    async def post_all(self, path: str, bodies: Iterable[bytes]) -> None:
        """Post the bodies, as many at a time as there are connections; a body is made when its turn comes."""
        waiting = iter(bodies)

        async def poster() -> None:
            for body in waiting:
                await self.post(path, body)

        async with anyio.create_task_group() as tasks:
            for _ in range(CONNECTIONS):
                tasks.start_soon(poster)

    async def patch(self, path: str, body: bytes) -> bytes:
        """A merge patch."""
        return await self._call("PATCH", path, body, MERGE_PATCH)

    async def delete(self, path: str) -> bytes:
        """Delete one object, or a collection; dependents go in the background. What is gone already is no error: a copy
        may go with its job."""
        return await self._call("DELETE", path, b'{"propagationPolicy":"Background"}', JSON, gone=True)

    async def watch(
        self,
        path: str,
        on_event: Callable[[bytes], str],
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Pass each change from now on to `on_event`, which returns its resource version, until cancelled.

        Started means that the server answered. An API server short of CPU ends watches that it cannot serve in time;
        they go on where they ended. Raises RefusedError.
        """
        version = _version(await self.get(f"{path}?limit=1"))
        while True:
            version = await self._watch_once(path, version, on_event, task_status)
            task_status = anyio.TASK_STATUS_IGNORED

    async def _watch_once(
        self, path: str, version: str, on_event: Callable[[bytes], str], task_status: anyio.abc.TaskStatus[None]
    ) -> str:
        query = {"watch": "true", "timeoutSeconds": str(WATCH_SECONDS), "resourceVersion": version}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(self._url + path, params=query, timeout=timeout) as answer:
            if answer.status != 200:
                raise RefusedError(f"watch {path}: {answer.status} {await answer.text()}")
            task_status.started()
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    version = on_event(line)
        return version

    async def _call(
        self, method: str, path: str, body: bytes | None, content_type: str, *, gone: bool = False
    ) -> bytes:
        headers = {"Content-Type": content_type}
        async with self._session.request(method, self._url + path, data=body, headers=headers) as answer:
            content = await answer.read()
            if answer.status >= 400 and not (gone and answer.status == 404):
                raise RefusedError(f"{method} {path}: {answer.status} {content.decode(errors='replace')[:500]}")
            return content


def _version(collection: bytes) -> str:
    version: str = msgspec.json.decode(collection)["metadata"]["resourceVersion"]
    return version
