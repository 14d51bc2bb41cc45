"""The watches of one worker: its copies and its jobs of all kinds in use, in each of its namespaces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import cycle, product
from typing import Any, TypeVar

import anyio
import anyio.abc

from multikueue.api.kind import Kind
from multikueue.api.kinds import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOAD_USAGES,
    WORKLOADS,
)
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.kueue.workload import ORIGIN_LABEL
from multikueue.api.meta import Object
from multikueue.api.values.foreign import answer_or
from multikueue.controllers.reconcile.context import Followed, ReconcileContext
from multikueue.controllers.workers.connection.health import Health
from multikueue.kube.client import Client
from multikueue.kube.cluster_client import WatchingClient
from multikueue.kube.reflector import Reflector
from multikueue.kube.transport.loop_share import LoopShare
from multikueue.quota.capacity.offers import WorkerQueues
from multikueue.runtime import first
from multikueue.store.caches.cache import Cache
from multikueue.store.caches.closed_queues import SeenQueues
from multikueue.store.workers.watch_scope import is_needed
from multikueue.store.workers.worker import WorkerView

__all__ = ["QueueWatches", "RoomWatches", "Watches", "selector", "watched"]

DOUBTED_AGAIN = timedelta(seconds=2)
"""The shortest time between two looks at the queues of a worker for a doubt: each lists them."""


@dataclass(slots=True)
class Watches:
    """Owner: the worker's connection. The watches report their state to its health and to the view of the worker.
    `vouch` is awaited before a watch lists again (`Reflector`)."""

    context: ReconcileContext
    worker: WorkerView
    namespaces: tuple[str, ...]
    health: Health
    vouch: Callable[[Client], Awaitable[None]]
    are_running: bool = False
    _reflectors: list[Reflector[Any]] = field(default_factory=list)

    def prepare(self, client: Client) -> dict[str, str]:
        """Makes the watches of a new connection, not running yet. Returns by part the trouble of each until its list."""
        all_watched = tuple(product(watched(self.worker), self.namespaces))
        self.are_running = False
        self.worker.known_objects.list_anew = self._list_anew
        self._reflectors = [self._reflector(client, kind, cache, namespace) for (kind, cache), namespace in all_watched]
        return {_part(kind, namespace): _unlisted(kind) for (kind, _), namespace in all_watched}

    def run(self, tasks: anyio.abc.TaskGroup) -> None:
        self.are_running = True
        for reflector in self._reflectors:
            tasks.start_soon(reflector.run)

    def add(self, tasks: anyio.abc.TaskGroup, client: Client, kind: Kind[Any], cache: Cache[Any]) -> None:
        """Watches a kind that is new on the manager cluster. No such job of ours can exist yet, so all else goes on."""
        for namespace in self.namespaces:
            reflector = self._reflector(client, kind, cache, namespace)
            self._reflectors.append(reflector)
            self.worker.record_watch(kind, _unlisted(kind), self.context.now(), namespace=namespace)
            if self.are_running:
                tasks.start_soon(reflector.run)

    def hurry(self) -> None:
        """The worker answers again: broken watches list again at once."""
        for reflector in self._reflectors:
            reflector.hurry()

    def retry(self) -> None:
        """The worker still answers: broken watches try again at once."""
        for reflector in self._reflectors:
            reflector.retry()

    def _reflector(self, client: Client, kind: Kind[Any], cache: Cache[Any], namespace: str) -> Reflector[Any]:
        def on_state(is_healthy: bool, why: str) -> None:
            is_missing = not is_healthy and reflector.refused and _is_optional(kind, namespace)
            self.worker.record_watch(kind, why if is_missing else "", self.context.now(), namespace=namespace)
            self.health.report("namespaces", self._why_none_watched())
            self.health.report(_part(kind, namespace), "" if is_healthy or is_missing else f"{kind.plural}: {why}")
            if not is_healthy and not is_missing:
                metrics = self.context.metrics
                metrics.guarded("watches", lambda: metrics.watch_failures(self.worker.name, kind.plural).inc())()

        reflector: Reflector[Any] = Reflector(
            client,
            kind,
            cache,
            label_selector=selector(self.context),
            namespace=namespace,
            on_state=on_state,
            vouch=partial(self.vouch, client),
            share=client.share,
        )
        return reflector

    def _list_anew(self) -> None:
        """Objects that were left out may be cached now."""
        for reflector in self._reflectors:
            reflector.list_anew()

    def _why_none_watched(self) -> str:
        """Why no namespace can be watched; empty if one can."""
        failed = tuple(self.worker.watch_scope.failed_namespaces())
        return f"namespace {failed[0][0]}: {failed[0][1]}" if failed and len(failed) == len(self.namespaces) else ""


def watched(worker: WorkerView) -> tuple[tuple[Kind[Any], Cache[Any]], ...]:
    """The kinds of objects that are watched on a worker, each with its cache."""
    return (WORKLOADS, worker.workloads), *((kind, worker.jobs.of(kind)) for kind in worker.jobs.kinds)


def selector(context: ReconcileContext) -> str:
    """The label selector of our objects on a worker."""
    return f"{ORIGIN_LABEL}={context.origin}"


def _unlisted(kind: Kind[Any]) -> str:
    return f"{kind.plural}: not listed yet"


def _part(kind: Kind[Any], namespace: str) -> str:
    return f"{kind.name} {namespace}"


def _is_optional(kind: Kind[Any], namespace: str) -> bool:
    """Whether a worker is usable without that watch: a worker without a kind of jobs, or without one of its namespaces,
    is merely not chosen for those jobs."""
    return bool(namespace) or not is_needed(kind)


T = TypeVar("T", bound=Object)


@dataclass(slots=True)
class QueueWatches:
    """Owner: the worker's connection. They run while the worker is followed or doubted.

    Of a worker that is followed they say when to read it: its name goes to the queue `capacity` once its quotas may be others,
    and what was read counts (`controllers.quota.capacity`). Of each they say which of the manager's queues are closed there
    (`store.caches.closed_queues`). Their failure is no trouble of the worker: one that refuses them is read at intervals, and
    none of its queues is known to be closed.
    """

    context: ReconcileContext
    worker: str
    namespaces: tuple[str, ...]
    _doubts: Followed = field(default_factory=Followed)

    async def run(self, client: WatchingClient, share: LoopShare) -> None:
        """Watches while the worker is followed or doubted, forever. `share` is what that may take of the event loop."""
        self.context.store.closed_queues.when_doubted(self.worker, self._doubt)
        pause = timedelta()
        while True:
            await first(
                partial(self.context.followed.until, self.worker, is_followed=True), partial(self._until_doubted, pause)
            )
            await first(self._until_settled, partial(self._watch, client, share))
            pause = DOUBTED_AGAIN

    def _doubt(self, is_doubted: bool) -> None:
        self._doubts.put((self.worker,) if is_doubted else ())

    async def _until_doubted(self, pause: timedelta) -> None:
        await anyio.sleep(pause.total_seconds())
        await self._doubts.until(self.worker, is_followed=True)

    async def _until_settled(self) -> None:
        """Returns once the worker is neither followed nor doubted."""
        for reasons in cycle((self.context.followed, self._doubts)):
            await reasons.until(self.worker, is_followed=False)
            if self.worker not in self.context.followed and self.worker not in self._doubts:
                return

    async def _watch(self, client: WatchingClient, share: LoopShare) -> None:
        known = self.context.store.closed_queues
        watches: list[tuple[Kind[Any], str]] = [
            (CLUSTER_QUEUES, ""),
            *((LOCAL_QUEUES, namespace) for namespace in self.namespaces),
        ]
        seen = known.watch(self.worker, ((kind.plural, namespace) for kind, namespace in watches))
        seen.cluster_queues.observe(self._telling(_quotas))
        seen.local_queues.observe(self._telling(_route))
        try:
            async with anyio.create_task_group() as tasks:
                for kind, namespace in watches:
                    tasks.start_soon(self._reflector(client, share, seen, kind, namespace).run)
        finally:
            known.unwatch(self.worker, seen)

    def _reflector(
        self, client: WatchingClient, share: LoopShare, seen: SeenQueues, kind: Kind[Any], namespace: str
    ) -> Reflector[Any]:
        cache: Cache[Any] = seen.local_queues if kind is LOCAL_QUEUES else seen.cluster_queues

        def on_state(is_healthy: bool, _why: str) -> None:
            seen.report(kind.plural, namespace, stands=is_healthy)
            if reflector.refused:
                self._doubt(False)  # it is asked again with the next doubt

        reflector: Reflector[Any] = Reflector(client, kind, cache, namespace=namespace, on_state=on_state, share=share)
        return reflector

    def _telling(self, read: Callable[[T], object]) -> Callable[[T | None, T | None], None]:
        """A listener for changes of what is `read` of an object. The rest changes with each job there."""

        def changed(old: T | None, new: T | None) -> None:
            if old is None or new is None or read(old) != read(new):
                self.context.queues.capacity.add(self.worker)

        return changed


def _quotas(queue: ClusterQueue) -> object:
    return answer_or(lambda: WorkerQueues.of((), (queue,)), otherwise=None)


def _route(queue: LocalQueue) -> object:
    return WorkerQueues.of((queue,), ())


@dataclass(slots=True)
class RoomWatches:
    """Owner: the worker's connection. They fill the worker's room (`store.caches.rooms`), once a strategy reads it.

    Our own copies are watched already, so of the workloads there only those of others are watched here, without their
    templates. What the worker does not let us watch is not known: no trouble of the worker.
    """

    context: ReconcileContext
    worker: str
    namespaces: tuple[str, ...]

    async def run(self, client: WatchingClient, share: LoopShare) -> None:
        """Watches forever. `share` is what that may take of the event loop."""
        needed, rooms = anyio.Event(), self.context.store.rooms
        rooms.wanted.when_wanted(self.worker, needed.set)
        await needed.wait()
        room = rooms.worker(self.worker)
        watches: list[tuple[Kind[Any], Cache[Any], str, str]] = [
            (CLUSTER_QUEUES, room.cluster_queues, "", ""),
            (COHORTS, room.cohorts, "", ""),
            (RESOURCE_FLAVORS, room.flavors, "", ""),
            *((LOCAL_QUEUES, room.local_queues, "", namespace) for namespace in self.namespaces),
            *((WORKLOAD_USAGES, room.workloads, _others(self.context), namespace) for namespace in self.namespaces),
        ]
        room.begin((kind.plural, namespace) for kind, _, _, namespace in watches)
        try:
            async with anyio.create_task_group() as tasks:
                for kind, cache, labels, namespace in watches:
                    tasks.start_soon(self._reflector(client, share, kind, cache, labels, namespace).run)
        finally:
            room.end()

    def _reflector(
        self, client: WatchingClient, share: LoopShare, kind: Kind[Any], cache: Cache[Any], labels: str, namespace: str
    ) -> Reflector[Any]:
        report = partial(self.context.store.rooms.worker(self.worker).report, kind.plural, namespace)

        def on_state(is_healthy: bool, why: str) -> None:
            report("" if is_healthy else why, is_refused=reflector.refused)

        reflector: Reflector[Any] = Reflector(
            client, kind, cache, label_selector=labels, namespace=namespace, on_state=on_state, share=share
        )
        return reflector


def _others(context: ReconcileContext) -> str:
    """The label selector of objects on a worker that are not ours."""
    return f"{ORIGIN_LABEL}!={context.origin}"
