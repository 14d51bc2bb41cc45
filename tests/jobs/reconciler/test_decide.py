"""The decision on a job: deletion, jobs that cannot be dispatched, priority; and that it comes to rest."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.server.patching.patches import merge_patch
from multikueue.api.kueue.workload import (
    UNDISPATCHABLE_ANNOTATION,
    Workload,
    workload_spec,
)
from multikueue.api.meta import encode
from multikueue.jobs.framework.actions import (
    CreateWorkload,
    PatchWorkloadStatus,
    RemoveFinalizer,
    UpdateWorkloadSpec,
)
from multikueue.jobs.framework.priority import Priority, workload_class_ref
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.reconciler.decide import JobView, decide, resolve_priority
from tests.builders import NOW, flavor, job, workload_priority_class
from tests.jobs.builders import Tree, become, ours, plain, stored, tree, with_spec, with_status, workload_of
from tests.jobs.reconciler.decisions import (
    ADMITTED,
    HELD,
    HIGH,
    PENDING,
    POD_CLASS,
    REMOTE_RUNNING,
    RESERVED,
    STOPPED,
    actions,
    changed,
    kinds,
    rest,
    workloads,
)

# --- letting go ------------------------------------------------------------------------------------------------------


def test_a_deleted_workload_is_released_when_nothing_runs() -> None:
    leaving = become(ADMITTED, lambda w: w.deleted())
    assert actions(JobView(job=HELD, workloads=(leaving,), remote=REMOTE_RUNNING)) == ()
    assert kinds(JobView(job=STOPPED, workloads=(leaving,))) == ["PatchJobStatus"]
    assert actions(JobView(job=HELD, workloads=(leaving,))) == (RemoveFinalizer(leaving.key),)


def test_a_deleted_workload_waits_for_a_worker_that_may_run_its_job_unseen() -> None:
    leaving = become(ADMITTED, lambda w: w.deleted())
    decision = decide(JobView(job=HELD, workloads=(leaving,), may_run=True), NOW)
    assert decision.actions == ()
    assert decision.again_after == timedelta(seconds=5)


@pytest.mark.parametrize("workload", [PENDING, RESERVED], ids=["pending", "with quota"])
def test_a_deleted_workload_that_no_longer_matches_is_released_too(workload: Workload) -> None:
    leaving = become(workload, lambda w: w.deleted())
    assert actions(JobView(job=changed(), workloads=(leaving,))) == (RemoveFinalizer(leaving.key),)


# --- jobs that cannot be dispatched ----------------------------------------------------------------------------------


NOBODYS = job("j").queue("main").suspended().build()


def test_an_undispatchable_job_says_so_and_takes_no_quota() -> None:
    decision = decide(JobView(job=NOBODYS), NOW)
    (action,) = decision.actions
    assert isinstance(action, CreateWorkload)
    assert action.body["spec"]["active"] is False
    (event,) = decision.events
    assert (event.type, event.reason) == ("Warning", "Undispatchable")
    for hint in ("spec.managedBy", "suspend: true", "kueue.x-k8s.io/multikueue", "webhook"):
        assert hint in event.message
    assert action.body["metadata"]["annotations"] == {UNDISPATCHABLE_ANNOTATION: event.message}


def test_an_undispatchable_job_that_runs_is_stopped() -> None:
    assert kinds(JobView(job=job("j").queue("main").build())) == ["PatchJob", "CreateWorkload"]
    assert kinds(JobView(job=job("j").queue("main").running().build())) == ["PatchJob"]


def test_its_workload_gets_a_condition_once() -> None:
    (created,) = actions(JobView(job=NOBODYS))
    assert isinstance(created, CreateWorkload)
    seen = stored(created.body)
    (action,) = actions(JobView(job=NOBODYS, workloads=(seen,)))
    assert isinstance(action, PatchWorkloadStatus)
    (condition,) = plain(action.patch)["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("QuotaReserved", "False", "Inadmissible")
    assert condition["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    told = become(seen, lambda w: w.condition("QuotaReserved", "False", reason="Inadmissible"))
    assert actions(JobView(job=NOBODYS, workloads=(told,))) == ()


def test_a_queue_that_becomes_multikueue_takes_waiting_jobs_out() -> None:
    seen = workload_of(NOBODYS)
    decision = decide(JobView(job=NOBODYS, workloads=(seen,)), NOW)
    (action,) = decision.actions
    assert isinstance(action, UpdateWorkloadSpec)
    assert action.patch["spec"] == {"active": False}
    assert [event.reason for event in decision.events] == ["Undispatchable"]


def test_who_activates_what_nobody_dispatches_is_told_again() -> None:
    """Admitted it would hold its quota for ever: nobody would run it."""
    (mark,) = actions(JobView(job=HELD, workloads=(PENDING,), is_undispatched=True))
    assert isinstance(mark, UpdateWorkloadSpec)
    admitted = become(PENDING, lambda w: w.reserved().admitted())
    marked = stored(merge_patch(plain(admitted), plain({"metadata": mark.patch["metadata"]})))
    decision = decide(JobView(job=HELD, workloads=(marked,), is_undispatched=True), NOW)
    (again,) = decision.actions
    assert isinstance(again, UpdateWorkloadSpec)
    assert again.patch["spec"] == {"active": False}
    assert [event.reason for event in decision.events] == ["Undispatchable"]


def test_a_running_job_of_such_a_queue_is_stopped_at_once() -> None:
    assert kinds(JobView(job=job("j").queue("main").build(), workloads=(workload_of(NOBODYS),))) == [
        "PatchJob",
        "UpdateWorkloadSpec",
    ]


def test_what_has_quota_already_is_the_dispatchers() -> None:
    seen = become(workload_of(NOBODYS), lambda w: w.reserved())
    assert actions(JobView(job=NOBODYS, workloads=(seen,))) == ()


def test_in_another_queue_it_is_active_again() -> None:
    (created,) = actions(JobView(job=NOBODYS))
    assert isinstance(created, CreateWorkload)
    seen = stored(created.body)
    (action,) = actions(JobView(job=NOBODYS, workloads=(seen,), is_queue_multikueue=False))
    assert isinstance(action, UpdateWorkloadSpec)
    assert plain(action.patch) == {
        "metadata": {"resourceVersion": "7", "annotations": {UNDISPATCHABLE_ANNOTATION: None}},
        "spec": {"active": True},
    }


def test_a_workload_the_user_deactivated_stays_so() -> None:
    inactive = msgspec.structs.replace(PENDING, spec=msgspec.Raw(encode(tree(PENDING.spec) | {"active": False})))
    assert actions(JobView(job=HELD, workloads=(inactive,))) == ()


# --- priority --------------------------------------------------------------------------------------------------------


def test_the_priority_of_a_job() -> None:
    labelled = ours().labels({"kueue.x-k8s.io/priority-class": "urgent"}).build()
    classes = {"urgent": workload_priority_class("urgent", 100).build()}
    assert resolve_priority(labelled, classes, {}) == Priority(100, workload_class_ref("urgent"))
    assert resolve_priority(ours().template(b'{"spec":{"priorityClassName":"p"}}').build(), classes, {}) == (
        'PriorityClass "p" not found: create it, or name another'
    )


STATUSES: list[Tree] = [
    {},
    {"active": 2, "ready": 1, "startTime": "2026-01-01T10:00:00Z"},
    {"active": 1, "terminating": 1, "startTime": "2026-01-01T11:00:00Z", "failed": 1},
    {"conditions": [{"type": "Suspended", "status": "True"}]},
    {
        "conditions": [{"type": "Complete", "status": "True"}],
        "startTime": "2026-01-01T10:00:00Z",
        "completionTime": "2026-01-01T11:00:00Z",
        "succeeded": 1,
    },
]


JOBS = st.builds(
    lambda suspended, managed, count, queue, status, label: with_status(
        with_spec(
            job("j").queue(queue).labels(label).build(),
            suspend=suspended,
            parallelism=count,
            completions=count,
            **({"managedBy": managed} if managed else {}),
        ),
        status,
    ),
    st.booleans(),
    st.sampled_from(["kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/multikueue", "other", ""]),
    st.sampled_from([1, 2]),
    st.sampled_from(["main", "other"]),
    st.sampled_from(STATUSES[:-1]),
    st.sampled_from([{}, {"kueue.x-k8s.io/prebuilt-workload-name": "mine"}]),
)


VIEWS = st.builds(
    JobView,
    job=JOBS,
    workloads=workloads(),
    remote=st.none() | st.sampled_from([with_status(job("j").build(), status) for status in STATUSES]),
    is_remote_lost=st.booleans(),
    priority=st.sampled_from([Priority(), HIGH, POD_CLASS]),
    is_queue_multikueue=st.booleans(),
    has_local_queue=st.booleans(),
    is_dispatched=st.booleans(),
    flavors=st.sampled_from([{}, {"default": flavor("default").node_labels(pool="blue").build()}]),
)


@given(view=VIEWS)
def test_every_decision_comes_to_rest_in_a_few_writes(view: JobView) -> None:
    assert rest(view).writes <= 8


@given(view=VIEWS)
def test_at_rest_nothing_runs_without_leave(view: JobView) -> None:
    at_rest = rest(view).view
    if BATCH_JOB.is_suspended(at_rest.job) or BATCH_JOB.finished(at_rest.job):
        return
    assert any(w.has("Admitted") or w.has("Finished") for w in at_rest.workloads)


@given(view=VIEWS)
def test_at_rest_there_is_one_workload_that_matches(view: JobView) -> None:
    at_rest = rest(view).view
    over = BATCH_JOB.finished(at_rest.job) or any(w.has("Finished") for w in at_rest.workloads)
    own = "kueue.x-k8s.io/prebuilt-workload-name" not in at_rest.job.metadata.labels
    waiting = at_rest.remote is not None and BATCH_JOB.is_active(at_rest.remote) and not at_rest.is_remote_lost
    unmanaged = BATCH_JOB.unmanaged_reason(at_rest.job) is not None
    if over or not own or waiting or unmanaged:
        return
    (left,) = (w for w in at_rest.workloads if w.metadata.deletion_timestamp is None)
    assert BATCH_JOB.is_equivalent(at_rest.job, left)
    assert workload_spec(left).active


@given(view=VIEWS)
def test_nothing_is_said_without_a_write_but_warnings(view: JobView) -> None:
    decision = decide(view, NOW)
    assert decision.actions or all(event.type == "Warning" for event in decision.events)
