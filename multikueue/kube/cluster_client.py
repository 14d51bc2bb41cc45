"""What the rest of the manager needs of a connection to one cluster. `client.Client` has it over HTTP.

Whoever takes a client takes one of these, so that a test may hand in one that needs no sockets. `ClusterClient` is for
calls; `WatchingClient` is for readers of a stream as well: reflectors, the Lease's candidates, logs. Only who opens a
connection, changes its credentials or probes it (`controllers.workers.connection`) needs the `Client` itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from multikueue.api.meta import Object, ObjectKey

if TYPE_CHECKING:
    from multikueue.api.kinds import Kind
    from multikueue.kube.decode import Stub

__all__ = ["FIELD_MANAGER", "Body", "ClusterClient", "Lines", "Page", "WatchingClient"]

T = TypeVar("T", bound=Object)

Body = bytes | Mapping[str, Any]
"""JSON as bytes, or a tree of dicts, lists, values and raw subtrees to be encoded."""

FIELD_MANAGER = "multikueue"


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A whole collection as of one moment. `undecodable` has the objects that exist but could not be read, and why."""

    items: tuple[T, ...]
    resource_version: str
    undecodable: Mapping[ObjectKey, str] = field(default_factory=dict)


class ClusterClient(Protocol):
    """Calls to one cluster's API server.

    Every call raises ClusterUnreachable if no usable answer came in time, an ApiError if the server said no, and
    InvalidObject if it answered with an object that is not of the kind's shape.
    """

    @property
    def cluster(self) -> str:
        """The worker's name, empty for the manager."""

    async def get(self, kind: Kind[T], key: ObjectKey) -> T: ...

    async def list(self, kind: Kind[T], *, namespace: str = "", label_selector: str = "", page: int = 500) -> Page[T]:
        """The whole collection (of one namespace, if given), consistent as of its resource version."""

    async def create(self, kind: Kind[T], namespace: str, body: Body, *, dry_run: bool = False) -> T:
        """The object as made. If its answer is lost (ClusterUnreachable) it may exist: a second try tells."""

    async def merge_patch(self, kind: Kind[T], key: ObjectKey, body: Body, *, subresource: str = "") -> T:
        """Lists are replaced whole, so name `metadata.resourceVersion` where another's entries must survive."""

    async def json_patch(
        self, kind: Kind[T], key: ObjectKey, operations: Sequence[Mapping[str, Any]], *, manager: str = FIELD_MANAGER
    ) -> T:
        """Single places of an object, in the name of `manager`. An operation `test` that does not hold is Invalid."""

    async def apply(
        self, kind: Kind[T], key: ObjectKey, body: Body, *, manager: str, force: bool, subresource: str = ""
    ) -> T:
        """Server-side apply as `manager`; without `force` a field that another manager owns is a Conflict."""

    async def delete(
        self,
        kind: Kind[T],
        key: ObjectKey,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> T | None:
        """The object as it is now, while finalizers hold it; None if it is gone at once.

        `uid` and `resource_version` are preconditions: Conflict if they do not hold. Raises NotFound if there is none.
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
        """The generic door: the answer's bytes for any path (percent-encoded where needed), by the same rules."""


class Lines(Protocol):
    """The answer of a watch, or a log, line by line."""

    async def line(self) -> bytes:
        """The next line with its line end; one without is cut off; empty at the end of the stream.

        Raises ClusterUnreachable on a broken connection, and on silence longer than the watch allows.
        """


class WatchingClient(ClusterClient, Protocol):
    """Calls, and streams that stay open."""

    @property
    def route(self) -> object:
        """A token for the present address and credentials: another one when they change."""

    def stream(self, path: str, params: Mapping[str, str], *, idle: float | None) -> AbstractAsyncContextManager[Lines]:
        """An open watch, or a log. It breaks (see Lines.line) after `idle` seconds without a byte.

        The body of the block is entered only with a successful answer; otherwise it raises like every call.
        """

    def is_too_much(self, objects: int, length: int) -> bool:
        """Whether so many objects, or bytes, of one kind are more than this cluster may show."""

    def report_garbage(self, kind: Kind[Any], about: Object | Stub, why: str) -> None:
        """Tell of an object that cannot be read or taken in."""
