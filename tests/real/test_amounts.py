"""What a pod asks for counts as the API server completes it: drawn pods are created there, as dry runs, and compared.

`MULTIKUEUE_TEST_PODS=5000` draws more of them.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from functools import partial
from random import Random
from typing import Any

import pytest

from multikueue.api.kubernetes.builtins import LimitRange, RuntimeClass
from multikueue.api.kueue.workload import workload_spec
from multikueue.api.meta import decoder, encode
from multikueue.quota.requests.amounts import PodRules, demand
from multikueue.quota.requests.limits import Limits, combined
from testbed.bed import Testbed
from testbed.client import ApiError, Client, eventually
from testbed.objects import Object
from tests.builders import pod_set, workload
from tests.real.skipping import needs_programs

pytestmark = [
    pytest.mark.real,
    pytest.mark.anyio,
    pytest.mark.timeout(600),
    needs_programs("its judge is a real API server"),
]

COUNT = int(os.environ.get("MULTIKUEUE_TEST_PODS", "400"))
SMALL, LARGE = ("100m", "1", "1500m"), ("2", "3", "4")
MEMORY = {"100m": "64Mi", "1": "1Gi", "1500m": "1500M", "2": "2Gi", "3": "3Gi", "4": "4Gi"}
GPU = "example.com/gpu"

LIMITS: dict[str, list[Object]] = {
    "requests": [{"type": "Container", "defaultRequest": {"cpu": "250m", "memory": "256Mi"}}],
    "limits": [{"type": "Container", "default": {"cpu": "5", "memory": "5Gi"}}],
    "both": [{"type": "Container", "defaultRequest": {"cpu": "250m"}, "default": {"cpu": "5", "memory": "5Gi"}}],
    "bounds": [
        {"type": "Container", "min": {"cpu": "50m"}, "max": {"cpu": "5"}},
        {"type": "Pod", "max": {"cpu": "40"}},
    ],
    "none": [],
}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Testbed.start(workers=0, crds=("kueue",)) as bed, bed.manager.client() as client:
        yield client


def drawn(number: int) -> Object:
    """The spec of a pod whose containers say much or little of what they need."""
    chance = Random(number)
    spec: Object = {
        "containers": [_container(chance, f"c{n}") for n in range(chance.randint(1, 3))],
        "initContainers": [_init_container(chance, f"i{n}") for n in range(chance.randint(0, 3))],
    }
    if chance.random() < 0.3:
        spec["runtimeClassName"] = "heavy"
    if chance.random() < 0.3:
        spec["resources"] = {
            part: {"cpu": amount, "memory": amount.replace("0", "0Gi")}
            for part, amount in (("requests", "30"), ("limits", "40"))
            if chance.random() < 0.7
        }
    return spec


def _container(chance: Random, name: str) -> Object:
    resources: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for part, amounts in (("requests", SMALL), ("limits", LARGE)):
        for resource in ("cpu", "memory"):
            amount = chance.choice(amounts)
            if chance.random() < 0.5:
                resources[part][resource] = MEMORY[amount] if resource == "memory" else amount
    if chance.random() < 0.3:
        resources["limits"][GPU] = "1"
    return {"name": name, "image": "x", "resources": resources}


def _init_container(chance: Random, name: str) -> Object:
    policy = {"restartPolicy": "Always"} if chance.random() < 0.5 else {}
    return _container(chance, name) | policy


def counted(spec: Any, rules: PodRules) -> dict[str, int]:
    made = workload("w").pod_sets(pod_set().template(encode({"spec": spec}))).build()
    (each,) = demand(workload_spec(made), rules=rules).pod_sets
    return dict(each.requests)


def requested(spec: Any) -> dict[str, int]:
    """What a completed pod requests: no limit stands in for anything any more."""
    for each in (*spec["containers"], *spec.get("initContainers", ()), spec):
        each.get("resources", {}).pop("limits", None)
    return counted(spec, Limits())


async def test_pods_count_as_the_api_server_completes_them(client: Client) -> None:
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "heavy"}, "handler": "heavy"}
    heavy = await client.create(body | {"overhead": {"podFixed": {"cpu": "120m", "memory": "99Mi"}}})
    overheads = {"heavy": decoder(RuntimeClass)(encode(heavy)).overhead.pod_fixed}  # type: ignore[union-attr]
    compared = 0
    for name, items in LIMITS.items():
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        ranges: list[LimitRange] = []
        if items:
            made = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits", "namespace": name}}
            ranges = [decoder(LimitRange)(encode(await client.create(made | {"spec": {"limits": items}})))]
        await eventually(partial(_is_in_force, client, name, bool(items)), timeout=60)
        rules = combined(ranges, overheads)
        for number in range(COUNT // len(LIMITS)):
            spec = drawn(number)
            completed = await _completed(client, name, spec)
            if completed is None:
                continue
            ours, theirs = counted(spec, rules), requested(completed["spec"])
            told = f"pod {number} in {name}: {spec} became {completed['spec']}"
            if "resources" not in spec:
                assert ours == theirs, told
            else:  # as in Kueue, the limit of a pod as a whole stands in for its request, which may run with less
                assert {each: amount for each, amount in theirs.items() if ours[each] < amount} == {}, told
            compared += 1
    assert compared > COUNT // 2


async def _completed(client: Client, namespace: str, spec: Object) -> Object | None:
    meta = {"name": "drawn", "namespace": namespace}
    try:
        return await client.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, dry_run=True)
    except ApiError as error:
        if error.status not in (403, 422):
            raise
        return None


async def _is_in_force(client: Client, namespace: str, wanted: bool) -> bool:
    """The API server's plugin sees a LimitRange a moment after it was created."""
    plain = await _completed(client, namespace, {"containers": [{"name": "c", "image": "x"}]})
    return plain is not None and bool(plain["spec"]["containers"][0]["resources"]) is wanted
