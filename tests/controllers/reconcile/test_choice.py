"""What the strategy of a waiting workload thinks of each worker, as the manager tells people."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.strategy import Fleet, Opinion, Workload
from multikueue.workload.nomination.choice import ExplainedChoice
from multikueue.workload.strategy_call import LoadedStrategy
from multikueue_strategies.composed import Composed
from tests.controllers.table import CHECK, Table, table

pytestmark = pytest.mark.anyio

ORDERED = {"name": "composed", "options": {"filters": ["named"], "scorers": ["order"], "extra": "any"}}


async def waiting(strategy: dict[str, Any]) -> Table:
    """A job that has quota and waits for a worker."""
    made = table(workers=2, strategy=strategy)
    made.submit("train")
    await made.settle()
    return made


async def told(made: Table) -> ExplainedChoice | None:
    return await made.world.strategies.choice(made.world.case(made.key("train")))


async def test_each_worker_is_told_with_its_scores() -> None:
    found = await told(await waiting(ORDERED))
    assert found is not None
    assert found.strategy == "composed"
    assert [(each.worker, each.nominated, each.total) for each in found.workers] == [
        ("w1", True, 1.0),
        ("w2", False, 0.0),
    ]
    assert [each.words for each in found.workers] == ["order 1.00: place 1", "order 0.00: place 2"]


async def test_a_worker_that_a_filter_refuses_is_told_with_it() -> None:
    made = await waiting(ORDERED)
    named = {"metadata": {"annotations": {"kueue.x-k8s.io/multikueue-cluster-names": "w2"}}}
    made.manager.change(kinds.WORKLOADS, made.key("train"), named)
    found = await told(made)
    assert found is not None
    assert found.workers[-1].words == "refused by named: not named by the workload"


async def test_of_a_strategy_without_parts_the_nominated_are_told() -> None:
    found = await told(await waiting({"name": "incremental", "options": {"step": 1}}))
    assert found is not None
    assert [(each.worker, each.nominated, each.words) for each in found.workers] == [
        ("w1", True, ""),
        ("w2", False, ""),
    ]


async def test_of_a_workload_that_waits_for_no_worker_nothing_is_told() -> None:
    made = table(workers=2, quota=0, strategy=ORDERED)
    made.submit("train")
    await made.settle()
    assert await told(made) is None


async def test_a_strategy_that_cannot_be_asked_is_told_with_the_reason() -> None:
    made = await waiting(ORDERED)
    wrong = {"metadata": {"annotations": {"multikueue.dev/strategy": "nonesuch"}}}
    made.manager.change(kinds.ADMISSION_CHECKS, ObjectKey("", CHECK), wrong)
    await made.settle()
    found = await told(made)
    assert found is not None
    assert "nonesuch" in found.problem


async def test_nobody_waits_for_the_thread_of_a_third_party_strategy_but_who_asks() -> None:
    """It is asked with copies, and one that is late is told as such."""
    made = await waiting(ORDERED)
    strategies, go = made.world.strategies, Event()
    (known,) = [each for each in strategies.known.values() if isinstance(each, LoadedStrategy)]

    class Slow(Composed):
        def explain(self, workload: Workload, fleet: Fleet) -> tuple[Opinion, ...]:
            go.wait(10)
            return (Opinion("w1", refused="it is slow"),)

    foreign = replace(known, strategy=Slow(), is_ours=False)
    strategies.known.update(dict.fromkeys(strategies.known, foreign))
    asked = strategies.choice(made.world.case(made.key("train")))
    again = strategies.choice(made.world.case(made.key("train")))
    go.set()
    for told_ in (await asked, await again):
        assert told_ is not None
        assert [each.words for each in told_.workers][-1] == "refused: it is slow"
