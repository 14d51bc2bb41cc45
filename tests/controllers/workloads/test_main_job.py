"""The main job through all controllers at once, over clusters in memory: writes counted, crashes and faults included."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.job import JobKey
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue import CONTROLLER_NAME
from multikueue.controllers.workloads.workloads import Workloads
from multikueue.errors import ApiError, ClusterUnreachable, Forbidden, ServerError, Unauthorized
from tests.controllers.table import NAMESPACE, Table, job_body, table

pytestmark = pytest.mark.anyio

JOB = ObjectKey(NAMESPACE, "job")


async def running(**settings: Any) -> Table:
    """A job that runs on w1."""
    world = table(**settings)
    world.submit()
    await world.settle()
    world.admit("w1")
    await world.settle()
    return world


async def test_submit_makes_copies_everywhere() -> None:
    world = table()
    world.submit()
    await world.settle()
    assert world.status()["nominatedClusterNames"] == ["w1", "w2", "w3"]
    assert world.copies() == ["w1", "w2", "w3"]
    assert world.runs_on() == []


async def test_the_first_to_admit_gets_the_job_and_the_others_lose_their_copies() -> None:
    world = await running()
    assert world.runs_on() == ["w1"]
    assert world.copies() == ["w1"]
    assert world.status()["clusterName"] == "w1"
    assert world.condition("Admitted") is not None
    assert (world.manager.find(kinds.JOBS, JOB) or {})["spec"]["suspend"] is False


@pytest.mark.parametrize(("tell", "told"), [(True, ['The workload was admitted on "w1"']), (False, [])])
async def test_who_won_is_told_unless_that_is_switched_off(tell: bool, told: list[str]) -> None:
    world = await running(tell_wins=tell)
    assert [message for reason, message in world.said() if reason == "MultiKueue"] == told


async def test_the_result_comes_home_and_nothing_is_left() -> None:
    world = await running()
    world.finish("w1")
    await world.settle()
    local = world.manager.find(kinds.JOBS, JOB) or {}
    assert local["status"]["succeeded"] == 1
    finished = world.condition("Finished")
    assert finished is not None
    assert finished["reason"] == "Succeeded"
    assert (world.copies(), world.runs_on()) == ([], [])


async def test_the_write_budget_is_held() -> None:
    world = table()
    await world.settle()
    world.manager.calls.clear()
    world.submit()
    await world.settle()
    world.admit("w1")
    await world.settle()
    world.finish("w1")
    await world.settle()
    assert sorted(world.manager.writes()) == sorted(
        [
            "create workloads",
            "patch workloads/status",  # quota and nomination
            "patch workloads/status",  # the win
            "patch jobs",  # unsuspended
            "patch jobs/status",  # the result
            "patch workloads/status",  # finished
        ]
    )
    assert [len(cluster.calls) for cluster in world.workers.values()] == [4, 2, 2]
    assert not [call for cluster in world.workers.values() for call in cluster.calls if call.startswith("get")]


async def test_looking_at_everything_again_writes_nothing() -> None:
    world = await running()
    before = [len(c.calls) for c in (world.manager, *world.workers.values())]
    for key in (world.key(),):
        world.queues.workloads.add(key)
    world.queues.jobs.add(JobKey("Job.batch", *JOB))
    await world.settle()
    assert [len(c.calls) for c in (world.manager, *world.workers.values())] == before


@pytest.mark.parametrize("events", range(1, 16))
async def test_a_new_process_goes_on_wherever_the_old_one_died(events: int) -> None:
    """The old process dies after that many reconciles; the new one knows nothing but the objects."""
    world = table()
    world.submit()
    await _some(world, events)
    world.start()
    await world.settle()
    if not world.runs_on():
        world.admit("w2")
        await world.settle()
    (worker,) = world.runs_on()
    world.finish(worker)
    await world.settle()
    assert world.condition("Finished") is not None
    assert (world.copies(), world.runs_on()) == ([], [])


async def _some(world: Table, count: int) -> None:
    """A part of `settle`: so many looks at whatever comes first, the worker admitting in between."""
    from multikueue.controllers.workloads.jobs import Jobs

    jobs, workloads = Jobs(world.world), Workloads(world.world)
    for number in range(count):
        world._cycle()
        loops: list[tuple[Any, Any]] = [
            (world.queues.jobs, jobs.reconcile),
            (world.queues.workloads, workloads.reconcile),
        ]
        boxes = [(world.queues.outboxes[n], o.reconcile) for n, o in world.outboxes.items()]
        for queue, reconcile in (*boxes, *loops):
            if len(queue):
                await world._one(queue, reconcile)
                break
        if number == 8 and "w2" in world.copies():
            world.admit("w2")


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
    [ClusterUnreachable("w1", "no connection", sent=False), Unauthorized(401, "Unauthorized", "who are you?")],
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
    world.outboxes["w1"].trust()
    await world.settle()
    there = [name for name in (f"job{number}" for number in range(5)) if "w1" in world.copies(name)]
    assert len(there) == 5


async def test_a_job_that_would_be_asked_of_a_silent_worker_goes_elsewhere_at_once() -> None:
    world = table()
    world.submit()
    await world.settle()
    world.outboxes["w1"].hold()
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
    world.outboxes["w1"].trust()
    world.queues.workloads.add(world.key())
    await world.settle()
    assert world.status()["clusterName"] == "w1"
    assert world.runs_on() == ["w1"]


async def test_a_foreign_job_is_left_alone_and_another_worker_runs_ours() -> None:
    world = table()
    foreign = job_body("job", managed=False, suspend=False)
    world.workers["w1"].put(kinds.JOBS, foreign)
    before = world.workers["w1"].find(kinds.JOBS, JOB)
    world.submit()
    await world.settle()
    world.admit("w1")
    await world.settle()
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


async def test_deleting_the_job_removes_everything() -> None:
    world = await running()
    key = world.key()
    world.manager.drop(kinds.JOBS, JOB)
    await world.manager.delete(kinds.WORKLOADS, key)  # as the garbage collector does
    await world.settle()
    assert world.manager.find(kinds.WORKLOADS, key) is None
    assert world.runs_on() == []
    assert all(cluster.find(kinds.WORKLOADS, key) is None for cluster in world.workers.values())


async def test_quota_is_what_limits_dispatch() -> None:
    world = table(quota=2)
    for number in range(5):
        world.submit(f"job{number}")
    await world.settle()
    assert sum(bool(world.copies(f"job{n}")) for n in range(5)) == 2
    waiting = [world.condition("QuotaReserved", f"job{n}") for n in range(5)]
    assert sum(c is not None and c["status"] == "False" for c in waiting) == 3


async def test_the_statuses_of_the_queues_are_true() -> None:
    world = await running()
    await world.statuses()
    queue = world.manager.find(kinds.CLUSTER_QUEUES, ObjectKey("", "cq")) or {}
    assert (queue["status"]["reservingWorkloads"], queue["status"]["admittedWorkloads"]) == (1, 1)
    before = len(world.manager.calls)
    await world.statuses()
    assert len(world.manager.calls) == before


async def test_a_job_managed_by_somebody_else_is_explained() -> None:
    world = table()
    world.submit(managed=False)
    await world.settle()
    assert world.copies() == []
    assert [reason for reason, message in world.said() if CONTROLLER_NAME in message] == ["Undispatchable"]


# Jobs that belong to others.


async def test_what_belongs_to_a_job_is_held_until_that_is_admitted_and_has_no_workload() -> None:
    world = table()
    world.submit()
    parent = world.manager.find(kinds.JOBS, JOB) or {}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "job",
        "uid": parent["metadata"]["uid"],
        "controller": True,
    }
    child = job_body("child", managed=False, suspend=False)
    child["metadata"]["ownerReferences"] = [owner]
    world.manager.put(kinds.JOBS, child)
    await world.settle()

    def suspended() -> bool:
        found: bool = (world.manager.find(kinds.JOBS, ObjectKey(NAMESPACE, "child")) or {})["spec"]["suspend"]
        return found

    assert suspended()
    assert ("Suspended", "The job it belongs to is not admitted") in world.said()

    world.admit("w1")
    await world.settle()
    assert suspended(), "whoever made it lets it go"

    world.manager.change(kinds.JOBS, ObjectKey(NAMESPACE, "child"), {"spec": {"suspend": False}})
    await world.settle()
    assert not suspended()

    world.evict("w1")
    await world.settle()
    assert suspended()
    assert [w["metadata"]["ownerReferences"][0]["name"] for w in world.manager.all(kinds.WORKLOADS)] == ["job"]


# What is there and cannot be read is neither gone nor done.


async def test_a_workload_that_cannot_be_read_keeps_its_running_job() -> None:
    world = await running()
    world.start()
    local = world.store.workloads.get(world.key())
    assert local is not None
    world.store.workloads.remove(local)
    world.store.workloads.unreadable[world.key()] = "odd"
    for cluster in world.workers.values():
        cluster.calls.clear()
    world.queues.workloads.add(world.key())
    for outbox in world.queues.outboxes.values():
        outbox.add(world.key())
    await world.settle()
    assert [cluster.calls for cluster in world.workers.values()] == [[], [], []]
    assert world.runs_on() == ["w1"]


async def test_a_job_that_runs_here_goes_on_while_its_workload_cannot_be_read() -> None:
    world = table()
    world.manager.change(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"), {"spec": {"admissionChecksStrategy": None}})
    world.manager.put(kinds.JOBS, job_body("job", managed=False))
    await world.settle()
    key, name = ObjectKey(NAMESPACE, "job"), world.key()
    assert (world.manager.find(kinds.JOBS, key) or {})["spec"]["suspend"] is False
    world.start()
    local = world.store.workloads.get(name)
    assert local is not None
    world.store.workloads.remove(local)
    world.store.workloads.unreadable[name] = "odd"
    world.manager.calls.clear()
    world.queues.jobs.add(JobKey("Job.batch", *key))
    await world.settle()
    assert world.manager.writes() == []
    assert (
        "WorkloadUnreadable",
        f"the Workload {name.name}, which may be the job's, cannot be read: odd",
    ) in world.said()


async def test_a_job_that_is_nested_too_deeply_to_be_compared_says_so_and_others_go_on() -> None:
    world, deep = table(), dict[str, Any]()
    for _ in range(600):
        deep = {"a": deep}
    body = job_body("deep")
    body["spec"]["template"]["spec"]["affinity"] = deep
    world.manager.put(kinds.JOBS, body)
    world.submit()
    await world.settle()
    assert world.said() == [("Unreadable", "it is nested too deeply")]
    assert world.copies() == ["w1", "w2", "w3"]


async def test_a_remote_job_that_cannot_be_read_is_not_taken_for_gone() -> None:
    world = await running()
    worker = world.store.worker("w1")
    (job,) = worker.jobs
    worker.jobs.of(kinds.JOBS).unreadable[job.key] = "odd"
    worker.jobs.remove(job)
    world.queues.workloads.add(world.key())
    await world.settle()
    (check,) = world.status()["admissionChecks"]
    assert check["state"] == "Ready"
    assert world.runs_on() == ["w1"]


async def test_a_copy_that_arrives_after_the_race_is_over_is_removed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = table()
    world.submit()
    create = world.workers["w3"].create

    async def slow(*words: Any, **more: Any) -> Any:
        """While the copy is on its way to w3, w1 wins."""
        monkeypatch.undo()
        world.admit("w1")
        workloads = Workloads(world.world)
        for _ in range(3):
            await workloads.reconcile(world.key())
            for name in ("w1", "w2"):
                await world.outboxes[name].reconcile(world.key())
        assert world.status()["clusterName"] == "w1"
        return await create(*words, **more)

    monkeypatch.setattr(world.workers["w3"], "create", slow)
    await world.settle()
    assert world.runs_on() == ["w1"]
    assert world.copies() == ["w1"]


async def test_nothing_is_kept_of_what_is_over() -> None:
    world = table()
    world.submit()
    await world.settle()
    world.admit("w1")
    await world.settle()
    assert world.store.plans.get(world.key()) is not None
    world.finish("w1")
    await world.settle()
    assert world.copies() == world.runs_on() == []
    assert not world.store.plans._newest
    assert not world.store._places._of
