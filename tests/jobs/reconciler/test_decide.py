from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.patching.patches import merge_patch
from multikueue.api.event import Event
from multikueue.api.job import Job
from multikueue.api.meta import decoder, encode
from multikueue.api.workload import (
    ADMISSION_GATED_BY_ANNOTATION,
    CLUSTER_LABEL,
    UNDISPATCHABLE_ANNOTATION,
    PriorityClassRef,
    Workload,
    workload_spec,
)
from multikueue.jobs.batch_job.adapter import BATCH_JOB
from multikueue.jobs.framework.actions import (
    Action,
    CreateWorkload,
    DeleteWorkload,
    JobDecision,
    PatchJob,
    PatchJobStatus,
    PatchWorkloadStatus,
    RemoveFinalizer,
    UpdateWorkloadSpec,
)
from multikueue.jobs.framework.nesting import Nested
from multikueue.jobs.framework.priority import Priority, workload_class_ref
from multikueue.jobs.reconciler.decide import JobView, decide, mirror, resolve_priority
from multikueue.testing import NOW, JobBuilder, WorkloadBuilder, flavor, job, workload_priority_class
from tests.jobs import places
from tests.jobs.builders import Tree, become, leaving, ours, plain, stored, tree, with_spec, with_status, workload_of

UID = "uid-job-default-j"
HELD = ours().build()
FREE = ours().suspended(False).build()
PENDING = workload_of(HELD)
RESERVED = become(PENDING, lambda w: w.reserved().cluster_name("w1"))
ADMITTED = become(RESERVED, lambda w: w.admitted())
EVICTED = become(ADMITTED, lambda w: w.evicted(message="Preempted to accommodate a workload"))
SUCCEEDED = become(ADMITTED, lambda w: w.finished(message="Job finished successfully"))
FAILED = become(ADMITTED, lambda w: w.finished("Failed", message="Job has reached the specified backoff limit"))
RELEASED = become(EVICTED, lambda w: w.unreserved())
START = PatchJob(
    {"metadata": {"uid": UID, "resourceVersion": HELD.metadata.resource_version}, "spec": {"suspend": False}}
)
START_ON_W1 = PatchJob(START.patch | {"metadata": START.patch["metadata"] | {"labels": {CLUSTER_LABEL: "w1"}}})
STOP = PatchJob({"metadata": {"uid": UID}, "spec": {"suspend": True}})
REMOTE_RUNNING = job("j").running(active=1).build()
REMOTE_COMPLETE = job("j").running().complete().build()


def actions(view: JobView) -> tuple[Action, ...]:
    return decide(view, NOW).actions


def kinds(view: JobView) -> list[str]:
    return [type(action).__name__ for action in actions(view)]


def status_written(view: JobView) -> Tree:
    """The status fields of the one action there must be."""
    (action,) = actions(view)
    assert isinstance(action, PatchJobStatus)
    written: Tree = plain(action.patch["status"])
    return written


# --- whose it is -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(JobView(job=job("j").build()), id="a job without a queue"),
        pytest.param(JobView(job=ours().deleted().build(), workloads=(PENDING,)), id="a job being deleted"),
        pytest.param(JobView(job=ours().running().complete().build()), id="a finished job"),
        pytest.param(
            JobView(job=FREE, workloads=(SUCCEEDED,), remote=REMOTE_RUNNING),
            id="a job whose Workload is finished and whose copy may still tell how it ends",
        ),
        pytest.param(
            JobView(job=HELD, workloads=(become(ADMITTED, lambda w: w.finished("OutOfSync")),)),
            id="a job whose Workload is finished, but not because it ended",
        ),
        pytest.param(JobView(job=HELD, workloads=(PENDING,)), id="a job that waits for quota"),
        pytest.param(JobView(job=HELD, workloads=(RESERVED,)), id="a job that waits for a worker"),
        pytest.param(JobView(job=FREE, workloads=(ADMITTED,)), id="a job that is about to run elsewhere"),
        pytest.param(JobView(job=HELD, workloads=(RELEASED,)), id="a job that waits for its next attempt"),
    ],
)
def test_nothing_to_do(view: JobView) -> None:
    assert (actions(view), decide(view, NOW).events) == ((), ())


# --- jobs that belong to others --------------------------------------------------------------------------------------

SUSPENDED = Event("Normal", "Suspended", "The job it belongs to is not admitted")
DOOMED = DeleteWorkload(PENDING.key, PENDING.metadata.uid)
LEAVING = leaving(PENDING)


@pytest.mark.parametrize("free", [FREE, job("j").build()], ids=["in a queue", "in none"])
def test_a_job_is_held_until_the_one_it_belongs_to_is_admitted(free: Job) -> None:
    decision = decide(JobView(job=free, nested=Nested.WAITING), NOW)
    assert (decision.actions, decision.events) == ((STOP,), (SUSPENDED,))


@pytest.mark.parametrize(
    ("held", "nested"),
    [
        (HELD, Nested.WAITING),
        (HELD, Nested.ADMITTED),
        (FREE, Nested.ADMITTED),
        (FREE, Nested.UNSEEN),
        (ours().suspended(False).complete().build(), Nested.WAITING),
        (ours().suspended(False).deleted().build(), Nested.WAITING),
    ],
    ids=["held", "to be let go by whoever made it", "running", "of one that is not seen", "over", "leaving"],
)
def test_what_belongs_to_another_one_gets_no_workload_and_is_not_started(held: Job, nested: Nested) -> None:
    decision = decide(JobView(job=held, nested=nested), NOW)
    assert (decision.actions, decision.events) == ((), ())


def test_a_line_that_is_too_long_is_told_of() -> None:
    decision = decide(JobView(job=FREE, nested=Nested.TOO_DEEP), NOW)
    assert (decision.actions, [event.reason for event in decision.events]) == ((), ["JobNestingTooDeep"])


@pytest.mark.parametrize("nested", [Nested.WAITING, Nested.ADMITTED])
def test_the_workload_from_before_it_belonged_to_another_one_goes(nested: Nested) -> None:
    assert actions(JobView(job=HELD, workloads=(PENDING,), nested=nested)) == (DOOMED,)
    assert actions(JobView(job=HELD, workloads=(LEAVING,), nested=nested)) == (RemoveFinalizer(PENDING.key),)


def test_that_workload_is_not_let_go_while_the_job_may_run() -> None:
    assert actions(JobView(job=FREE, workloads=(LEAVING,), nested=Nested.ADMITTED)) == ()
    waiting = decide(JobView(job=HELD, workloads=(LEAVING,), nested=Nested.WAITING, may_run=True), NOW)
    assert RemoveFinalizer(PENDING.key) not in waiting.actions
    assert waiting.again_after is not None


def test_a_workload_that_the_user_made_stays() -> None:
    named = ours().prebuilt(PENDING.metadata.name).build()
    assert actions(JobView(job=named, workloads=(PENDING,), nested=Nested.WAITING)) == ()


# --- making the Workload ---------------------------------------------------------------------------------------------


def test_a_new_job_gets_its_workload() -> None:
    priority = Priority(5, workload_class_ref("urgent"))
    (action,) = actions(JobView(job=HELD, priority=priority))
    assert action == CreateWorkload(BATCH_JOB.workload_body(HELD, priority=priority))


def test_an_unsuspended_job_is_stopped_and_gets_its_workload() -> None:
    decision = decide(JobView(job=FREE), NOW)
    assert decision.actions == (STOP, CreateWorkload(BATCH_JOB.workload_body(FREE, priority=Priority())))
    assert decision.events == (Event("Normal", "Stopped", "Missing Workload"),)


def test_a_new_workload_gets_the_labels_that_are_asked_for() -> None:
    labelled = ours().labels(team="a", other="b").build()
    (action,) = actions(JobView(job=labelled, label_keys=("team",)))
    assert isinstance(action, CreateWorkload)
    expected = BATCH_JOB.workload_body(labelled, priority=Priority())["metadata"]["labels"] | {"team": "a"}
    assert action.body["metadata"]["labels"] == expected


def test_labels_that_change_later_change_nothing() -> None:
    labelled = ours().labels(team="a").build()
    assert actions(JobView(job=labelled, workloads=(PENDING,), label_keys=("team",))) == ()


def test_a_job_made_anew_does_not_use_the_workload_of_the_old_one() -> None:
    anew = ours().uid("another").build()
    assert kinds(JobView(job=anew, workloads=(PENDING,))) == ["CreateWorkload"]


def test_a_missing_priority_class_is_said_and_looked_for_again() -> None:
    decision = decide(JobView(job=HELD, priority='WorkloadPriorityClass "x" not found'), NOW)
    assert decision.actions == ()
    assert decision.events == (Event("Warning", "PriorityNotFound", 'WorkloadPriorityClass "x" not found'),)
    assert decision.again_after == timedelta(minutes=1)


def test_a_missing_priority_class_does_not_disturb_what_runs() -> None:
    assert decide(JobView(job=FREE, workloads=(ADMITTED,), priority="not found"), NOW).events == ()


def test_no_workload_while_pods_of_the_last_run_are_left() -> None:
    local = ours().running().build()
    assert kinds(JobView(job=local, remote=REMOTE_RUNNING)) == []
    assert kinds(JobView(job=local)) == ["PatchJobStatus"]
    assert kinds(JobView(job=HELD)) == ["CreateWorkload"]


# --- keeping it in step ----------------------------------------------------------------------------------------------


def changed(builder: JobBuilder | None = None) -> Job:
    return (builder or ours()).parallelism(3).completions(3).build()


def test_a_suspended_job_that_changed_updates_its_workload_in_place() -> None:
    decision = decide(JobView(job=changed(), workloads=(PENDING,), priority=Priority(9)), NOW)
    (action,) = decision.actions
    assert isinstance(action, UpdateWorkloadSpec)
    assert action.patch["metadata"] == {"resourceVersion": "7"}
    spec = action.patch["spec"]
    assert (spec["podSets"][0]["count"], spec["priority"]) == (3, 9)
    assert (spec["maximumExecutionTimeSeconds"], spec["priorityClassRef"]) == (None, None)
    assert "active" not in spec
    assert [event.reason for event in decision.events] == ["UpdatedWorkload"]


def test_with_quota_a_changed_job_begins_anew() -> None:
    decision = decide(JobView(job=changed(), workloads=(RESERVED,)), NOW)
    assert decision.actions == (DeleteWorkload(RESERVED.key, "uid-wl"),)
    assert [event.reason for event in decision.events] == ["DeletedWorkload"]


def test_a_running_job_that_changed_is_stopped_and_begins_anew() -> None:
    view = JobView(job=changed(ours().suspended(False)), workloads=(ADMITTED,))
    assert actions(view) == (STOP, DeleteWorkload(ADMITTED.key, "uid-wl"))


def test_of_several_workloads_the_matching_one_is_kept() -> None:
    other = msgspec.structs.replace(
        PENDING, metadata=msgspec.structs.replace(PENDING.metadata, name="other", uid="uid-other")
    )
    odd = msgspec.structs.replace(other, spec=workload_of(changed()).spec)
    decision = decide(JobView(job=HELD, workloads=(odd, PENDING)), NOW)
    assert decision.actions == (DeleteWorkload(odd.key, "uid-other"),)
    reserved = become(other, lambda w: w.reserved())
    assert actions(JobView(job=HELD, workloads=(PENDING, reserved))) == (DeleteWorkload(PENDING.key, "uid-wl"),)


GATES = {
    "one of two is open": ({ADMISSION_GATED_BY_ANNOTATION: "example.com/b"}, "example.com/b"),
    "all are open": ({}, None),
}


@pytest.mark.parametrize(("annotations", "left"), GATES.values(), ids=GATES)
def test_the_gates_of_a_workload_open_with_those_of_its_job(annotations: dict[str, str], left: str | None) -> None:
    gated = ours().annotations({ADMISSION_GATED_BY_ANNOTATION: "example.com/a,example.com/b"}).build()
    pending = workload_of(gated)
    assert actions(JobView(job=gated, workloads=(pending,))) == ()

    (action,) = actions(JobView(job=ours().annotations(annotations).build(), workloads=(pending,)))

    changed = {"resourceVersion": "7", "annotations": {ADMISSION_GATED_BY_ANNOTATION: left}}
    assert action == UpdateWorkloadSpec(pending.key, {"metadata": changed, "spec": {}})


def test_a_job_gets_no_gates_later() -> None:
    late = ours().annotations({ADMISSION_GATED_BY_ANNOTATION: "example.com/a"}).build()
    assert actions(JobView(job=late, workloads=(PENDING,))) == ()


def test_a_suspended_job_changes_its_queue() -> None:
    moved = ours().queue("other").build()
    (action,) = actions(JobView(job=moved, workloads=(PENDING,)))
    assert action == UpdateWorkloadSpec(
        PENDING.key, {"metadata": {"resourceVersion": "7"}, "spec": {"queueName": "other"}}
    )


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(
            JobView(job=ours().queue("other").build(), workloads=(RESERVED,)),
            ["DeleteWorkload"],
            id="with quota: begin anew",
        ),
        pytest.param(
            JobView(job=ours().queue("other").build(), workloads=(RESERVED,), local_queue_exists=False),
            [],
            id="with quota, to a queue that is not there: keep the quota",
        ),
        pytest.param(
            JobView(job=ours().queue("other").suspended(False).build(), workloads=(ADMITTED,)),
            [],
            id="running: not now",
        ),
        pytest.param(
            JobView(job=ours().queue("other").build(), workloads=(PENDING,), local_queue_exists=False),
            ["UpdateWorkloadSpec"],
            id="pending, to a queue that is not there: wait there",
        ),
        pytest.param(
            JobView(job=ours().queue("other").suspended(False).build(), workloads=(RESERVED,)),
            ["PatchJob"],
            id="running without leave: stopped first",
        ),
    ],
)
def test_changing_queues(view: JobView, expected: list[str]) -> None:
    assert kinds(view) == expected


LOW, HIGH = Priority(1, workload_class_ref("low")), Priority(2, workload_class_ref("high"))
POD_CLASS = Priority(3, PriorityClassRef(group="scheduling.k8s.io", kind="PriorityClass", name="p"))


@pytest.mark.parametrize(
    ("had", "reserved", "has", "follows"),
    [
        pytest.param(LOW, False, HIGH, True, id="another class"),
        pytest.param(LOW, True, HIGH, True, id="another class, with quota"),
        pytest.param(LOW, True, replace(LOW, value=5), False, id="the class got another value: the Workload's affair"),
        pytest.param(Priority(), False, HIGH, True, id="a class appears"),
        pytest.param(LOW, False, Priority(), True, id="a class goes"),
        pytest.param(Priority(), True, HIGH, False, id="a class appears with quota: refused by the server"),
        pytest.param(LOW, True, Priority(), False, id="a class goes with quota: refused by the server"),
        pytest.param(POD_CLASS, False, HIGH, False, id="the class is the pods'"),
        pytest.param(Priority(), False, POD_CLASS, False, id="a default of the cluster appears later"),
        pytest.param(LOW, False, LOW, False, id="nothing changed"),
    ],
)
def test_following_the_priority(had: Priority, reserved: bool, has: Priority, follows: bool) -> None:
    seen = workload_of(HELD, priority=had)
    seen = become(seen, lambda w: w.reserved()) if reserved else seen
    found = actions(JobView(job=HELD, workloads=(seen,), priority=has))
    spec = {"priorityClassRef": has.class_ref, "priority": has.value}
    patch = {"metadata": {"resourceVersion": "7"}, "spec": spec}
    assert found == ((UpdateWorkloadSpec(seen.key, patch),) if follows else ())


STOPPED = ours().running(active=2).build()


# --- running ---------------------------------------------------------------------------------------------------------


def test_admitted_and_suspended_starts() -> None:
    assert actions(JobView(job=HELD, workloads=(ADMITTED,))) == (START_ON_W1,)


def test_a_job_that_was_admitted_before_its_queue_had_a_check_starts_once_a_worker_has_it() -> None:
    admitted = become(PENDING, lambda w: w.reserved().admitted())
    assert actions(JobView(job=HELD, workloads=(admitted,), dispatched=True)) == ()
    won = become(admitted, lambda w: w.cluster_name("w1"))
    assert actions(JobView(job=HELD, workloads=(won,), dispatched=True)) == (START_ON_W1,)


@pytest.mark.parametrize(
    ("workload", "why"),
    [
        pytest.param(PENDING, "Not admitted by cluster queue", id="without quota"),
        pytest.param(RESERVED, "Not admitted by cluster queue", id="not admitted yet"),
        pytest.param(EVICTED, "Preempted to accommodate a workload", id="evicted"),
        pytest.param(become(ADMITTED, lambda w: w.deleted()), "Workload is deleted", id="its Workload is deleted"),
    ],
)
def test_running_without_leave_is_stopped(workload: Workload, why: str) -> None:
    decision = decide(JobView(job=FREE, workloads=(workload,), remote=REMOTE_RUNNING), NOW)
    assert decision.actions == (STOP,)
    assert decision.events == (Event("Normal", "Stopped", why),)


def test_the_status_of_the_winner_is_mirrored() -> None:
    view = JobView(job=FREE, workloads=(ADMITTED,), remote=REMOTE_RUNNING)
    assert status_written(view) == {"active": 1, "startTime": "2026-01-01T12:00:00Z", "conditions": []}


@pytest.mark.parametrize(
    ("way", "local", "workload"),
    [
        pytest.param(decide, FREE, ADMITTED, id="while it runs"),
        pytest.param(decide, STOPPED, EVICTED, id="while it ends on its worker"),
        pytest.param(mirror, FREE, ADMITTED, id="while it runs, beside Kueue"),
        pytest.param(mirror, STOPPED, EVICTED, id="while it ends on its worker, beside Kueue"),
    ],
)
def test_after_a_status_that_is_all_there_is_nothing_to_do(
    way: Callable[[JobView, datetime], JobDecision], local: Job, workload: Workload
) -> None:
    view = JobView(job=local, workloads=(workload,), remote=job("j").running(active=1).build())
    (action,) = way(view, NOW).actions
    assert isinstance(action, PatchJobStatus)
    assert action.is_all
    patched = with_status(local, plain(action.patch["status"]))
    assert way(replace(view, job=patched), NOW).actions == ()


@pytest.mark.parametrize("way", [decide, mirror], ids=["by ourselves", "beside Kueue"])
def test_a_status_that_ends_the_job_is_not_all(way: Callable[[JobView, datetime], JobDecision]) -> None:
    (action,) = way(JobView(job=FREE, workloads=(ADMITTED,), remote=REMOTE_COMPLETE), NOW).actions
    assert isinstance(action, PatchJobStatus)
    assert not action.is_all


def test_a_lost_worker_says_nothing_new() -> None:
    assert actions(JobView(job=FREE, workloads=(ADMITTED,), remote=REMOTE_RUNNING, remote_lost=True)) == ()


@pytest.mark.parametrize(
    ("local", "workload"),
    [
        pytest.param(FREE, ADMITTED, id="as usual"),
        pytest.param(HELD, ADMITTED, id="before the local job was started"),
        pytest.param(HELD, RESERVED, id="before the win was recorded"),
        pytest.param(FREE, EVICTED, id="evicted at the last moment"),
        pytest.param(HELD, RELEASED, id="the quota is released already"),
        pytest.param(FREE, become(ADMITTED, lambda w: w.finished()), id="the Workload was finished first"),
    ],
)
def test_the_result_goes_first(local: Job, workload: Workload) -> None:
    written = status_written(JobView(job=local, workloads=(workload,), remote=REMOTE_COMPLETE))
    assert [c["type"] for c in written["conditions"]] == ["SuccessCriteriaMet", "Complete"]


@pytest.mark.parametrize(
    ("local", "workload", "types"),
    [
        pytest.param(
            FREE, SUCCEEDED, ["SuccessCriteriaMet", "Complete"], id="a success, before the job was seen to run"
        ),
        pytest.param(HELD, SUCCEEDED, ["SuccessCriteriaMet", "Complete"], id="a success, before the job was started"),
        pytest.param(
            ours().running(active=1).build(), FAILED, ["FailureTarget", "Failed"], id="a failure while it ran"
        ),
    ],
)
@pytest.mark.parametrize("way", [decide, mirror], ids=["by ourselves", "beside Kueue"])
def test_a_job_whose_copy_vanished_ends_as_its_workload_says(
    way: Callable[[JobView, datetime], JobDecision], local: Job, workload: Workload, types: list[str]
) -> None:
    (action,) = way(JobView(job=local, workloads=(workload,)), NOW).actions
    assert isinstance(action, PatchJobStatus)
    written = plain(action.patch["status"])
    end = workload.condition("Finished")
    assert end is not None
    assert [(c["type"], c["message"]) for c in written["conditions"]] == [(type_, end.message) for type_ in types]
    assert not written.get("active")
    ended = with_status(local, written)
    assert BATCH_JOB.finished(ended) is not None
    assert way(JobView(job=ended, workloads=(workload,)), NOW).actions == ()


def test_after_an_eviction_the_status_follows_the_remote_down() -> None:
    fewer = job("j").running(active=1).build()
    assert status_written(JobView(job=STOPPED, workloads=(EVICTED,), remote=fewer))["active"] == 1


@pytest.mark.parametrize(
    ("remote", "lost"),
    [
        pytest.param(None, False, id="the remote is gone"),
        pytest.param(job("j").condition("Suspended").build(), False, id="the remote is suspended"),
        pytest.param(REMOTE_RUNNING, True, id="the worker is lost"),
    ],
)
@pytest.mark.parametrize("workload", [EVICTED, RELEASED, PENDING], ids=["evicted", "released", "pending"])
def test_with_nothing_running_the_status_is_reset(remote: Job | None, lost: bool, workload: Workload) -> None:
    view = JobView(job=STOPPED, workloads=(workload,), remote=remote, remote_lost=lost)
    assert status_written(view) == {"active": None, "startTime": None}


def test_a_job_that_runs_here_is_never_written_to() -> None:
    local = job("j").queue("main").suspended().running().build()
    view = JobView(job=local, workloads=(EVICTED,), remote=REMOTE_RUNNING, queue_is_multikueue=False)
    assert actions(view) == ()


def test_a_job_that_runs_here_is_started_and_stopped() -> None:
    held = job("j").queue("main").suspended().build()
    free = job("j").queue("main").build()
    seen = workload_of(held)
    admitted = become(seen, lambda w: w.admitted())
    assert actions(JobView(job=held, workloads=(admitted,), queue_is_multikueue=False)) == (START,)
    assert actions(JobView(job=free, workloads=(seen,), queue_is_multikueue=False)) == (STOP,)


LOCAL = job("j").queue("main").suspended().build()
BLUE = places.admitted(workload_of(LOCAL))


def here(seen: Job, *workloads: Workload, **more: Any) -> JobView:
    """A job of a queue that is not dispatched."""
    found = {"flavors": places.FLAVORS} | more
    return JobView(job=seen, workloads=workloads, queue_is_multikueue=False, dispatched=False, **found)


def test_a_job_that_runs_here_goes_where_its_flavor_is() -> None:
    (action,) = actions(here(LOCAL, BLUE))
    assert isinstance(action, PatchJob)
    assert action.patch["metadata"] == START.patch["metadata"]
    assert action.patch["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "blue"}


@pytest.mark.parametrize(
    "view",
    [
        pytest.param({"dispatched": True}, id="its Workload has our check"),
        pytest.param({"workloads": (become(BLUE, lambda w: w.cluster_name("w1")),)}, id="it has a winner"),
        pytest.param({"job": HELD}, id="it is managed by us, so nothing of it runs here"),
    ],
)
def test_one_that_does_not_run_here_is_told_nothing(view: dict[str, Any]) -> None:
    (action,) = actions(replace(here(LOCAL, BLUE), **view))

    assert isinstance(action, PatchJob)
    assert action.patch["spec"] == START.patch["spec"]


def test_it_waits_for_a_flavor_that_is_missing() -> None:
    decision = decide(here(LOCAL, BLUE, flavors={}), NOW)
    assert (decision.actions, decision.again_after) == ((), timedelta(seconds=5))


def test_it_is_not_started_against_the_demands_of_a_check() -> None:
    contradicting = places.told(BLUE, {"name": "main", "nodeSelector": {"pool": "red"}})
    assert decide(here(LOCAL, contradicting), NOW) == JobDecision()


@pytest.mark.parametrize(
    "workloads",
    [
        pytest.param((become(BLUE, lambda w: w.evicted()),), id="evicted"),
        pytest.param((become(BLUE, lambda w: w.deleted()),), id="its Workload is deleted"),
        pytest.param((workload_of(with_spec(LOCAL, parallelism=2)),), id="changed"),
        pytest.param((), id="its Workload is gone"),
    ],
)
def test_a_job_that_is_stopped_does_not_say_any_more_where_it_ran(workloads: tuple[Workload, ...]) -> None:
    (start,) = actions(here(LOCAL, BLUE))
    assert isinstance(start, PatchJob)
    runs = with_status(places.applied(LOCAL, start.patch), {"startTime": "2026-01-01T12:00:00Z"})
    at_rest = rest(here(runs, *workloads)).view
    found = tree(at_rest.job.spec)["template"]
    assert "annotations" not in found.get("metadata", {})
    assert bool(found["spec"].get("nodeSelector")) is (not workloads)
    (left,) = (tree(w.spec)["podSets"][0]["template"] for w in at_rest.workloads)
    assert "annotations" not in left.get("metadata", {})


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


# --- prebuilt --------------------------------------------------------------------------------------------------------


def prebuilt(change: Callable[[WorkloadBuilder], WorkloadBuilder] = lambda w: w, **metadata: Any) -> Workload:
    named = msgspec.structs.replace(
        PENDING.metadata, **({"name": "mine", "owner_references": (), "labels": {}} | metadata)
    )
    return become(msgspec.structs.replace(PENDING, metadata=named), change)


CLAIMING = ours().prebuilt("mine").build()


def test_a_prebuilt_workload_is_taken_over() -> None:
    (action,) = actions(JobView(job=CLAIMING, workloads=(prebuilt(),)))
    assert isinstance(action, UpdateWorkloadSpec)
    metadata = plain(action.patch)["metadata"]
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == [UID]
    assert metadata["labels"] == {"kueue.x-k8s.io/job-uid": UID}
    assert metadata["resourceVersion"] == "7"


@pytest.mark.parametrize(
    "workloads",
    [
        pytest.param((), id="not there"),
        pytest.param((become(prebuilt(), lambda w: w.owner_job("k")),), id="of another job"),
        pytest.param(
            (become(prebuilt(labels={"x": "y"}), lambda w: w.owner_job("k").admitted()),), id="of another, admitted"
        ),
    ],
)
def test_without_its_prebuilt_workload_a_job_waits(workloads: tuple[Workload, ...]) -> None:
    assert actions(JobView(job=CLAIMING, workloads=workloads)) == ()
    free = ours().prebuilt("mine").suspended(False).build()
    assert actions(JobView(job=free, workloads=workloads)) == (STOP,)


@pytest.mark.parametrize(
    ("claiming", "workloads", "why"),
    [
        pytest.param(CLAIMING, (), "not found", id="not there"),
        pytest.param(
            CLAIMING, (become(prebuilt(), lambda w: w.owner_job("k")),), "belongs to Job k", id="of another job"
        ),
        pytest.param(
            changed(ours().prebuilt("mine")),
            (become(prebuilt(), lambda w: w.owner_job("j")),),
            "out of sync",
            id="of what the job was before",
        ),
    ],
)
def test_a_job_says_why_its_prebuilt_workload_is_of_no_use(
    claiming: Job, workloads: tuple[Workload, ...], why: str
) -> None:
    (event,) = decide(JobView(job=claiming, workloads=workloads), NOW).events
    assert (event.type, event.reason) == ("Warning", "PrebuiltWorkload")
    assert why in event.message


def test_a_prebuilt_workload_starts_its_job_but_is_never_changed() -> None:
    owned = become(prebuilt(), lambda w: w.owner_job("j"))
    admitted = become(owned, lambda w: w.admitted().cluster_name("w1"))
    assert actions(JobView(job=CLAIMING, workloads=(admitted,))) == (START_ON_W1,)
    other = changed(ours().prebuilt("mine"))
    assert actions(JobView(job=other, workloads=(owned,))) == ()
    assert actions(JobView(job=other, workloads=(admitted,))) == ()


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
    (mark,) = actions(JobView(job=HELD, workloads=(PENDING,), undispatched=True))
    assert isinstance(mark, UpdateWorkloadSpec)
    admitted = become(PENDING, lambda w: w.reserved().admitted())
    marked = stored(merge_patch(plain(admitted), plain({"metadata": mark.patch["metadata"]})))
    decision = decide(JobView(job=HELD, workloads=(marked,), undispatched=True), NOW)
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
    (action,) = actions(JobView(job=NOBODYS, workloads=(seen,), queue_is_multikueue=False))
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


# --- coming to rest --------------------------------------------------------------------------------------------------


class Cluster:
    """The manager cluster as far as the decision can see and change it; every write moves the resource version."""

    def __init__(self, view: JobView) -> None:
        self.view, self.writes = view, 0

    def perform(self, action: Action) -> None:
        self.writes += 1
        match action:
            case CreateWorkload(body):
                assert not any(w.metadata.name == body["metadata"]["name"] for w in self.view.workloads), "name taken"
                self._set_workloads(*self.view.workloads, stored(body))
            case UpdateWorkloadSpec(key, patch) | PatchWorkloadStatus(key, patch):
                self._set_workloads(*(self._patched(w, patch) if w.key == key else w for w in self.view.workloads))
            case DeleteWorkload(key, uid):
                self._delete(key, uid)
            case RemoveFinalizer(key):
                self._set_workloads(*(w for w in self.view.workloads if w.key != key))
            case PatchJob(patch) | PatchJobStatus(patch):
                self.view = replace(self.view, job=self._patched(self.view.job, patch))

    def _delete(self, key: Any, uid: str) -> None:
        gone = [w for w in self.view.workloads if w.key == key]
        assert [w.metadata.uid for w in gone] == [uid]
        self._set_workloads(*(become(w, lambda b: b.deleted()) if w.key == key else w for w in self.view.workloads))

    def _set_workloads(self, *workloads: Workload) -> None:
        self.view = replace(self.view, workloads=workloads)

    def _patched(self, value: Any, patch: Tree) -> Any:
        shown, sent = plain(value), plain(patch)
        for name in ("resourceVersion", "uid"):
            if name in sent["metadata"]:
                assert sent["metadata"][name] == shown["metadata"][name], "precondition"
        merged = merge_patch(shown, sent)
        merged["metadata"]["resourceVersion"] = str(self.writes + 100)
        kind: Any = type(value)
        return decoder(kind)(encode(merged))


def rest(view: JobView, *, rounds: int = 12) -> Cluster:
    """The cluster after the decision had its way until it wanted nothing more."""
    cluster = Cluster(view)
    for _ in range(rounds):
        decision = decide(cluster.view, NOW)
        if not decision.actions:
            return cluster
        for action in decision.actions:
            cluster.perform(action)
    raise AssertionError("never comes to rest")


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
PHASES: list[Callable[[WorkloadBuilder], WorkloadBuilder]] = [
    lambda w: w,
    lambda w: w.reserved(),
    lambda w: w.admitted(),
    lambda w: w.admitted().evicted(),
    lambda w: w.admitted().evicted().unreserved(),
    lambda w: w.reserved().deleted(),
    lambda w: w.admitted().finished(),
]


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Workload, ...]:
    """None, one or two Workloads, in any phase, that match some of the jobs."""
    found = []
    for number in range(draw(st.integers(0, 2))):
        made = workload_of(with_spec(HELD, parallelism=draw(st.sampled_from([1, 2])), completions=2))
        name = draw(st.sampled_from([made.metadata.name, "mine"])) if number == 0 else "second"
        metadata = msgspec.structs.replace(made.metadata, name=name, uid=f"uid-{number}")
        seen = msgspec.structs.replace(made, metadata=metadata)
        found.append(become(seen, draw(st.sampled_from(PHASES))))
    return tuple(found)


VIEWS = st.builds(
    JobView,
    job=JOBS,
    workloads=workloads(),
    remote=st.none() | st.sampled_from([with_status(job("j").build(), status) for status in STATUSES]),
    remote_lost=st.booleans(),
    priority=st.sampled_from([Priority(), HIGH, POD_CLASS]),
    queue_is_multikueue=st.booleans(),
    local_queue_exists=st.booleans(),
    dispatched=st.booleans(),
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
    waiting = at_rest.remote is not None and BATCH_JOB.is_active(at_rest.remote) and not at_rest.remote_lost
    unmanaged = BATCH_JOB.unmanaged_reason(at_rest.job) is not None
    if over or not own or waiting or unmanaged:
        return
    (left,) = (w for w in at_rest.workloads if w.metadata.deletion_timestamp is None)
    assert BATCH_JOB.matches(at_rest.job, left)
    assert workload_spec(left).active


@given(view=VIEWS)
def test_nothing_is_said_without_a_write_but_warnings(view: JobView) -> None:
    decision = decide(view, NOW)
    assert decision.actions or all(event.type == "Warning" for event in decision.events)


# --- beside Kueue, which queues, starts and stops ----------------------------------------------------------------------


def mirrored(view: JobView) -> Tree | None:
    """The status fields written, None if nothing is."""
    decided = mirror(view, NOW)
    assert decided.events == ()
    if not decided.actions:
        return None
    (action,) = decided.actions
    assert isinstance(action, PatchJobStatus)
    written: Tree = plain(action.patch["status"])
    return written


STOPPING = ours().running(active=1).build()
"""Suspended by Kueue, with a pod still counted."""


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(JobView(job=HELD), id="a job without a Workload: Kueue makes it"),
        pytest.param(JobView(job=FREE), id="an unsuspended job: Kueue holds it"),
        pytest.param(JobView(job=HELD, workloads=(ADMITTED,)), id="an admitted job: Kueue starts it"),
        pytest.param(JobView(job=FREE, workloads=(EVICTED,)), id="an evicted job: Kueue stops it"),
        pytest.param(JobView(job=job("j").build(), remote=REMOTE_COMPLETE), id="a job that is not ours"),
        pytest.param(JobView(job=ours().deleted().build(), remote=REMOTE_COMPLETE), id="a job being deleted"),
        pytest.param(JobView(job=ours().running().complete().build(), remote=REMOTE_RUNNING), id="a finished job"),
        pytest.param(JobView(job=HELD, remote=REMOTE_RUNNING), id="a held job: a start would freeze its template"),
    ],
)
def test_beside_kueue_nothing_is_done_but_the_status(view: JobView) -> None:
    assert mirrored(view) is None


def test_beside_kueue_the_status_comes_home() -> None:
    written = mirrored(JobView(job=FREE, workloads=(ADMITTED,), remote=REMOTE_RUNNING))
    assert written is not None
    assert written["active"] == 1
    assert written["startTime"]


@pytest.mark.parametrize("local", [pytest.param(HELD, id="held"), pytest.param(FREE, id="free")])
def test_beside_kueue_the_end_comes_home(local: Job) -> None:
    written = mirrored(JobView(job=local, remote=REMOTE_COMPLETE))
    assert written is not None
    assert "Complete" in [c["type"] for c in written["conditions"]]


def test_beside_kueue_a_job_that_was_stopped_tells_when_its_pods_are_gone() -> None:
    assert mirrored(JobView(job=STOPPING, remote=REMOTE_RUNNING)) is None
    written = mirrored(JobView(job=STOPPING, remote=job("j").build()))
    assert written is not None
    assert written["active"] is None


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(JobView(job=STOPPING), id="whose copy is gone"),
        pytest.param(JobView(job=STOPPING, remote=REMOTE_RUNNING, remote_lost=True), id="whose worker is lost"),
    ],
)
def test_beside_kueue_a_stopped_job_has_no_pods_any_more(view: JobView) -> None:
    written = mirrored(view)
    assert written is not None
    assert written["active"] is None


def test_beside_kueue_mirroring_twice_writes_once() -> None:
    written = mirrored(JobView(job=FREE, remote=REMOTE_RUNNING))
    assert written is not None
    assert mirrored(JobView(job=with_status(FREE, written), remote=REMOTE_RUNNING)) is None
