"""Nominal quotas follow what the workers have, and back; and jobs get what there is."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from testbed.bed import Testbed
from testbed.client import eventually
from testbed.objects import CLUSTER_QUEUE, MULTIKUEUE_CONFIG, Object
from tests.real.deployment import component, granted, rendered, revoked, rights, withdraw
from tests.real.harness import EVENT, Manager, Team, complaints

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(120), pytest.mark.usefixtures("calm")]


@pytest.fixture(scope="module")
def manager_settings() -> dict[str, str]:
    """It looks often, and waits no longer than a moment."""
    return {"CAPACITY_FOLLOW__INTERVAL": "200ms", "CAPACITY_FOLLOW__SHRINK_AFTER": "2s"}


async def have(crew: Team, worker: str, cpu: str) -> None:
    """From now on the worker has so many cores, and as much memory as before: its Kueue goes by them."""
    client = crew.clients[worker]
    queue = await client.get(CLUSTER_QUEUE, crew.namespace)
    groups = queue["spec"]["resourceGroups"]
    _quota(queue)["nominalQuota"] = cpu
    changed = await client.patch(CLUSTER_QUEUE, crew.namespace, {"spec": {"resourceGroups": groups}})

    async def is_seen() -> bool:
        conditions = (await client.get(CLUSTER_QUEUE, crew.namespace))["status"]["conditions"]
        return any(each.get("observedGeneration") == changed["metadata"]["generation"] for each in conditions)

    await eventually(is_seen)


async def follow(crew: Team, text: str, *, workers: tuple[str, ...]) -> None:
    """The manager's queue follows these workers."""
    clusters = {"spec": {"clusters": [crew.cluster(worker) for worker in workers]}}
    await crew.manager.patch(MULTIKUEUE_CONFIG, crew.namespace, clusters)
    annotation = {"metadata": {"annotations": {"multikueue.dev/follow-capacity": text}}}
    await crew.manager.patch(CLUSTER_QUEUE, crew.namespace, annotation)


def _quota(queue: Object) -> Object:
    """That of cpu, in the only flavor."""
    (resource,) = (
        resource
        for group in queue["spec"]["resourceGroups"]
        for flavor in group["flavors"]
        for resource in flavor["resources"]
        if resource["name"] == "cpu"
    )
    found: Object = resource
    return found


def _without_quotas(queue: Object) -> Object:
    """Its spec but for what may follow."""
    spec: Object = deepcopy(queue["spec"])
    for group in spec["resourceGroups"]:
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                del resource["nominalQuota"]
    return spec


async def has(crew: Team, cpu: str, *, timeout: float = 30) -> None:
    """Waits until the manager's queue has so many cores."""

    async def told() -> bool:
        found = _quota(await crew.manager.get(CLUSTER_QUEUE, crew.namespace))["nominalQuota"]
        assert found == cpu, f"it has {found}"
        return True

    await eventually(told, timeout=timeout)


async def test_nominal_quota_follows_two_workers_and_back(crew: Team, manager: Manager) -> None:
    one, two = list(crew.clients)[:2]
    await have(crew, one, "6")
    await have(crew, two, "10")
    before = await crew.manager.get(CLUSTER_QUEUE, crew.namespace)

    await follow(crew, "true", workers=(one, two))
    await has(crew, "16")
    await have(crew, two, "3")
    await has(crew, "9")
    await have(crew, two, "10")
    await has(crew, "16")

    crew.links[two].refuse()
    await has(crew, "6")
    crew.links[two].ok()
    await has(crew, "16")

    await follow(crew, "25%", workers=(one, two))
    await has(crew, "12")
    after = await crew.manager.get(CLUSTER_QUEUE, crew.namespace)
    authors = {entry["manager"] for entry in after["metadata"]["managedFields"]}
    assert "multikueue-capacity" in authors
    assert _without_quotas(after) == _without_quotas(before)
    assert complaints(manager) == []


async def test_a_job_that_waits_for_quota_gets_it_when_a_worker_grows(crew: Team) -> None:
    one = next(iter(crew.clients))
    await have(crew, one, "1")
    await follow(crew, "true", workers=(one,))
    await has(crew, "1")
    await crew.submit(parallelism=2, requests={"cpu": "1"})
    await eventually(lambda: _waits(crew))

    await have(crew, one, "2")

    assert await crew.runs_on() == one


async def test_it_follows_at_once_however_rarely_the_workers_are_looked_at(
    bed: Testbed, crew: Team, manager: Manager, manager_settings: dict[str, str]
) -> None:
    one, two = list(crew.clients)[:2]
    rarely: dict[str, Any] = {**manager_settings, "CAPACITY_FOLLOW__INTERVAL": "1h"}
    manager.kill()
    try:
        async with Manager(bed, **rarely).running():
            await have(crew, one, "6")
            await follow(crew, "true", workers=(one,))
            await has(crew, "6")
            await have(crew, one, "8")
            await has(crew, "8")
            await have(crew, two, "10")
            await follow(crew, "true", workers=(one, two))
            await has(crew, "18")
            crew.links[two].refuse()
            await have(crew, two, "20")
            crew.links[two].ok()
            await has(crew, "28")
    finally:
        crew.links[two].ok()
        manager.start()


async def test_the_right_to_write_is_enough_and_without_it_the_queue_says_what_to_grant(
    bed: Testbed, crew: Team, manager: Manager, manager_settings: dict[str, str]
) -> None:
    """With what deploy/ grants, as the service account of a cluster, but for the right that finalizers need alone."""
    token = await granted(bed, "standalone")
    for body in rights(rendered("overlays/standalone")):
        rules = [rule for rule in body.get("rules", ()) if not _writes_queues(rule)]
        if rules != body.get("rules", []):
            await crew.manager.apply(body | {"rules": rules})
    lowly: dict[str, Any] = manager_settings
    manager.kill()  # it may write, and must not be there when there is something to follow
    try:
        await have(crew, next(iter(crew.clients)), "150")
        await follow(crew, "true", workers=tuple(crew.clients))
        async with Manager(bed, access=bed.manager.kubeconfig(token=token), **lowly).running():
            await eventually(lambda: _told(crew, "deploy/components/capacity-follow"), timeout=40)
            for body in component("capacity-follow"):
                await crew.manager.apply(body)
            await has(crew, "350")
    finally:
        for body in component("capacity-follow"):
            await withdraw(crew.manager, body)
        await revoked(bed, "standalone")
        manager.start()


def _writes_queues(rule: Object) -> bool:
    return "clusterqueues" in rule["resources"] and "patch" in rule["verbs"]


async def _told(crew: Team, words: str) -> bool:
    """Whether a warning about the manager's queue says that."""
    events = await crew.manager.list(EVENT, "default")
    about = [event["message"] for event in events if event["involvedObject"]["name"] == crew.namespace]
    return any(words in message for message in about)


async def _waits(crew: Team) -> bool:
    condition = await crew.condition("QuotaReserved")
    return condition is not None and condition["status"] == "False"
