"""The phase of a workload, derived from its case and never stored: the first predicate that holds names it.

The order is the precedence (contract 3.2). Since the phase is derived, a restart, a missed event and a crash are the
same case: observe, derive, continue.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from operator import attrgetter

from multikueue.api.kueue.workload import (
    DEACTIVATED,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    UNDISPATCHABLE_ANNOTATION,
    any_owner_of,
)
from multikueue.dispatch.remote import Remote
from multikueue.workload.case import Case
from multikueue.workload.fit import can_fit_nowhere


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
    EVICTED_REMOTELY = "the winner evicted it"
    WINNER_GONE = "the winner's copy or job is gone"
    ADMITTED = "admitted by the winner"


Predicate = Callable[[Case], object]
"""It holds if its answer is true. A field that answers is named, which costs no call."""


def _is_refused_early(case: Case) -> bool:
    """Whether to reject it before it has quota: it would get some for nothing, and may preempt what runs. Not if its
    job may still come; nor if it explains itself: that is inactive, and goes on once its job can be dispatched."""
    if not case.problem or case.state != "Pending" or QUOTA_RESERVED in case.true:
        return False
    return any_owner_of(case.local) is not None and UNDISPATCHABLE_ANNOTATION not in case.local.metadata.annotations


def _is_gone(case: Case) -> bool:
    return case.workload is None or case.workload.metadata.deletion_timestamp is not None


def _is_declined_by_all(case: Case) -> bool:
    """Whether all nominated workers have deactivated their copy: by an administrator, a check of theirs, or a limit.
    Such a copy is never admitted again."""
    for name in case.named:
        remote = case.remote(name)
        if remote is None or not remote.is_reachable or not _is_deactivated(case, remote):
            return False
    return bool(case.named)


def _is_deactivated(case: Case, remote: Remote) -> bool:
    evicted = remote.condition(EVICTED)
    if evicted is None or not case.is_current(remote.workload):
        return False
    return evicted.status == "True" and evicted.reason.startswith(DEACTIVATED)


def _is_slice_pin_lost(case: Case) -> bool:
    remote = case.remote(case.slice.stays)
    return remote is None or remote.is_lost(case.now, case.rules.lost_after)


def _has_begun(case: Case) -> bool:
    """Whether a worker has the job of this attempt, or may have it: it was requested, and no answer came yet. It is asked
    for again then, whether the check is still there or not."""
    return case.winner is not None and (case.is_current(case.won.job) or case.won.is_asked_for(case.attempt))


def _is_lost(case: Case) -> bool:
    return not case.won.is_reachable and case.won.is_lost(case.now, case.rules.lost_after)


def _is_winner_gone(case: Case) -> bool:
    """Ready promises a copy and a job on the winner; only while Pending may the job be missing."""
    if case.has_won:
        return not (case.is_current(case.won.workload) and case.is_current(case.won.job) and case.won.has_taken)
    return not case.is_current(case.won.workload)


_Table = tuple[tuple[Phase, Predicate], ...]

_WHATEVER_THE_WINNER: _Table = (
    (Phase.UNREADABLE, attrgetter("is_unreadable")),
    (Phase.GONE, _is_gone),
    (Phase.FINISHED, lambda case: FINISHED in case.true),
    (Phase.UNDISPATCHABLE, _is_refused_early),
    (Phase.UNRESERVED, lambda case: QUOTA_RESERVED not in case.true),
    (Phase.UNCHECKED, lambda case: case.is_unchecked and not _has_begun(case)),
    (Phase.REJECTED, lambda case: case.state == "Rejected"),
    (Phase.EVICTED, lambda case: EVICTED in case.true),
    (Phase.RETRY_PENDING, lambda case: case.state == "Retry"),
    (Phase.UNRECORDED, lambda case: case.is_unchecked and case.is_current(case.won.job)),
    (Phase.UNDISPATCHABLE, attrgetter("problem")),
)
_WITHOUT_A_WINNER: _Table = (
    (Phase.WAITING, lambda case: not case.is_otherwise_ready),
    (Phase.SLICE_TOO_EARLY, attrgetter("slice.is_too_early")),
    (Phase.WINNER_GONE, attrgetter("has_won")),
    (Phase.DECLINED_BY_ALL, _is_declined_by_all),
    (Phase.SLICE_PIN_LOST, lambda case: case.slice.stays and _is_slice_pin_lost(case)),
    (Phase.SLICE_PINNED, attrgetter("slice.stays")),
    (Phase.FITS_NOWHERE, lambda case: can_fit_nowhere(case)),
)
_WITH_A_WINNER: _Table = (
    (Phase.WINNER_LOST, _is_lost),
    (Phase.WINNER_UNREACHABLE, lambda case: not case.won.is_reachable),
    (Phase.COMPLETING, attrgetter("won.has_result")),
    (Phase.OUT_OF_SYNC, lambda case: FINISHED in case.won.true),
    (Phase.EVICTED_REMOTELY, lambda case: EVICTED in case.won.true),
    (Phase.WINNER_GONE, _is_winner_gone),
)


def phase_of(case: Case) -> Phase:
    """The first phase whose predicate holds; if none does, it waits for a winner, or has one."""
    for phase, holds in _WHATEVER_THE_WINNER:
        if holds(case):
            return phase
    for phase, holds in _WITHOUT_A_WINNER if case.winner is None else _WITH_A_WINNER:
        if holds(case):
            return phase
    return Phase.NOMINATING if case.winner is None else Phase.ADMITTED
