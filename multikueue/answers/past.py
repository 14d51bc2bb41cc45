"""What happened to a job before: evictions, who preempted it, and where it was tried."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from multikueue.answers.obstacle import foreign
from multikueue.answers.seen import Seen
from multikueue.api.kueue.workload import EVICTED, FAILED_ON, FITS_NO_WORKER, PREEMPTED, Workload
from multikueue.api.meta import Time, Value, render_time
from multikueue.workload.nomination.request import failures

__all__ = ["PastEvent", "past", "with_names"]

_WHO = re.compile(r"a workload \(UID: (?P<uid>[^,)]+), JobUID: (?P<job>[^)]+)\)")
_PREEMPTOR = re.compile(rf"{_WHO.pattern} due to (?P<why>[^;]+)")


class PastEvent(Value, frozen=True):
    """`text` is a clause without a stop."""

    text: str
    at: Time | None = None

    def __str__(self) -> str:
        return f"{render_time(self.at)}: {self.text}" if self.at else self.text


def past(seen: Seen) -> Iterator[PastEvent]:
    """Oldest first. Kueue keeps the last eviction only."""
    if seen.workload is not None:
        yield from sorted(_events(seen, seen.workload), key=_seconds)


def _events(seen: Seen, workload: Workload) -> Iterator[PastEvent]:
    failed = workload.condition(FAILED_ON)
    for cluster, at in failures(failed.message).items() if failed else ():
        yield PastEvent(at=at, text=f"an attempt on {cluster} ended")
    preempted, evicted = workload.condition(PREEMPTED), workload.condition(EVICTED)
    if preempted is not None and preempted.status == "True":
        yield PastEvent(at=preempted.last_transition_time, text=_preemption(seen, preempted.message))
    elif evicted is not None and evicted.status == "True" and not evicted.reason.startswith("Deactivated"):
        told = with_names(evicted.message or evicted.reason, seen.jobs)
        why = "no worker could hold it" if workload.has(FITS_NO_WORKER) else foreign(told)
        yield PastEvent(at=evicted.last_transition_time, text=f"evicted: {why}")
    for each in workload.status.scheduling_stats.evictions if workload.status.scheduling_stats else ():
        if each.count > 1:
            yield PastEvent(text=f"evicted {each.count} times so far for {each.underlying_cause or each.reason}")


def with_names(message: str, jobs: Mapping[str, str]) -> str:
    """Kueue's words of a preemption, with the name of the job for the UIDs of the preemptor, if it is one of `jobs`."""
    return _WHO.sub(lambda found: jobs.get(found["uid"]) or jobs.get(found["job"]) or found[0], message)


def _preemption(seen: Seen, message: str) -> str:
    found = _PREEMPTOR.search(message)
    if found is None:
        return f"preempted: {foreign(message)}"
    uid, job = found["uid"], found["job"]
    who = seen.jobs.get(uid) or seen.jobs.get(job)
    return f"preempted by {who or 'a workload that you may not see'}, due to {foreign(found['why'])}"


def _seconds(event: PastEvent) -> float:
    return event.at.timestamp() if event.at else 0.0
