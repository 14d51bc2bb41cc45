"""What happened to a workload, read from the object as it is now.

Nothing depends on the object before, so an event that is missed, repeated, or replayed by a list tells the same story.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import ValidationError
from msgspec.structs import replace

from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    SLICE_REPLACED,
    SUCCEEDED,
    Workload,
    granted,
    workload_spec,
)
from multikueue.api.meta import render_time
from multikueue.api.values import quantity
from multikueue_console.history.runs import Outcome, Run, RunEnd, RunNews
from multikueue_console.model.workloads import USER_LABEL

__all__ = ["is_gpu", "news_of", "news_of_removal"]


def news_of(workload: Workload) -> RunNews:
    """The present run of a workload and its end, or the end of the run before. Both are None for one that never had quota.

    The user is who the label says it is for, else its namespace.
    """
    run = _run(workload)
    end = _end(workload, run or _known(workload))
    return RunNews(workload=workload.metadata.uid, run=run, end=end, wait=_wait(workload))


def news_of_removal(last: RunNews, now: datetime) -> RunNews:
    """The news of a workload that was deleted, by the last that it told: a run that had not ended ends."""
    if last.run is None or last.end is not None:
        return last
    end = RunEnd(run=last.run, at=max(now, last.run.reserved_at or now), outcome=Outcome.DELETED)
    return RunNews(workload=last.workload, run=last.run, end=end)


def _known(workload: Workload) -> Run:
    """What is known of a run whatever has become of its quota. Its mark is that of an end until a reservation is seen."""
    meta = workload.metadata
    reserved = workload.condition(QUOTA_RESERVED)
    since = reserved.last_transition_time if reserved is not None else None
    return Run(
        workload=meta.uid,
        attempt=f"until {render_time(since)}" if since else "",
        namespace=meta.namespace,
        name=meta.name,
        queue=_queue(workload),
        user=meta.labels.get(USER_LABEL) or meta.namespace,
        cluster=workload.status.cluster_name or "",
    )


def _run(workload: Workload) -> Run | None:
    reserved, admission = workload.since(QUOTA_RESERVED), workload.status.admission
    if reserved is None or admission is None:
        return None
    known, amounts = _known(workload), granted(workload)
    is_first = not (workload.status.scheduling_stats and workload.status.scheduling_stats.evictions)
    evicted = workload.condition(EVICTED)
    return Run(
        workload=known.workload,
        attempt=render_time(reserved),
        namespace=known.namespace,
        name=known.name,
        queue=known.queue,
        cluster_queue=admission.cluster_queue,
        user=known.user,
        cluster=known.cluster,
        cpu=amounts.get("cpu", 0) / quantity.scale("cpu"),
        gpu=float(sum(amount for name, amount in amounts.items() if is_gpu(name))),
        queued_at=workload.metadata.creation_timestamp if is_first and evicted is None else None,
        reserved_at=reserved,
        started_at=workload.since(ADMITTED),
    )


def _wait(workload: Workload) -> Run | None:
    """It waits since its submission, or since it was queued again (quota-engine 7)."""
    requeued, since = workload.condition(REQUEUED), workload.metadata.creation_timestamp
    if workload.has(ADMITTED) or workload.has(FINISHED) or not _is_active(workload):
        return None
    return replace(_known(workload), queued_at=requeued.last_transition_time if requeued is not None else since)


def _end(workload: Workload, run: Run) -> RunEnd | None:
    finished = workload.condition(FINISHED)
    if finished is not None and finished.status == "True" and finished.last_transition_time is not None:
        if run.reserved_at is None:
            return None  # it never had quota, or its last run ended before
        return RunEnd(
            run=run, at=finished.last_transition_time, outcome=_outcome(finished.reason), reason=finished.reason
        )
    evicted, reserved = workload.condition(EVICTED), workload.condition(QUOTA_RESERVED)
    if evicted is None or evicted.status != "True" or reserved is None or reserved.status == "True":
        return None
    if reserved.last_transition_time is None:
        return None
    outcome = Outcome.PREEMPTED if evicted.reason == PREEMPTED else Outcome.EVICTED
    return RunEnd(run=run, at=reserved.last_transition_time, outcome=outcome, reason=evicted.reason)


def _outcome(reason: str) -> Outcome:
    return {SUCCEEDED: Outcome.SUCCEEDED, SLICE_REPLACED: Outcome.REPLACED}.get(reason, Outcome.FAILED)


def _is_active(workload: Workload) -> bool:
    try:
        return workload_spec(workload).active
    except ValidationError:
        return False


def _queue(workload: Workload) -> str:
    try:
        return workload_spec(workload).queue_name
    except ValidationError:
        return ""  # the object is of others; its run counts all the same


def is_gpu(resource: str) -> bool:
    """Whether a resource counts GPUs: `nvidia.com/gpu`, `amd.com/gpu`, `gpu.intel.com/i915`, or a share of one."""
    vendor, _, name = resource.rpartition("/")
    return name == "gpu" or name.startswith(("gpu.", "mig-")) or vendor.startswith("gpu.")
