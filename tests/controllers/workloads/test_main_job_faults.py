"""The main job through all controllers at once, beside faults: answers lost, strangers, workers that hang or evict."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.errors import ApiError, ClusterUnreachable, Forbidden, ServerError, Unauthorized
from tests.controllers.table import Table, job_body, table
from tests.controllers.workloads.main_job import JOB, running

pytestmark = pytest.mark.anyio


async def test_a_lost_answer_does_not_make_a_second_job() -> None:
    world = table()
    world.submit()
    await world.settle()
    world.workers["w1"].lose_answer = lambda verb, plural: (
        ClusterUnreachable("w1", "no answer") if (verb, plural) == ("create", "jobs") else None
    )
    world.admit("w1")
    await world.settle()
    assert not world.store.worker("w1").expectations  # the watch brought the job home all the same
    assert world.runs_on() == ["w1"]


async def test_a_gate_that_is_being_opened_keeps_those_of_others_closed() -> None:
    """Two workers would preempt, and the second says so before the first is seen to be allowed (KEP 8303)."""
    world = table()
    dispatch = world.settings.dispatch.model_copy(update={"orchestrated_preemption": True})
    world.world.settings.take(world.settings.model_copy(update={"dispatch": dispatch}))
    world.submit()
    await world.settle()
    world.block("w2")
    with world.workers["w2"].unheard(kinds.WORKLOADS):
        await world.settle()
    world.block("w1")
    await world.settle()
    asked = {name for name, cluster in world.workers.items() if "patch workloads/status" in cluster.calls}
    assert asked == {"w2"}


async def test_a_job_asked_for_in_vain_keeps_the_others_out() -> None:
    world = table()
    world.submit()
    await world.settle()
    world.workers["w1"].fault = lambda verb, plural: (
        ClusterUnreachable("w1", "no answer") if (verb, plural) == ("create", "jobs") else None
    )
    world.admit("w1")
    await world.settle()
    world.cut("w1")
    world.admit("w2") if "w2" in world.copies() else None
    await world.settle()
    assert world.runs_on() == []
    world.workers["w1"].fault = lambda _verb, _plural: None
    world.connect("w1")
    await world.settle()
    assert world.runs_on() == ["w1"]


@pytest.mark.parametrize(
    "error",
    [ClusterUnreachable("w1", "no connection", was_sent=False), Unauthorized(401, "Unauthorized", "who are you?")],
    ids=["no connection", "our credentials are refused"],
)
async def test_a_job_that_surely_was_not_made_goes_elsewhere(error: ApiError | ClusterUnreachable) -> None:
    world = table()
    world.submit()
    await world.settle()
    world.workers["w1"].fault = lambda verb, plural: error if (verb, plural) == ("create", "jobs") else None
    world.admit("w1")
    await world.settle()
    assert {"w2", "w3"} <= set(world.copies())
    world.admit("w2")
    await world.settle()
    assert world.runs_on() == ["w2"]


async def test_a_worker_that_does_not_answer_costs_one_call_and_not_one_per_workload() -> None:
    world = table()
    silence = ClusterUnreachable("w1", "no answer")
    world.workers["w1"].fault = lambda _verb, _plural: silence
    for number in range(5):
        world.submit(f"job{number}")
    await world.settle()
    assert world.workers["w1"].calls == ["create workloads"]
    world.workers["w1"].fault = lambda _verb, _plural: None
    world.outboxes["w1"].breaker.trust()
    await world.settle()
    there = [name for name in (f"job{number}" for number in range(5)) if "w1" in world.copies(name)]
    assert len(there) == 5


async def test_a_job_that_would_be_asked_of_a_silent_worker_goes_elsewhere_at_once() -> None:
    world = table()
    world.submit()
    await world.settle()
    world.outboxes["w1"].breaker.hold()
    world.admit("w1")
    await world.settle()
    assert "create jobs" not in world.workers["w1"].calls
    world.admit("w3")
    await world.settle()
    assert world.runs_on() == ["w3"]


async def test_a_refusal_does_not_hide_a_job_whose_answer_was_lost_before() -> None:
    world = table()
    world.submit()
    await world.settle()
    worker = world.workers["w1"]
    silence = ClusterUnreachable("w1", "no answer")
    worker.lose_answer = lambda verb, plural: silence if (verb, plural) == ("create", "jobs") else None
    worker.fault = lambda verb, plural: silence if (verb, plural) == ("get", "jobs") else None
    with world.workers["w1"].unheard(kinds.JOBS):
        world.admit("w1")
        await world.settle()
    assert world.store.worker("w1").expectations
    refusal = Forbidden(403, "Forbidden", "no")
    worker.fault = lambda verb, plural: refusal if (verb, plural) == ("create", "jobs") else None
    world.outboxes["w1"].breaker.trust()
    world.queues.workloads.add(world.key())
    await world.settle()
    assert world.status()["clusterName"] == "w1"
    assert world.runs_on() == ["w1"]


async def test_a_foreign_job_is_left_alone_and_another_worker_runs_ours() -> None:
    world = table()
    foreign = job_body("job", managed=False, suspend=False)
    world.workers["w1"].put(kinds.JOBS, foreign)
    before = world.workers["w1"].find(kinds.JOBS, JOB)
    await world.begin()
    assert world.workers["w1"].find(kinds.JOBS, JOB) == before
    assert world.copies() == ["w2", "w3"]
    assert any("not ours" in message for _, message in world.said())
    world.admit("w3")
    await world.settle()
    assert world.status()["clusterName"] == "w3"
    assert world.workers["w1"].find(kinds.JOBS, JOB) == before


@pytest.mark.parametrize(
    "error",
    [Forbidden(403, "Forbidden", "no"), ServerError(500, "InternalError", "down")],
    ids=["a refusal makes the worker unfit", "trouble is tried again"],
)
async def test_a_worker_that_cannot_take_the_copy_does_not_hold_up_the_others(error: ApiError) -> None:
    world = table()
    world.workers["w1"].fault = lambda verb, _plural: error if verb == "create" else None
    world.submit()
    await world.settle()
    world.admit("w2")
    await world.settle()
    assert world.status()["clusterName"] == "w2"


async def test_a_hung_loser_is_swept_when_it_returns() -> None:
    world = table()
    world.submit()
    await world.settle()
    world.cut("w3")
    world.admit("w1")
    await world.settle()
    assert world.status()["clusterName"] == "w1"
    assert world.copies() == ["w1", "w3"]
    world.connect("w3")
    await world.settle()
    assert world.copies() == ["w1"]


async def test_the_winner_evicting_it_starts_a_new_attempt() -> None:
    world = await running()
    world.evict("w1")
    await world.settle()
    assert world.runs_on() == []
    assert world.copies() == []
    world.time += timedelta(minutes=2)
    world.queues.workloads.add(world.key())
    await world.settle()
    assert world.copies() == ["w1", "w2", "w3"]
    world.admit("w2")
    await world.settle()
    assert (world.runs_on(), world.status()["clusterName"]) == (["w2"], "w2")


async def test_the_winner_lost_starts_a_new_attempt_and_the_old_copy_goes_on_return() -> None:
    world = await running()
    world.cut("w1")
    await world.settle()
    assert world.status()["clusterName"] == "w1"
    world.time += timedelta(minutes=16)
    world.queues.workloads.add(world.key())
    await world.settle()
    world.time += timedelta(minutes=2)
    world.queues.workloads.add(world.key())
    await world.settle()
    world.admit("w2")
    await world.settle()
    assert world.status()["clusterName"] == "w2"
    world.connect("w1")
    await world.settle()
    assert (world.runs_on(), world.copies()) == (["w2"], ["w2"])


CORDONED = {"multikueue.dev/cordon": "true"}


def _cordon(world: Table, annotations: dict[str, str]) -> None:
    """Of all workers, as annotations say."""
    for name in world.workers:
        found = world.manager.find(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name)) or {}
        world.manager.put(
            kinds.MULTIKUEUE_CLUSTERS, found | {"metadata": found["metadata"] | {"annotations": annotations}}
        )


@pytest.mark.parametrize(
    ("hinder", "help_"),
    [
        pytest.param(
            lambda world: [world.cut(name) for name in world.workers], lambda world: world.connect("w2"), id="is back"
        ),
        pytest.param(
            lambda world: _cordon(world, CORDONED), lambda world: _cordon(world, {}), id="is cordoned no more"
        ),
    ],
)
async def test_a_worker_that_comes_while_the_first_reservation_is_written_is_nominated(
    hinder: Callable[[Table], object], help_: Callable[[Table], object]
) -> None:
    world, writes = table(), list[str]()
    hinder(world)

    def meanwhile(verb: str, plural: str) -> None:
        if (verb, plural) == ("patch", "workloads") and not writes:
            writes.append(plural)
            help_(world)

    world.manager.fault = meanwhile
    world.submit()
    await world.settle()
    assert writes
    assert world.copies()
