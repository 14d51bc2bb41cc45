from __future__ import annotations

from typing import Any

import pytest

from multikueue.jobs.kinds.app_wrapper.inference import KNOWN
from tests.jobs.all_kinds import RAY, SPECS, template

Tree = dict[str, Any]


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "expected"),
    [
        ("v1", "Pod", template("p")["spec"], [(1, "p")]),
        ("apps/v1", "Deployment", {"replicas": 3, "template": template("d")}, [(3, "d")]),
        ("apps/v1", "StatefulSet", {"template": template("s")}, [(1, "s")]),
        ("batch/v1", "Job", {"parallelism": 4, "completions": 2, "template": template("j")}, [(2, "j")]),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", SPECS["JobSet"], [(1, "Driver"), (6, "worker")]),
        ("kubeflow.org/v1", "PyTorchJob", SPECS["PyTorchJob"], [(1, "Master"), (3, "Worker")]),
        ("ray.io/v1", "RayCluster", RAY, [(1, "head"), (2, "small"), (1, "big")]),
        ("ray.io/v1", "RayJob", SPECS["RayJob"], [(1, "head"), (2, "small"), (1, "big")]),
    ],
)
def test_the_pods_of_known_kinds_are_found(
    api_version: str, kind: str, spec: Tree, expected: list[tuple[int, str]]
) -> None:
    component = {"template": {"apiVersion": api_version, "kind": kind, "spec": spec}}
    found = [each for pods in KNOWN[api_version, kind] for each in pods.pod_sets({"component": component})]
    assert [(each["count"], each["template"]["spec"]["containers"][0]["image"]) for each in found] == expected
