"""The statuses of queues where the installed definitions have less room than they need."""

from __future__ import annotations

import re
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.meta import ObjectKey, encode
from multikueue.controllers.quota.queue_status import Finalizers
from multikueue.errors import Invalid, NotFound
from multikueue.runtime import DONE
from multikueue.settings import BESIDE_KUEUE, EXTERNAL_DISPATCHER, Role
from tests.cluster import plain
from tests.controllers.table import CHECK, NAMESPACE, QUEUE, Table, table

pytestmark = pytest.mark.anyio

LOCAL, CLUSTER = ObjectKey(NAMESPACE, QUEUE), ObjectKey("", "cq")


def with_flavors(count: int) -> Table:
    world = table()
    names = [f"f{number}" for number in range(count)]
    for name in names:
        world.manager.put(kinds.RESOURCE_FLAVORS, {"metadata": {"name": name}, "spec": {}})
    flavors = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": "4"}]} for name in names]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    world.manager.change(
        kinds.CLUSTER_QUEUES, CLUSTER, {"metadata": {"generation": 2}, "spec": {"resourceGroups": groups}}
    )
    return world


def bound(world: Table, most: dict[str, int], *, at_a_time: int = 99) -> None:
    """The API server refuses longer lists in the statuses of queues, and names at most so many at a time."""
    send = world.manager.merge_patch

    async def checked(kind: Kind[Any], key: ObjectKey, body: Any, **how: Any) -> Any:
        status = plain(body).get("status", {}) if kind in (kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES) else {}
        wrong = [
            f"status.{name}: Too many: {len(status.get(name, ()))}: must have at most {limit} items"
            for name, limit in most.items()
            if len(status.get(name, ())) > limit
        ]
        world.manager.calls.append(f"tried {kind.plural}")
        if wrong:
            said = ", ".join(wrong[:at_a_time])
            raise Invalid(422, "Invalid", f'"{key.name}" is invalid: [{said}]' if wrong[1:] else f"is invalid: {said}")
        return await send(kind, key, body, **how)

    world.manager.merge_patch = checked  # type: ignore[method-assign]


def status(world: Table, kind: Kind[Any], key: ObjectKey) -> Any:
    return (world.manager.find(kind, key) or {}).get("status", {})


@pytest.mark.parametrize("at_a_time", [1, 99], ids=["one error at a time", "all at once"])
@pytest.mark.parametrize(
    ("flavors", "most"),
    [
        pytest.param(20, {"flavorsReservation": 16, "flavorsUsage": 16}, id="definitions of 0.16"),
        pytest.param(70, {"flavorsReservation": 64, "flavorsUsage": 64}, id="definitions of 0.19"),
        pytest.param(5, {"flavorsReservation": 2, "flavorsUsage": 0}, id="any"),
    ],
)
async def test_the_rest_is_written_and_told_of_once(flavors: int, most: dict[str, int], at_a_time: int) -> None:
    world = with_flavors(flavors)
    bound(world, most, at_a_time=at_a_time)
    await world.settle()
    await world.statuses()
    for kind, key in ((kinds.LOCAL_QUEUES, LOCAL), (kinds.CLUSTER_QUEUES, CLUSTER)):
        shown = status(world, kind, key)
        assert shown["conditions"][0]["type"] == "Active"
        # The definition of LocalQueues on this server has room for 16.
        room = {name: min(limit, 16) if kind is kinds.LOCAL_QUEUES else limit for name, limit in most.items()}
        assert {name: len(shown.get(name, ())) for name in most} == room
    assert sorted(reason for reason, _ in world.said()) == ["StatusCut", "StatusCut"]
    assert world.errors == []

    tries = world.manager.calls.count("tried localqueues") + world.manager.calls.count("tried clusterqueues")
    await world.statuses()
    world.submit()
    await world.settle()
    await world.statuses()
    more = world.manager.calls.count("tried localqueues") + world.manager.calls.count("tried clusterqueues") - tries
    assert more <= 2, "what is known is not tried again"
    assert sorted(reason for reason, _ in world.said() if reason.startswith("Status")) == ["StatusCut", "StatusCut"]


async def test_what_has_room_is_complete() -> None:
    world = with_flavors(16)
    bound(world, {"flavorsReservation": 16, "flavorsUsage": 16})
    await world.settle()
    await world.statuses()
    assert len(status(world, kinds.LOCAL_QUEUES, LOCAL)["flavorsReservation"]) == 16
    assert world.said() == []


async def test_another_refusal_is_told_of() -> None:
    world = with_flavors(1)

    async def refuse(*_: Any, **__: Any) -> Any:
        raise Invalid(422, "Invalid", "status: a policy has it otherwise")

    world.manager.merge_patch = refuse  # type: ignore[method-assign]
    with pytest.raises(Invalid):
        await world.statuses()
    assert [reason for reason, _ in world.said()] == ["StatusRefused"]
    assert re.search("a policy has it otherwise", str(world.said())) is not None
    assert encode(world.said())


FINALIZER = "kueue.x-k8s.io/resource-in-use"
KEPT = [(kinds.CLUSTER_QUEUES, "cq"), (kinds.RESOURCE_FLAVORS, "default"), (kinds.ADMISSION_CHECKS, CHECK)]
each_kind = pytest.mark.parametrize(("kind", "name"), KEPT, ids=["ClusterQueue", "ResourceFlavor", "AdmissionCheck"])


async def settled(**settings: Any) -> Table:
    world = table(**settings)
    await rest(world)
    return world


async def rest(world: Table) -> None:
    """All that is due, and what is due a second later for the queues."""
    for _ in range(2):
        await world.settle()
        for queue in world.manager.all(kinds.CLUSTER_QUEUES):
            world.queues.cluster_queues.add(queue["metadata"]["name"])
    await world.settle()


def finalizers(world: Table, kind: Kind[Any], name: str) -> list[str] | None:
    """None: the object is gone."""
    found = world.manager.find(kind, ObjectKey("", name))
    return None if found is None else found["metadata"].get("finalizers", [])


async def delete(world: Table, kind: Kind[Any], name: str) -> None:
    await world.manager.delete(kind, ObjectKey("", name))
    await rest(world)


def active(world: Table, name: str = "cq") -> tuple[str, str]:
    (condition,) = (world.manager.find(kinds.CLUSTER_QUEUES, ObjectKey("", name)) or {})["status"]["conditions"]
    return condition["status"], condition["reason"]


@each_kind
async def test_each_gets_the_finalizer_with_one_write_in_its_life(kind: Kind[Any], name: str) -> None:
    world = await settled()
    assert finalizers(world, kind, name) == [FINALIZER]
    assert world.manager.calls.count(f"patch {kind.plural}") == 1
    world.submit()
    await rest(world)
    world.admit("w1")
    await rest(world)
    assert world.manager.calls.count(f"patch {kind.plural}") == 1


@each_kind
async def test_finalizers_of_others_stay(kind: Kind[Any], name: str) -> None:
    world = table()
    world.manager.change(kind, ObjectKey("", name), {"metadata": {"finalizers": ["example.com/other"]}})
    await rest(world)
    assert finalizers(world, kind, name) == ["example.com/other", FINALIZER]
    await delete(world, kinds.CLUSTER_QUEUES, "cq")
    if kind is not kinds.CLUSTER_QUEUES:
        await delete(world, kind, name)
    assert finalizers(world, kind, name) == ["example.com/other"]


@pytest.mark.parametrize("roles", [BESIDE_KUEUE, EXTERNAL_DISPATCHER], ids=["in MultiKueue's place", "dispatcher"])
@each_kind
async def test_beside_kueue_they_are_kueues_matter(roles: frozenset[Role], kind: Kind[Any], name: str) -> None:
    world = await settled(roles=roles)
    assert finalizers(world, kind, name) == []
    assert f"patch {kind.plural}" not in world.manager.calls


@pytest.mark.parametrize(("kind", "name"), KEPT[1:], ids=["ResourceFlavor", "AdmissionCheck"])
async def test_what_a_queue_names_stays_until_no_queue_does(kind: Kind[Any], name: str) -> None:
    world = await settled()
    await delete(world, kind, name)
    assert finalizers(world, kind, name) == [FINALIZER]

    spec: dict[str, Any] = (
        {"resourceGroups": []} if kind is kinds.RESOURCE_FLAVORS else {"admissionChecksStrategy": None}
    )
    world.manager.change(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"), {"spec": spec})
    await rest(world)
    assert finalizers(world, kind, name) is None


@pytest.mark.parametrize(("kind", "name"), KEPT[1:], ids=["ResourceFlavor", "AdmissionCheck"])
async def test_what_a_queue_named_goes_with_the_queue(kind: Kind[Any], name: str) -> None:
    world = await settled()
    await delete(world, kind, name)
    await delete(world, kinds.CLUSTER_QUEUES, "cq")
    assert finalizers(world, kind, name) is None


@pytest.mark.parametrize(("kind", "name"), KEPT[1:], ids=["ResourceFlavor", "AdmissionCheck"])
async def test_a_queue_goes_on_with_what_is_only_being_deleted(kind: Kind[Any], name: str) -> None:
    world = await settled()
    await delete(world, kind, name)
    assert active(world) == ("True", "Ready")
    world.submit()
    await rest(world)
    assert world.status()["admission"]["clusterQueue"] == "cq"


async def test_a_queue_in_which_nothing_holds_quota_goes_at_once() -> None:
    world = await settled()
    await delete(world, kinds.CLUSTER_QUEUES, "cq")
    assert finalizers(world, kinds.CLUSTER_QUEUES, "cq") is None


async def test_qe_327_a_queue_stays_until_what_was_admitted_has_ended_and_takes_nothing_new() -> None:
    world = await settled()
    world.submit("running")
    await rest(world)
    world.admit("w1", "running")
    await rest(world)
    assert world.condition("Admitted", "running")

    await delete(world, kinds.CLUSTER_QUEUES, "cq")
    world.submit("late")
    await rest(world)
    assert finalizers(world, kinds.CLUSTER_QUEUES, "cq") == [FINALIZER]
    assert active(world) == ("False", "Terminating")
    waiting = world.condition("QuotaReserved", "late")
    assert waiting is not None
    assert (waiting["status"], waiting["reason"]) == ("False", "Inadmissible")
    assert waiting["message"] == "ClusterQueue cq is inactive"

    world.finish("w1", "running")
    await rest(world)
    assert finalizers(world, kinds.CLUSTER_QUEUES, "cq") is None


async def test_qe_327_what_is_reserved_and_not_admitted_does_not_hold_up_its_queue() -> None:
    world = await settled()
    world.submit()
    await rest(world)
    assert world.status()["admission"]["clusterQueue"] == "cq"
    await delete(world, kinds.CLUSTER_QUEUES, "cq")
    assert "admission" not in world.status()
    assert finalizers(world, kinds.CLUSTER_QUEUES, "cq") is None


@each_kind
async def test_one_that_went_meanwhile_is_no_trouble(kind: Kind[Any], name: str) -> None:
    world = await settled()
    gone = NotFound(404, "NotFound", "it went")
    world.manager.fault = lambda verb, plural: gone if (verb, plural) == ("patch", kind.plural) else None
    spec: dict[str, Any] = {"resourceGroups": [], "admissionChecksStrategy": None}
    world.manager.change(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"), {"spec": spec})
    await world.manager.delete(kind, ObjectKey("", name))
    finalizers = Finalizers(world.world)
    keep = {
        kinds.CLUSTER_QUEUES: finalizers.reconcile_cluster_queue,
        kinds.RESOURCE_FLAVORS: finalizers.reconcile_flavor,
        kinds.ADMISSION_CHECKS: finalizers.reconcile_check,
    }
    assert await keep[kind](name) == DONE
    assert await keep[kind]("unknown") == DONE
