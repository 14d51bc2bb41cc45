"""Jobs of kinds that a CustomResourceDefinition brings, through a whole manager: submitted, run on a worker, home again."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kueue.admission_checks import CONTROLLER_NAME
from multikueue.api.meta import ObjectKey
from multikueue.jobs.integrations.external import external
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.jobs.trees import paths
from multikueue.settings import Cluster, InForce, Integrations, Settings
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World
from tests.controllers.table import AT_ONCE
from tests.jobs.all_kinds import RUNTIME, body, running, succeeded
from tests.simulator.stage import perform

LAYOUT = Layout(queues=(Share("main", 64),), workers=(Share("w1", 64), Share("w2", 64)))
JOB = ObjectKey(NAMESPACE, "job")
RUN = external("PipelineRun.v1.tekton.dev")
STARTED = "2026-01-01T12:00:00Z"
Object = dict[str, Any]

EACH = pytest.mark.parametrize(
    "framework", ["jobset.x-k8s.io/jobset", "kubeflow.org/pytorchjob", "workload.codeflare.dev/appwrapper"]
)


def adapter_of(framework: str) -> DeclaredJob:
    adapter = FRAMEWORKS[framework]
    assert isinstance(adapter, DeclaredJob)
    return adapter


def definition(kind: Kind[Any]) -> Object:
    """The kind's CustomResourceDefinition, without rules of its own."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free, "data": free}}},
    }
    names = {"plural": kind.plural, "kind": kind.kind, "singular": kind.kind.lower(), "listKind": f"{kind.kind}List"}
    scope = "Namespaced" if kind.namespaced else "Cluster"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {"group": kind.group, "names": names, "scope": scope, "versions": [version]},
    }


def in_a_world(test: Callable[[World, TaskGroup, DeclaredJob], Coroutine[Any, Any, None]], framework: str) -> None:
    """Plays the test on virtual time, with a manager that takes in the kind."""

    perform(LAYOUT, lambda world, tasks: test(world, tasks, adapter_of(framework)))


def in_force(adapter: DeclaredJob) -> InForce:
    integrations = Integrations(frameworks=("batch/job", adapter.declared.framework))
    return InForce(Settings(cluster=Cluster(namespace=LAYOUT.secrets), integrations=integrations, retention=AT_ONCE))


def submitted(world: World, adapter: DeclaredJob) -> None:
    made = body(adapter) | {"data": {"seed": 7}}
    made["metadata"] = {"name": JOB.name, "namespace": NAMESPACE, "labels": made["metadata"]["labels"]}
    world.manager.create(adapter.kind, made)


async def until(condition: Callable[[], object], *, within: float = 120.0) -> None:
    with anyio.fail_after(within):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.5)


def holders(world: World, adapter: DeclaredJob) -> list[str]:
    """The workers that have the job."""
    return [name for name, worker in world.workers.items() if worker.site.stored(adapter.kind, JOB) is not None]


def status(world: World, adapter: DeclaredJob) -> Object:
    found: Object = (world.manager.stored(adapter.kind, JOB) or {}).get("status") or {}
    return found


def over(adapter: DeclaredJob) -> Object:
    status = succeeded(adapter)
    conditions = [{**each, "lastTransitionTime": STARTED} for each in status.get("conditions", ())]
    return status | ({"conditions": conditions} if conditions else {})


def finish(world: World, adapter: DeclaredJob, worker: str) -> None:
    """The worker's controller, and its Kueue, say that the job is over."""
    site = world.workers[worker].site
    idle = dict.fromkeys(running(adapter))
    site.patch(adapter.kind, JOB, {"status": idle | over(adapter)}, subresource="status")
    (copy,) = site.all(kinds.WORKLOADS)
    key = ObjectKey(NAMESPACE, copy["metadata"]["name"])
    ended = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": STARTED}
    conditions = [*copy["status"]["conditions"], ended]
    site.patch(kinds.WORKLOADS, key, {"status": {"conditions": conditions}}, subresource="status")


async def _lives(world: World, tasks: TaskGroup, adapter: DeclaredJob) -> None:
    for site in (world.manager, world.workers["w2"].site):
        site.cluster.install([definition(adapter.kind)])
    await world.add_manager("manager-0", in_force(adapter)).begin(tasks).wait()
    submitted(world, adapter)
    await until(lambda: holders(world, adapter))
    assert holders(world, adapter) == ["w2"], "the other one does not have the kind"

    far = world.workers["w2"].site.stored(adapter.kind, JOB) or {}
    local = world.manager.stored(adapter.kind, JOB) or {}
    assert paths.only(far, adapter.declared.managed_by) is None
    assert far["metadata"]["labels"]["team"] == local["metadata"]["labels"]["team"]
    assert far["data"] == {"seed": 7}
    (workload,) = world.manager.all(kinds.WORKLOADS)
    assert workload["metadata"]["ownerReferences"][0]["kind"] == adapter.kind.kind

    world.workers["w2"].site.patch(adapter.kind, JOB, {"status": running(adapter)}, subresource="status")
    await until(lambda: status(world, adapter) == running(adapter))
    finish(world, adapter, "w2")
    await until(lambda: status(world, adapter) == over(adapter))
    await until(lambda: not holders(world, adapter))
    (workload,) = world.manager.all(kinds.WORKLOADS)
    assert any(each["type"] == "Finished" and each["status"] == "True" for each in workload["status"]["conditions"])
    assert [worker.site.all(kinds.WORKLOADS) for worker in world.workers.values()] == [[], []]


REFUSED: dict[str, Object] = {
    "ray.io/rayjob": {
        "jobDeploymentStatus": "ValidationFailed",
        "reason": "ValidationFailed",
        "message": "no such Ray",
    },
    "ray.io/rayservice": {
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "ValidationFailed",
                "message": "no such Ray",
                "lastTransitionTime": STARTED,
            }
        ]
    },
}


async def _is_refused(world: World, tasks: TaskGroup, adapter: DeclaredJob, *, at_home: bool) -> None:
    """Its controller looks at it once, and never again."""
    for site in (world.manager, *(worker.site for worker in world.workers.values())):
        site.cluster.install([definition(adapter.kind)])
    if at_home:
        queue = ObjectKey("", "main")
        world.manager.patch(kinds.CLUSTER_QUEUES, queue, {"spec": {"admissionChecksStrategy": None}})
    await world.add_manager("manager-0", in_force(adapter)).begin(tasks).wait()
    made = body(adapter, managed=not at_home)
    made["metadata"] = {"name": JOB.name, "namespace": NAMESPACE, "labels": made["metadata"]["labels"]}
    made["spec"] |= {"submissionMode": "HTTPMode"}
    world.manager.create(adapter.kind, made)
    await until(lambda: in_use(world) and (at_home or holders(world, adapter)))
    there = world.manager if at_home else world.workers[holders(world, adapter)[0]].site
    refusal = REFUSED[adapter.declared.framework]
    there.patch(adapter.kind, JOB, {"status": refusal}, subresource="status")
    for copy in there.all(kinds.WORKLOADS) if not at_home else ():
        # A worker's Kueue puts it on hold in the same moment, since 0.19.1.
        held = [
            {**each, "status": "False", "reason": "OnHold"} if each["type"] in ("QuotaReserved", "Admitted") else each
            for each in copy["status"]["conditions"]
        ]
        name = ObjectKey(NAMESPACE, copy["metadata"]["name"])
        there.patch(kinds.WORKLOADS, name, {"status": {"conditions": held, "admission": None}}, subresource="status")
    await until(lambda: not in_use(world))
    assert status(world, adapter) == refusal
    (workload,) = world.manager.all(kinds.WORKLOADS)
    (end,) = (each for each in workload["status"]["conditions"] if each["type"] == "Finished")
    assert (end["status"], end["reason"], end["message"]) == ("True", "Failed", "no such Ray")
    await until(lambda: not holders(world, adapter))


def in_use(world: World) -> list[str]:
    (queue,) = world.manager.all(kinds.CLUSTER_QUEUES)
    flavors = (queue.get("status") or {}).get("flavorsReservation") or ()
    return [str(each["total"]) for flavor in flavors for each in flavor["resources"] if str(each["total"]) != "0"]


async def _comes_late(world: World, tasks: TaskGroup, adapter: DeclaredJob) -> None:
    for worker in world.workers.values():
        worker.site.cluster.install([definition(adapter.kind)])
    await world.add_manager("manager-0", in_force(adapter)).begin(tasks).wait()
    await anyio.sleep(60)
    world.manager.cluster.install([definition(adapter.kind)])
    submitted(world, adapter)
    await until(lambda: holders(world, adapter))


async def _survives_the_manager(world: World, tasks: TaskGroup, adapter: DeclaredJob) -> None:
    for site in world.sites:
        site.cluster.install([definition(adapter.kind)])
    manager = world.add_manager("manager-0", in_force(adapter))
    await manager.begin(tasks).wait()
    submitted(world, adapter)
    await until(lambda: holders(world, adapter))
    (winner,) = holders(world, adapter)
    manager.kill()
    finish(world, adapter, winner)
    await world.add_manager("manager-1", in_force(adapter)).begin(tasks).wait()
    await until(lambda: status(world, adapter) == over(adapter))
    await until(lambda: not holders(world, adapter))


async def _waits_for_its_runtime(world: World, tasks: TaskGroup, adapter: DeclaredJob) -> None:
    assert adapter.runtimes is not None
    for site in world.sites:
        site.cluster.install([definition(kind) for kind in (adapter.kind, *adapter.runtimes.kinds)])
    await world.add_manager("manager-0", in_force(adapter)).begin(tasks).wait()
    submitted(world, adapter)
    await until(lambda: "PodsUnknown" in [event["reason"] for event in world.manager.all(kinds.EVENTS)])
    assert not world.manager.all(kinds.WORKLOADS)
    (kind,) = (each for each in adapter.runtimes.kinds if not each.namespaced)
    made = {"apiVersion": kind.api_version, "kind": kind.kind}
    world.manager.create(kind, made | {"metadata": {"name": "torch"}, "spec": RUNTIME})
    await until(lambda: holders(world, adapter))
    (workload,) = world.manager.all(kinds.WORKLOADS)
    assert [each["count"] for each in workload["spec"]["podSets"]] == [1, 2, 1]

    (winner,) = holders(world, adapter)
    ended = {"name": "dataset-initializer", "succeeded": 1}
    world.workers[winner].site.patch(adapter.kind, JOB, {"status": {"jobsStatus": [ended]}}, subresource="status")

    def reclaimed() -> object:
        return world.manager.all(kinds.WORKLOADS)[0]["status"].get("reclaimablePods")

    await until(lambda: reclaimed() == [{"name": "dataset-initializer", "count": 1}])
    world.manager.delete(kind, ObjectKey("", "torch"))
    await anyio.sleep(60)
    assert holders(world, adapter) == [winner], "what runs goes on"
    finish(world, adapter, winner)
    await until(lambda: status(world, adapter) == over(adapter))
    await until(lambda: not holders(world, adapter))


async def _is_dispatched_for_its_maker(world: World, tasks: TaskGroup) -> None:
    for site in world.sites:
        site.cluster.install([definition(RUN.kind)])
    integrations = Integrations(external=(RUN.declared.framework,))
    settings = Settings(cluster=Cluster(namespace=LAYOUT.secrets), integrations=integrations, retention=AT_ONCE)
    await world.add_manager("manager-0", InForce(settings)).begin(tasks).wait()
    metadata = {"name": JOB.name, "namespace": NAMESPACE, "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    own = {"apiVersion": RUN.kind.api_version, "kind": RUN.kind.kind, "metadata": metadata, "data": {"seed": 7}}
    world.manager.create(RUN.kind, own | {"spec": {"managedBy": CONTROLLER_NAME, "tasks": [{"name": "a"}]}})
    await anyio.sleep(30)
    assert not world.manager.all(kinds.WORKLOADS), "that is for whoever knows what it needs"
    world.manager.create(kinds.WORKLOADS, made_by_its_controller(world))
    await until(lambda: holders(world, RUN))
    (winner,) = holders(world, RUN)
    far = world.workers[winner].site.stored(RUN.kind, JOB) or {}
    assert (far["spec"], far["data"]) == ({"tasks": [{"name": "a"}]}, {"seed": 7})
    finish(world, RUN, winner)
    await until(lambda: not holders(world, RUN))
    assert status(world, RUN) == over(RUN)
    (workload,) = world.manager.all(kinds.WORKLOADS)
    assert any(each["type"] == "Finished" and each["status"] == "True" for each in workload["status"]["conditions"])


def made_by_its_controller(world: World) -> Object:
    job = world.manager.stored(RUN.kind, JOB) or {}
    owner = {"apiVersion": RUN.kind.api_version, "kind": RUN.kind.kind, "name": JOB.name, "controller": True}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    return {
        "apiVersion": kinds.WORKLOADS.api_version,
        "kind": kinds.WORKLOADS.kind,
        "metadata": {
            "name": "run-job",
            "namespace": NAMESPACE,
            "ownerReferences": [owner | {"uid": job["metadata"]["uid"]}],
        },
        "spec": {"queueName": "main", "podSets": [pods]},
    }


@EACH
def test_it_runs_where_its_kind_is_known_and_comes_home_finished(framework: str) -> None:
    in_a_world(_lives, framework)


@EACH
def test_a_kind_that_comes_late_is_taken_in(framework: str) -> None:
    in_a_world(_comes_late, framework)


@EACH
def test_a_manager_that_dies_loses_no_end(framework: str) -> None:
    in_a_world(_survives_the_manager, framework)


def test_a_job_whose_pods_another_object_describes_waits_for_that_one_and_outlives_it() -> None:
    in_a_world(_waits_for_its_runtime, "trainer.kubeflow.org/trainjob")


def test_a_kind_whose_workloads_somebody_else_makes_is_dispatched_all_the_same() -> None:
    perform(LAYOUT, _is_dispatched_for_its_maker)


@pytest.mark.parametrize("at_home", [False, True], ids=["on a worker", "in a queue without a MultiKueue check"])
@pytest.mark.parametrize("framework", REFUSED)
def test_what_its_controller_refuses_is_over_and_holds_no_quota(framework: str, at_home: bool) -> None:
    perform(LAYOUT, lambda world, tasks: _is_refused(world, tasks, adapter_of(framework), at_home=at_home))
