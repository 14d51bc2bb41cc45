"""Start and stop of a job whose Workload matches, and its status from the worker (quota-engine 6.4)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from multikueue.api.jobs.job import Job
from multikueue.api.kueue.slices import replaced_key
from multikueue.api.kueue.workload import ADMITTED, EVICTED, QUOTA_RESERVED, Workload
from multikueue.jobs.framework import pod_set_info
from multikueue.jobs.framework.actions import JobDecision, PatchJob
from multikueue.jobs.framework.adapter import is_local
from multikueue.jobs.reconciler.case import NOTHING, JobCase, with_cluster_label
from multikueue.jobs.reconciler.updates import let_go
from multikueue.jobs.trees.templates import tree_of

LOOK_FOR_FLAVOR_AFTER = timedelta(seconds=5)
"""A new flavor wakes queues and their workloads, but no job (`store.event_handlers.triggers`)."""


def decide_run(case: JobCase, workload: Workload) -> JobDecision:
    """Starts and stops a job whose Workload matches, and copies its status (quota-engine 6.4)."""
    if workload.metadata.deletion_timestamp is not None:
        stopped = case.stop("Workload is deleted") if case.may_queue_again() else case.delete_job("Workload is deleted")
        return stopped if stopped.actions else let_go(case, (workload,))
    if workload.has(EVICTED):
        evicted = workload.condition(EVICTED)
        return case.settle(evicted.message if evicted and evicted.message else "Evicted")
    if not workload.has(ADMITTED):
        if case.view.is_elastic and workload.has(QUOTA_RESERVED) and replaced_key(workload) is not None:
            return NOTHING  # the job runs on, as the replaced slice was admitted
        return case.settle("Not admitted by cluster queue")
    is_elsewhere = case.is_run_elsewhere(workload)
    if is_elsewhere and case.adapter.may_resume and not case.adapter.is_suspended(case.view.job):
        return case.stop("It runs on a worker")  # another program has started it, and it would run twice
    may_start = not (is_elsewhere or case.is_awaiting_winner(workload))
    patch = case.adapter.start_patch(case.view.job) if may_start else None
    if patch is not None:
        return _started(case, workload, patch)
    remote = case.view.remote
    return JobDecision(
        actions=case.copied_status(remote) if remote is not None and not case.view.is_remote_lost else ()
    )


def _started(case: JobCase, workload: Workload, patch: dict[str, Any]) -> JobDecision:
    """Starts the job. Only a job that runs here gets pod set info from us: a dispatched job gets it from its worker's
    Kueue. A job that contradicts its pod set info waits until its Workload is finished."""
    writer = case.adapter.pod_set_info
    if writer is None or not is_local(case.adapter, case.view.job, workload, is_dispatched=case.view.is_dispatched):
        labelled = with_cluster_label(patch, workload.status.cluster_name)
        return JobDecision(actions=(PatchJob(labelled, is_all=_is_all(case)),))
    try:
        told = pod_set_info.start_patch(case.view.job, patch, writer, workload, case.view.flavors)
    except pod_set_info.BadPodSetInfo:
        return NOTHING
    if told is None:
        return JobDecision(again_after=LOOK_FOR_FLAVOR_AFTER)
    return JobDecision(actions=(PatchJob(told),))


def _is_all(case: JobCase) -> bool:
    """Whether a dispatched job that is started has nothing to copy yet: the next change of the remote job wakes it. Of a
    batch Job nothing is copied before that has started."""
    remote = case.view.remote
    if remote is None or case.view.is_elastic:
        return False
    status = tree_of(remote.status)
    return not status or (type(remote) is Job and not status.get("startTime"))
