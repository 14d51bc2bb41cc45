"""Work that claims devices in a world: it gets quota on the manager for what its templates there say, and runs on a worker."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import yaml
from anyio.abc import TaskGroup

from multikueue.api import kinds
from multikueue.api.kueue.workload import QUOTA_RESERVED
from multikueue.api.meta import ObjectKey
from multikueue.settings import STANDALONE, Cluster, DeviceClassMapping, DynamicResources, InForce, Quota, Settings
from multikueue_simulator.workers.kueue.behaviour import Behaviour
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import MANAGER, NAMESPACE, Layout, Share, World
from tests.project.files import ROOT
from tests.simulator.rights import Asked, Verb, account, guard, verbs
from tests.simulator.stage import perform

LAYOUT = Layout(queues=(Share("main", 8),), workers=(Share("w1", 8), Share("w2", 8)))
JOB = ObjectKey(NAMESPACE, "job")
MAPPING = DeviceClassMapping(name="gpu", device_class_names=("gpu.example.com",))
Tree = dict[str, Any]


def in_a_world(test: Callable[[World, TaskGroup], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def wrapped() -> None:
        perform(LAYOUT, test)

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


async def begin(world: World, tasks: TaskGroup, *mappings: DeviceClassMapping) -> None:
    """A manager, and quota for two GPUs."""
    resources = [{"name": "cpu", "nominalQuota": "8"}, {"name": "gpu", "nominalQuota": "2"}]
    group = {"coveredResources": ["cpu", "gpu"], "flavors": [{"name": objects.FLAVOR, "resources": resources}]}
    world.manager.patch(kinds.CLUSTER_QUEUES, ObjectKey("", "main"), {"spec": {"resourceGroups": [group]}})
    quota = Quota(dra=DynamicResources(device_class_mappings=mappings))
    settings = Settings(roles=STANDALONE, cluster=Cluster(namespace=LAYOUT.secrets), quota=quota)
    await world.add_manager("manager-0", InForce(settings)).begin(tasks).wait()


def submit(world: World, name: str = "job", *, pods: int = 2) -> None:
    body = objects.job(name, NAMESPACE, queue="main", parallelism=pods, seconds=30.0)
    body["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    world.manager.create(kinds.JOBS, body)


def create_template(world: World) -> None:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]
    meta = {"name": "one-gpu", "namespace": NAMESPACE}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": meta}
    spec = {"spec": {"devices": {"requests": requests}}}
    world.manager.create(kinds.RESOURCE_CLAIM_TEMPLATES, body | {"spec": spec})


async def until(holds: Callable[[], object]) -> None:
    with anyio.fail_after(120):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.25)


def waits_for(world: World) -> tuple[str, str]:
    """Reason and message of the only Workload without quota."""
    conditions = (c for w in world.manager.all(kinds.WORKLOADS) for c in w.get("status", {}).get("conditions", ()))
    return next(
        ((c["reason"], c["message"]) for c in conditions if c["type"] == QUOTA_RESERVED and c["status"] == "False"),
        ("", ""),
    )


def is_over(world: World, name: str) -> bool:
    found = world.manager.stored(kinds.JOBS, ObjectKey(NAMESPACE, name)) or {}
    return any(each["type"] == "Complete" for each in found.get("status", {}).get("conditions", ()))


@in_a_world
async def test_it_waits_for_its_template_and_then_runs(world: World, tasks: TaskGroup) -> None:
    await begin(world, tasks, MAPPING)
    submit(world)
    await until(lambda: waits_for(world)[0])
    assert waits_for(world) == (
        "Inadmissible",
        "spec.podSets[0].template.spec.resourceClaims[0].resourceClaimTemplateName: Not found: "
        '"ResourceClaimTemplate one-gpu of podset main is not there"',
    )

    create_template(world)
    await until(lambda: any(w.site.stored(kinds.JOBS, JOB) for w in world.workers.values()))
    (workload,) = world.manager.all(kinds.WORKLOADS)
    (assigned,) = workload["status"]["admission"]["podSetAssignments"]
    assert assigned["resourceUsage"] == {"cpu": "2", "gpu": "2"}
    assert assigned["flavors"] == {"cpu": "default", "gpu": "default"}
    copies = [job for w in world.workers.values() if (job := w.site.stored(kinds.JOBS, JOB))]
    claims = [each["spec"]["template"]["spec"]["resourceClaims"] for each in copies]
    assert claims == [[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]]
    assert not any(w.site.all(kinds.RESOURCE_CLAIM_TEMPLATES) for w in world.workers.values())
    await until(lambda: is_over(world, "job"))


@in_a_world
async def test_others_wait_until_devices_are_free(world: World, tasks: TaskGroup) -> None:
    create_template(world)
    await begin(world, tasks, MAPPING)
    submit(world, "first")
    await until(lambda: any(w["status"].get("admission") for w in world.manager.all(kinds.WORKLOADS) if "status" in w))
    submit(world, "second", pods=1)
    await until(lambda: "insufficient unused quota for gpu" in waits_for(world)[1])
    await until(lambda: is_over(world, "second"))


LACKS_TEMPLATE = Behaviour(
    refusal=lambda _copy: (
        "spec.podSets[0].template.spec.resourceClaims[0]: Internal error: failed to get claim spec for "
        "ResourceClaimTemplate one-gpu in podset main"
    )
)
"""What a Kueue with mappings does to copies where their template is not there."""


@in_a_world
async def test_the_worker_that_has_the_template_gets_it(world: World, tasks: TaskGroup) -> None:
    create_template(world)
    world.workers["w1"].kueue.behave(LACKS_TEMPLATE)
    await begin(world, tasks, MAPPING)
    submit(world)
    await until(lambda: world.workers["w2"].site.stored(kinds.JOBS, JOB))
    assert world.workers["w1"].site.stored(kinds.JOBS, JOB) is None
    await until(lambda: is_over(world, "job"))


@in_a_world
async def test_it_keeps_its_quota_until_a_worker_has_the_template(world: World, tasks: TaskGroup) -> None:
    create_template(world)
    for worker in world.workers.values():
        worker.kueue.behave(LACKS_TEMPLATE)
    await begin(world, tasks, MAPPING)
    submit(world)
    await anyio.sleep(600)
    (workload,) = world.manager.all(kinds.WORKLOADS)
    assert workload["status"]["admission"]
    assert [check["state"] for check in workload["status"]["admissionChecks"]] == ["Pending"]

    world.workers["w2"].kueue.behave(Behaviour())
    await until(lambda: is_over(world, "job"))


@in_a_world
async def test_without_a_mapping_it_waits_and_nothing_of_devices_is_read(world: World, tasks: TaskGroup) -> None:
    create_template(world)
    asked = watched(world)
    await begin(world, tasks)
    submit(world)
    await until(lambda: waits_for(world)[0])
    assert "no DeviceClass is mapped in DRA configuration" in waits_for(world)[1]
    assert {verb for verb in asked.used if verb.group == "resource.k8s.io"} == set()


@in_a_world
async def test_the_rights_in_deploy_are_those_that_are_used(world: World, tasks: TaskGroup) -> None:
    create_template(world)
    asked = watched(world)
    await begin(world, tasks, MAPPING)
    submit(world)
    await until(lambda: is_over(world, "job"))
    assert asked.refused == set()
    assert {verb for verb in asked.used if verb.group == "resource.k8s.io"} == granted("devices")


def watched(world: World) -> Asked:
    """What a manager asks of its own cluster, where the rights in deploy/ are all that it has."""
    asked = Asked()
    for path in ("overlays/standalone", "components/devices"):
        for body in yaml.safe_load_all((ROOT / "deploy" / path / "rights.yaml").read_text()):
            grant(world, body)
    guard(world.network.hosts[MANAGER], world.manager.cluster, "manager-0", ACCOUNT, asked, others=())
    return asked


ACCOUNT = account(LAYOUT.secrets, "multikueue-manager")


def grant(world: World, body: Tree) -> None:
    for subject in body.get("subjects", ()):
        subject["namespace"] = LAYOUT.secrets
    namespace = LAYOUT.secrets if body["kind"] in ("Role", "RoleBinding") else ""
    body["metadata"] |= {"namespace": namespace} if namespace else {}
    place = f"/apis/{body['apiVersion']}" + (f"/namespaces/{namespace}" if namespace else "")
    world.manager.call("POST", f"{place}/{body['kind'].lower()}s", body)


def granted(component: str) -> set[Verb]:
    found = yaml.safe_load_all((ROOT / "deploy/components" / component / "rights.yaml").read_text())
    return set().union(*(verbs(body.get("rules", ())) for body in found))
