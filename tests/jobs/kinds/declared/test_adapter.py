"""Every declared kind by the same tables, from the Workload to the end: one file, so a new kind is one more row."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.compatibility import Compatibility, Release
from multikueue.api.kueue.workload import Finish
from multikueue.api.meta import Condition, encode
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.integrations.declarations import DECLARATIONS
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.jobs.kinds.declared.declaration import Declaration
from multikueue.jobs.kinds.declared.pod_sets import Pods
from multikueue.jobs.kinds.declared.state_rules import condition
from multikueue.jobs.reconciler.decide import JobView, decide
from multikueue.jobs.trees.paths import keys_of, only, peek
from multikueue.kube.decode import object_of
from multikueue.testing import NOW
from tests.jobs.all_kinds import (
    POD_SETS,
    SPECS,
    body,
    drop,
    ended,
    failed,
    leaves,
    put,
    running,
    succeeded,
    template,
    value,
)
from tests.jobs.builders import plain, stored, tree, with_status

ADAPTERS = {each.kind: DeclaredJob(each) for each in DECLARATIONS}
EACH = pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=ADAPTERS)
ENDING = [adapter for adapter in ADAPTERS.values() if adapter.declared.succeeded]
EACH_ENDING = pytest.mark.parametrize("adapter", ENDING, ids=[adapter.kind.kind for adapter in ENDING])
JOB_SET, PYTORCH = ADAPTERS["JobSet"], ADAPTERS["PyTorchJob"]


def said(adapter: DeclaredJob, words: str, reason: str) -> str:
    """Those words, if the kind has a place for some, else its own."""
    state = adapter.declared.succeeded if reason == "Succeeded" else adapter.declared.failed
    assert state is not None
    return words if state.message else state.words


def remote(adapter: DeclaredJob, made: dict[str, Any]) -> dict[str, Any]:
    """The copy, as the worker's API server receives it."""
    job = value(adapter, made)
    return plain(adapter.remote_body(job, workload_name="wl", origin="mk", attempt="now", queue="main"))  # type: ignore[no-any-return]


def test_each_declaration_has_its_example() -> None:
    assert SPECS.keys() == POD_SETS.keys() == ADAPTERS.keys()


# The Workload.


@EACH
def test_the_pod_sets_are_those_of_kueue(adapter: DeclaredJob) -> None:
    job = value(adapter, body(adapter))
    made = plain(adapter.workload_body(job, priority=Priority()))
    assert [(each["name"], each["count"]) for each in made["spec"]["podSets"]] == POD_SETS[adapter.kind.kind]
    assert all(each["template"]["spec"]["containers"] for each in made["spec"]["podSets"])
    assert made["metadata"]["ownerReferences"][0]["kind"] == adapter.kind.kind
    assert made["metadata"]["name"].startswith(f"{adapter.kind.kind.lower()}-job-")
    assert made["spec"]["queueName"] == "main"


def test_the_topology_of_a_job_set_knows_its_groups() -> None:
    made = plain(JOB_SET.workload_body(value(JOB_SET, body(JOB_SET)), priority=Priority()))
    assert made["spec"]["podSets"][1]["topologyRequest"] == {
        "podIndexLabel": "batch.kubernetes.io/job-completion-index",
        "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index",
        "subGroupCount": 2,
    }


def test_where_nothing_numbers_the_pods_no_topology_is_asked_for() -> None:
    made = ADAPTERS["RayCluster"]
    pod_sets = made.workload_body(value(made, body(made)), priority=Priority())["spec"]["podSets"]
    assert all("topologyRequest" not in each for each in pod_sets)


@EACH
def test_the_workload_matches_its_job_until_a_template_or_a_count_changes(adapter: DeclaredJob) -> None:
    made = body(adapter)
    job = value(adapter, made)
    seen = stored(adapter.workload_body(job, priority=Priority()))
    assert adapter.is_equivalent(job, seen)
    for path, leaf in list(leaves(made["spec"])):
        if path[-1] == "image" or (path[-1] == "replicas" and leaf > 1):
            changed = body(adapter)
            at: Any = changed["spec"]
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = "other" if path[-1] == "image" else leaf + 1
            assert not adapter.is_equivalent(value(adapter, changed), seen), path


def test_the_class_of_the_run_policy_comes_before_that_of_the_pods() -> None:
    made = body(PYTORCH)
    made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["priorityClassName"] = "workers"
    assert PYTORCH.pod_priority_class(value(PYTORCH, made)) == "workers"
    put(made, "spec.runPolicy.schedulingPolicy.priorityClass", "policy")
    assert PYTORCH.pod_priority_class(value(PYTORCH, made)) == "policy"


# The copy.


@EACH
def test_the_copy_is_the_object_but_for_what_is_dropped_and_its_marks(adapter: DeclaredJob) -> None:
    made, copy = body(adapter, suspend=False), remote(adapter, body(adapter, suspend=False))
    for path in (adapter.declared.managed_by, *adapter.declared.dropped):
        drop(made, path)
    put(made, adapter.declared.suspend, True)
    assert copy["spec"] == made["spec"]
    assert copy["metadata"] == {
        "name": "job",
        "namespace": "default",
        "labels": made["metadata"]["labels"]
        | {"kueue.x-k8s.io/multikueue-origin": "mk", "kueue.x-k8s.io/prebuilt-workload-name": "wl"},
        "annotations": {"note": "kept", "multikueue.dev/attempt": "now"},
    }


def test_what_else_is_at_the_top_of_an_object_travels_and_its_status_does_not() -> None:
    whole = body(JOB_SET) | {"data": {"a": [1, None]}, "seed": 7, "status": ended("Completed")}
    decode: Callable[[bytes], AnyJob] = object_of(JOB_SET.kind.type)  # type: ignore[arg-type]  # hashable, being a type
    job = decode(encode(whole))
    copy = plain(JOB_SET.remote_body(job, workload_name="wl", origin="mk", attempt="now"))
    assert copy.keys() == {"apiVersion", "kind", "metadata", "spec", "data", "seed"}
    assert (copy["data"], copy["seed"]) == ({"a": [1, None]}, 7)


QUICK = settings(max_examples=25)

_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
_fields = st.dictionaries(st.text(min_size=1, max_size=8).map("x{}".format), _json, max_size=4)


@EACH
@QUICK
@given(top=_fields, inner=_fields)
def test_whatever_else_a_spec_has_travels(adapter: DeclaredJob, top: dict[str, Any], inner: dict[str, Any]) -> None:
    made = body(adapter)
    made["spec"] |= top
    *way, _ = keys_of(adapter.declared.managed_by)
    at = made
    for key in way:
        at = at[key]
    at |= inner
    copy = remote(adapter, made)
    for path in (adapter.declared.managed_by, *adapter.declared.dropped):
        assert only(copy, path) is None
    assert top.items() <= copy["spec"].items() or way == ["spec"]
    assert (top | inner if way == ["spec"] else inner).items() <= _at(copy, way).items()


def _at(made: dict[str, Any], way: list[str]) -> dict[str, Any]:
    for key in way:
        made = made[key]
    return made


@EACH
@QUICK
@given(
    spec=_fields
    | st.fixed_dictionaries(
        {
            "replicatedJobs": _json,
            "runPolicy": _json,
            "workerGroupSpecs": _json,
            "components": _json,
            "trainer": _json,
            "rayClusterSpec": _json,
        }
    )
)
def test_a_spec_of_any_shape_breaks_nothing(adapter: DeclaredJob, spec: dict[str, Any]) -> None:
    job = value(adapter, body(adapter) | {"spec": spec, "status": spec})
    seen = stored(adapter.workload_body(value(adapter, body(adapter)), priority=Priority()))
    adapter.workload_body(job, priority=Priority())
    adapter.is_equivalent(job, seen)
    adapter.remote_body(job, workload_name="wl", origin="mk", attempt="a")
    adapter.status_to_copy(job, job)
    adapter.reset_status_patch(job)
    adapter.pod_priority_class(job)
    adapter.refusal(adapter.submitted(msgspec.Raw(encode(body(adapter) | {"spec": spec}))))


# Who runs it.


@EACH
def test_a_job_is_ours_if_its_manager_is(adapter: DeclaredJob) -> None:
    assert adapter.unmanaged_reason(value(adapter, body(adapter))) is None
    own = body(adapter, managed=False)
    put(own, adapter.declared.managed_by, adapter.declared.managers[0])
    for made in (body(adapter, managed=False), own):
        assert adapter.declared.managed_by in str(adapter.unmanaged_reason(value(adapter, made)))


@EACH
def test_a_kind_may_run_on_either_if_its_controller_lets_an_end_be_written(adapter: DeclaredJob) -> None:
    assert bool(adapter.why_one_place) is (adapter.kind.kind in ("RayService", "TrainJob"))


def test_a_kind_without_managed_by_runs_in_one_place() -> None:
    assert "managedBy" in DeclaredJob(replace(MINI_CLUSTER, managed_by="", why_one_place="")).why_one_place
    assert DeclaredJob(MINI_CLUSTER).why_one_place, "nobody knows its controller"


@EACH
def test_starting_and_stopping_are_patches_of_the_one_field(adapter: DeclaredJob) -> None:
    held, free = value(adapter, body(adapter)), value(adapter, body(adapter, suspend=False))
    assert (adapter.start_patch(free), adapter.stop_patch(held)) == (None, None)
    started, stopped = adapter.start_patch(held), adapter.stop_patch(free)
    assert started is not None
    assert stopped is not None
    assert started["metadata"] == {"uid": "uid-job", "resourceVersion": held.metadata.resource_version}
    assert stopped["metadata"] == {"uid": "uid-job"}
    way = keys_of(adapter.declared.suspend)
    assert peek(msgspec.Raw(encode(started)), way) is False
    assert peek(msgspec.Raw(encode(stopped)), way) is True


# The status.


@EACH_ENDING
def test_it_is_over_when_its_status_says_so(adapter: DeclaredJob) -> None:
    job = value(adapter, body(adapter))
    assert adapter.finished(job) is None
    assert adapter.finished(with_status(job, running(adapter))) is None
    for reason, status in (("Succeeded", succeeded(adapter)), ("Failed", failed(adapter))):
        words = said(adapter, "so it is", reason)
        assert adapter.finished(with_status(job, status)) == Finish(reason=reason, message=words)


@EACH_ENDING
def test_the_status_of_all_stages_comes_home_whole_and_once(adapter: DeclaredJob) -> None:
    local, far = value(adapter, body(adapter, suspend=False)), value(adapter, body(adapter, suspend=False))
    for stage in (running(adapter), running(adapter) | failed(adapter)):
        there = with_status(far, stage)
        status = adapter.status_to_copy(local, there)
        assert status is not None
        assert tree(status) == stage
        patch = plain(adapter.status_patch(local, status))
        assert patch["metadata"] == {"uid": "uid-job", "resourceVersion": "7"}
        assert adapter.status_to_copy(with_status(local, stage), there) is None


@EACH_ENDING
def test_while_the_job_is_held_only_an_end_is_news(adapter: DeclaredJob) -> None:
    held, far = value(adapter, body(adapter)), value(adapter, body(adapter, suspend=False))
    assert adapter.status_to_copy(held, with_status(far, running(adapter))) is None
    assert adapter.status_to_copy(held, with_status(far, failed(adapter))) is not None
    stopped = with_status(held, running(adapter))
    assert adapter.is_active(stopped)
    assert adapter.reset_status_patch(stopped) == {
        "metadata": {"uid": "uid-job", "resourceVersion": "7"},
        "status": None,
    }
    assert adapter.reset_status_patch(held) is None


@EACH_ENDING
def test_of_a_job_with_a_controller_of_its_own_here_only_the_end_on_a_worker_is_written(adapter: DeclaredJob) -> None:
    held, far = value(adapter, body(adapter, managed=False)), value(adapter, body(adapter, suspend=False))
    assert adapter.status_to_copy(held, with_status(far, running(adapter))) is None
    assert tree(adapter.status_to_copy(held, with_status(far, failed(adapter))) or msgspec.Raw()) == failed(adapter)
    end = Condition(type="Finished", status="True", reason="Failed", message="it was so")
    assert adapter.status_of_end(held, end) is not None
    free = value(adapter, body(adapter, managed=False, suspend=False))
    for busy in (free, with_status(held, running(adapter))):
        assert adapter.status_to_copy(busy, with_status(far, failed(adapter))) is None
        assert adapter.status_of_end(busy, end) is None
        assert adapter.reset_status_patch(busy) is None


@pytest.mark.parametrize("kind", ["TrainJob", "JobSet"])
def test_the_status_of_a_copy_that_is_held_comes_home_too(kind: str) -> None:
    adapter = ADAPTERS[kind]
    local, far = value(adapter, body(adapter, suspend=False)), value(adapter, body(adapter))
    held = {"conditions": [{"type": "Suspended", "status": "True"}]}
    assert adapter.status_to_copy(local, far) is None
    assert tree(adapter.status_to_copy(local, with_status(far, held)) or msgspec.Raw()) == held
    assert adapter.status_to_copy(with_status(local, held), with_status(far, held)) is None


def test_an_app_wrapper_ends_with_kueues_words() -> None:
    adapter = ADAPTERS["AppWrapper"]
    job = value(adapter, body(adapter))
    ends = [adapter.finished(with_status(job, {"phase": phase})) for phase in ("Succeeded", "Failed")]
    assert [end and end.message for end in ends] == ["AppWrapper finished successfully", "AppWrapper failed"]


@EACH_ENDING
@pytest.mark.parametrize("reason", ["Succeeded", "Failed"])
def test_an_end_that_only_the_workload_tells_is_told(adapter: DeclaredJob, reason: str) -> None:
    job = value(adapter, body(adapter, suspend=False))
    end = Condition(type="Finished", status="True", reason=reason, message="it was so")
    status = adapter.status_of_end(job, end)
    assert status is not None
    told = with_status(job, tree(status))
    assert adapter.finished(told) == Finish(reason=reason, message=said(adapter, "it was so", reason))
    assert adapter.status_of_end(told, end) is None


# A kind of somebody's own.


MINI_CLUSTER = Declaration(
    framework="flux-framework.org/minicluster",
    group="flux-framework.org",
    version="v1alpha2",
    plural="miniclusters",
    kind="MiniCluster",
    pods=(Pods(at="spec", template="pod", count="size"),),
    succeeded=condition("JobFinished"),
)


def test_a_kind_is_added_by_declaring_it() -> None:
    adapter = DeclaredJob(MINI_CLUSTER)
    made = {"metadata": {"name": "m"}, "spec": {"size": 4, "pod": template(), "suspend": True}}
    (pods,) = adapter.workload_body(value(adapter, made), priority=Priority())["spec"]["podSets"]
    assert (pods["name"], pods["count"]) == ("main", 4)


@pytest.mark.parametrize("path", ["spec.items[*].suspend", "spec..suspend", "status.suspend"])
def test_a_declaration_with_a_bad_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        replace(MINI_CLUSTER, suspend=path)


# Ray.

RAY_CLUSTER, RAY_JOB = ADAPTERS["RayCluster"], ADAPTERS["RayJob"]


@pytest.mark.parametrize(
    ("deployment", "job", "finish"),
    [
        pytest.param("Running", "SUCCEEDED", None, id="the job is done, its cluster is not"),
        pytest.param("Complete", "SUCCEEDED", "Succeeded", id="both are"),
        pytest.param("Complete", "FAILED", "Failed", id="done, and not well"),
        pytest.param("Complete", "STOPPED", "Failed", id="stopped by somebody"),
        pytest.param("Failed", "RUNNING", "Failed", id="what runs it gave up"),
        pytest.param("Failed", "SUCCEEDED", "Succeeded", id="it gave up too late"),
        pytest.param("Suspended", "", None, id="held"),
    ],
)
def test_a_ray_job_is_over_with_its_deployment(deployment: str, job: str, finish: str | None) -> None:
    seen = with_status(value(RAY_JOB, body(RAY_JOB)), {"jobDeploymentStatus": deployment, "jobStatus": job})
    found = RAY_JOB.finished(seen)
    assert (found.reason if found else None) == finish


def tells(type_: str, status: str = "True", reason: str = "R") -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": status, "reason": reason, "message": "so it is"}]}


REFUSED_SERVICE = tells("Ready", "False", "ValidationFailed")
KUBEFLOW_STATES = {
    **{type_: (tells(type_), None) for type_ in ("Created", "Running", "Restarting", "Suspended")},
    "Succeeded": (tells("Succeeded"), "Succeeded"),
    "Failed": (tells("Failed"), "Failed"),
    "Failed no more": (tells("Failed", "False"), None),
}

STATES: dict[str, dict[str, tuple[dict[str, Any], str | None]]] = {
    "JobSet": {
        **{
            type_: (tells(type_), None)
            for type_ in ("Suspended", "RestartingJobSet", "StartupPolicyInProgress", "StartupPolicyCompleted")
        },
        "Completed": (tells("Completed"), "Succeeded"),
        "Failed": (tells("Failed"), "Failed"),
    },
    "RayCluster": {state: ({"state": state}, None) for state in ("", "ready", "failed", "suspended")},
    "RayJob": {
        **{
            state: ({"jobDeploymentStatus": state}, None)
            for state in ("", "Initializing", "Running", "Suspending", "Suspended", "Retrying", "Waiting")
        },
        "Complete": ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, "Succeeded"),
        "Failed": ({"jobDeploymentStatus": "Failed"}, "Failed"),
        "ValidationFailed": ({"jobDeploymentStatus": "ValidationFailed"}, "Failed"),
        "ValidationFailed, of a change": ({"jobDeploymentStatus": "ValidationFailed", "rayClusterName": "c"}, None),
    },
    "RayService": {
        **{
            f"not ready: {reason}": (tells("Ready", "False", reason), None)
            for reason in ("Initializing", "ZeroServeEndpoints")
        },
        "ready": (tells("Ready"), None),
        "ValidationFailed": (REFUSED_SERVICE, "Failed"),
        "ValidationFailed, of a change": (REFUSED_SERVICE | {"activeServiceStatus": {"rayClusterName": "c"}}, None),
        "ValidationFailed, while it begins": (
            REFUSED_SERVICE | {"activeServiceStatus": {}, "pendingServiceStatus": {"rayClusterName": "c"}},
            None,
        ),
        "InitializingTimeout": (
            tells("Ready", "False", "InitializingTimeout") | {"activeServiceStatus": {"rayClusterName": ""}},
            "Failed",
        ),
    },
    "TrainJob": {
        "Suspended": (tells("Suspended"), None),
        "Complete": (tells("Complete"), "Succeeded"),
        **{
            reason: (tells("Failed", reason=reason), "Failed")
            for reason in ("TrainingRuntimeNotSupported", "DeadlineExceeded")
        },
    },
    "AppWrapper": {
        **{
            phase: ({"phase": phase}, None)
            for phase in ("", "Suspended", "Resuming", "Running", "Resetting", "Suspending", "Terminating")
        },
        "Succeeded": ({"phase": "Succeeded"}, "Succeeded"),
        "Failed": ({"phase": "Failed"}, "Failed"),
        "Failed, and its pods are still there": ({"phase": "Failed"} | tells("ResourcesDeployed"), None),
    },
    **dict.fromkeys(
        ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob"),
        KUBEFLOW_STATES,
    ),
}
"""Every state that the controller of a kind writes, and whether it is an end: JobSet 0.12, KubeRay 1.6.2, Trainer 2.2.1,
Training Operator 1.9.3, MPI Operator 0.8.2, AppWrapper 1.2.2."""


def test_every_state_of_every_kind_is_known() -> None:
    assert STATES.keys() == ADAPTERS.keys()


@pytest.mark.parametrize(
    ("kind", "status", "end"),
    [
        pytest.param(kind, status, end, id=f"{kind}: {state or 'new'}")
        for kind, states in STATES.items()
        for state, (status, end) in states.items()
    ],
)
def test_what_its_controller_gives_up_is_over(kind: str, status: dict[str, Any], end: str | None) -> None:
    found = ADAPTERS[kind].finished(with_status(value(ADAPTERS[kind], body(ADAPTERS[kind])), status))
    assert (found.reason if found else None) == end


@pytest.mark.parametrize("kind", ["RayJob", "RayService"])
def test_why_ray_refused_it_is_what_its_end_says(kind: str) -> None:
    status = {
        "RayJob": {"jobDeploymentStatus": "ValidationFailed", "message": "so it is"},
        "RayService": REFUSED_SERVICE,
    }
    adapter = ADAPTERS[kind]
    refused = with_status(value(adapter, body(adapter)), status[kind])
    assert adapter.finished(refused) == Finish(reason="Failed", message="so it is")
    assert not adapter.is_active(refused)


def test_a_ray_job_that_is_refused_while_it_runs_has_pods() -> None:
    status = {"jobDeploymentStatus": "ValidationFailed", "rayClusterName": "c"}
    assert RAY_JOB.is_active(with_status(value(RAY_JOB, body(RAY_JOB)), status))


@pytest.mark.parametrize(
    ("status", "active"),
    [("", False), ("Initializing", True), ("Retrying", True), ("Suspending", True), ("Suspended", False)],
)
def test_a_ray_job_has_pods_from_its_start_until_it_is_held(status: str, active: bool) -> None:
    seen = with_status(value(RAY_JOB, body(RAY_JOB)), {"jobDeploymentStatus": status})
    assert RAY_JOB.is_active(seen) is active


def submitter(**changes: Any) -> dict[str, Any] | None:
    made = body(RAY_JOB)
    made["spec"] |= changes
    found = RAY_JOB.workload_body(value(RAY_JOB, made), priority=Priority())["spec"]["podSets"]
    return next((each for each in found if each["name"] == "submitter"), None)


def test_the_pod_that_submits_a_ray_job_is_counted_where_there_is_one() -> None:
    own = template("own")
    said, silent = submitter(submitterPodTemplate=own), submitter()
    assert said is not None
    assert silent is not None
    assert said["template"]["spec"]["containers"][0]["image"] == "own"
    assert silent["template"]["spec"]["containers"][0]["image"] == "head", "that of the head"
    assert silent["template"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}
    assert submitter(submissionMode="HTTPMode") is None


# What the webhook refuses.


def refusal(adapter: DeclaredJob, made: dict[str, Any], old: dict[str, Any] | None = None) -> str | None:
    before = adapter.submitted(msgspec.Raw(encode(old))) if old else None
    return adapter.refusal(adapter.submitted(msgspec.Raw(encode(made))), before)


@EACH
def test_nothing_is_wrong_with_the_examples(adapter: DeclaredJob) -> None:
    assert refusal(adapter, body(adapter)) is None


def _groups(*names: str) -> list[dict[str, Any]]:
    return [{"groupName": name, "template": template()} for name in names]


@pytest.mark.parametrize(
    ("kind", "path", "wrong", "said"),
    [
        pytest.param(
            "RayJob", "spec.clusterSelector", {"a": "b"}, "spec.clusterSelector", id="a cluster that is there"
        ),
        pytest.param("RayJob", "spec.rayClusterSpec", None, "spec.rayClusterSpec", id="no cluster"),
        pytest.param("RayJob", "spec.shutdownAfterJobFinishes", False, "expected true", id="a cluster that stays"),
        pytest.param(
            "RayJob", "spec.rayClusterSpec.enableInTreeAutoscaling", True, "spec.rayClusterSpec.enable", id="scaled job"
        ),
        pytest.param("RayCluster", "spec.enableInTreeAutoscaling", True, "replicas it names", id="scaled cluster"),
        pytest.param(
            "RayCluster", "spec.workerGroupSpecs", _groups(*"abcdefghijklmnopqr"), "at most 18", id="too many groups"
        ),
        pytest.param("RayCluster", "spec.workerGroupSpecs", _groups("Head"), "'head' twice", id="a second head"),
    ],
)
def test_what_can_never_run_in_a_queue_is_refused(kind: str, path: str, wrong: Any, said: str) -> None:
    adapter, made = ADAPTERS[kind], body(ADAPTERS[kind])
    put(made, path, wrong)
    assert said in str(refusal(adapter, made))
    assert refusal(adapter, made, old=made) is None, "or nothing about it could be changed"
    assert said in str(refusal(adapter, made, old=body(adapter)))
    made["metadata"]["labels"] = {}
    assert refusal(adapter, made) is None, "not in a queue"


def with_last_template(adapter: DeclaredJob) -> tuple[dict[str, Any], dict[str, Any]]:
    """The example, and the last of its pod templates, a part of it."""
    made = body(adapter)
    if adapter.kind.kind == "TrainJob":
        patch = made["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
        last = patch["template"]["spec"]["template"]
    elif adapter.kind.kind == "AppWrapper":
        last = only(made, "spec.components[*].template.spec.replicatedJobs[*].template.spec.template")
    else:
        *_, (_, last) = [each for pods in adapter.declared.pods for each in pods.templates(made)]
    return made, last


IMPOSSIBLE = "metadata.labels[team]: expected at most 63 letters, digits, '-', '_' or '.'"


@EACH
def test_what_no_pod_may_be_called_is_refused_with_the_field(adapter: DeclaredJob) -> None:
    made, last = with_last_template(adapter)
    last["metadata"] = {"labels": {"team": "A and B"}}
    if adapter.runtimes is None:  # else the pods are not known yet
        assert IMPOSSIBLE in str(refusal(adapter, made))
        assert refusal(adapter, made, old=made) is None
    decision = decide(JobView(job=value(adapter, made)), NOW, adapter)
    assert decision.actions == ()
    (event,) = decision.events
    assert (event.reason, event.type) == ("ErrWorkloadCompose", "Warning")
    assert IMPOSSIBLE in event.message


MINUS = {"cpu": "-50"}
BELOW_ZERO: dict[str, dict[str, Any]] = {
    "containers[0].resources.requests": {"containers": [{"name": "node", "resources": {"requests": MINUS}}]},
    "containers[0].resources.limits": {"containers": [{"name": "node", "resources": {"limits": MINUS}}]},
    "initContainers[0].resources.requests": {"initContainers": [{"name": "i", "resources": {"requests": MINUS}}]},
    "resources.requests": {"resources": {"requests": MINUS}},
    "resources.limits": {"resources": {"limits": MINUS}},
    "overhead": {"overhead": MINUS},
}


@pytest.mark.parametrize(("where", "spec"), BELOW_ZERO.items(), ids=BELOW_ZERO)
@EACH
def test_an_amount_below_zero_is_refused_with_the_field(adapter: DeclaredJob, where: str, spec: dict[str, Any]) -> None:
    made, last = with_last_template(adapter)
    last.setdefault("spec", {}).update(copy.deepcopy(spec))
    made["spec"].get("trainer", {}).pop("resourcesPerNode", None)  # which would take their place
    told = f"spec.{where}[cpu]: expected 0 or more, got '-50'"

    if adapter.runtimes is None:  # else the pods are not known yet
        assert told in str(refusal(adapter, made))
        assert refusal(adapter, made, old=made) is None
    decision = decide(JobView(job=value(adapter, made)), NOW, adapter)
    assert decision.actions == ()
    (event,) = decision.events
    assert told in event.message


@pytest.mark.parametrize(("release", "most"), [("0.16", 8), ("0.18", 10), ("0.19", 18)])
def test_the_most_groups_of_pods_are_those_of_the_release(release: Release, most: int) -> None:
    adapter, made = RAY_CLUSTER.of(Compatibility.of(release)), body(RAY_CLUSTER)
    put(made, "spec.workerGroupSpecs", _groups(*map("g{}".format, range(most - 1))))
    assert refusal(adapter, made) is None
    put(made, "spec.workerGroupSpecs", _groups(*map("g{}".format, range(most))))
    assert f"at most {most}" in str(refusal(adapter, made))


@pytest.mark.parametrize(("release", "names"), [("0.18", []), ("0.19", ["ray-job-submitter"])])
def test_the_submitter_beside_the_head_takes_quota_since_0_19(release: Release, names: list[str]) -> None:
    adapter, made = RAY_JOB.of(Compatibility.of(release)), body(RAY_JOB)
    put(made, "spec.submissionMode", "SidecarMode")
    pod_sets = {each["name"]: each for each in adapter.pod_sets(value(adapter, made))}
    assert "submitter" not in pod_sets
    own = made["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]
    containers = pod_sets["head"]["template"]["spec"]["containers"]
    assert [each["name"] for each in containers] == [*(each["name"] for each in own), *names]


def head_of(adapter: DeclaredJob, made: dict[str, Any]) -> list[dict[str, Any]]:
    """The containers of the head that take quota."""
    (head,) = [each for each in adapter.pod_sets(value(adapter, made)) if each["name"] == "head"]
    found: list[dict[str, Any]] = head["template"]["spec"]["containers"]
    return found


CLUSTERS = {"RayCluster": "spec", "RayJob": "spec.rayClusterSpec", "RayService": "spec.rayClusterConfig"}
OWN = {"requests": {"cpu": "2"}}


@pytest.mark.parametrize("kind", CLUSTERS)
@pytest.mark.parametrize(
    ("options", "resources"),
    [(None, {"cpu": "500m", "memory": "512Mi"}), ({"resources": OWN}, {"cpu": "2"})],
    ids=["KubeRay's default", "its own"],
)
def test_the_autoscaler_beside_the_head_takes_quota_since_0_19(
    kind: str, options: dict[str, Any] | None, resources: dict[str, str]
) -> None:
    adapter, at = ADAPTERS[kind], CLUSTERS[kind]
    made = body(adapter)
    plain = head_of(adapter, made)
    put(made, f"{at}.enableInTreeAutoscaling", True)
    put(made, f"{at}.autoscalerOptions", options)
    *others, last = head_of(adapter, made)
    assert (others, last["name"], last["resources"]["requests"]) == (plain, "autoscaler", resources)
    assert head_of(adapter.of(Compatibility.of("0.18")), made) == plain


@pytest.mark.parametrize("kind", CLUSTERS)
@pytest.mark.parametrize("by", ["an annotation", "options"])
@pytest.mark.parametrize(
    ("asked", "counted"),
    [
        (None, {"cpu": "200m", "memory": "256Mi"}),
        ({"cpu": "1", "memory": "1Mi", "gpu": "1"}, {"cpu": "1", "memory": "256Mi", "gpu": "1"}),
    ],
    ids=["nothing is asked for", "the larger of each"],
)
def test_a_head_whose_state_is_in_redis_takes_room_for_its_cleanup(
    kind: str, by: str, asked: dict[str, str] | None, counted: dict[str, str]
) -> None:
    adapter, at = ADAPTERS[kind], CLUSTERS[kind]
    made = body(adapter)
    put(made, f"{at}.headGroupSpec.template.spec.containers", [{"name": "ray", "resources": {"requests": asked}}])
    plain = head_of(adapter, made)
    if by == "options":
        put(made, f"{at}.gcsFaultToleranceOptions", {"redisAddress": "redis:6379"})
    else:
        made["metadata"]["annotations"] = {"ray.io/ft-enabled": "True"}
    (ray,) = head_of(adapter, made)
    assert ray["resources"]["requests"] == counted
    assert head_of(adapter.of(Compatibility.of("0.18")), made) == [ray]
    assert head_of(adapter.of(Compatibility.of("0.16")), made) == plain


# Whether the pods are ready.

READY: dict[str, dict[str, Any]] = {
    "JobSet": {"replicatedJobsStatus": [{"name": "Driver", "succeeded": 1}, {"name": "worker", "ready": 2}]},
    "RayCluster": {"state": "ready"},
    "RayJob": {"rayClusterStatus": {"state": "ready"}},
    "AppWrapper": ended("PodsReady"),
    "RayService": ended("Ready"),
    "TrainJob": {
        "jobsStatus": [{"name": "log", "succeeded": 1}, {"name": "node", "ready": 1}, {"name": "d", "ready": 1}]
    },
}
"""As their controllers say it; the others have a condition Running."""


@EACH
def test_all_pods_are_ready_when_the_kind_says_so(adapter: DeclaredJob) -> None:
    status = READY.get(adapter.kind.kind, ended("Running"))
    job, all_ = value(adapter, body(adapter)), sum(count for _, count in POD_SETS[adapter.kind.kind])
    assert adapter.ready_pods(job) == 0
    assert adapter.ready_pods(with_status(job, status)) == all_


def test_a_job_set_is_ready_when_all_of_its_jobs_are() -> None:
    status = {"replicatedJobsStatus": [{"name": "Driver", "ready": 1}, {"name": "worker", "ready": 1, "active": 2}]}
    assert JOB_SET.ready_pods(with_status(value(JOB_SET, body(JOB_SET)), status)) == 0


def test_where_nothing_is_said_of_it_what_runs_is_ready() -> None:
    silent = DeclaredJob(replace(PYTORCH.declared, ready=None))
    job = value(silent, body(silent))
    assert silent.ready_pods(with_status(job, running(silent))) == 4
    assert silent.ready_pods(job) == 0


# Pods that are over.

RECLAIMED: dict[str, tuple[list[dict[str, Any]], list[tuple[str, int]]]] = {
    "as many pods as each of its jobs has": ([{"name": "worker", "succeeded": 1}], [("worker", 3)]),
    "all of a pod set": ([{"name": "Driver", "succeeded": 1}, {"name": "worker"}], [("driver", 1)]),
    "more than there are is no news": ([{"name": "worker", "succeeded": 3}], []),
    "of another name": ([{"name": "other", "succeeded": 1}], []),
    "nothing is over": ([{"name": "worker", "active": 2}], []),
}


@pytest.mark.parametrize(("told", "expected"), RECLAIMED.values(), ids=RECLAIMED.keys())
def test_jobs_of_a_set_that_are_over_give_their_quota_back(
    told: list[dict[str, Any]], expected: list[tuple[str, int]]
) -> None:
    job = with_status(value(JOB_SET, body(JOB_SET)), {"replicatedJobsStatus": told})
    assert [(pods.name, pods.count) for pods in JOB_SET.reclaimable(job)] == expected


def test_kinds_that_say_nothing_of_it_keep_their_quota_to_the_end() -> None:
    assert PYTORCH.reclaimable(with_status(value(PYTORCH, body(PYTORCH)), running(PYTORCH))) == ()


# Of another size while it runs.


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({}, None, id="the same"),
        pytest.param({"replicas": 4}, {"groupName": "Small", "replicas": 4, "numOfHosts": 2}, id="more"),
        pytest.param({"replicas": 0}, {"groupName": "Small", "replicas": 0, "numOfHosts": 2}, id="none"),
        pytest.param({"numOfHosts": 3}, {"groupName": "Small", "replicas": 2, "numOfHosts": 3}, id="hosts"),
        pytest.param({"replicas": None}, {"groupName": "Small", "numOfHosts": 2}, id="the default"),
        pytest.param({"groupName": "other"}, None, id="another group is none of its size"),
        pytest.param({"template": {}}, None, id="nor is a template"),
    ],
)
def test_a_copy_gets_the_size_and_nothing_else(change: dict[str, Any], expected: dict[str, Any] | None) -> None:
    ours, theirs = body(RAY_CLUSTER), body(RAY_CLUSTER)
    group = ours["spec"]["workerGroupSpecs"][0]
    group |= change
    for key in [key for key in change if change[key] is None]:
        del group[key]
    job = value(RAY_CLUSTER, ours)
    pods = sum(each["count"] for each in RAY_CLUSTER.pod_sets(job))
    assert RAY_CLUSTER.resized(job, value(RAY_CLUSTER, theirs), pods=pods + 1) == {}, "a later slice is to come"
    patch = RAY_CLUSTER.resized(job, value(RAY_CLUSTER, theirs), pods=pods)
    if expected is None:
        assert patch == {}
        return
    assert patch is not None
    sizes = ("groupName", "replicas", "numOfHosts")
    assert {key: text for key, text in patch["workerGroupSpecs"][0].items() if key in sizes} == expected
    assert [each["template"] for each in patch["workerGroupSpecs"]] == [
        each["template"] for each in theirs["spec"]["workerGroupSpecs"]
    ]


@EACH
def test_only_ray_clusters_change_their_size_while_they_run(adapter: DeclaredJob) -> None:
    job = value(adapter, body(adapter))
    assert adapter.resized(job, job, pods=6) == ({} if adapter.kind.kind == "RayCluster" else None)
