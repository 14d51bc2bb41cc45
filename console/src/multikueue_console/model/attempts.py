"""What became of a workload: one attempt for each reservation of quota, folded from the versions that were seen.

An object tells its present attempt and the end of the last one. Whoever watches sees more, and keeps it here.
"""

from __future__ import annotations

import msgspec

from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FAILED_ON,
    FINISHED,
    NOMINATED,
    PODS_READY,
    QUOTA_RESERVED,
    Workload,
)
from multikueue.api.meta import Time, Value
from multikueue.workload.nomination.request import failures

__all__ = ["MOST_ATTEMPTS", "Attempt", "folded"]

MOST_ATTEMPTS = 20
"""Attempts of one workload that are kept, the newest."""


class Attempt(Value, frozen=True):
    """Times are None as long as something has not happened, or if nobody saw when it did.

    `nominated`: the clusters that were asked, in their order. `cluster`: the one that won. `end`: in a few words how it ended,
    empty while it lasts; `is_over` tells a finished workload from an attempt that was given up.
    """

    reserved_at: Time | None = None
    nominated: tuple[str, ...] = ()
    nominated_at: Time | None = None
    cluster: str = ""
    won_at: Time | None = None
    running_at: Time | None = None
    ended_at: Time | None = None
    end: str = ""
    is_over: bool = False


def folded(known: tuple[Attempt, ...], workload: Workload) -> tuple[Attempt, ...]:
    """The attempts, the oldest first, after this version of the workload. The same tuple if it tells nothing new."""
    earlier = known or _told_of_before(workload)
    present = _present(workload)
    if present is None:
        return _closed(earlier, workload)
    last = earlier[-1] if earlier else None
    if last is not None and not last.ended_at and _is_same(last, present):
        merged = _merged(last, present)
        return known if merged == last and known else (*earlier[:-1], merged)
    if last is not None and last.is_over and present.is_over:
        return known
    return (*_closed(earlier, workload), present)[-MOST_ATTEMPTS:]


def _present(workload: Workload) -> Attempt | None:
    """What the object tells of its present attempt; None if it has no quota and was not asked anywhere."""
    status = workload.status
    finished = workload.condition(FINISHED)
    is_over = finished is not None and finished.status == "True"
    if (
        not workload.has(QUOTA_RESERVED)
        and not status.nominated_cluster_names
        and not (is_over and status.cluster_name)
    ):
        return None
    nominated = workload.condition(NOMINATED)
    return Attempt(
        reserved_at=workload.since(QUOTA_RESERVED),
        nominated=status.nominated_cluster_names,
        nominated_at=nominated.last_transition_time if nominated is not None else None,
        cluster=status.cluster_name or "",
        won_at=workload.since(ADMITTED) if status.cluster_name else None,
        running_at=workload.since(PODS_READY),
        ended_at=workload.since(FINISHED),
        end=(finished.reason if finished is not None else "") if is_over else "",
        is_over=is_over,
    )


def _is_same(last: Attempt, present: Attempt) -> bool:
    return last.reserved_at is None or present.reserved_at is None or last.reserved_at == present.reserved_at


def _merged(last: Attempt, present: Attempt) -> Attempt:
    """What is known of one attempt after another look at it: a win clears the nomination, which is kept here."""
    return msgspec.structs.replace(
        present,
        reserved_at=last.reserved_at or present.reserved_at,
        nominated=tuple(dict.fromkeys((*last.nominated, *present.nominated))),
        nominated_at=last.nominated_at or present.nominated_at,
        cluster=present.cluster or last.cluster,
        won_at=last.won_at or present.won_at,
        running_at=last.running_at or present.running_at,
    )


def _closed(known: tuple[Attempt, ...], workload: Workload) -> tuple[Attempt, ...]:
    """The attempts with the last one ended, by the workload's eviction or by nobody knows what."""
    if not known or known[-1].ended_at is not None or known[-1].is_over:
        return known
    evicted = workload.condition(EVICTED)
    last = known[-1]
    was_evicted = evicted is not None and evicted.status == "True"
    end = evicted.reason if evicted is not None and was_evicted else "Requeued"
    freed = workload.condition(QUOTA_RESERVED)
    at = (evicted if was_evicted else freed) or evicted
    ended_at = (at.last_transition_time if at is not None else None) or last.running_at or last.reserved_at
    return (*known[:-1], msgspec.structs.replace(last, ended_at=ended_at, end=end))


def _told_of_before(workload: Workload) -> tuple[Attempt, ...]:
    """What the object keeps of attempts that nobody here has seen: where they ended."""
    failed = workload.condition(FAILED_ON)
    if failed is None:
        return ()
    ended = sorted((at, cluster) for cluster, at in failures(failed.message).items())
    return tuple(Attempt(cluster=cluster, ended_at=at, end="Ended there") for at, cluster in ended)
