"""A job of each kind that a CustomResourceDefinition brings, as its own project's documentation shows it, through a whole
manager: from its submission to its end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from anyio.abc import TaskGroup

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey, encode
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.jobs.trees import paths
from multikueue.settings import Cluster, InForce, Integrations, Settings
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World
from tests.controllers.table import AT_ONCE
from tests.jobs.all_kinds import put, running, succeeded
from tests.jobs.published import MANIFESTS, RUNTIME, RUNTIME_NAME, Object, manifest
from tests.project.test_job_kinds import documented
from tests.simulator.stage import perform
from tests.simulator.test_job_kinds import JOB, STARTED, definition, holders, status, until

LAYOUT = Layout(queues=(Share("main", 64),), workers=(Share("w1", 64), Share("w2", 64)))
ADAPTERS = {each.kind.kind: each for each in FRAMEWORKS.values() if isinstance(each, DeclaredJob)}
SPARK = "SparkApplication"
KINDS = [kind for kind in MANIFESTS if kind in ADAPTERS or kind == SPARK]

ASKED = {
    "JobSet": {"workers": (2, "1"), "driver": (2, "1")},
    "PyTorchJob": {"master": (1, "1"), "worker": (2, "1")},
    "TFJob": {"ps": (1, "1"), "worker": (2, "1")},
    "XGBoostJob": {"master": (1, "1"), "worker": (2, "1")},
    "PaddleJob": {"worker": (2, "1")},
    "JAXJob": {"worker": (2, "1")},
    "MPIJob": {"launcher": (1, "1"), "worker": (2, "1")},
    "RayJob": {"head": (1, "1"), "small-group": (1, "1")},
    "RayCluster": {"head": (1, "1"), "small-group": (1, "1")},
    "RayService": {"head": (1, "1"), "small-group": (1, "1")},
    "TrainJob": {"node": (2, "2")},
    "AppWrapper": {"job-0": (1, "1")},
    SPARK: {"driver": (1, "1"), "executor": (2, "1")},
}
"""Pods of each pod set, and the CPUs of one."""


def test_each_kind_has_its_row() -> None:
    assert {*KINDS} == {*ADAPTERS, SPARK} == {*ASKED}


def as_submitted(adapter: DeclaredJob, shown: Object) -> Object:
    """As the webhook leaves it, which finds nothing wrong with it."""
    made: Object = without_memory(shown)
    made["metadata"] |= {"name": JOB.name, "namespace": NAMESPACE, "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    job = adapter.submitted(msgspec.Raw(encode(made)))
    assert adapter.refusal(job) is None
    for each in adapter.defaults(job, is_multikueue_queue=True):
        put(made, each["path"].removeprefix("/").replace("/", "."), each["value"])
    return made


def without_memory(value: Any) -> Any:
    """The queues of simulated worlds have CPUs only."""
    if isinstance(value, list):
        return [without_memory(each) for each in value]
    return {k: without_memory(v) for k, v in value.items() if k != "memory"} if isinstance(value, dict) else value


def stages(adapter: DeclaredJob) -> tuple[Object, Object]:
    """What its own controller says while it runs, and at its end."""
    if adapter.kind.kind == SPARK:
        return {"applicationState": {"state": "RUNNING"}}, {"applicationState": {"state": "COMPLETED"}}
    over = succeeded(adapter)
    conditions = [{**each, "lastTransitionTime": STARTED} for each in over.get("conditions", ())]
    return running(adapter), over | ({"conditions": conditions} if conditions else {})


async def lives(
    world: World,
    tasks: TaskGroup,
    adapter: DeclaredJob,
    settings: Settings,
    *,
    shown: Object,
    asked: dict[str, tuple[int, str]],
) -> None:
    """The job runs on one worker and ends. `asked`: pods of each pod set, and the CPUs of one."""
    described = adapter.runtimes.kinds if adapter.runtimes is not None else ()
    for site in world.sites:
        site.cluster.install([definition(kind) for kind in (adapter.kind, *described)])
        for kind in (each for each in described if not each.namespaced):
            made = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": RUNTIME_NAME}}
            site.create(kind, made | {"spec": RUNTIME})
    await world.add_manager("manager-0", InForce(settings)).begin(tasks).wait()
    made = as_submitted(adapter, shown)
    world.manager.create(adapter.kind, made)
    await until(lambda: holders(world, adapter))
    (winner,) = holders(world, adapter)
    site = world.workers[winner].site
    copied, managed_by = (site.stored(adapter.kind, JOB) or {})["spec"], adapter.declared.managed_by
    assert not managed_by or paths.only({"spec": copied}, managed_by) is None
    (workload,) = world.manager.all(kinds.WORKLOADS)
    found = {
        each["name"]: (each["count"], each["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        for each in workload["spec"]["podSets"]
    }
    assert found == asked

    ran, over = stages(adapter)
    site.patch(adapter.kind, JOB, {"status": ran}, subresource="status")
    await until(lambda: status(world, adapter) == ran)
    if adapter.declared.succeeded is None:
        world.manager.delete(adapter.kind, JOB)
        await until(lambda: not world.manager.all(kinds.WORKLOADS))
    else:
        site.patch(adapter.kind, JOB, {"status": dict.fromkeys(ran) | over}, subresource="status")
        _finish(world, winner)
        await until(lambda: status(world, adapter) == over)
        await until(lambda: _is_finished(world))
    await until(lambda: not holders(world, adapter))
    await until(lambda: not any(worker.site.all(kinds.WORKLOADS) for worker in world.workers.values()))


def _finish(world: World, winner: str) -> None:
    """As the worker's Kueue does that sees the end of the job."""
    site = world.workers[winner].site
    (copy,) = site.all(kinds.WORKLOADS)
    ended = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": STARTED}
    conditions = [*copy["status"]["conditions"], ended]
    name = ObjectKey(NAMESPACE, copy["metadata"]["name"])
    site.patch(kinds.WORKLOADS, name, {"status": {"conditions": conditions}}, subresource="status")


def _is_finished(world: World) -> bool:
    (workload,) = world.manager.all(kinds.WORKLOADS)
    said = {each["type"]: each for each in workload["status"]["conditions"]}
    return "Finished" in said and said["Finished"]["reason"] == "Succeeded"


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_as_its_project_shows_it_runs_to_its_end(kind: str) -> None:
    if kind == SPARK:
        integrations, adapter = documented(SPARK)
    else:
        adapter = ADAPTERS[kind]
        integrations = Integrations(frameworks=("batch/job", adapter.declared.framework))
    settings = Settings(cluster=Cluster(namespace=LAYOUT.secrets), integrations=integrations, retention=AT_ONCE)
    shown = manifest(kind, NAMESPACE)
    perform(LAYOUT, lambda world, tasks: lives(world, tasks, adapter, settings, shown=shown, asked=ASKED[kind]))
