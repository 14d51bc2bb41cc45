"""Optional kinds of jobs, all but batch Jobs: off until the manager cluster has and shows them, on from then on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskGroup

from multikueue.api.kind import Kind
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.reconcile.events import log_state
from multikueue.errors import ApiError, ClusterUnreachable, Forbidden, NotFound
from multikueue.jobs.framework.adapter import Adapter
from multikueue.kube.reflector import Reflector
from multikueue.store.caches.cache import Cache
from multikueue.telemetry import get_logger

__all__ = ["JobKinds"]

log = get_logger()

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between two requests for a missing kind: short at first, while the cluster is set up."""


@dataclass(slots=True)
class JobKinds:
    """Watches the jobs of the kinds in use that the manager cluster has.

    A kind is opened in the store before its jobs are listed, so that the workers are watched for it too. A missing kind
    is logged once, and requested repeatedly. With `may_make_workloads` off, the kinds that describe pods are not
    watched.
    """

    context: ReconcileContext
    may_make_workloads: bool = True
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    _settled: dict[str, anyio.Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._settled = {adapter.kind.name: anyio.Event() for adapter in self._adapters()}

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for adapter in self._adapters():
                tasks.start_soon(self._keep, adapter)

    async def known(self) -> None:
        """Returns once the jobs of each kind were listed, or the kind was found missing."""
        for settled in self._settled.values():
            await settled.wait()

    def _adapters(self) -> list[Adapter]:
        return [adapter for adapter in self.context.store.adapters if adapter.kind.is_optional]

    def _runtimes(self, adapter: Adapter) -> tuple[Kind[Any], ...]:
        """The kinds that describe the pods of its jobs, needed only to make Workloads."""
        return adapter.runtimes.kinds if adapter.runtimes is not None and self.may_make_workloads else ()

    async def _keep(self, adapter: Adapter) -> None:
        kind, store = adapter.kind, self.context.store
        settled = self._settled[kind.name]
        async with anyio.create_task_group() as tasks:
            for runtime in self._runtimes(adapter):  # first: without them its jobs would seem to have no pods
                await self._appearance(runtime, settled)
                await self._watch(runtime, store.runtimes.of(runtime), tasks)
            await self._appearance(kind, settled)
            cache = store.open_jobs(kind)
            log.info("jobs.kind_on", kind=kind.name, version=kind.version)
            await self._watch(kind, cache, tasks, selector=adapter.selector)
            settled.set()

    async def _watch(self, kind: Kind[Any], cache: Cache[Any], tasks: TaskGroup, *, selector: str = "") -> None:
        """Starts the watch of a kind, and returns after its first list."""
        reflector = Reflector(
            self.context.manager, kind, cache, label_selector=selector, on_state=log_state(kind.plural)
        )
        tasks.start_soon(reflector.run)
        await reflector.synced.wait()

    async def _appearance(self, kind: Kind[Any], settled: anyio.Event) -> None:
        """Requests the kind until the manager cluster has it and lets us see it."""
        pause, told = FIRST_PAUSE, ""
        while True:
            try:
                await self.context.manager.request("GET", kind.path(), params={"limit": "1"})
            except (NotFound, Forbidden) as error:
                why = _why(kind, error)
                if why != told:
                    log.info("jobs.kind_off", kind=kind.name, version=kind.version, why=why)
                told = why
                settled.set()
            except (ApiError, ClusterUnreachable) as error:
                log.warning("jobs.kind_unknown", kind=kind.name, why=str(error))
            else:
                return
            await self.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)


def _why(kind: Kind[Any], error: ApiError) -> str:
    if isinstance(error, NotFound):
        return f"the cluster has no kind {kind.kind} ({kind.api_version})"
    return str(error)
