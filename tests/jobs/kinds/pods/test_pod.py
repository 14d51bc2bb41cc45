"""Plain Pods through their adapter, and through the decision on a job that can be held only once."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.jobs.pod import GROUP_ANNOTATION, GROUP_LABEL, MANAGED_LABEL, POD_FINALIZER
from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION, ORIGIN_LABEL, PREBUILT_LABEL, Workload
from multikueue.api.meta import Condition
from multikueue.jobs.framework.actions import CreateWorkload, DeleteJob, PatchJob, PatchJobStatus
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.kinds.pods.pod import PLAIN_POD
from multikueue.jobs.reconciler.decide import JobView, decide, mirror
from tests.builders import NOW, WorkloadBuilder
from tests.jobs.builders import become, leaving, plain, stored, tree
from tests.jobs.kinds.pods.builders import FRESH, OVER, RUNNING, member, pod

Tree = dict[str, Any]


def workload_of(job: Any) -> Workload:
    return stored(PLAIN_POD.workload_body(job, priority=Priority()))


def admitted(job: Any) -> Workload:
    return become(workload_of(job), WorkloadBuilder.admitted)


def status(job: Any, remote: Any) -> Tree | None:
    found = PLAIN_POD.status_to_copy(job, remote)
    return None if found is None else tree(found)


# --- what it is ---


def test_a_workload_has_one_pod_set_with_the_whole_spec() -> None:
    body = plain(PLAIN_POD.workload_body(pod(), priority=Priority()))
    (pod_set,) = body["spec"]["podSets"]

    assert (pod_set["name"], pod_set["count"]) == ("main", 1)
    assert pod_set["template"]["spec"] == tree(pod().spec)
    assert pod_set["topologyRequest"] == {"podIndexLabel": "kueue.x-k8s.io/pod-group-pod-index"}
    assert body["metadata"]["name"].startswith("pod-p-")
    assert body["spec"]["queueName"] == "main"


@pytest.mark.parametrize(
    ("labels", "queue"),
    [({}, "main"), ({MANAGED_LABEL: "false"}, ""), ({GROUP_LABEL: "g"}, "")],
    ids=["held by the webhook", "not marked", "one of a group"],
)
def test_only_what_is_marked_is_ours(labels: Tree, queue: str) -> None:
    assert PLAIN_POD.queue_name(pod(labels=labels)) == queue


def test_one_of_a_group_that_an_annotation_names_is_no_job_by_itself() -> None:
    assert PLAIN_POD.queue_name(member("a", labels={GROUP_LABEL: ""}, annotations={GROUP_ANNOTATION: "g"})) == ""


def test_the_copy_is_held_too_and_lets_its_server_find_its_priority() -> None:
    body = plain(
        PLAIN_POD.remote_body(
            pod(priority=7, preemptionPolicy="Never", priorityClassName="high", nodeSelector={"a": "b"}),
            workload_name="wl",
            origin="here",
            attempt="now",
        )
    )

    kept = {name: value for name, value in tree(pod().spec).items() if name != "priority"}
    assert body["spec"] == kept | {"priorityClassName": "high", "nodeSelector": {"a": "b"}}
    assert body["metadata"]["labels"][ORIGIN_LABEL] == "here"
    assert body["metadata"]["labels"][PREBUILT_LABEL] == "wl"
    assert body["metadata"]["annotations"] == {ATTEMPT_ANNOTATION: "now"}
    assert "finalizers" not in body["metadata"], "the worker's webhook gives its own"


def test_a_workload_of_another_shape_does_not_match() -> None:
    other = pod(containers=[{"name": "main", "image": "y"}])

    assert PLAIN_POD.is_equivalent(pod(), workload_of(pod()))
    assert not PLAIN_POD.is_equivalent(other, workload_of(pod()))
    assert not PLAIN_POD.is_equivalent(pod("q"), workload_of(pod()))


# --- its status ---


def test_the_status_comes_home_whole_with_the_class_of_service_that_is_there() -> None:
    assert status(pod(), pod(gated=False, status=RUNNING | {"qosClass": "Guaranteed"})) == RUNNING
    assert status(pod(status=RUNNING), pod(gated=False, status=RUNNING)) is None


def test_a_copy_that_is_held_has_nothing_to_say_and_nothing_is_said_to_what_is_over() -> None:
    assert status(pod(status=RUNNING), pod()) is None
    assert status(pod(status=OVER), pod(gated=False, status=RUNNING)) is None


def test_that_a_copy_fails_since_it_is_deleted_is_not_the_end() -> None:
    failed = pod(gated=False, status=OVER | {"phase": "Failed"})

    assert status(pod(status=RUNNING), failed) is not None
    assert status(pod(status=RUNNING), leaving(failed)) is None
    assert status(pod(status=RUNNING), leaving(pod(gated=False, status=OVER))) == OVER


def test_that_no_node_is_found_does_not_ask_for_one_at_home() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    copied = status(pod(), pod(gated=False, status=FRESH | {"conditions": [condition]}))

    assert copied is not None
    assert copied["conditions"] == [condition | {"reason": "SchedulingGated"}]


@pytest.mark.parametrize(
    ("given", "finished", "active", "ready"),
    [
        (FRESH, None, False, 0),
        (FRESH | {"conditions": [{"type": "PodScheduled", "status": "True"}]}, None, True, 0),
        (RUNNING, None, True, 1),
        (RUNNING | {"conditions": []}, None, True, 0),
        (OVER, "Succeeded", False, 1),
        (OVER | {"phase": "Failed", "message": "out of memory"}, "Failed", False, 0),
    ],
    ids=["waits", "has a node", "is ready", "runs", "succeeded", "failed"],
)
def test_how_far_it_came(given: Tree, finished: str | None, active: bool, ready: int) -> None:
    end = PLAIN_POD.finished(pod(status=given))

    assert (end and end.reason) == finished
    assert (end.message if end else "") == given.get("message", "")
    assert PLAIN_POD.is_active(pod(status=given)) is active
    assert PLAIN_POD.ready_pods(pod(status=given)) == ready


def test_what_does_not_run_any_more_looks_as_if_it_never_had() -> None:
    patch = PLAIN_POD.reset_status_patch(pod(status=RUNNING))

    assert patch is not None
    assert patch["status"]["phase"] == "Pending"
    assert patch["status"]["startTime"] is None
    assert patch["status"]["containerStatuses"] is None
    assert PLAIN_POD.reset_status_patch(pod()) is None
    assert PLAIN_POD.reset_status_patch(pod(status=OVER)) is None


def test_an_end_that_only_its_workload_tells_is_written_down() -> None:
    end = Condition(type="Finished", status="True", reason="Failed", message="gone")
    told = PLAIN_POD.status_of_end(pod(status=RUNNING), end)

    assert told is not None
    assert tree(told) == RUNNING | {"phase": "Failed", "message": "gone"}


# --- what is done for it ---


def view(job: Any, *workloads: Workload, **more: Any) -> JobView:
    return JobView(job=job, workloads=workloads, **more)


def actions(seen: JobView) -> tuple[Any, ...]:
    return decide(seen, NOW, PLAIN_POD).actions


def test_a_new_one_gets_its_workload() -> None:
    (action,) = actions(view(pod()))

    assert isinstance(action, CreateWorkload)


def test_one_that_is_dispatched_is_held_for_ever() -> None:
    seen = admitted(pod())

    assert actions(view(pod(), seen)) == ()
    assert actions(view(pod(), seen, is_queue_multikueue=False, is_dispatched=True)) == ()


def test_one_whose_queue_is_not_dispatched_is_let_go_here() -> None:
    (action,) = actions(view(pod(), admitted(pod()), is_queue_multikueue=False, is_dispatched=False))

    assert isinstance(action, PatchJob)
    assert action.patch["spec"] == {"schedulingGates": []}


def test_the_status_of_its_copy_comes_home() -> None:
    (action,) = actions(view(pod(), admitted(pod()), remote=pod(gated=False, status=RUNNING)))

    assert isinstance(action, PatchJobStatus)
    assert action.patch["status"]["phase"] == "Running"


def test_one_that_runs_here_is_stopped_by_its_deletion() -> None:
    running = pod(gated=False, status=RUNNING)

    assert actions(view(running, workload_of(running))) == (DeleteJob("uid-p"),)


def test_what_waits_is_not_deleted_but_with_its_workload() -> None:
    seen = workload_of(pod())

    assert actions(view(pod(), seen)) == ()
    assert actions(view(pod(), leaving(seen))) == (DeleteJob("uid-p"),)


@pytest.mark.parametrize(
    "job", [pod(status=OVER), leaving(pod()), leaving(pod(status=OVER))], ids=["over", "being deleted", "both"]
)
def test_what_is_over_or_leaves_is_let_go(job: Any) -> None:
    (action,) = actions(view(job))

    assert isinstance(action, PatchJob)
    assert action.patch["metadata"]["finalizers"] == ["example.com/other"]
    assert POD_FINALIZER in job.metadata.finalizers


def test_what_nobody_queued_is_not_touched() -> None:
    assert actions(view(leaving(pod(labels={MANAGED_LABEL: "false"})))) == ()


def test_beside_a_kueue_that_holds_it_only_its_status_comes_home() -> None:
    there = pod(status=RUNNING, gated=False)
    (told,) = mirror(JobView(job=pod(), remote=there), NOW, PLAIN_POD).actions
    assert isinstance(told, PatchJobStatus)
    assert told.patch["status"]["phase"] == "Running"
    (reset,) = mirror(JobView(job=pod(status=RUNNING)), NOW, PLAIN_POD).actions
    assert isinstance(reset, PatchJobStatus)
    assert reset.patch["status"]["phase"] == "Pending"
