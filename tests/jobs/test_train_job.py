from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from multikueue.api.job import AnyJob, JobKey
from multikueue.api.meta import encode
from multikueue.jobs.actions import CreateWorkload
from multikueue.jobs.decide import JobView, decide
from multikueue.jobs.declarations import TRAIN_JOB
from multikueue.jobs.declared import DeclaredJob
from multikueue.jobs.paths import found, only
from multikueue.jobs.priority import Priority
from multikueue.testing import NOW
from tests.jobs.builders import plain, stored, with_status
from tests.jobs.kinds import RUNTIME, body, put, value

Tree = dict[str, Any]

ADAPTER = DeclaredJob(TRAIN_JOB)
GONE: Any = None


def train_job(spec: Tree | None = None, runtime: Tree | None = None) -> AnyJob:
    """The example, with other values at these paths of its spec and of its runtime."""
    made, around = body(ADAPTER), {"runtime": copy.deepcopy(RUNTIME)}
    for path, what in (spec or {}).items():
        put(made, f"spec.{path}", what)
    for path, what in (runtime or {}).items():
        put(around, f"runtime.{path}", what)
    return msgspec.structs.replace(value(ADAPTER, made), runtime=msgspec.Raw(encode(around["runtime"])))


def pod_sets(job: AnyJob) -> list[Tree]:
    found: list[Tree] = plain(ADAPTER.workload_body(job, priority=Priority()))["spec"]["podSets"]
    return found


def counts(job: AnyJob) -> dict[str, int]:
    return {each["name"]: each["count"] for each in pod_sets(job)}


def test_a_trainer_is_what_its_job_says_upon_what_its_runtime_says() -> None:
    data, node, log = pod_sets(train_job())
    assert node["template"]["metadata"] == {"labels": {"tier": "gold"}}
    assert node["template"]["spec"] == {
        "containers": [
            {
                "name": "node",
                "image": "own",
                "command": ["train"],
                "resources": {"requests": {"cpu": "2"}},
                "env": [{"name": "C", "value": "3"}, {"name": "A", "value": "0"}, {"name": "B", "value": "2"}],
            }
        ],
        "nodeSelector": {"zone": "a", "disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
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
        pytest.param({"affinity": {"nodeAffinity": {}}}, "affinity.nodeAffinity", [{}], id="an object is merged"),
        pytest.param({"serviceAccountName": "x"}, "serviceAccountName", ["x"], id="a text is set"),
    ],
)
def test_an_override_is_merged(patch: Tree, path: str, expected: list[Any]) -> None:
    jobs = copy.deepcopy(RUNTIME["template"]["spec"]["replicatedJobs"])
    jobs[1]["template"]["spec"]["template"]["spec"] |= {"volumes": [{"name": "u"}], "tolerations": [{"key": "a"}]}
    override = {"targetJobs": [{"name": "node"}], "spec": patch}
    job = train_job({"podTemplateOverrides": [override]}, {"template.spec.replicatedJobs": jobs})
    assert list(found(pod_sets(job)[1]["template"]["spec"], path)) == expected
    other = train_job({"podTemplateOverrides": [override | {"targetJobs": [{"name": "log"}]}]})
    assert only(pod_sets(other)[1]["template"]["spec"], path) is None


# Which runtime.


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
    bare = msgspec.structs.replace(train_job(), runtime=msgspec.Raw(b"null"))
    assert problem(bare) == 'ClusterTrainingRuntime "torch" not found: create it, here and on the workers'
    assert pod_sets(bare) == []
    assert problem(train_job()) == ""


def test_what_only_trainer_knows_is_said() -> None:
    assert "torchtune" in problem(train_job({"trainer.command": ["tune", "run"]}))
    assert problem(train_job({"trainer.command": ["tune", "run"]}, {"mlPolicy": {}})) == ""


# While the runtime is not there.


BARE = msgspec.structs.replace(train_job(), runtime=msgspec.Raw(b"null"))


def test_no_workload_is_made_before_its_pods_are_known() -> None:
    decision = decide(JobView(job=BARE), NOW, ADAPTER)
    (event,) = decision.events
    assert (decision.actions, event.reason) == ((), "PodsUnknown")
    (made,) = decide(JobView(job=train_job()), NOW, ADAPTER).actions
    assert isinstance(made, CreateWorkload)


def test_what_was_made_before_goes_on() -> None:
    seen = stored(ADAPTER.workload_body(train_job(), priority=Priority()))
    assert ADAPTER.matches(BARE, seen)
    decision = decide(JobView(job=BARE, workloads=(seen,)), NOW, ADAPTER)
    assert (decision.actions, decision.events) == ((), ())
    assert not ADAPTER.matches(train_job({"trainer.numNodes": 7}), seen)
