"""What a Pod asks for beyond what its Workload counts for one: the Workload of a StatefulSet is made of a template."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multikueue.api.kubernetes.builtins import LimitRange
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectMeta, encode
from multikueue.quota.requests.amounts import AS_IT_IS
from multikueue.quota.requests.counting import Counting
from multikueue.quota.requests.devices import NO_CLASS

Tree = dict[str, Any]


def pod(*, side: str = "", whole: str = "", overhead: str = "", cpu: str = "1") -> Tree:
    """A Pod with one container, and what else it asks for."""
    spec: Tree = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}} if cpu else {}}]}
    if side:
        spec["initContainers"] = [{"name": "s", "restartPolicy": "Always", "resources": {"limits": {"cpu": side}}}]
    return (
        spec
        | ({"resources": {"requests": {"cpu": whole}}} if whole else {})
        | ({"overhead": {"cpu": overhead}} if overhead else {})
    )


def surplus(asked: Tree, counted: Tree | None = None, *, default: str = "") -> str:
    counting = Counting(AS_IT_IS, NO_CLASS)
    pod_set = {"name": "main", "count": 3, "template": {"spec": counted or pod()}}
    workload = Workload(
        metadata=ObjectMeta(name="w", namespace="team"), spec=msgspec.Raw(encode({"podSets": [pod_set]}))
    )
    if default:
        spec = {"limits": [{"type": "Container", "defaultRequest": {"cpu": default}}]}
        made = {"metadata": {"name": "l", "namespace": "team"}, "spec": spec}
        seen = msgspec.json.decode(encode(made), type=LimitRange)
        counting.limits.set_range(seen.key, seen)
    return counting.surplus(workload, msgspec.Raw(encode({"spec": asked})))


CASES: dict[str, tuple[str, str]] = {
    "nothing": (surplus(pod()), ""),
    "less": (surplus(pod(cpu="500m")), ""),
    "another container": (surplus(pod(side="1")), "cpu 2, and 1 is counted"),
    "resources as a whole": (surplus(pod(whole="1000")), "cpu 1k, and 1 is counted"),
    "an overhead": (surplus(pod(overhead="250m")), "cpu 1250m, and 1 is counted"),
    "what cannot be counted": (
        surplus(pod(cpu="-5")),
        "resources validation failed: spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: "
        'Invalid value: "-5": must be greater than or equal to 0',
    ),
    "what a LimitRange has filled in": (surplus(pod(cpu="2"), pod(cpu=""), default="2"), ""),
    "more than a LimitRange fills in": (surplus(pod(cpu="3"), pod(cpu=""), default="2"), "cpu 3, and 2 is counted"),
}


@pytest.mark.parametrize(("found", "words"), CASES.values(), ids=CASES)
def test_a_pod_asks_beyond_its_workload_for(found: str, words: str) -> None:
    assert found == words
