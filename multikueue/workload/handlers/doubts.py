"""Workers that are unreachable, gave no answer, or none that settles anything: what they may hold, and how long to wait."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from msgspec.structs import replace

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import FAILED_ON, WorkloadStatus
from multikueue.dispatch.remote import Remote
from multikueue.workload.case import MAX_NOMINATED, Case
from multikueue.workload.handlers.outcome import Outcome, with_check
from multikueue.workload.nomination.request import failures

ASKED_FOR = timedelta(seconds=30)
"""How long a job is requested again where no request for it was answered. After that the last request is waited out, and the
job read: a worker that says neither yes nor no keeps it no longer."""

WAITING_FOR = "Waiting for worker cluster"
"""How such messages begin."""


def until_doubtful(case: Case, remote: Remote) -> timedelta | None:
    """The wait until the job is not requested there any more, unless an answer comes; None if no answer is missing."""
    asked = remote.asked
    if asked is None or asked.attempt != case.attempt or asked.since is None:
        return None
    return asked.since + ASKED_FOR - case.now


def with_doubts(outcome: Outcome, case: Case) -> Outcome:
    """Says in the check's message which worker is waited for, and clears it when none is. A handler's own news go first."""
    check, status = case.check_state, outcome.status
    if check is None or status is None or case.workload is None:
        return outcome
    doubts = tuple(_doubts(case))
    words = "; ".join((*doubts, *_failures(case)))
    is_said = check.message.startswith(WAITING_FOR)
    if not words and not is_said:
        return outcome
    new = next((each for each in status.admission_checks if each.name == case.check), check)
    if new.state != "Pending" or (new.message != check.message and not is_said):
        return outcome
    if not words:
        return outcome if new.message != check.message else replace(outcome, status=_with(case, "", outcome))
    told = tuple(Event("Warning", "MultiKueue", each) for each in doubts if each not in check.message)
    return replace(outcome, status=_with(case, words, outcome), events=(*outcome.events, *told))


def _with(case: Case, words: str, outcome: Outcome) -> WorkloadStatus:
    return with_check(case, "Pending", words, outcome.status)


def _doubts(case: Case) -> Iterator[str]:
    for remote in case.remotes:
        where = f'{WAITING_FOR} "{remote.cluster}"'
        may_have = remote.asked is not None and remote.job is None and remote.is_asked_for(case.attempt)
        if (
            may_have
            and not remote.is_lost(case.now, case.rules.lost_after)
            and (remote.link.is_silent or not remote.is_reachable)
        ):
            yield (
                f"{where}, which does not answer and may have taken the job: it runs nowhere else until that is known, or the "
                "worker is lost"
            )
        elif may_have and remote.asked is not None and not remote.failing and _is_doubtful(case, remote):
            yield f"{where}, which may have taken the job: {remote.asked.why}"
        elif not remote.is_reachable and _is_held_up_by(case, remote):
            yield (
                f'{where}, which is out of reach and may have the job: it starts on "{case.won.cluster}" once that is known, '
                "or the worker is lost"
            )


def _is_held_up_by(case: Case, remote: Remote) -> bool:
    """Whether the winner gets no job yet, since that worker may have one."""
    if case.winner is None or case.has_won or case.winner.cluster == remote.cluster:
        return False
    return not case.is_current(case.won.job) and may_be_there(case, remote)


def _failures(case: Case) -> Iterator[str]:
    for remote in case.remotes:
        if remote.failing and remote.is_reachable and not remote.link.is_silent and remote.unfit is None:
            yield failing(remote.cluster, remote.failing)


def failing(cluster: str, words: str) -> str:
    """The message about a call that fails there again and again."""
    return f'{WAITING_FOR} "{cluster}": {words}'


def _is_doubtful(case: Case, remote: Remote) -> bool:
    wait = until_doubtful(case, remote)
    return wait is not None and wait <= timedelta()


ASKED_AGAIN = timedelta(seconds=1)
"""Shortest wait before a worker counts as lost: a last probe must have had the time to be answered."""


def until_lost(case: Case, remotes_: tuple[Remote, ...] | list[Remote]) -> timedelta | None:
    """The wait until the first of these workers, now unreachable, may count as lost."""
    timeout = case.rules.lost_after
    due = (lost_at for r in remotes_ if (lost_at := r.link.lost_at(timeout)) and not r.is_lost(case.now, timeout))
    return min((max(at - case.now, ASKED_AGAIN) for at in due), default=None)


def may_be_there(case: Case, remote: Remote) -> bool:
    """Whether a worker has a job that could not be removed, or may hold one that is not seen: no other worker may get the job
    meanwhile."""
    if remote.is_reachable and remote.link.is_known:
        return False
    return may_hold_unseen(case, remote) or _has_unreachable_job(case, remote)


def _has_unreachable_job(case: Case, remote: Remote) -> bool:
    """Whether an unreachable worker has a job of an earlier attempt that could not be removed: it may still start."""
    return not remote.is_reachable and remote.job is not None and not remote.is_lost(case.now, case.rules.lost_after)


def may_hold_unseen(case: Case, remote: Remote) -> bool:
    """Whether a worker not seen since the start of the process may hold a job: a nominated one, if the previous process
    created the job just before it died; one where an attempt failed, if the job could not be removed. Any, if what was
    nominated is not known."""
    if remote.link.is_known or remote.is_lost(case.now, case.rules.lost_after):
        return False
    named, failed = case.local.status.nominated_cluster_names, case.local.condition(FAILED_ON)
    is_cut = len(named) == MAX_NOMINATED or case.may_be_anywhere
    nominated = remote.cluster in named or (remote.is_configured and is_cut)
    return nominated or (failed is not None and remote.cluster in failures(failed.message))
