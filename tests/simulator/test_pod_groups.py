"""A group of Pods through a whole manager, on clusters that hold no Pods: copies are made, and that is what is looked at."""

from __future__ import annotations

from typing import Any

import pytest
from anyio.abc import TaskGroup

from multikueue.api import kinds
from multikueue.api.jobs.pod import GROUP_ANNOTATION, GROUP_COUNT_ANNOTATION, GROUP_LABEL, POD_FINALIZER
from multikueue.api.kinds import PODS
from multikueue.api.kueue.workload import PREBUILT_LABEL
from multikueue.api.meta import ObjectKey
from multikueue.settings import Cluster, InForce, Integrations, Settings
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World
from tests.jobs.kinds.pods import builders
from tests.simulator.stage import perform
from tests.simulator.test_job_kinds import until

LAYOUT = Layout(queues=(Share("main", 64),), workers=(Share("w1", 64), Share("w2", 64)))
Object = dict[str, Any]


def in_force(*, reads_annotations: bool | None = None) -> InForce:
    integrations = Integrations(frameworks=("batch/job", "pod"), identifier_annotations=reads_annotations)
    return InForce(Settings(cluster=Cluster(namespace=LAYOUT.secrets), integrations=integrations))


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


@pytest.mark.parametrize("reads_annotations", [True, False])
def test_which_workloads_are_made_is_told_by_annotations_only_where_these_are_read(*, reads_annotations: bool) -> None:
    async def scenario(world: World, tasks: TaskGroup) -> None:
        await world.add_manager("manager-0", in_force(reads_annotations=reads_annotations)).begin(tasks).wait()
        for each in two(labels={}, annotations={GROUP_ANNOTATION: "group", GROUP_COUNT_ANNOTATION: "2"}):
            world.manager.create(PODS, each)
        await until(lambda: sum(map(len, holders(world).values())) == 2)
        made = workloads(world)
        assert made == ["group"] if reads_annotations else [name.startswith("pod-") for name in made] == [True, True]

    perform(LAYOUT, scenario)
