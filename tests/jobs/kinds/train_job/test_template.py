from __future__ import annotations

import copy
from typing import Any

import pytest

from multikueue.jobs.trees.paths import found, only
from tests.jobs.all_kinds import RUNTIME
from tests.jobs.kinds.train_job.builders import pod_sets, train_job

Tree = dict[str, Any]


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
