"""The Workload of a job: when it is made, kept in step, taken over or let go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from multikueue.api.jobs.job import Job
from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import (
    ADMISSION_GATED_BY_ANNOTATION,
    Workload,
)
from multikueue.jobs.framework.actions import (
    CreateWorkload,
    DeleteWorkload,
    RemoveFinalizer,
    UpdateWorkloadSpec,
)
from multikueue.jobs.framework.nesting import Nested
from multikueue.jobs.framework.priority import Priority, class_marks, workload_class_ref
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.reconciler.decide import JobView, decide
from tests.builders import NOW, WorkloadBuilder, job
from tests.jobs.builders import become, leaving, ours, plain, workload_of
from tests.jobs.reconciler.decisions import (
    ADMITTED,
    FREE,
    HELD,
    HIGH,
    LOW,
    PENDING,
    POD_CLASS,
    RELEASED,
    REMOTE_RUNNING,
    RESERVED,
    START_ON_W1,
    STOP,
    SUCCEEDED,
    UID,
    actions,
    changed,
    kinds,
)

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


def test_a_job_recreated_does_not_use_the_workload_of_the_old_one() -> None:
    recreated = ours().uid("another").build()
    assert kinds(JobView(job=recreated, workloads=(PENDING,))) == ["CreateWorkload"]


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


def test_with_quota_a_changed_job_starts_over() -> None:
    decision = decide(JobView(job=changed(), workloads=(RESERVED,)), NOW)
    assert decision.actions == (DeleteWorkload(RESERVED.key, "uid-wl"),)
    assert [event.reason for event in decision.events] == ["DeletedWorkload"]


def test_a_running_job_that_changed_is_stopped_and_starts_over() -> None:
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
            id="with quota: start over",
        ),
        pytest.param(
            JobView(job=ours().queue("other").build(), workloads=(RESERVED,), has_local_queue=False),
            [],
            id="with quota, to a queue that is not there: keep the quota",
        ),
        pytest.param(
            JobView(job=ours().queue("other").suspended(False).build(), workloads=(ADMITTED,)),
            [],
            id="running: not now",
        ),
        pytest.param(
            JobView(job=ours().queue("other").build(), workloads=(PENDING,), has_local_queue=False),
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
    marks: dict[str, str | None] = dict.fromkeys(class_marks(had)) | class_marks(has)
    metadata: dict[str, Any] = {"resourceVersion": "7", **({"annotations": marks} if marks else {})}
    assert found == ((UpdateWorkloadSpec(seen.key, {"metadata": metadata, "spec": spec}),) if follows else ())


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
