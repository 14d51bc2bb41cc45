"""One worker's outbox, one file with a method for each action: brings its objects to what the plan wants.

Each worker has its own queue of keys and its own tasks. When the turn of a key comes, the remaining actions follow from
the newest plan and the objects seen on the worker, so a delayed outbox never acts on old news. A worker that hangs
holds up only its own outbox.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import singledispatchmethod
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.jobs.pod import PodGroup, is_of_stateful_set
from multikueue.api.kind import Kind
from multikueue.api.kinds import PODS, WORKLOADS
from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION, EVICTED, ORIGIN_LABEL, Workload, workload_spec
from multikueue.api.meta import Object, ObjectKey, encode
from multikueue.api.values.canonical import terse
from multikueue.api.values.foreign import excerpt
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.dispatch.copies.actions import (
    Action,
    CreateJob,
    CreateWorkload,
    DeleteJob,
    DeleteWorkload,
    FindJob,
    PatchJob,
    PatchStatus,
    PatchWorkload,
)
from multikueue.dispatch.copies.effects import OUT_OF_STEP, effects
from multikueue.dispatch.copies.plan import Plan
from multikueue.dispatch.copies.remote import drift
from multikueue.dispatch.remote import Asked, Unfit, attempt_of
from multikueue.errors import (
    AlreadyExists,
    ApiError,
    ClusterUnreachable,
    Conflict,
    Forbidden,
    Invalid,
    InvalidObject,
    MultiKueueError,
    NotFound,
    ServerError,
    Throttled,
    Unauthorized,
)
from multikueue.jobs.framework.difference import first_difference
from multikueue.jobs.framework.workloads import LONGEST_NAME
from multikueue.jobs.kinds.pods.members import members_of, missing
from multikueue.kube.cluster_client import ClusterClient
from multikueue.kube.definitions import definitions
from multikueue.runtime import AGAIN, DONE, Result
from multikueue.store.caches.cache import Cache
from multikueue.store.refusals import LASTING, Refusals
from multikueue.store.workers.expectations import AWAY_MEMORY, CONFLICT_MEMORY
from multikueue.store.workers.worker import WorkerView, prebuilt_key
from multikueue.telemetry import get_logger
from multikueue.workload.handlers.doubts import failing

T = TypeVar("T", bound=Object)

SILENCE = timedelta(seconds=1)
"""How long calls may be in flight, none of them answered, before the worker is silent. Most take milliseconds."""

CARRIED_OUT = timedelta(minutes=1)
"""How long an API server gives a request by default (--request-timeout). A call that is given up resets its connection,
so nothing more arrives; but the server may still carry out what it has received by then."""

log = get_logger()


_WORDS: Mapping[type[Action], str] = {
    CreateWorkload: "the copy is refused",
    PatchWorkload: "the copy cannot be updated",
    PatchStatus: "the status of the copy cannot be written",
    DeleteWorkload: "the copy cannot be deleted",
    CreateJob: "the job is refused",
    PatchJob: "the job cannot be updated",
    FindJob: "the job that may have been made there cannot be read",
    DeleteJob: "the job cannot be deleted",
}


CHANGED = "a policy or webhook there changes the copy"


def _nobody() -> None:
    """No alarm."""


@dataclass(slots=True)
class Outbox:
    """Performs the actions for one worker through its client.

    After a call without an answer in time it makes no more calls until `trust` reports a heartbeat: one failed call is
    enough to learn that a worker is gone. `alarm` is called once, to request that heartbeat. Meanwhile the worker wins
    nothing, so a job that it was not asked for yet need not wait for it.
    """

    context: ReconcileContext
    worker: WorkerView
    client: ClusterClient
    alarm: Callable[[], None] = _nobody
    _held: set[ObjectKey] = field(default_factory=set)
    _under_way: int = 0
    _silence_timer: asyncio.TimerHandle | None = None
    _can_read_long_names: bool = False
    """Whether that was seen on this connection; until then it is asked where it matters."""

    async def reconcile(self, key: ObjectKey) -> Result:
        """Does the rest of the plan here; nothing while the worker is out of reach, or the plan is replaced."""
        if not self.worker.link.is_connected:
            return DONE
        plan = self.context.store.plans.get(key)
        if plan is None:
            return DONE
        if self.worker.link.is_silent:
            self._held.add(key)
            return DONE
        try:
            made = await self._may_create(key, plan) and await self._carry_out(key, plan)
        except (ClusterUnreachable, Unauthorized):
            self._held.add(key)  # the next heartbeat requeues it, whatever its back-off
            self._doubt()
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
            if isinstance(action, CreateJob) and not self._may_run_beside(key, plan):
                await self._perform_one(action, key)
        return any(isinstance(action, CreateWorkload) for action in first)

    async def _may_create(self, key: ObjectKey, plan: Plan) -> bool:
        """Whether Kueue there understands the objects of the plan. It would make a second Workload for a job whose Workload
        has a name that it does not read: both would hold quota, and an eviction would stop neither."""
        if len(key.name) <= LONGEST_NAME or self._can_read_long_names:
            return True
        if not any(isinstance(action, (CreateWorkload, CreateJob)) for action in self._left(key, plan)):
            return True
        with self._waiting():
            found = await definitions(self.client)
        self._can_read_long_names = found is not None and found.can_read_long_names
        if not self._can_read_long_names:
            self._unfit(
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
            with self._waiting():
                await self._perform(action, key)
        except MultiKueueError as error:
            self._fails(action, key, error)
            raise
        if not self.worker.expectations.is_passed_over(key):
            self._succeeded(_WORDS[type(action)], key)

    def _succeeded(self, what: str, key: ObjectKey) -> None:
        if self._refusals.over(key, cluster=self.worker.name, what=what):
            self.context.queues.workloads.add(key)

    def _fails(self, action: Action, key: ObjectKey, error: MultiKueueError) -> None:
        """The call will be made again. What lasts is told once: by an event, and in the check's message."""
        what, why, name = _WORDS[type(action)], excerpt(str(error)), self.worker.name
        is_sure = isinstance(error, (Forbidden, Invalid))
        if self._refusals.fails(key, what, why, self.context.now(), cluster=name, is_sure=is_sure):
            self._tell(key, failing(name, f"{what}: {why}"))
            self.context.queues.workloads.add(key)

    @property
    def _refusals(self) -> Refusals:
        return self.context.store.refusals

    def _tell(self, key: ObjectKey, message: str) -> None:
        local = self.context.store.workloads.get(key)
        if local is not None:
            self.context.recorder.emit(WORKLOADS, local, type_="Warning", reason="MultiKueue", message=message)

    def _may_run_beside(self, key: ObjectKey, plan: Plan) -> bool:
        """Whether another worker has, or may have, the job by now. The next plan takes account of it (I1)."""
        return any(name not in plan.lost for name in self.context.store.may_run_beside(key, self.worker.name))

    def hold(self) -> None:
        """Makes no calls until `trust`."""
        self.worker.fell_silent()

    def trust(self) -> None:
        """The worker answers: requeues the keys that were held back."""
        self.worker.answered()
        for key in self._held:
            self.context.queues.outboxes[self.worker.name].add(key)
        self._held.clear()

    def _doubt(self) -> None:
        if not self.worker.link.is_silent:
            self.hold()
            self.alarm()

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Counts one more call in flight. If the worker is silent, other keys need not wait until the call times out."""
        self._under_way += 1
        if self._silence_timer is None:
            self._restart_silence_timer()
        try:
            yield
        finally:
            self._under_way -= 1
            self._restart_silence_timer()

    def _restart_silence_timer(self) -> None:
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        loop = asyncio.get_running_loop()
        self._silence_timer = loop.call_later(SILENCE.total_seconds(), self._on_silence) if self._under_way else None

    def _on_silence(self) -> None:
        self._silence_timer = None
        self._doubt()

    @singledispatchmethod
    async def _perform(self, action: Action, key: ObjectKey) -> None:
        raise NotImplementedError(action)

    @_perform.register
    async def _create_workload(self, action: CreateWorkload, key: ObjectKey) -> None:
        with self.worker.expectations.creating(key):
            try:
                made = await self.client.create(WORKLOADS, key.namespace, action.body)
            except AlreadyExists:
                await self._adopt(WORKLOADS, self.worker.workloads, key)
            except ApiError as error:
                self._refused(key, _WORDS[CreateWorkload], error)
            else:
                self.worker.workloads.upsert(made)
                self._see_whether_it_is_changed(key, action, made)

    def _see_whether_it_is_changed(self, key: ObjectKey, action: CreateWorkload, made: Workload) -> None:
        """Passes the worker over where a policy or webhook there changes the copies that are made: they would be removed and
        made again for ever. Only of a copy in the place of one that was out of step this is asked."""
        before = self._refusals.get(key, cluster=self.worker.name)
        if before is None or before.what != CHANGED:
            return
        sent = replace(made, spec=msgspec.Raw(encode(action.body["spec"])))
        fields = sorted(drift(sent, made))
        if not fields:
            self._succeeded(CHANGED, key)
            return
        ours, theirs = (terse(msgspec.json.decode(each.spec).get(fields[0])) for each in (made, sent))
        self._pass_on(key, CHANGED, first_difference(f"spec.{fields[0]}", ours, theirs))

    @_perform.register
    async def _create_job(self, action: CreateJob, key: ObjectKey) -> None:
        """The irreversible step. Between request and answer the worker may hold the job: `Asked` records that."""
        local = self.context.store.workloads.get(key)
        job = self.context.store.local_job(local) if local else None
        job = self._as_counted(job, local) if local is not None and job is not None else None
        if local is None or job is None:
            return
        before, now = self.worker.expectations.asked(key), self.context.now()
        until = now + self.context.settings.dispatch.call_timeout + CARRIED_OUT
        is_first = before is None or before.attempt != action.attempt or before.since is None
        asked = Asked(action.attempt, until, now if is_first or before is None else before.since)
        self.worker.ask_for_job(key, asked)
        for part in missing(job, self.worker.job_of(key)):
            try:
                await self._create_part(part, key, local, action.attempt)
            except (ApiError, ClusterUnreachable) as error:
                if _is_unsure(error):
                    if self.worker.expectations.asked(key) is None:
                        raise  # the watch has shown the job by now
                    self.worker.ask_for_job(key, replace(asked, why=excerpt(str(error))))
                    if is_first:
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
        StatefulSet's template: a webhook has added a container, or somebody has made the Pod who may."""
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
                self._pass_over(key, f"{adapter.kind.kind} {part.key} of another workload is still there", AWAY_MEMORY)
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
            self._pass_over(key, str(error), AWAY_MEMORY)
        self._refused(key, _WORDS[CreateJob], error)

    @_perform.register
    async def _find_job(self, _action: FindJob, key: ObjectKey) -> None:
        """One live read, needed only after lost answers and forgotten ends; two where the copy may have been left out:
        without it the job would look like one whose copy is gone. A worker that was asked, and has no job, may not take it."""
        local, began = self.context.store.workloads.get(key), self.context.now()
        name = self.context.store.owner(local) if local else None
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
            self._pass_on(key, _WORDS[CreateJob], asked.why)

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

    @_perform.register
    async def _delete_workload(self, action: DeleteWorkload, key: ObjectKey) -> None:
        await self._delete(WORKLOADS, self.worker.workloads, key, action.uid)
        if action.why.startswith(OUT_OF_STEP):
            name, before = self.worker.name, self._refusals.get(key, cluster=self.worker.name)
            if before is None or before.what != CHANGED:
                self._refusals.fails(key, CHANGED, action.why, self.context.now(), cluster=name, is_sure=False)

    @_perform.register
    async def _delete_job(self, action: DeleteJob, key: ObjectKey) -> None:
        # The job of an elastic workload may still be marked with the slice before it.
        job = self.worker.job_of(key) or self.context.views.seen(key, self.worker.name).job
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

    @_perform.register
    async def _patch_workload(self, action: PatchWorkload, key: ObjectKey) -> None:
        self.worker.workloads.upsert(await self.client.merge_patch(WORKLOADS, key, action.body))

    @_perform.register
    async def _patch_job(self, action: PatchJob, _key: ObjectKey) -> None:
        kind = self.context.store.adapters.of(action.job).kind
        self.worker.jobs.upsert(await self.client.merge_patch(kind, action.job.key, action.body))

    @_perform.register
    async def _patch_status(self, action: PatchStatus, key: ObjectKey) -> None:
        self.worker.workloads.upsert(await self.client.merge_patch(WORKLOADS, key, action.body, subresource="status"))

    async def _adopt(self, kind: Kind[T], cache: Cache[T], key: ObjectKey, *, of: ObjectKey | None = None) -> T | None:
        """The name is taken: by an object of ours whose creation was unconfirmed, or by a foreign one, left alone (I6)."""
        try:
            found = await self.client.get(kind, key)
        except NotFound:
            self.context.queues.workloads.add(of or key)
            return None
        if self._is_ours(found):
            attempt = found.metadata.annotations.get(ATTEMPT_ANNOTATION, "").partition("/")[0]
            log.info(
                "remote.adopted", cluster=self.worker.name, workload=str(of or key), kind=kind.kind, attempt=attempt
            )
            cache.upsert(found)
            return found
        self._unfit(
            of or key, f"{kind.kind} {key} is there and not ours (no label {ORIGIN_LABEL}={self.context.origin})"
        )
        return None

    def _is_ours(self, found: Object) -> bool:
        return found.metadata.labels.get(ORIGIN_LABEL) == self.context.origin

    def _refused(self, key: ObjectKey, what: str, error: ApiError | ClusterUnreachable) -> None:
        """Raises a transient error, for a retry, as long as it does not last. An error that will repeat makes the worker unfit
        for a while."""
        if isinstance(error, (Unauthorized, Conflict, ClusterUnreachable)):
            raise error
        if not isinstance(error, (Throttled, ServerError)):
            self._unfit(key, f"{what}: {error}")
            return
        before = self._refusals.get(key, cluster=self.worker.name)
        lasts = before is not None and self.context.now() >= before.since + LASTING
        if not lasts and not _is_of_webhook(error):
            raise error
        self._pass_on(key, what, str(error))

    def _pass_on(self, key: ObjectKey, what: str, why: str) -> None:
        """Has other workers take the workload: for five seconds at first, and for longer, the longer this one does not."""
        now, name = self.context.now(), self.worker.name
        self._refusals.fails(key, what, excerpt(why), now, cluster=name, is_sure=True)
        before = self._refusals.get(key, cluster=name)
        lasted = now - before.since if before is not None else AWAY_MEMORY
        self._unfit(key, f"{what}: {why}", min(max(lasted, AWAY_MEMORY), CONFLICT_MEMORY))

    def _unfit(self, key: ObjectKey, text: str, memory: timedelta = CONFLICT_MEMORY) -> None:
        self._pass_over(key, text, memory)
        self._tell(key, f'Worker cluster "{self.worker.name}" cannot take the workload: {text}; choosing another one')
        log.warning("remote.unfit", cluster=self.worker.name, workload=str(key), why=excerpt(text))

    def _pass_over(self, key: ObjectKey, why: str, memory: timedelta) -> None:
        """Sends the workload to other workers for the time `memory`."""
        self.worker.pass_over(key, Unfit(excerpt(why), self.context.now() + memory))
        self.context.queues.workloads.add(key)


def _is_unsure(error: ApiError | ClusterUnreachable) -> bool:
    """Whether the server may have carried out the failed request."""
    if isinstance(error, ClusterUnreachable):
        return error.was_sent
    return isinstance(error, ServerError) and not _is_of_webhook(error)


def _is_of_webhook(error: ApiError | ClusterUnreachable) -> bool:
    """Whether a webhook of the server does not answer: it is asked before anything is stored, so nothing was made."""
    return isinstance(error, ServerError) and "failed calling webhook" in error.message
