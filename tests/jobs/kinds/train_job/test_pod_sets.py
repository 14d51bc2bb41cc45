from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.meta import encode
from multikueue.jobs.framework.actions import CreateWorkload
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.integrations.declarations import TRAIN_JOB
from multikueue.jobs.reconciler.decide import JobView, decide
from multikueue.jobs.trees.paths import found, only
from multikueue.testing import NOW
from tests.jobs.all_kinds import RUNTIME
from tests.jobs.builders import stored, with_status
from tests.jobs.kinds.train_job.builders import ADAPTER, BARE, pod_sets, train_job

Tree = dict[str, Any]

GONE: Any = None


def counts(job: AnyJob) -> dict[str, int]:
    return {each["name"]: each["count"] for each in pod_sets(job)}


MPI = {"numNodes": 4, "mpi": {"runLauncherAsNode": False}}
MPI_LAUNCHER = {"numNodes": 4, "mpi": {"runLauncherAsNode": True}}


@pytest.mark.parametrize(
    ("policy", "nodes", "expected"),
    [
        pytest.param({"numNodes": 3, "torch": {}}, 2, 2, id="the job's own number"),
        pytest.param({"numNodes": 3, "torch": {}}, GONE, 3, id="the runtime's"),
        pytest.param({"torch": {}}, GONE, 1, id="nobody's"),
        pytest.param({"numNodes": 3}, 5, 5, id="without a framework"),
        pytest.param(GONE, 5, 5, id="without a policy"),
        pytest.param(GONE, GONE, 1, id="without anything"),
        pytest.param(MPI, 5, 5, id="with MPI"),
        pytest.param(MPI_LAUNCHER, 5, 4, id="with MPI, where the launcher is a node too"),
        pytest.param(MPI_LAUNCHER, 1, 1, id="at least one"),
        pytest.param(MPI_LAUNCHER, GONE, 4, id="with MPI, the runtime's"),
    ],
)
def test_how_many_nodes_there_are(policy: Tree | None, nodes: int | None, expected: int) -> None:
    assert counts(train_job({"trainer.numNodes": nodes}, {"mlPolicy": policy}))["node"] == expected


def test_only_the_jobs_without_a_step_are_replicated() -> None:
    jobs = copy.deepcopy(RUNTIME["template"]["spec"]["replicatedJobs"])
    for each in jobs:
        each["replicas"] = 2
        each["template"]["spec"]["parallelism"] = 3
    found = counts(train_job(runtime={"template.spec.replicatedJobs": jobs}))
    assert found == {"dataset-initializer": 3, "node": 2, "log": 6}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param(
            [{"name": "dataset-initializer", "succeeded": 1}], {"dataset-initializer": 3}, id="an initializer"
        ),
        pytest.param([{"name": "node", "succeeded": 1}], {"node": 2}, id="as many pods as the job has nodes"),
        pytest.param([{"name": "log", "succeeded": 1}, {"name": "node", "active": 1}], {"log": 3}, id="one of two"),
        pytest.param([{"name": "log", "succeeded": 3}], {}, id="more than there are is no news"),
        pytest.param([], {}, id="nothing is over"),
    ],
)
def test_what_is_over_of_its_runtime_gives_its_quota_back(told: list[Tree], expected: dict[str, int]) -> None:
    jobs = copy.deepcopy(RUNTIME["template"]["spec"]["replicatedJobs"])
    for each in jobs:
        each["replicas"] = 2
        each["template"]["spec"]["parallelism"] = 3
    job = with_status(train_job(runtime={"template.spec.replicatedJobs": jobs}), {"jobsStatus": told})
    assert {pods.name: pods.count for pods in ADAPTER.reclaimable(job)} == expected
    unknown = msgspec.structs.replace(job, runtime=msgspec.Raw(b"null"))
    assert ADAPTER.reclaimable(unknown) == ()


# While the runtime is not there.


def test_no_workload_is_made_before_its_pods_are_known() -> None:
    decision = decide(JobView(job=BARE), NOW, ADAPTER)
    (event,) = decision.events
    assert (decision.actions, event.reason) == ((), "PodsUnknown")
    (made,) = decide(JobView(job=train_job()), NOW, ADAPTER).actions
    assert isinstance(made, CreateWorkload)


def test_what_was_made_before_goes_on() -> None:
    seen = stored(ADAPTER.workload_body(train_job(), priority=Priority()))
    assert ADAPTER.is_equivalent(BARE, seen)
    decision = decide(JobView(job=BARE, workloads=(seen,)), NOW, ADAPTER)
    assert (decision.actions, decision.events) == ((), ())
    assert not ADAPTER.is_equivalent(train_job({"trainer.numNodes": 7}), seen)


@pytest.mark.parametrize(
    ("ref", "key"),
    [
        ({"name": "r"}, JobKey("ClusterTrainingRuntime.trainer.kubeflow.org", "", "r")),
        ({"name": "r", "kind": "TrainingRuntime"}, JobKey("TrainingRuntime.trainer.kubeflow.org", "default", "r")),
    ],
    ids=["one of the cluster", "one of its namespace"],
)
def test_the_runtime_a_job_names(ref: Tree, key: JobKey) -> None:
    assert TRAIN_JOB.runtimes is not None
    assert TRAIN_JOB.runtimes.key(train_job({"runtimeRef": ref})) == key


def problem(job: AnyJob) -> str:
    assert TRAIN_JOB.runtimes is not None
    return TRAIN_JOB.runtimes.problem(job) or ""


def test_without_its_runtime_a_job_has_no_pods_and_says_why() -> None:
    assert problem(BARE) == 'ClusterTrainingRuntime "torch" not found: create it, here and on the workers'
    assert pod_sets(BARE) == []
    assert problem(train_job()) == ""


def test_what_only_trainer_knows_is_said() -> None:
    assert "torchtune" in problem(train_job({"trainer.command": ["tune", "run"]}))
    assert problem(train_job({"trainer.command": ["tune", "run"]}, {"mlPolicy": {}})) == ""
    assert "Flux" in problem(train_job(runtime={"mlPolicy": {"numNodes": 2, "flux": {}}}))


def test_a_trainer_is_what_its_job_says_on_top_of_what_its_runtime_says() -> None:
    data, node, log = pod_sets(train_job())
    assert node["template"]["metadata"] == {"labels": {"tier": "gold"}, "annotations": {"note": "kept"}}
    assert node["template"]["spec"] == {
        "containers": [
            {
                "name": "node",
                "image": "own",
                "command": ["train"],
                "resources": {"requests": {"cpu": "2"}},
                "env": [{"name": "C", "value": "3"}, {"name": "A", "value": "0"}, {"name": "B", "value": "2"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
        "nodeSelector": {"zone": "a", "disk": "ssd"},
        "serviceAccountName": "trainer",
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
        "schedulingGates": [{"name": "example.com/hold"}],
        "affinity": {},
    }
    (container,) = data["template"]["spec"]["containers"]
    assert container["env"] == [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "0"},
        {"name": "STORAGE_URI", "value": "hf://data"},
    ]
    assert container["envFrom"] == [{"secretRef": {"name": "token"}}]
    assert (
        log["template"]["spec"]
        == RUNTIME["template"]["spec"]["replicatedJobs"][2]["template"]["spec"]["template"]["spec"]
    )
    assert node["topologyRequest"]["subGroupCount"] == 1


def override(name: str, spec: Tree) -> Tree:
    """As Trainer 2.1 has it."""
    return {"podTemplateOverrides": [{"targetJobs": [{"name": name}], "spec": spec}]}


def runtime_patch(name: str, spec: Tree, manager: str = "example.com/sdk") -> Tree:
    """As Trainer 2.2 has it."""
    jobs = [{"name": name, "template": {"spec": {"template": {"spec": spec}}}}]
    entry = {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    return {"runtimePatches": [entry]}


Written = Callable[[str, Tree], Tree]
EACH = pytest.mark.parametrize("written", [override, runtime_patch])


@EACH
@pytest.mark.parametrize(
    ("patch", "path", "expected"),
    [
        pytest.param({"tolerations": [{"key": "b"}]}, "tolerations[*].key", ["b"], id="a list is replaced"),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            "volumes[*].name",
            ["v", "u"],
            id="volumes are merged, new ones first",
        ),
        pytest.param(
            {"initContainers": [{"name": "fetch", "env": [{"name": "X", "value": "1"}]}]},
            "initContainers[*].env[*].name",
            ["X", "W"],
            id="init containers are merged, and what is in them",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "b"}]}, "schedulingGates[*].name", ["b", "a"], id="gates are merged"
        ),
        pytest.param(
            {"securityContext": {"runAsUser": 7}}, "securityContext.runAsGroup", [3], id="a context is merged"
        ),
        pytest.param({"affinity": {"nodeAffinity": {}}}, "affinity.nodeAffinity", [{}], id="an object is merged"),
        pytest.param({"serviceAccountName": "x"}, "serviceAccountName", ["x"], id="a text is set"),
    ],
)
def test_a_patch_is_merged(written: Written, patch: Tree, path: str, expected: list[Any]) -> None:
    jobs = copy.deepcopy(RUNTIME["template"]["spec"]["replicatedJobs"])
    jobs[1]["template"]["spec"]["template"]["spec"] |= {
        "volumes": [{"name": "u"}],
        "tolerations": [{"key": "a"}],
        "initContainers": [{"name": "fetch", "env": [{"name": "W", "value": "0"}]}],
        "schedulingGates": [{"name": "a"}],
        "securityContext": {"runAsUser": 1, "runAsGroup": 3},
    }
    own: Tree = {"runtimePatches": []}
    runtime: Tree = {"template.spec.replicatedJobs": jobs}
    job = train_job(own | written("node", patch), runtime)
    assert list(found(pod_sets(job)[1]["template"]["spec"], path)) == expected
    assert pod_sets(train_job(own | written("log", patch), runtime))[1] == pod_sets(train_job(own, runtime))[1]


def test_patches_count_in_order_but_for_that_of_kueue() -> None:
    entries = [
        runtime_patch("node", {"nodeSelector": {"disk": disk, disk: "yes"}}, manager)["runtimePatches"][0]
        for manager, disk in (("z", "first"), ("a", "second"), ("kueue.x-k8s.io/manager", "third"))
    ]
    selector = only(pod_sets(train_job({"runtimePatches": entries}))[1]["template"]["spec"], "nodeSelector")
    assert selector == {"zone": "a", "disk": "second", "first": "yes", "second": "yes"}


def test_a_patch_of_a_job_says_which_step_it_is() -> None:
    label = {"trainer.kubeflow.org/trainjob-ancestor-step": "other"}
    entry = runtime_patch("node", {})["runtimePatches"][0]
    entry["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"labels": label}
    node = pod_sets(train_job({"runtimePatches": [entry]}))[1]
    assert only(node, "template.spec.containers[*].image") != "own"
    assert node["count"] == 1


def test_the_entry_of_kueue_is_for_its_own_cluster() -> None:
    spec = msgspec.json.decode(encode(ADAPTER.remote_fields(train_job())["spec"]))
    assert [each["manager"] for each in spec["runtimePatches"]] == ["example.com/sdk", "example.com/admin"]
