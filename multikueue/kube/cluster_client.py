"""Protocols of a client of one cluster. `client.Client` implements them over HTTP.

Callers depend on the protocols, so that tests can pass a client without sockets. `ClusterClient` is for calls;
`WatchingClient` adds streams, for reflectors, the Lease's candidates and logs. Only code that opens a connection,
changes its credentials or probes it (`controllers.workers.connection.connection`) needs the `Client` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from multikueue.api.meta import Object, ObjectKey

if TYPE_CHECKING:
    from multikueue.api.kind import Kind
    from multikueue.kube.decode import Stub

__all__ = ["FIELD_MANAGER", "Body", "ClusterClient", "Lines", "Page", "WatchingClient", "is_any"]

T = TypeVar("T", bound=Object)

Body = bytes | Mapping[str, Any]
"""JSON as bytes, or a tree of dicts, lists, values and raw subtrees to encode."""

FIELD_MANAGER = "multikueue"


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A whole collection at one resource version. `undecodable` has the objects that could not be decoded, and why."""

    items: tuple[T, ...]
    resource_version: str
    undecodable: Mapping[ObjectKey, str] = {}


def is_any(_item: object) -> bool:
    """All objects are wanted."""
    return True


class ClusterClient(Protocol):
    """Calls to one cluster's API server.

    Every call raises ClusterUnreachable without a usable answer in time, an ApiError if the server refused, and
    InvalidObject if the answer is not an object of the kind.
    """

    @property
    def cluster(self) -> str:
        """The worker's name, empty for the manager."""

    async def get(self, kind: Kind[T], key: ObjectKey) -> T: ...

    async def list(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        page: int = 500,
        is_wanted: Callable[[T], bool] = is_any,
        into: MutableMapping[ObjectKey, T] | None = None,
    ) -> Page[T]:
        """The whole collection (of one namespace, if given), consistent as of its resource version.

        An object that is not `is_wanted` is left out, so that it takes memory with its page only. The question may come
        twice. The objects go `into` a mapping, if there is one, page by page, and then the answer has none.
        """

    async def create(self, kind: Kind[T], namespace: str, body: Body, *, dry_run: bool = False) -> T:
        """The object as created. After ClusterUnreachable it may exist: a second attempt shows whether it does."""

    async def merge_patch(self, kind: Kind[T], key: ObjectKey, body: Body, *, subresource: str = "") -> T:
        """A merge patch replaces lists whole: set `metadata.resourceVersion` where entries of others must survive."""

    async def json_patch(
        self, kind: Kind[T], key: ObjectKey, operations: Sequence[Mapping[str, Any]], *, manager: str = FIELD_MANAGER
    ) -> T:
        """Patch single fields of an object as `manager`. An operation `test` that does not hold is Invalid."""

    async def apply(
        self, kind: Kind[T], key: ObjectKey, body: Body, *, manager: str, force: bool, subresource: str = ""
    ) -> T:
        """Server-side apply as `manager`. Without `force`, a field of another manager is a Conflict."""

    async def delete(
        self,
        kind: Kind[T],
        key: ObjectKey,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> T | None:
        """The object, while finalizers hold it; None if it is gone at once.

        `uid` and `resource_version` are preconditions: Conflict if they do not hold. Raises NotFound without an object.
        """

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Body | None = None,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> bytes:
        """Any request: the bytes of the answer. `path` is percent-encoded where needed; errors as for every call."""


class Lines(Protocol):
    """The answer of a watch, or a log, line by line."""

    async def line(self) -> bytes:
        """The next line with its line end; a line without one is truncated; empty at the end of the stream.

        Raises ClusterUnreachable on a broken connection, and on silence longer than the watch allows.
        """

    async def piece(self) -> bytes:
        """The bytes received since the last call, at least one, regardless of lines; empty at the end. Raises as `line`."""


class WatchingClient(ClusterClient, Protocol):
    """Calls, and streams that stay open."""

    @property
    def route(self) -> object:
        """A token for the present address and credentials. It changes with them."""

    def stream(self, path: str, params: Mapping[str, str], *, idle: float | None) -> AbstractAsyncContextManager[Lines]:
        """An open watch, or a log. It breaks (see Lines.line) after `idle` seconds without a byte.

        The block is entered only after a successful answer; otherwise the call raises like every other.
        """

    def is_too_much(self, objects: int, length: int) -> bool:
        """Whether so many objects, or bytes, of one kind exceed the limit of this cluster."""

    def report_undecodable(self, kind: Kind[Any], about: Object | Stub, why: str) -> None:
        """Report an object that cannot be decoded or cached."""
