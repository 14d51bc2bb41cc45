"""Jobs of queues that have the manager cluster as a worker beside others, through a whole manager: by kind.

Batch Jobs are in the lives (`make simulate`), Pods and StatefulSets beside their other tests. The kinds' own controllers are
played here.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.jobs.trees import paths
from multikueue.settings import Cluster, InForce, Integrations, Settings
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World
from tests.controllers.table import AT_ONCE
from tests.jobs.all_kinds import RUNTIME, body, running
from tests.simulator.stage import perform
from tests.simulator.test_job_kinds import (
    JOB,
    LAYOUT,
    RUN,
    adapter_of,
    definition,
    finish,
    holders,
    in_force,
    in_use,
    made_by_its_controller,
    over,
    status,
    until,
)

Object = dict[str, Any]

EITHER = [
    name
    for name, adapter in sorted(FRAMEWORKS.items())
    if isinstance(adapter, DeclaredJob) and not adapter.why_one_place and adapter.declared.succeeded is not None
]
HOME = Layout(queues=(Share("main", 64),), workers=LAYOUT.workers, home=64)


async def _runs_on_either(world: World, tasks: TaskGroup, adapter: DeclaredJob) -> None:
    for site in world.sites:
        site.cluster.install([definition(adapter.kind)])
    manager = world.add_manager("manager-0", in_force(adapter))
    await manager.begin(tasks).wait()
    _submitted_for_either(world, adapter)
    await until(lambda: not _is_held(world, adapter))
    world.manager.patch(adapter.kind, JOB, {"status": running(adapter)}, subresource="status")
    await anyio.sleep(60)
    assert [worker.site.all(kinds.WORKLOADS) for worker in world.workers.values()] == [[], []]

    world.manager.patch(kinds.CLUSTER_QUEUES, ObjectKey("", "main"), {"spec": {"stopPolicy": "HoldAndDrain"}})
    await until(lambda: _is_held(world, adapter))
    rest = dict.fromkeys(running(adapter))
    world.manager.patch(adapter.kind, JOB, {"status": rest}, subresource="status")
    without = {"spec": world.queue_body("main")["spec"] | {"stopPolicy": "None"}}
    without["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "0"
    world.manager.patch(kinds.CLUSTER_QUEUES, ObjectKey("", "main"), without)
    await until(lambda: holders(world, adapter))
    (winner,) = holders(world, adapter)
    world.workers[winner].site.patch(adapter.kind, JOB, {"status": running(adapter)}, subresource="status")
    world.manager.patch(adapter.kind, JOB, paths.nested(paths.keys_of(adapter.declared.suspend), False))
    await until(lambda: _is_held(world, adapter))
    assert status(world, adapter) == {}, "its own controller says how it is here"

    manager.kill()
    finish(world, adapter, winner)
    await world.add_manager("manager-1", in_force(adapter)).begin(tasks).wait()
    await until(lambda: status(world, adapter) == over(adapter))
    await until(lambda: not holders(world, adapter))
    assert _is_held(world, adapter)
    (workload,) = world.manager.all(kinds.WORKLOADS)
    assert any(each["type"] == "Finished" and each["status"] == "True" for each in workload["status"]["conditions"])


def _is_held(world: World, adapter: DeclaredJob) -> bool:
    return paths.only(world.manager.stored(adapter.kind, JOB) or {}, adapter.declared.suspend) is True


def _submitted_for_either(world: World, adapter: DeclaredJob) -> None:
    made = body(adapter, managed=False)
    made["metadata"] = {"name": JOB.name, "namespace": NAMESPACE, "labels": made["metadata"]["labels"]}
    if "submissionMode" in made["spec"]:  # without a pod that asks for memory, of which the queue has none
        made["spec"]["submissionMode"] = "HTTPMode"
    world.manager.create(adapter.kind, made)


async def _says_that_it_runs_in_one_place_only(world: World, tasks: TaskGroup, adapter: DeclaredJob) -> None:
    runtimes = adapter.runtimes.kinds if adapter.runtimes is not None else ()
    for site in world.sites:
        site.cluster.install([definition(kind) for kind in (adapter.kind, *runtimes)])
    for kind in runtimes:
        made = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": RUNTIME}
        metadata = {"name": "torch", **({"namespace": NAMESPACE} if kind.namespaced else {})}
        world.manager.create(kind, made | {"metadata": metadata})
    await world.add_manager("manager-0", in_force(adapter)).begin(tasks).wait()
    _submitted_for_either(world, adapter)

    def said() -> list[str]:
        return [event["message"] for event in world.manager.all(kinds.EVENTS) if event["reason"] == "Undispatchable"]

    await until(said)
    await anyio.sleep(60)
    (text,) = said()
    assert f"no {adapter.kind.kind} can run on either: {adapter.why_one_place}. Recreate it in a queue" in text
    assert _is_held(world, adapter)
    assert holders(world, adapter) == []
    assert not in_use(world)


async def _is_not_dispatched_to_run_twice(world: World, tasks: TaskGroup) -> None:
    for site in world.sites:
        site.cluster.install([definition(RUN.kind)])
    integrations = Integrations(external=(RUN.declared.framework,))
    settings = Settings(cluster=Cluster(namespace=LAYOUT.secrets), integrations=integrations, retention=AT_ONCE)
    await world.add_manager("manager-0", InForce(settings)).begin(tasks).wait()
    metadata = {"name": JOB.name, "namespace": NAMESPACE, "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    own = {"apiVersion": RUN.kind.api_version, "kind": RUN.kind.kind, "metadata": metadata}
    world.manager.create(RUN.kind, own | {"spec": {"tasks": [{"name": "a"}]}})
    without = {"spec": world.queue_body("main")["spec"]}
    without["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "0"
    world.manager.patch(kinds.CLUSTER_QUEUES, ObjectKey("", "main"), without)
    world.manager.create(kinds.WORKLOADS, made_by_its_controller(world))

    def evicted() -> Object:
        (workload,) = world.manager.all(kinds.WORKLOADS)
        conditions = (workload.get("status") or {}).get("conditions") or ()
        return next((each for each in conditions if each["type"] == "Evicted"), {})

    await until(evicted)
    assert 'Expecting spec.managedBy to be "kueue.x-k8s.io/multikueue"' in evicted()["message"]
    assert holders(world, RUN) == []


def test_a_job_that_somebody_else_starts_is_not_on_a_worker_as_well() -> None:
    perform(HOME, _is_not_dispatched_to_run_twice)


@pytest.mark.parametrize("framework", EITHER)
def test_a_kind_whose_suspended_jobs_rest_runs_on_the_manager_cluster_or_on_a_worker(framework: str) -> None:
    perform(HOME, lambda world, tasks: _runs_on_either(world, tasks, adapter_of(framework)))


@pytest.mark.parametrize("framework", ["ray.io/rayservice", "trainer.kubeflow.org/trainjob"])
def test_a_kind_that_cannot_wait_here_for_its_end_says_so(framework: str) -> None:
    perform(HOME, lambda world, tasks: _says_that_it_runs_in_one_place_only(world, tasks, adapter_of(framework)))
