"""Roles as sets of watches, loops and tasks: this module alone chooses those of a process (docs/roles.md).

One function for each deployment assembles its controllers. No controller depends on the role it runs in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import anyio
import msgspec

from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kueue.compatibility import Compatibility
from multikueue.api.meta import ObjectKey
from multikueue.controllers.job_kinds.availability import JobKinds
from multikueue.controllers.job_kinds.declarations import declaration_of
from multikueue.controllers.quota.admission import SchedulerLoop
from multikueue.controllers.quota.capacity import Capacity
from multikueue.controllers.quota.ceilings import CeilingReader
from multikueue.controllers.quota.old_versions import OldVersions
from multikueue.controllers.quota.queue_status import Finalizers, QueueStatuses
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.workers.admission_checks import Checks
from multikueue.controllers.workers.clusters import Clusters, Reports
from multikueue.controllers.workers.draining import Drains
from multikueue.controllers.workers.ocm_placements import PATIENCE, PlacementWatch
from multikueue.controllers.workers.sweep import sweep
from multikueue.controllers.workloads.jobs import Jobs
from multikueue.controllers.workloads.retention import RetentionSweep
from multikueue.controllers.workloads.workloads import Workloads
from multikueue.errors import ConfigurationError
from multikueue.jobs.integrations.external import external
from multikueue.jobs.integrations.frameworks import FRAMEWORKS, GATED, TEMPLATES, Adapters, framework
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.jobs.reconciler.decide import mirror
from multikueue.runtime import Result, WorkQueue, run_controller
from multikueue.settings import (
    BESIDE_KUEUE,
    EXTERNAL_DISPATCHER,
    STANDALONE,
    Role,
    Settings,
)
from multikueue.store.caches.cache import Cache
from multikueue.store.store import Store
from multikueue.telemetry.metrics import Metrics
from multikueue.workload.handlers.outcome import sooner
from multikueue.workload.strategy_call import KUEUE, ROOM

__all__ = ["DEPLOYMENTS", "Loop", "Runnables", "Task", "Watch", "adapters_of", "compose", "submitted_kinds"]

FIRST_CONTACT_TIMEOUT = timedelta(seconds=3)
"""The time for the workers to connect before the first decision. An unreachable worker must not hold up the others."""

CONTACT_EACH = timedelta(milliseconds=5)
"""More for each of them: they connect one after another, some at a time."""

Task = Callable[[], Coroutine[Any, Any, None]]
Key = TypeVar("Key")
Reconcile = Callable[[Key], Awaitable[Result]]


class Watch(msgspec.Struct, frozen=True):
    """One collection of the manager cluster (of one namespace, if given) and the cache that it fills.

    What depends on the others is listed last (`is_listed_last`): a flavor that came later would affect all workloads in
    the store.
    """

    kind: Kind[Any]
    cache: Cache[Any]
    namespace: str = ""
    is_listed_last: bool = False


class Loop(msgspec.Struct, frozen=True):
    """A controller: `workers` tasks take keys from the queue and reconcile them."""

    name: str
    queue: WorkQueue[Any]
    reconcile: Callable[[Any], Awaitable[Result]]
    workers: int = 1

    async def run(self, metrics: Metrics) -> None:
        failed = metrics.failing(self.name)
        await run_controller(self.name, self.queue, self.reconcile, workers=self.workers, on_error=failed)


async def _nobody() -> None:
    """The contact of a process that waits for no worker."""


class Runnables(msgspec.Struct, frozen=True, kw_only=True):
    """The watches, loops and tasks of one process, in the order in which the manager starts them.

    `watches` are listed first, then the kinds of `job_kinds` that the cluster has. `connections` and `cluster_loops`
    maintain the state of the workers; `contact` returns when that suffices for the first decisions. `loops` and `tasks`
    act.
    """

    watches: tuple[Watch, ...]
    job_kinds: JobKinds | None = None
    connections: tuple[Task, ...] = ()
    cluster_loops: tuple[Loop, ...]
    contact: Task = _nobody
    loops: tuple[Loop, ...]
    tasks: tuple[Task, ...] = ()

    def stages(self) -> tuple[tuple[Watch, ...], ...]:
        """The watches by stage: those of one stage are listed concurrently, the stages one after the other."""
        return tuple(tuple(watch for watch in self.watches if watch.is_listed_last is last) for last in (False, True))


def adapters_of(settings: Settings) -> Adapters:
    """The kinds of jobs in use.

    Kinds that only a gate keeps from running on the manager cluster are in use only standalone, unless a Kueue beside us
    is known to hold them: by itself it would lift the gate. Raises ConfigurationError for a kind that occurs twice, or
    a declaration with an invalid path.
    """
    integrations = settings.integrations
    names = [name for name in integrations.frameworks if name in FRAMEWORKS]
    templates = [TEMPLATES[name] for name in integrations.frameworks if name in TEMPLATES]
    if templates and "pod" not in names:
        names.append("pod")
    alone = settings.roles == STANDALONE
    compatibility = Compatibility.of(settings.quota.compatibility)
    held = alone or integrations.kueue_holds_pods
    known = [framework(name, compatibility) for name in names if held or name not in GATED]
    try:
        declared = (DeclaredJob(declaration_of(each), compatibility) for each in integrations.declared)
        others = map(external, integrations.external)
        return Adapters(
            (*known, *declared, *others),
            templates if alone else (),
            compatibility=compatibility,
        )
    except ValueError as error:
        raise ConfigurationError(f"integrations: {error}") from None


def submitted_kinds(settings: Settings, adapters: Adapters) -> list[Kind[Any]]:
    """The kinds of jobs that the admission webhook looks at, templates aside.

    Beside Kueue none that only a gate holds: its own webhook gives it, and refuses the Pods of a StatefulSet that ours
    makes members of their group.
    """
    gated = () if settings.roles == STANDALONE else [FRAMEWORKS[name].kind for name in GATED]
    known = (each.kind for each in adapters if not each.is_external and each not in adapters.templates)
    return [kind for kind in known if kind not in gated]


def compose(context: ReconcileContext, settings: Settings, admission: SchedulerLoop) -> Runnables:
    """The runnables for the roles in the settings. A queue without a loop is closed, so that it drops its keys."""
    runnables = DEPLOYMENTS[settings.roles](context, settings, admission)
    served = {id(loop.queue) for loop in (*runnables.cluster_loops, *runnables.loops)}
    for queue in context.queues.all():
        if id(queue) not in served:
            queue.close()
    return runnables


def standalone(context: ReconcileContext, settings: Settings, admission: SchedulerLoop) -> Runnables:
    """All controllers on the manager cluster: jobs, quota and dispatch, without a Kueue."""
    store, queues, concurrency = context.store, context.queues, settings.dispatch.concurrency
    clusters = Clusters(context, settings.dispatch, settings.cluster.namespace)
    placements = PlacementWatch(context)
    statuses, finalizers, capacity = QueueStatuses(context), Finalizers(context), Capacity(context)
    return Runnables(
        watches=(
            Watch(kinds.NAMESPACES, store.namespaces),
            Watch(kinds.LIMIT_RANGES, store.limit_ranges),
            Watch(kinds.RUNTIME_CLASSES, store.runtime_classes),
            *_devices(store),
            Watch(kinds.RESOURCE_FLAVORS, store.flavors),
            Watch(kinds.COHORTS, store.cohorts),
            Watch(kinds.WORKLOAD_PRIORITY_CLASSES, store.priority_classes),
            Watch(kinds.PRIORITY_CLASSES, store.pod_priority_classes),
            *_fleet(store),
            *_queues(store),
            *_credentials(store, settings),
            Watch(kinds.WORKLOADS, store.workloads, is_listed_last=True),
            Watch(kinds.JOBS, store.jobs.of(kinds.JOBS), is_listed_last=True),
        ),
        job_kinds=JobKinds(context),
        connections=(clusters.run, placements.run),
        cluster_loops=(
            Loop("clusters", queues.clusters, _both(clusters.reconcile, Drains(context).reconcile), workers=4),
        ),
        contact=lambda: _first_contact(context, clusters, placements),
        loops=(
            Loop("ceilings", queues.ceilings, CeilingReader(context).reconcile, workers=4),
            Loop("capacity", queues.capacity, capacity.reconcile),
            Loop("jobs", queues.jobs, Jobs(context).reconcile, concurrency),
            Loop("workloads", queues.workloads, _of_workloads(context, settings), concurrency),
            Loop("flavors", queues.flavors, finalizers.reconcile_flavor),
            Loop("checks", queues.checks, _both(Checks(context).reconcile, finalizers.reconcile_check)),
            Loop(
                "cluster queues",
                queues.cluster_queues,
                _both(statuses.reconcile_cluster_queue, finalizers.reconcile_cluster_queue),
                workers=2,
            ),
            Loop("local queues", queues.local_queues, statuses.reconcile_local_queue, workers=4),
            Loop("cohorts", queues.cohorts, statuses.reconcile_cohort),
        ),
        tasks=(
            lambda: admission.run(context),
            capacity.run,
            OldVersions(context).run,
            lambda: sweep(context),
            *_fleet_tasks(context, settings),
        ),
    )


def _fleet_tasks(context: ReconcileContext, settings: Settings) -> Iterator[Task]:
    """What keeps a fleet, if the settings ask for it. It is loaded for that alone."""
    if settings.fleet.inventory is not None:
        from multikueue.controllers.fleet.membership import keep_members

        yield lambda: keep_members(context, settings.cluster.namespace)
    if settings.fleet.queues == "keep":
        from multikueue.controllers.fleet.worker_queues import keep_queues

        yield lambda: keep_queues(context)


def _of_workloads(context: ReconcileContext, settings: Settings) -> Reconcile[ObjectKey]:
    reconcile: Reconcile[ObjectKey] = Workloads(context).reconcile
    return _both(reconcile, RetentionSweep(context).reconcile) if settings.retention.is_on else reconcile


def _both(one: Reconcile[Key], other: Reconcile[Key]) -> Reconcile[Key]:
    """Two reconcilers of one object in sequence, so that their writes do not conflict."""

    async def reconcile(key: Key) -> Result:
        first, then = await one(key), await other(key)
        return Result(sooner(first.again_after, then.again_after))

    return reconcile


def beside_kueue(context: ReconcileContext, settings: Settings, _: SchedulerLoop) -> Runnables:
    """Replaces Kueue's own MultiKueue: Kueue has jobs and quota, we own the admission check."""
    store, queues, concurrency = context.store, context.queues, settings.dispatch.concurrency
    clusters = Clusters(context, settings.dispatch, settings.cluster.namespace)
    placements, capacity = PlacementWatch(context), Capacity(context)
    return Runnables(
        watches=(
            *_fleet(store),
            *_queues(store),
            *_credentials(store, settings),
            Watch(kinds.WORKLOADS, store.workloads, is_listed_last=True),
            Watch(kinds.JOBS, store.jobs.of(kinds.JOBS), is_listed_last=True),
        ),
        job_kinds=JobKinds(context, may_make_workloads=False),
        connections=(clusters.run, placements.run),
        cluster_loops=(
            Loop("clusters", queues.clusters, _both(clusters.reconcile, Drains(context).reconcile), workers=4),
        ),
        contact=lambda: _first_contact(context, clusters, placements),
        loops=(
            Loop("ceilings", queues.ceilings, CeilingReader(context).reconcile, workers=4),
            Loop("capacity", queues.capacity, capacity.reconcile),
            Loop("jobs", queues.jobs, Jobs(context, decide=mirror).reconcile, concurrency),
            Loop("workloads", queues.workloads, Workloads(context).reconcile, concurrency),
            Loop("checks", queues.checks, Checks(context).reconcile),
        ),
        tasks=(capacity.run, lambda: sweep(context), *_fleet_tasks(context, settings)),
    )


def external_dispatcher(context: ReconcileContext, settings: Settings, _: SchedulerLoop) -> Runnables:
    """The dispatcher of Kueue's own MultiKueue: only nominates workers. It connects to none, and relies on Kueue's
    status of them."""
    store, queues = context.store, context.queues
    reports, placements = Reports(context), PlacementWatch(context)
    return Runnables(
        watches=(*_fleet(store), *_queues(store), Watch(kinds.WORKLOADS, store.workloads, is_listed_last=True)),
        connections=(placements.run,),
        cluster_loops=(Loop("clusters", queues.clusters, reports.reconcile),),
        contact=lambda: _first_reports(reports, placements),
        loops=(Loop("workloads", queues.workloads, Workloads(context).reconcile, settings.dispatch.concurrency),),
    )


Compose = Callable[[ReconcileContext, Settings, SchedulerLoop], Runnables]

DEPLOYMENTS: Mapping[frozenset[Role], Compose] = {
    STANDALONE: standalone,
    BESIDE_KUEUE: beside_kueue,
    EXTERNAL_DISPATCHER: external_dispatcher,
}
"""One deployment for each set of roles that `settings` accepts."""


def _devices(store: Store) -> Iterator[Watch]:
    """What devices are counted by, if any are: else there is no watch of these, and no need for a cluster that has them."""
    if store.engine.devices.needs_templates:
        yield Watch(kinds.RESOURCE_CLAIM_TEMPLATES, store.claim_templates)
    if store.engine.devices.needs_classes:
        yield Watch(kinds.DEVICE_CLASSES, store.device_classes)


def _fleet(store: Store) -> tuple[Watch, ...]:
    """The watches that define the workers of each admission check."""
    return (
        Watch(kinds.MULTIKUEUE_CLUSTERS, store.clusters),
        Watch(kinds.MULTIKUEUE_CONFIGS, store.configs),
        Watch(kinds.ADMISSION_CHECKS, store.checks),
    )


def _queues(store: Store) -> tuple[Watch, ...]:
    return (Watch(kinds.CLUSTER_QUEUES, store.cluster_queues), Watch(kinds.LOCAL_QUEUES, store.local_queues))


def _credentials(store: Store, settings: Settings) -> tuple[Watch, ...]:
    return (Watch(kinds.SECRETS, store.secrets, settings.cluster.namespace),)


async def _first_reports(reports: Reports, placements: PlacementWatch) -> None:
    await reports.read_all()
    await placements.contact()


async def _first_contact(context: ReconcileContext, clusters: Clusters, placements: PlacementWatch) -> None:
    """Wait a moment for the workers, so that workloads do not report missing workers after each restart."""
    await placements.contact()
    store = context.store
    with anyio.move_on_after(PATIENCE):
        if await context.strategies.is_read_by_any(ROOM):
            store.rooms.need(context.settings.capacity_follow.flavors)
        if await context.strategies.is_read_by_any(KUEUE):
            store.releases.want()
    timeout = FIRST_CONTACT_TIMEOUT + CONTACT_EACH * len(store.clusters)
    with anyio.move_on_after(timeout.total_seconds()):
        for cluster in store.clusters:
            await clusters.contact(cluster.metadata.name)
