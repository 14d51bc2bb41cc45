"""What follows from a call that a worker refuses: it is reported, made again, or the worker is passed over for a while."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from multikueue.api.kinds import WORKLOADS
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey, encode
from multikueue.api.values.canonical import terse
from multikueue.api.values.foreign import excerpt
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.dispatch.copies.effects import (
    OUT_OF_STEP,
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
from multikueue.dispatch.copies.remote import drift
from multikueue.dispatch.remote import Unfit
from multikueue.errors import (
    ApiError,
    ClusterUnreachable,
    Conflict,
    Forbidden,
    Invalid,
    MultiKueueError,
    ServerError,
    Throttled,
    Unauthorized,
)
from multikueue.jobs.framework.difference import first_difference
from multikueue.store.refusals import LASTING, Refusals
from multikueue.store.workers.known_objects import AWAY_MEMORY, CONFLICT_MEMORY
from multikueue.store.workers.worker import WorkerView
from multikueue.telemetry import get_logger
from multikueue.workload.handlers.doubts import failing

__all__ = ["WORDS", "RefusedCalls", "is_unsure"]

log = get_logger()

WORDS: Mapping[type[Action], str] = {
    CreateWorkload: "the copy is refused",
    PatchWorkload: "the copy cannot be updated",
    PatchStatus: "the status of the copy cannot be written",
    DeleteWorkload: "the copy cannot be deleted",
    CreateJob: "the job is refused",
    PatchJob: "the job cannot be updated",
    FindJob: "the job that may have been made there cannot be read",
    DeleteJob: "the job cannot be deleted",
}
"""What a call is called in events and in the check's message when it fails."""

CHANGED = "a policy or webhook there changes the copy"
CHANGED_LATER = "a controller there changes the copy"


class _AsSent(NamedTuple):
    """A copy that was made as it was sent, in the place of one that was out of step: of which version of the Workload, and
    when the first one was removed."""

    version: tuple[str, int]
    since: datetime


@dataclass(slots=True)
class RefusedCalls:
    """Owner: the worker's outbox. Writes the memory of refusals in the store, and what the worker is passed over for."""

    context: ReconcileContext
    worker: WorkerView
    _as_sent: dict[ObjectKey, _AsSent] = field(default_factory=dict)

    def succeeded(self, what: str, key: ObjectKey) -> None:
        if self._refusals.over(key, cluster=self.worker.name, what=what):
            self.context.queues.workloads.add(key)

    def fails(self, action: Action, key: ObjectKey, error: MultiKueueError) -> None:
        """The call will be made again. What lasts is reported once: by an event, and in the check's message."""
        self._fails(key, WORDS[type(action)], str(error), is_sure=isinstance(error, (Forbidden, Invalid)))

    def goes_elsewhere(self, action: type[Action], key: ObjectKey, why: str) -> None:
        """Passes the worker over for a moment: what has the name should be gone soon. It is reported if it lasts."""
        self._fails(key, WORDS[action], why, is_sure=False)
        self.pass_over(key, why, AWAY_MEMORY)

    def _fails(self, key: ObjectKey, what: str, why: str, *, is_sure: bool) -> None:
        name, words = self.worker.name, excerpt(why)
        if self._refusals.fails(key, what, words, self.context.now(), cluster=name, is_sure=is_sure):
            self._tell(key, failing(name, f"{what}: {words}"))
            self.context.queues.workloads.add(key)

    def judge(self, key: ObjectKey, what: str, error: ApiError | ClusterUnreachable) -> None:
        """Raises a transient error, for a retry, as long as it does not last. An error that will repeat makes the worker unfit
        for a while."""
        if isinstance(error, (Unauthorized, ClusterUnreachable)):
            raise error
        if not isinstance(error, (Conflict, Throttled, ServerError)):
            self.unfit(key, f"{what}: {error}")
            return
        before = self._refusals.get(key, cluster=self.worker.name)
        lasts = before is not None and self.context.now() >= before.since + LASTING
        if not lasts and not _is_of_webhook(error):
            raise error
        self.pass_on(key, what, str(error))

    def removed_for(self, key: ObjectKey, why: str, copy: Workload | None) -> None:
        """Remembers that a copy was removed because it was out of step: `see_whether_it_is_changed` asks about the next.

        If that one is out of step again, though it was made as sent and the Workload is the same, something there changes
        copies once they are made. The worker is passed over, or they would be removed and made forever.
        """
        if not why.startswith(OUT_OF_STEP):
            return
        sent, local = self._as_sent.get(key), self.context.store.workloads.get(key)
        if sent is not None and local is not None and copy is not None and sent.version == _version(local):
            self.pass_on(key, CHANGED_LATER, _difference(local, copy) or why, since=sent.since)
            return
        before = self._refusals.get(key, cluster=self.worker.name)
        if before is None or before.what != CHANGED:
            self._refusals.fails(key, CHANGED, why, self.context.now(), cluster=self.worker.name, is_sure=False)

    def see_whether_it_is_changed(self, key: ObjectKey, action: CreateWorkload, made: Workload) -> None:
        """Passes the worker over where a policy or webhook there changes the copies that are made: they would be removed and
        made again forever. Only of a copy in the place of one that was out of step this is asked."""
        before = self._refusals.get(key, cluster=self.worker.name)
        if before is None or before.what not in (CHANGED, CHANGED_LATER):
            return
        sent = replace(made, spec=msgspec.Raw(encode(action.body["spec"])))
        changed = _difference(sent, made)
        if changed:
            self.pass_on(key, CHANGED, changed)
            return
        self._note_as_sent(key, before.since)
        self.succeeded(before.what, key)

    def _note_as_sent(self, key: ObjectKey, since: datetime) -> None:
        workloads = self.context.store.workloads
        self._as_sent = {each: sent for each, sent in self._as_sent.items() if workloads.get(each) is not None}
        local, known = workloads.get(key), self._as_sent.get(key)
        if local is not None and (known is None or known.version != _version(local)):
            self._as_sent[key] = _AsSent(_version(local), since)

    def pass_on(self, key: ObjectKey, what: str, why: str, *, since: datetime | None = None) -> None:
        """Has other workers take the workload: for five seconds at first, and for longer, the longer this one does not.
        `since` when, if it is known better than from the present refusal."""
        now, name = self.context.now(), self.worker.name
        self._refusals.fails(key, what, excerpt(why), now, cluster=name, is_sure=True)
        before = self._refusals.get(key, cluster=name)
        began = since or (before.since if before is not None else now)
        self.unfit(key, f"{what}: {why}", min(max(now - began, AWAY_MEMORY), CONFLICT_MEMORY))

    def unfit(self, key: ObjectKey, text: str, memory: timedelta = CONFLICT_MEMORY) -> None:
        """Passes the worker over, and says so to the owner of the workload."""
        self.pass_over(key, text, memory)
        self._tell(key, f'Worker cluster "{self.worker.name}" cannot take the workload: {text}; choosing another one')
        log.warning("remote.unfit", cluster=self.worker.name, workload=str(key), why=excerpt(text))

    def pass_over(self, key: ObjectKey, why: str, memory: timedelta) -> None:
        """Sends the workload to other workers for the time `memory`."""
        self.worker.pass_over(key, Unfit(excerpt(why), self.context.now() + memory))
        self.context.queues.workloads.add(key)

    @property
    def _refusals(self) -> Refusals:
        return self.context.store.refusals

    def _tell(self, key: ObjectKey, message: str) -> None:
        local = self.context.store.workloads.get(key)
        if local is not None:
            self.context.recorder.emit(WORKLOADS, local, type_="Warning", reason="MultiKueue", message=message)


def _version(local: Workload) -> tuple[str, int]:
    return local.metadata.uid, local.metadata.generation


def _difference(sent: Workload, found: Workload) -> str:
    """The first field of the spec in which a copy differs from what it is a copy of; empty if there is none."""
    fields = sorted(drift(sent, found))
    if not fields:
        return ""
    theirs, ours = (terse(msgspec.json.decode(each.spec).get(fields[0])) for each in (found, sent))
    return first_difference(f"spec.{fields[0]}", theirs, ours)


def is_unsure(error: ApiError | ClusterUnreachable) -> bool:
    """Whether the server may have carried out the failed request."""
    if isinstance(error, ClusterUnreachable):
        return error.was_sent
    return isinstance(error, ServerError) and not _is_of_webhook(error)


def _is_of_webhook(error: ApiError) -> bool:
    """Whether a webhook of the server does not answer: it is asked before anything is stored, so nothing was made."""
    return "failed calling webhook" in error.message
