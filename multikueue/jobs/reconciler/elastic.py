"""Elastic jobs: changes of the size while the job runs (contract 3.5)."""

from __future__ import annotations

from datetime import datetime

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import EVICTED, FINISHED, OUT_OF_SYNC, QUOTA_RESERVED, Workload
from multikueue.api.meta import Condition
from multikueue.jobs.framework.actions import JobDecision, PatchWorkloadStatus, UpdateWorkloadSpec
from multikueue.jobs.framework.workloads import is_owned
from multikueue.jobs.kinds.batch_job import slices
from multikueue.jobs.kinds.batch_job.template import pods_count
from multikueue.jobs.reconciler.case import NOTHING, JobCase
from multikueue.jobs.reconciler.ensure_workload import create, decide_own, follow_job
from multikueue.jobs.reconciler.run import decide_run
from multikueue.jobs.reconciler.updates import conditions_patch, joined


def decide_elastic(case: JobCase, now: datetime) -> JobDecision:
    """Follows the size of an elastic job, in its Workload or by another slice (contract 3.5).

    There are at most two slices: the running one and its replacement. Any other change starts over, as for other jobs.
    Growth takes another slice because quota that is reserved cannot grow: the next slice queues for the whole, and gives
    back what the first one has (KEP 77).
    """
    job = case.view.job
    found = slices.in_order([w for w in case.view.workloads if is_owned(w, job)])
    if len(found) not in (1, 2) or not all(slices.may_be_slice_of(job, w) for w in found):
        return decide_own(case)
    last, before = found[-1], found[0] if len(found) > 1 else None
    if before is not None and not before.has(QUOTA_RESERVED):
        return JobDecision(actions=(_out_of_sync(before, now),))
    runs = last if before is None or last.has(QUOTA_RESERVED) else before
    update = follow_job(case, last)
    if update.actions:
        return update
    scaled = _scaled(case, last, is_only_slice=before is None)
    return scaled if scaled.actions else joined(update, scaled, decide_run(case, runs))


def _scaled(case: JobCase, last: Workload, *, is_only_slice: bool) -> JobDecision:
    """Gives the last slice the job's size if it may change; else adds one slice, if there is only one."""
    job = case.view.job
    if case.adapter.is_equivalent(job, last):
        return NOTHING
    if not last.has(QUOTA_RESERVED) or pods_count(job) < slices.size(last):
        event = Event("Normal", "UpdatedWorkload", f"Updated the size of Workload: {last.key}")
        return JobDecision(actions=(UpdateWorkloadSpec(last.key, slices.count_patch(job, last)),), events=(event,))
    return create(case, replaces=last) if is_only_slice and not last.has(EVICTED) else NOTHING


def _out_of_sync(workload: Workload, now: datetime) -> PatchWorkloadStatus:
    """Finishes a slice that lost its quota: its replacement has the job now."""
    condition = Condition(
        type=FINISHED,
        status="True",
        reason=OUT_OF_SYNC,
        message="A later slice describes the elastic job",
        observed_generation=workload.metadata.generation,
    )
    return conditions_patch(workload, condition, now)
