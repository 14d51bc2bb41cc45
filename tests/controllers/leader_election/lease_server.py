"""A Lease in memory, and candidates' lines to it: slow, lossy, cut, as a test wants it. For virtual time.

What is sent arrives even if its sender has given up waiting by then, as in a real network.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from multikueue.api.kinds import LEASES, Kind
from multikueue.api.lease import Lease
from multikueue.api.meta import ObjectKey, decoder, encode
from multikueue.errors import AlreadyExists, ClusterUnreachable, Conflict, NotFound

Body = dict[str, Any]
KEY = ObjectKey("kueue-system", "multikueue-manager")

_decode = decoder(Lease)


@dataclass
class LeaseServer:
    """The one Lease, or none. `writes` are the specs as they came to be, with their time."""

    body: Body | None = None
    writes: list[tuple[float, Body]] = field(default_factory=list)
    _versions: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _bells: set[anyio.Event] = field(default_factory=set)

    def get(self) -> Lease:
        if self.body is None:
            raise NotFound(404, "NotFound", "no such lease")
        return _decode(encode(self.body))

    def create(self, spec: Body) -> Lease:
        if self.body is not None:
            raise AlreadyExists(409, "AlreadyExists", "there is one")
        self.put(spec)
        return self.get()

    def patch(self, body: Mapping[str, Any]) -> Lease:
        found = self.get().metadata
        wanted = body["metadata"]
        if (wanted["uid"], wanted["resourceVersion"]) != (found.uid, found.resource_version):
            raise Conflict(409, "Conflict", "the object has been modified")
        assert self.body is not None
        self.put(self.body["spec"] | body["spec"])
        return self.get()

    def put(self, spec: Body) -> None:
        """Write it, whoever one is."""
        version = str(next(self._versions))
        metadata = (
            self.body["metadata"] if self.body else {"name": KEY.name, "namespace": KEY.namespace, "uid": version}
        )
        self.body = {"metadata": metadata | {"resourceVersion": version}, "spec": copy.deepcopy(spec)}
        self.writes.append((anyio.current_time(), self.body["spec"]))
        self._ring()

    def drop(self) -> None:
        """Delete it, whoever one is."""
        self.body = None
        self._ring()

    @property
    def holder(self) -> str:
        return str(self.body["spec"].get("holderIdentity", "")) if self.body else ""

    def _ring(self) -> None:
        for bell in self._bells:
            bell.set()


@dataclass
class Line:
    """A candidate's client. `delays` answers, per call, the seconds there and the seconds back."""

    server: LeaseServer
    delays: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0)
    timeout: float = 5.0
    cut: bool = False
    watches: bool = True

    async def get(self, kind: Kind[Any], key: ObjectKey) -> Lease:
        assert (kind, key) == (LEASES, KEY)
        return await self._call(self.server.get)

    async def create(self, kind: Kind[Any], namespace: str, body: Mapping[str, Any]) -> Lease:
        assert (kind, namespace, body["metadata"]["name"]) == (LEASES, KEY.namespace, KEY.name)
        return await self._call(lambda: self.server.create(dict(body["spec"])))

    async def merge_patch(self, kind: Kind[Any], key: ObjectKey, body: Mapping[str, Any]) -> Lease:
        assert (kind, key) == (LEASES, KEY)
        return await self._call(lambda: self.server.patch(body))

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str], *, idle: float) -> AsyncIterator[_Stream]:
        assert path == LEASES.collection(KEY.namespace)
        if not self.watches or self.cut:
            raise ClusterUnreachable("", "no watch")
        stream = _Stream(self.server)
        try:
            yield stream
        finally:
            self.server._bells.discard(stream.bell)

    async def _call(self, effect: Callable[[], Lease]) -> Lease:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Lease] = loop.create_future()
        there, back = self.delays()

        def arrive() -> None:
            try:
                result, error = effect(), None
            except (NotFound, Conflict, AlreadyExists) as problem:
                result, error = None, problem
            loop.call_later(back, come_home, result, error)

        def come_home(result: Lease | None, error: Exception | None) -> None:
            if answer.done() or self.cut:
                return
            if error is not None:
                answer.set_exception(error)
            elif result is not None:
                answer.set_result(result)

        if not self.cut:
            loop.call_later(there, arrive)
        with anyio.move_on_after(self.timeout):
            return await answer
        raise ClusterUnreachable("", "no answer in time")


class _Stream:
    def __init__(self, server: LeaseServer) -> None:
        self.server, self.bell = server, anyio.Event()
        server._bells.add(self.bell)

    async def line(self) -> bytes:
        await self.bell.wait()
        self.server._bells.discard(self.bell)
        self.bell = anyio.Event()
        self.server._bells.add(self.bell)
        return b"{}\n"
