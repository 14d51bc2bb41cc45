"""Reads the queues of workers, for the quotas that follow them and for commands that preview these."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import TYPE_CHECKING

from multikueue.api.kinds import CLUSTER_QUEUES, LOCAL_QUEUES
from multikueue.api.kueue.queues import LocalQueue
from multikueue.errors import Forbidden, InvalidObject, MultiKueueError
from multikueue.kube.cluster_client import ClusterClient, Page
from multikueue.quota.capacity.following import Rules, WorkerReserve
from multikueue.quota.capacity.offers import WorkerQueues

if TYPE_CHECKING:
    from multikueue.settings import CapacityFollow

__all__ = ["CORDONED", "read_queues", "rules_of", "why_unread"]

CORDONED = "is cordoned"


def rules_of(settings: CapacityFollow) -> Rules:
    return Rules(
        is_enabled=settings.enabled,
        reserve=WorkerReserve.parse(settings.reserve),
        shrink_after=settings.shrink_after,
        flavors=settings.flavors,
    )


async def read_queues(worker: ClusterClient, namespaces: Collection[str]) -> WorkerQueues:
    """The queues of a worker for the namespaces that it offers; a forbidden namespace only costs its own queues. Raises
    as `ClusterClient` does, Forbidden if all namespaces are forbidden, InvalidObject if a queue cannot be decoded."""
    pages, forbidden = list[Page[LocalQueue]](), list[str]()
    for namespace in namespaces:
        try:
            pages.append(await worker.list(LOCAL_QUEUES, namespace=namespace))
        except Forbidden:
            forbidden.append(namespace)
            if len(forbidden) == len(namespaces):
                raise
    cluster_queues = await worker.list(CLUSTER_QUEUES)
    for key in chain(cluster_queues.undecodable, *(page.undecodable for page in pages)):
        raise InvalidObject(f"queue {key} of the worker", "spec", "what Kueue's API says")
    return WorkerQueues.of([queue for page in pages for queue in page.items], cluster_queues.items, forbidden)


def why_unread(error: MultiKueueError) -> str:
    """Why a reachable worker could not be read, and what to do about it."""
    if isinstance(error, Forbidden):
        return f"may not be read: {error.message}: register it again"
    return f"cannot be read: {error}"
