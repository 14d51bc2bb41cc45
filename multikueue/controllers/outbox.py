"""One worker's outbox: brings what is on that worker to where the decision wants it (the bulkhead of design 5.6).

Each worker has a queue of keys and tasks of its own. A key is decided anew when its turn comes, so an outbox that was
held up never acts on old news; a worker that hangs holds nothing but its own outbox.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import singledispatchmethod
from typing import TypeVar

import structlog

from multikueue.api.kinds import JOBS, WORKLOADS, Kind
from multikueue.api.meta import Object, ObjectKey
from multikueue.api.workload import ATTEMPT_ANNOTATION, ORIGIN_LABEL, workload_spec
from multikueue.controllers.world import World
from multikueue.dispatch.actions import (
    Action,
    CreateJob,
    CreateWorkload,
    Deactivate,
    DeleteJob,
    DeleteWorkload,
    FindJob,
    PatchWorkload,
)
from multikueue.dispatch.decide import decide
from multikueue.dispatch.group import Reach
from multikueue.errors import (
    AlreadyExists,
    ApiError,
    ClusterUnreachable,
    Conflict,
    NotFound,
    ServerError,
    Throttled,
    Unauthorized,
)
from multikueue.jobs.table import adapter_for
from multikueue.kube.client import Client
from multikueue.runtime import DONE, Result
from multikueue.store.cache import Cache
from multikueue.store.worker import AWAY_MEMORY, CONFLICT_MEMORY, WorkerView
from multikueue.store.worker import Conflict as Taken

T = TypeVar("T", bound=Object)

AT_ONCE = Result(again_after=timedelta())
"""Decide anew."""

log = structlog.get_logger()


def _nobody() -> None:
    """Nobody to alarm."""


@dataclass(slots=True)
class Outbox:
    """Performs the actions for one worker through its client.

    After a call that nobody answered it makes no more of them, until `trust` tells that the worker gave a sign of life:
    a worker that is gone shall not cost a failed call per key. `alarm` is called once, to have it asked for one.
    """

    world: World
    worker: WorkerView
    client: Client
    alarm: Callable[[], None] = _nobody
    holds: bool = False
    _held: set[ObjectKey] = field(default_factory=set)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Perform what the decision wants on this worker now; nothing while it is out of reach."""
        if self.worker.reach is not Reach.CONNECTED:
            return DONE
        local = self.world.store.workloads.get(key)
        if key in self.world.store.workloads.unreadable:
            return DONE
        actions = decide(self.world.group(key, local), self.world.now()).on(self.worker.name)
        if self.holds:
            self._hold_back(key, actions)
            return DONE
        try:
            for number, action in enumerate(actions):
                if number and isinstance(action, CreateJob):
                    return AT_ONCE  # what came before took its time: such a step rests on what is seen right now
                log.debug("remote.action", action=type(action).__name__, cluster=self.worker.name, why=action.why)
                await self._perform(action, key)
        except (ClusterUnreachable, Unauthorized):
            if not self.holds:
                self.hold()
                self.alarm()
            raise
        made = any(isinstance(action, CreateWorkload) for action in actions)
        moved_on = self.world.store.workloads.get(key) is not local
        return AT_ONCE if made and moved_on else DONE  # who decided meanwhile did not know of the copy

    def hold(self) -> None:
        """Make no calls until `trust`."""
        self.holds = True

    def trust(self) -> None:
        """The worker answers: do what was held back."""
        self.holds = False
        for key in self._held:
            self.world.queues.outboxes[self.worker.name].add(key)
        self._held.clear()

    def _hold_back(self, key: ObjectKey, actions: tuple[Action, ...]) -> None:
        """A job that would be made here now need not wait: it surely was not asked for, so it may go elsewhere."""
        self._held.add(key)
        if key not in self.worker.asked and any(isinstance(action, CreateJob) for action in actions):
            self._pass_over(key, "it does not answer", AWAY_MEMORY)

    @singledispatchmethod
    async def _perform(self, action: Action, key: ObjectKey) -> None:
        raise NotImplementedError(action)

    @_perform.register
    async def _create_workload(self, action: CreateWorkload, key: ObjectKey) -> None:
        self.worker.creating.add(key)
        try:
            made = await self.client.create(WORKLOADS, key.namespace, action.body)
        except AlreadyExists:
            await self._adopt(WORKLOADS, self.worker.workloads, key)
        except ApiError as error:
            self._refused(key, f"the copy is refused: {error}", error)
        else:
            self.worker.workloads.upsert(made)
        finally:
            self.worker.creating.discard(key)

    @_perform.register
    async def _create_job(self, action: CreateJob, key: ObjectKey) -> None:
        """The irreversible step. From asking until an answer, the worker may hold the job: `asked` remembers that."""
        local = self.world.store.workloads.get(key)
        job = self.world.store.local_job(local) if local else None
        if local is None or job is None:
            return
        body = adapter_for(job).remote_body(
            job,
            workload_name=key.name,
            origin=self.world.origin,
            attempt=action.attempt,
            queue=workload_spec(local).queue_name,
        )
        unsure = key in self.worker.asked
        self.worker.asked[key] = action.attempt
        try:
            made = await self.client.create(JOBS, key.namespace, body)
        except AlreadyExists:
            await self._adopt(JOBS, self.worker.jobs, job.key, of=key)
        except (ApiError, ClusterUnreachable) as error:
            if _is_unsure(error):
                raise
            if unsure:  # this request came to nothing, and an earlier one may not have
                await self._find(job.key)
            self.worker.asked.pop(key, None)
            if isinstance(error, (ClusterUnreachable, Unauthorized)):
                self._pass_over(key, str(error), AWAY_MEMORY)
            self._refused(key, f"the job is refused: {error}", error)
        else:
            self.worker.jobs.upsert(made)
        self._answered(key)

    @_perform.register
    async def _find_job(self, _action: FindJob, key: ObjectKey) -> None:
        """One live read, on a path that only lost answers take."""
        local = self.world.store.workloads.get(key)
        name = self.world.store.owner(local) if local else None
        if name is not None:
            await self._find(name)
        self._answered(key)

    async def _find(self, job: ObjectKey) -> None:
        with contextlib.suppress(NotFound):
            found = await self.client.get(JOBS, job)
            if self._is_ours(found):
                self.worker.jobs.upsert(found)

    def _answered(self, key: ObjectKey) -> None:
        self.worker.asked.pop(key, None)
        self.world.queues.workloads.add(key)

    @_perform.register
    async def _delete_workload(self, action: DeleteWorkload, key: ObjectKey) -> None:
        await self._delete(WORKLOADS, self.worker.workloads, key, action.uid)

    @_perform.register
    async def _delete_job(self, action: DeleteJob, key: ObjectKey) -> None:
        job = self.worker.job_of(key)
        if job is not None and job.metadata.uid == action.uid:
            await self._delete(JOBS, self.worker.jobs, job.key, action.uid)

    async def _delete(self, kind: Kind[T], cache: Cache[T], key: ObjectKey, uid: str) -> None:
        seen = cache.get(key)
        if seen is None:
            return
        try:
            left = await self.client.delete(kind, key, uid=uid)
        except (NotFound, Conflict):  # gone already, or another object has the name now: not ours to delete
            cache.remove(seen)
        else:
            cache.remove(seen) if left is None else cache.upsert(left)

    @_perform.register
    async def _patch_workload(self, action: PatchWorkload, key: ObjectKey) -> None:
        self.worker.workloads.upsert(await self.client.merge_patch(WORKLOADS, key, action.body))

    @_perform.register
    async def _deactivate(self, action: Deactivate, key: ObjectKey) -> None:
        self.worker.workloads.upsert(await self.client.merge_patch(WORKLOADS, key, action.body, subresource="status"))

    async def _adopt(self, kind: Kind[T], cache: Cache[T], key: ObjectKey, *, of: ObjectKey | None = None) -> None:
        """The name is taken: by what we made and never heard of, or by somebody else, whose it stays (I6)."""
        try:
            found = await self.client.get(kind, key)
        except NotFound:
            self.world.queues.workloads.add(of or key)
            return
        if self._is_ours(found):
            attempt = found.metadata.annotations.get(ATTEMPT_ANNOTATION, "").partition("/")[0]
            log.info(
                "remote.adopted", cluster=self.worker.name, workload=str(of or key), kind=kind.kind, attempt=attempt
            )
            cache.upsert(found)
            return
        self._unfit(of or key, f"{kind.kind} {key} is there and not ours (no label {ORIGIN_LABEL}={self.world.origin})")

    def _is_ours(self, found: Object) -> bool:
        return found.metadata.labels.get(ORIGIN_LABEL) == self.world.origin

    def _refused(self, key: ObjectKey, text: str, error: ApiError | ClusterUnreachable) -> None:
        """What may pass is tried again; what the server will refuse again makes the worker unfit for a while."""
        if isinstance(error, (Throttled, ServerError, Unauthorized, Conflict, ClusterUnreachable)):
            raise error
        self._unfit(key, text)

    def _unfit(self, key: ObjectKey, text: str) -> None:
        self._pass_over(key, text, CONFLICT_MEMORY)
        local = self.world.store.workloads.get(key)
        if local is not None:
            message = f'Worker cluster "{self.worker.name}" cannot take the workload: {text}; choosing another one'
            self.world.recorder.emit(WORKLOADS, local, type_="Warning", reason="MultiKueue", message=message[:1024])
        log.warning("remote.unfit", cluster=self.worker.name, workload=str(key), why=text)

    def _pass_over(self, key: ObjectKey, why: str, memory: timedelta) -> None:
        """For that time the workload goes to other workers."""
        self.worker.conflicts[key] = Taken(why, self.world.now() + memory)
        self.world.queues.workloads.add(key)


def _is_unsure(error: ApiError | ClusterUnreachable) -> bool:
    """Whether what was asked for may have been done all the same."""
    return error.sent if isinstance(error, ClusterUnreachable) else isinstance(error, ServerError)
