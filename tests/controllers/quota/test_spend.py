"""What a queue has spent, in its status; and what a job over the limit waits for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kueue.queues import MAX_SPEND_ANNOTATION
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import PRICES_ANNOTATION
from multikueue.controllers.quota.queue_status import QueueStatuses
from multikueue.quota.capacity.spend import SAMPLED, SPEND_LIMIT_REACHED
from multikueue.settings import StrategyChoice
from tests.controllers.metrics.test_collector import figures, one
from tests.controllers.table import NAMESPACE, QUEUE, Table, table

pytestmark = pytest.mark.anyio

LOCAL, CLUSTER = ObjectKey(NAMESPACE, QUEUE), ObjectKey("", "cq")
HOUR = timedelta(hours=1)
HELD = StrategyChoice(name="composed", options={"filters": ["spend"], "patience": None})


def priced(limit: str) -> Table:
    """A core costs 10 an hour on each worker."""
    world = table(strategy=HELD)
    for name in world.workers:
        world.manager.change(
            kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name), {"metadata": {"annotations": {PRICES_ANNOTATION: "cpu=10"}}}
        )
    world.manager.change(kinds.LOCAL_QUEUES, LOCAL, {"metadata": {"annotations": {MAX_SPEND_ANNOTATION: limit}}})
    return world


def told(world: Table, kind: Kind[Any] = kinds.LOCAL_QUEUES, key: ObjectKey = LOCAL) -> Any:
    conditions = (world.manager.find(kind, key) or {})["status"].get("conditions", ())
    return next((each for each in conditions if each["type"] == SPEND_LIMIT_REACHED), None)


async def run(world: Table) -> None:
    """A job that has won on a worker, and asks for a core."""
    world.submit()
    await world.settle()
    (name,) = [name for name, cluster in world.workers.items() if cluster.all(kinds.WORKLOADS)]
    world.admit(name)
    await world.settle()


async def test_what_runs_is_told_in_the_status_of_its_queues() -> None:
    world = priced("100/1000h")
    await run(world)
    world.time += HOUR
    queues = QueueStatuses(world.world)
    assert (await queues.reconcile_local_queue(LOCAL)).again_after == SAMPLED
    await queues.reconcile_cluster_queue("cq")
    spent = told(world)
    assert (spent["status"], spent["reason"]) == ("False", "WithinLimit")
    assert spent["message"].startswith("9.99")
    assert told(world, kinds.CLUSTER_QUEUES, CLUSTER)["message"].endswith("within 168h")
    writes = len(world.manager.calls)
    await queues.reconcile_local_queue(LOCAL)
    assert len(world.manager.calls) == writes, "it is told once in a while only"


async def test_a_new_process_goes_on_from_the_status() -> None:
    world = priced("100/1000h")
    await run(world)
    world.time += HOUR
    await QueueStatuses(world.world).reconcile_local_queue(LOCAL)
    world.time += HOUR
    before = world.store.spends.account(LOCAL)
    world.start()
    after = world.store.spends.account(LOCAL)
    assert before is not None
    assert after is not None
    assert after.spent_by(world.time) == pytest.approx(before.spent_by(world.time), abs=0.001)


async def test_over_the_limit_a_job_is_held_and_says_why_and_until_when() -> None:
    world = priced("15/1000h")
    await run(world)
    world.time += 2 * HOUR
    world.finish(world.runs_on()[0])
    world.submit("late")
    await world.settle()
    status = world.status("late")
    assert "nominatedClusterNames" not in status
    (check,) = status["admissionChecks"]
    assert f"refused: w1 (LocalQueue {LOCAL} has spent 15 within 1000h, until 20" in check["message"]
    await QueueStatuses(world.world).reconcile_local_queue(LOCAL)
    assert told(world)["status"] == "True"


async def test_an_annotation_that_cannot_be_read_is_told_on_its_object() -> None:
    world = table()
    world.manager.change(kinds.LOCAL_QUEUES, LOCAL, {"metadata": {"annotations": {MAX_SPEND_ANNOTATION: "much"}}})
    await QueueStatuses(world.world).reconcile_local_queue(LOCAL)
    assert [(reason, message.partition(": expected")[0]) for reason, message in world.said()] == [
        ("InvalidAnnotation", f"LocalQueue {LOCAL}: annotation {MAX_SPEND_ANNOTATION}")
    ]


async def test_a_scrape_shows_what_queues_have_spent_and_may_spend() -> None:
    world = priced("100/1000h")
    await run(world)
    world.time += HOUR
    where = {"queue": QUEUE, "namespace": NAMESPACE}
    assert one(world, "multikueue_queue_spent", queue="cq", namespace="") == pytest.approx(9.99, abs=0.05)
    assert one(world, "multikueue_queue_spend_limit", settings={"has_local_queues": True}, **where) == 100
    assert "multikueue_queue_spent" not in figures(table())
