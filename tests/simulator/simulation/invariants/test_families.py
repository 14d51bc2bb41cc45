"""What is said of parents and variants that are not as they should be."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.model.wire import Object
from multikueue_simulator.simulation.invariants.families import amiss
from multikueue_simulator.world import objects

WITH = objects.cluster_queue("main", cpu=4, more={"spare": 4}, migration="TryPreferredFlavors")
WITHOUT = objects.cluster_queue("main", cpu=4, more={"spare": 4})


def workload(name: str, *, has: str = "", of: str = "", wants: str = "", **conditions: str) -> Object:
    """A Workload that `has` a flavor; a variant `of` another one that `wants` one."""
    metadata: Object = {"name": name, "uid": name}
    if of:
        metadata["ownerReferences"] = [{"kind": "Workload", "name": of, "uid": of, "controller": True}]
        metadata["annotations"] = {"kueue.x-k8s.io/workload-allowed-resource-flavors": wants or has}
    states = ({"QuotaReserved": "True"} if has else {}) | conditions
    status: dict[str, Any] = {"conditions": [{"type": type_, "status": state} for type_, state in states.items()]}
    if has:
        status["admission"] = {"clusterQueue": "main", "podSetAssignments": [{"name": "main", "flavors": {"cpu": has}}]}
    return {"metadata": metadata, "spec": {"queueName": "main"}, "status": status}


def variant(name: str, **more: str) -> Object:
    return workload(name, of="w", **more)


RUNS = workload("w", has="spare")

CASES: dict[str, tuple[list[Object], Object, list[str]]] = {
    "a parent with the quota of its variant": (
        [RUNS, variant("a", wants="default"), variant("b", has="spare")],
        WITH,
        [],
    ),
    "a parent that waits": ([workload("w"), variant("a", wants="default")], WITH, []),
    "a parent that is evicted": ([workload("w", has="spare", Evicted="True"), variant("b", wants="spare")], WITH, []),
    "a parent with quota that no variant has": ([RUNS, variant("b", wants="spare")], WITH, ["w"]),
    "a parent whose variants have more": (
        [RUNS, variant("a", has="default"), variant("b", has="spare")],
        WITH,
        ["w"],
    ),
    "a variant without a parent": ([variant("a", wants="default")], WITH, ["a"]),
    "a variant that outlives its parent": (
        [workload("w", Finished="True"), variant("a", wants="default")],
        WITH,
        ["a"],
    ),
    "a variant that is over with its parent": (
        [workload("w", Finished="True"), variant("a", wants="default", Finished="True")],
        WITH,
        [],
    ),
    "two variants for a flavor": (
        [workload("w"), variant("a", wants="default"), variant("b", wants="default")],
        WITH,
        ["a"],
    ),
    "a parent with quota of its own, without a policy": ([RUNS], WITHOUT, []),
    "a variant without a policy": ([RUNS, variant("b", wants="spare")], WITHOUT, ["b"]),
}


@pytest.mark.parametrize(("workloads", "queue", "expected"), CASES.values(), ids=CASES)
def test_who_is_amiss(workloads: list[Object], queue: Object, expected: list[str]) -> None:
    assert [uid for uid, _ in amiss(workloads, queue)] == expected
