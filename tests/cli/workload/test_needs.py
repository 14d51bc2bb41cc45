"""What the pods of a job need of their cluster."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.cli.workload.needs import Need, needs

NEEDED: dict[str, tuple[dict[str, Any], list[Need]]] = {
    "nothing": ({"containers": [{"name": "main", "image": "x"}], "serviceAccountName": "default"}, []),
    "volumes": (
        {
            "volumes": [
                {"configMap": {"name": "rates"}},
                {"secret": {"secretName": "token"}},
                {"persistentVolumeClaim": {"claimName": "data"}},
                {"projected": {"sources": [{"configMap": {"name": "more"}}, {"serviceAccountToken": {}}]}},
                {"emptyDir": {}},
            ]
        },
        [
            Need("ConfigMap", "more"),
            Need("ConfigMap", "rates"),
            Need("PersistentVolumeClaim", "data"),
            Need("Secret", "token"),
        ],
    ),
    "the environment": (
        {
            "initContainers": [{"envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}]}],
            "containers": [
                {
                    "env": [
                        {"name": "X", "value": "1"},
                        {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}},
                        {"name": "Z", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}},
                    ]
                }
            ],
        },
        [Need("ConfigMap", "a"), Need("Secret", "b"), Need("Secret", "c")],
    ),
    "how the pod runs": (
        {"imagePullSecrets": [{"name": "pull"}], "serviceAccountName": "robot", "runtimeClassName": "gvisor"},
        [Need("RuntimeClass", "gvisor"), Need("Secret", "pull"), Need("ServiceAccount", "robot")],
    ),
    "what is optional": (
        {
            "volumes": [{"configMap": {"name": "rates", "optional": True}}],
            "containers": [{"envFrom": [{"secretRef": {"name": "b", "optional": True}}]}],
        },
        [],
    ),
}


@pytest.mark.parametrize(("spec", "found"), NEEDED.values(), ids=NEEDED.keys())
def test_needs(spec: dict[str, Any], found: list[Need]) -> None:
    assert list(needs([{"spec": spec}, {}])) == found
