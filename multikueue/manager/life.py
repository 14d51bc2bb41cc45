"""One life of a manager: from an empty store to the loss of leadership.

Start: the probes; the watches of the manager cluster, until all are listed; the connections to the workers; then, only
while this process leads, the loops and tasks that act. Stop: no new work, calls under way end, the rest is cancelled,
the Lease is released, the probes close. The runnables of the process's roles (`roles`) are the watches, loops and
tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from multikueue.api.kueue.queues import LabelSelector, LabelSelectorRequirement
from multikueue.api.meta import ObjectKey
from multikueue.controllers.leader_election.leadership import Leadership, NoElection
from multikueue.controllers.leader_election.standby import Enqueuer, look_at_all
from multikueue.controllers.metrics.collector import StateCollector
from multikueue.controllers.metrics.observer import Observer
from multikueue.controllers.metrics.traces import Traces
from multikueue.controllers.quota.admission import SchedulerLoop
from multikueue.controllers.reconcile.context import OnDecision, ReconcileContext, WorkQueues, tenant
from multikueue.controllers.reconcile.events import Recorder
from multikueue.controllers.reconcile.strategies import Strategies
from multikueue.controllers.serving.foreseeing import QueueReads
from multikueue.controllers.serving.remote_reads import Reads
from multikueue.controllers.serving.visibility import AccessReviewer, Visibility, keep_visibility
from multikueue.controllers.serving.webhooks import DefaultQueues, Service, Webhooks, keep_webhook
from multikueue.jobs.integrations.frameworks import BATCH_ONLY, Adapters
from multikueue.kube.cluster_client import WatchingClient
from multikueue.kube.transport.loop_share import Leftovers
from multikueue.kube.transport.session import USER_AGENT, Transport, open_session
from multikueue.manager.engine import engine_of
from multikueue.manager.readiness import DispatchProgress, Readiness
from multikueue.manager.reflector_group import ReflectorGroup
from multikueue.roles import Runnables, adapters_of, compose, submitted_kinds
from multikueue.runtime import Backoff, Clock, SystemClock, WorkQueue, first
from multikueue.settings import (
    EXTERNAL_DISPATCHER,
    STANDALONE,
    InForce,
    Settings,
)
from multikueue.settings.values import label_terms
from multikueue.store.store import Store
from multikueue.telemetry import get_logger
from multikueue.telemetry.metrics import Metrics
from multikueue.telemetry.sink import STDERR
from multikueue.telemetry.spans import SpanSink
from multikueue.web.admission import AdmissionLookups
from multikueue.web.server import DISPATCH, Render, Server
from multikueue.web.serving import authority

__all__ = ["Manager", "Parts", "user_agent"]

log = get_logger()

HTTPS_PORT = 443


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The wired parts of one life of a manager. Nothing runs yet; from `act` on, changes in the store enqueue keys."""

    context: ReconcileContext
    runnables: Runnables
    enqueuer: Enqueuer
    observer: Observer

    def act(self) -> None:
        self.context.store.lead()
        self.observer.is_acting = True
        self.enqueuer.is_acting = True


@dataclass(slots=True)
class Manager:
    """One life of a manager: from an empty store to the loss of leadership."""

    in_force: InForce
    client: WatchingClient
    leadership: Leadership = field(default_factory=NoElection)
    metrics: Metrics = field(default_factory=Metrics)
    stop: anyio.Event = field(default_factory=anyio.Event)
    clock: Clock = field(default_factory=SystemClock)
    transport: Transport = open_session
    recorder: Recorder = field(default_factory=lambda: Recorder(SystemClock().now))
    on_decision: OnDecision | None = None
    leftovers: Leftovers | None = None
    spans: SpanSink | None = None
    readiness: Readiness = field(init=False)
    progress: DispatchProgress = field(init=False, default_factory=DispatchProgress)

    @property
    def settings(self) -> Settings:
        return self.in_force.settings

    async def run(self) -> None:
        """Serve, sync, connect, lead, act, in this order. Returns when stopped, or when leadership ends."""
        parts = self.assemble()
        context, runnables = parts.context, parts.runnables
        context.store.stand_by()
        caches = (watch.kind.plural for watch in runnables.watches)
        self.readiness = Readiness(caches=caches, has_webhook=self.settings.webhook.enabled)
        defaults = DefaultQueues(context.store.local_queues) if self.settings.webhook.default_queue else None
        async with Server(
            ready=self._unready,
            known=_known(context.store, defaults),
            details=partial(self._details, context.queues),
            adapters=context.store.adapters,
        ) as server:
            async with anyio.create_task_group() as tasks:
                await first(self.stop.wait, lambda: self._get_hot(tasks, server, parts, defaults))
                await first(self.stop.wait, self.leadership.gain)
                if not self.stop.is_set():
                    parts.act()
                    self._act(tasks, context, runnables)
                    await first(self.leadership.keep, lambda: self._retire(context.queues))
                tasks.cancel_scope.cancel()
            await self.leadership.resign()
        if self.spans is not None:
            await anyio.to_thread.run_sync(self.spans.close)

    def assemble(self) -> Parts:
        """An empty store and the controllers on it. Nothing runs yet."""
        admission, queues = SchedulerLoop(), self._queues()
        enqueuer = Enqueuer(queues, admission, is_acting=False)
        context = self._world(queues, enqueuer)
        runnables = compose(context, self.settings, admission)
        observer = Observer(store=context.store, metrics=self.metrics, now=self.clock.now)
        observer.attach()
        self._trace(context.store, observer)
        return Parts(context=context, runnables=runnables, enqueuer=enqueuer, observer=observer)

    def _trace(self, store: Store, observer: Observer) -> None:
        """Off, nothing of it is there."""
        if self.settings.traces.endpoint and self.spans is None:
            self.spans = SpanSink(self.settings.traces.endpoint)
        if self.spans is not None:
            Traces(store, self.metrics, self.spans.take, self.clock.now, lambda: observer.is_acting).attach()

    async def _get_hot(
        self, tasks: anyio.abc.TaskGroup, server: Server, parts: Parts, defaults: DefaultQueues | None
    ) -> None:
        context, runnables = parts.context, parts.runnables
        await self._serve_plain(server, context, parts.observer)
        await self._sync(tasks, runnables, context.queues)
        await self._connect(tasks, runnables)
        tasks.start_soon(self._serve_webhook, server, context.store.adapters, defaults)
        tasks.start_soon(self._serve_visibility, server, context)

    def _queues(self) -> WorkQueues:
        timings = self.in_force.timings
        retries = Backoff(first=timings.retry_first, cap=timings.retry_cap)
        return WorkQueues(
            workloads=WorkQueue(retries=retries, tenant=tenant), jobs=WorkQueue(retries=retries, tenant=tenant)
        )

    def _world(self, queues: WorkQueues, enqueuer: Enqueuer) -> ReconcileContext:
        elastic = self.settings.integrations.elastic_jobs
        engine = engine_of(self.settings.quota, has_elastic_jobs=elastic)
        namespace = self.settings.cluster.namespace
        store = Store(
            engine,
            enqueuer,
            self.clock.now,
            namespace=namespace,
            adapters=adapters_of(self.settings),
            should_wait_for_pods=self.settings.quota.pods_ready.enabled,
            has_elastic_jobs=elastic,
            managed_namespaces=_managed_namespaces(self.settings),
        )
        return ReconcileContext(
            store=store,
            manager=self.client,
            queues=queues,
            recorder=self.recorder,
            strategies=Strategies(
                store=store,
                settings=self.in_force,
                now=self.clock.now,
                wake=queues.workloads.add,
                failed=self.metrics.guarded("strategies", lambda name: self.metrics.strategy_failures(name).inc()),
            ),
            now=self.clock.now,
            settings=self.in_force,
            mandate=self.leadership.mandate,
            user_agent=user_agent(self.leadership),
            metrics=self.metrics,
            transport=self.transport,
            on_decision=self.on_decision,
            leftovers=self.leftovers,
        )

    def _unready(self) -> str | None:
        return self.readiness.problem

    def _standstill(self, queues: WorkQueues) -> str:
        """Why dispatch does not go on; empty if it does."""
        waiting, taken = len(queues.workloads), queues.workloads.depth().taken
        return self.progress.problem(waiting=waiting, taken=taken, now=self.clock.now())

    def _details(self, queues: WorkQueues) -> Mapping[str, str]:
        """The parts of readiness, with what may go wrong later: `dispatch` counts as a problem, `log` does not."""
        dropped = STDERR.dropped
        return {
            **self.readiness.details,
            DISPATCH: self._standstill(queues),
            "log": f"{dropped} lines could not be written" if dropped else "",
        }

    async def _serve_plain(self, server: Server, context: ReconcileContext, observer: Observer) -> None:
        """Serve probes and metrics, on one port if both have the same."""
        probes, metrics = self.settings.probes, self.settings.metrics
        render = self._renderer(context, observer)
        shared = metrics.port is not None and metrics.port == probes.port
        if probes.port is not None:
            port = await server.serve_plain(
                probes.host, probes.port, has_probes=True, metrics=render if shared else None
            )
            log.info("probes.serving", host=probes.host, port=port)
            if shared:
                log.info("metrics.serving", host=probes.host, port=port)
        if metrics.port is not None and not shared:
            port = await server.serve_plain(metrics.host, metrics.port, metrics=render)
            log.info("metrics.serving", host=metrics.host, port=port)

    def _renderer(self, context: ReconcileContext, observer: Observer) -> Render:
        settings = self.settings.metrics
        figures = StateCollector(
            store=context.store,
            queues=context.queues,
            finished=observer.finished,
            unadmitted=observer.unadmitted,
            has_quota="quota" in self.settings.roles,
            has_resources=settings.enable_cluster_queue_resources,
            has_local_queues=settings.enable_local_queues,
        )

        async def render() -> bytes:
            self.metrics.role = self.leadership.role
            self.metrics.dispatch_stalled.set(bool(self._standstill(context.queues)))
            return await anyio.to_thread.run_sync(self.metrics.render, await figures.gather())

        return render

    async def _serve_webhook(
        self, server: Server, adapters: Adapters = BATCH_ONLY, defaults: DefaultQueues | None = None
    ) -> None:
        """Serve and maintain the admission webhook, if it is enabled. The process is ready once it is in place."""
        settings, namespace = self.settings.webhook, self.settings.cluster.namespace
        if not settings.enabled:
            self._say_ready()
            return
        if self.settings.roles == EXTERNAL_DISPATCHER:
            log.warning("webhook.not_needed", why="where Kueue's own MultiKueue is on, Kueue's webhook marks the jobs")
        webhook = Webhooks(
            client=self.client,
            server=server,
            now=self.clock.now,
            namespace=namespace,
            address=settings.url or Service(settings.service_namespace or namespace, settings.service_name),
            host=settings.host,
            port=settings.port,
            client_ca=await anyio.to_thread.run_sync(authority, settings.client_ca_file),
            issued=settings.certificate_secret or "",
            failure_policy=settings.failure_policy,
            kinds=submitted_kinds(self.settings, adapters),
            templates=[template.kind for template in adapters.templates],
            defaulting=defaults.take if defaults is not None else tuple,
        )
        pause = partial(defaults.pause, self.clock) if defaults is not None else None

        def started(_port: int) -> None:
            self.readiness.reached("webhook")
            self._say_ready()

        await keep_webhook(webhook, clock=self.clock, started=started, pause=pause)

    async def _serve_visibility(self, server: Server, context: ReconcileContext) -> None:
        """Serve and maintain the visibility API, if it is enabled."""
        settings, namespace = self.settings.visibility, self.settings.cluster.namespace
        if not settings.enabled:
            return
        if "quota" not in self.settings.roles:
            log.warning("visibility.not_served", why="who waits is known where the quota is given: to Kueue")
            return
        outside = urlsplit(self.settings.webhook.url or "").hostname or ""
        port = settings.service_port or (settings.port if outside else HTTPS_PORT)
        service = Service(settings.service_namespace or namespace, settings.service_name, port)
        visibility = Visibility(
            client=self.client,
            server=server,
            store=context.store,
            case=context.case,
            choice=context.strategies.choice,
            now=self.clock.now,
            ready=self._unready,
            namespace=namespace,
            service=service,
            external_name=outside,
            host=settings.host,
            port=settings.port,
            gate=AccessReviewer(self.client),
            reads=Reads(clients=context.clients, workers=context.store.workers),
            queues=QueueReads(clients=context.clients, workers=context.store.workers),
        )
        await keep_visibility(visibility, clock=self.clock)

    def _say_ready(self) -> None:
        log.info("manager.ready", roles=sorted(self.settings.roles), role=self.leadership.role)

    async def _sync(self, tasks: anyio.abc.TaskGroup, runnables: Runnables, queues: WorkQueues) -> None:
        """Watch the manager cluster; returns once all is listed."""
        reflector_group = ReflectorGroup(self.client, queues.hurry)
        for stage in runnables.stages():
            reflectors = [reflector_group.reflector(watch) for watch in stage]
            for reflector in reflectors:
                tasks.start_soon(reflector.run)
            for watch, reflector in zip(stage, reflectors, strict=True):
                await reflector.synced.wait()
                self.readiness.reached(f"cache-{watch.kind.plural}")
        if runnables.job_kinds is not None:
            tasks.start_soon(runnables.job_kinds.run)
            await runnables.job_kinds.known()

    async def _connect(self, tasks: anyio.abc.TaskGroup, runnables: Runnables) -> None:
        """Connect to the workers; returns once enough is known for the first decisions."""
        for connection in runnables.connections:
            tasks.start_soon(connection)
        for loop in runnables.cluster_loops:
            tasks.start_soon(loop.run, self.metrics)
        await runnables.contact()
        self.readiness.reached("workers")

    def _act(self, tasks: anyio.abc.TaskGroup, context: ReconcileContext, runnables: Runnables) -> None:
        """Start the loops and tasks, and enqueue all keys once: changes before this moment enqueued nothing."""
        look_at_all(context.store)
        tasks.start_soon(context.recorder.run, self.client)
        tasks.start_soon(self._look_again, context.store)
        for task in runnables.tasks:
            tasks.start_soon(task)
        for loop in runnables.loops:
            tasks.start_soon(loop.run, self.metrics)
        log.info("manager.acting", role=self.leadership.role, workers=sorted(context.store.workers))

    async def _look_again(self, store: Store) -> None:
        """Enqueue all keys when settings change: decisions and deadlines may depend on them."""
        while True:
            await self.in_force.changed()
            look_at_all(store)

    async def _retire(self, queues: WorkQueues) -> None:
        """At the end of this life: close the queues, and give calls under way the grace period to end."""
        await self.stop.wait()
        with anyio.move_on_after(self.settings.shutdown.grace_period.total_seconds()):
            for queue in queues.all():
                queue.close()
            for queue in queues.all():
                await queue.drained()


def _is_seen(store: Store, namespace: str) -> bool:
    """Whether its labels are known. A job that comes with its namespace is held: it could not be stopped later."""
    return store.namespaces.get(ObjectKey("", namespace)) is not None


def _managed_namespaces(settings: Settings) -> LabelSelector | None:
    """The label selector of the setting; None where it is empty, or where Kueue takes jobs in."""
    text = settings.integrations.managed_namespaces if settings.roles == STANDALONE else ""
    terms = (LabelSelectorRequirement(key, operator, values) for key, operator, values in label_terms(text))
    return LabelSelector(match_expressions=tuple(terms)) if text else None


def _known(store: Store, defaults: DefaultQueues | None) -> AdmissionLookups:
    """The lookups of the admission webhook."""
    return AdmissionLookups(
        does_dispatch=store.should_dispatch,
        is_nested=lambda namespace, controller: store.nesting.under(namespace, controller) is not None,
        is_stale=store.nesting.is_stale,
        is_managed=lambda namespace: not _is_seen(store, namespace) or store.is_managed(namespace),
        has_default=lambda namespace: defaults is not None and namespace in defaults,
    )


def user_agent(leadership: Leadership) -> str:
    """A User-Agent per replica: it distinguishes the replicas in audit logs of the clusters."""
    return f"{USER_AGENT} {leadership.identity}".rstrip()
