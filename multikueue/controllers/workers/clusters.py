"""MultiKueueCluster to connection, and the connection's state to its Active condition (contract 1.2, 2).

Each worker has its own subtree of tasks (`connection`), so trouble with one worker stays in its subtree. The isolation
of a worker is written into the object and counts from the time written there: a restart does not reset it. A manager
without connections of its own has the state of the workers by their Active conditions alone (`Reports`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import anyio
import anyio.abc
import msgspec

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.kueue.compatibility import Compatibility
from multikueue.api.meta import Condition, ObjectKey, find_condition
from multikueue.api.multikueue.clusters import MultiKueueCluster, prices_problem
from multikueue.api.values.foreign import excerpt
from multikueue.controllers.reconcile.conditions import active, write_condition
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.reconcile.events import some
from multikueue.controllers.workers.connection.connection import Connection
from multikueue.controllers.workers.connection.kubeconfigs import NOT_LOADED, Access, Kubeconfigs, RefusedError
from multikueue.controllers.workers.connection.worker_credentials import CONNECTION_FAILED, CREDENTIAL_EXPIRING
from multikueue.dispatch.remote import Reach
from multikueue.errors import MultiKueueError
from multikueue.kube.renewal import renew
from multikueue.quota.cache.budgets import INVALID_ANNOTATION
from multikueue.runtime import DONE, Result, watch_files
from multikueue.settings import Dispatch
from multikueue.store.workers.watch_scope import namespaces_of
from multikueue.store.workers.worker import WorkerView
from multikueue.telemetry import get_logger

__all__ = ["Clusters", "Reports"]

log = get_logger()

OLD = "the one in use"

SHOWN = 5
"""Maximum number of namespaces in one message."""

LOOK, LOOKS = timedelta(seconds=1), 5
"""Interval of the checks of workers without a connection, and uninterrupted checks before their absence counts."""

LOOP_SHARE_EXCEEDED = "LoopShareExceeded"
"""Reason of an event."""

DEPRECATED_PATH = "DeprecatedPathUsage"
DEPRECATED_PATH_MESSAGE = (
    "Any file of the manager may be named here by anyone who may write this. Set dispatch.kubeconfig_directory, and have "
    "the kubeconfig there"
)

RETRY_REFUSED = timedelta(seconds=30)
"""Time until a refused source is read again, in case the event of its change was missed."""


@dataclass(slots=True)
class Clusters:
    """Owner of all connections. `run` is their task group; `reconcile` keeps one in step with its object."""

    context: ReconcileContext
    settings: Dispatch
    namespace: str
    _connections: dict[str, Connection] = field(default_factory=dict)
    _before: dict[str, Access] = field(default_factory=dict)
    _insecure: set[str] = field(default_factory=set)
    """Those whose kubeconfig was taken while it might break the rules."""

    _told_of_path: dict[str, tuple[str, int]] = field(default_factory=dict)
    _contacts: defaultdict[str, anyio.Event] = field(default_factory=lambda: defaultdict(anyio.Event))
    _tasks: anyio.abc.TaskGroup | None = None
    _kubeconfigs: Kubeconfigs = field(init=False)

    def __post_init__(self) -> None:
        self._kubeconfigs = Kubeconfigs(self.context.store, self.context.settings, self.namespace)

    async def run(self) -> None:
        """Holds the connections, and watches the sources of their kubeconfigs, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._kubeconfigs.watch, self.context.manager)
            await self._look_around(self._tasks)

    async def _look_around(self, tasks: anyio.abc.TaskGroup) -> None:
        """Counts the absence of workers without a connection, whose kubeconfig or object is gone. Only uninterrupted
        checks count: a process that was stopped, maybe with its machine, must first receive what changed.

        Files are watched from the first one on: most fleets have none, and the watch polls."""
        looks, began, watches_files = 0, self.context.now(), False
        while True:
            if not watches_files and self.context.store.clusters.named("file"):
                tasks.start_soon(watch_files, self.context.store.files, self._file_changed)
                watches_files = True
            await asyncio.sleep(LOOK.total_seconds())
            now = self.context.now()
            looks = looks + 1 if now - began < 2 * LOOK else 0
            if looks >= LOOKS:
                self._looked(began)
            began = now

    def _looked(self, began: datetime) -> None:
        for name, worker in self.context.store.workers.items():
            if name not in self._connections:
                worker.probe_failed(began, self.context.now(), self.context.lost_after)

    def _file_changed(self, path: str) -> None:
        self.context.store.source_changed("Path", path)

    async def reconcile(self, name: str) -> Result:
        cluster = self.context.store.clusters.get(ObjectKey("", name))
        if cluster is None:
            self._part_with(name)
            return DONE
        worker = self.context.store.worker(name)
        self._remember(worker, cluster)
        self._warn_of_path(cluster)
        if problem := prices_problem(cluster):
            self.context.recorder.emit(
                MULTIKUEUE_CLUSTERS, cluster, type_="Warning", reason=INVALID_ANNOTATION, message=problem
            )
        try:
            connection = await self._connect(cluster)
        except RefusedError as refusal:
            self._disconnect(name, refusal.message)
            await self._write(cluster, self._refused(cluster, refusal))
            return Result(again_after=RETRY_REFUSED)
        condition = self._condition(cluster, connection)
        if condition is not None:
            await self._write(cluster, condition)
            self._warn(cluster, connection)
        self._renew(cluster, connection)
        return Result(again_after=connection.expiry.until_news())

    def _renew(self, cluster: MultiKueueCluster, connection: Connection) -> None:
        """Begins to renew a token in a Secret, if that is due. The Secret that comes of it is another reconcile, and a standby
        leaves it to the leader."""
        source, client = cluster.spec.cluster_source.kube_config, self.context.clients.get(connection.name)
        if source is None or source.location_type == "Path" or client is None or not self.context.mandate.is_valid():
            return
        secret = self.context.store.secrets.get(ObjectKey(self.namespace, source.location))
        if secret is None or self._tasks is None or not connection.expiry.is_due():
            return

        async def work() -> None:
            try:
                if await renew(client, self.context.manager, secret):
                    log.info("cluster.credential_renewed", cluster=connection.name)
            except MultiKueueError as error:
                connection.expiry.not_renewed = str(error)
                log.warning("cluster.credential_not_renewed", cluster=connection.name, why=str(error))
            self.context.queues.clusters.add(connection.name)

        self._tasks.start_soon(work, name=f"renewal of {connection.name}")

    async def contact(self, name: str) -> None:
        """Waits until the worker was connected once."""
        await self._contacts[name].wait()

    def _remember(self, worker: WorkerView, cluster: MultiKueueCluster) -> None:
        """A loss that the leader before this one recorded counts from the recorded time. What is recorded later is ours,
        or says less than we know."""
        condition = find_condition(cluster.status.conditions, ACTIVE)
        is_lost = condition is not None and condition.status == "False"
        worker.recorded(condition.last_transition_time if condition is not None and is_lost else None)

    async def _connect(self, cluster: MultiKueueCluster) -> Connection:
        """The connection by the cluster's current source, made or changed as needed. Raises RefusedError."""
        name, namespaces = cluster.metadata.name, namespaces_of(cluster)
        kubeconfig = await self._kubeconfigs.read(cluster)
        running = self._connections.get(name)
        stays = running is not None and (running.newest, running.namespaces) == (kubeconfig, namespaces)
        if running is not None and stays and self._may_be_used(name):
            return running
        access = await self._kubeconfigs.access(cluster, kubeconfig)
        takes_any = self.context.settings.dispatch.insecure_kubeconfigs
        (self._insecure.add if takes_any else self._insecure.discard)(name)
        running = self._connections.get(name)
        if running is not None and running.can_take_offers and running.namespaces == namespaces:
            running.offer(access)
            return running
        if running is not None:
            self._stop(running)
        return self._start(name, access, namespaces)

    def _warn_of_path(self, cluster: MultiKueueCluster) -> None:
        """Warns once for each version of the object: its author may name any file of ours."""
        source, settings = cluster.spec.cluster_source.kube_config, self.context.settings
        if source is None or source.location_type != "Path" or settings.dispatch.kubeconfig_directory is not None:
            return
        name, version = cluster.metadata.name, (cluster.metadata.uid, cluster.metadata.generation)
        is_told = self._told_of_path.get(name) == version or not self.context.mandate.is_valid()
        if is_told or not Compatibility.of(settings.quota.compatibility).has_deprecated_paths:
            return
        self._told_of_path[name] = version
        self.context.recorder.emit(
            MULTIKUEUE_CLUSTERS, cluster, type_="Warning", reason=DEPRECATED_PATH, message=DEPRECATED_PATH_MESSAGE
        )

    def _may_be_used(self, name: str) -> bool:
        """Whether its kubeconfig was checked by rules as strict as the present ones."""
        return self.context.settings.dispatch.insecure_kubeconfigs or name not in self._insecure

    def _start(self, name: str, access: Access, namespaces: tuple[str, ...]) -> Connection:
        worker, contact, before = self.context.store.worker(name), self._contacts[name], self._before.pop(name, None)
        made = Connection(self.context, self.settings, worker, access, contact, namespaces, before=before)
        self._connections[name] = made
        worker.awaited()
        assert self._tasks is not None
        self._tasks.start_soon(made.run, name=f"cluster {name}")
        return made

    def _stop(self, connection: Connection) -> None:
        """Ends a connection. The view of the worker stays, so the next connection must lead to the same cluster."""
        connection.stop()
        if connection.worker.is_in_use:
            self._before[connection.name] = connection.before or connection.access

    def _disconnect(self, name: str, why: str) -> None:
        connection = self._connections.pop(name, None)
        if connection is not None:
            self._stop(connection)
        self.context.store.worker(name).disconnected(why, self.context.now())

    def _part_with(self, name: str) -> None:
        """Disconnects a worker whose MultiKueueCluster is gone. Its known objects count until the worker is lost, as
        with any other worker; then they are forgotten, here or by the sweep."""
        worker, connected = self.context.store.workers.get(name), name in self._connections
        if worker is None:
            return
        self._disconnect(name, "its MultiKueueCluster is gone")
        if connected:
            return  # until its tasks have ended
        if worker.is_lost(self.context.now(), self.context.lost_after):
            worker.forget()
        if self.context.store.forget_worker(name):
            self._before.pop(name, None)
            self._contacts.pop(name, None)
            self._told_of_path.pop(name, None)
            self._insecure.discard(name)
            self.context.identified.pop(name, None)

    def _refused(self, cluster: MultiKueueCluster, refusal: RefusedError) -> Condition:
        generation = cluster.metadata.generation
        return active(is_active=False, reason=refusal.reason, message=refusal.message, generation=generation)

    def _condition(self, cluster: MultiKueueCluster, connection: Connection) -> Condition | None:
        """The Active condition to write. None while a worker is suspect, because short trouble is not shown, and before
        the first attempt to connect."""
        generation, worker, problem = cluster.metadata.generation, connection.worker, connection.problem
        if worker.link.is_connected:
            notes = (
                *_unseen(worker),
                *((connection.note,) if connection.note else ()),
                *connection.expiry.notes(),
                *((problem.message,) if problem is not None else ()),
            )
            message = "; ".join(("Connected", *notes))
            return active(is_active=True, reason="Active", message=message, generation=generation)
        if worker.link.reach is not Reach.ISOLATED or not connection.is_tried:
            return None
        reason = connection.reason
        message = worker.why if reason == CONNECTION_FAILED else NOT_LOADED + worker.why
        message = "; ".join((*connection.expiry.notes(), message))
        if problem is not None:
            reason, message = problem.reason, problem.message
            message += f"; {OLD}: {worker.why}" if connection.can_take_offers else ""
        return active(is_active=False, reason=reason, message=message, generation=generation)

    def _warn(self, cluster: MultiKueueCluster, connection: Connection) -> None:
        if not self.context.mandate.is_valid():
            return
        problem = connection.problem
        found = [(problem.reason, problem.message)] if problem is not None else []
        if connection.is_barred:
            found.append((LOOP_SHARE_EXCEEDED, connection.worker.why))
        for reason, message in (*found, *((CREDENTIAL_EXPIRING, text) for text in connection.expiry.notes())):
            self.context.recorder.emit(MULTIKUEUE_CLUSTERS, cluster, type_="Warning", reason=reason, message=message)

    async def _write(self, cluster: MultiKueueCluster, condition: Condition) -> None:
        """Writes the condition, with the time of a loss rounded up to seconds: the loss must not look longer than it
        is. A standby writes nothing: it looks at all clusters again when it takes over."""
        if not self.context.mandate.is_valid():
            return
        worker, now = self.context.store.worker(cluster.metadata.name), self.context.now()
        if condition.status == "False" and worker.link.since is not None:
            now = worker.link.since + timedelta(microseconds=999_999)
        cache = self.context.store.clusters
        old = find_condition(cluster.status.conditions, ACTIVE)
        if old is not None and _has_same_meaning(old, condition):
            return
        await write_condition(self.context, MULTIKUEUE_CLUSTERS, cache, cluster, condition, now)


def _unseen(worker: WorkerView) -> tuple[str, ...]:
    """The namespaces of which nothing is seen, and the reason for the first."""
    failed = dict(worker.watch_scope.failed_namespaces())
    if not failed:
        return ()
    return (f"nothing is seen in {some([*failed], SHOWN, ', ')}: {excerpt(next(iter(failed.values())))}",)


def _has_same_meaning(old: Condition, new: Condition) -> bool:
    """Whether the conditions differ in words at most: each attempt at an unreachable cluster fails in other words."""
    if (old.status, old.reason, old.observed_generation) != (new.status, new.reason, new.observed_generation):
        return False
    if new.status == "False" and (OLD in old.message or OLD in new.message):
        return OLD in old.message and OLD in new.message
    return old.message == new.message or new.reason == CONNECTION_FAILED


class Reports(msgspec.Struct, frozen=True):
    """Reconciles the view of a worker with its MultiKueueCluster. It writes nothing."""

    context: ReconcileContext

    async def reconcile(self, name: str) -> Result:
        store = self.context.store
        if store.clusters.get(ObjectKey("", name)) is not None or name in store.workers:
            self._read(name)
            store.forget_worker(name)
        return DONE

    async def read_all(self) -> None:
        """Reads all workers, before the first decision."""
        for cluster in self.context.store.clusters:
            self._read(cluster.metadata.name)

    def _read(self, name: str) -> None:
        store = self.context.store
        cluster, worker = store.clusters.get(ObjectKey("", name)), store.worker(name)
        condition = find_condition(cluster.status.conditions, ACTIVE) if cluster else None
        active = condition is not None and condition.status == "True"
        why = "" if active else _why_not(cluster is not None, condition.message if condition else "")
        since = condition.last_transition_time if condition is not None else None
        worker.reported(since, why, self.context.now(), namespaces_of(cluster) if cluster is not None else None)


def _why_not(is_present: bool, message: str) -> str:
    if not is_present:
        return "there is no such MultiKueueCluster"
    return message or "Kueue has not said yet that it is active"
