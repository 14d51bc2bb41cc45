"""Jobs of queues that are not dispatched, through all controllers at once: where they start, and what stops them
(quota-engine 6.4, QE-356, QE-357)."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.settings import Integrations
from tests.controllers.table import NAMESPACE, Table, job_body, table

pytestmark = pytest.mark.anyio

QUEUE, FOREIGN = ObjectKey("", "cq"), "approval"
TOLERATION = {"key": "blue", "operator": "Exists"}
CHECK = {
    "metadata": {"name": FOREIGN, "generation": 1},
    "spec": {"controllerName": "example.com/approval"},
    "status": {"conditions": [{"type": "Active", "status": "True", "reason": "Active", "message": ""}]},
}


def local(*, checks: tuple[str, ...] = (), quota: int = 4, integrations: Integrations = Integrations()) -> Table:  # noqa: B008  # frozen
    """A queue that is not dispatched, with the flavors `blue` and then `red`."""
    world = table(quota=quota, integrations=integrations)
    blue: dict[str, Any] = {"nodeLabels": {"pool": "blue"}, "tolerations": [TOLERATION]}
    for name, spec in (("blue", blue), ("red", {"nodeLabels": {"pool": "red"}})):
        world.manager.put(kinds.RESOURCE_FLAVORS, {"metadata": {"name": name}, "spec": spec})
    world.manager.put(kinds.ADMISSION_CHECKS, CHECK)
    offer(world, "blue", "red", checks=checks, quota=quota)
    return world


def offer(world: Table, *flavors: str, checks: tuple[str, ...] = (), quota: int = 4) -> None:
    """From now on the queue has these flavors."""
    given = [{"name": f, "resources": [{"name": "cpu", "nominalQuota": str(quota)}]} for f in flavors]
    spec = {
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": given}],
        "namespaceSelector": {},
        "admissionChecksStrategy": {"admissionChecks": [{"name": name} for name in checks]},
    }
    found = world.manager.find(kinds.CLUSTER_QUEUES, QUEUE)
    assert found
    world.manager.change(kinds.CLUSTER_QUEUES, QUEUE, {"spec": spec})


async def submitted(world: Table, **more: Any) -> None:
    body = job_body("job", managed=False, **more)
    body["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
    world.manager.put(kinds.JOBS, body)
    await world.settle()


def spec(world: Table) -> dict[str, Any]:
    found: dict[str, Any] = (world.manager.find(kinds.JOBS, ObjectKey(NAMESPACE, "job")) or {})["spec"]
    return found


def labels(world: Table) -> dict[str, str]:
    """Those of its pods, but for what the API server puts there itself."""
    own = ("job-name", "controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid")
    return {name: value for name, value in spec(world)["template"]["metadata"]["labels"].items() if name not in own}


def switch(world: Table, *, active: bool) -> None:
    world.manager.change(kinds.WORKLOADS, world.key(), {"spec": {"active": active}})


def pods(world: Table, **status: Any) -> None:
    """What the job controller writes."""
    world.manager.change(kinds.JOBS, ObjectKey(NAMESPACE, "job"), {"status": status})


async def test_a_job_starts_where_its_flavor_is() -> None:
    world = local()
    await submitted(world)
    template = spec(world)["template"]
    assert spec(world)["suspend"] is False
    assert labels(world) == {
        "app": "x",
        "kueue.x-k8s.io/podset": "main",
        "kueue.x-k8s.io/local-queue-name": "main",
        "kueue.x-k8s.io/cluster-queue-name": "cq",
    }
    assert template["metadata"]["annotations"] == {"kueue.x-k8s.io/workload": world.key().name}
    assert (template["spec"]["nodeSelector"], template["spec"]["tolerations"]) == ({"pool": "blue"}, [TOLERATION])


async def test_a_stopped_job_is_what_it_was_and_keeps_its_quota_until_then() -> None:
    world = local()
    await submitted(world)
    pods(world, active=1, startTime="2026-01-01T12:00:00Z")
    await world.settle()
    switch(world, active=False)
    await world.settle()
    assert spec(world)["suspend"] is True
    assert (world.condition("QuotaReserved") or {})["status"] == "True"  # its pods still end
    pods(world, active=0, startTime=None)
    await world.settle()
    template = spec(world)["template"]
    assert labels(world) == {"app": "x"}
    assert "annotations" not in template["metadata"]
    assert "nodeSelector" not in template["spec"]
    assert "tolerations" not in template["spec"]
    assert (world.condition("QuotaReserved") or {})["status"] == "False"


async def test_its_next_attempt_may_be_elsewhere() -> None:
    world = local()
    await submitted(world)
    switch(world, active=False)
    await world.settle()
    offer(world, "red")
    switch(world, active=True)
    await world.settle()
    assert spec(world)["suspend"] is False
    assert spec(world)["template"]["spec"]["nodeSelector"] == {"pool": "red"}
    assert "tolerations" not in spec(world)["template"]["spec"]


async def test_looking_again_writes_nothing() -> None:
    world = local()
    await submitted(world)
    before = len(world.manager.calls)
    world.queues.workloads.add(world.key())
    await world.settle()
    assert len(world.manager.calls) == before


async def test_with_quota_for_fewer_pods_it_has_fewer() -> None:
    world = local(quota=3)
    offer(world, "blue", quota=3)
    body = job_body("job", managed=False, pods=5)
    body["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    world.manager.put(kinds.JOBS, body)
    await world.settle()
    assert (spec(world)["suspend"], spec(world)["parallelism"]) == (False, 3)
    name = world.key()
    switch(world, active=False)
    await world.settle()
    assert (spec(world)["suspend"], spec(world)["parallelism"]) == (True, 5)
    assert world.key() == name


async def test_what_a_check_demands_counts_too() -> None:
    world = local(checks=(FOREIGN,))
    await submitted(world)
    assert spec(world)["suspend"] is True
    answer(world, {"name": "main", "nodeSelector": {"rack": "7"}})
    await world.settle()
    assert spec(world)["template"]["spec"]["nodeSelector"] == {"pool": "blue", "rack": "7"}


async def test_a_job_that_cannot_be_started_ends_with_the_reason() -> None:
    world = local(checks=(FOREIGN,))
    await submitted(world)
    answer(world, {"name": "main", "nodeSelector": {"pool": "red"}})
    await world.settle()
    assert spec(world)["suspend"] is True
    finished = world.condition("Finished") or {}
    assert (finished["status"], finished["reason"]) == ("True", "FailedToStart")
    assert finished["message"] == (
        'in admission check "approval": invalid admission check PodSetUpdate: conflict for nodeSelector: '
        "conflict for key=pool, value1=blue, value2=red"
    )


def answer(world: Table, update: dict[str, Any]) -> None:
    """The check's controller lets the workload through, with that change of its pods."""
    check = {
        "name": FOREIGN,
        "state": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
        "podSetUpdates": [update],
    }
    world.manager.change(kinds.WORKLOADS, world.key(), {"status": {"admissionChecks": [check]}})


async def test_a_deleted_workload_leaves_the_job_as_it_was() -> None:
    world = local()
    await submitted(world)
    await world.manager.delete(kinds.WORKLOADS, world.key(), uid=world.workload()["metadata"]["uid"])
    world.manager.put(kinds.CLUSTER_QUEUES, {**(world.manager.find(kinds.CLUSTER_QUEUES, QUEUE) or {})})
    await world.settle()
    template = world.workload()["spec"]["podSets"][0]["template"]
    assert "nodeSelector" not in template["spec"]
    assert "kueue.x-k8s.io/workload" not in template["metadata"].get("annotations", {})


async def test_a_dispatched_job_is_started_as_it_is() -> None:
    world = table()
    blue = {"metadata": {"name": "default"}, "spec": {"nodeLabels": {"pool": "blue"}}}
    world.manager.put(kinds.RESOURCE_FLAVORS, blue)
    await world.begin()
    assert spec(world)["suspend"] is False
    assert "nodeSelector" not in spec(world)["template"]["spec"]
    (copy,) = [c for w in world.workers.values() if (c := w.find(kinds.JOBS, ObjectKey(NAMESPACE, "job")))]
    assert "nodeSelector" not in copy["spec"]["template"]["spec"]
