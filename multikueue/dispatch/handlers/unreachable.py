"""Unreachable workers: what they may hold, and how long to wait for them."""

from __future__ import annotations

from datetime import timedelta

from multikueue.api.kueue.workload import FAILED_ON
from multikueue.dispatch.group.group import MAX_NOMINATED, Remote
from multikueue.dispatch.group.phases import View
from multikueue.dispatch.nomination.request import failures

ASKED_AGAIN = timedelta(seconds=1)
"""Shortest wait before a worker counts as lost: a last probe must have had the time to be answered."""


def until_lost(v: View, remotes_: tuple[Remote, ...] | list[Remote]) -> timedelta | None:
    """The wait until the first of these workers, now unreachable, may count as lost."""
    timeout = v.group.lost_after
    due = (lost_at for r in remotes_ if (lost_at := r.link.lost_at(timeout)) and not r.is_lost(v.now, timeout))
    return min((max(at - v.now, ASKED_AGAIN) for at in due), default=None)


def may_hold_unseen(v: View, remote: Remote) -> bool:
    """Whether a worker not seen since the start of the process may hold a job: a nominated one, if the previous process
    created the job just before it died; one where an attempt failed, if the job could not be removed. Any, if what was
    nominated is not known."""
    if remote.link.is_known or remote.is_lost(v.now, v.group.lost_after):
        return False
    named, failed = v.local.status.nominated_cluster_names, v.local.condition(FAILED_ON)
    is_cut = len(named) == MAX_NOMINATED or v.group.may_be_anywhere
    nominated = remote.cluster in named or (remote.is_configured and is_cut)
    return nominated or (failed is not None and remote.cluster in failures(failed.message))
