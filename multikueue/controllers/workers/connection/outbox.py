"""One worker's outbox, one file with a method for each action: brings its objects to what the plan wants.

Each worker has its own queue of keys and its own tasks. When the turn of a key comes, the remaining actions follow from
the newest plan and the objects seen on the worker, so a delayed outbox never acts on old news. A worker that hangs
holds up only its own outbox.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.jobs.pod import PodGroup, is_of_stateful_set
from multikueue.api.kind import Kind
from multikueue.api.kinds import PODS, WORKLOADS
from multikueue.api.kueue.trace_context import TRACEPARENT_ANNOTATION, traceparent
from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION, EVICTED, ORIGIN_LABEL, Workload, workload_spec
from multikueue.api.meta import Object, ObjectKey, encode
from multikueue.api.values.foreign import excerpt
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.workers.connection.health import Breaker
from multikueue.controllers.workers.connection.refused_calls import WORDS, RefusedCalls, is_unsure
from multikueue.dispatch.copies.effects import (
    Action,
    CreateJob,
    CreateWorkload,
    DeleteJob,
    DeleteWorkload,
    FindJob,
    PatchJob,
    PatchStatus,
    PatchWorkload,
    effects,
)
from multikueue.dispatch.copies.plan import Plan
from multikueue.dispatch.remote import Asked, attempt_of, ends_attempt
from multikueue.errors import (
    AlreadyExists,
    ApiError,
    ClusterUnreachable,
    Conflict,
    InvalidObject,
    MultiKueueError,
    NotFound,
    Unauthorized,
)
from multikueue.jobs.framework.workloads import LONGEST_NAME
from multikueue.jobs.kinds.pods.members import members_of, missing
from multikueue.kube.cluster_client import ClusterClient
from multikueue.kube.definitions import definitions
from multikueue.runtime import AGAIN, DONE, Result
from multikueue.store.caches.cache import Cache
from multikueue.store.workers.known_objects import AWAY_MEMORY, prebuilt_key
from multikueue.store.workers.worker import WorkerView
from multikueue.telemetry import get_logger

T = TypeVar("T", bound=Object)

CARRIED_OUT = timedelta(minutes=1)
"""How long an API server gives a request by default (--request-timeout). A call that is given up resets its connection,
so nothing more arrives; but the server may still carry out what it has received by then."""

log = get_logger()


@dataclass(slots=True)
class Outbox:
    """Performs the actions for one worker through its client.

    `breaker` is asked before, and learns of each call without an answer.
    """

    context: ReconcileContext
    worker: WorkerView
    client: ClusterClient
    breaker: Breaker
    _refused: RefusedCalls = field(init=False)
    _is_traced: bool = field(init=False)
    _can_read_long_names: bool = False
    """Whether that was seen on this connection; until then it is asked where it matters."""

    def __post_init__(self) -> None:
        self._refused = RefusedCalls(self.context, self.worker)
        self._is_traced = bool(self.context.settings.settings.traces.endpoint)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Does the rest of the plan here; nothing while the worker is out of reach, or the plan is replaced."""
        plan = self.context.store.plans.get(key)
        if plan is None:
            return DONE
        if self.breaker.is_open:
            self.breaker.hold_back(key)
            return DONE
        try:
            made = await self._may_create(key, plan) and await self._carry_out(key, plan)
        except (ClusterUnreachable, Unauthorized):
            self.breaker.hold_back(key)
            self.breaker.doubt()
            raise
        overtaken = self.context.store.plans.get(key) is not plan
        return AGAIN if made and overtaken else DONE  # the decision made meanwhile did not know of the copy

    async def _carry_out(self, key: ObjectKey, plan: Plan) -> bool:
        """Performs the remaining actions. The job comes last, after a look of its own, because the actions before it
        take time. Returns whether a copy was made."""
        left = self._left(key, plan)
        first = [action for action in left if not isinstance(action, CreateJob)]
        for action in first:
            await self._perform_one(action, key)
        for action in self._left(key, plan) if first and plan.is_running_on(self.worker.name) else left:
            if isinstance(action, CreateJob) and not (self._may_run_beside(key, plan) or self._is_ending(key)):
                await self._perform_one(action, key)
        return any(isinstance(action, CreateWorkload) for action in first)

    async def _may_create(self, key: ObjectKey, plan: Plan) -> bool:
        """Whether Kueue there understands the objects of the plan. It would make a second Workload for a job whose Workload
        has a name that it does not read: both would hold quota, and an eviction would stop neither."""
        if len(key.name) <= LONGEST_NAME or self._can_read_long_names:
            return True
        if not any(isinstance(action, (CreateWorkload, CreateJob)) for action in self._left(key, plan)):
            return True
        with self.breaker:  # a call is in flight
            found = await definitions(self.client)
        self._can_read_long_names = found is not None and found.can_read_long_names
        if not self._can_read_long_names:
            self._refused.unfit(
                key, f"its name is longer than {LONGEST_NAME} characters, which takes Kueue 0.18 or newer there"
            )
        return self._can_read_long_names

    def _left(self, key: ObjectKey, plan: Plan) -> tuple[Action, ...]:
        """The remaining actions; none once another plan is in force."""
        if self.context.store.plans.get(key) is not plan:
            return ()
        return effects(plan, self.context.views.seen(key, self.worker.name), self.context.now())

    async def _perform_one(self, action: Action, key: ObjectKey) -> None:
        log.debug("remote.action", action=type(action).__name__, cluster=self.worker.name, why=action.why)
        try:
            with self.breaker:  # a call is in flight
                await _PERFORM[type(action)](self, action, key)
        except MultiKueueError as error:
            self._refused.fails(action, key, error)
            raise
        if not self.worker.expectations.is_passed_over(key):
            self._refused.succeeded(WORDS[type(action)], key)

    def _may_run_beside(self, key: ObjectKey, plan: Plan) -> bool:
        """Whether another worker has, or may have, the job by now. The next plan takes account of it (I1)."""
        return any(name not in plan.lost for name in self.context.store.may_run_beside(key, self.worker.name))

    def _is_ending(self, key: ObjectKey) -> bool:
        """Whether the attempt ends by a write under way. A job that began now might end, too, before it is removed."""
        status = self.context.store.written.get(key)
        return status is not None and ends_attempt(status)

    def _traced(self, body: dict[str, Any], key: ObjectKey) -> dict[str, Any]:
        """The body with the trace of its workload. Other workers share it, so it is another one."""
        local = self.context.store.workloads.get(key)
        if local is None:
            return body
        meta: dict[str, Any] = body["metadata"]
        annotations = meta["annotations"] | {TRACEPARENT_ANNOTATION: traceparent(local.metadata.uid)}
        return {**body, "metadata": {**meta, "annotations": annotations}}

    async def _create_workload(self, action: CreateWorkload, key: ObjectKey) -> None:
        with self.worker.expectations.creating(key):
            try:
                body = self._traced(action.body, key) if self._is_traced else action.body
                made = await self.client.create(WORKLOADS, key.namespace, body)
            except AlreadyExists:
                await self._adopt(WORKLOADS, self.worker.workloads, key)
            except ApiError as error:
                self._refused.judge(key, WORDS[CreateWorkload], error)
            else:
                self.worker.workloads.upsert(made)
                self._refused.see_whether_it_is_changed(key, action, made)

    async def _create_job(self, action: CreateJob, key: ObjectKey) -> None:
        """The irreversible step. Between request and answer the worker may hold the job: `Asked` records that."""
        local = self.context.store.workloads.get(key)
        if local is None or (found := self.context.store.local_job(local)) is None:
            return
        job = self._as_counted(found, local)
        if job is None:
            return
        before, now = self.worker.expectations.asked(key), self.context.now()
        until = now + self.context.settings.timings.call_timeout + CARRIED_OUT
        since = before.since if before is not None and before.attempt == action.attempt else None
        asked = Asked(action.attempt, until, since or now)
        self.worker.ask_for_job(key, asked)
        for part in missing(job, self.worker.job_of(key)):
            try:
                await self._create_part(part, key, local, action.attempt)
            except (ApiError, ClusterUnreachable, InvalidObject) as error:
                if isinstance(error, InvalidObject) or is_unsure(error):
                    if self.worker.expectations.asked(key) is None:
                        raise  # the watch has shown the job by now
                    self.worker.ask_for_job(key, replace(asked, why=excerpt(str(error))))
                    if since is None:
                        self.context.queues.workloads.add(key)  # it decides how long the job is requested again
                    raise
                name = self.context.store.adapters.of(part).kind.name
                await self._not_made(key, JobKey(name, *part.key), error, before)
                break
        self.worker.expectations.answered(key)
        if not self._is_told_by_its_job(key):
            self.context.queues.workloads.add(key)

    def _as_counted(self, job: AnyJob, local: Workload) -> AnyJob | None:
        """The job to send. None if it asks for what its Workload does not count: it has changed since its quota was reserved,
        and its own reconcile starts over. Beside Kueue that decides what is a difference, and sees it on the worker, too."""
        store = self.context.store
        counted = store.adapters.of(job).as_counted(store.runtimes.completed(job), local)
        if counted is None and not self.context.has_jobs:
            return job
        if counted is None:
            log.info("remote.uncounted", cluster=self.worker.name, workload=str(local.key))
        elif is_of_stateful_set(counted):
            self._refuse_surplus(counted, local)
        return counted

    def _refuse_surplus(self, group: AnyJob, local: Workload) -> None:
        """Raises InvalidObject for a Pod of a StatefulSet that asks for more than the Workload counts, which is made of the
        StatefulSet's template: a webhook has added a container, or a user who may has made the Pod."""
        for member in members_of(group):
            template = msgspec.Raw(encode({"spec": member.spec}))
            if surplus := self.context.store.engine.surplus(local, template):
                name = f"Pod {member.metadata.name}"
                raise InvalidObject(name, "spec", "no more than its Workload counts", surplus)

    async def _create_part(self, part: AnyJob, key: ObjectKey, local: Workload, attempt: str) -> None:
        """Creates the job, or one object of a job that is made of several."""
        adapter = self.context.store.adapters.of(part)
        body = adapter.remote_body(
            part,
            workload_name=key.name,
            origin=self.context.origin,
            attempt=attempt,
            queue=workload_spec(local).queue_name,
        )
        try:
            made = await self.client.create(adapter.kind, key.namespace, body)
        except AlreadyExists:
            found = await self._adopt(adapter.kind, self.worker.jobs.of(adapter.kind), part.key, of=key)
            if found is not None and key not in prebuilt_key(found):
                why = f"{adapter.kind.kind} {part.key} of another workload is still there"
                self._refused.goes_elsewhere(CreateJob, key, why)
        else:
            self.worker.jobs.upsert(made)

    async def _not_made(
        self, key: ObjectKey, job: JobKey, error: ApiError | ClusterUnreachable, before: Asked | None
    ) -> None:
        """This request created nothing; an earlier one may have."""
        if before is not None:
            if await self._find(job):
                return
            if self.context.now() < before.until:
                self.worker.ask_for_job(key, before)
                raise error
        self.worker.expectations.answered(key)
        if isinstance(error, (ClusterUnreachable, Unauthorized)):
            self._refused.pass_over(key, str(error), AWAY_MEMORY)
        self._refused.judge(key, WORDS[CreateJob], error)

    async def _find_job(self, _action: FindJob, key: ObjectKey) -> None:
        """One live read, needed only after lost answers and forgotten ends; two where the copy may have been left out:
        without it the job would look like one whose copy is gone. A worker that was asked, and has no job, may not take it."""
        local, began = self.context.store.workloads.get(key), self.context.now()
        name = self.context.store.owner(local) if local is not None else None
        if self.worker.workloads.may_have_left_out((key,)):
            await self._read(WORKLOADS, self.worker.workloads, key)
        is_there = name is not None and await self._find(name)
        self.worker.expectations.look(key, began)
        asked = self.worker.expectations.asked(key)
        self._answered(key)
        if (
            asked is not None
            and asked.why
            and not is_there
            and local is not None
            and asked.attempt == attempt_of(local)
        ):
            self._refused.pass_on(key, WORDS[CreateJob], asked.why)

    async def _find(self, job: JobKey) -> bool:
        group = self.context.store.jobs.get(job)
        if isinstance(group, PodGroup):
            return any([await self._find(JobKey(PODS.name, *member.key)) for member in group.members])
        kind = self.context.store.adapters.named(job.kind).kind
        return await self._read(kind, self.worker.jobs.of(kind), job.object)

    async def _read(self, kind: Kind[T], cache: Cache[T], key: ObjectKey) -> bool:
        """Reads an object live, and caches it if it is ours. Returns whether it is there, and ours."""
        try:
            found = await self.client.get(kind, key)
        except NotFound:
            return False
        if self._is_ours(found):
            cache.upsert(found)
        return self._is_ours(found)

    def _is_told_by_its_job(self, key: ObjectKey) -> bool:
        """Whether the answer is no news, because the job is seen by now and has requeued the workload. For a stopped
        workload the answer is news: until it comes, the workload holds quota for the job."""
        local = self.context.store.workloads.get(key)
        is_stopped = local is None or local.metadata.deletion_timestamp is not None or local.has(EVICTED)
        return not is_stopped and self.worker.job_of(key) is not None

    def _answered(self, key: ObjectKey) -> None:
        self.worker.expectations.answered(key)
        self.context.queues.workloads.add(key)

    async def _delete_workload(self, action: DeleteWorkload, key: ObjectKey) -> None:
        copy = self.worker.workloads.get(key)
        await self._delete(WORKLOADS, self.worker.workloads, key, action.uid)
        self._refused.removed_for(key, action.why, copy)

    async def _delete_job(self, action: DeleteJob, key: ObjectKey) -> None:
        job = self.context.views.seen(key, self.worker.name).job
        if job is not None and job.metadata.uid == action.uid:
            for part in members_of(job):
                kind = self.context.store.adapters.of(part).kind
                if part is not job:
                    await self._let_go(part)
                await self._delete(kind, self.worker.jobs.of(kind), part.key, part.metadata.uid)

    async def _let_go(self, member: AnyJob) -> None:
        """Releases a Pod of a group. Kueue keeps it, even deleted, until it is replaced or its Workload is finished;
        the Workload of an unwanted copy never finishes."""
        adapter = self.context.store.adapters.of(member)
        patch = adapter.release_patch(member)
        if patch is not None:
            with contextlib.suppress(NotFound):
                self.worker.jobs.upsert(await self.client.merge_patch(adapter.kind, member.key, patch))

    async def _delete(self, kind: Kind[T], cache: Cache[T], key: ObjectKey, uid: str) -> None:
        seen = cache.get(key)
        if seen is None:
            return
        try:
            left = await self.client.delete(kind, key, uid=uid)
        except NotFound:
            cache.remove(seen)
        except Conflict:
            if await self._is_there(kind, seen):
                raise
            cache.remove(seen)
        else:
            cache.remove(seen) if left is None else cache.upsert(left)

    async def _is_there(self, kind: Kind[T], seen: T) -> bool:
        """Whether the same object is there, by its UID, and not a later one of its name."""
        try:
            found = await self.client.get(kind, seen.key)
        except NotFound:
            return False
        return found.metadata.uid == seen.metadata.uid

    async def _patch_workload(self, action: PatchWorkload, key: ObjectKey) -> None:
        self.worker.workloads.upsert(await self.client.merge_patch(WORKLOADS, key, action.body))

    async def _patch_job(self, action: PatchJob, _key: ObjectKey) -> None:
        kind = self.context.store.adapters.of(action.job).kind
        self.worker.jobs.upsert(await self.client.merge_patch(kind, action.job.key, action.body))

    async def _patch_status(self, action: PatchStatus, key: ObjectKey) -> None:
        self.worker.workloads.upsert(await self.client.merge_patch(WORKLOADS, key, action.body, subresource="status"))

    async def _adopt(self, kind: Kind[T], cache: Cache[T], key: ObjectKey, *, of: ObjectKey | None = None) -> T | None:
        """The name is taken: by an object of ours whose creation was unconfirmed, or by a foreign one, left alone (I6)."""
        about, action = (of, CreateJob) if of is not None else (key, CreateWorkload)
        try:
            found = await self.client.get(kind, key)
        except NotFound:  # it went meanwhile; or a server says so each time
            why = f"the name of {kind.kind} {key} is taken, by nothing that is there"
            self._refused.goes_elsewhere(action, about, why)
            return None
        if self._is_ours(found):
            attempt = found.metadata.annotations.get(ATTEMPT_ANNOTATION, "").partition("/")[0]
            log.info("remote.adopted", cluster=self.worker.name, workload=str(about), kind=kind.kind, attempt=attempt)
            cache.upsert(found)
            return found
        not_ours = f"{kind.kind} {key} is there and not ours (no label {ORIGIN_LABEL}={self.context.origin})"
        self._refused.unfit(about, not_ours)
        return None

    def _is_ours(self, found: Object) -> bool:
        return found.metadata.labels.get(ORIGIN_LABEL) == self.context.origin


_PERFORM: dict[type[Action], Callable[[Outbox, Any, ObjectKey], Awaitable[None]]] = {
    CreateWorkload: Outbox._create_workload,
    CreateJob: Outbox._create_job,
    FindJob: Outbox._find_job,
    DeleteWorkload: Outbox._delete_workload,
    DeleteJob: Outbox._delete_job,
    PatchWorkload: Outbox._patch_workload,
    PatchJob: Outbox._patch_job,
    PatchStatus: Outbox._patch_status,
}
