"""The phase of a workload, derived from its group and never stored: the first predicate that holds names it.

The order is the precedence (contract 3.2). Since the phase is derived, a restart, a missed event and a crash are the
same case: observe, derive, continue.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import Enum
from functools import partial

import msgspec
from msgspec.structs import replace

from multikueue.api.kueue.workload import (
    ADMITTED,
    DEACTIVATED,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    UNDISPATCHABLE_ANNOTATION,
    Workload,
    any_owner_of,
)
from multikueue.api.values.foreign import moment
from multikueue.dispatch.group.fit import can_fit_nowhere
from multikueue.dispatch.group.group import MAX_NOMINATED, Group, Remote


class Phase(Enum):
    UNREADABLE = "the workload cannot be read"
    GONE = "the workload is deleted"
    UNCHECKED = "no admission check of ours applies"
    FINISHED = "finished"
    UNRESERVED = "no quota is reserved"
    REJECTED = "the admission check is rejected"
    EVICTED = "evicted on the manager"
    RETRY_PENDING = "waiting to be evicted for a retry"
    UNRECORDED = "a worker has its job, and the check is gone before the win is recorded"
    UNDISPATCHABLE = "the job cannot be dispatched"
    WAITING = "other admission checks are not ready"
    SLICE_TOO_EARLY = "the slice it replaces is not finished yet"
    SLICE_PINNED = "waiting for the worker of the slice it replaced to admit a copy"
    SLICE_PIN_LOST = "the worker of the slice it replaced is out of reach for too long"
    DECLINED_BY_ALL = "deactivated on all nominated workers"
    FITS_NOWHERE = "no worker could ever hold it"
    NOMINATING = "waiting for a worker to admit a copy"
    WINNER_LOST = "the winner is out of reach for too long"
    WINNER_UNREACHABLE = "the winner is out of reach"
    OUT_OF_SYNC = "the winner ended for a reason that is no result"
    COMPLETING = "the winner has finished"
    READMITTED = "the winner evicted it, and may admit it again"
    EVICTED_REMOTELY = "the winner evicted it"
    WINNER_GONE = "the winner's copy or job is gone"
    ADMITTED = "admitted by the winner"


class View(msgspec.Struct, frozen=True):
    """The input of predicates and handlers: the group, its winner so far, and the time."""

    group: Group
    winner: Remote | None
    now: datetime

    @property
    def local(self) -> Workload:
        assert self.group.local is not None
        return self.group.local

    @property
    def won(self) -> Remote:
        assert self.winner is not None
        return self.winner

    @property
    def has_won(self) -> bool:
        return has_won(self.group)

    @property
    def state(self) -> str:
        check = self.group.check_state
        return check.state if check else ""


def view(group: Group, now: datetime) -> View:
    return View(group, find_winner(group) if group.attempt else None, now)


def find_winner(group: Group) -> Remote | None:
    """The worker that has, or is to get, the job of the present attempt.

    In this order: the recorded winner (sticky); a worker whose job was requested with
    unknown outcome; a worker that has our job, made by us or a predecessor just before a crash, unless its nomination
    was withdrawn meanwhile; the worker chosen among those that admitted, while it may still win.
    """
    recorded = recorded_winner(group)
    if recorded:
        return group.remote(recorded)
    asked = [r for r in group.remotes if r.is_asked_for(group.attempt)]
    holding = [r for r in group.remotes if group.is_current(r.job) and _is_nominated(group, r)]
    chosen = [r for r in group.remotes if r.cluster == group.choice and _may_win(group, r)]
    return next(iter((*asked, *sorted(holding, key=_job_age), *chosen)), None)


def has_won(group: Group) -> bool:
    """Whether a worker has won for good: the check is Ready, or was before it was removed."""
    check = group.check_state
    return (check is not None and check.state == "Ready") or bool(recorded_winner(group))


def recorded_winner(group: Group) -> str:
    """The worker whose win was recorded with a Ready check; empty if none was.

    It stays the winner when the check is removed from the queue, and when it is added again: Pending, though the
    workload is admitted. A running job is not stopped for that (contract 3.1 E2). A pinned slice has its cluster from
    the start, before any win.
    """
    local, check = group.local, group.check_state
    if local is None or not local.status.cluster_name:
        return ""
    won = check.state == "Ready" if check is not None else not group.slice.stays
    return local.status.cluster_name if won or local.has(ADMITTED) else ""


def choose(group: Group) -> Group:
    """The group with its choice made: the worker that admitted first, ties by the order of the configuration.

    Only the reconcile of the workload chooses; outboxes act on the choice. It is made again only if the chosen worker
    may not win any more.
    """
    if not group.attempt or find_winner(group) is not None:
        return group
    admitted = [r for r in group.remotes if _may_win(group, r)]
    first = min(admitted, key=partial(_taken_at, group.wins_by), default=None)
    choice = first.cluster if first else ""
    return group if choice == group.choice else replace(group, choice=choice)


def _may_win(group: Group, remote: Remote) -> bool:
    answers = remote.is_reachable and not remote.link.is_silent and remote.unfit is None
    return (
        answers
        and remote.has_taken(group.wins_by)
        and group.is_current(remote.workload)
        and _is_nominated(group, remote)
    )


def _is_nominated(group: Group, remote: Remote) -> bool:
    """Whether the worker is nominated now. A copy may be admitted just while it is withdrawn, which is too late:
    Kueue's webhook, where it is installed, accepts only a nominated winner."""
    named = named_clusters(group)
    return remote.cluster in named or len(named) == MAX_NOMINATED


def named_clusters(group: Group) -> tuple[str, ...]:
    """The recorded nomination; for a pinned slice, the worker of the slice it replaces."""
    if group.slice.stays:
        return (group.slice.stays,)
    return group.local.status.nominated_cluster_names if group.local else ()


def _job_age(remote: Remote) -> str:
    created = remote.job and remote.job.metadata.creation_timestamp
    return created.isoformat() if created else ""


def _taken_at(by: str, remote: Remote) -> str:
    condition = remote.condition(by)
    since = condition and condition.last_transition_time
    return since.isoformat() if since else ""


Predicate = Callable[[View], bool]


def _is_refused_early(v: View) -> bool:
    """Whether to reject it before it has quota: it would get some for nothing, and may preempt what runs. Not if its
    job may still come; nor if it explains itself: that is inactive, and goes on once its job can be dispatched."""
    if not v.group.problem or v.state != "Pending" or v.local.has(QUOTA_RESERVED):
        return False
    return any_owner_of(v.local) is not None and UNDISPATCHABLE_ANNOTATION not in v.local.metadata.annotations


def _is_gone(v: View) -> bool:
    return v.group.local is None or v.group.local.metadata.deletion_timestamp is not None


def _is_declined_by_all(group: Group) -> bool:
    """Whether all nominated workers have deactivated their copy: by an administrator, a check of theirs, or a limit.
    Such a copy is never admitted again."""
    asked = [group.remote(name) for name in named_clusters(group)]
    return bool(asked) and all(r is not None and r.is_reachable and _is_deactivated(group, r) for r in asked)


def _is_deactivated(group: Group, remote: Remote) -> bool:
    evicted = remote.condition(EVICTED) if group.is_current(remote.workload) else None
    return evicted is not None and evicted.status == "True" and evicted.reason.startswith(DEACTIVATED)


def _is_slice_pin_lost(v: View) -> bool:
    remote = v.group.remote(v.group.slice.stays)
    return remote is None or (not remote.is_reachable and remote.is_lost(v.now, v.group.lost_after))


def _has_no_check(v: View) -> bool:
    """Whether no check of ours applies, and no worker has won while one did."""
    return v.group.check_state is None and not v.has_won


def _has_begun(v: View) -> bool:
    """Whether a worker has the job of this attempt, or may have it: it was requested, and no answer came yet. It is asked
    for again then, whether the check is still there or not."""
    return v.winner is not None and (v.group.is_current(v.won.job) or v.won.is_asked_for(v.group.attempt))


def readmitted_until(v: View) -> datetime | None:
    """Until when the winner may admit again what it evicted; None: it does not, or it is not waited for."""
    evicted = v.won.condition(EVICTED)
    since = evicted.last_transition_time if evicted is not None and evicted.status == "True" else None
    waits = v.has_won and not v.group.should_redo_admission and v.group.is_current(v.won.workload)
    if since is None or not waits or _is_deactivated(v.group, v.won):
        return None
    return _by_our_clock(v, since) + v.group.lost_after


def _by_our_clock(v: View, at: datetime) -> datetime:
    """A time that the winner's clock gave its copy, within what is possible by ours: as long after the copy was made,
    which was between the reservation and the win."""
    created = moment(v.won.workload.metadata.creation_timestamp) if v.won.workload else None
    reserved, check = v.local.condition(QUOTA_RESERVED), v.group.check_state
    earliest = reserved.last_transition_time if reserved is not None else None
    latest = check.last_transition_time if check is not None and check.state == "Ready" else None
    if created is None or latest is None:
        return at
    age = at - created
    return min(max(at, earliest + age) if earliest is not None else at, latest + age)


def _may_be_readmitted(v: View) -> bool:
    until = readmitted_until(v)
    return until is not None and v.now < until


def _is_winner_gone(v: View) -> bool:
    """Ready promises a copy and a job on the winner; only while Pending may the job be missing."""
    if v.has_won:
        return not (
            v.group.is_current(v.won.workload) and v.group.is_current(v.won.job) and v.won.has_taken(v.group.wins_by)
        )
    return not v.group.is_current(v.won.workload)


PHASES: tuple[tuple[Phase, Predicate], ...] = (
    (Phase.UNREADABLE, lambda v: v.group.is_unreadable),
    (Phase.GONE, _is_gone),
    (Phase.FINISHED, lambda v: v.local.has(FINISHED)),
    (Phase.UNDISPATCHABLE, _is_refused_early),
    (Phase.UNRESERVED, lambda v: not v.local.has(QUOTA_RESERVED)),
    (Phase.UNCHECKED, lambda v: _has_no_check(v) and not _has_begun(v)),
    (Phase.REJECTED, lambda v: v.state == "Rejected"),
    (Phase.EVICTED, lambda v: v.local.has(EVICTED)),
    (Phase.RETRY_PENDING, lambda v: v.state == "Retry"),
    (Phase.UNRECORDED, lambda v: _has_no_check(v) and v.group.is_current(v.won.job)),
    (Phase.UNDISPATCHABLE, lambda v: bool(v.group.problem)),
    (Phase.WAITING, lambda v: v.winner is None and not v.group.is_otherwise_ready),
    (Phase.SLICE_TOO_EARLY, lambda v: v.winner is None and v.group.slice.is_too_early),
    (Phase.WINNER_GONE, lambda v: v.winner is None and v.has_won),
    (Phase.DECLINED_BY_ALL, lambda v: v.winner is None and _is_declined_by_all(v.group)),
    (Phase.SLICE_PIN_LOST, lambda v: v.winner is None and bool(v.group.slice.stays) and _is_slice_pin_lost(v)),
    (Phase.SLICE_PINNED, lambda v: v.winner is None and bool(v.group.slice.stays)),
    (Phase.FITS_NOWHERE, lambda v: v.winner is None and can_fit_nowhere(v.group)),
    (Phase.NOMINATING, lambda v: v.winner is None),
    (Phase.WINNER_LOST, lambda v: not v.won.is_reachable and v.won.is_lost(v.now, v.group.lost_after)),
    (Phase.WINNER_UNREACHABLE, lambda v: not v.won.is_reachable),
    (Phase.COMPLETING, lambda v: v.won.has_result),
    (Phase.OUT_OF_SYNC, lambda v: v.won.has(FINISHED)),
    (Phase.READMITTED, _may_be_readmitted),
    (Phase.EVICTED_REMOTELY, lambda v: v.won.has(EVICTED)),
    (Phase.WINNER_GONE, _is_winner_gone),
    (Phase.ADMITTED, lambda _: True),
)


def phase_of(v: View) -> Phase:
    """The first phase whose predicate holds."""
    return next(phase for phase, holds in PHASES if holds(v))
