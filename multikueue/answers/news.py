"""Which change of an answer is worth an event of the job: one that lasts until a person acts, or that ends an attempt."""

from __future__ import annotations

from multikueue.answers.answer import JobAnswer
from multikueue.answers.codes import Code
from multikueue.api.kueue.workload import ADMITTED, EVICTED, FINISHED, QUOTA_RESERVED, Workload

__all__ = ["LASTING", "is_lasting", "is_news", "may_be_news"]

LASTING = {
    code.name
    for code in (
        Code.QueueNotFound,
        Code.NoFlavorHasResource,
        Code.MoreThanQueueHas,
        Code.NoFlavorSuits,
        Code.NoWorkerCanHold,
        Code.OutOfTime,
        Code.GivenUp,
        Code.AdmissionGated,
    )
}
"""What concerns the job alone. A queue that is stopped and a worker that is away say so in their own conditions."""

_AT_WORK = ("Starting", "Running", "Unknown")


def may_be_news(before: Workload, after: Workload) -> bool:
    """Whether two answers have to be compared after a write. It is False all along the way of a job that just runs."""
    if after.has(FINISHED):
        return False
    if after.has(QUOTA_RESERVED) and not after.has(EVICTED):
        return after.has(ADMITTED) and not before.has(ADMITTED) and after.condition(EVICTED) is not None
    return before.status.conditions != after.status.conditions


def is_news(old: JobAnswer, new: JobAnswer) -> bool:
    """`old` and `new` are of the same moment, by what the workload said before a write, and after it."""
    if is_lasting(new):
        return old.heaviest is None or new.heaviest is None or old.heaviest.code != new.heaviest.code
    return (old.state in _AT_WORK) is not (new.state in _AT_WORK)


def is_lasting(told: JobAnswer) -> bool:
    return told.heaviest is not None and told.heaviest.code in LASTING
