"""A queue whose jobs run on the manager cluster or on workers, by the flavor that gives them quota."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.api import kinds
from multikueue.api.kueue.queues import MANAGER_TOO_ANNOTATION
from multikueue.api.meta import ObjectKey
from multikueue.settings import PodsReady, Quota
from tests.controllers.table import NAMESPACE, Body, Table, job_body, table
from tests.controllers.table import QUEUE as LOCAL_QUEUE

pytestmark = pytest.mark.anyio

QUEUE = ObjectKey("", "cq")
ANNOTATED = {MANAGER_TOO_ANNOTATION: "true"}


def places(
    *,
    here: int = 1,
    there: int = 4,
    annotations: dict[str, str | None] = ANNOTATED,  # type: ignore[assignment]
    rules: Quota = Quota(),  # noqa: B008  # frozen
) -> Table:
    """A queue with so many cores on the manager cluster, and so many on workers, in this order."""
    world = table(quota=4, rules=rules)
    for name, labels in (("here", {"pool": "here"}), ("there", {})):
        world.manager.put(kinds.RESOURCE_FLAVORS, {"metadata": {"name": name}, "spec": {"nodeLabels": labels}})
    found = world.manager.find(kinds.CLUSTER_QUEUES, QUEUE)
    assert found
    (check,) = found["spec"]["admissionChecksStrategy"]["admissionChecks"]
    given = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": str(cores)}]}
        for name, cores in (("here", here), ("there", there))
    ]
    spec = {
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": given}],
        "namespaceSelector": {},
        "admissionChecksStrategy": {"admissionChecks": [{"name": check["name"], "onFlavors": ["there"]}]},
    }
    world.manager.change(kinds.CLUSTER_QUEUES, QUEUE, {"metadata": {"annotations": annotations}, "spec": spec})
    return world


async def submitted(world: Table, *names: str, managed: bool = False) -> None:
    for name in names:
        world.manager.put(kinds.JOBS, job_body(name, managed=managed))
    await world.settle()


def job(world: Table, name: str) -> Body:
    found: Body | None = world.manager.find(kinds.JOBS, ObjectKey(NAMESPACE, name))
    assert found
    return found


def is_held(world: Table, name: str) -> bool:
    held: bool = job(world, name)["spec"]["suspend"]
    return held


def end(world: Table, name: str) -> list[str]:
    conditions = job(world, name).get("status", {}).get("conditions") or []
    return [each["type"] for each in conditions if each["status"] == "True"]


async def test_the_manager_cluster_comes_first_and_workers_get_what_is_over() -> None:
    world = places()
    await submitted(world, "first", "second")
    assert (is_held(world, "first"), world.copies("first")) == (False, [])
    assert job(world, "first")["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "here"}
    assert is_held(world, "second")
    assert world.copies("second") == ["w1", "w2", "w3"]


async def test_a_job_on_a_worker_stays_suspended_here_and_has_its_end() -> None:
    world = places(here=0)
    await submitted(world, "job")
    world.admit("w1")
    await world.settle()
    assert (world.runs_on(), is_held(world, "job")) == (["w1"], True)
    world.run("w1")
    await world.settle()
    assert "active" not in job(world, "job").get("status", {}), "its own controller says what goes on here"
    world.finish("w1")
    await world.settle()
    assert {"Complete", "SuccessCriteriaMet"} <= set(end(world, "job"))
    assert (world.condition("Finished") or {})["status"] == "True"
    assert world.copies() == []


async def test_its_pods_are_ready_where_they_run() -> None:
    """Its own status, which its own controller writes here, knows of no pods."""
    world = places(here=0, rules=Quota(pods_ready=PodsReady(enabled=True, timeout=timedelta(minutes=5))))
    await submitted(world, "job")
    world.admit("w1")
    await world.settle()
    world.run("w1", ready=1)
    await world.settle()
    assert (world.condition("PodsReady") or {})["status"] == "True"
    world.time += timedelta(minutes=6)
    world.queues.workloads.add(world.key())
    await world.settle()
    assert (world.condition("Evicted"), world.runs_on()) == (None, ["w1"])


async def test_whoever_starts_it_here_too_is_stopped() -> None:
    world = places(here=0)
    await submitted(world, "job")
    world.admit("w1")
    await world.settle()
    world.manager.change(kinds.JOBS, ObjectKey(NAMESPACE, "job"), {"spec": {"suspend": False}})
    await world.settle()
    assert is_held(world, "job")
    assert world.runs_on() == ["w1"]


async def test_what_its_worker_evicts_may_run_here_next() -> None:
    world = places(here=0)
    await submitted(world, "job")
    world.admit("w1")
    await world.settle()
    offered = world.manager.find(kinds.CLUSTER_QUEUES, QUEUE)
    assert offered
    groups = offered["spec"]["resourceGroups"]
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = "1"
    world.manager.change(kinds.CLUSTER_QUEUES, QUEUE, {"spec": {"resourceGroups": groups}})
    world.evict("w1")
    await world.settle()
    world.time += 2 * world.settings.quota.requeue_first
    world.queues.workloads.add(world.key())
    await world.settle()
    assert (is_held(world, "job"), world.runs_on(), world.copies()) == (False, [], [])


async def test_a_job_that_is_marked_for_workers_is_told_what_to_do() -> None:
    world = places()
    await submitted(world, "job", managed=True)
    (said,) = [text for reason, text in world.said() if reason == "Undispatchable"]
    assert said.startswith("Nobody would run the job on the manager cluster")
    assert "without `managedBy" in said
    assert (is_held(world, "job"), world.copies()) == (True, [])


async def test_without_the_annotation_the_queue_admits_nothing_as_in_kueue() -> None:
    world = places(annotations={})
    await submitted(world, "job", managed=True)
    assert world.copies() == []
    world.manager.change(kinds.CLUSTER_QUEUES, QUEUE, {"metadata": {"annotations": ANNOTATED}})
    await world.settle()
    await submitted(world, "other")
    assert not is_held(world, "other")


async def test_a_webhook_marks_no_job_of_it_for_workers() -> None:
    world = places()
    await world.settle()
    assert world.store.should_dispatch(NAMESPACE, LOCAL_QUEUE) is False
