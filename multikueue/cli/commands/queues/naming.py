"""Lookup of a queue by name: a LocalQueue of the namespace, or `clusterqueue/NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from multikueue.cli.access.completion import queues
from multikueue.cli.access.connection import fetch_pairs
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.inherited import inherited
from multikueue.cli.terminal.nearest import there_are

if TYPE_CHECKING:
    from multikueue.api.kind import Kind
    from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
    from multikueue.kube.client import Client

__all__ = ["FoundQueue", "InQueueNamespace", "NamedQueue", "find"]

NamedQueue = Annotated[
    str,
    typer.Argument(
        metavar="[KIND/]NAME",
        help="Name of a LocalQueue, or clusterqueue/NAME.",
        show_default=False,
        autocompletion=queues,
    ),
]
InQueueNamespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        callback=inherited("namespace"),
        help="Namespace of the LocalQueues. (default: that of the context)",
        show_default=False,
    ),
]

_CLUSTER_QUEUE = ("cq", "clusterqueue", "clusterqueues")
_LOCAL_QUEUE = ("", "lq", "queue", "queues", "localqueue", "localqueues")


class FoundQueue(msgspec.Struct, frozen=True):
    """A queue: as the server sent it, and as a value."""

    kind: Kind[Any]
    item: dict[str, Any]
    queue: LocalQueue | ClusterQueue

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.queue.key if self.kind.namespaced else self.queue.metadata.name}"


async def find(client: Client, namespace: str, named: str) -> FoundQueue:
    """The queue of that name. Raises CommandFailed with the nearest names."""
    from multikueue.api import kinds

    word, _, name = named.rpartition("/")
    word = word.lower().removesuffix(".kueue.x-k8s.io")
    if word not in (*_CLUSTER_QUEUE, *_LOCAL_QUEUE):
        raise CommandFailed(
            f"{named!r}: {word!r} is no kind of queues; {there_are(word, ('localqueue', 'clusterqueue'))}"
        )
    kind: Kind[Any] = kinds.CLUSTER_QUEUES if word in _CLUSTER_QUEUE else kinds.LOCAL_QUEUES
    pairs = await fetch_pairs(client, kind, namespace=namespace if kind.namespaced else "")
    for item, queue in pairs:
        if queue.metadata.name == name:
            return FoundQueue(kind, item, queue)
    known = there_are(name, (queue.metadata.name for _, queue in pairs))
    where = f" in namespace {namespace}" if kind.namespaced else ""
    raise CommandFailed(f"there is no {kind.kind} {name!r}{where}; {known}")
