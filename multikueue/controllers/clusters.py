"""MultiKueueCluster to connection, and the connection's state to its Active condition (contract 1.2, 2).

Each worker has a subtree of tasks of its own: client, watches, heartbeat, outbox. Whatever happens to one worker happens
to its subtree only. Its state goes connected → suspect → isolated → (after the lost timeout, judged by decisions) lost;
being isolated is written into the object, and the time written there is the clock, so a restart does not set it back.
"""

from __future__ import annotations

import base64
import binascii
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import structlog

from multikueue.api.kinds import JOBS, MULTIKUEUE_CLUSTERS, WORKLOADS
from multikueue.api.meta import Condition, ObjectKey, find_condition
from multikueue.api.multikueue import ACTIVE, KUBECONFIG_KEY, MultiKueueCluster
from multikueue.api.workload import ORIGIN_LABEL
from multikueue.controllers.conditions import active, write_condition
from multikueue.controllers.outbox import Outbox
from multikueue.controllers.world import World
from multikueue.dispatch.group import Reach
from multikueue.errors import ConfigurationError, MultiKueueError
from multikueue.kube.client import Client
from multikueue.kube.credentials import Credentials, from_kubeconfig
from multikueue.kube.kubeconfig import InsecureKubeconfig, check_worker_kubeconfig
from multikueue.kube.reflector import Reflector
from multikueue.runtime import DONE, Backoff, Result, WorkQueue, run_controller, supervise
from multikueue.settings import Dispatch
from multikueue.store.worker import WorkerView

log = structlog.get_logger()

RECHECK = timedelta(milliseconds=500)
"""Time between two signs of life asked from a worker that did not answer just now."""

NOT_LOADED = "load client config failed: "


class RefusedError(MultiKueueError):
    """Why there can be no connection: the reason and message of the Active condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


@dataclass(slots=True)
class Clusters:
    """Owner of all connections. `run` is their task group; `reconcile` keeps one in step with its object."""

    world: World
    settings: Dispatch
    namespace: str
    _connections: dict[str, Connection] = field(default_factory=dict)
    _contacts: defaultdict[str, anyio.Event] = field(default_factory=lambda: defaultdict(anyio.Event))
    _tasks: anyio.abc.TaskGroup | None = None

    async def run(self) -> None:
        """Holds the connections until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            await anyio.sleep_forever()

    async def reconcile(self, name: str) -> Result:
        cluster = self.world.store.clusters.get(ObjectKey("", name))
        if cluster is None:
            self._disconnect(name, "its MultiKueueCluster is gone")
            return DONE
        worker = self.world.store.worker(name)
        self._remember(worker, cluster)
        try:
            kubeconfig = await self._kubeconfig(cluster)
            await self._connect(name, kubeconfig)
        except RefusedError as refusal:
            self._disconnect(name, refusal.message)
            await self._write(cluster, self._refused(cluster, refusal))
            return Result(again_after=timedelta(seconds=30))
        condition = self._condition(cluster, worker)
        if condition is not None:
            await self._write(cluster, condition)
        return DONE

    async def contact(self, name: str) -> None:
        """Waits until a worker was reached once."""
        await self._contacts[name].wait()

    def _remember(self, worker: WorkerView, cluster: MultiKueueCluster) -> None:
        """A loss that an earlier process recorded goes on counting from when it was recorded."""
        condition = find_condition(cluster.status.conditions, ACTIVE)
        if condition is not None and condition.status == "False" and worker.reach is not Reach.CONNECTED:
            worker.since = condition.last_transition_time

    async def _kubeconfig(self, cluster: MultiKueueCluster) -> bytes:
        source = cluster.spec.cluster_source.kube_config
        if source is None:
            raise RefusedError("BadClusterProfile", f"{NOT_LOADED}a cluster needs spec.clusterSource.kubeConfig")
        data = (
            await self._from_file(source.location)
            if source.location_type == "Path"
            else self._from_secret(source.location)
        )
        try:
            check_worker_kubeconfig(data)
        except InsecureKubeconfig as error:
            raise RefusedError("InsecureKubeConfig", f"{NOT_LOADED}{error}") from error
        return data

    def _from_secret(self, name: str) -> bytes:
        secret = self.world.store.secrets.get(ObjectKey(self.namespace, name))
        if secret is None:
            raise RefusedError("BadKubeConfig", f'{NOT_LOADED}Secret "{name}" not found')
        text = secret.data.get(KUBECONFIG_KEY)
        if text is None:
            raise RefusedError("BadKubeConfig", f'{NOT_LOADED}key "{KUBECONFIG_KEY}" not found in secret "{name}"')
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise RefusedError("BadKubeConfig", f'{NOT_LOADED}secret "{name}": {error}') from error

    async def _from_file(self, path: str) -> bytes:
        try:
            return await anyio.Path(Path(path)).read_bytes()
        except OSError as error:
            raise RefusedError("BadKubeConfig", f"{NOT_LOADED}{path}: {error.strerror}") from error

    async def _connect(self, name: str, kubeconfig: bytes) -> None:
        running = self._connections.get(name)
        if running is not None and running.kubeconfig == kubeconfig:
            return
        try:
            credentials = await from_kubeconfig(kubeconfig, where=f"kubeconfig of cluster {name}")
        except ConfigurationError as error:
            raise RefusedError("BadKubeConfig", f"{NOT_LOADED}{error}") from error
        if running is not None:
            running.stop()
        connection = Connection(
            self.world, self.settings, self.world.store.worker(name), credentials, kubeconfig, self._contacts[name]
        )
        self._connections[name] = connection
        assert self._tasks is not None
        self._tasks.start_soon(connection.run, name=f"cluster {name}")

    def _disconnect(self, name: str, why: str) -> None:
        connection = self._connections.pop(name, None)
        if connection is not None:
            connection.stop()
        worker = self.world.store.worker(name)
        if worker.reach is not Reach.ISOLATED or worker.why != why:
            if worker.reach is Reach.CONNECTED:
                worker.since = self.world.now()
            worker.reach, worker.why = Reach.ISOLATED, why
            self.world.store.reach_changed(name)

    def _refused(self, cluster: MultiKueueCluster, refusal: RefusedError) -> Condition:
        generation = cluster.metadata.generation
        return active(status=False, reason=refusal.reason, message=refusal.message, generation=generation)

    def _condition(self, cluster: MultiKueueCluster, worker: WorkerView) -> Condition | None:
        """What the condition must say; None while a worker is suspect: a moment of trouble is not shown."""
        generation = cluster.metadata.generation
        if worker.reach is Reach.CONNECTED:
            return active(status=True, reason="Active", message="Connected", generation=generation)
        if worker.reach is Reach.ISOLATED:
            return active(status=False, reason="ClientConnectionFailed", message=worker.why, generation=generation)
        return None

    async def _write(self, cluster: MultiKueueCluster, condition: Condition) -> None:
        """The time of a loss is rounded up: written down, it must not make the loss look longer than it is."""
        worker, now = self.world.store.worker(cluster.metadata.name), self.world.now()
        if condition.status == "False" and worker.since is not None:
            now = worker.since + timedelta(microseconds=999_999)
        cache = self.world.store.clusters
        old = find_condition(cluster.status.conditions, ACTIVE)
        if old is not None and _says_the_same(old, condition):
            return
        await write_condition(self.world.manager, MULTIKUEUE_CLUSTERS, cache, cluster, condition, now)


def _says_the_same(old: Condition, new: Condition) -> bool:
    """While a cluster stays unreachable, each attempt fails in words of its own: that is no news."""
    return (old.status, old.reason, old.observed_generation) == (new.status, new.reason, new.observed_generation) and (
        old.message == new.message or new.reason == "ClientConnectionFailed"
    )


@dataclass(slots=True)
class Connection:
    """One worker's subtree. Owner of its client, watches, heartbeat and outbox; changes the worker's view only."""

    world: World
    settings: Dispatch
    worker: WorkerView
    credentials: Credentials
    kubeconfig: bytes
    contact: anyio.Event
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _trouble: dict[str, str] = field(default_factory=lambda: {"heartbeat": "not connected yet"})
    _decline: anyio.CancelScope | None = None
    _alarm: anyio.Event = field(default_factory=anyio.Event)
    _tasks: anyio.abc.TaskGroup | None = None
    _reflectors: list[Reflector[Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.worker.name

    def stop(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        retries = Backoff(first=self.settings.reconnect_first, cap=self.settings.reconnect_cap, jitter=1)
        with self._scope:
            await supervise(f"cluster {self.name}", self._live, backoff=retries)

    async def _live(self) -> None:
        limit, timeout = self.settings.concurrency_per_cluster, self.settings.call_timeout.total_seconds()
        async with Client.connect(self.credentials, cluster=self.name, limit=limit, call_timeout=timeout) as client:
            retries = Backoff(first=self.settings.retry_first, cap=self.settings.retry_cap)
            outbox: WorkQueue[ObjectKey] = WorkQueue(retries=retries)
            self.world.queues.outboxes[self.name] = outbox
            try:
                await self._serve(client, outbox)
            finally:
                if self.world.queues.outboxes.get(self.name) is outbox:
                    del self.world.queues.outboxes[self.name]

    async def _serve(self, client: Client, outbox: WorkQueue[ObjectKey]) -> None:
        selector = f"{ORIGIN_LABEL}={self.world.origin}"
        self._reflectors = [
            Reflector(client, kind, sink, label_selector=selector, on_state=self._stream_state(kind.plural))
            for kind, sink in ((WORKLOADS, self.worker.workloads), (JOBS, self.worker.jobs))
        ]
        self._decline, self._alarm = None, anyio.Event()
        performer = Outbox(self.world, self.worker, client, alarm=self._raise_alarm)
        async with anyio.create_task_group() as self._tasks:
            self._check()
            for reflector in self._reflectors:
                self._tasks.start_soon(reflector.run)
            self._tasks.start_soon(self._heartbeat, client, performer)
            await run_controller(
                f"outbox {self.name}",
                outbox,
                performer.reconcile,
                workers=self.settings.concurrency_per_cluster,
            )

    def _stream_state(self, plural: str) -> Callable[[bool, str], None]:
        self._trouble[plural] = f"{plural}: not listed yet"

        def on_state(ok: bool, why: str) -> None:
            self._report(plural, "" if ok else f"{plural}: {why}")

        return on_state

    async def _heartbeat(self, client: Client, outbox: Outbox) -> None:
        """Asks for a sign of life, with our credentials, for ever. The first one after trouble hurries the watches."""
        while True:
            try:
                await client.probe(self.settings.heartbeat_timeout.total_seconds())
            except MultiKueueError as error:
                outbox.hold()
                self._report("heartbeat", str(error))
            else:
                outbox.trust()
                if "heartbeat" in self._trouble:
                    for reflector in self._reflectors:
                        reflector.hurry()
                self._report("heartbeat", "")
            await self._rest(in_doubt=outbox.holds)

    async def _rest(self, *, in_doubt: bool) -> None:
        """Until the next heartbeat; shorter as long as the worker may only have been away for a moment."""
        interval = self.settings.heartbeat_interval
        if in_doubt and self.worker.reach is Reach.CONNECTED:
            interval = min(interval, RECHECK)
        with anyio.move_on_after(interval.total_seconds()):
            await self._alarm.wait()
        self._alarm = anyio.Event()

    def _raise_alarm(self) -> None:
        self._alarm.set()

    def _report(self, part: str, why: str) -> None:
        if why:
            self._trouble[part] = why
        else:
            self._trouble.pop(part, None)
        self._check()

    def _check(self) -> None:
        if self._trouble:
            self.worker.why = next(iter(self._trouble.values()))
            if self._decline is None and self._tasks is not None:
                self._decline = anyio.CancelScope()
                self._tasks.start_soon(self._degrade, self._decline)
            return
        if self._decline is not None:
            self._decline.cancel()
            self._decline = None
        if self.worker.reach is not Reach.CONNECTED:
            self.worker.since, self.worker.why, self.worker.known = None, "", True
            self._become(Reach.CONNECTED)
            self.contact.set()

    async def _degrade(self, scope: anyio.CancelScope) -> None:
        with scope:
            began = self.world.now()
            await anyio.sleep(self.settings.suspect_after.total_seconds())
            if self.worker.since is None:
                self.worker.since = began
            if self.worker.reach is Reach.CONNECTED:
                self._become(Reach.SUSPECT)
            await anyio.sleep((self.settings.isolate_after - self.settings.suspect_after).total_seconds())
            self._become(Reach.ISOLATED)

    def _become(self, reach: Reach) -> None:
        if self.worker.reach is reach:
            return
        self.worker.reach = reach
        log.info(f"cluster.{reach.value}", cluster=self.name, why=self.worker.why)
        self.world.store.reach_changed(self.name)
