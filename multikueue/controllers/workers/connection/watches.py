"""The watches of one worker: its copies and its jobs of all kinds in use, in each of its namespaces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import anyio.abc

from multikueue.api.kind import Kind
from multikueue.api.kinds import WORKLOADS
from multikueue.api.kueue.workload import ORIGIN_LABEL
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.workers.connection.health import Health
from multikueue.kube.client import Client
from multikueue.kube.reflector import Reflector
from multikueue.store.caches.cache import Cache
from multikueue.store.workers.watch_scope import is_needed
from multikueue.store.workers.worker import WorkerView

__all__ = ["Watches", "selector", "watched"]


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
