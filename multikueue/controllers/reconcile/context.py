"""The context of every reconcile, as one value, with the work queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

import anyio
import msgspec

from multikueue.api.jobs.job import JobKey
from multikueue.api.kueue.compatibility import Compatibility
from multikueue.api.kueue.workload import GROUP_LABEL
from multikueue.api.meta import ObjectKey
from multikueue.controllers.reconcile.events import Recorder
from multikueue.controllers.reconcile.strategies import Strategies
from multikueue.jobs.reconciler.case import JobRules
from multikueue.kube.cluster_client import WatchingClient
from multikueue.kube.transport.loop_share import Leftovers, LoopShare
from multikueue.kube.transport.session import USER_AGENT, Transport, open_session
from multikueue.quota.engine import Engine
from multikueue.quota.workload.outcome import Reasons
from multikueue.runtime import Mandate, Turnstile, WorkQueue
from multikueue.settings import InForce, PodsReady, Settings
from multikueue.store.job_view import JobViews
from multikueue.store.store import Store
from multikueue.store.views import Views
from multikueue.telemetry.metrics import Metrics
from multikueue.workload.case import Case
from multikueue.workload.decision_rules import (
    NO_RETENTION,
    CopyRetention,
    DecisionRules,
    RequeueBackoff,
    WaitForPodsReady,
)
from multikueue.workload.handlers.outcome import Outcome


class Followed:
    """The connection of a worker watches the worker's queues while it is among these. Owner of those whose quotas are followed:
    `controllers.quota.capacity`; of those that are doubted: the connection itself."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._change = anyio.Event()

    def __contains__(self, worker: str) -> bool:
        return worker in self._names

    def put(self, workers: Iterable[str]) -> None:
        """From now on these are followed, and no others."""
        before, self._names = self._names, frozenset(workers)
        if before != self._names:
            self._change.set()
            self._change = anyio.Event()

    async def until(self, worker: str, *, is_followed: bool) -> None:
        """Returns once the worker is followed, or is no more."""
        while (worker in self) is not is_followed:
            await self._change.wait()


Name = str
BEGINNINGS, BEGINNING_SECONDS = 16, 1.0
"""Connections to workers that begin at a time, and how long one that gets stuck keeps others from it. A worker that does
not answer takes the first of its deadlines (2 s), a healthy one some milliseconds. More at a time would have their handshakes,
a millisecond or two each, in one turn of the event loop."""

AnyQueue = WorkQueue[ObjectKey] | WorkQueue[JobKey] | WorkQueue[Name]


def tenant(key: ObjectKey | JobKey) -> str:
    """The tenant of a key: its namespace. Keys of one namespace do not hold up those of another."""
    return key.namespace


@dataclass(slots=True, kw_only=True)
class WorkQueues:
    """The work queues of the manager; `outboxes` has one per connected worker, `limits` how many of its keys may be worked
    on at a time, and `shares` its share of the event loop."""

    workloads: WorkQueue[ObjectKey] = field(default_factory=WorkQueue)
    jobs: WorkQueue[JobKey] = field(default_factory=WorkQueue)
    checks: WorkQueue[Name] = field(default_factory=WorkQueue)
    flavors: WorkQueue[Name] = field(default_factory=WorkQueue)
    clusters: WorkQueue[Name] = field(default_factory=WorkQueue)
    cluster_queues: WorkQueue[Name] = field(default_factory=WorkQueue)
    local_queues: WorkQueue[ObjectKey] = field(default_factory=WorkQueue)
    cohorts: WorkQueue[Name] = field(default_factory=WorkQueue)
    ceilings: WorkQueue[Name] = field(default_factory=WorkQueue)
    capacity: WorkQueue[Name] = field(default_factory=WorkQueue)
    outboxes: dict[Name, WorkQueue[ObjectKey]] = field(default_factory=dict)
    limits: dict[Name, Callable[[], int]] = field(default_factory=dict)
    shares: dict[Name, LoopShare] = field(default_factory=dict)

    def all(self) -> tuple[AnyQueue, ...]:
        return (*self._of_the_manager(), self.ceilings, self.capacity, *self.outboxes.values())

    def hurry(self) -> None:
        """The manager cluster answers again: keys that failed without it need not wait for their whole back-off."""
        for queue in self._of_the_manager():
            queue.hurry()

    def _of_the_manager(self) -> tuple[AnyQueue, ...]:
        """The queues whose keys stand for objects that are written on the manager cluster."""
        fixed = (self.workloads, self.jobs, self.checks, self.flavors, self.clusters)
        return (*fixed, self.cluster_queues, self.local_queues, self.cohorts)


OnDecision = Callable[[Outcome], None]


@dataclass(slots=True)
class KeptRules:
    """The rules of the settings in force, made once for each version of these."""

    made_of: tuple[Settings, bool, Reasons] | None = None
    rules: DecisionRules = field(default_factory=DecisionRules)
    job_rules: JobRules = field(default_factory=JobRules)

    def of(self, settings: Settings, engine: Engine) -> DecisionRules:
        before = self.made_of
        if (
            before is None
            or before[0] is not settings
            or before[1:] != (engine.rules.should_check_gates, engine.rules.reasons)
        ):
            self.made_of = settings, engine.rules.should_check_gates, engine.rules.reasons
            self.rules = _rules(*self.made_of)
            self.job_rules = JobRules(
                label_keys=(GROUP_LABEL, *settings.integrations.label_keys_to_copy),
                should_count_system_classes=settings.quota.system_priority_classes == "Count",
                tell_suspended_after=settings.dispatch.tell_suspended_after,
            )
        return self.rules


class ReconcileContext(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The reconcile context. `manager` is the client of the manager cluster; `settings` may change between two uses."""

    store: Store
    manager: WatchingClient
    queues: WorkQueues
    recorder: Recorder
    strategies: Strategies
    now: Callable[[], datetime]
    settings: InForce
    clients: dict[Name, WatchingClient] = {}
    """The clients of connected workers, by name, to read objects that we do not watch. Owned by the connections."""

    followed: Followed = msgspec.field(default_factory=Followed)

    claims: anyio.Lock = msgspec.field(default_factory=anyio.Lock)
    """Held while a name is given to a cluster, so that names are given one at a time."""

    beginnings: Turnstile = msgspec.field(default_factory=lambda: Turnstile(BEGINNINGS, BEGINNING_SECONDS))
    """What connections to workers go through until all is listed there for the first time."""

    identified: dict[Name, str] = {}
    """By name of a worker: the UID of the cluster that the name was seen to stand for."""

    metrics: Metrics = msgspec.field(default_factory=Metrics)
    kept_rules: KeptRules = msgspec.field(default_factory=KeptRules)
    mandate: Mandate = msgspec.field(default_factory=Mandate.standing)
    """Until when this process may act. All clients ask it before each write."""

    user_agent: str = USER_AGENT
    """Our User-Agent on all clusters."""

    transport: Transport = open_session
    """Carries our requests to workers."""

    on_decision: OnDecision | None = None
    """Called with each outcome about a workload, once it is written; a hook for the simulation."""

    leftovers: Leftovers | None = None
    """What workers get of the event loop beyond their shares; None: nothing is measured."""

    @cached_property
    def views(self) -> Views:
        return Views(self.store)

    @property
    def job_views(self) -> JobViews:
        return JobViews(self.store, self.rules, self.kept_rules.job_rules)

    @property
    def origin(self) -> str:
        return self.settings.dispatch.origin

    @property
    def has_jobs(self) -> bool:
        """Whether the Workloads of jobs are ours to make and to compare; beside Kueue they are its."""
        return "jobs" in self.settings.settings.roles

    @property
    def lost_after(self) -> timedelta:
        return self.settings.dispatch.worker_lost_timeout

    @property
    def rules(self) -> DecisionRules:
        """The settings that decisions read; one value until a setting changes."""
        return self.kept_rules.of(self.settings.settings, self.store.engine)

    def case(self, key: ObjectKey) -> Case:
        """All that is known of that workload."""
        return self.views.case(key, self.rules)

    def ask_strategy(self, case: Case) -> Case:
        """The case with its strategy's nomination, and with what is known of the workers that this names."""
        case = self.strategies.with_nomination(case)
        nomination = case.nomination
        return self.views.widened(case, nomination.clusters) if nomination is not None else case


def _rules(settings: Settings, should_check_gates: bool, reasons: Reasons) -> DecisionRules:
    dispatch, quota, retention = settings.dispatch, settings.quota, settings.retention
    has_life = "quota" in settings.roles
    return DecisionRules(
        has_life=has_life,
        is_dispatcher_only="nominate" in settings.roles,
        origin=dispatch.origin,
        lost_after=dispatch.worker_lost_timeout,
        is_preemption_sequential=dispatch.orchestrated_preemption,
        compatibility=Compatibility.of(quota.compatibility),
        wait_for_pods_ready=_wait_for_pods_ready(quota.pods_ready),
        requeue=RequeueBackoff(first=quota.requeue_first, cap=quota.requeue_cap),
        should_check_gates=should_check_gates,
        may_be_non_preemptible=quota.non_preemptible,
        reasons=reasons,
        copies=CopyRetention(succeeded=retention.copies, failed=retention.failed_copies)
        if retention.copies
        else NO_RETENTION,
        most_copies=retention.most_copies,
    )


def _wait_for_pods_ready(settings: PodsReady) -> WaitForPodsReady | None:
    """The timeouts of Kueue's waitForPodsReady; None if it is disabled."""
    if not settings.enabled:
        return None
    recovery = settings.timeout if settings.recovery_timeout is None else settings.recovery_timeout
    return WaitForPodsReady(
        timeout=settings.timeout, recovery_timeout=recovery or None, limit=settings.backoff_limit_count
    )
