"""Findings about a worker that answers, and when there are none."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.answers.findings import Finding
from multikueue.api.kinds import LEASES
from multikueue.cli.commands.clusters.soundness import (
    ClusterNode,
    ManagerJobs,
    NodeSpec,
    NodeStatus,
    authority,
    clashes,
    clock,
    oversold,
    own_kueue,
    release,
)
from tests.builders import WorkloadBuilder, cluster_queue, workload
from tests.cli.cluster import NOW, Cluster, Fake
from tests.cli.commands.clusters.misconfigurations import Fleet, has_a_kueue, kubeconfig, runs_kueue


def levels(found: list[Finding]) -> list[str]:
    return [each.level for each in found]


CLOCKS = {
    "unknown": (None, list[str]()),
    "a second": (1, list[str]()),
    "ahead": (5, ["warning"]),
    "behind": (-5, ["warning"]),
}


@pytest.mark.parametrize(("seconds", "expected"), CLOCKS.values(), ids=CLOCKS)
def test_clocks_that_keep_time_differ_by_little(seconds: int | None, expected: list[str]) -> None:
    assert levels(clock(None if seconds is None else timedelta(seconds=seconds))) == expected


def test_a_kubeconfig_without_an_authority_of_its_own_says_nothing() -> None:
    assert authority(kubeconfig("w"), NOW) == []


def node(cpu: str, *, unschedulable: bool = False) -> ClusterNode:
    return ClusterNode(NodeSpec(unschedulable), NodeStatus({"cpu": cpu}))


NODES: dict[str, tuple[list[ClusterNode] | None, list[str]]] = {
    "they may not be listed": (None, []),
    "there are none yet": ([], []),
    "they have enough": ([node("6"), node("4")], []),
    "one takes no pods": ([node("6"), node("4", unschedulable=True)], ["warning"]),
}


@pytest.mark.parametrize(("nodes", "expected"), NODES.values(), ids=NODES)
def test_quotas_are_compared_with_nodes_that_take_pods(nodes: list[ClusterNode] | None, expected: list[str]) -> None:
    assert levels(oversold([cluster_queue("cq").quota("default", cpu=10).build()], nodes)) == expected


MINE = workload("job-train").owner_job("train")
THERE: dict[str, tuple[WorkloadBuilder, int]] = {
    "our copy": (MINE.origin(), 0),
    "a job of another name": (workload("job-x").owner_job("x"), 0),
    "the same name elsewhere": (workload("job-train", namespace="b").owner_job("train"), 0),
    "a workload without a job": (workload("job-train"), 0),
    "somebody else's of that name": (workload("job-own").owner_job("train"), 1),
}


@pytest.mark.parametrize(("there", "number"), THERE.values(), ids=THERE)
def test_a_clash_is_a_job_of_that_name_that_is_not_ours(there: WorkloadBuilder, number: int) -> None:
    assert len(clashes(ManagerJobs([MINE.build()]), [there.build()])) == number


ROLES: dict[str, tuple[tuple[str, ...] | None, list[str]]] = {
    "not known": (None, ["warning"]),
    "alone": (("jobs", "quota", "dispatch"), ["failed"]),
    "beside Kueue": (("dispatch",), []),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("roles", "expected"), ROLES.values(), ids=ROLES)
async def test_a_kueue_on_the_manager_cluster_is_wrong_for_a_manager_alone(
    roles: tuple[str, ...] | None, expected: list[str]
) -> None:
    fleet = Fleet()
    has_a_kueue(fleet, "")

    assert levels(await own_kueue(Fake(fleet.manager), NOW, roles)) == expected
    assert await own_kueue(Fake(fleet.manager), NOW + timedelta(minutes=5), roles) == []


@pytest.mark.anyio
async def test_a_lease_that_nobody_holds_is_no_kueue() -> None:
    manager = Cluster("manager")
    name = {"name": "c1f6bfd2.kueue.x-k8s.io", "namespace": "kueue-system"}
    manager.add(LEASES, {"metadata": name, "spec": {}})

    assert await own_kueue(Fake(manager), NOW, None) == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("version", "number"),
    [("v0.20.0", 1), ("v0.20.5", 1), ("v0.20.6", 0), ("v0.19.2", 0), ("latest", 0), ("v0.20.0-rc.1", 0)],
)
async def test_releases_whose_conversion_is_broken(version: str, number: int) -> None:
    fleet = Fleet()
    runs_kueue(version)(fleet, "w1")

    assert len(await release(Fake(fleet.workers["w1"]))) == number
