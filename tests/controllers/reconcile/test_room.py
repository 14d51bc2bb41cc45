"""A strategy that reads room: what it sees, when it is asked again, and how a burst spreads."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.store.caches.cache import Cache
from multikueue.workload.strategy_call import AGAIN, ROOM
from tests.controllers.quota.test_capacity import have
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio

BY_ROOM = {"name": "composed", "options": {"scorers": ["room"], "patience": None}}
WHERE_ROOM_IS = {"name": "composed", "options": {"filters": ["room"], "scorers": ["room"], "patience": None}}


def roomy(*cpu: int, strategy: dict[str, Any]) -> Table:
    """Workers with so many cores, whose room is read."""
    made = table(workers=len(cpu), quota=10_000, strategy=strategy)
    made.store.rooms.need(made.settings.capacity_follow.flavors)
    for (name, cluster), amount in zip(made.workers.items(), cpu, strict=True):
        have(cluster, amount)
        room = made.store.rooms.worker(name)
        watched: dict[Kind[Any], Cache[Any]] = {
            kinds.CLUSTER_QUEUES: room.cluster_queues,
            kinds.LOCAL_QUEUES: room.local_queues,
            kinds.COHORTS: room.cohorts,
            kinds.RESOURCE_FLAVORS: room.flavors,
        }
        room.begin([*((kind.plural, "") for kind in watched), ("workloads", "")])
        for kind, cache in watched.items():
            cluster.watch(kind, cache)
            room.report(kind.plural, "", "")
        room.report("workloads", "", "")
    return made


def names(number: int) -> list[str]:
    return [f"job-{each}" for each in range(number)]


async def submitted(made: Table, number: int, *, cpu: str = "1") -> Counter[str]:
    """How many of so many jobs, submitted in one moment, have a copy on which worker."""
    for name in names(number):
        made.submit(name, cpu=cpu)
    await made.settle()
    return Counter(worker for name in names(number) for worker in made.copies(name))


async def test_a_burst_spreads_over_equal_workers() -> None:
    found = await submitted(roomy(4, 4, 4, 4, 4, strategy=BY_ROOM), 50)
    assert sum(found.values()) == 50
    assert max(found.values()) <= 11, "of which most wait there"


async def test_a_burst_spreads_by_what_workers_have() -> None:
    found = await submitted(roomy(30, 10, strategy=BY_ROOM), 40)
    assert (found["w1"], found["w2"]) == (30, 10)


async def test_what_ran_and_is_over_is_free_again() -> None:
    made = roomy(4, 4, strategy=BY_ROOM)
    await submitted(made, 2, cpu="4")
    for name in names(2):
        made.admit(made.copies(name)[0], name)
    await made.settle()
    room = [made.store.rooms.worker(name).occupancy for name in made.workers]
    assert [each.assumed() for each in room] == [frozenset(), frozenset()]


async def test_other_room_asks_for_nobody() -> None:
    made = roomy(2, 2, strategy=BY_ROOM)
    await submitted(made, 8)
    before, results = list(made.manager.calls), dict(made.world.strategies._results)
    for cpu in (5, 50):
        have(made.workers["w1"], cpu)
        await made.settle()
    assert made.manager.calls == before
    assert all(made.world.strategies._results[key] is result for key, result in results.items())


async def test_without_room_anywhere_there_is_no_copy_until_there_is() -> None:
    made = roomy(2, 2, strategy=WHERE_ROOM_IS)
    found = await submitted(made, 6)
    assert found == {"w1": 2, "w2": 2}
    have(made.workers["w2"], 3)
    made.time += AGAIN[ROOM]
    for name in names(6):
        made.queues.workloads.add(made.key(name))
    await made.settle()
    assert Counter(worker for name in names(6) for worker in made.copies(name)) == {"w1": 2, "w2": 3}


async def test_a_workload_that_waits_for_no_worker_any_more_frees_what_was_assumed() -> None:
    made = roomy(10, strategy=BY_ROOM)
    await submitted(made, 3)
    occupancy = made.store.rooms.worker("w1").occupancy
    assert len(occupancy.assumed()) == 3
    made.manager.change(kinds.WORKLOADS, made.key("job-1"), {"spec": {"active": False}})
    await made.settle()
    assert occupancy.assumed() == {made.key("job-0"), made.key("job-2")}


async def test_nothing_is_known_where_nobody_reads_it() -> None:
    made = table(workers=2)
    made.submit()
    await made.settle()
    made.time += timedelta(minutes=1)
    assert not made.store.rooms.wanted.is_wanted
