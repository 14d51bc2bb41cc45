"""Counts of workloads that are not admitted, by why (KEP 10852): kept up to date, since a scrape must not look at them all."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from multikueue.api.kueue.unadmitted import NO_RESERVATION, PENDING_EVALUATION
from multikueue.api.kueue.workload import ADMITTED, FINISHED, QUOTA_RESERVED, Workload, queue_of
from multikueue.api.meta import ObjectKey

__all__ = ["Unadmitted", "count"]


class Unadmitted(NamedTuple):
    """Where a workload waits, and why: the reason of Admitted=False, and that of QuotaReserved=False, which is empty once it
    has quota."""

    local_queue: ObjectKey
    reason: str
    underlying_cause: str


def count(counts: Counter[Unadmitted], old: Workload | None, new: Workload | None) -> None:
    """Take a change of one workload into the counts; what is zero is not there."""
    was, is_ = _why(old), _why(new)
    if was == is_ and (old is None or new is None or old.spec == new.spec):
        return
    if old is not None and was is not None:
        _add(counts, Unadmitted(queue_of(old), *was), -1)
    if new is not None and is_ is not None:
        _add(counts, Unadmitted(queue_of(new), *is_), 1)


def _add(counts: Counter[Unadmitted], which: Unadmitted, number: int) -> None:
    counts[which] += number
    if not counts[which]:
        del counts[which]


def _why(workload: Workload | None) -> tuple[str, str] | None:
    """Reason and underlying cause; None: it is admitted, over, or there is none. One that says nothing yet waits for a
    cycle to look at it."""
    if workload is None or workload.metadata.deletion_timestamp is not None:
        return None
    if workload.has(ADMITTED) or workload.has(FINISHED):
        return None
    admitted, reserved = workload.condition(ADMITTED), workload.condition(QUOTA_RESERVED)
    reason = admitted.reason if admitted else NO_RESERVATION
    if reserved is None:
        return reason, PENDING_EVALUATION
    return reason, "" if reserved.status == "True" else reserved.reason
