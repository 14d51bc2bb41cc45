"""The statuses of queues where the installed definitions have less room than they need."""

from __future__ import annotations

import re
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.meta import ObjectKey, encode
from multikueue.errors import Invalid
from tests.cluster import plain
from tests.controllers.table import NAMESPACE, QUEUE, Table, table

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
