"""A StatefulSet through a whole manager, on clusters that know the kind and have no controller for it: that is played."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
from anyio.abc import TaskGroup

from multikueue.api import kinds
from multikueue.api.kinds import PODS, STATEFUL_SETS
from multikueue.api.meta import ObjectKey, encode
from multikueue.jobs.kinds.pods.webhook import default_pod, read_pod
from multikueue.settings import Cluster, InForce, Integrations, PodsReady, Quota, Settings
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World
from tests.jobs.kinds.stateful_set.test_adapter import body, new_pod
from tests.simulator.stage import perform
from tests.simulator.test_job_kinds import definition, until

LAYOUT = Layout(queues=(Share("main", 64),), workers=(Share("w1", 64), Share("w2", 64)))
KEY = ObjectKey(NAMESPACE, "web")
Object = dict[str, Any]


def in_force() -> InForce:
    integrations = Integrations(frameworks=("batch/job", "statefulset"))
    quota = Quota(pods_ready=PodsReady(enabled=True, timeout=timedelta(minutes=5)))
    return InForce(Settings(cluster=Cluster(namespace=LAYOUT.secrets), integrations=integrations, quota=quota))


def holders(world: World) -> list[str]:
    """The workers that have it."""
    return [name for name, worker in world.workers.items() if worker.site.stored(STATEFUL_SETS, KEY) is not None]


def is_nowhere(world: World) -> bool:
    left = [world.manager.all(kinds.WORKLOADS), *(each.site.all(kinds.WORKLOADS) for each in world.workers.values())]
    return not holders(world) and not any(left)


def true_of(world: World) -> set[str]:
    """The conditions of its Workload that hold."""
    (workload,) = world.manager.all(kinds.WORKLOADS)
    return {each["type"] for each in workload["status"]["conditions"] if each["status"] == "True"}


def held_pod(owner: Object) -> Object:
    """The first of its Pods, as our webhook lets it be made."""
    made = new_pod()
    made["metadata"]["ownerReferences"][0]["uid"] = owner["metadata"]["uid"]
    for patch in default_pod(read_pod(encode(made))):
        part, name = patch["path"].split("/")[1:]
        made[part][name] = patch["value"]
    return {"apiVersion": "v1", "kind": "Pod", **made}


async def begun(world: World, tasks: TaskGroup) -> None:
    """A manager, a StatefulSet, and its first Pod; only the second worker knows the kind."""
    for site in (world.manager, world.workers["w2"].site):
        site.cluster.install([definition(STATEFUL_SETS)])
    await world.add_manager("manager-0", in_force()).begin(tasks).wait()
    whole = body()
    whole["metadata"] = {"name": KEY.name, "namespace": NAMESPACE, "labels": whole["metadata"]["labels"]}
    owner = {"apiVersion": STATEFUL_SETS.api_version, "kind": STATEFUL_SETS.kind, **whole}
    world.manager.create(STATEFUL_SETS, owner)
    make_pod(world)
    await until(lambda: holders(world) or world.layout.home)


def make_pod(world: World) -> None:
    """As its controller does, also in the place of one that was deleted."""
    world.manager.create(PODS, held_pod(world.manager.stored(STATEFUL_SETS, KEY) or {}))


def test_it_runs_on_a_worker_while_its_pods_stay_held() -> None:
    async def scenario(world: World, tasks: TaskGroup) -> None:
        await begun(world, tasks)
        assert holders(world) == ["w2"], "the other one does not have the kind"
        far = world.workers["w2"].site.stored(STATEFUL_SETS, KEY) or {}
        (workload,) = world.manager.all(kinds.WORKLOADS)
        assert far["spec"] == (world.manager.stored(STATEFUL_SETS, KEY) or {})["spec"]
        assert far["metadata"]["labels"]["kueue.x-k8s.io/prebuilt-workload-name"] == workload["metadata"]["name"]
        await until(lambda: "Admitted" in true_of(world))
        world.workers["w2"].site.patch(STATEFUL_SETS, KEY, {"status": {"readyReplicas": 2}}, subresource="status")
        await until(lambda: "PodsReady" in true_of(world))
        await anyio.sleep(600)
        assert "Admitted" in true_of(world), "those of the copy are what is waited for"
        (pod,) = world.manager.all(PODS)
        assert len(pod["spec"]["schedulingGates"]) == 2, "it is held for as long as it is dispatched"

        world.manager.delete(STATEFUL_SETS, KEY)
        await until(lambda: is_nowhere(world))
        await until(lambda: not world.manager.all(PODS))

    perform(LAYOUT, scenario)


def test_it_runs_on_the_manager_cluster_or_on_a_worker_by_the_gates_of_its_pods() -> None:
    async def scenario(world: World, tasks: TaskGroup) -> None:
        await begun(world, tasks)
        await until(lambda: not world.manager.all(PODS)[0]["spec"].get("schedulingGates"))
        assert holders(world) == []

        without = world.queue_body("main")
        without["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "0"
        queue = ObjectKey("", "main")
        world.manager.patch(kinds.CLUSTER_QUEUES, queue, {"spec": without["spec"] | {"stopPolicy": "HoldAndDrain"}})
        await until(lambda: not world.manager.all(PODS))
        make_pod(world)
        world.manager.patch(kinds.CLUSTER_QUEUES, queue, {"spec": {"stopPolicy": "None"}})
        await until(lambda: holders(world))
        await anyio.sleep(60)
        assert holders(world) == ["w2"]
        (pod,) = world.manager.all(PODS)
        assert len(pod["spec"]["schedulingGates"]) == 2

    perform(replace(LAYOUT, home=64), scenario)


def test_it_is_scaled_to_zero_and_back() -> None:
    async def scenario(world: World, tasks: TaskGroup) -> None:
        await begun(world, tasks)
        world.manager.patch(STATEFUL_SETS, KEY, {"spec": {"replicas": 0}})
        await until(lambda: is_nowhere(world))
        world.manager.patch(STATEFUL_SETS, KEY, {"spec": {"replicas": 3}})
        await until(lambda: holders(world))
        (workload,) = world.manager.all(kinds.WORKLOADS)
        assert workload["spec"]["podSets"][0]["count"] == 3

    perform(LAYOUT, scenario)


def test_recreated_under_its_name_it_has_a_workload_of_its_own() -> None:
    async def scenario(world: World, tasks: TaskGroup) -> None:
        await begun(world, tasks)
        (first,) = world.manager.all(kinds.WORKLOADS)
        seen = world.manager.stored(STATEFUL_SETS, KEY) or {}
        world.manager.delete(STATEFUL_SETS, KEY)
        meta = {name: seen["metadata"][name] for name in ("name", "namespace", "labels")}
        world.manager.create(STATEFUL_SETS, seen | {"metadata": meta})
        await until(lambda: _uids(world) not in ([], [first["metadata"]["uid"]]))
        await until(lambda: holders(world))
        (workload,) = world.manager.all(kinds.WORKLOADS)
        assert workload["metadata"]["name"] == first["metadata"]["name"]

    perform(LAYOUT, scenario)


def _uids(world: World) -> list[str]:
    return [each["metadata"]["uid"] for each in world.manager.all(kinds.WORKLOADS)]
