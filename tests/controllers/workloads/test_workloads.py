"""Workloads that no job of ours owns."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.kueue.workload import QUOTA_RESERVED
from multikueue.api.meta import ObjectKey
from multikueue.controllers.workloads.workloads import Workloads
from multikueue.errors import ApiError, Conflict, Forbidden, Invalid, ServerError, Throttled
from multikueue.settings import BESIDE_KUEUE, STANDALONE, Quota, Role
from multikueue.store.refusals import LASTING
from multikueue.testing import NOW
from tests.controllers.kueue_core import Core
from tests.controllers.table import NAMESPACE, QUEUE, Table, table

pytestmark = pytest.mark.anyio

KEY = ObjectKey(NAMESPACE, "own")


def of_class(name: str, *, cpu: str = "1000", **metadata: Any) -> dict[str, Any]:
    """A workload without a job, if not told otherwise too large for the quota, so that it stays as it is."""
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name}
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    spec = {"queueName": QUEUE, "podSets": [pod_set], "priority": 5, "priorityClassRef": ref}
    return {"metadata": {"name": KEY.name, "namespace": KEY.namespace, **metadata}, "spec": spec}


def put_class(world: Table, value: int) -> None:
    world.manager.put(kinds.WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": value})


async def priority(world: Table) -> int:
    await world.settle()
    found: int = (world.manager.find(kinds.WORKLOADS, KEY) or {})["spec"]["priority"]
    return found


async def test_a_workload_without_a_job_follows_the_value_of_its_class() -> None:
    world = table()
    put_class(world, 5)
    world.manager.put(kinds.WORKLOADS, of_class("high"))
    assert await priority(world) == 5
    put_class(world, 50)
    assert await priority(world) == 50
    writes = len(world.manager.calls)
    assert await priority(world) == 50
    assert len(world.manager.calls) == writes


async def test_a_workload_that_was_given_another_class_meanwhile_does_not_get_the_value_of_the_one_before() -> None:
    world = table()
    put_class(world, 5)
    world.manager.put(kinds.WORKLOADS, of_class("high"))
    await world.settle()
    with world.manager.unheard():
        world.manager.change(kinds.WORKLOADS, KEY, {"spec": {"priorityClassRef": {"name": "another"}}})
    put_class(world, 50)
    with pytest.raises(Conflict):
        await Workloads(world.world).reconcile(KEY)


async def test_what_a_workload_was_about_to_get_others_may_have_while_it_cannot_be_read() -> None:
    world = table(quota=1)
    world.manager.change(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"), {"spec": {"admissionChecksStrategy": None}})
    world.manager.put(kinds.WORKLOADS, of_class("low", cpu="1"))
    assert world._cycle(), "it gives quota to it, in memory"
    world.store.workloads.unreadable[KEY] = "odd"
    other = of_class("low", cpu="1")
    world.manager.put(kinds.WORKLOADS, other | {"metadata": other["metadata"] | {"name": "other"}})
    await world.settle()
    world.time += timedelta(seconds=10)
    await world.settle()
    found = world.store.workloads.get(KEY._replace(name="other"))
    assert found is not None
    assert found.has(QUOTA_RESERVED)
    assert world.store.engine.view.waiting("cq") == (0, 0)

    world.store.workloads.unreadable.clear()
    world.manager.change(kinds.WORKLOADS, KEY, {"metadata": {"labels": {"repaired": "true"}}})
    await world.settle()
    assert sum(world.store.engine.view.waiting("cq")) == 1, "it is in line again"


REFUSALS: dict[str, tuple[ApiError, timedelta]] = {
    "by its schema": (
        Invalid(422, "Invalid", "status.conditions: Too many: 17: must have at most 16 items"),
        timedelta(),
    ),
    "by a policy": (Forbidden(403, "Forbidden", "ValidatingAdmissionPolicy 'frozen' denied request"), timedelta()),
    "by a webhook's own status": (ApiError(418, "Teapot", "admission webhook denied the request"), timedelta()),
    "as a webhook is down": (ServerError(500, "InternalError", "failed calling webhook"), LASTING),
    "as the server is busy": (Throttled(429, "TooManyRequests", "later"), LASTING),
    "as somebody is always quicker": (Conflict(409, "Conflict", "the object has been modified"), LASTING),
}


WRITES = (("patch", "workloads"), ("apply", "workloads"))


@pytest.mark.parametrize("roles", [STANDALONE, BESIDE_KUEUE], ids=["standalone", "beside Kueue"])
@pytest.mark.parametrize(
    ("error", "after"), [pytest.param(*case, id=f"refused {why}") for why, case in REFUSALS.items()]
)
async def test_a_workload_whose_status_is_refused_says_so_once_and_is_counted(
    error: ApiError, after: timedelta, roles: frozenset[Role]
) -> None:
    world = table(roles=roles)
    world.submit(cpu="1000")
    world.manager.fault = lambda verb, plural: error if (verb, plural) in WRITES else None
    if roles == STANDALONE:
        await world.settle()
    else:
        core = Core(world)
        core.make()
        core.reserve()
    for _ in range(10):
        world.queues.workloads.add(world.key())
        await world.settle()
        if world.time < NOW + after:
            assert world.said() == []
        world.time += timedelta(seconds=10)
    ((reason, message),) = world.said()
    assert reason == "StatusRefused"
    assert message == f"what is decided about it cannot be written: {error.status} {error.reason}: {error.message}"
    assert world.store.refusals.count(world.time) == {("status", ""): 1}
    world.manager.fault = lambda _verb, _plural: None
    world.queues.workloads.add(world.key())
    await world.settle()
    assert world.store.refusals.count(world.time) == {}
    assert world.status()["conditions"]


async def test_a_reservation_that_is_refused_is_tried_ever_more_seldom_while_others_come_and_go() -> None:
    """Each try takes quota for a moment, and each end of another job would be a reason to try."""
    world = table()
    denied = Forbidden(403, "Forbidden", "ValidatingAdmissionPolicy 'frozen' denied request")
    tries = list[datetime]()

    def fault(verb: str, plural: str) -> ApiError | None:
        if (verb, plural) != ("patch", "workloads"):
            return None
        if world.store.engine.view.waiting("cq") == (0, 0):
            tries.append(world.time)
        return denied

    world.manager.fault = fault
    world.submit()
    for second in range(300):
        policy = "LowerPriority" if second % 2 else "Never"
        body = {"spec": {"preemption": {"withinClusterQueue": policy}}}
        world.manager.change(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"), body)
        await world.settle()
        world.time += timedelta(seconds=1)
    assert len(tries) < 15
    world.manager.fault = lambda _verb, _plural: None
    world.time += timedelta(minutes=5)
    await world.settle()
    reserved = world.condition(QUOTA_RESERVED)
    assert reserved is not None
    assert reserved["status"] == "True"


async def test_a_status_that_failed_once_and_is_not_wanted_any_more_is_not_counted() -> None:
    world = table()
    busy = Throttled(429, "TooManyRequests", "later")
    world.manager.fault = lambda verb, plural: busy if (verb, plural) == ("patch", "workloads") else None
    world.submit(cpu="1000")
    await world.settle()
    world.manager.fault = lambda _verb, _plural: None
    world.manager.change(kinds.WORKLOADS, world.key(), {"status": {"conditions": None}})
    world.queues.workloads.add(world.key())
    await world.settle()
    world.time += 2 * LASTING
    assert world.store.refusals.count(world.time) == {}


async def test_a_refused_status_of_a_workload_that_is_gone_is_not_counted_any_more() -> None:
    world = table()
    error = Forbidden(403, "Forbidden", "no")
    world.manager.fault = lambda verb, plural: error if (verb, plural) == ("patch", "workloads") else None
    world.submit(cpu="1000")
    await world.settle()
    key = world.key()
    assert world.store.refusals.count(world.time) == {("status", ""): 1}
    world.manager.fault = lambda _verb, _plural: None
    with world.manager.unheard():
        world.manager.drop(kinds.JOBS, ObjectKey(NAMESPACE, "job"))
    world.manager.drop(kinds.WORKLOADS, key)
    world.queues.workloads.add(key)
    await world.settle()
    assert world.store.refusals.count(world.time) == {}


async def test_a_class_that_is_not_there_changes_nothing() -> None:
    world = table()
    put_class(world, 50)
    world.manager.put(kinds.WORKLOADS, of_class("unknown"))
    assert await priority(world) == 5


async def test_a_workload_of_a_job_follows_the_value_of_its_class_by_itself() -> None:
    """Its job says which class, and no more."""
    world = table()
    put_class(world, 50)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "1", "controller": True}
    world.manager.put(kinds.WORKLOADS, of_class("high", ownerReferences=[owner]))
    assert await priority(world) == 50


async def test_who_made_a_workload_without_a_job_ends_its_eviction() -> None:
    """An external controller runs its pods: nobody else knows when they are gone."""
    world = table()
    world.manager.change(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"), {"spec": {"admissionChecksStrategy": None}})
    world.manager.put(kinds.WORKLOADS, of_class("low", cpu="1"))
    await world.settle()
    assert world.store.engine.view.queue_usage("cq").reserving == 1
    drain = {"spec": {"stopPolicy": "HoldAndDrain"}}
    world.manager.change(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"), drain)
    await world.settle()
    evicted = world.store.workloads.get(KEY)
    assert evicted is not None
    assert evicted.has("Evicted")
    assert evicted.has("QuotaReserved")
    assert world.store.engine.view.queue_usage("cq").reserving == 1


async def test_a_job_that_runs_on_the_manager_keeps_its_quota_until_its_pods_are_gone() -> None:
    world = table()
    queue, job = ObjectKey("", "cq"), ObjectKey(NAMESPACE, "job")
    world.manager.change(kinds.CLUSTER_QUEUES, queue, {"spec": {"admissionChecksStrategy": None}})
    world.submit(managed=False)
    await world.settle()
    assert (world.manager.find(kinds.JOBS, job) or {})["spec"]["suspend"] is False
    world.manager.change(kinds.JOBS, job, {"status": {"active": 1}})

    drain = {"spec": {"stopPolicy": "HoldAndDrain"}}
    world.manager.change(kinds.CLUSTER_QUEUES, queue, drain)
    await world.settle()
    assert (world.manager.find(kinds.JOBS, job) or {})["spec"]["suspend"] is True
    assert (world.condition("Evicted") or {})["status"] == "True"
    assert (world.condition("QuotaReserved") or {})["status"] == "True"

    world.manager.change(kinds.JOBS, job, {"status": {"active": 0}})
    await world.settle()
    assert (world.condition("QuotaReserved") or {})["status"] == "False"


def conditions(world: Table) -> dict[str, tuple[str, str]]:
    found = (world.manager.find(kinds.WORKLOADS, KEY) or {}).get("status", {}).get("conditions", ())
    return {each["type"]: (each["status"], each["reason"]) for each in found}


async def test_a_workload_says_why_it_waits_where_the_settings_ask_for_it() -> None:
    world = table(rules=Quota(unadmitted_reasons=True))
    world.manager.put(kinds.WORKLOADS, of_class("low"))
    await world.settle()
    waits = {"QuotaReserved": ("False", "ExceedsMaxQuota"), "Admitted": ("False", "NoReservation")}
    assert conditions(world) == waits
    world.manager.change(kinds.WORKLOADS, KEY, {"spec": {"active": False}})
    await world.settle()
    assert conditions(world).items() >= {"QuotaReserved": ("False", "Deactivated")}.items()
    writes = len(world.manager.calls)
    await world.settle()
    assert len(world.manager.calls) == writes


async def test_a_workload_says_at_once_that_it_waits_where_the_settings_ask_for_it() -> None:
    world = table(rules=Quota(unadmitted_reasons=True, explicit_status=True))
    world.manager.put(kinds.WORKLOADS, of_class("low"))
    await Workloads(world.world).reconcile(KEY)
    assert conditions(world) == {
        "QuotaReserved": ("False", "PendingEvaluation"),
        "Admitted": ("False", "NoReservation"),
    }
