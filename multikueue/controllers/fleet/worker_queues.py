"""Makes the LocalQueues and namespaces that workers lack of the manager's, as `multikueue queues sync` (`registration.queues`).

A worker is looked at when it is connected, when the queues that lead to it change, and now and then: it may have lost one.
What is there stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import anyio
import msgspec

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
from multikueue.api.kueue.queues import LocalQueue
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import DRAIN_ANNOTATION
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.reconcile.events import some
from multikueue.errors import MultiKueueError
from multikueue.kube.cluster_client import ClusterClient
from multikueue.registration.ownership import OwnershipStep, Side
from multikueue.registration.preflight import Routes
from multikueue.registration.queues import look_for_lacking
from multikueue.telemetry import get_logger

__all__ = ["QueueKeeper", "keep_queues"]

log = get_logger()

LOOK_EVERY = timedelta(seconds=5)
"""Between two looks at which workers are due, which makes no calls."""

AGAIN_AFTER = timedelta(minutes=10)
"""A worker that had all its queues may have lost one."""

RETRY_AFTER = timedelta(minutes=1)

AT_ONCE = 8
"""Workers that are looked at at a time."""

SHOWN = 3
"""LocalQueues that an event names."""

ADVICE = "register the worker again with --make-queues, or run `multikueue queues sync`"

LACKING = "QueuesLacking"


class _Look(msgspec.Struct, frozen=True):
    """The last look at a worker: through which client, for which queues, and when it is due again if these stay the same."""

    client: ClusterClient
    queues: tuple[tuple[ObjectKey, str], ...]
    due: datetime


async def keep_queues(context: ReconcileContext) -> None:
    """Keeps the queues of all workers until cancelled."""
    keeper = QueueKeeper(context)
    while True:
        await keeper.look()
        await anyio.sleep(LOOK_EVERY.total_seconds())


@dataclass(slots=True)
class QueueKeeper:
    """What was seen of workers is in memory only: after a restart each is looked at once."""

    context: ReconcileContext
    _looks: dict[str, _Look] = field(default_factory=dict)
    _wanted: dict[str, tuple[LocalQueue, ...]] = field(default_factory=dict)
    _made_of: object = None

    async def look(self) -> None:
        """Look at the workers that are due."""
        due = [*self._due()]
        limiter = anyio.CapacityLimiter(AT_ONCE)

        async def one(name: str, client: ClusterClient, queues: tuple[LocalQueue, ...]) -> None:
            async with limiter:
                is_whole = await self._keep(name, client, queues)
                pause = AGAIN_AFTER if is_whole else RETRY_AFTER
                self._looks[name] = _Look(client, _told(queues), self.context.now() + pause)

        async with anyio.create_task_group() as tasks:
            for name, client, queues in due:
                tasks.start_soon(one, name, client, queues)

    def _due(self) -> Iterable[tuple[str, ClusterClient, tuple[LocalQueue, ...]]]:
        store, now = self.context.store, self.context.now()
        clients = dict(self.context.clients)
        self._looks = {name: look for name, look in self._looks.items() if name in clients}
        wanted = self._routes()
        for name, client in clients.items():
            cluster, look, queues = store.clusters.get(ObjectKey("", name)), self._looks.get(name), wanted.get(name, ())
            if cluster is None or DRAIN_ANNOTATION in cluster.metadata.annotations or not queues:
                continue
            if look is None or look.client is not client or look.queues != _told(queues) or look.due <= now:
                yield name, client, queues

    def _routes(self) -> Mapping[str, tuple[LocalQueue, ...]]:
        """The LocalQueues that lead to each worker, built again only where a part of it changed."""
        store = self.context.store
        local, shared = [*store.local_queues], [*store.cluster_queues]
        checks, configs = [*store.checks], [*store.configs]
        versions = [(each.metadata.uid, each.metadata.generation) for each in (*local, *shared, *checks)]
        parts = (versions, [each.metadata.resource_version for each in configs])
        if parts != self._made_of:
            routes = Routes(local_queues=local, cluster_queues=shared, checks=checks, configs=configs)
            named: dict[str, list[LocalQueue]] = {}
            to = {each.metadata.name: routes.clusters_of(each) or () for each in shared}
            for queue in local:
                for name in to.get(queue.spec.cluster_queue, ()):
                    named.setdefault(name, []).append(queue)
            self._wanted = {name: tuple(queues) for name, queues in named.items()}
            self._made_of = parts
        return self._wanted

    async def _keep(self, name: str, client: ClusterClient, queues: tuple[LocalQueue, ...]) -> bool:
        """Makes what a worker lacks; whether it has everything now."""
        spaces = {each.metadata.name: each for each in self.context.store.namespaces}
        offered = self.context.store.worker(name).watch_scope.namespaces
        side = Side(client=client, where=name, report=_log)
        try:
            found = await look_for_lacking(client, queues, spaces, offered, origin=self.context.origin, advice=ADVICE)
            for wanted in found.wanted:
                await side.ensure(wanted)
        except MultiKueueError as error:
            self._tell(name, str(error))
            return False
        problems = [f"LocalQueue {key}: {why}" for key, why in found.problems.items()]
        if problems:
            self._tell(name, some(problems, SHOWN))
        return not problems

    def _tell(self, name: str, message: str) -> None:
        cluster = self.context.store.clusters.get(ObjectKey("", name))
        log.warning("fleet.queues_lacking", cluster=name, why=message)
        if cluster is not None:
            self.context.recorder.emit(MULTIKUEUE_CLUSTERS, cluster, type_="Warning", reason=LACKING, message=message)


def _told(queues: Iterable[LocalQueue]) -> tuple[tuple[ObjectKey, str], ...]:
    return tuple((each.key, each.spec.cluster_queue) for each in queues)


def _log(step: OwnershipStep) -> None:
    if step.action == "created":
        log.info("fleet.queue_made", cluster=step.where, what=step.what)
