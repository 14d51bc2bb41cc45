"""Composition root: builds the real objects from settings, starts their tasks in order, stops them in reverse.

Order: probes first; the manager cluster's watches until all are listed; the workers' connections; then, and only then,
what acts: quota cycles, reconciles, webhook, sweep.
"""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import anyio
import anyio.abc
import structlog
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from multikueue import registry, telemetry
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.controllers.admission import Admission
from multikueue.controllers.checks import Checks
from multikueue.controllers.clusters import Clusters
from multikueue.controllers.events import Recorder
from multikueue.controllers.jobs import Jobs
from multikueue.controllers.queues import Queues as QueueStatuses
from multikueue.controllers.webhooks import Service, Webhooks, keep_webhook
from multikueue.controllers.workloads import Workloads
from multikueue.controllers.world import Queues, World
from multikueue.errors import ClusterUnreachable
from multikueue.kube.client import Client
from multikueue.kube.credentials import from_environment
from multikueue.kube.reflector import Reflector
from multikueue.quota.engine import Engine
from multikueue.runtime import Backoff, Priority, Result, SystemClock, WorkQueue, run_controller
from multikueue.settings import Settings
from multikueue.store.cache import Cache
from multikueue.store.store import Store
from multikueue.web.server import Server

log = structlog.get_logger()

STATUS_DELAY = timedelta(seconds=1)
"""Changes of a queue are collected this long before its status is written (quota-engine 4.5)."""

CONNECTIONS = 16
"""Calls in flight to the manager cluster. More would not be served faster, and each new connection costs a handshake."""

PATIENCE = 60.0
"""Seconds that the manager cluster may take to answer for the first time."""

FIRST_CONTACT = 3.0
"""Seconds that the workers get to connect before the first decision; one that is away must not hold up the rest."""


@dataclass(slots=True)
class Touch:
    """Turns what changed into keys on the queues: the `Touched` of the store."""

    queues: Queues
    admission_: Admission

    def workload(self, key: ObjectKey) -> None:
        self.queues.workloads.add(key)

    def job(self, key: ObjectKey) -> None:
        self.queues.jobs.add(key)

    def queue(self, cluster_queue: str, local_queue: ObjectKey | None) -> None:
        self.queues.cluster_queues.add_after(cluster_queue, STATUS_DELAY)
        if local_queue is not None:
            self.queues.local_queues.add_after(local_queue, STATUS_DELAY)

    def check(self, name: str) -> None:
        self.queues.checks.add(name)

    def cluster(self, name: str) -> None:
        self.queues.clusters.add(name)

    def admission(self) -> None:
        self.admission_.wake()


@dataclass(slots=True)
class Manager:
    """One running manager. `ready` tells whether it acts."""

    settings: Settings
    client: Client
    ready: bool = False
    clock: SystemClock = field(default_factory=SystemClock)

    async def run(self, *, started: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Runs until cancelled."""
        dispatch = self.settings.dispatch
        retries = Backoff(first=dispatch.retry_first, cap=dispatch.retry_cap)
        queues = Queues(workloads=WorkQueue(retries=retries), jobs=WorkQueue(retries=retries))
        admission, recorder = Admission(), Recorder(self.clock.now)
        engine = Engine(exclude_resource_prefixes=self.settings.quota.exclude_resource_prefixes)
        store = Store(engine, Touch(queues, admission), self.clock.now)
        world = World(
            store=store,
            manager=self.client,
            queues=queues,
            recorder=recorder,
            strategy=registry.load(dispatch.strategy.name, dispatch.strategy.options),
            now=self.clock.now,
            origin=dispatch.origin,
            lost_after=dispatch.worker_lost_timeout,
        )
        clusters = Clusters(world, dispatch, self.settings.cluster.namespace)
        async with (
            Server(ready=self._unready, lookup=store.uses_multikueue) as server,
            anyio.create_task_group() as tasks,
        ):
            await self._serve_probes(server)
            await self._sync(tasks, store)
            tasks.start_soon(recorder.run, self.client)
            tasks.start_soon(clusters.run)
            tasks.start_soon(self._loop("clusters", queues.clusters, clusters.reconcile, workers=4))
            await self._first_contact(store, clusters)
            self._start_acting(tasks, world, admission)
            await self._serve_webhook(tasks, server)
            self.ready = True
            log.info("manager.ready", workers=sorted(store.workers))
            started.started()

    def _unready(self) -> str | None:
        return None if self.ready else "not all caches are synced"

    async def _serve_probes(self, server: Server) -> None:
        probes = self.settings.probes
        if probes.port is not None:
            log.info("probes.serving", host=probes.host, port=await server.serve_probes(probes.host, probes.port))

    async def _serve_webhook(self, tasks: anyio.abc.TaskGroup, server: Server) -> None:
        """Serve and register the admission webhook; returns once it stands."""
        settings, namespace = self.settings.webhook, self.settings.cluster.namespace
        if not settings.enabled:
            return
        webhook = Webhooks(
            client=self.client,
            server=server,
            now=self.clock.now,
            namespace=namespace,
            address=settings.url or Service(settings.service_namespace or namespace, settings.service_name),
            host=settings.host,
            port=settings.port,
            failure_policy=settings.failure_policy,
        )
        stands = anyio.Event()

        async def keep() -> None:
            await keep_webhook(webhook, clock=self.clock, started=lambda _port: stands.set())

        tasks.start_soon(keep)
        await stands.wait()

    async def _sync(self, tasks: anyio.abc.TaskGroup, store: Store) -> None:
        namespace = self.settings.cluster.namespace
        watched: tuple[tuple[kinds.Kind[Any], Cache[Any], str], ...] = (
            (kinds.NAMESPACES, store.namespaces, ""),
            (kinds.RESOURCE_FLAVORS, store.flavors, ""),
            (kinds.COHORTS, store.cohorts, ""),
            (kinds.MULTIKUEUE_CLUSTERS, store.clusters, ""),
            (kinds.MULTIKUEUE_CONFIGS, store.configs, ""),
            (kinds.ADMISSION_CHECKS, store.checks, ""),
            (kinds.CLUSTER_QUEUES, store.cluster_queues, ""),
            (kinds.LOCAL_QUEUES, store.local_queues, ""),
            (kinds.WORKLOAD_PRIORITY_CLASSES, store.priority_classes, ""),
            (kinds.PRIORITY_CLASSES, store.pod_priority_classes, ""),
            (kinds.SECRETS, store.secrets, namespace),
            (kinds.WORKLOADS, store.workloads, ""),
            (kinds.JOBS, store.jobs, ""),
        )
        reflectors = [
            Reflector(self.client, kind, sink, namespace=where, on_state=_tell(kind.plural))
            for kind, sink, where in watched
        ]
        for reflector in reflectors:
            tasks.start_soon(reflector.run)
        for reflector in reflectors:
            await reflector.synced.wait()

    async def _first_contact(self, store: Store, clusters: Clusters) -> None:
        """Give the workers a moment, so that a restart does not begin by telling everybody that none is there."""
        with anyio.move_on_after(FIRST_CONTACT):
            for cluster in store.clusters:
                await clusters.contact(cluster.metadata.name)

    def _start_acting(self, tasks: anyio.abc.TaskGroup, world: World, admission: Admission) -> None:
        queues, workers = world.queues, self.settings.dispatch.concurrency
        statuses, jobs = QueueStatuses(world), Jobs(world)
        workloads = Workloads(world, self.settings.quota)
        tasks.start_soon(admission.run, world)
        tasks.start_soon(self._loop("jobs", queues.jobs, jobs.reconcile, workers=workers))
        tasks.start_soon(self._loop("workloads", queues.workloads, workloads.reconcile, workers=workers))
        tasks.start_soon(self._loop("checks", queues.checks, Checks(world).reconcile, workers=1))
        tasks.start_soon(
            self._loop("cluster queues", queues.cluster_queues, statuses.reconcile_cluster_queue, workers=2)
        )
        tasks.start_soon(self._loop("local queues", queues.local_queues, statuses.reconcile_local_queue, workers=4))
        tasks.start_soon(self._sweep, world)

    def _loop(
        self, name: str, queue: WorkQueue[Any], reconcile: Callable[[Any], Awaitable[Result]], *, workers: int
    ) -> Callable[[], Coroutine[Any, Any, None]]:
        async def loop() -> None:
            await run_controller(name, queue, reconcile, workers=workers)

        return loop

    async def _sweep(self, world: World) -> None:
        """Looks again at everything that is on a worker: heals what an event of ours may have missed."""
        interval = self.settings.dispatch.gc_interval.total_seconds()
        while interval:
            await anyio.sleep(interval)
            for worker in world.store.workers.values():
                for key in worker.held():
                    world.queues.workloads.add(key, Priority.RESYNC)


async def run(settings: Settings) -> None:
    """Run the manager until SIGTERM or SIGINT. Raises ConfigurationError, ClusterUnreachable and ApiError at start."""
    telemetry.configure(settings.log)
    registry.load(settings.dispatch.strategy.name, settings.dispatch.strategy.options)
    credentials = await from_environment(settings.cluster.kubeconfig, settings.cluster.context)
    timeout = settings.dispatch.call_timeout.total_seconds()
    async with Client.connect(credentials, limit=CONNECTIONS, call_timeout=timeout) as client:
        await _reach(client, timeout)
        _settle_memory()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_on_signal, tasks.cancel_scope)
            await Manager(settings, client).run()


async def _reach(client: Client, timeout: float) -> None:
    """The manager cluster may be starting too: wait for it a while before giving up."""
    attempts = AsyncRetrying(
        retry=retry_if_exception_type(ClusterUnreachable),
        wait=wait_exponential_jitter(multiplier=0.5, max=5),
        stop=stop_after_delay(PATIENCE),
        before_sleep=lambda state: log.warning("manager.waiting", attempt=state.attempt_number),
        reraise=True,
    )
    async for attempt in attempts:
        with attempt:
            await client.probe(timeout)


def _tell(plural: str) -> Callable[[bool, str], None]:
    def on_state(ok: bool, why: str) -> None:
        log.log(logging.INFO if ok else logging.WARNING, "watch.stands" if ok else "watch.broken", kind=plural, why=why)

    return on_state


def _settle_memory() -> None:
    """What is loaded by now stays: the collector need not look at it again, and seldom at the rest (python-stack 5.5)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _stop_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            log.info("manager.stopping", signal=signal.Signals(number).name)
            scope.cancel()
            return
