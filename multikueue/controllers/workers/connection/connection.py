"""One worker's subtree of tasks: client, watches, heartbeat, outbox; and the change of credentials while they run.

Its state goes connected → suspect → isolated → (after the lost timeout, judged by decisions) lost. New credentials are
tried beside the old ones, which stay in use until the new ones have proven good. Then watches and calls change over at
once; no knowledge and no call in flight is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial

import anyio
import anyio.abc

from multikueue.api.meta import ObjectKey
from multikueue.controllers.reconcile.context import ReconcileContext, tenant
from multikueue.controllers.reconcile.events import log_unreadable
from multikueue.controllers.workers.connection.health import HEARTBEAT, Breaker, Health
from multikueue.controllers.workers.connection.heartbeat import Heartbeat
from multikueue.controllers.workers.connection.identities import ClusterIdentity, OtherCluster
from multikueue.controllers.workers.connection.kubeconfigs import Access
from multikueue.controllers.workers.connection.outbox import Outbox
from multikueue.controllers.workers.connection.releases import ReleaseReads
from multikueue.controllers.workers.connection.watches import QueueWatches, RoomWatches, Watches
from multikueue.controllers.workers.connection.worker_credentials import (
    CONNECTION_FAILED,
    CredentialExpiry,
    CredentialsTrial,
    TrialProblem,
    may_lead_elsewhere,
    problem_of,
    prove,
)
from multikueue.errors import ClusterUnreachable, MultiKueueError, Throttled
from multikueue.kube.auth.identity import loop_time
from multikueue.kube.client import Call, Client, Listeners
from multikueue.kube.transport.loop_share import PART, PATIENCE, LoopShare
from multikueue.runtime import AdaptiveLimit, Backoff, WorkQueue, run_controller, supervise
from multikueue.settings import Dispatch, Timings
from multikueue.store.workers.watch_scope import EVERYWHERE
from multikueue.store.workers.worker import WorkerView
from multikueue.telemetry import get_logger
from multikueue.telemetry.metrics import outbox_of

__all__ = ["Connection"]

log = get_logger()

SPARE_CALLS = 6
"""Extra calls in flight, so that heartbeats, the two lists, reads of the worker's queues and two reads for people never wait
for the outbox."""

SPARE_TASKS = 2
"""Tasks that wait for keys of one outbox at most: where there are a thousand workers, most have nothing to do."""

WRITES = frozenset({"create", "update", "patch", "delete"})
"""The verbs of an outbox's calls that take about as long as each other."""

TRIAL_CALLS = 2
"""Calls in flight while credentials are tried."""


def _nowhere() -> None:
    """Leaves nothing."""


@dataclass(slots=True)
class Connection:
    """Owner of a worker's client, watches, heartbeat, health and outbox; changes the worker's view only.

    `access` is in use, `namespaces` are watched ("": all), `offered` is the candidate of `offer`. `before` is the
    access of the previous connection, if any: the view of the worker stems from it, so this connection must lead to the
    same cluster. `is_tried`: an attempt ended, so there is something to report.
    """

    context: ReconcileContext
    settings: Dispatch
    worker: WorkerView
    access: Access
    contact: anyio.Event
    namespaces: tuple[str, ...] = EVERYWHERE
    before: Access | None = None
    is_tried: bool = False
    offered: CredentialsTrial = field(default_factory=CredentialsTrial)
    expiry: CredentialExpiry = field(init=False)
    _identity: ClusterIdentity = field(init=False)
    _health: Health = field(init=False)
    _watches: Watches = field(init=False)
    _heartbeat: Heartbeat = field(init=False)
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _limit: AdaptiveLimit = field(init=False)
    _share: LoopShare = field(init=False)
    _leave: Callable[[], None] = field(default=_nowhere)

    def __post_init__(self) -> None:
        self.expiry = CredentialExpiry(self.context, self.worker, self.offered)
        self.expiry.look_at(self.access.credentials)
        self._limit = AdaptiveLimit(self.settings.concurrency_per_cluster)
        self._share = LoopShare(self.context.leftovers, part=PART, patience=PATIENCE)
        self._identity = ClusterIdentity(self.context, self.worker)
        self._health = Health(
            self.worker, self._timings, self.context.now, self._was_tried, self.contact, settled=self._settled
        )
        self._watches = Watches(self.context, self.worker, self.namespaces, self._health, self._identity.vouch)
        self._heartbeat = Heartbeat(
            self.context, self.settings, self.worker, self._health, self._watches, refused=self.expiry.refused
        )

    @property
    def name(self) -> str:
        return self.worker.name

    @property
    def _timings(self) -> Timings:
        return self.context.settings.timings

    @property
    def reason(self) -> str:
        """The condition's reason for the present trouble."""
        return self._heartbeat.reason

    @property
    def is_barred(self) -> bool:
        """Whether the worker is not spoken to for a while, as it sent more than its share lets us read."""
        return self._share.is_barred

    @property
    def problem(self) -> TrialProblem | None:
        """Why the offered credentials are not in use."""
        return self.offered.problem

    @property
    def note(self) -> str:
        """What is to be said of a worker that is used beside another one with its identity; empty otherwise."""
        return self._identity.note(self._identity.uid) if self._identity.uid else ""

    @property
    def newest(self) -> bytes:
        """The offered kubeconfig; without an offer, the one in use."""
        return (self.offered.candidate or self.access).kubeconfig

    @property
    def can_take_offers(self) -> bool:
        """Whether the connection takes offers: it works, or is merely unreachable. A connection that has yet to follow
        a previous one does not, nor does one that leads to the wrong cluster."""
        return self.before is None and self.reason == CONNECTION_FAILED

    def offer(self, access: Access) -> None:
        """Uses `access` as soon as it has proven good. If it is in use already, an earlier offer is withdrawn."""
        self.offered.candidate = None if access.kubeconfig == self.access.kubeconfig else access
        self._settle(None)
        self.offered.trial.cancel()

    def stop(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        with self._scope:
            await supervise(f"cluster {self.name}", self._live, backoff=self._retries())

    def _retries(self) -> Backoff:
        return Backoff(first=self._timings.reconnect_first, cap=self._timings.reconnect_cap, jitter=1)

    def _called(self, call: Call) -> None:
        """Learns from a write of the outbox how many may be under way: reads take as long as what they bring. A worker that
        comes and goes gets few at first each time that it is back."""
        self.context.metrics.called(call)
        if call.verb not in WRITES or call.status == "Cancelled":
            return
        at, outbox = loop_time(), self.context.queues.outboxes.get(self.name)
        if call.status in (Throttled.__name__, ClusterUnreachable.__name__):
            self._limit.refused(at=at, seconds=call.seconds)
        else:
            used_up = outbox is not None and outbox.processing >= self._limit()
            self._limit.answered(at=at, seconds=call.seconds, was_used_up=used_up)

    def _client(
        self, access: Access, *, limit: int, on_call: Callable[[Call], None] | None = None
    ) -> AbstractAsyncContextManager[Client]:
        return Client.connect(
            access.credentials,
            cluster=self.name,
            user_agent=self.context.user_agent,
            limit=limit,
            call_timeout=self._timings.call_timeout.total_seconds(),
            may_write=self.context.mandate.is_valid,
            listeners=Listeners(on_call or self.context.metrics.called, log_unreadable),
            transport=self.context.transport,
            share=self._share,
        )

    async def _live(self) -> None:
        """One life of the connection. It begins when it is its turn: a thousand that shake hands at once would miss
        their deadlines."""
        self._leave = await self.context.beginnings.enter()
        try:
            await self._connected()
        finally:
            self._leave()

    def _settled(self) -> None:
        """Calls `_leave`, which the run sets later than this method is passed on."""
        self._leave()

    async def _connected(self) -> None:
        most = self.settings.concurrency_per_cluster + SPARE_CALLS
        async with self._client(self.access, limit=most, on_call=self._called) as client:
            await self._succeed(client)
            retries = Backoff(first=self._timings.retry_first, cap=self._timings.retry_cap)
            outbox: WorkQueue[ObjectKey] = WorkQueue(retries=retries, tenant=tenant)
            queues = self.context.queues
            queues.outboxes[self.name], queues.limits[self.name] = outbox, self._limit
            queues.shares[self.name] = self._share
            self.context.clients[self.name] = client
            try:
                await self._serve(client, outbox)
            finally:
                if queues.outboxes.get(self.name) is outbox:
                    del queues.outboxes[self.name]
                    del queues.limits[self.name], queues.shares[self.name]
                    del self.context.clients[self.name]
                self._health.end("the connection ended")

    async def _succeed(self, client: Client) -> None:
        """Follows the previous connection. With another address or authority, the cluster must prove to be the same."""
        if self.before is None or not may_lead_elsewhere(self.before, self.access):
            self.before = None
            return
        try:
            await self._prove(client, self.access, self.before)
        except MultiKueueError as error:
            self._settle(problem_of(error))
            self._heartbeat.failed(self.context.now())
            self._was_tried()
            raise
        self._settle(None)
        if self._is_lost():
            self.worker.forget()
        self.before = None

    async def _serve(self, client: Client, outbox: WorkQueue[ObjectKey]) -> None:
        breaker = Breaker(self.worker, outbox, alarm=self._heartbeat.alarm)
        performer = Outbox(self.context, self.worker, client, breaker)
        self._look_at_namespaces()
        async with anyio.create_task_group() as tasks:
            unlisted = self._watches.prepare(client)
            self._health.begin(tasks, {HEARTBEAT: "not connected yet", **unlisted})
            tasks.start_soon(self._heartbeat.run, client, breaker, partial(self._identify, tasks, client))
            tasks.start_soon(self._change_over, client)
            with self.worker.jobs.telling(partial(self._watches.add, tasks, client)):
                await run_controller(
                    outbox_of(self.name),
                    outbox,
                    performer.reconcile,
                    workers=self._limit,
                    spare=SPARE_TASKS,
                    on_error=self.context.metrics.failing(outbox_of(self.name)),
                )

    def _look_at_namespaces(self) -> None:
        """Takes over the namespaces: nothing is known of added ones yet, nor seen of removed ones any more."""
        if self.worker.offers(self.namespaces, self.context.now()):
            self._health.end("the connection ended")

    async def _identify(self, tasks: anyio.abc.TaskGroup, client: Client) -> None:
        """Checks that this is the cluster that the name stands for; the objects of another cluster are never watched.
        Raises OtherCluster or SameCluster, on a later heartbeat too: another name may turn out to be first."""
        identity, route = self._identity, client.route
        if self._watches.are_running and not identity.is_due:
            return identity.uphold(tasks, client) if identity.uid else None
        before, uid = identity.before, await identity.read(client)
        if uid:
            await identity.claim(uid, client)
        if client.route is not route:
            return None  # other credentials took over meanwhile: their heartbeat asks again
        identity.uid = uid
        if not self._watches.are_running:
            if uid and before not in ("", uid):
                self.worker.forget()
            self._watches.run(tasks)
            tasks.start_soon(QueueWatches(self.context, self.name, self.namespaces).run, client, client.share)
            tasks.start_soon(ReleaseReads(self.context.store.releases, self.worker).run, client)
            tasks.start_soon(RoomWatches(self.context, self.name, self.namespaces).run, client, client.share)
        return None

    def _was_tried(self) -> None:
        """Reports the first attempt that failed."""
        if not self.is_tried:
            self.is_tried = True
            self.context.queues.clusters.add(self.name)

    # Other credentials.

    async def _change_over(self, client: Client) -> None:
        """Tries offered credentials, forever."""
        while True:
            with anyio.CancelScope() as self.offered.trial:
                if self.offered.candidate is not None:
                    await self._try(client, self.offered.candidate)
                await anyio.sleep_forever()

    async def _try(self, client: Client, candidate: Access) -> None:
        """Tries the candidate, with back-off, until it has proven good; then uses it."""
        retries, failures = self._retries(), 0
        while True:
            try:
                async with self._client(candidate, limit=TRIAL_CALLS) as trial:
                    uid = await self._prove(trial, candidate, self.access)
                    self._use(client, trial, candidate, uid)
                    return
            except MultiKueueError as error:
                failures += 1
                self._settle(problem_of(error))
            wait = retries.delay(failures)
            if not self.worker.link.is_connected:
                wait = min(wait, self.settings.heartbeat_interval)
            with anyio.CancelScope() as self.offered.pause:
                await anyio.sleep(wait.total_seconds())

    async def _prove(self, trial: Client, new: Access, old: Access) -> str:
        timeout = self._timings.heartbeat_timeout.total_seconds()
        return await prove(trial, new, old, self.context, self._identity, namespaces=self.namespaces, timeout=timeout)

    def _is_lost(self) -> bool:
        return self.worker.is_lost(self.context.now(), self.context.lost_after)

    def _use(self, client: Client, trial: Client, candidate: Access, uid: str) -> None:
        """The change itself, without an await: no other task sees half of it."""
        before = self._identity.uid
        is_other = uid != before if uid and before else may_lead_elsewhere(self.access, candidate)
        if is_other and self._is_lost():
            self.worker.forget()
        self._identity.uid = uid
        client.take_over(trial)
        self.access, self.offered.candidate = candidate, None
        self.expiry.look_at(candidate.credentials)
        log.info("cluster.credentials_changed", cluster=self.name, source=candidate.credentials.source)
        self._watches.hurry()
        self._heartbeat.alarm()
        self._settle(None)

    def _settle(self, problem: TrialProblem | None) -> None:
        """Reports why the offered credentials are not in use. The same kind of trouble in other words is no news."""
        if (problem and problem.kind) == (self.problem and self.problem.kind):
            return
        self.offered.problem = problem
        leaving = problem.message if problem is not None and problem.kind is OtherCluster else ""
        if problem is not None:
            log.warning("cluster.credentials_refused", cluster=self.name, why=problem.message)
        self.worker.leaves(leaving)
        self.context.queues.clusters.add(self.name)
