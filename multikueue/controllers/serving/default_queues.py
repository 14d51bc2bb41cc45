"""Which namespaces have a LocalQueue that takes in jobs that name none, `default` (quota-engine 6.1).

The webhook's registration names them, so that nothing elsewhere is asked about.
"""

from __future__ import annotations

import anyio

from multikueue.api.queues import LocalQueue
from multikueue.jobs.framework.webhook import DEFAULT_QUEUE
from multikueue.runtime import Clock, first
from multikueue.store.cache import Cache

__all__ = ["DefaultQueues"]


class DefaultQueues:
    """Follows the LocalQueues of the manager cluster from now on."""

    def __init__(self, queues: Cache[LocalQueue]) -> None:
        self._namespaces: set[str] = set()
        self._news = anyio.Event()
        for queue in queues:
            self._changed(None, queue)
        queues.observe(self._changed)

    def __contains__(self, namespace: str) -> bool:
        return namespace in self._namespaces

    def take(self) -> tuple[str, ...]:
        """The namespaces, by name; what `pause` waits for is a change from now on."""
        self._news = anyio.Event()
        return tuple(sorted(self._namespaces))

    async def pause(self, clock: Clock, seconds: float) -> None:
        """Returns after so many seconds, or as soon as it is not as it was when it was taken."""
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
