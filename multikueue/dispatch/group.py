"""One workload as seen now: the local object and, for each worker, the copy, the job and how the worker can be reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Any

from multikueue import strategy as contract
from multikueue.api.foreign import asked, excerpt, heard, moment
from multikueue.api.job import AnyJob, job_status
from multikueue.api.meta import Condition, Object, ObjectKey, render_time
from multikueue.api.multikueue import CONTROLLER_NAME
from multikueue.api.workload import (
    ADMITTED,
    ATTEMPT_ANNOTATION,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    AdmissionCheckState,
    Workload,
)
from multikueue.dispatch.consult import Answer
from multikueue.dispatch.slices import NO_SLICE, Slice

__all__ = [
    "CONTROLLER_NAME",
    "MAX_NOMINATED",
    "NO_FLEET",
    "NO_JOB",
    "Asked",
    "Fleet",
    "Group",
    "JobState",
    "Link",
    "Reach",
    "Remote",
    "Unfit",
    "attempt_of",
    "is_of_attempt",
]

MAX_NOMINATED = 20
"""What status.nominatedClusterNames may hold. A longer nomination is kept in full by asking the strategy again."""


class Reach(Enum):
    """How a worker can be reached.

    CONNECTED: watches run and calls are answered. SUSPECT: trouble since a moment, nothing is shown yet.
    ISOLATED: trouble that is shown in its Active condition, whose time is the clock for being lost.
    """

    CONNECTED = "connected"
    SUSPECT = "suspect"
    ISOLATED = "isolated"


@dataclass(frozen=True, slots=True)
class Link:
    """How a worker can be reached.

    `since` is when it was last reachable (None while CONNECTED), `last_failed_probe` when it was last asked in vain for a
    sign of life (None: now). `known` tells whether its objects have been seen since this process began: before that,
    absence means nothing. While it is `silent`, having given no answer just now, it wins nothing more.
    """

    reach: Reach = Reach.CONNECTED
    since: datetime | None = None
    last_failed_probe: datetime | None = None
    known: bool = True
    silent: bool = False

    @property
    def is_connected(self) -> bool:
        return self.reach is Reach.CONNECTED

    def is_lost(self, now: datetime, timeout: timedelta) -> bool:
        """Whether it is away for too long: not by the clock alone, but asked in vain after that time.

        A process that was stopped for a while, with the machine it runs on perhaps, has to ask again first: a worker that
        nobody asks is not lost. Where `last_failed_probe` is None, the clock counts.
        """
        if self.since is None or self.is_connected:
            return False
        proven = now if self.last_failed_probe is None else min(now, self.last_failed_probe)
        return proven >= self.since + timeout


@dataclass(frozen=True, slots=True)
class Asked:
    """The attempt whose job was asked for, and until when that may be carried out, should no answer come."""

    attempt: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a worker cannot take a workload, in words, and until when we take that to be so."""

    text: str
    until: datetime


def _never(_job: AnyJob) -> bool:
    return False


def _has_pods(job: AnyJob) -> bool:
    """Whether a batch Job's status tells of pods that run or still terminate."""
    status = job_status(job)
    return status.active > 0 or status.terminating > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What there is to know of our job on a worker beside the object.

    `is_active` tells whether pods of it run or still terminate, `is_held` whether it is suspended and shows no end. A job of
    several objects is `incomplete` while some are missing. An `inherited` job is still marked as that of the slice which this
    one replaces. `patch` is what the job of an elastic one lacks to be that of this slice, in its present size; None if
    nothing.
    """

    is_active: Callable[[AnyJob], bool] = _has_pods
    is_held: Callable[[AnyJob], bool] = _never
    incomplete: bool = False
    inherited: bool = False
    patch: dict[str, Any] | None = None


CONNECTED = Link()
NO_JOB = JobState()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """One worker's side of a workload: how the worker can be reached, the copy, and the job.

    `configured` is False for a worker that is not (any more) in the workload's MultiKueueConfig. `asked` is the request for
    the job whose outcome we have not learned, `read_at` when its job was last asked about, and an answer came. `unfit` says
    why the worker cannot take this workload (a foreign object holds the name there, say), `never` what it lacks to ever hold
    the copy that is there; empty if it may, or nobody knows.
    """

    cluster: str
    configured: bool = True
    link: Link = CONNECTED
    workload: Workload | None = None
    job: AnyJob | None = None
    job_state: JobState = NO_JOB
    asked: Asked | None = None
    read_at: datetime | None = None
    unfit: Unfit | None = None
    never: str = ""

    @property
    def reachable(self) -> bool:
        return self.link.is_connected

    def lost(self, now: datetime, timeout: timedelta) -> bool:
        return self.link.is_lost(now, timeout)

    def is_asked_for(self, attempt: str) -> bool:
        """Whether the job of that attempt was asked for, and nobody knows what became of it."""
        return self.asked is not None and self.asked.attempt == attempt

    def condition(self, type_: str) -> Condition | None:
        """As the worker tells it: whoever looks at what it says asks here."""
        return heard(self.workload.condition(type_)) if self.workload else None

    def has(self, type_: str) -> bool:
        return self.workload is not None and self.workload.has(type_)

    @property
    def admitted(self) -> bool:
        return self.has(ADMITTED) and (not self.has(EVICTED) or self.has(FINISHED))

    @property
    def held(self) -> bool:
        job = self.job
        return job is not None and asked(lambda: self.job_state.is_held(job), otherwise=False)

    @property
    def running(self) -> bool:
        """Whether its job has, or may soon have, running pods. One that says so in no words of its kind may have."""
        job = self.job
        if job is None:
            return False
        if self.job_state.inherited or asked(lambda: self.job_state.is_active(job), otherwise=True):
            return True
        return self.has(ADMITTED) and not self.has(EVICTED) and not self.has(FINISHED)


_mark = lru_cache(maxsize=1024)(render_time)


def attempt_of(local: Workload) -> str:
    """The mark of the present reservation, empty without one: the time it was made, and for whom.

    The time alone would do for one workload, whose reservations are a second apart (`quota.workload.transitions.reserve`), but
    one that is deleted and made anew under its name may be reserved within the same second.
    """
    reserved = local.condition(QUOTA_RESERVED)
    if reserved is None or reserved.status != "True" or reserved.last_transition_time is None:
        return ""
    return f"{_mark(reserved.last_transition_time)}/{local.metadata.uid}"


def is_of_attempt(item: Object | None, local: Workload, attempt: str) -> bool:
    """Whether a remote object belongs to that attempt of a workload.

    One without a mark was made by a manager that knows none: it counts if it is not older than the reservation.
    """
    if item is None or not attempt or item.metadata.deletion_timestamp is not None:
        return False
    mark = item.metadata.annotations.get(ATTEMPT_ANNOTATION)
    if mark is not None:
        return mark == attempt
    reserved = local.condition(QUOTA_RESERVED)
    created, since = moment(item.metadata.creation_timestamp), reserved.last_transition_time if reserved else None
    return created is not None and since is not None and created >= since


def _check_state(local: Workload, name: str) -> AdmissionCheckState | None:
    return next((c for c in local.status.admission_checks if c.name == name), None)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The workers of a MultiKueueConfig, in its order, as they are for everybody: one value for all its workloads."""

    workers: tuple[contract.Worker, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    """Of those that have no such jobs, or not in that namespace, what they lack."""
    usable: tuple[str, ...] = field(init=False, compare=False)
    """Their names."""
    order: Mapping[str, int] = field(init=False, compare=False)
    """The place of each."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "usable", tuple(worker.name for worker in self.workers if worker.usable))
        object.__setattr__(self, "order", {worker.name: number for number, worker in enumerate(self.workers)})

    def place(self, name: str) -> int:
        """Those that it does not name come after all others."""
        return self.order.get(name, len(self.order))

    def but_for(self, taken: Mapping[str, str]) -> Fleet:
        """As it is for a workload that some of them cannot take, each for the reason given."""
        if not taken:
            return self
        workers = (replace(w, usable=False, why=taken[w.name]) if w.name in taken else w for w in self.workers)
        return Fleet(tuple(workers), self.missing)


NO_FLEET = Fleet()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Everything one decision looks at.

    `remotes` are the workers that it concerns: nominated, recorded, where an attempt ended, and those that hold something of
    ours; in the order of the MultiKueueConfig, then those outside it. `fleet` is that whole configuration as it is for
    everybody; what keeps one worker from taking this workload is in its remote.
    `hidden`: the local workload is there, and cannot be read, so nothing can be said of it.
    `problem` is why the workload cannot be dispatched at all (no adapter, not managed by us), in Kueue's words.
    `job_may_be_copied` is False while the local job has not been seen, or not been stopped wholly after an earlier attempt.
    `job_finished` tells that the local job's status is final. `choice` is the worker chosen among those that admitted
    in this attempt: news of an earlier admission may come late, and must not turn the choice around. `answer` is the
    strategy's last one in this attempt, None while there is none. `slice` tells how it is joined to others of its job.
    `patience` is how long it may keep quota without a worker; None: for ever. `copy_retention` is how long the copy of a
    finished workload stays where it ran.
    """

    key: ObjectKey
    local: Workload | None
    hidden: bool = False
    check: str = ""
    remotes: tuple[Remote, ...] = ()
    fleet: Fleet = NO_FLEET
    problem: str = ""
    job_may_be_copied: bool = True
    job_finished: bool = False
    choice: str = ""
    answer: Answer | None = None
    slice: Slice = NO_SLICE
    origin: str = "multikueue"
    lost_after: timedelta = timedelta(minutes=15)
    patience: timedelta | None = None
    copy_retention: timedelta = timedelta()
    check_state: AdmissionCheckState | None = field(init=False, default=None)
    """Our entry in the local status.admissionChecks."""
    attempt: str = field(init=False, default="")
    """The mark of the present reservation, empty without one: see `attempt_of`."""

    def __post_init__(self) -> None:
        if self.local is not None:  # asked for many times in each decision, so found out once
            object.__setattr__(self, "check_state", _check_state(self.local, self.check))
            object.__setattr__(self, "attempt", attempt_of(self.local))

    @property
    def others_ready(self) -> bool:
        """Whether every other admission check is Ready (contract 3.10 step 2)."""
        checks = self.local.status.admission_checks if self.local else ()
        return all(c.state == "Ready" for c in checks if c.name != self.check)

    def is_current(self, item: Object | None) -> bool:
        """Whether a remote object belongs to the present attempt."""
        return self.local is not None and is_of_attempt(item, self.local, self.attempt)

    @property
    def shown(self) -> Fleet:
        """The fleet as it is for this workload."""
        taken = {r.cluster: excerpt(r.unfit.text) for r in self.remotes if r.unfit is not None}
        taken |= {r.cluster: f"can never hold it: {r.never}" for r in self.remotes if self.rules_out(r)}
        return self.fleet.but_for(taken)

    def rules_out(self, remote: Remote) -> bool:
        """Whether a worker says of the copy of this attempt that it can never hold it."""
        return bool(remote.never) and remote.reachable and remote.configured and self.is_current(remote.workload)

    def remote(self, cluster: str) -> Remote | None:
        return next((r for r in self.remotes if r.cluster == cluster), None)
