"""Unreachable workers: what they may hold, and how long to wait for them."""

from __future__ import annotations

from datetime import timedelta

from multikueue.api.kueue.workload import FAILED_ON
from multikueue.dispatch.remote import Remote
from multikueue.workload.case import MAX_NOMINATED, Case
from multikueue.workload.nomination.request import failures

ASKED_AGAIN = timedelta(seconds=1)
"""Shortest wait before a worker counts as lost: a last probe must have had the time to be answered."""


def until_lost(case: Case, remotes_: tuple[Remote, ...] | list[Remote]) -> timedelta | None:
    """The wait until the first of these workers, now unreachable, may count as lost."""
    timeout = case.rules.lost_after
    due = (lost_at for r in remotes_ if (lost_at := r.link.lost_at(timeout)) and not r.is_lost(case.now, timeout))
    return min((max(at - case.now, ASKED_AGAIN) for at in due), default=None)


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
