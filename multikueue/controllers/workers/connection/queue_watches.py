"""The watches of a worker's own queues, which run while ClusterQueues of the manager follow the worker.

They say when to read the worker, and nothing else: what was read counts (`controllers.quota.capacity`). So their failure is no
trouble of the worker, and a worker that refuses them is read at intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio

from multikueue.api.kinds import CLUSTER_QUEUES, LOCAL_QUEUES
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.meta import Object
from multikueue.api.values.foreign import answer_or
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.kube.cluster_client import WatchingClient
from multikueue.kube.reflector import Reflector
from multikueue.kube.transport.loop_share import LoopShare
from multikueue.quota.capacity.offers import WorkerQueues
from multikueue.runtime import first
from multikueue.store.caches.cache import Cache, ignore

__all__ = ["QueueWatches"]

T = TypeVar("T", bound=Object)


@dataclass(slots=True)
class QueueWatches:
    """Owner: the worker's connection. The worker's name goes to the queue `capacity` once its quotas may be others."""

    context: ReconcileContext
    worker: str
    namespaces: tuple[str, ...]

    async def run(self, client: WatchingClient, share: LoopShare) -> None:
        """Watches while the worker is followed, for ever. `share` is what that may take of the event loop."""
        followed = self.context.followed
        while True:
            await followed.until(self.worker, is_followed=True)
            await first(
                partial(followed.until, self.worker, is_followed=False),
                partial(self._watch, client, share),
            )

    async def _watch(self, client: WatchingClient, share: LoopShare) -> None:
        cluster_queues: Cache[ClusterQueue] = Cache(self._telling(_quotas))
        local_queues: Cache[LocalQueue] = Cache(self._telling(_route))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Reflector(client, CLUSTER_QUEUES, cluster_queues, on_state=ignore, share=share).run)
            for namespace in self.namespaces:
                watch = Reflector(client, LOCAL_QUEUES, local_queues, namespace=namespace, on_state=ignore, share=share)
                tasks.start_soon(watch.run)

    def _telling(self, read: Callable[[T], object]) -> Callable[[T | None, T | None], None]:
        """A listener that tells of changes of what is `read` of an object. The rest changes with each job there."""

        def changed(old: T | None, new: T | None) -> None:
            if old is None or new is None or read(old) != read(new):
                self.context.queues.capacity.add(self.worker)

        return changed


def _quotas(queue: ClusterQueue) -> object:
    return answer_or(lambda: WorkerQueues.of((), (queue,)), otherwise=None)


def _route(queue: LocalQueue) -> object:
    return WorkerQueues.of((queue,), ())
