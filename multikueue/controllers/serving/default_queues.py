"""The namespaces with a LocalQueue `default`, which takes the jobs that name no queue (quota-engine 6.1).

The webhook's registration names them, so that jobs without a queue cause no calls in other namespaces.
"""

from __future__ import annotations

import anyio

from multikueue.api.kueue.queues import LocalQueue
from multikueue.jobs.framework.webhook import DEFAULT_QUEUE
from multikueue.runtime import Clock, first
from multikueue.store.caches.cache import Cache

__all__ = ["DefaultQueues"]


class DefaultQueues:
    """Follows the LocalQueues of the manager cluster from now on."""

    def __init__(self, queues: Cache[LocalQueue]) -> None:
        self._namespaces: set[str] = set()
        self._news = anyio.Event()
        for queue in queues:
            self._changed(None, queue)
        queues.follow(self._changed)

    def __contains__(self, namespace: str) -> bool:
        return namespace in self._namespaces

    def take(self) -> tuple[str, ...]:
        """The namespaces, sorted; `pause` waits for a change from now on."""
        self._news = anyio.Event()
        return tuple(sorted(self._namespaces))

    async def pause(self, clock: Clock, seconds: float) -> None:
        """Returns after so many seconds, or as soon as the namespaces changed after `take`."""
        await first(lambda: clock.sleep(seconds), lambda: self._news.wait())

    def _changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        queue = new or old
        assert queue is not None
        if queue.metadata.name != DEFAULT_QUEUE or (old is not None and new is not None):
            return
        if new is not None:
            self._namespaces.add(queue.metadata.namespace)
        else:
            self._namespaces.discard(queue.metadata.namespace)
        self._news.set()
