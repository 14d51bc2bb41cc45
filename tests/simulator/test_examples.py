"""Each example file of docs/examples through a whole manager, as the webhook leaves it: it runs on one of two workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonpatch
import msgspec
import pytest
import yaml
from anyio.abc import TaskGroup

from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kinds import DEPLOYMENTS, PODS, STATEFUL_SETS
from multikueue.api.meta import ObjectKey, encode
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.jobs.kinds.deployment import DEPLOYMENT
from multikueue.jobs.kinds.pods.webhook import default_pod, read_pod
from multikueue.settings import Cluster, InForce, Integrations, Settings
from multikueue_simulator.world.world import NAMESPACE, World
from tests.controllers.table import AT_ONCE
from tests.jobs.test_examples import COUNTS, FOLDER
from tests.simulator.stage import perform
from tests.simulator.test_job_kinds import JOB, definition, until
from tests.simulator.test_published_kinds import ADAPTERS, LAYOUT, lives, without_memory

Object = dict[str, Any]


def example(name: str) -> Object:
    body: Object = without_memory(yaml.safe_load((FOLDER / f"{name}.yaml").read_text()))
    body["metadata"]["namespace"] = NAMESPACE
    return body


def settings(*frameworks: str) -> Settings:
    integrations = Integrations(frameworks=("batch/job", *frameworks))
    return Settings(cluster=Cluster(namespace=LAYOUT.secrets), integrations=integrations, retention=AT_ONCE)


def defaulted(body: Object) -> Object:
    """As the webhook leaves it, which finds nothing wrong with it."""
    known = [DEPLOYMENT, *FRAMEWORKS.values()]
    (adapter,) = [
        each for each in known if (each.kind.api_version, each.kind.kind) == (body["apiVersion"], body["kind"])
    ]
    job: Any = adapter.submitted(msgspec.Raw(encode(body)))
    assert adapter.refusal(job) is None
    left: Object = jsonpatch.apply_patch(body, adapter.defaults(job, is_multikueue_queue=True))
    return left


DECLARED = [name for name in COUNTS if yaml.safe_load((FOLDER / f"{name}.yaml").read_text())["kind"] in ADAPTERS]


@pytest.mark.parametrize("name", DECLARED)
def test_a_job_of_a_kind_that_is_installed_runs_to_its_end(name: str) -> None:
    shown = example(name)
    adapter = ADAPTERS[shown["kind"]]
    assert isinstance(adapter, DeclaredJob)
    # Its submitter would ask for memory, of which these queues have none.
    shown["spec"] |= {"submissionMode": "HTTPMode"} if name == "rayjob" else {}
    counts = {pods.replace(name, JOB.name): count for pods, count in COUNTS[name].items() if pods != "submitter"}
    asked = {pods: (count, "1") for pods, count in counts.items()}
    chosen = settings(adapter.declared.framework)
    perform(LAYOUT, lambda world, tasks: lives(world, tasks, adapter, chosen, shown=shown, asked=asked))


def pods_of(owner: Object) -> Iterator[Object]:
    """As the controllers of Kubernetes make them of a template, and the webhook leaves them."""
    template = owner["spec"]["template"]
    for number in range(owner["spec"]["replicas"]):
        metadata = {**template["metadata"], "name": f"{owner['metadata']['name']}-{number}", "namespace": NAMESPACE}
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
        reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata | {"ownerReferences": [reference]}}
        made["spec"] = template["spec"]
        yield jsonpatch.apply_patch(made, default_pod(read_pod(encode(made))))


async def reaches_a_worker(
    world: World, tasks: TaskGroup, name: str, kind: Kind[Any], goes: Kind[Any], chosen: Settings
) -> None:
    """Submitted as that kind, it is on one worker as objects of the kind that goes there."""
    for site in world.sites:
        site.cluster.install([definition(each) for each in (STATEFUL_SETS, DEPLOYMENTS)])
    await world.add_manager("manager-0", InForce(chosen)).begin(tasks).wait()
    world.manager.create(kind, defaulted(example(name)))
    if kind in (STATEFUL_SETS, DEPLOYMENTS):
        for pod in pods_of(world.manager.stored(kind, ObjectKey(NAMESPACE, name)) or {}):
            world.manager.create(PODS, pod)

    def there() -> list[int]:
        return [found for worker in world.workers.values() if (found := len(worker.site.all(goes)))]

    wanted = 1 if goes is not PODS else sum(COUNTS[name].values())
    await until(lambda: sum(there()) == wanted)
    assert len(there()) == 1 or kind is DEPLOYMENTS, "its Pods are jobs, one by one"


@pytest.mark.parametrize(
    ("name", "kind", "goes", "frameworks"),
    [
        pytest.param("job", kinds.JOBS, kinds.JOBS, (), id="a Job"),
        pytest.param("pod", PODS, PODS, ("pod",), id="a Pod"),
        pytest.param("deployment", DEPLOYMENTS, PODS, ("pod", "deployment"), id="a Deployment, by its Pods"),
        pytest.param("statefulset", STATEFUL_SETS, STATEFUL_SETS, ("statefulset",), id="a StatefulSet"),
    ],
)
def test_what_every_cluster_knows_runs_on_a_worker(
    name: str, kind: Kind[Any], goes: Kind[Any], frameworks: tuple[str, ...]
) -> None:
    perform(LAYOUT, lambda world, tasks: reaches_a_worker(world, tasks, name, kind, goes, settings(*frameworks)))


def test_each_file_is_run() -> None:
    assert {*DECLARED, "job", "pod", "deployment", "statefulset"} == {*COUNTS}
