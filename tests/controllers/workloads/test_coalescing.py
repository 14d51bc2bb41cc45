"""The status of a remote job under load: many changes in a row cost few writes at home, and the last one always arrives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from tests.controllers.table import NAMESPACE, Table, table

pytestmark = pytest.mark.anyio

PODS = 100
WRITE = "patch jobs/status"


async def running(*names: str) -> Table:
    """Jobs of many pods that run on the first worker, none of which is over yet."""
    world = table(quota=10 * PODS)
    for name in names:
        world.submit(name, pods=PODS)
    await world.settle()
    for name in names:
        world.admit("w1", name)
    await world.settle()
    for name in names:
        world.run("w1", name, active=PODS, ready=PODS)
    await world.settle()
    world.manager.calls.clear()
    return world


def while_written(world: Table, meanwhile: Callable[[], None]) -> None:
    """Have that go on while a status is written."""

    def go_on(verb: str, plural: str) -> None:
        if world.manager.calls[-1] == WRITE:
            meanwhile()

    world.manager.fault = go_on


def over(world: Table, name: str = "job") -> int:
    """How many pods have succeeded, as the job says at home."""
    found = world.manager.find(kinds.JOBS, ObjectKey(NAMESPACE, name)) or {}
    return int(found["status"].get("succeeded", 0))


def one_more(world: Table, done: int, name: str = "job") -> None:
    world.run("w1", name, active=PODS - done, ready=PODS - done, succeeded=done)


async def test_what_changed_many_times_since_the_last_look_is_written_once() -> None:
    names = ("a", "b", "c")
    world = await running(*names)
    for done in range(1, PODS):
        for name in names:
            one_more(world, done, name)
    await world.settle()
    assert [over(world, name) for name in names] == [PODS - 1] * 3
    assert world.manager.calls.count(WRITE) == len(names)


async def test_what_changes_while_a_status_is_written_is_written_together_after_it() -> None:
    world, per_write = await running("job"), 20
    changes = iter(range(2, PODS))

    def meanwhile() -> None:
        for _, done in zip(range(per_write), changes, strict=False):
            one_more(world, done)

    while_written(world, meanwhile)
    one_more(world, 1)
    await world.settle()
    assert over(world) == PODS - 1
    assert world.manager.calls.count(WRITE) <= PODS / per_write + 1


async def test_a_change_in_the_middle_of_the_last_write_arrives_too() -> None:
    world = await running("job")
    left = [PODS - 1]

    def meanwhile() -> None:
        if left:
            one_more(world, left.pop())

    while_written(world, meanwhile)
    one_more(world, 1)
    await world.settle()
    assert over(world) == PODS - 1
    assert world.manager.calls.count(WRITE) == 2


async def test_what_changes_back_before_anybody_looked_costs_nothing() -> None:
    world = await running("job")
    one_more(world, 1)
    one_more(world, 0)
    await world.settle()
    assert over(world) == 0
    assert world.manager.calls.count(WRITE) == 0
