"""A group of Pods through a whole manager, on clusters that hold no Pods: copies are made, and that is what is looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from multikueue.api import kinds
from multikueue.api.jobs.pod import GROUP_ANNOTATION, GROUP_COUNT_ANNOTATION, GROUP_LABEL, POD_FINALIZER
from multikueue.api.kind import Kind
from multikueue.api.kinds import PODS
from multikueue.api.kueue.compatibility import Release
from multikueue.api.kueue.workload import PREBUILT_LABEL
from multikueue.api.meta import ObjectKey
from multikueue.settings import Cluster, InForce, Integrations, Quota, Settings
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World
from tests.jobs.kinds.pods import builders
from tests.simulator.stage import perform
from tests.simulator.test_job_kinds import until

LAYOUT = Layout(queues=(Share("main", 64),), workers=(Share("w1", 64), Share("w2", 64)))
Object = dict[str, Any]


def in_force(release: Release = "0.19.2") -> InForce:
    integrations, quota = Integrations(frameworks=("batch/job", "pod")), Quota(compatibility=release)
    return InForce(Settings(cluster=Cluster(namespace=LAYOUT.secrets), integrations=integrations, quota=quota))


def pod(name: str, *, labels: Object, annotations: Object) -> Object:
    made = builders.body(name, labels=labels)
    metadata = {"name": name, "namespace": NAMESPACE, "finalizers": [POD_FINALIZER]}
    return made | {"metadata": metadata | {"labels": made["metadata"]["labels"], "annotations": annotations}}


def two(**marks: Any) -> list[Object]:
    return [pod(name, **marks) for name in ("a", "b")]


def holders(world: World) -> dict[str, list[Object]]:
    """The Pods on the workers that have any."""
    found = {name: worker.site.all(PODS) for name, worker in world.workers.items()}
    return {name: pods for name, pods in found.items() if pods}


def workloads(world: World) -> list[str]:
    return [each["metadata"]["name"] for each in world.manager.all(kinds.WORKLOADS)]


def test_one_that_is_named_by_annotation_goes_to_one_worker_and_is_named_by_label_there() -> None:
    async def scenario(world: World, tasks: TaskGroup) -> None:
        await world.add_manager("manager-0", in_force()).begin(tasks).wait()
        marks = {GROUP_ANNOTATION: "group", GROUP_COUNT_ANNOTATION: "2"}
        for each in two(labels={GROUP_LABEL: "another"}, annotations=marks):
            world.manager.create(PODS, each)
        await until(lambda: [len(pods) for pods in holders(world).values()] == [2])
        assert workloads(world) == ["group"]
        for copy in next(iter(holders(world).values())):
            named = copy["metadata"]["labels"] | {"annotation": copy["metadata"]["annotations"].get(GROUP_ANNOTATION)}
            assert named.items() >= {GROUP_LABEL: "group", PREBUILT_LABEL: "group", "annotation": None}.items()

        for name in ("a", "b"):
            world.manager.delete(PODS, ObjectKey(NAMESPACE, name))
        await until(lambda: not holders(world) and not workloads(world))

    perform(LAYOUT, scenario)


def test_a_pod_runs_on_the_manager_cluster_or_on_a_worker_by_its_gate() -> None:
    async def scenario(world: World, tasks: TaskGroup) -> None:
        await world.add_manager("manager-0", in_force()).begin(tasks).wait()
        for name in ("a", "b"):
            world.manager.create(PODS, pod(name, labels={}, annotations={}))
        await until(lambda: [len(pods) for pods in holders(world).values()] == [1])
        (copy,) = next(iter(holders(world).values()))
        await anyio.sleep(60)
        held = {each["metadata"]["name"] for each in world.manager.all(PODS) if each["spec"].get("schedulingGates")}
        assert held == {copy["metadata"]["name"]}
        assert [len(pods) for pods in holders(world).values()] == [1]

    perform(replace(LAYOUT, home=1), scenario)


@pytest.mark.parametrize(("release", "reads_annotations"), [("0.18", True), ("0.16", False)])
def test_which_workloads_are_made_is_told_by_annotations_only_where_these_are_read(
    release: Release, *, reads_annotations: bool
) -> None:
    async def scenario(world: World, tasks: TaskGroup) -> None:
        await world.add_manager("manager-0", in_force(release)).begin(tasks).wait()
        for each in two(labels={}, annotations={GROUP_ANNOTATION: "group", GROUP_COUNT_ANNOTATION: "2"}):
            world.manager.create(PODS, each)
        await until(lambda: sum(map(len, holders(world).values())) == 2)
        made = workloads(world)
        assert made == ["group"] if reads_annotations else [name.startswith("pod-") for name in made] == [True, True]

    perform(LAYOUT, scenario)


DRAIN: list[tuple[Kind[Any], str, Object, Object]] = [
    (kinds.CLUSTER_QUEUES, "main", {"stopPolicy": "HoldAndDrain"}, {"stopPolicy": "None"}),
    (kinds.LOCAL_QUEUES, "main", {"stopPolicy": "HoldAndDrain"}, {"stopPolicy": "None"}),
    (kinds.WORKLOADS, "group", {"active": False}, {"active": True}),
]


@pytest.mark.parametrize(
    ("kind", "name", "away", "back"), DRAIN, ids=["a ClusterQueue", "a LocalQueue", "its Workload"]
)
def test_one_that_lacks_a_member_takes_no_quota_again_until_that_is_replaced(
    kind: Kind[Any], name: str, away: Object, back: Object
) -> None:
    async def scenario(world: World, tasks: TaskGroup) -> None:
        await world.add_manager("manager-0", in_force()).begin(tasks).wait()
        marks = {GROUP_ANNOTATION: "group", GROUP_COUNT_ANNOTATION: "2"}
        for each in two(labels={}, annotations=marks):
            world.manager.create(PODS, each)
        await until(lambda: [len(pods) for pods in holders(world).values()] == [2])
        there = world.workers[next(iter(holders(world)))].site
        there.patch(PODS, ObjectKey(NAMESPACE, "a"), {"status": {"phase": "Failed"}}, subresource="status")
        await until(lambda: said(world, "WaitingForReplacementPods")[:2] == ("True", "PodsFailed"))
        assert said(world, "QuotaReserved")[0] == "True"

        key = ObjectKey(NAMESPACE if kind.namespaced else "", name)
        world.manager.patch(kind, key, {"spec": away})
        await until(lambda: said(world, "QuotaReserved")[0] == "False" and not holders(world))
        world.manager.patch(kind, key, {"spec": back})
        for _ in range(60):
            await anyio.sleep(1)
            assert said(world, "QuotaReserved")[0] == "False"
        assert said(world, "WaitingForReplacementPods")[0] == "True"
        assert said(world, "QuotaReserved")[2] == "The group waits for Pods that replace failed or missing ones: 1"

        world.manager.create(PODS, pod("c", labels={}, annotations=marks))
        await until(lambda: said(world, "QuotaReserved")[0] == "True" and said(world, "Admitted")[0] == "True")
        assert said(world, "WaitingForReplacementPods")[0] == "False"
        assert sorted(each["metadata"]["name"] for pods in holders(world).values() for each in pods) == ["b", "c"]

    perform(LAYOUT, scenario)


def said(world: World, type_: str) -> tuple[str, str, str]:
    """Status, reason and message of that condition of the group's Workload."""
    (workload,) = world.manager.all(kinds.WORKLOADS)
    found = {each["type"]: each for each in (workload.get("status") or {}).get("conditions", ())}.get(type_)
    return (found["status"], found["reason"], found["message"]) if found else ("", "", "")
