"""What people have reported of others, on real control planes: each is one of its kind, and the kind is tried elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from testbed import objects
from testbed.client import Client, Kind, eventually
from testbed.objects import CLUSTER_QUEUE, JOB, MULTIKUEUE_CONTROLLER, WORKLOAD, Object, condition
from tests.real.dialect import spoken
from tests.real.harness import EVENT, Team
from tests.real.skipping import needs_programs
from tests.real.test_queues import group, queue

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(120), pytest.mark.usefixtures("calm")]

NEGATIVE = {
    "requests": {"requests": {"cpu": "-50", "memory": "1Mi"}},
    "limits": {"limits": {"cpu": "-50"}, "requests": {"memory": "1Mi"}},
}


@pytest.mark.parametrize("resources", NEGATIVE.values(), ids=NEGATIVE)
async def test_a_workload_that_asks_for_less_than_nothing_makes_no_room(crew: Team, resources: Object) -> None:
    """kueue#12838: nobody but the manager looks at a Workload that a tenant makes."""
    shared = await queue(crew, "ten", resourceGroups=[group("default", cpu="10", memory="10Gi")])
    await crew.stop()
    container = {"name": "main", "image": "x", "resources": resources}
    pods = {"name": "main", "count": 2, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    await crew.manager.create(
        {
            "apiVersion": WORKLOAD.api_version,
            "kind": WORKLOAD.kind,
            "metadata": {"name": "credit", "namespace": crew.namespace},
            "spec": {"queueName": "ten", "podSets": [pods]},
        }
    )
    for name in ("one", "two"):
        await crew.submit(name, queue="ten", requests={"cpu": "9", "memory": "1Mi"})

    async def one_waits() -> bool:
        assert sorted([await reserved(crew, name) for name in ("one", "two")]) == ["False", "True"]
        usage = (await crew.manager.get(CLUSTER_QUEUE, shared)).get("status", {}).get("flavorsReservation", ())
        return [each["total"] for flavor in usage for each in flavor["resources"] if each["name"] == "cpu"] == ["9"]

    await eventually(one_waits)


async def reserved(crew: Team, name: str) -> str:
    return str(((await crew.condition("QuotaReserved", name)) or {}).get("status"))


async def test_a_queue_with_more_flavors_than_its_status_has_room_for_says_that_it_works(crew: Team) -> None:
    """kueue#12082."""
    names = [f"{crew.namespace}-{number}" for number in range(70)]
    for name in names:
        await crew.manager.create(objects.resource_flavor(name))
    groups = [group(*names[:35], cpu="10"), group(*names[35:], memory="10Gi")]
    shared = await queue(crew, "many", resourceGroups=groups)

    async def works() -> bool:
        body = await crew.manager.get(CLUSTER_QUEUE, shared)
        return (condition(body, "Active") or {}).get("status") == "True"

    await eventually(works)
    await crew.submit(queue="many")
    assert await crew.runs_on() in crew.clients
    await eventually(lambda: told(crew.manager, "default", "StatusCut", shared))


async def told(client: Client, namespace: str, reason: str, name: str) -> Object | None:
    """The event with that reason about an object of that name."""
    found = await client.list(EVENT, namespace)
    return next((e for e in found if e["reason"] == reason and e["involvedObject"]["name"] == name), None)


@pytest.mark.skipif(not spoken("orphans finish"), reason="follows the release: orphans finish since 0.18")
async def test_the_workload_of_a_job_that_was_deleted_without_it_ends(crew: Team) -> None:
    """kueue#11596: `kubectl delete --cascade=orphan`."""
    await crew.submit()
    await crew.runs_on()
    (workload,) = await crew.manager.list(WORKLOAD, crew.namespace)
    await crew.manager.delete(JOB, "job", crew.namespace, propagation="Orphan")

    async def over() -> bool:
        body = await crew.manager.get(WORKLOAD, workload["metadata"]["name"], crew.namespace)
        return (condition(body, "Finished") or {}).get("reason") == "OwnerNotFound"

    await eventually(over)
    await crew.clean()


POLICY = Kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
BINDING = Kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding")
WORDS = "no workload of more than two pods"


@asynccontextmanager
async def small_workloads(client: Client, namespace: str) -> AsyncIterator[None]:
    """The cluster refuses Workloads of more than two pods in that namespace."""
    rule = {"apiGroups": ["kueue.x-k8s.io"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["workloads"]}
    validation = {"expression": "object.spec.podSets.all(set, set.count <= 2)", "message": WORDS}
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    policy = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    binding = {"policyName": namespace, "validationActions": ["Deny"], "matchResources": where}
    for kind, spec in ((POLICY, policy), (BINDING, binding)):
        await client.create(
            {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": namespace}, "spec": spec}
        )
    try:
        yield
    finally:
        for kind in (BINDING, POLICY):
            await client.delete(kind, namespace)


@needs_programs("simulated API servers have no admission policies")
async def test_a_job_whose_workload_is_refused_has_the_words_of_the_api_server(crew: Team) -> None:
    async with small_workloads(crew.manager, crew.namespace):

        async def refused() -> bool:
            """The policy is in force after a while."""
            await crew.manager.delete(JOB, "job", crew.namespace)
            await crew.manager.create(
                objects.job("job", crew.namespace, managed_by=MULTIKUEUE_CONTROLLER, parallelism=3)
            )
            return await eventually(lambda: told(crew.manager, crew.namespace, "Refused", "job"), timeout=5) is not None

        await eventually(refused)
        event = await told(crew.manager, crew.namespace, "Refused", "job")
        assert event is not None
        assert WORDS in event["message"]
