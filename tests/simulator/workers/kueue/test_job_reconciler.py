"""What a worker's Kueue decides about a job: one file, the table of its branches."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fakekube.server.patching.patches import merge_patch
from multikueue.api.jobs.job import Job
from multikueue.api.kueue.queues import ResourceFlavor, ResourceFlavorSpec, Toleration
from multikueue.api.kueue.workload import (
    PREBUILT_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    Admission,
    AdmissionCheckState,
    Finish,
    PodSetAssignment,
    PriorityClassRef,
    Workload,
)
from multikueue.api.meta import OwnerReference, encode
from multikueue.jobs.framework.actions import (
    CreateWorkload,
    DeleteWorkload,
    PatchJob,
    PatchJobStatus,
    RemoveFinalizer,
    UpdateWorkloadSpec,
)
from multikueue.jobs.framework.priority import Priority, workload_class_ref
from multikueue_simulator.workers.kueue.job_reconciler import JobView, decide, ending, is_stopped, let_go
from tests.builders import JobBuilder, flavor, job
from tests.jobs.builders import become, plain, stored, tree, with_spec, with_status, workload_of

FLAVORS = {
    "default": msgspec.structs.replace(
        flavor("default").build(),
        spec=ResourceFlavorSpec(
            node_labels={"pool": "blue"}, tolerations=(Toleration(key="blue", operator="Exists", effect="NoSchedule"),)
        ),
    )
}


def builder(name: str = "j") -> JobBuilder:
    return job(name).queue("main").request(cpu=1)


def as_stored(seen: Job) -> Job:
    """As the API server shows it: a template always has metadata."""
    template = tree(seen.spec)["template"]
    return with_spec(seen, template={"metadata": {"labels": {"job-name": seen.metadata.name}}, **template})


def given(seen: Workload) -> Workload:
    """The workload with quota in the default flavor."""
    assignment = PodSetAssignment(name="main", flavors={"cpu": "default"}, resource_usage={"cpu": "1"}, count=1)
    admission = Admission(cluster_queue="cq", pod_set_assignments=(assignment,))
    seen = become(seen, lambda w: w.reserved())
    return msgspec.structs.replace(seen, status=msgspec.structs.replace(seen.status, admission=admission))


HELD = as_stored(builder().suspended().build())
FREE = as_stored(builder().suspended(False).build())
WIDE = with_spec(HELD, parallelism=3, completions=3)
PENDING = workload_of(HELD)
RESERVED = given(PENDING)
ADMITTED = become(RESERVED, lambda w: w.admitted())
EVICTED = become(ADMITTED, lambda w: w.evicted(message="Preempted to accommodate a workload"))
UID = HELD.metadata.uid


def view(seen: Job, *owned: Workload, **more: Any) -> JobView:
    return JobView(job=seen, owned=owned, **{"flavors": FLAVORS} | more)


def kinds(seen: JobView) -> list[str]:
    return [type(action).__name__ for action in decide(seen)]


def labelled(seen: Job, **labels: str) -> Job:
    """The job with these labels too."""
    meta = msgspec.structs.replace(seen.metadata, labels=seen.metadata.labels | labels)
    return msgspec.structs.replace(seen, metadata=meta)


def with_meta(seen: Any, **meta: Any) -> Any:
    return msgspec.structs.replace(seen, metadata=msgspec.structs.replace(seen.metadata, **meta))


def applied(seen: Job, patch: PatchJob | PatchJobStatus) -> Job:
    """The job after that merge patch."""
    return msgspec.json.decode(encode(merge_patch(plain(seen), plain(patch.patch))), type=Job)


# --- jobs whose workload Kueue makes ---------------------------------------------------------------------------------


def test_a_job_gets_a_workload() -> None:
    (action,) = decide(view(HELD))
    assert isinstance(action, CreateWorkload)
    assert stored(action.body).key == PENDING.key


def test_a_job_without_a_queue_is_none_of_kueues() -> None:
    assert decide(view(with_meta(FREE, labels={}))) == ()


def test_a_running_job_is_stopped_before_it_gets_one() -> None:
    seen = with_status(FREE, {"active": 1, "startTime": "2026-01-01T00:00:00Z"})
    stop, clear, unmark = decide(view(seen))
    assert stop == PatchJob(
        {
            "metadata": {
                "uid": UID,
                "resourceVersion": "1",  # refused if it has a start by now that must be taken back
                "annotations": {"kueue.x-k8s.io/stopping": "true"},
            },
            "spec": {"suspend": True},
        }
    )
    assert clear == PatchJobStatus({"metadata": {"uid": UID}, "status": {"startTime": None}})
    assert unmark == PatchJob({"metadata": {"uid": UID, "annotations": {"kueue.x-k8s.io/stopping": None}}})


def test_while_its_pods_end_it_gets_none_yet() -> None:
    assert decide(view(with_status(HELD, {"active": 1}))) == ()


def test_a_job_whose_class_is_missing_waits() -> None:
    assert decide(view(HELD, priority=lambda: "WorkloadPriorityClass missing")) == ()


def test_a_workload_that_describes_another_job_is_rewritten_as_long_as_it_waits() -> None:
    (action,) = decide(view(WIDE, PENDING))
    assert isinstance(action, UpdateWorkloadSpec)
    assert plain(action.patch)["spec"]["podSets"][0]["count"] == 3


def test_it_is_replaced_once_it_has_quota() -> None:
    leaving = with_meta(RESERVED, finalizers=("kueue.x-k8s.io/resource-in-use",))
    seen = view(WIDE, leaving)
    assert kinds(seen) == ["RemoveFinalizer", "DeleteWorkload"]
    assert decide(seen)[1] == DeleteWorkload(RESERVED.key, RESERVED.metadata.uid)


def test_a_second_workload_is_deleted() -> None:
    other = with_meta(PENDING, name="z-copy")
    assert [
        action.key.name for action in decide(view(HELD, other, ADMITTED)) if isinstance(action, DeleteWorkload)
    ] == ["z-copy"]


def test_another_priority_class_is_taken_over() -> None:
    seen = labelled(HELD, **{PRIORITY_CLASS_LABEL: "urgent"})
    priority = Priority(7, workload_class_ref("urgent"))
    (action,) = decide(view(seen, RESERVED, priority=lambda: priority))
    assert isinstance(action, UpdateWorkloadSpec)
    assert plain(action.patch)["spec"]["priority"] == 7


def test_a_class_of_pods_stays() -> None:
    ref = PriorityClassRef(group="scheduling.k8s.io", kind="PriorityClass", name="high")
    known = stored(plain(_with_class(ref)))
    assert decide(view(HELD, known, priority=lambda: pytest.fail("nobody needs to know"))) == ()


def _with_class(ref: PriorityClassRef) -> dict[str, Any]:
    body: dict[str, Any] = plain(PENDING)
    body["spec"] |= {"priorityClassRef": plain(ref), "priority": 5}
    return body


# --- starting --------------------------------------------------------------------------------------------------------


def test_an_admitted_job_starts_with_what_its_flavor_demands() -> None:
    (action,) = decide(view(HELD, ADMITTED))
    assert isinstance(action, PatchJob)
    assert plain(action.patch) == {
        "metadata": {"uid": UID, "resourceVersion": HELD.metadata.resource_version},
        "spec": {
            "suspend": False,
            "template": {
                "metadata": {
                    "labels": {
                        "kueue.x-k8s.io/podset": "main",
                        "kueue.x-k8s.io/local-queue-name": "main",
                        "kueue.x-k8s.io/cluster-queue-name": "cq",
                    },
                    "annotations": {"kueue.x-k8s.io/workload": ADMITTED.metadata.name},
                },
                "spec": {
                    "nodeSelector": {"pool": "blue"},
                    "tolerations": [{"key": "blue", "operator": "Exists", "effect": "NoSchedule"}],
                },
            },
        },
    }


def test_what_its_pods_have_already_stays() -> None:
    template = tree(HELD.spec)["template"]
    template["spec"] |= {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "own"}]}
    seen = with_spec(HELD, template=template)
    (action,) = decide(view(seen, become(given(workload_of(seen)), lambda w: w.admitted())))
    assert isinstance(action, PatchJob)
    spec = tree(applied(seen, action).spec)["template"]["spec"]
    assert spec["nodeSelector"] == {"zone": "a", "pool": "blue"}
    assert [t["key"] for t in spec["tolerations"]] == ["own", "blue"]


def test_a_check_may_change_the_pods_too() -> None:
    update = {"name": "main", "labels": {"rack": "7"}, "annotations": {"a": "b"}, "nodeSelector": {"rack": "7"}}
    (action,) = decide(view(HELD, _told(ADMITTED, update)))
    assert isinstance(action, PatchJob)
    template = plain(action.patch)["spec"]["template"]
    assert template["metadata"]["labels"]["rack"] == "7"
    assert template["metadata"]["annotations"]["a"] == "b"
    assert template["spec"]["nodeSelector"] == {"pool": "blue", "rack": "7"}


def _told(seen: Workload, *updates: dict[str, Any]) -> Workload:
    checks = tuple(
        AdmissionCheckState(name=f"check{n}", state="Ready", message="", pod_set_updates=msgspec.Raw(encode([update])))
        for n, update in enumerate(updates)
    )
    return msgspec.structs.replace(seen, status=msgspec.structs.replace(seen.status, admission_checks=checks))


@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        pytest.param(
            [{"name": "main", "nodeSelector": {"pool": "red"}}],
            'in admission check "check0": invalid admission check PodSetUpdate: '
            "conflict for nodeSelector: conflict for key=pool, value1=blue, value2=red",
            id="a check against the flavor",
        ),
        pytest.param(
            [{"name": "main", "labels": {"rack": "7"}}, {"name": "main", "labels": {"rack": "8"}}],
            'in admission check "check1": invalid admission check PodSetUpdate: '
            "conflict for labels: conflict for key=rack, value1=7, value2=8",
            id="a check against another",
        ),
    ],
)
def test_demands_that_exclude_each_other_end_the_workload(updates: list[dict[str, Any]], expected: str) -> None:
    contradicting = _told(ADMITTED, *updates)
    assert decide(view(HELD, contradicting)) == ()
    assert ending(contradicting, HELD, FLAVORS) == Finish(reason="FailedToStart", message=expected)


def test_demands_against_the_users_own_wish_end_the_workload() -> None:
    template = tree(HELD.spec)["template"]
    template["spec"] |= {"nodeSelector": {"pool": "red"}}
    seen = with_spec(HELD, template=template)
    finish = ending(become(given(workload_of(seen)), lambda w: w.admitted()), seen, FLAVORS)
    assert finish is not None
    assert finish.reason == "FailedToStart"


def test_a_job_that_runs_as_it_should_is_let_run() -> None:
    (action,) = decide(view(HELD, ADMITTED))
    assert isinstance(action, PatchJob)
    assert decide(view(applied(HELD, action), ADMITTED)) == ()


# --- stopping --------------------------------------------------------------------------------------------------------


def running(start: PatchJob) -> Job:
    return with_status(applied(HELD, start), {"active": 1, "startTime": "2026-01-01T00:00:00Z"})


def stopped(seen: Job, held: JobView) -> Job:
    """The job after what is done for it in that view."""
    for action in decide(held):
        assert isinstance(action, PatchJob | PatchJobStatus)
        seen = applied(seen, action)
    return seen


@pytest.fixture
def started() -> Job:
    (start,) = decide(view(HELD, ADMITTED))
    assert isinstance(start, PatchJob)
    return running(start)


def test_an_evicted_job_is_as_it_was_before(started: Job) -> None:
    seen = stopped(started, view(started, EVICTED))
    assert tree(seen.spec) == tree(HELD.spec)
    assert seen.metadata.annotations == HELD.metadata.annotations
    assert "startTime" not in tree(seen.status)


def test_a_job_that_runs_without_leave_is_stopped() -> None:
    seen = stopped(FREE, view(FREE, RESERVED))
    assert tree(seen.spec) == tree(HELD.spec)


def test_a_stop_that_was_cut_short_is_brought_to_its_end(started: Job) -> None:
    first = decide(view(started, EVICTED))[0]
    assert isinstance(first, PatchJob)
    half = applied(started, first)
    seen = stopped(half, view(half, EVICTED))
    assert tree(seen.spec) == tree(HELD.spec)
    assert decide(view(with_status(seen, {}), EVICTED)) == ()


def test_it_is_stopped_only_once_it_is_as_it_was_before(started: Job) -> None:
    """Until then its Workload keeps its quota: without, it would be compared with what the start made of the job."""
    assert not is_stopped(started, EVICTED)
    first = decide(view(started, EVICTED))[0]
    assert isinstance(first, PatchJob)
    assert not is_stopped(applied(started, first), EVICTED)
    assert is_stopped(stopped(started, view(started, EVICTED)), EVICTED)
    assert is_stopped(with_status(FREE, plain(builder().complete().build())["status"]), EVICTED)


def test_a_waiting_job_is_left_in_peace() -> None:
    assert decide(view(HELD, PENDING)) == ()
    assert decide(view(HELD, RESERVED)) == ()


def test_a_waiting_job_may_change_queues() -> None:
    (action,) = decide(view(labelled(HELD, **{QUEUE_LABEL: "other"}), PENDING))
    assert isinstance(action, UpdateWorkloadSpec)
    assert action.patch["spec"] == {"queueName": "other"}


# --- the end ---------------------------------------------------------------------------------------------------------


def test_how_a_job_ended_is_how_its_workload_ends() -> None:
    assert ending(ADMITTED, HELD, FLAVORS) is None
    over = with_status(FREE, plain(builder().complete().build())["status"])
    finish = ending(ADMITTED, over, FLAVORS)
    assert finish == Finish(reason="Succeeded", message="Reached expected number of succeeded pods")
    assert ending(ADMITTED, None, FLAVORS) is None


def test_a_finished_workload_is_let_go() -> None:
    over = with_meta(become(ADMITTED, lambda w: w.finished()), finalizers=("kueue.x-k8s.io/resource-in-use",))
    assert decide(view(with_status(FREE, plain(builder().complete().build())["status"]), over)) == (
        RemoveFinalizer(over.key),
    )


def test_a_deleted_job_lets_its_workloads_go() -> None:
    kept = with_meta(ADMITTED, finalizers=("kueue.x-k8s.io/resource-in-use",))
    leaving = with_meta(HELD, deletion_timestamp=HELD.metadata.creation_timestamp)
    assert decide(view(leaving, kept)) == (RemoveFinalizer(kept.key),) == let_go([kept])


def test_a_deleted_workload_stops_its_job() -> None:
    leaving = with_meta(
        ADMITTED,
        deletion_timestamp=HELD.metadata.creation_timestamp,
        finalizers=("kueue.x-k8s.io/resource-in-use",),
    )
    assert kinds(view(FREE, leaving)) == ["PatchJob", "PatchJob", "RemoveFinalizer"]


# --- workloads made by others ----------------------------------------------------------------------------------------

GUEST = labelled(HELD, **{PREBUILT_LABEL: "copy"})


def copy_of(seen: Job, *, owner: str = "") -> Workload:
    owners = (
        (OwnerReference(api_version="batch/v1", kind="Job", name="j", uid=owner, controller=True),) if owner else ()
    )
    found: Workload = with_meta(workload_of(seen), name="copy", owner_references=owners)
    return found


def test_a_prebuilt_workload_is_adopted() -> None:
    (action,) = decide(view(GUEST, named=copy_of(HELD)))
    assert isinstance(action, UpdateWorkloadSpec)
    meta = plain(action.patch)["metadata"]
    assert [(owner["name"], owner["controller"]) for owner in meta["ownerReferences"]] == [("j", True)]
    assert meta["labels"] == {"kueue.x-k8s.io/job-uid": UID}


def test_an_adopted_one_starts_its_job() -> None:
    admitted = become(given(copy_of(HELD, owner=UID)), lambda w: w.admitted())
    assert kinds(view(GUEST, admitted, named=admitted)) == ["PatchJob"]


@pytest.mark.parametrize(
    "named",
    [
        pytest.param(None, id="not there"),
        pytest.param(copy_of(HELD, owner="another"), id="of another job"),
        pytest.param(copy_of(WIDE, owner=UID), id="of another shape"),
    ],
)
def test_without_its_workload_a_job_is_held_and_no_other_one_made(named: Workload | None) -> None:
    assert decide(view(GUEST, named=named)) == ()
    free = labelled(FREE, **{PREBUILT_LABEL: "copy"})
    assert kinds(view(free, named=named)) == ["PatchJob", "PatchJob"]


def test_a_prebuilt_workload_that_does_not_fit_its_job_ends() -> None:
    wrong = copy_of(WIDE, owner=UID)
    finish = ending(wrong, GUEST, FLAVORS)
    assert finish is not None
    assert (finish.reason, finish.message) == ("OutOfSync", "The prebuilt workload is out of sync with its user job")


def test_one_that_another_name_is_on_does_not() -> None:
    assert ending(workload_of(WIDE), GUEST, FLAVORS) is None


def test_a_job_waits_for_a_flavor_that_is_gone() -> None:
    none: dict[str, ResourceFlavor] = {}
    assert decide(view(HELD, ADMITTED, flavors=none)) == ()
    assert ending(ADMITTED, HELD, none) is None
