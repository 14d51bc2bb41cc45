"""StatefulSets on real clusters, with their real controller everywhere: their Pods held at home, run on one worker."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from testbed import objects, queues
from testbed.bed import MANAGER, Plan, Testbed
from testbed.client import ApiError, Client, Kind, eventually
from testbed.controllers import GARBAGE
from testbed.objects import WORKLOAD, Object
from tests.real.dialect import spoken
from tests.real.harness import Manager, Team
from tests.real.skipping import needs_programs
from tests.real.test_pods import GATES, GROUP, POD, RUNNING, gates
from tests.real.webhooking import SETTINGS, registered, with_webhook

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(180),
    needs_programs("other clusters' Kueue does not integrate StatefulSets"),
]

STATEFUL_SET = Kind("apps/v1", "StatefulSet")
ORIGIN, PREBUILT = "kueue.x-k8s.io/multikueue-origin", "kueue.x-k8s.io/prebuilt-workload-name"
ATTEMPT, ORIGIN_UID = "multikueue.dev/attempt", "kueue.x-k8s.io/multikueue-origin-uid"
NAME = "web"


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """Two workers whose Kueue integrates StatefulSets."""
    controllers = [GARBAGE, "statefulset-controller"]
    plan = Plan(
        workers=2,
        frameworks=("batch/job", "pod", "statefulset"),
        controllers=dict.fromkeys((MANAGER, "worker1", "worker2"), controllers),
    )
    bed = Testbed(plan)
    anyio.run(bed.open)
    yield bed
    anyio.run(bed.close)


@pytest.fixture(scope="module")
def manager_settings() -> dict[str, str]:
    return {**SETTINGS, "INTEGRATIONS__FRAMEWORKS": "batch/job,statefulset"}


@pytest.fixture(scope="module")
def manager(bed: Testbed, manager_settings: dict[str, str]) -> Iterator[Manager]:
    yield from with_webhook(bed, manager_settings)


@pytest.fixture
async def crew(crew: Team) -> Team:
    return await registered(crew)


def stateful_set(crew: Team, *, replicas: int = 2, queue: str = "main") -> Object:
    """One as a user writes it, with nothing but a queue."""
    container = {"name": "main", "image": "x:1", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": NAME,
            "namespace": crew.namespace,
            "labels": {"kueue.x-k8s.io/queue-name": queue, "team": "a"},
        },
        "spec": {
            "replicas": replicas,
            "serviceName": NAME,
            "selector": {"matchLabels": {"app": NAME}},
            "template": {"metadata": {"labels": {"app": NAME}}, "spec": {"containers": [container]}},
        },
    }


async def runs(client: Client, namespace: str, replicas: int = 2) -> bool:
    """Its Pods are let go there, and ready once we play their node: one begins after the other."""
    for each in await client.list(POD, namespace):
        if not gates(each) and each["status"].get("phase") == "Pending" and "deletionTimestamp" not in each["metadata"]:
            await client.patch_status(POD, each["metadata"]["name"], RUNNING, namespace)
    found = await client.get(STATEFUL_SET, NAME, namespace)
    return bool(found.get("status", {}).get("readyReplicas", 0) == replicas)


async def started(crew: Team) -> Client:
    """The one worker on which it is, and runs."""

    async def there() -> Client | None:
        holding = [each for each in crew.clients.values() if await each.find(STATEFUL_SET, NAME, crew.namespace)]
        assert len(holding) <= 1
        return holding[0] if holding and await runs(holding[0], crew.namespace) else None

    return await eventually(there, timeout=60)


async def is_nowhere(crew: Team) -> bool:
    """Nothing of it is on any worker."""
    for worker in crew.clients.values():
        assert await worker.find(STATEFUL_SET, NAME, crew.namespace) is None
        assert not await worker.list(POD, crew.namespace)
        assert not await worker.list(WORKLOAD, crew.namespace)
    return True


async def deleted(crew: Team) -> None:
    await crew.manager.delete(STATEFUL_SET, NAME, crew.namespace)

    async def gone() -> bool:
        assert not await crew.manager.list(POD, crew.namespace)
        assert not await crew.manager.list(WORKLOAD, crew.namespace)
        return await is_nowhere(crew)

    await eventually(gone, timeout=60)


async def test_it_runs_on_one_worker_and_its_pods_stay_held_at_home(crew: Team) -> None:
    await crew.manager.create(stateful_set(crew))
    client = await started(crew)
    local = await crew.manager.get(STATEFUL_SET, NAME, crew.namespace)
    copy = await client.get(STATEFUL_SET, NAME, crew.namespace)
    (workload,) = await crew.manager.list(WORKLOAD, crew.namespace)

    assert copy["spec"] == local["spec"]
    added = {ORIGIN: "multikueue", PREBUILT: workload["metadata"]["name"]}
    assert copy["metadata"]["labels"] == local["metadata"]["labels"] | added
    assert set(copy["metadata"]["annotations"]) == {ATTEMPT, ORIGIN_UID}
    for each in await crew.manager.list(POD, crew.namespace):
        assert gates(each) == GATES
        assert each["metadata"]["labels"][GROUP] == workload["metadata"]["name"]
        assert "finalizers" not in each["metadata"]
    assert not local["status"].get("readyReplicas"), "what is said of it here is said of what is here"
    await deleted(crew)


async def test_scaled_to_zero_it_has_no_workload_and_from_there_it_runs_again(crew: Team) -> None:
    await crew.manager.create(stateful_set(crew))
    await started(crew)
    await crew.manager.patch(STATEFUL_SET, NAME, {"spec": {"replicas": 0}}, crew.namespace)

    async def gone() -> bool:
        assert not await crew.manager.list(POD, crew.namespace)
        assert not await crew.manager.list(WORKLOAD, crew.namespace)
        return await is_nowhere(crew)

    await eventually(gone, timeout=60)
    await crew.manager.patch(STATEFUL_SET, NAME, {"spec": {"replicas": 2}}, crew.namespace)
    await started(crew)
    await deleted(crew)


async def test_another_image_runs_after_the_first(crew: Team) -> None:
    await crew.manager.create(stateful_set(crew))
    await started(crew)
    other = {"name": "main", "image": "x:2", "resources": {"requests": {"cpu": "1"}}}
    await crew.manager.patch(
        STATEFUL_SET, NAME, {"spec": {"template": {"spec": {"containers": [other]}}}}, crew.namespace
    )

    async def recreated() -> bool:
        client = await started(crew)
        images = {each["spec"]["containers"][0]["image"] for each in await client.list(POD, crew.namespace)}
        return images == {"x:2"}

    await eventually(recreated, timeout=60)
    await deleted(crew)


async def test_it_has_the_workload_that_kueue_makes(crew: Team) -> None:
    client = next(iter(crew.clients.values()))
    await crew.stop()
    body = stateful_set(crew)

    async def made(where: Client) -> Object | None:
        found = await where.list(WORKLOAD, crew.namespace)
        return found[0] if found and found[0]["metadata"].get("ownerReferences") else None

    there = await client.create(body)
    theirs = await eventually(lambda: made(client), timeout=40)
    await client.delete(STATEFUL_SET, NAME, crew.namespace)
    await eventually(lambda: is_nowhere(crew), timeout=40)
    here = await crew.manager.create(body)
    ours = await eventually(lambda: made(crew.manager), timeout=40)

    assert ours["spec"] == theirs["spec"]
    assert "labels" not in ours["metadata"]
    # In later releases the UID of the StatefulSet is among them; nothing reads it there.
    assert set(theirs["metadata"].get("labels", ())) <= {"kueue.x-k8s.io/job-uid"}
    for part in ("annotations",) if spoken("stateful sets by UID") else ("name", "annotations"):
        assert ours["metadata"][part] == theirs["metadata"][part]
    for one, other in ((ours, here), (theirs, there)):
        # Of Kueue's the Pods are owners as well, as they come.
        owners = [each for each in one["metadata"]["ownerReferences"] if each["kind"] == "StatefulSet"]
        assert owners == [{**vars_of(other), "uid": other["metadata"]["uid"]}]
    marks = [each["spec"]["template"]["metadata"]["annotations"] for each in (here, there)]
    assert marks[0] == marks[1]
    await deleted(crew)


def vars_of(body: Object) -> Object:
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "name": body["metadata"]["name"]}


async def test_in_a_queue_that_is_not_dispatched_it_runs_here(crew: Team) -> None:
    here = objects.cluster_queue(f"{crew.namespace}-here")
    await queues.setup_queue(crew.manager, namespace=crew.namespace, queue="here", cluster_queue=here)
    await crew.manager.create(stateful_set(crew, queue="here"))
    await eventually(lambda: runs(crew.manager, crew.namespace), timeout=40)
    await is_nowhere(crew)
    await crew.manager.patch(objects.CLUSTER_QUEUE, f"{crew.namespace}-here", {"spec": {"stopPolicy": "HoldAndDrain"}})

    async def held() -> bool:
        """By Pods recreated: whatever is left of the first ones ends as a kubelet ends it."""
        found = await crew.manager.list(POD, crew.namespace)
        return bool(found) and all(gates(each) == GATES for each in found)

    await eventually(held, timeout=40)
    await deleted(crew)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"spec": {"replicas": 3}}, "only to and from 0"),
        ({"spec": {"template": {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}}}, "can't change"),
        ({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": ""}}}, "not removed"),
    ],
    ids=["another size", "other demands", "out of its queue"],
)
async def test_what_its_workload_was_made_from_stays(crew: Team, change: Object, told: str) -> None:
    await crew.manager.create(stateful_set(crew))
    with pytest.raises(ApiError, match=told):
        await crew.manager.patch(STATEFUL_SET, NAME, change, crew.namespace)
    await deleted(crew)
