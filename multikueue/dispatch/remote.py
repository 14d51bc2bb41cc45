"""One workload on one worker: the copy, the job, the connectivity; and which attempt an object belongs to."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any, Protocol

import msgspec

from multikueue.api.jobs.job import AnyJob, job_status
from multikueue.api.kueue.workload import (
    ADMITTED,
    ATTEMPT_ANNOTATION,
    EVICTED,
    FAILED,
    FINISHED,
    QUOTA_RESERVED,
    SUCCEEDED,
    Workload,
    WorkloadStatus,
    is_made_of_another,
)
from multikueue.api.meta import Condition, Object, render_time
from multikueue.api.values.foreign import answer_or, bounded, moment

__all__ = [
    "NO_JOB",
    "Asked",
    "JobState",
    "Link",
    "Reach",
    "Remote",
    "Unfit",
    "attempt_of",
    "is_of_attempt",
    "is_taken_over",
    "true_types",
]

LEEWAY = timedelta(minutes=10)
"""How far the clock of a worker may be behind that of who reserves, where the age of an object says what it is."""


class Reach(Enum):
    """The connectivity of a worker.

    CONNECTED: watches run and requests are answered. SUSPECT: a recent problem, not shown to users yet. ISOLATED: a
    problem shown in its Active condition, whose time is the clock for being lost.
    """

    CONNECTED = "connected"
    SUSPECT = "suspect"
    ISOLATED = "isolated"


class Link(msgspec.Struct, frozen=True):
    """The connectivity of a worker, with its times.

    `since` is when it was last reachable (None while CONNECTED), `last_failed_probe` the time of the last failed probe
    (None: now). `is_known`: its objects have been seen since this process began; before that, absence means nothing.
    `is_silent`: it gave no answer to the last request; until it does, it wins nothing more. Before `never_lost_before`
    it is not lost, whatever `since` says: who has just begun to act gives each worker that time.
    """

    reach: Reach = Reach.CONNECTED
    since: datetime | None = None
    last_failed_probe: datetime | None = None
    is_known: bool = True
    is_silent: bool = False
    never_lost_before: datetime | None = None

    @property
    def is_connected(self) -> bool:
        return self.reach is Reach.CONNECTED

    def lost_at(self, timeout: timedelta) -> datetime | None:
        """When it is out of reach for too long, by the clock; None if it is not away."""
        if self.since is None or self.is_connected:
            return None
        by_clock = self.since + timeout
        return by_clock if self.never_lost_before is None else max(by_clock, self.never_lost_before)

    def is_lost(self, now: datetime, timeout: timedelta) -> bool:
        """Whether it is out of reach for too long: by the clock, and by a failed probe after that time.

        A process that was paused, maybe with its machine, must probe again first: without a probe a worker is not
        lost. Where `last_failed_probe` is None, the clock alone counts.
        """
        lost_at = self.lost_at(timeout)
        if lost_at is None:
            return False
        proven = now if self.last_failed_probe is None else min(now, self.last_failed_probe)
        return proven >= lost_at


class Asked(msgspec.Struct, frozen=True):
    """The attempt whose job was requested, and until when the request may still take effect if no answer comes. `since`: when
    it was first requested, None if that is unknown; `why`: what came instead of an answer."""

    attempt: str
    until: datetime
    since: datetime | None = None
    why: str = ""


class Unfit(msgspec.Struct, frozen=True):
    """Why a worker cannot take a workload, as text, and until when that is assumed."""

    text: str
    until: datetime


def _is_never(_job: AnyJob) -> bool:
    return False


def _none_known(_job: AnyJob, _workload: Workload) -> str:
    return ""


def _has_pods(job: AnyJob) -> bool:
    """Whether a batch Job's status shows pods that run or terminate."""
    status = job_status(job)
    return status.active > 0 or status.terminating > 0


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of our job on a worker, besides the object.

    `is_active`: it has pods that run or terminate. `has_ended`: it has succeeded or failed. `is_held`: it is suspended
    and has not ended. `is_incomplete`: some objects of a job of several are missing. `is_inherited`: the job still has
    the marks of the slice that this one replaces. `patch` gives the job of an elastic workload the marks and present
    size of this slice; None if it has them. `difference`: the first field in which it differs from a Workload, in words.
    """

    is_active: Callable[[AnyJob], bool] = _has_pods
    has_ended: Callable[[AnyJob], bool] = _is_never
    is_held: Callable[[AnyJob], bool] = _is_never
    difference: Callable[[AnyJob, Workload], str] = _none_known
    is_incomplete: bool = False
    is_inherited: bool = False
    patch: dict[str, Any] | None = None


CONNECTED = Link()
NO_JOB = JobState()


class _Seen(Protocol):
    @property
    def workload(self) -> Workload | None: ...


def true_types(seen: _Seen) -> frozenset[str]:
    """The types of the workload's conditions that are True; none without one. As in `Workload.has`, the first of a type
    counts."""
    true = set[str]()
    for condition in reversed(seen.workload.status.conditions) if seen.workload is not None else ():
        if condition.status == "True":
            true.add(condition.type)
        else:
            true.discard(condition.type)
    return frozenset(true)


class Remote(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The state of a workload on one worker: the worker's connectivity, the copy, and the job.

    `is_configured` is False for a worker that is not (any more) in the workload's MultiKueueConfig. `asked` is the request
    for the job whose outcome is unknown, `read_at` the time of the last live read of its job. `unfit` says why the
    worker cannot take this workload (for example a foreign object of its name), `never` why the worker can never admit
    its copy; empty if it can, or if that is unknown. `failing` has the words of a call about the workload that fails there
    again and again.
    """

    cluster: str
    is_configured: bool = True
    link: Link = CONNECTED
    workload: Workload | None = None
    job: AnyJob | None = None
    job_state: JobState = NO_JOB
    asked: Asked | None = None
    read_at: datetime | None = None
    unfit: Unfit | None = None
    never: str = ""
    failing: str = ""

    true = cached_property(true_types)
    """The types of the copy's conditions that are True."""

    @cached_property
    def own_uids(self) -> frozenset[str]:
        """The UIDs of its copy and its job. What the worker's Kueue makes of a copy has all its labels, ours too, and is the
        worker's."""
        copy, job = self.workload, self.job
        own = () if copy is None or is_made_of_another(copy) else (copy.metadata.uid,)
        return frozenset(own if job is None else (*own, job.metadata.uid))

    @cached_property
    def is_reachable(self) -> bool:
        return self.link.reach is Reach.CONNECTED

    def is_lost(self, now: datetime, timeout: timedelta) -> bool:
        return self.link.since is not None and self.link.is_lost(now, timeout)

    def is_asked_for(self, attempt: str) -> bool:
        """Whether the job of that attempt was requested, with unknown outcome."""
        return self.asked is not None and self.asked.attempt == attempt

    def condition(self, type_: str) -> Condition | None:
        """The copy's condition, sanitized. All readers of a worker's conditions use this."""
        return bounded(self.workload.condition(type_)) if self.workload else None

    @property
    def has_taken(self) -> bool:
        """Whether the worker admitted the copy, and has not evicted it since."""
        return ADMITTED in self.true and (EVICTED not in self.true or FINISHED in self.true)

    @property
    def is_held(self) -> bool:
        job = self.job
        return job is not None and answer_or(lambda: self.job_state.is_held(job), otherwise=False)

    @property
    def has_result(self) -> bool:
        """Whether the copy has finished with the result of its job, and not for a reason of Kueue's own."""
        finished = self.condition(FINISHED) if FINISHED in self.true else None
        return finished is not None and finished.reason in (SUCCEEDED, FAILED)

    @property
    def has_job_ended(self) -> bool:
        """Whether the job has succeeded or failed; False if its status is malformed."""
        job = self.job
        return job is not None and answer_or(lambda: self.job_state.has_ended(job), otherwise=False)

    @property
    def has_ended(self) -> bool:
        """Whether the copy or the job has finished: Kueue there sees the end of a job later than its status says it."""
        return FINISHED in self.true or self.has_job_ended

    @property
    def may_be_running(self) -> bool:
        """Whether its job has, or may soon have, running pods; also true if its status is malformed."""
        job = self.job
        if job is None:
            return False
        if self.job_state.is_inherited or answer_or(lambda: self.job_state.is_active(job), otherwise=True):
            return True
        return ADMITTED in self.true and EVICTED not in self.true and FINISHED not in self.true


_mark = lru_cache(maxsize=1024)(render_time)


def attempt_of(local: Workload) -> str:
    """The mark of the present reservation, empty without one: its time, and the workload's UID.

    The time alone would do for one workload, whose reservations are a second apart
    (`workload.life.transitions.reserve`), but a workload that is deleted and created again under its name may be
    reserved within the same second.
    """
    # As `Workload.condition`, on the spot: it is asked for in each decision and event.
    for condition in local.status.conditions:
        if condition.type == QUOTA_RESERVED:
            if condition.status != "True" or condition.last_transition_time is None:
                return ""
            return f"{_mark(condition.last_transition_time)}/{local.metadata.uid}"
    return ""


def ends_attempt(status: WorkloadStatus) -> bool:
    """Whether a status gives back the reservation that a workload has, or is about to."""
    holds = {each.type: each.status == "True" for each in status.conditions}
    return status.has_failed_checks or not holds.get(QUOTA_RESERVED) or holds.get(EVICTED, False)


def is_won_elsewhere(status: WorkloadStatus, worker: str) -> bool:
    """Whether by that status nothing is wanted any more on the worker, since another one has won the attempt."""
    winner = status.cluster_name
    return bool(winner and winner != worker) and not ends_attempt(status)


def is_of_attempt(item: Object | None, local: Workload, attempt: str) -> bool:
    """Whether a remote object belongs to that attempt of a workload.

    An object without a mark is from a manager that sets none: it counts if it is not older than the reservation.
    """
    if item is None or not attempt or item.metadata.deletion_timestamp is not None:
        return False
    mark = item.metadata.annotations.get(ATTEMPT_ANNOTATION)
    if mark is not None:
        return mark == attempt
    created, since = moment(item.metadata.creation_timestamp), _reserved_at(local)
    return created is not None and since is not None and created >= since


def _reserved_at(local: Workload) -> datetime | None:
    reserved = local.condition(QUOTA_RESERVED)
    return reserved.last_transition_time if reserved is not None else None


def is_taken_over(item: Object | None, local: Workload, attempt: str, remote: Remote) -> bool:
    """Whether an object without a mark belongs to that attempt though by its worker's clock it is older.

    Kueue's own MultiKueue has one attempt at a time. What is on the recorded winner is of it, whatever the clocks say.
    Elsewhere a job is, and the copy beside it, unless it is older by more than `LEEWAY`. A copy without a job gets no
    leeway: it is removed and made again at no cost.
    """
    if item is None or not attempt or not _is_unmarked(item):
        return False
    if local.status.cluster_name == remote.cluster and _is_won(local):
        return True
    since = _reserved_at(local)
    if remote.job is None or since is None or not _is_unmarked(remote.job):
        return False
    created = moment(remote.job.metadata.creation_timestamp)
    return created is not None and created >= since - LEEWAY


def _is_unmarked(item: Object) -> bool:
    return item.metadata.deletion_timestamp is None and ATTEMPT_ANNOTATION not in item.metadata.annotations


def _is_won(local: Workload) -> bool:
    """Whether its checks are Ready, or were: the recorded cluster is that of the winner, not of a pinned slice."""
    checks = local.status.admission_checks
    return local.has(ADMITTED) or (bool(checks) and all(check.state == "Ready" for check in checks))
