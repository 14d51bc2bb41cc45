"""One worker's subtree of tasks: client, watches, heartbeat, outbox; and the change to other credentials while they run.

Its state goes connected → suspect → isolated → (after the lost timeout, judged by decisions) lost. New credentials are
tried beside those in use, which stay in use until the new ones have proven good; then watches and calls change over at
once, and nothing of what is known or under way is dropped.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from typing import Any

import anyio
import anyio.abc

from multikueue.api.kinds import WORKLOADS, Kind
from multikueue.api.meta import ObjectKey
from multikueue.api.workload import ORIGIN_LABEL
from multikueue.controllers.reconcile.context import World, tenant
from multikueue.controllers.reconcile.events import tell_unreadable
from multikueue.controllers.workers.health import HEARTBEAT, Health
from multikueue.controllers.workers.identities import Identity, OtherCluster, SameCluster
from multikueue.controllers.workers.kubeconfigs import NOT_LOADED, Access
from multikueue.controllers.workers.outbox import Outbox
from multikueue.errors import ClusterUnreachable, Forbidden, MultiKueueError, NotFound, Unauthorized
from multikueue.kube.client import Client
from multikueue.kube.reflector import Reflector
from multikueue.runtime import Backoff, WorkQueue, run_controller, supervise
from multikueue.settings import Dispatch
from multikueue.store.cache import Cache
from multikueue.store.sight import EVERYWHERE, is_needed
from multikueue.store.worker import WorkerView
from multikueue.telemetry import get_logger
from multikueue.telemetry.metrics import outbox_of

__all__ = ["CONNECTION_FAILED", "Connection", "Problem"]

log = get_logger()

RECHECK = timedelta(milliseconds=500)
"""Time between two signs of life asked from a worker that did not answer just now."""

TIME_TO_STAND = timedelta(seconds=10)
"""How long watches may take to stand again once their cluster answers: a listing, and the doubts about a quiet one."""

MARGIN = timedelta(milliseconds=10)
"""We wait by another clock than the one that tells the time."""

SPARE_CALLS = 4
"""Calls at a time besides those of the outbox, for which a sign of life, the two lists and a look at the worker's queues
must never wait."""

CONNECTION_FAILED = "ClientConnectionFailed"

REASONS: dict[type[MultiKueueError], str] = {SameCluster: "SameCluster", OtherCluster: "BadKubeConfig"}
"""Of a cluster that answers, and is not the one that the name stands for."""

TRIAL_CALLS = 2
"""Calls in flight while credentials are tried."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why new credentials are not in use: the reason for a condition, the words, and what kind of trouble it is."""

    reason: str
    message: str
    kind: type[MultiKueueError]


@dataclass(slots=True)
class Connection:
    """Owner of a worker's client, watches, heartbeat, health and outbox; changes the worker's view only.

    `access` is what is in use, `namespaces` what is looked at there ("": all). `problem` is why what `offer` brought is not.
    `before` is what the connection before this one used, if there was one: its view of the worker is still there, and must be
    of the same cluster. Until it was `tried` once, nothing can be said of it. `reason` is what kind of trouble it has, if it
    has any.
    """

    world: World
    settings: Dispatch
    worker: WorkerView
    access: Access
    contact: anyio.Event
    namespaces: tuple[str, ...] = EVERYWHERE
    before: Access | None = None
    problem: Problem | None = None
    tried: bool = False
    reason: str = CONNECTION_FAILED
    _identity: Identity = field(init=False)
    _health: Health = field(init=False)
    _identified: bool = False
    _candidate: Access | None = None
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _trial: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _pause: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _alarm: anyio.Event = field(default_factory=anyio.Event)
    _reflectors: list[Reflector[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._identity = Identity(self.world, self.worker)
        self._health = Health(self.worker, self.settings, self.world.now, self._was_tried, self.contact)

    @property
    def name(self) -> str:
        return self.worker.name

    @property
    def newest(self) -> bytes:
        """The kubeconfig that is in use, or is to be."""
        return (self._candidate or self.access).kubeconfig

    @property
    def serves(self) -> bool:
        """Whether it works, or would if it could: then it takes offers. One that has yet to follow another does not, nor
        does one that leads to the wrong cluster."""
        return self.before is None and self.reason == CONNECTION_FAILED

    def offer(self, access: Access) -> None:
        """Use that from now on, as soon as it has proven good; or stay with what is in use, if it is that."""
        self._candidate = None if access.kubeconfig == self.access.kubeconfig else access
        self._settle(None)
        self._trial.cancel()

    def stop(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        with self._scope:
            await supervise(f"cluster {self.name}", self._live, backoff=self._retries())

    def _retries(self) -> Backoff:
        return Backoff(first=self.settings.reconnect_first, cap=self.settings.reconnect_cap, jitter=1)

    def _client(self, access: Access, *, limit: int) -> AbstractAsyncContextManager[Client]:
        return Client.connect(
            access.credentials,
            cluster=self.name,
            user_agent=self.world.user_agent,
            limit=limit,
            call_timeout=self.settings.call_timeout.total_seconds(),
            may_write=self.world.mandate.valid,
            on_call=self.world.metrics.called,
            on_garbage=tell_unreadable,
            transport=self.world.transport,
        )

    async def _live(self) -> None:
        async with self._client(self.access, limit=self.settings.concurrency_per_cluster + SPARE_CALLS) as client:
            await self._succeed(client)
            retries = Backoff(first=self.settings.retry_first, cap=self.settings.retry_cap)
            outbox: WorkQueue[ObjectKey] = WorkQueue(retries=retries, tenant=tenant)
            self.world.queues.outboxes[self.name] = outbox
            self.world.clients[self.name] = client
            try:
                await self._serve(client, outbox)
            finally:
                if self.world.queues.outboxes.get(self.name) is outbox:
                    del self.world.queues.outboxes[self.name]
                    del self.world.clients[self.name]
                self._health.end("the connection ended")

    async def _succeed(self, client: Client) -> None:
        """Follow the connection before this one, unless that was with another cluster."""
        if self.before is None or not _leads_elsewhere(self.before, self.access):
            self.before = None
            return
        try:
            await self._prove(client, self.access, self.before)
        except MultiKueueError as error:
            self._settle(_problem(error))
            self._probe_failed(self.world.now())
            self._was_tried()
            raise
        self._settle(None)
        if self._is_lost():
            self.worker.forget()
        self.before = None

    async def _serve(self, client: Client, outbox: WorkQueue[ObjectKey]) -> None:
        self._alarm, self._identified = anyio.Event(), False
        performer = Outbox(self.world, self.worker, client, alarm=self._raise_alarm)
        self._look_at_namespaces()
        async with anyio.create_task_group() as tasks:
            watched = tuple(product(_watched(self.worker), self.namespaces))
            self._reflectors = [self._reflector(client, kind, cache, namespace) for (kind, cache), namespace in watched]
            unlisted = {_part(kind, namespace): _unlisted(kind) for (kind, _), namespace in watched}
            self._health.begin(tasks, {HEARTBEAT: "not connected yet", **unlisted})
            tasks.start_soon(self._heartbeat, tasks, client, performer)
            tasks.start_soon(self._change_over, client)
            with self.worker.jobs.telling(partial(self._also_watch, tasks, client)):
                await run_controller(
                    outbox_of(self.name),
                    outbox,
                    performer.reconcile,
                    workers=self.settings.concurrency_per_cluster,
                    on_error=self.world.metrics.failing(outbox_of(self.name)),
                )

    def _look_at_namespaces(self) -> None:
        """Nothing is known of those that were not looked at before, and nothing is seen of the others any more."""
        if self.worker.offers(self.namespaces, self.world.now()):
            self._health.end("the connection ended")

    @property
    def _selector(self) -> str:
        return f"{ORIGIN_LABEL}={self.world.origin}"

    def _reflector(self, client: Client, kind: Kind[Any], cache: Cache[Any], namespace: str) -> Reflector[Any]:
        def on_state(ok: bool, why: str) -> None:
            lacking = not ok and reflector.refused and _may_lack(kind, namespace)
            if not ok and not lacking:
                self.world.metrics.watch_failures(self.name, kind.plural).inc()
            self.worker.lacks(kind, why if lacking else "", self.world.now(), namespace=namespace)
            self._health.report("namespaces", self._blindness())
            self._health.report(_part(kind, namespace), "" if ok or lacking else f"{kind.plural}: {why}")

        reflector: Reflector[Any] = Reflector(
            client,
            kind,
            cache,
            label_selector=self._selector,
            namespace=namespace,
            on_state=on_state,
            vouch=partial(self._identity.vouch, client),
        )
        return reflector

    def _blindness(self) -> str:
        """Why nothing is seen at all, in none of its namespaces."""
        blind = tuple(self.worker.sight.blind())
        return f"namespace {blind[0][0]}: {blind[0][1]}" if blind and len(blind) == len(self.namespaces) else ""

    def _also_watch(self, tasks: anyio.abc.TaskGroup, client: Client, kind: Kind[Any], cache: Cache[Any]) -> None:
        """The manager cluster has a further kind of jobs from now on: nothing of ours can be there, so all else goes on."""
        for namespace in self.namespaces:
            reflector = self._reflector(client, kind, cache, namespace)
            self._reflectors.append(reflector)
            self.worker.lacks(kind, _unlisted(kind), self.world.now(), namespace=namespace)
            if self._identified:
                tasks.start_soon(reflector.run)

    async def _identify(self, tasks: anyio.abc.TaskGroup, client: Client) -> None:
        """Look whether it is the cluster that the name stands for; nothing of another one is looked at. Raises if it is
        not, then or later: another name may turn out to be first."""
        identity, route = self._identity, client.route
        if self._identified and not identity.is_due:
            return identity.uphold(tasks) if identity.uid else None
        before, uid = identity.before, await identity.read(client)
        if uid:
            await identity.claim(uid)
        if client.route is not route:
            return None  # other credentials took over meanwhile: that is asked anew
        identity.uid = uid
        if not self._identified:
            if uid and before not in ("", uid):
                self.worker.forget()
            self._identified = True
            for reflector in self._reflectors:
                tasks.start_soon(reflector.run)
        return None

    # Signs of life.

    async def _heartbeat(self, tasks: anyio.abc.TaskGroup, client: Client, outbox: Outbox) -> None:
        """Asks for a sign of life, with our credentials, for ever. The first one after trouble hurries the watches.

        That one does not say that the worker is still away, though its watches do not stand yet; a later one does, of the
        time up to the one before, if they could have stood up by then. So each of them has the watches tried again.
        """
        back = answered = self.world.now()
        while True:
            asked = self.world.now()
            try:
                await client.probe(self.settings.heartbeat_timeout.total_seconds())
                await self._identify(tasks, client)
            except MultiKueueError as error:
                outbox.hold()
                self._blame(error)
                if isinstance(error, Unauthorized):
                    self._refused()
                # No answer is read in a time in which we are stopped ourselves: only what an answer may take counts.
                self._probe_failed(min(self.world.now(), asked + self.settings.heartbeat_timeout))
                self._health.report(HEARTBEAT, str(error))
            else:
                outbox.trust()
                self._blame(None)
                if self._health.is_silent:
                    back = asked
                    for reflector in self._reflectors:
                        reflector.hurry()
                elif not self._health.is_whole:
                    if (proven := min(answered, asked - TIME_TO_STAND)) > back:
                        self._probe_failed(proven)
                    for reflector in self._reflectors:
                        reflector.retry()
                answered = asked
                self._health.report(HEARTBEAT, "")
            await self._rest()

    def _probe_failed(self, until: datetime) -> None:
        self.worker.asked_in_vain(until, self.world.now(), self.world.lost_after)

    def _blame(self, error: MultiKueueError | None) -> None:
        """What kind of trouble it has now."""
        reason = CONNECTION_FAILED if error is None else REASONS.get(type(error), CONNECTION_FAILED)
        if reason != self.reason:
            self.reason = reason
            self.world.queues.clusters.add(self.name)

    def _was_tried(self) -> None:
        """It came to nothing: make that known, be it the first time."""
        if not self.tried:
            self.tried = True
            self.world.queues.clusters.add(self.name)

    def _refused(self) -> None:
        """Our credentials are no good any more: look whether their source has others, or whether those on trial are."""
        self.world.queues.clusters.add(self.name)
        self._pause.cancel()

    async def _rest(self) -> None:
        """Until the next heartbeat.

        It comes sooner as long as the worker may only have been away for a moment, and, if there was no answer, when its
        time is up: it counts as lost once it was asked in vain after that.
        """
        interval, worker = self.settings.heartbeat_interval, self.worker
        if worker.link.is_connected:
            interval = min(interval, RECHECK) if worker.link.silent else interval
        elif self._health.is_silent and worker.link.since is not None and not self._is_lost():
            left = worker.link.since + self.world.lost_after - self.world.now()
            interval = min(interval, max(left, timedelta(0)) + MARGIN)
        with anyio.move_on_after(interval.total_seconds()):
            await self._alarm.wait()
        self._alarm = anyio.Event()

    def _raise_alarm(self) -> None:
        self._alarm.set()

    # Other credentials.

    async def _change_over(self, client: Client) -> None:
        """Tries what is offered, for ever."""
        while True:
            with anyio.CancelScope() as self._trial:
                if self._candidate is not None:
                    await self._try(client, self._candidate)
                await anyio.sleep_forever()

    async def _try(self, client: Client, candidate: Access) -> None:
        """Try it again and again until it has proven good; then use it."""
        retries, failures = self._retries(), 0
        while True:
            try:
                async with self._client(candidate, limit=TRIAL_CALLS) as trial:
                    uid = await self._prove(trial, candidate, self.access)
                    self._use(client, trial, candidate, uid)
                    return
            except MultiKueueError as error:
                failures += 1
                self._settle(_problem(error))
            wait = retries.delay(failures)
            if not self.worker.link.is_connected:
                wait = min(wait, self.settings.heartbeat_interval)
            with anyio.CancelScope() as self._pause:
                await anyio.sleep(wait.total_seconds())

    async def _prove(self, trial: Client, new: Access, old: Access) -> str:
        """Whether it answers, lets us see what we watch, and is the cluster it was.

        Where its identity may not be read that is told by our own objects: where none of those is that we know of, is
        another cluster. It gets the name once nothing of ours is left on the one before, or that one counts as lost.
        """
        await trial.probe(self.settings.heartbeat_timeout.total_seconds())
        seen: set[str] = set()
        for (kind, _), namespace in product(_watched(self.worker), self.namespaces):
            try:
                page = await trial.list(kind, namespace=namespace, label_selector=self._selector)
            except (NotFound, Forbidden):
                if is_needed(kind) and self.worker.sight.blindness(namespace) is None:
                    raise
                continue
            seen.update(item.metadata.uid for item in page.items)
        uid, before = await self._identity.read(trial), self._identity.before
        if not (uid and before) and _leads_elsewhere(old, new) and not self._is_lost():
            _check_same(self.worker, seen)
        if uid:
            await self._identity.claim(uid)
        return uid

    def _is_lost(self) -> bool:
        return self.worker.is_lost(self.world.now(), self.world.lost_after)

    def _use(self, client: Client, trial: Client, candidate: Access, uid: str) -> None:
        """The change itself: no await in it."""
        before = self._identity.uid
        is_other = uid != before if uid and before else _leads_elsewhere(self.access, candidate)
        if is_other and self._is_lost():
            self.worker.forget()
        self._identity.uid = uid
        client.take_over(trial)
        self.access, self._candidate = candidate, None
        log.info("cluster.credentials_changed", cluster=self.name, source=candidate.credentials.source)
        for reflector in self._reflectors:
            reflector.hurry()
        self._raise_alarm()
        self._settle(None)

    def _settle(self, problem: Problem | None) -> None:
        """Make known why what is offered is not in use. The same trouble in other words is no news."""
        if (problem and problem.kind) == (self.problem and self.problem.kind):
            return
        self.problem = problem
        leaving = problem.message if problem is not None and problem.kind is OtherCluster else ""
        if problem is not None:
            log.warning("cluster.credentials_refused", cluster=self.name, why=problem.message)
        self.worker.leaves(leaving)
        self.world.queues.clusters.add(self.name)


def _watched(worker: WorkerView) -> tuple[tuple[Kind[Any], Cache[Any]], ...]:
    return (WORKLOADS, worker.workloads), *((kind, worker.jobs.of(kind)) for kind in worker.jobs.kinds)


def _unlisted(kind: Kind[Any]) -> str:
    return f"{kind.plural}: not listed yet"


def _part(kind: Kind[Any], namespace: str) -> str:
    return f"{kind.name} {namespace}"


def _may_lack(kind: Kind[Any], namespace: str) -> bool:
    """Whether a worker is good for something without that: one that lacks some kind of jobs, or shows us nothing of one of
    its namespaces, is merely not chosen for those."""
    return bool(namespace) or not is_needed(kind)


def _leads_elsewhere(old: Access, new: Access) -> bool:
    """Whether the new credentials may be those of another cluster: with another address, or another authority."""
    return (old.credentials.server, old.credentials.authority) != (new.credentials.server, new.credentials.authority)


def _check_same(worker: WorkerView, seen: set[str]) -> None:
    """Raises OtherCluster if we know of objects on a worker, and none of them is among those with the UIDs seen."""
    held = {item.metadata.uid for _, cache in _watched(worker) for item in cache}
    if (held or worker.expectations) and held.isdisjoint(seen):
        raise OtherCluster(
            f"it leads to another cluster, that has none of our {len(held)} objects; "
            "it is used once they are gone from the cluster before, or that one is lost"
        )


def _problem(error: MultiKueueError) -> Problem:
    why = error.why if isinstance(error, ClusterUnreachable) else str(error)
    message = f"the new kubeconfig is not in use: {why}"
    reason = REASONS.get(type(error), CONNECTION_FAILED)
    return Problem(reason, message if reason == CONNECTION_FAILED else NOT_LOADED + message, type(error))
