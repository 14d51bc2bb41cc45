from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.kubernetes.printed import PODS, WORKLOAD_ANNOTATION
from multikueue.api.kueue.workload import DRAIN_TOLD_ANNOTATION, DRAINED_FROM_ANNOTATION
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import DRAIN_ANNOTATION, DRAINED, HUB_TAINTS_ANNOTATION
from multikueue.controllers.workers.draining import Drains, told_until
from multikueue.durations import Drain
from multikueue.errors import ClusterUnreachable, Forbidden, ServerError
from multikueue.kube.relatives import DRAIN_AT_ANNOTATION
from tests.builders import NOW, workload
from tests.controllers.table import NAMESPACE, Table, table

pytestmark = pytest.mark.anyio


async def running(world: Table) -> str:
    """The worker on which the job that is submitted runs."""
    await world.begin()
    assert world.workload()["status"]["clusterName"] == "w1"
    return "w1"


def ask(world: Table, name: str, value: str | None, annotation: str = DRAIN_ANNOTATION) -> None:
    body = {"metadata": {"annotations": {annotation: value}}}
    world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name), body)


async def later(world: Table) -> None:
    """Once the worker's Kueue has stopped the job, and an attempt may have ended: none is shorter than two seconds."""
    world.evict("w1")
    world.time += timedelta(seconds=5)
    world.queues.workloads.add(world.key())
    await world.settle()


async def look(world: Table, name: str = "w1", *, by: Drains | None = None) -> tuple[str, str]:
    """What the condition says after a look; nothing without one."""
    await (by or Drains(world.world)).reconcile(name)
    cluster = world.manager.find(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name)) or {}
    found: list[Any] = [each for each in cluster.get("status", {}).get("conditions", []) if each["type"] == DRAINED]
    return (found[0]["status"], found[0]["message"]) if found else ("", "")


async def test_what_runs_there_queues_again_and_goes_elsewhere() -> None:
    world = table()
    await running(world)
    ask(world, "w1", "requeue")

    status, message = await look(world)
    assert (status, message) == (
        "False",
        "workloads: 1 giving quota back, 1 with objects there",
    )
    await later(world)
    await look(world)
    await world.settle()

    assert DRAINED_FROM_ANNOTATION not in world.workload()["metadata"].get("annotations", {})
    assert world.workload()["spec"].get("active", True)
    assert "w1" not in world.workload()["status"].get("nominatedClusterNames", [])
    assert await look(world) == ("True", "nothing of ours is there")


async def test_what_runs_there_goes_on_until_the_time_is_over() -> None:
    world = table()
    await running(world)
    ask(world, "w1", "wait=8h")

    for passed in (timedelta(), timedelta(hours=7)):
        world.time += passed
        assert await look(world) == ("False", "workloads: 1 running, 1 with objects there")
        assert world.workload()["spec"].get("active", True)

    world.time += timedelta(hours=1)
    await look(world)
    assert world.workload()["spec"]["active"] is False


def with_pod(world: Table) -> None:
    """The job has a pod on w1, beside one of somebody else."""
    world.world.clients["w1"] = world.workers["w1"]
    for name, marks in (("job-0", {WORKLOAD_ANNOTATION: world.key().name}), ("other", {})):
        meta = {"name": name, "namespace": NAMESPACE, "annotations": marks}
        world.workers["w1"].put(
            PODS, {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "trainer"}]}}
        )


def times(world: Table) -> dict[str, str | None]:
    """Until when each pod has time, as it was told."""
    pods = world.workers["w1"].all(PODS)
    return {each["metadata"]["name"]: each["metadata"].get("annotations", {}).get(DRAIN_AT_ANNOTATION) for each in pods}


def is_stopped(world: Table) -> bool:
    return not world.workload()["spec"].get("active", True)


async def test_a_drain_by_signal_tells_the_pods_once_and_stops_what_is_left_when_their_time_is_over() -> None:
    world = table()
    await running(world)
    with_pod(world)
    ask(world, "w1", "signal=15m")

    assert (await look(world))[0] == "False"
    assert times(world) == {"job-0": "2026-01-01T12:15:00Z", "other": None}
    world.workers["w1"].calls.clear()
    world.time += timedelta(minutes=14)
    await look(world)
    world.start()  # another process goes on
    world.world.clients["w1"] = world.workers["w1"]
    await look(world)
    assert [call for call in world.workers["w1"].calls if "pods" in call] == []
    assert not is_stopped(world)
    world.time += timedelta(minutes=1)
    await look(world)
    assert is_stopped(world)
    annotations = world.workload()["metadata"]["annotations"]
    assert annotations[DRAINED_FROM_ANNOTATION] == "w1"
    assert DRAIN_TOLD_ANNOTATION not in annotations


async def test_a_process_that_ends_before_it_has_noted_that_pods_are_told_has_the_next_one_tell_them_again() -> None:
    world = table()
    await running(world)
    with_pod(world)
    ask(world, "w1", "signal=15m")
    world.manager.fault = lambda verb, plural: (
        ServerError(500, "InternalError", "no") if (verb, plural) == ("patch", "workloads") else None
    )
    with pytest.raises(ServerError):
        await look(world)
    world.manager.fault = lambda _verb, _plural: None
    world.time += timedelta(minutes=1)
    await look(world)
    assert times(world)["job-0"] == "2026-01-01T12:16:00Z"


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Forbidden(403, "Forbidden", "no"), id="no right to pods"),
        pytest.param(ClusterUnreachable("w1", "gone"), id="no answer"),
    ],
)
async def test_what_cannot_be_told_is_not_stopped_and_is_told_later(fault: Exception) -> None:
    world = table()
    await running(world)
    with_pod(world)
    ask(world, "w1", "signal=15m")
    world.workers["w1"].fault = lambda _verb, plural: fault if plural == "pods" else None
    drains = Drains(world.world)
    for _ in range(2):
        assert f"pods cannot be told, and nothing is stopped: {fault}" in (await look(world, by=drains))[1]
    assert len([call for call in world.workers["w1"].calls if "pods" in call]) == 1
    (event,) = [each for each in world.recorder.waiting() if each["reason"] == "DrainNotTold"]
    assert str(fault) in event["message"]
    world.time += timedelta(hours=1)
    await look(world, by=drains)
    assert not is_stopped(world)
    world.workers["w1"].fault = lambda _verb, _plural: None
    world.time += timedelta(minutes=1)
    await look(world, by=drains)
    assert times(world)["job-0"] == "2026-01-01T13:16:00Z"
    assert not is_stopped(world)
    world.time += timedelta(minutes=15)
    await look(world)
    assert is_stopped(world)


@pytest.mark.parametrize(
    ("note", "is_told"),
    [
        pytest.param("w1 signal=900s 2026-01-01T12:15:00Z", True, id="of this drain"),
        pytest.param("w1 signal=900s 2026-01-01T11:59:00Z", False, id="of a drain before this"),
        pytest.param("w2 signal=900s 2026-01-01T12:15:00Z", False, id="of another worker"),
        pytest.param("w1 signal=3600s 2026-01-01T13:00:00Z", False, id="with another time"),
        pytest.param("w1 signal=900s soon", False, id="somebody's words"),
        pytest.param("w1 signal=900s 2026-01-01T12:15:00", False, id="without a zone"),
        pytest.param("soon", False, id="one word"),
        pytest.param("", False, id="none"),
    ],
)
def test_the_note_of_a_workload_says_for_which_drain_its_pods_were_told(note: str, is_told: bool) -> None:
    local = workload("wl").annotations({DRAIN_TOLD_ANNOTATION: note}).build()
    drain = Drain(timedelta(minutes=15), should_signal=True)
    assert (told_until(local, "w1", drain, NOW) is not None) is is_told


async def test_without_a_time_nothing_is_stopped() -> None:
    world = table()
    await running(world)
    ask(world, "w1", "wait")
    await look(world)
    world.time += timedelta(days=30)
    await look(world)
    assert world.workload()["spec"].get("active", True)


async def test_a_manager_that_starts_in_between_releases_what_was_held() -> None:
    world = table()
    await running(world)
    ask(world, "w1", "requeue")
    await look(world)
    ask(world, "w1", None)
    world.start()
    await later(world)

    await look(world, "w2")

    assert world.workload()["spec"]["active"] is True


async def test_a_workload_that_somebody_else_holds_stays_held() -> None:
    world = table()
    await running(world)
    world.manager.change(kinds.WORKLOADS, world.key(), {"spec": {"active": False}})
    await world.settle()
    ask(world, "w1", "requeue")

    await look(world)
    await later(world)
    await look(world)

    assert world.workload()["spec"]["active"] is False


async def test_the_condition_goes_with_the_annotation() -> None:
    world = table()
    ask(world, "w1", "wait")
    assert (await look(world))[0] == "True"
    ask(world, "w1", None)
    assert await look(world) == ("", "")


async def test_a_look_without_news_writes_nothing() -> None:
    world = table()
    await running(world)
    ask(world, "w1", "wait")
    await look(world)
    world.manager.calls.clear()
    await look(world)
    assert world.manager.calls == []


async def test_a_worker_that_is_away_is_drained_once_nothing_runs_there() -> None:
    world = table()
    world.cut("w1")
    ask(world, "w1", "requeue")
    assert await look(world) == ("True", "nothing of ours is there; it is not connected, so its objects cannot be seen")


async def test_a_word_that_is_none_only_cordons_and_is_told() -> None:
    world = table()
    await running(world)
    ask(world, "w1", "now")
    await look(world)
    assert world.workload()["spec"].get("active", True)
    (event,) = [each for each in world.recorder.waiting() if each["reason"] == "InvalidAnnotation"]
    assert "expected requeue, wait, or wait or signal with a time, such as wait=8h, got 'now'" in event["message"]


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {DRAIN_ANNOTATION: "wait"}}},
        {"metadata": {"annotations": {HUB_TAINTS_ANNOTATION: "gpu=broken:NoSelect"}}},
    ],
    ids=["one that is drained", "one with a taint"],
)
async def test_new_workloads_stay_away_from(change: dict[str, Any]) -> None:
    world = table()
    world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"), change)
    world.submit()
    await world.settle()
    assert sorted(world.workload()["status"]["nominatedClusterNames"]) == ["w2", "w3"]


async def test_what_waits_there_is_withdrawn_at_once() -> None:
    world = table()
    world.submit()
    await world.settle()
    ask(world, "w1", "wait")
    await world.settle()
    assert sorted(world.workload()["status"]["nominatedClusterNames"]) == ["w2", "w3"]
