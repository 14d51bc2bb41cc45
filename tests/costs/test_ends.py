"""The end of a job is written where it decides something, not where it changes amounts in a text: however many wait, of
however many sizes and priorities, and after a restart, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from tests.controllers.table import NAMESPACE, QUEUE, Table, job_body, table
from tests.costs.counting import FUNCTIONS, functions_counted

pytestmark = pytest.mark.anyio

SIZES, PRIORITIES, SMALL = 10, 3, 8
KINDS = SIZES * PRIORITIES
MOST_WRITES = 5
"""The Job's status and end, the Workload's, and what becomes of its copy."""

SLACK = 1.1
"""Heaps whose depth grows a little."""

Body = dict[str, Any]


def _waiting(number: int, kinds: int = KINDS) -> Body:
    """A workload of nobody's job that is larger than what ends make free, of one of ten sizes and three priorities."""
    kind = number % kinds
    size, priority = kind % SIZES, -(kind // SIZES)
    template = job_body("x", cpu=str(2 * SMALL + size))["spec"]["template"]
    template["spec"]["containers"][0]["resources"]["requests"]["memory"] = f"{SIZES - size}Gi"
    return {
        "metadata": {"name": f"waiting-{number:05}", "namespace": NAMESPACE},
        "spec": {
            "queueName": QUEUE,
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


def _set_queue(world: Table, *, cpu: str = "30", **spec: Any) -> None:
    """30 CPUs and 12 GiB. The small jobs have most of the one, and their ends make a GiB of the other free, too."""
    resources = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "12Gi"}]
    flavors = [{"name": "default", "resources": resources}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": flavors}
    old = world.manager.find(kinds.CLUSTER_QUEUES, ObjectKey("", "cq")) or {}
    changed = {**old["spec"], "resourceGroups": [group], **spec}
    world.manager.put(
        kinds.CLUSTER_QUEUES,
        {**old, "metadata": {**old["metadata"], "generation": old["metadata"]["generation"] + 1}, "spec": changed},
    )


def _small(name: str, cpu: str = "1") -> Body:
    body = job_body(name, cpu=cpu)
    body["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Gi"
    return body


async def _full(waiting: int, *, of: int = KINDS, **queue: Any) -> Table:
    world = table(workers=1)
    _set_queue(world, **queue)
    names = [f"small-{number}" for number in range(SMALL)]
    for name in names:
        world.manager.put(kinds.JOBS, _small(name))
    world.manager.put(kinds.JOBS, _small("long", cpu="15"))
    await _settle(world)
    for name in (*names, "long"):
        world.admit("w1", name)
    await _settle(world)
    for number in range(waiting):
        world.manager.put(kinds.WORKLOADS, _waiting(number, of))
    await _settle(world)
    return world


async def _settle(world: Table) -> None:
    """Until nothing is left to do; what comes after a second, too."""
    for _ in range(2):
        for _ in range(20):
            try:
                await world.settle()
                break
            except AssertionError:  # more waits than it does at once
                continue
        world.time += timedelta(seconds=2)


async def _end(world: Table, name: str) -> tuple[int, int]:
    """The writes of one end and all its consequences, and the functions that it calls."""
    before, functions = Counter(world.manager.calls), Counter[str]()
    world.finish("w1", name)
    with functions_counted(functions):
        await _settle(world)
    written = Counter(world.manager.calls) - before
    return sum(count for call, count in written.items() if not call.startswith(("get", "list"))), functions[FUNCTIONS]


QUEUES: dict[str, Body] = {
    "whoever fits first": {},
    "the oldest first": {"queueingStrategy": "StrictFIFO"},
    "who may preempt": {"preemption": {"withinClusterQueue": "LowerPriority"}},
}


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("waiting", [20, 200, 2000])
async def test_an_end_is_not_written_into_all_who_wait(waiting: int, queue: str) -> None:
    world = await _full(waiting, **QUEUES[queue])
    written = [await _end(world, f"small-{number}") for number in range(3)]
    assert [writes for writes, _ in written if writes > MOST_WRITES] == []


@pytest.mark.parametrize("waiting", [20, 200, 2000])
async def test_nor_after_a_restart(waiting: int) -> None:
    world = await _full(waiting)
    for number in range(2):
        await _end(world, f"small-{number}")
    await world.statuses()  # or the next process writes what this one was about to
    before = len(world.manager.calls)
    world.start()
    await _settle(world)
    await world.statuses()
    assert [call for call in world.manager.calls[before:] if call.startswith(("patch", "put", "post"))] == []
    writes, _ = await _end(world, "small-2")
    assert writes <= MOST_WRITES


@pytest.mark.timeout(600)  # ten thousand are there before anything ends
@pytest.mark.parametrize(
    ("few", "many", "of"),
    [
        pytest.param(10, 10_000, SIZES, id="ten or ten thousand of ten sizes"),
        pytest.param(KINDS, 1_000, KINDS, id="thirty or a thousand of ten sizes and three priorities"),
    ],
)
async def test_an_end_costs_the_same_however_many_wait(few: int, many: int, of: int) -> None:
    """Each kind has a head of its own that is tried, so both have the same kinds."""
    ends: list[tuple[int, int]] = []
    for waiting in (few, many):
        world = await _full(waiting, of=of)
        await _end(world, "small-0")
        ends.append(await _end(world, "small-1"))
    (few_writes, few_functions), (many_writes, many_functions) = ends
    assert many_writes == few_writes <= MOST_WRITES
    assert many_functions <= SLACK * few_functions


async def test_what_decides_is_written_into_all_whom_it_concerns() -> None:
    world = await _full(40)
    assert all("insufficient unused quota" in _told(world, number) for number in range(40))
    _set_queue(world, cpu="8")
    await _settle(world)
    assert all("maximum capacity (8)" in _told(world, number) for number in range(40))


def _told(world: Table, number: int) -> str:
    body = world.manager.find(kinds.WORKLOADS, ObjectKey(NAMESPACE, f"waiting-{number:05}")) or {}
    said: Callable[[Body], bool] = lambda each: each["type"] == "QuotaReserved"  # noqa: E731
    return str(next(each["message"] for each in body["status"]["conditions"] if said(each)))
