"""Jobs of a group: a strategy is told where the others are, also while their nominations are on the way."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api import kinds
from tests.controllers.table import Table, job_body, table

pytestmark = pytest.mark.anyio

GROUP = "multikueue.dev/group"


def strategy(**parts: Any) -> dict[str, Any]:
    return {"name": "composed", "options": {"patience": None} | parts}


async def submitted(made: Table, *names: str, group: str = "g") -> list[list[str]]:
    """Jobs of a group, submitted in one moment, and where they have copies."""
    for name in names:
        body = job_body(name)
        body["metadata"]["labels"][GROUP] = group
        made.manager.put(kinds.JOBS, body)
    await made.settle()
    return [made.copies(name) for name in names]


async def test_a_burst_of_a_group_is_kept_apart() -> None:
    found = await submitted(table(strategy=strategy(filters=["apart"])), "a", "b", "c", "d")
    assert sorted(map(tuple, found)) == [(), ("w1",), ("w2",), ("w3",)]


async def test_a_burst_of_a_group_is_kept_together() -> None:
    found = await submitted(table(strategy=strategy(filters=["together"])), "a", "b", "c")
    assert len({tuple(each) for each in found}) == 1


async def test_a_group_spreads_over_workers() -> None:
    found = await submitted(table(strategy=strategy(scorers=["spread"])), *"abcdef")
    assert sorted(name for each in found for name in each) == ["w1", "w1", "w2", "w2", "w3", "w3"]


async def test_another_group_and_a_job_that_is_over_do_not_count() -> None:
    made = table(strategy=strategy(filters=["apart"]))
    (first,), *_ = await submitted(made, "a", "b", "c")
    assert (await submitted(made, "other", group="h"))[0] != []
    made.admit(first, "a")
    await made.settle()
    made.finish(first, "a")
    await made.settle()
    assert await submitted(made, "d") == [[first]]


async def test_the_workload_of_a_job_has_its_group() -> None:
    made = table(strategy=strategy())
    await submitted(made, "a")
    assert made.workload("a")["metadata"]["labels"][GROUP] == "g"
