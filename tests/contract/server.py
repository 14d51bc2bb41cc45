"""What the suite needs of an API server: calls and watches, whatever carries them, and a few facts about it."""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import anyio
from multidict import CIMultiDict, CIMultiDictProxy

from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.tokens import FixedToken
from multikueue.kube.client import Client
from multikueue.kube.cluster_client import WatchingClient

__all__ = ["JSON", "PATIENCE", "Answer", "Object", "OverHttp", "Server", "Stream", "decoded", "headers_of", "payload"]

Object = dict[str, Any]

JSON = "application/json"

PATIENCE = 15.0
"""Seconds that one answer may take; servers answer in milliseconds, machines that test have other things to do too."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. `body` is what its JSON decodes to, its text if it is none."""

    status: int
    body: Any
    headers: Mapping[str, str]

    def good(self, status: int | None = None) -> Object:
        """The object of a success; of just this status if one is named."""
        assert self.status < 300, f"{self.status}: {self.body}"
        assert status is None or self.status == status
        assert isinstance(self.body, dict)
        return self.body

    def refused(self, code: int, reason: str) -> Object:
        """The Status of a refusal, with this code and reason (empty for none)."""
        assert self.status == code, f"{self.status} instead of {code}: {self.body}"
        assert isinstance(self.body, dict)
        body = self.body
        given = {name: body.get(name, "") for name in ("kind", "apiVersion", "status", "reason", "code")}
        assert given == {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
        assert isinstance(body["message"], str)
        assert body["message"]
        return body


class Stream(ABC):
    """The answer to a watch that was accepted, line by line."""

    @abstractmethod
    async def line(self, *, within: float = PATIENCE) -> bytes:
        """The next line with its line end, empty at the end of the stream. Raises TimeoutError."""


class Server(ABC):
    """One API server. Paths are decoded; a query and a body are what the API takes, JSON if the body is a tree."""

    @abstractmethod
    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        user: str | None = None,
    ) -> Answer:
        """One call as `user`: `admin` (the default) may do everything, `manager` what it was granted in a test.

        On a wire anybody else shows a token that is nobody's.
        """

    @abstractmethod
    def watch(self, path: str, query: Mapping[str, str], *, accept: str = JSON) -> AbstractAsyncContextManager[Stream]:
        """An accepted watch; a refused one is seen with `call`."""

    @abstractmethod
    def client(self, user: str = "admin") -> AbstractAsyncContextManager[Client]:
        """A client as the manager has it."""

    def controllers_client(self) -> AbstractAsyncContextManager[WatchingClient]:
        """What controllers get, which may be another one in tests: of somebody who may do everything."""
        return self.client()

    @abstractmethod
    async def forget(self) -> None:
        """Forget what was before now. Continuations of lists go at once or within seconds; watches that are open stay.

        Where a watch can begin is known for version 1 only, of kinds that were not there then: that is forgotten.
        """


def payload(body: Any) -> bytes:
    if body is None:
        return b""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


class OverHttp(Server):
    """A server with a URL. Made by `connect`."""

    def __init__(
        self, session: aiohttp.ClientSession, tokens: Mapping[str, str], *, url: str, authority: bytes
    ) -> None:
        self._session, self._tokens, self._url, self._authority = session, tokens, url, authority

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        user: str | None = None,
    ) -> Answer:
        data = payload(body)
        headers = self._headers(accept, user) | ({"Content-Type": content_type} if data else {})
        with anyio.fail_after(PATIENCE):
            async with self._session.request(method, path, params=query, data=_sent(data), headers=headers) as answer:
                return Answer(answer.status, decoded(await answer.read()), answer.headers)

    @asynccontextmanager
    async def watch(self, path: str, query: Mapping[str, str], *, accept: str = JSON) -> AsyncIterator[Stream]:
        params = {"watch": "true", **query}
        endless = aiohttp.ClientTimeout(total=None)
        with anyio.fail_after(PATIENCE):
            answer = await self._session.get(path, params=params, headers=self._headers(accept), timeout=endless)
        try:
            assert answer.status == 200, f"{answer.status}: {await answer.text()}"
            yield _Lines(answer.content)
        finally:
            answer.close()

    def client(self, user: str = "admin") -> AbstractAsyncContextManager[Client]:
        token = FixedToken(self._authorization(user))
        return Client.connect(Credentials(server=self._url, authority=self._authority, token=token))

    def _headers(self, accept: str, user: str | None = None) -> dict[str, str]:
        return {"Accept": accept, "Authorization": self._authorization(user or "admin")}

    def _authorization(self, user: str) -> str:
        return f"Bearer {self._tokens.get(user, 'token-of-nobody')}"


class _Lines(Stream):
    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    async def line(self, *, within: float = PATIENCE) -> bytes:
        with anyio.fail_after(within):
            return await self._content.readline()


def _sent(data: bytes) -> bytes | io.BytesIO | None:
    """From a mebibyte on aiohttp wants a body as a stream."""
    return (data if len(data) < 2**20 else io.BytesIO(data)) if data else None


def headers_of(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers, to be found in any case."""
    return CIMultiDictProxy(CIMultiDict(headers))


def decoded(data: bytes) -> Any:
    """What JSON says, or else the text."""
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")
