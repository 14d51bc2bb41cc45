"""Through which queues of workers nothing can run, so that no copy is sent there.

The workers' own LocalQueues and ClusterQueues say so. They change with each job there, and most workers have all queues. So a
connection watches them only in doubt (`controllers.workers.connection.watches`): from its beginning, and from when a queue of
the manager begins to lead there or a copy says that its queue there is closed, until none of the manager's queues is. What is
not watched is not known, and open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.meta import ObjectKey
from multikueue.store.caches.cache import Cache
from multikueue.workload.nomination.foresight import closed, why_inactive

__all__ = ["ClosedQueues", "SeenQueues"]

Doubted = Callable[[bool], None]
"""Called with True when a worker is doubted, with False once that is over."""


class SeenQueues:
    """The queues of one worker while they are watched: `parts` are plurals, and namespaces (empty: all). Its connection fills
    the caches, and says by `report` how its watches are: the queues are known while all of them stand."""

    def __init__(self, parts: Iterable[tuple[str, str]], changed: Callable[[], None]) -> None:
        self.local_queues: Cache[LocalQueue] = Cache(self._local_queue_changed)
        self.cluster_queues: Cache[ClusterQueue] = Cache(self._cluster_queue_changed)
        self._parts, self._stand, self._changed = frozenset(parts), set[tuple[str, str]](), changed

    @property
    def are_known(self) -> bool:
        return self._stand == self._parts

    def report(self, plural: str, namespace: str, *, stands: bool) -> None:
        """The watch of a plural in a namespace (empty: all) stands from now on, or does not."""
        (self._stand.add if stands else self._stand.discard)((plural, namespace))
        self._changed()

    def why_closed(self, queue: ObjectKey) -> str:
        """Why the LocalQueue of that name admits nothing there; empty if it does, or if that is not known."""
        if not self.are_known or self._parts.isdisjoint((("localqueues", ""), ("localqueues", queue.namespace))):
            return ""
        found = self.local_queues.get(queue)
        behind = self.cluster_queues.get(ObjectKey("", found.spec.cluster_queue)) if found is not None else None
        return closed(queue, found, behind)

    def _local_queue_changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._changed()

    def _cluster_queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        if old is None or new is None or why_inactive(old) != why_inactive(new):
            self._changed()


class ClosedQueues:
    """Owner: the store. `leading` has the LocalQueues of the manager that lead to a worker. `changed` is called with those that
    are closed or open now and were not before."""

    def __init__(
        self, leading: Callable[[str], Iterable[ObjectKey]], changed: Callable[[Iterable[ObjectKey]], None]
    ) -> None:
        self._leading, self._tell = leading, changed
        self._doubted: dict[str, Doubted] = {}
        self._seen: dict[str, SeenQueues] = {}
        self._of: dict[str, Mapping[ObjectKey, str]] = {}

    def when_doubted(self, worker: str, doubted: Doubted) -> None:
        """A worker is connected, and doubted at first. The last connection of a worker counts."""
        self._doubted[worker] = doubted
        doubted(True)

    def watch(self, worker: str, parts: Iterable[tuple[str, str]]) -> SeenQueues:
        seen = self._seen[worker] = SeenQueues(parts, lambda: self._judge(worker))
        return seen

    def unwatch(self, worker: str, seen: SeenQueues) -> None:
        """That watch has ended; the next one may have begun."""
        if self._seen.get(worker) is seen:
            del self._seen[worker]
            self._judge(worker)

    def doubt(self, workers: Iterable[str]) -> None:
        """Queues of these workers may be closed: those that are connected are looked at."""
        for worker in workers if self._doubted else ():
            seen, doubted = self._seen.get(worker), self._doubted.get(worker)
            if seen is not None and seen.are_known:
                self._judge(worker)
            elif doubted is not None:
                doubted(True)

    def forget_worker(self, name: str) -> None:
        self._doubted.pop(name, None)

    def __bool__(self) -> bool:
        """Whether any is known to be closed: nearly never."""
        return bool(self._of)

    def of(self, queue: ObjectKey) -> Mapping[str, str]:
        """Why a LocalQueue is closed, by worker."""
        return {worker: found[queue] for worker, found in self._of.items() if queue in found}

    def _judge(self, worker: str) -> None:
        seen, before = self._seen.get(worker), self._of.pop(worker, {})
        found: dict[ObjectKey, str] = {}
        if seen is not None and seen.are_known:
            found = {queue: why for queue in self._leading(worker) if (why := seen.why_closed(queue))}
            if found:
                self._of[worker] = found
            elif worker in self._doubted:
                self._doubted[worker](False)
        news = [queue for queue in {**before, **found} if before.get(queue) != found.get(queue)]
        if news:
            self._tell(news)
