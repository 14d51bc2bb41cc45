"""A simulated Kueue for a worker cluster: real semantics in miniature, on the manager's own quota engine.

It uses only the Kubernetes API, so it works on a sandbox as well as on a real control plane without a Kueue. It keeps
no state outside the API: after a cancellation, at any time, another instance continues. Decisions about jobs are in
`job_reconciler`, about workloads in `workload.life`, deviations in `behaviour`. It has no webhooks: a job that
is not suspended at its first reconcile is stopped then.

Not simulated: preemption, fair sharing, topologies, PodsReady, LimitRanges, claims of devices, other kinds of jobs,
retention, events, finalizers on queues and flavors, the gates of elastic jobs' pods.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import singledispatchmethod
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskStatus
from msgspec.structs import replace

from multikueue.api.jobs.job import Job
from multikueue.api.kind import Kind
from multikueue.api.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    PRIORITY_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.kueue.compatibility import Compatibility
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue, QueueStatus
from multikueue.api.kueue.workload import (
    ADMITTED,
    DEACTIVATION_TARGET,
    EVICTED_ON_MANAGER,
    FINISHED,
    QUOTA_RESERVED,
    RESOURCE_IN_USE,
    Workload,
    WorkloadStatus,
)
from multikueue.api.meta import Condition, ObjectKey, find_condition, is_true, with_condition
from multikueue.controllers.reconcile.conditions import difference, status_patch
from multikueue.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from multikueue.jobs.framework.actions import (
    CreateWorkload,
    DeleteWorkload,
    PatchJob,
    PatchJobStatus,
    RemoveFinalizer,
    UpdateWorkloadSpec,
)
from multikueue.jobs.kinds.batch_job import slices
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.kube.cluster_client import WatchingClient
from multikueue.quota.workload.outcome import Verdict
from multikueue.runtime import DONE, Result, WorkQueue, run_controller
from multikueue.store.caches.cache import ByName, Cache
from multikueue.workload.case import Case, JobFacts, Queues, Scheduling
from multikueue.workload.decision_rules import DecisionRules
from multikueue.workload.life import rules
from multikueue_simulator.workers.kueue import job_reconciler
from multikueue_simulator.workers.kueue.behaviour import PROMPT, Behaviour, Scripted, held_until, scripted
from multikueue_simulator.workers.kueue.state import PLAYED, Look, Seen
from multikueue_simulator.workers.watching import reflect, retries

__all__ = ["RARE", "SimulatedKueue"]

Queue = TypeVar("Queue", ClusterQueue, LocalQueue)

FIGURES_EVERY = timedelta(seconds=1)

RARE: tuple[Kind[Any], ...] = (COHORTS, ADMISSION_CHECKS, WORKLOAD_PRIORITY_CLASSES, PRIORITY_CLASSES)
"""Kinds without objects in many clusters; each costs a list and a watch at the start."""


class SimulatedKueue:
    """The Kueue of one cluster, during `run`.

    `now` is the time for timestamps in objects, `rng` spreads retries. `figures` is the time over which changes of the
    queues' counts and usages are collected before a write; None: only conditions are written. Kinds in `without` count
    as empty and are not watched, for example `RARE`.
    """

    def __init__(
        self,
        client: WatchingClient,
        *,
        now: Callable[[], datetime],
        rng: random.Random,
        behaviour: Behaviour = PROMPT,
        figures: timedelta | None = FIGURES_EVERY,
        without: Collection[Kind[Any]] = (),
        workers: int = 4,
    ) -> None:
        self._without = tuple(without)
        self._client, self._now, self._rng, self._workers = client, now, rng, workers
        self._behaviour, self._with_figures = behaviour, figures is not None
        self._held: set[ObjectKey] = set()
        self._queue: WorkQueue[Look] = WorkQueue(retries=retries(rng))
        self._seen = Seen(self._queue, now=now, is_held_back=self._is_held_back, figures=figures)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled; started once all watched kinds are listed."""
        async with anyio.create_task_group() as tasks:
            watched = [(kind, cache) for kind, cache in self._seen.caches() if kind not in self._without]
            await reflect(tasks, self._client, watched, rng=self._rng)
            task_status.started()
            await run_controller("kueue", self._queue, self._look, workers=self._workers)

    def behave(self, behaviour: Behaviour) -> None:
        """Change the behaviour from now on."""
        self._behaviour = behaviour
        for check in self._seen.checks:
            self._queue.add(Look("check", check.key))
        for workload in self._seen.workloads:
            self._seen.consider(workload)
            self._queue.add(Look("workload", workload.key))

    def _is_held_back(self, workload: Workload) -> bool:
        if workload.has(QUOTA_RESERVED) or workload.has(FINISHED):
            return False
        until = held_until(workload, self._behaviour)
        return (until is not None and until > self._now()) or bool(self._behaviour.refusal(workload))

    async def _look(self, look: Look) -> Result:
        try:
            return await self._reconcile(look)
        except NotFound:
            return DONE  # deleted meanwhile; the watch reports it

    async def _reconcile(self, look: Look) -> Result:
        match look.what:
            case "cycle":
                return self._run_cycles()
            case "workload":
                return await self._reconcile_workload(look.key)
            case "job":
                return await self._reconcile_job(look.key)
            case "check":
                return await self._reconcile_check(look.key)
            case "cluster_queue":
                return await self._reconcile_cluster_queue(look.key)
            case "local_queue":
                return await self._reconcile_local_queue(look.key)

    def _run_cycles(self) -> Result:
        """Run scheduling cycles. They assume reservations, which the reconcile of each workload writes."""
        engine = self._seen.engine
        while (due := engine.scheduler.next_look(self._now())) is not None:
            if due > self._now():
                return Result(due - self._now())
            cycle = engine.scheduler.cycle(self._now())
            for key in (*cycle.reserved, *cycle.evicted, *cycle.pending):
                self._queue.add(Look("workload", key))
        return DONE

    # Workloads.

    async def _reconcile_workload(self, key: ObjectKey) -> Result:
        seen = self._seen.workloads.get(key)
        if seen is None:
            return DONE
        if seen.metadata.deletion_timestamp is not None and not seen.metadata.owner_references:
            await self._remove_finalizer(key)
            return DONE
        if seen.has(FINISHED):
            return DONE
        until, job = self._hold(seen), self._seen.owner(seen)
        local = replace(seen, status=self._scripted(seen).status)
        step = rules.step(self._case(local, job))
        status = _with_request_of_manager(seen.status, step.status)
        await self._write_status(seen, status)
        if is_true(status.conditions, ADMITTED) and not seen.has(ADMITTED):
            self._queue.add(Look("workload", key))  # its own write is expected, and so no news: can the job start?
        if step.should_deactivate:
            await self._update(UpdateWorkloadSpec(key, {"spec": {"active": False}}))
        next_act = self._scripted(replace(seen, status=status)).due
        return Result(_soonest(step.again_after, *(due - self._now() for due in (until, next_act) if due)))

    def _scripted(self, workload: Workload) -> Scripted:
        controllers = {check.metadata.name: check.spec.controller_name for check in self._seen.checks}
        return scripted(workload, self._behaviour, controllers, self._now())

    def _hold(self, workload: Workload) -> datetime | None:
        """Keep a workload from the scheduler as the behaviour demands. Returns the end of the wait, if known."""
        if self._is_held_back(workload):
            self._held.add(workload.key)
            return held_until(workload, self._behaviour)
        if workload.key in self._held:
            self._held.remove(workload.key)
            self._seen.consider(workload)
        return None

    def _case(self, workload: Workload, job: Job | None) -> Case:
        """What a Kueue that dispatches nothing knows of a workload."""
        engine = self._seen.engine
        local_queue, queue = self._seen.queues(workload)
        reservation = engine.scheduler.reservation(workload.key)
        admission = reservation or workload.status.admission
        name = local_queue.spec.cluster_queue if local_queue else ""
        refusal = self._behaviour.refusal(workload)
        return Case(
            now=self._now(),
            key=workload.key,
            workload=workload,
            rules=DecisionRules(compatibility=Compatibility.of(PLAYED)),
            scheduling=Scheduling(
                reservation=reservation,
                preemption=engine.scheduler.eviction(workload.key),
                verdict=Verdict(refusal) if refusal else engine.view.verdict(workload.key),
                required_checks=engine.view.required_checks(admission.cluster_queue if admission else name, admission),
            ),
            queues=Queues(
                local_queue=local_queue, cluster_queue=queue, is_cluster_queue_active=engine.view.is_active(name)
            ),
            job=JobFacts(
                finished=job_reconciler.ending(workload, job, ByName(self._seen.flavors)),
                may_run=_is_holding(workload, job, local_queue, queue),
                reclaimable=slices.freed(BATCH_JOB.reclaimable(job), job, workload) if job else None,
            ),
            successor=self._seen.successor(workload),
            takes_over=self._seen.stays(workload) if reservation is not None else None,
        )

    async def _write_status(self, seen: Workload, status: WorkloadStatus) -> None:
        shared = self._behaviour.cannot_clear
        patch = {
            name: value
            for name, value in difference(seen.status, status).items()
            if value is not None or name not in shared
        }
        if not patch:
            return
        body = status_patch(seen, patch)
        try:
            with self._seen.expecting(seen.key, status):
                self._seen.workloads.upsert(
                    await self._client.merge_patch(WORKLOADS, seen.key, body, subresource="status")
                )
        except (Forbidden, Invalid, NotFound):
            self._seen.engine.scheduler.forget(seen.key, self._now())
            raise

    # Jobs.

    async def _reconcile_job(self, key: ObjectKey) -> Result:
        job = self._seen.jobs.get(key)
        if job is None:
            actions = job_reconciler.let_go(self._seen.workloads.by("job", key))
        else:
            actions = job_reconciler.decide(self._seen.view(job))
        for action in actions:
            await self._perform(action, key)
        return DONE

    @singledispatchmethod
    async def _perform(self, action: object, job: ObjectKey) -> None:
        raise NotImplementedError(action)

    @_perform.register
    async def _create(self, action: CreateWorkload, job: ObjectKey) -> None:
        try:
            self._seen.workloads.upsert(await self._client.create(WORKLOADS, job.namespace, action.body))
        except AlreadyExists:
            raise Conflict(409, "Conflict", "a workload of that name is still there") from None

    @_perform.register
    async def _update_spec(self, action: UpdateWorkloadSpec, _job: ObjectKey) -> None:
        await self._update(action)

    async def _update(self, action: UpdateWorkloadSpec) -> None:
        self._seen.workloads.upsert(await self._client.merge_patch(WORKLOADS, action.key, action.patch))

    @_perform.register
    async def _delete(self, action: DeleteWorkload, _job: ObjectKey) -> None:
        seen = self._seen.workloads.get(action.key)
        try:
            left = await self._client.delete(WORKLOADS, action.key, uid=action.uid)
        except NotFound:
            left = None
        if left is not None:
            self._seen.workloads.upsert(left)
        elif seen is not None:
            self._seen.workloads.remove(seen)

    @_perform.register
    async def _release(self, action: RemoveFinalizer, _job: ObjectKey) -> None:
        await self._remove_finalizer(action.key)

    async def _remove_finalizer(self, key: ObjectKey) -> None:
        seen = self._seen.workloads.get(key)
        if seen is None or RESOURCE_IN_USE not in seen.metadata.finalizers:
            return
        kept = [name for name in seen.metadata.finalizers if name != RESOURCE_IN_USE]
        body = {"metadata": {"resourceVersion": seen.metadata.resource_version, "finalizers": kept}}
        try:
            answer = await self._client.merge_patch(WORKLOADS, key, body)
        except NotFound:
            return
        if answer.metadata.deletion_timestamp is not None and not kept:
            self._seen.workloads.remove(answer)
        else:
            self._seen.workloads.upsert(answer)

    @_perform.register
    async def _patch_job(self, action: PatchJob, job: ObjectKey) -> None:
        self._seen.jobs.upsert(await self._client.merge_patch(JOBS, job, action.patch))

    @_perform.register
    async def _patch_job_status(self, action: PatchJobStatus, job: ObjectKey) -> None:
        self._seen.jobs.upsert(await self._client.merge_patch(JOBS, job, action.patch, subresource="status"))

    # Queues and checks.

    async def _reconcile_cluster_queue(self, key: ObjectKey) -> Result:
        queue = self._seen.cluster_queues.get(key)
        if queue is not None:
            status = self._seen.engine.view.cluster_queue_status(key.name, self._now())
            await self._write_queue(CLUSTER_QUEUES, queue, status, self._seen.cluster_queues)
        return DONE

    async def _reconcile_local_queue(self, key: ObjectKey) -> Result:
        queue = self._seen.local_queues.get(key)
        if queue is not None:
            status = self._seen.engine.view.local_queue_status(key, self._now())
            await self._write_queue(LOCAL_QUEUES, queue, status, self._seen.local_queues)
        return DONE

    async def _write_queue(self, kind: Kind[Queue], queue: Queue, status: QueueStatus, cache: Cache[Queue]) -> None:
        if not self._with_figures:
            status = replace(queue.status, conditions=status.conditions)
        patch = difference(queue.status, status)
        if patch:
            body = status_patch(queue, patch)
            cache.upsert(await self._client.merge_patch(kind, queue.key, body, subresource="status"))

    async def _reconcile_check(self, key: ObjectKey) -> Result:
        """Activate a check whose controller the behaviour stands for."""
        check = self._seen.checks.get(key)
        if check is None or check.spec.controller_name not in self._behaviour.checks:
            return DONE
        condition = Condition(
            type=ACTIVE,
            status="True",
            reason="Active",
            message="The admission check is active",
            observed_generation=check.metadata.generation,
        )
        status = replace(check.status, conditions=with_condition(check.status.conditions, condition, self._now()))
        patch = difference(check.status, status)
        if patch:
            body = status_patch(check, patch)
            answer = await self._client.merge_patch(ADMISSION_CHECKS, key, body, subresource="status")
            self._seen.checks.upsert(answer)
        return DONE


def _with_request_of_manager(old: WorkloadStatus, new: WorkloadStatus) -> WorkloadStatus:
    """The new status, with the manager's request to deactivate the workload retained. Kueue drops such a request after
    it acted, but only its own: a server-side apply that leaves out another client's condition does not remove it."""
    request = find_condition(old.conditions, DEACTIVATION_TARGET)
    if request is None or request.reason != EVICTED_ON_MANAGER or find_condition(new.conditions, DEACTIVATION_TARGET):
        return new
    return replace(new, conditions=(*new.conditions, request))


def _is_holding(
    workload: Workload, job: Job | None, local_queue: LocalQueue | None, queue: ClusterQueue | None
) -> bool:
    """Whether an evicted workload keeps its quota. Kueue's job reconciler releases the quota once it has stopped the
    job and restored its template; without a job, nothing does.

    A reservation in a queue that was stopped before the admission is released at once.
    """
    if not workload.has(ADMITTED) and not (_runs(local_queue) and _runs(queue)):
        return False
    return job is None or job_reconciler.is_active(job) or not job_reconciler.is_stopped(job, workload)


def _runs(queue: LocalQueue | ClusterQueue | None) -> bool:
    return queue is not None and queue.spec.stop_policy == "None" and queue.metadata.deletion_timestamp is None


def _soonest(*waits: timedelta | None) -> timedelta | None:
    return min((max(timedelta(), wait) for wait in waits if wait is not None), default=None)
