"""Pods, of users and of Deployments: held at home, run on one worker; one file, one set of clusters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from multikueue.api.jobs.pod import Pod
from multikueue.api.meta import decoder, encode
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.kinds.pods.pod import PLAIN_POD
from testbed import objects
from testbed.bed import MANAGER, Plan, Testbed
from testbed.client import ApiError, Client, Kind, eventually
from testbed.controllers import GARBAGE
from testbed.objects import LOCAL_QUEUE, WORKLOAD, Object
from tests.jobs.builders import plain
from tests.real.dialect import spoken
from tests.real.harness import Manager, Team
from tests.real.skipping import needs_programs
from tests.real.webhooking import SETTINGS, registered, with_webhook

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(180),
    needs_programs("other clusters' Kueue does not integrate Pods"),
]

POD = Kind("v1", "Pod")
DEPLOYMENT = Kind("apps/v1", "Deployment")
GATES = ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"]
FINALIZER = "kueue.x-k8s.io/managed"
STARTED = "2026-01-01T12:00:00Z"


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """Two workers whose Kueue integrates Pods."""
    bed = Testbed(
        Plan(
            workers=2,
            frameworks=("batch/job", "pod"),
            controllers={MANAGER: [GARBAGE, "deployment-controller", "replicaset-controller"]},
        )
    )
    anyio.run(bed.open)
    yield bed
    anyio.run(bed.close)


@pytest.fixture(scope="module")
def manager_settings() -> dict[str, str]:
    return {**SETTINGS, "INTEGRATIONS__FRAMEWORKS": "batch/job,pod,deployment"}


@pytest.fixture(scope="module")
def manager(bed: Testbed, manager_settings: dict[str, str]) -> Iterator[Manager]:
    yield from with_webhook(bed, manager_settings)


@pytest.fixture
async def crew(crew: Team) -> Team:
    return await registered(crew)


def pod(crew: Team, name: str = "pod", **labels: str) -> Object:
    """A Pod as a user writes it, with nothing but a queue."""
    container = {
        "name": "main",
        "image": "x",
        "resources": {"requests": {"cpu": "1"}},
        "ports": [{"containerPort": 80}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": crew.namespace,
            "labels": {"kueue.x-k8s.io/queue-name": "main"} | labels,
        },
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }


def gates(body: Object) -> list[str]:
    return [gate["name"] for gate in body["spec"].get("schedulingGates") or []]


def said(type_: str, status: str = "True", **more: Any) -> Object:
    return {"type": type_, "status": status, "lastTransitionTime": STARTED} | more


RUNNING: Object = {
    "phase": "Running",
    "startTime": STARTED,
    "conditions": [said("PodScheduled"), said("Ready")],
    "containerStatuses": [
        {
            "name": "main",
            "image": "x",
            "imageID": "x@1",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": STARTED}},
        }
    ],
}


def ended(phase: str, code: int) -> Object:
    state = {"terminated": {"exitCode": code, "startedAt": STARTED, "finishedAt": STARTED}}
    container = RUNNING["containerStatuses"][0] | {"state": state, "ready": False}
    conditions = [said("PodScheduled"), said("Ready", "False", reason="PodCompleted")]
    return {"phase": phase, "startTime": STARTED, "conditions": conditions, "containerStatuses": [container]}


async def started(crew: Team, name: str = "pod") -> tuple[str, Client]:
    """The one worker on which the Pod is let go."""

    async def let_go() -> str | None:
        found = {worker: await client.find(POD, name, crew.namespace) for worker, client in crew.clients.items()}
        there = [worker for worker, each in found.items() if each and not gates(each)]
        assert len(there) <= 1
        return there[0] if there else None

    worker = await eventually(let_go, timeout=40)
    return worker, crew.clients[worker]


async def shows(crew: Team, phase: str, name: str = "pod") -> Object:
    async def shown() -> Object | None:
        local = await crew.manager.get(POD, name, crew.namespace)
        return local if local["status"].get("phase") == phase else None

    return await eventually(shown, timeout=40)


async def test_a_pod_that_fails_on_its_worker_has_failed_at_home(crew: Team) -> None:
    made = await crew.manager.create(pod(crew, team="a"))
    assert gates(made) == GATES
    assert FINALIZER in made["metadata"]["finalizers"]
    assert made["metadata"]["labels"][FINALIZER] == "true"

    _, client = await started(crew)
    copy = await client.get(POD, "pod", crew.namespace)
    assert copy["metadata"]["labels"]["team"] == "a"
    assert copy["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"]
    assert copy["spec"]["containers"] == made["spec"]["containers"]

    await client.patch_status(POD, "pod", RUNNING, crew.namespace)
    local = await shows(crew, "Running")
    assert gates(local) == GATES
    assert local["status"] == (await client.get(POD, "pod", crew.namespace))["status"]

    await client.patch_status(POD, "pod", ended("Failed", 1), crew.namespace)
    await shows(crew, "Failed")

    async def left() -> bool:
        for other in crew.clients.values():
            assert await other.find(POD, "pod", crew.namespace) is None, "the copy is still there"
            assert not await other.list(WORKLOAD, crew.namespace), "the copy of the Workload is still there"
        (workload,) = await crew.manager.list(WORKLOAD, crew.namespace)
        conditions = {each["type"]: each for each in workload["status"]["conditions"]}
        assert conditions["Finished"]["reason"] == "Failed"
        local = await crew.manager.get(POD, "pod", crew.namespace)
        assert not local["metadata"].get("finalizers"), "it is still held"
        assert gates(local) == GATES
        return True

    await eventually(left, timeout=40)
    await crew.manager.delete(POD, "pod", crew.namespace)


async def test_a_pod_that_is_deleted_takes_its_copy_with_it(crew: Team) -> None:
    await crew.manager.create(pod(crew))
    _, client = await started(crew)
    await client.patch_status(POD, "pod", RUNNING, crew.namespace)
    await shows(crew, "Running")
    await crew.manager.delete(POD, "pod", crew.namespace)

    async def gone() -> bool:
        assert await crew.manager.find(POD, "pod", crew.namespace) is None
        assert not await crew.manager.list(WORKLOAD, crew.namespace)
        for worker in crew.clients.values():
            assert await worker.find(POD, "pod", crew.namespace) is None
            assert not await worker.list(WORKLOAD, crew.namespace)
        return True

    await eventually(gone, timeout=40)


async def test_a_pod_whose_workload_is_deactivated_runs_nowhere_and_runs_again_when_it_is_activated(crew: Team) -> None:
    await crew.manager.create(pod(crew))
    _, client = await started(crew)
    await client.patch_status(POD, "pod", ended("Running", 1) | {"phase": "Running"}, crew.namespace)
    await shows(crew, "Running")
    (workload,) = await crew.manager.list(WORKLOAD, crew.namespace)
    name = workload["metadata"]["name"]
    await crew.manager.patch(WORKLOAD, name, {"spec": {"active": False}}, crew.namespace)

    async def stopped() -> bool:
        for worker in crew.clients.values():
            assert await worker.find(POD, "pod", crew.namespace) is None
        local = await crew.manager.get(POD, "pod", crew.namespace)
        assert local["status"]["phase"] == "Pending"
        assert "containerStatuses" not in local["status"]
        return True

    await eventually(stopped, timeout=40)
    await crew.manager.patch(WORKLOAD, name, {"spec": {"active": True}}, crew.namespace)
    _, client = await started(crew)
    await client.patch_status(POD, "pod", RUNNING, crew.namespace)
    await shows(crew, "Running")
    await crew.manager.delete(POD, "pod", crew.namespace)


async def test_a_pod_goes_with_its_workload(crew: Team) -> None:
    await crew.manager.create(pod(crew))
    await started(crew)
    (workload,) = await crew.manager.list(WORKLOAD, crew.namespace)
    await crew.manager.delete(WORKLOAD, workload["metadata"]["name"], crew.namespace)

    async def gone() -> bool:
        assert await crew.manager.find(POD, "pod", crew.namespace) is None
        assert not await crew.manager.list(WORKLOAD, crew.namespace)
        return True

    await eventually(gone, timeout=40)


async def test_a_workload_looks_like_the_one_that_kueue_makes(crew: Team) -> None:
    client = next(iter(crew.clients.values()))
    mine = pod(crew)
    hashed = (await crew.manager.create(mine, dry_run=True))["metadata"]
    await crew.stop()
    await client.create(mine)

    async def of_kueue() -> Object | None:
        found = await client.list(WORKLOAD, crew.namespace)
        return found[0] if found else None

    theirs = await eventually(of_kueue, timeout=40)
    body = await client.get(POD, "pod", crew.namespace)
    for part in ("labels", "annotations", "finalizers"):
        assert hashed[part] == body["metadata"][part]
    job = decoder(Pod)(encode(body | {"spec": body["spec"] | {"schedulingGates": [{"name": each} for each in GATES]}}))
    ours = plain(PLAIN_POD.workload_body(job, priority=Priority()))
    probe = {**ours, "metadata": {**ours["metadata"], "name": "probe"}}
    stored = await client.create(probe, dry_run=True)
    for part in ("name", "labels", "ownerReferences"):
        assert ours["metadata"][part] == theirs["metadata"][part]
    assert stored["spec"] == theirs["spec"]
    await client.delete(POD, "pod", crew.namespace)


def deployment(crew: Team, *, replicas: int) -> Object:
    template = pod(crew)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {k: v for k, v in template["metadata"].items() if k != "name"} | {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": template["spec"]["containers"]},
            },
        },
    }


async def test_a_deployment_has_its_pods_on_workers_and_is_available(crew: Team) -> None:
    await crew.manager.create(deployment(crew, replicas=2))

    async def copies() -> list[tuple[Client, Object]]:
        found = [(client, each) for client in crew.clients.values() for each in await client.list(POD, crew.namespace)]
        return [(client, each) for client, each in found if not gates(each)]

    async def run(count: int) -> bool:
        there = await copies()
        assert len(there) == count, [each["metadata"]["name"] for _, each in there]
        for client, each in there:
            if each["status"]["phase"] == "Pending":
                await client.patch_status(POD, each["metadata"]["name"], RUNNING, crew.namespace)
        status = (await crew.manager.get(DEPLOYMENT, "web", crew.namespace))["status"]
        assert status.get("readyReplicas", 0) == count, status
        assert all(gates(each) == GATES for each in await crew.manager.list(POD, crew.namespace))
        return True

    for count in (2, 1, 3):
        await crew.manager.patch(DEPLOYMENT, "web", {"spec": {"replicas": count}}, crew.namespace)
        await eventually(lambda count=count: run(count), timeout=40)  # type: ignore[misc]
    await crew.manager.delete(DEPLOYMENT, "web", crew.namespace)

    async def gone() -> bool:
        assert not await copies()
        assert not await crew.manager.list(POD, crew.namespace)
        assert not await crew.manager.list(WORKLOAD, crew.namespace)
        return True

    await eventually(gone, timeout=40)


GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"


def member(crew: Team, name: str, *, total: int = 2, cpu: str = "1", **annotations: str) -> Object:
    """A Pod of the group `group`."""
    body = pod(crew, name, **{GROUP: "group"})
    body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    body["metadata"]["annotations"] = {TOTAL: str(total)} | annotations
    return body


async def group_started(crew: Team, *names: str) -> Client:
    """The one worker on which all these are let go."""
    found = [await started(crew, name) for name in names]
    assert len({worker for worker, _ in found}) == 1
    return found[0][1]


async def nothing_left(crew: Team) -> bool:
    for client in crew.clients.values():
        assert not await client.list(POD, crew.namespace), "copies are still there"
        assert not await client.list(WORKLOAD, crew.namespace), "the copy of the Workload is still there"
    return True


async def test_a_group_runs_together_on_one_worker(crew: Team) -> None:
    await crew.manager.create(member(crew, "a"))
    assert not await crew.manager.list(WORKLOAD, crew.namespace), "it is not complete"
    await crew.manager.create(member(crew, "b", cpu="2"))
    client = await group_started(crew, "a", "b")
    (workload,) = await crew.manager.list(WORKLOAD, crew.namespace)
    assert workload["metadata"]["name"] == "group"
    assert [each["count"] for each in workload["spec"]["podSets"]] == [1, 1]
    assert {owner["name"] for owner in workload["metadata"]["ownerReferences"]} == {"a", "b"}

    for name in ("a", "b"):
        await client.patch_status(POD, name, RUNNING, crew.namespace)
        local = await shows(crew, "Running", name)
        assert gates(local) == GATES
    await client.patch_status(POD, "a", ended("Succeeded", 0), crew.namespace)
    await shows(crew, "Succeeded", "a")
    await client.patch_status(POD, "b", ended("Succeeded", 0), crew.namespace)
    await shows(crew, "Succeeded", "b")

    async def over() -> bool:
        await nothing_left(crew)
        (workload,) = await crew.manager.list(WORKLOAD, crew.namespace)
        conditions = {each["type"]: each for each in workload["status"]["conditions"]}
        assert conditions["Finished"]["reason"] == "Succeeded"
        for local in await crew.manager.list(POD, crew.namespace):
            assert not local["metadata"].get("finalizers"), "it is still kept"
        return True

    await eventually(over, timeout=40)
    for name in ("a", "b"):
        await crew.manager.delete(POD, name, crew.namespace)


@pytest.mark.skipif(not spoken("annotations are identifiers"), reason="needs Kueue 0.18 on the workers")
@pytest.mark.parametrize("name", ["group", "group-" + "g" * 80], ids=["short", "too long for a label"])
async def test_a_group_may_be_named_by_annotation(crew: Team, name: str) -> None:
    """Before a label, and there by a label again where the name fits."""
    for each in ("a", "b"):
        body = member(crew, each)
        body["metadata"]["labels"][GROUP] = "another"
        body["metadata"]["annotations"][GROUP] = name
        await crew.manager.create(body)
    client = await group_started(crew, "a", "b")
    (workload,) = await crew.manager.list(WORKLOAD, crew.namespace)
    assert workload["metadata"]["name"] == name
    for copy in await client.list(POD, crew.namespace):
        said = {part: copy["metadata"][part].get(GROUP) for part in ("labels", "annotations")}
        fits = name == "group"
        assert said == {"labels": name if fits else None, "annotations": None if fits else name}
    for each in ("a", "b"):
        await client.patch_status(POD, each, ended("Succeeded", 0), crew.namespace)
        await shows(crew, "Succeeded", each)
    await eventually(lambda: nothing_left(crew), timeout=40)
    for each in ("a", "b"):
        await crew.manager.delete(POD, each, crew.namespace)


async def test_a_failed_member_is_replaced_on_the_same_worker(crew: Team) -> None:
    for name in ("a", "b"):
        await crew.manager.create(member(crew, name))
    client = await group_started(crew, "a", "b")
    for name in ("a", "b"):
        await client.patch_status(POD, name, RUNNING, crew.namespace)
    await client.patch_status(POD, "a", ended("Failed", 1), crew.namespace)
    await shows(crew, "Failed", "a")

    async def waits(status: str, reason: str) -> bool:
        (workload,) = await crew.manager.list(WORKLOAD, crew.namespace)
        found = {each["type"]: (each["status"], each["reason"]) for each in workload["status"]["conditions"]}
        assert found.get("WaitingForReplacementPods") == (status, reason)
        return True

    await eventually(lambda: waits("True", "PodsFailed"), timeout=20)
    await crew.manager.create(member(crew, "c"))
    assert await group_started(crew, "c") is client
    await eventually(lambda: waits("False", "PodsReady"), timeout=20)
    for name in ("b", "c"):
        await client.patch_status(POD, name, ended("Succeeded", 0), crew.namespace)
    for name in ("b", "c"):
        await shows(crew, "Succeeded", name)
    await eventually(lambda: nothing_left(crew), timeout=40)
    for name in ("a", "b", "c"):
        await crew.manager.delete(POD, name, crew.namespace)


@pytest.mark.parametrize(
    ("kind", "name", "away", "back"),
    [
        (LOCAL_QUEUE, "main", {"stopPolicy": "HoldAndDrain"}, {"stopPolicy": "None"}),
        (WORKLOAD, "group", {"active": False}, {"active": True}),
    ],
    ids=["its queue was drained", "its Workload was deactivated"],
)
async def test_a_group_that_lacks_a_member_takes_quota_again_once_that_is_replaced(
    crew: Team, kind: Kind, name: str, away: Object, back: Object
) -> None:
    for each in ("a", "b"):
        await crew.manager.create(member(crew, each))
    client = await group_started(crew, "a", "b")
    for each in ("a", "b"):
        await client.patch_status(POD, each, RUNNING, crew.namespace)
    await client.patch_status(POD, "a", ended("Failed", 1), crew.namespace)
    await shows(crew, "Failed", "a")

    async def told() -> dict[str, tuple[str, str]]:
        (workload,) = await crew.manager.list(WORKLOAD, crew.namespace)
        return {each["type"]: (each["status"], each["message"]) for each in workload["status"]["conditions"]}

    async def drained() -> bool:
        for each in await client.list(POD, crew.namespace):  # the kubelet ends what is deleted
            if each["metadata"].get("deletionTimestamp") and each["status"].get("phase") == "Running":
                await client.patch_status(POD, each["metadata"]["name"], ended("Failed", 137), crew.namespace)
        assert (await told())["QuotaReserved"][0] == "False"
        return await nothing_left(crew)

    async def waits() -> bool:
        found = await told()
        lacking = "The group waits for Pods that replace failed or missing ones: 1"
        assert found["QuotaReserved"] == ("False", lacking)
        assert found["WaitingForReplacementPods"][0] == "True"
        return await nothing_left(crew)

    await crew.manager.patch(kind, name, {"spec": away}, crew.namespace)
    await eventually(drained, timeout=40)
    await crew.manager.patch(kind, name, {"spec": back}, crew.namespace)
    await eventually(waits, timeout=40)
    await anyio.sleep(3)
    assert await waits()

    await crew.manager.create(member(crew, "c"))
    client = await group_started(crew, "b", "c")
    assert await client.find(POD, "a", crew.namespace) is None
    for each in ("b", "c"):
        await client.patch_status(POD, each, ended("Succeeded", 0), crew.namespace)
    for each in ("b", "c"):
        await shows(crew, "Succeeded", each)
    await eventually(lambda: nothing_left(crew), timeout=40)
    for each in ("a", "b", "c"):
        await crew.manager.delete(POD, each, crew.namespace)


@pytest.mark.parametrize("kind", ["pods", "workload"])
async def test_a_group_that_is_deleted_leaves_nothing(crew: Team, kind: str) -> None:
    for name in ("a", "b"):
        await crew.manager.create(member(crew, name))
    client = await group_started(crew, "a", "b")
    await client.patch_status(POD, "a", RUNNING, crew.namespace)
    await shows(crew, "Running", "a")
    if kind == "workload":
        await crew.manager.delete(WORKLOAD, "group", crew.namespace)
    else:
        for name in ("a", "b"):
            await crew.manager.delete(POD, name, crew.namespace)

    async def gone() -> bool:
        await nothing_left(crew)
        assert not await crew.manager.list(POD, crew.namespace)
        assert not await crew.manager.list(WORKLOAD, crew.namespace)
        return True

    await eventually(gone, timeout=40)


@pytest.mark.parametrize("part", ["labels", "annotations"])
async def test_a_group_has_the_workload_that_kueue_makes(crew: Team, part: str) -> None:
    if part == "annotations" and not spoken("annotations are identifiers"):
        pytest.skip("needs Kueue 0.18 on the workers")
    client = next(iter(crew.clients.values()))
    await crew.stop()
    bodies = [member(crew, "a"), member(crew, "b", cpu="2"), member(crew, "c")]
    for body in bodies:
        body["metadata"]["annotations"][TOTAL] = "3"
        body["metadata"][part][GROUP] = body["metadata"]["labels"].pop(GROUP)
        await client.create(body)

    async def made(where: Client) -> Object | None:
        found = await where.list(WORKLOAD, crew.namespace)
        return next((each for each in found if each["metadata"].get("ownerReferences")), None)

    theirs = await eventually(lambda: made(client), timeout=40)
    await client.delete(WORKLOAD, "group", crew.namespace)
    await eventually(lambda: nothing_left(crew), timeout=40)
    for body in bodies:
        await crew.manager.create(body)
    ours = await eventually(lambda: made(crew.manager), timeout=40)
    for part in ("name", "annotations"):
        assert ours["metadata"][part] == theirs["metadata"][part]
    for body in (ours, theirs):
        assert "labels" not in body["metadata"]
        assert all("controller" not in owner for owner in body["metadata"]["ownerReferences"])
        assert {owner["name"] for owner in body["metadata"]["ownerReferences"]} == {"a", "b", "c"}
    assert ours["spec"] == theirs["spec"]
    await crew.manager.delete(WORKLOAD, "group", crew.namespace)


async def test_a_group_that_is_evicted_on_its_worker_runs_again(crew: Team) -> None:
    for name in ("a", "b"):
        await crew.manager.create(member(crew, name))
    client = await group_started(crew, "a", "b")
    before = (await client.get(POD, "a", crew.namespace))["metadata"]["uid"]
    for name in ("a", "b"):
        await client.patch_status(POD, name, RUNNING, crew.namespace)
        await shows(crew, "Running", name)
    await client.patch(WORKLOAD, "group", {"spec": {"active": False}}, crew.namespace)

    async def killed() -> bool:
        """As a kubelet does it."""
        for each in await client.list(POD, crew.namespace):
            assert each["metadata"].get("deletionTimestamp")
            await client.patch_status(POD, each["metadata"]["name"], ended("Failed", 137), crew.namespace)
        return True

    await eventually(killed, timeout=40)

    async def again() -> bool:
        worker, there = await started(crew, "a")
        found = await there.get(POD, "a", crew.namespace)
        assert found["metadata"]["uid"] != before, f"still the first on {worker}"
        assert not found["metadata"].get("deletionTimestamp")
        return True

    await eventually(again, timeout=60)
    client = await group_started(crew, "a", "b")
    for name in ("a", "b"):
        await client.patch_status(POD, name, ended("Succeeded", 0), crew.namespace)
    for name in ("a", "b"):
        await shows(crew, "Succeeded", name)
    await eventually(lambda: nothing_left(crew), timeout=40)
    for name in ("a", "b"):
        await crew.manager.delete(POD, name, crew.namespace)


def place(body: Object) -> Object:
    """What was demanded of a Pod when it was let go; the names of Workloads end in something of the Pod's UID."""
    labels, annotations = body["metadata"]["labels"], body["metadata"]["annotations"]
    return {
        "nodeSelector": body["spec"].get("nodeSelector"),
        "podset": labels["kueue.x-k8s.io/podset"],
        "workload": re.sub(r"-[0-9a-f]{5}$", "-HASH", annotations["kueue.x-k8s.io/workload"]),
    }


async def test_pods_of_a_queue_that_is_not_dispatched_run_here(crew: Team) -> None:
    """Where their flavor says, as under a Kueue of the cluster's own."""
    name, kueue = f"{crew.namespace}-here", next(iter(crew.clients.values()))
    for client in (crew.manager, kueue):
        await client.apply(objects.resource_flavor(name, node_labels={"example.com/pool": "blue"}))
        await client.apply(objects.cluster_queue(name, flavor=name))
        await client.apply(objects.local_queue("here", crew.namespace, cluster_queue=name))
        for body in (pod(crew), member(crew, "a"), member(crew, "b")):
            body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "here"
            await client.create(body)

    async def let_go() -> list[Object]:
        found = await client.list(POD, crew.namespace)
        assert [gates(each) for each in found] == [[], [], []]
        return sorted((place(each) for each in found), key=lambda each: str(each["podset"]))

    client = crew.manager
    ours = await eventually(let_go, timeout=40)
    client = kueue
    assert await eventually(let_go, timeout=40) == ours
    assert {str(each["nodeSelector"]) for each in ours} == {"{'example.com/pool': 'blue'}"}
    for each in ("pod", "a", "b"):
        await kueue.delete(POD, each, crew.namespace)
    await crew.manager.patch(objects.CLUSTER_QUEUE, f"{crew.namespace}-here", {"spec": {"stopPolicy": "HoldAndDrain"}})

    async def gone() -> bool:
        assert not await crew.manager.list(POD, crew.namespace)
        assert not await crew.manager.list(WORKLOAD, crew.namespace)
        return True

    await eventually(gone, timeout=40)


async def test_what_cannot_be_taken_in_is_refused(crew: Team) -> None:
    with pytest.raises(ApiError, match="expected 'true'"):
        await crew.manager.create(pod(crew, **{FINALIZER: "false"}))
