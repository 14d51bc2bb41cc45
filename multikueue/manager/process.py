"""One process: its start, one life of a manager after the other, and its end."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from multikueue.api.meta import ObjectKey
from multikueue.controllers.leader_election.leadership import LeaderElector, Leadership, NoElection, candidate
from multikueue.controllers.leader_election.presence import Presence, who_renews
from multikueue.controllers.reconcile.context import OnDecision
from multikueue.controllers.reconcile.events import Recorder
from multikueue.controllers.reconcile.strategies import verify
from multikueue.controllers.reload import Reload, log_ignored
from multikueue.errors import ClusterUnreachable, ConfigurationError
from multikueue.kube.auth.credentials import Credentials, from_environment
from multikueue.kube.client import Client, Listeners
from multikueue.kube.cluster_client import ClusterClient
from multikueue.kube.transport.loop_share import Leftovers
from multikueue.kube.transport.session import Transport, open_session
from multikueue.manager.life import Manager, user_agent
from multikueue.runtime import Clock, Mandate, SystemClock
from multikueue.runtime.clock import boot_time
from multikueue.runtime.process.event_loop_lag import measure_event_loop_lag
from multikueue.runtime.process.memory import (
    collect_in_small_steps,
    give_free_pages_back,
    give_large_blocks_back,
    look_at_all_garbage,
    mapping_buffers,
)
from multikueue.settings import (
    BESIDE_KUEUE,
    EXTERNAL_DISPATCHER,
    STANDALONE,
    InForce,
    Loaded,
    Settings,
)
from multikueue.telemetry import get_logger, logs
from multikueue.telemetry.metrics import KUEUE, KUEUES_MULTIKUEUE, Metrics

__all__ = [
    "REAL",
    "ProcessEnvironment",
    "manage",
    "refuse_beside_kueue",
    "run",
    "settle_memory",
]

log = get_logger()

CONNECTIONS = 16
"""Maximum calls in flight to the manager cluster. More would not be faster, and each connection costs a handshake."""

KUEUES_LEASE = ObjectKey("kueue-system", "c1f6bfd2.kueue.x-k8s.io")
"""The Lease of Kueue's own controllers, by its manifests and its chart."""

FIRST_ANSWER_TIMEOUT = timedelta(minutes=1)
"""The manager cluster may be starting too; without an answer for so long, the process ends."""

KUEUES_METRICS = {STANDALONE: KUEUE, BESIDE_KUEUE: KUEUES_MULTIKUEUE, EXTERNAL_DISPATCHER: ()}
"""Prefixes of Kueue's metrics that this process exposes, by its roles. A Kueue beside it exposes the others."""


class ProcessEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """The environment of a process: clocks, transport, its identity among replicas (None: a new one).

    `boot` is the clock of its leadership, in seconds; `on_decision` is called with each decision about a workload. Where it
    `is_metered`, workers have shares of the event loop's real time; where it `should_look_for_others`, it does not start
    standalone beside a Kueue (`refuse_beside_kueue`), nor without election beside another manager (`Presence`). A simulation
    has its own environment.
    """

    clock: Clock = msgspec.field(default_factory=SystemClock)
    boot: Callable[[], float] = boot_time
    transport: Transport = partial(open_session, connecting=mapping_buffers)
    identity: str | None = None
    on_decision: OnDecision | None = None
    is_metered: bool = True
    should_look_for_others: bool = True


REAL = ProcessEnvironment()


async def run(loaded: Loaded, environment: ProcessEnvironment = REAL) -> None:
    """Run the manager until SIGTERM or SIGINT. Raises ConfigurationError, ClusterUnreachable and ApiError at start, and
    ConfigurationError later, without election, once another process has taken its Lease."""
    settings, in_force = loaded.settings, InForce(loaded.settings)
    logs.configure(settings.log)
    verify(loaded)
    log_ignored(loaded.ignored)
    credentials = await from_environment(settings.cluster.kubeconfig, settings.cluster.context)
    where = {"server": credentials.server, "source": credentials.source}
    log.info("manager.starting", **where, roles=sorted(settings.roles))
    stop = anyio.Event()

    def begun(mandate: Mandate, metrics: Metrics) -> None:
        settle_memory()
        tasks.start_soon(measure_event_loop_lag, metrics.guarded("lag", metrics.turned))
        tasks.start_soon(look_at_all_garbage)
        tasks.start_soon(give_free_pages_back)
        tasks.start_soon(_stop_on_signal, stop)
        tasks.start_soon(Reload(loaded, in_force).run)
        _end_if_thawed_too_late(mandate)

    async with anyio.create_task_group() as tasks:
        await manage(in_force, credentials, stop=stop, begun=begun, environment=environment)
        tasks.cancel_scope.cancel()


async def manage(
    in_force: InForce,
    credentials: Credentials,
    *,
    stop: anyio.Event,
    begun: Callable[[Mandate, Metrics], None],
    environment: ProcessEnvironment = REAL,
) -> None:
    """Run one life of a manager after the other until stopped. `begun` is called once the manager cluster answers."""
    settings = in_force.settings
    timeout = in_force.timings.call_timeout.total_seconds()
    metrics = Metrics(has_local_queues=settings.metrics.enable_local_queues, told=KUEUES_METRICS[settings.roles])
    recorder = Recorder(environment.clock.now, metrics)
    async with (
        _leadership(settings, credentials, environment) as leadership,
        Client.connect(
            credentials,
            limit=CONNECTIONS,
            call_timeout=timeout,
            user_agent=user_agent(leadership),
            may_write=leadership.mandate.is_valid,
            listeners=Listeners(metrics.called, recorder.unreadable),
            transport=environment.transport,
        ) as client,
    ):
        await _reach(client, credentials, timeout)
        should_look = environment.should_look_for_others and not settings.cluster.ignore_kueue
        if should_look and settings.roles == STANDALONE:
            await refuse_beside_kueue(client, environment.clock)
        async with _presence(settings, client, environment):
            begun(leadership.mandate, metrics)
            leftovers = Leftovers() if environment.is_metered else None
            while not stop.is_set():
                life = Manager(
                    in_force,
                    client,
                    leadership,
                    metrics,
                    stop,
                    clock=environment.clock,
                    transport=environment.transport,
                    recorder=recorder,
                    on_decision=environment.on_decision,
                    leftovers=leftovers,
                )
                await life.run()


@asynccontextmanager
async def _presence(settings: Settings, client: Client, environment: ProcessEnvironment) -> AsyncIterator[None]:
    """Without election, hold the Lease so that other processes see this one."""
    if settings.leader_election.enabled or not environment.should_look_for_others:
        yield
        return
    me = Presence(client=client, key=_lease(settings), clock=environment.clock)
    await me.enter()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(me.stay)
            yield
            tasks.cancel_scope.cancel()
    finally:
        await me.leave()


@asynccontextmanager
async def _leadership(
    settings: Settings, credentials: Credentials, environment: ProcessEnvironment
) -> AsyncIterator[Leadership]:
    election = settings.leader_election
    if not election.enabled:
        yield NoElection()
        return
    me = candidate(election, environment.identity)
    async with Client.connect(
        credentials, limit=2, call_timeout=me.renew_deadline / 2, transport=environment.transport
    ) as client:
        yield LeaderElector(
            client=client,
            key=_lease(settings),
            candidate=me,
            mandate=Mandate(clock=environment.boot),
            clock=environment.clock,
            boot=environment.boot,
        )


def _lease(settings: Settings) -> ObjectKey:
    return ObjectKey(settings.cluster.namespace, settings.leader_election.resource_name)


async def refuse_beside_kueue(client: ClusterClient, clock: Clock) -> None:
    """Raise ConfigurationError if Kueue's own controllers act on the cluster: two would give away the same quota."""
    holder = await who_renews(client, clock, KUEUES_LEASE)
    if holder:
        raise ConfigurationError(
            f"Kueue's own controllers act on this cluster: {holder} renews Lease {KUEUES_LEASE}. "
            "They and a standalone manager would give away the same quota. Is this the cluster that was meant? If it is, "
            "stop them, or set roles to dispatch and switch off Kueue's feature gate MultiKueue (docs/roles.md). To start "
            "all the same: --force, cluster.ignore_kueue, or MULTIKUEUE_CLUSTER__IGNORE_KUEUE=true"
        )


def _end_if_thawed_too_late(mandate: Mandate) -> None:
    """End the process on SIGCONT if its mandate lapsed while it was stopped (SIGSTOP).

    Bytes of a write may be past the check of the mandate, and would be sent after another process took the Lease."""

    def on_thaw(_signal: int, _frame: object) -> None:
        if mandate.has_lapsed():
            os.write(2, b"stopped for longer than the lease lasts: another process may lead by now\n")
            os._exit(1)

    signal.signal(signal.SIGCONT, on_thaw)


async def _reach(client: Client, credentials: Credentials, timeout: float) -> None:
    """Wait for the manager cluster, which may be starting too. Raises ClusterUnreachable after FIRST_ANSWER_TIMEOUT."""

    def waits(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        log.warning(
            "manager.waiting",
            server=credentials.server,
            source=credentials.source,
            why=error.why if isinstance(error, ClusterUnreachable) else str(error),
            attempt=state.attempt_number,
        )

    attempts = AsyncRetrying(
        retry=retry_if_exception_type(ClusterUnreachable),
        wait=wait_exponential_jitter(multiplier=0.5, max=5),
        stop=stop_after_delay(FIRST_ANSWER_TIMEOUT),
        before_sleep=waits,
        reraise=True,
    )
    async for attempt in attempts:
        with attempt:
            await client.probe(timeout)


def settle_memory() -> None:
    """Exclude from searches for garbage what stays for long, the loaded modules first."""
    collect_in_small_steps()
    give_large_blocks_back()


async def _stop_on_signal(stop: anyio.Event) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            log.info("manager.stopping", signal=signal.Signals(number).name, at_once=stop.is_set())
            if stop.is_set():
                os._exit(128 + number)
            stop.set()
