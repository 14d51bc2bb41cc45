from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from multikueue.api.meta import encode
from multikueue.jobs.trees.paths import found, only
from tests.jobs.all_kinds import RUNTIME
from tests.jobs.kinds.train_job.builders import ADAPTER, pod_sets, train_job

Tree = dict[str, Any]


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
