"""Jobs of declared kinds on real clusters, with their real CRDs: the Workload that Kueue makes of each, and kinds that others
bring. Their lives are in `test_every_kind.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import anyio
import pytest

from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from testbed import objects
from testbed.bed import MANAGER, Plan, Testbed
from testbed.client import ApiError, Client, Kind, eventually
from testbed.controllers import GARBAGE
from testbed.objects import CLUSTER_QUEUE, WORKLOAD, Object
from tests.jobs.all_kinds import RUNTIME, body, drop, leaves, value
from tests.jobs.builders import plain
from tests.real.harness import Team
from tests.real.skipping import needs_programs

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(180),
    needs_programs("other clusters have neither these kinds nor a Kueue that integrates them"),
]

KNOWN = {name: adapter for name, adapter in FRAMEWORKS.items() if name != "ray.io/rayservice"}
"""Those that Kueue 0.16 integrates."""
DECLARED = {name: adapter for name, adapter in KNOWN.items() if isinstance(adapter, DeclaredJob)}
EACH = pytest.mark.parametrize("adapter", DECLARED.values(), ids=DECLARED)
RUNTIME_KIND = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime"}
STARTED = "2026-01-01T12:00:00Z"


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """A worker whose Kueue integrates all kinds we know."""
    plan = Plan(
        workers=1,
        crds=("kueue", "jobset", "kubeflow", "mpi", "ray", "trainer", "appwrapper"),
        frameworks=tuple(KNOWN),
        controllers={MANAGER: [GARBAGE]},
    )
    bed = Testbed(plan)
    anyio.run(_opened, bed)
    yield bed
    anyio.run(bed.close)


async def _opened(bed: Testbed) -> None:
    """With the runtime that the TrainJob names, which is nobody's to copy."""
    await bed.open()
    for plane in bed.planes.values():
        async with plane.client() as client:
            await client.create({**RUNTIME_KIND, "metadata": {"name": "torch"}, "spec": RUNTIME})


@pytest.fixture(scope="module")
def manager_settings() -> dict[str, str]:
    return {
        "INTEGRATIONS__FRAMEWORKS": ",".join(FRAMEWORKS),
        "INTEGRATIONS__EXTERNAL": "Gadget.v1.example.com",
    }


def kind_of(adapter: DeclaredJob) -> Kind:
    return Kind(adapter.kind.api_version, adapter.kind.kind)


def made(adapter: DeclaredJob, namespace: str, *, managed: bool = True) -> Object:
    """The object as a user submits it, with nothing that a server gives."""
    whole = body(adapter, managed=managed)
    meta = {"name": "job", "namespace": namespace, "labels": whole["metadata"]["labels"]}
    return {**whole, "metadata": meta}


@EACH
async def test_a_workload_looks_like_the_one_that_kueue_makes(crew: Team, adapter: DeclaredJob) -> None:
    kind, client = kind_of(adapter), next(iter(crew.clients.values()))
    await crew.stop()  # once it is started, the templates have what its flavor says
    whole = made(adapter, crew.namespace, managed=False)
    for path in adapter.declared.dropped:
        drop(whole, path)
    await client.create(whole)

    async def of_kueue() -> Object | None:
        found = await client.list(WORKLOAD, crew.namespace)
        return found[0] if found else None

    theirs = await eventually(of_kueue, timeout=40)
    job = value(adapter, await client.get(kind, "job", crew.namespace))
    ours = plain(adapter.workload_body(job, priority=Priority()))
    probe = {**ours, "metadata": {**ours["metadata"], "name": "probe"}}
    stored = await client.create(probe, dry_run=True)
    assert ours["metadata"]["name"] == theirs["metadata"]["name"]
    assert ours["metadata"]["labels"] == theirs["metadata"]["labels"]
    assert ours["metadata"]["ownerReferences"] == theirs["metadata"]["ownerReferences"]
    assert dict(leaves(stored["spec"])) == dict(leaves(theirs["spec"]))
    await client.delete(kind, "job", crew.namespace)


async def test_a_rayjob_that_its_operator_refuses_ends_and_holds_no_quota(crew: Team) -> None:
    """kueue#14192."""
    adapter = DECLARED["ray.io/rayjob"]
    kind, ((_, client),), namespace = kind_of(adapter), crew.clients.items(), crew.namespace
    await crew.manager.create(made(adapter, namespace))
    await eventually(lambda: client.find(kind, "job", namespace), timeout=60)
    refused = {"jobDeploymentStatus": "ValidationFailed", "message": "the spec makes no sense"}
    await client.patch_status(kind, "job", refused, namespace)

    async def over() -> bool:
        (workload,) = await crew.manager.list(WORKLOAD, namespace)
        said = objects.condition(workload, "Finished")
        assert said is not None, "the workload is not finished"
        assert (said["reason"], said["message"]) == ("Failed", "the spec makes no sense")
        return await crew.counts(CLUSTER_QUEUE, namespace, reservingWorkloads=0)

    await eventually(over, timeout=40)
    await crew.manager.delete(kind, "job", namespace)


# A kind whose Workloads somebody else makes: here it is the test that makes them, and ends them on the worker.

GADGET = Kind("example.com/v1", "Gadget")


def definition(kind: str, plural: str, **annotations: str) -> Object:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com", "annotations": annotations},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [version],
        },
    }


async def installed(cluster: Client, kind: Kind, made: Object, namespace: str) -> None:
    await cluster.apply(made)

    async def known() -> bool:
        with suppress(ApiError):  # its storage is being made
            return await cluster.list(kind, namespace) == []
        return False

    await eventually(known, timeout=30)


async def finish(client: Client, workload: str, namespace: str) -> None:
    """The worker's Workload is over, as whoever knows the kind there says."""
    copy = await client.get(WORKLOAD, workload, namespace)
    ended = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": STARTED}
    await client.patch_status(WORKLOAD, workload, {"conditions": [*copy["status"]["conditions"], ended]}, namespace)


def workload_of(job: Object) -> Object:
    meta = job["metadata"]
    owner = {"apiVersion": "example.com/v1", "kind": "Gadget", "name": meta["name"], "uid": meta["uid"]}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "metadata": {
            "name": "gadget-job",
            "namespace": meta["namespace"],
            "ownerReferences": [owner | {"controller": True}],
        },
        "spec": {"queueName": "main", "podSets": [pods]},
    }


async def test_a_kind_whose_workloads_somebody_else_makes_is_dispatched_by_its_name_alone(crew: Team) -> None:
    ((_, client),), namespace = crew.clients.items(), crew.namespace
    for cluster in (crew.manager, client):
        await installed(cluster, GADGET, definition("Gadget", "gadgets"), namespace)
    own = {"apiVersion": GADGET.api_version, "kind": GADGET.kind}
    labels = {"kueue.x-k8s.io/queue-name": "main", "team": "a"}
    spec = {"managedBy": "kueue.x-k8s.io/multikueue", "steps": 3}
    metadata = {"name": "job", "namespace": namespace, "labels": labels}
    job = await crew.manager.create(own | {"metadata": metadata, "spec": spec})
    await crew.manager.create(workload_of(job))

    async def copied() -> Object | None:
        return await client.find(GADGET, "job", namespace)

    remote = await eventually(copied, timeout=90)
    assert remote["spec"] == {"steps": 3}
    assert remote["metadata"]["labels"]["kueue.x-k8s.io/prebuilt-workload-name"] == "gadget-job"
    await client.patch_status(GADGET, "job", {"phase": "Done"}, namespace)
    await finish(client, "gadget-job", namespace)

    async def over() -> bool:
        assert (await crew.manager.get(GADGET, "job", namespace)).get("status") == {"phase": "Done"}
        said = objects.condition(await crew.manager.get(WORKLOAD, "gadget-job", namespace), "Finished")
        assert said is not None, "the workload is not finished"
        assert await client.find(GADGET, "job", namespace) is None, "the copy of the job is still there"
        return not await client.list(WORKLOAD, namespace)

    await eventually(over, timeout=40)
    await crew.manager.delete(GADGET, "job", namespace)
