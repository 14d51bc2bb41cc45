"""One worker's outbox, one file: calls without an answer, answers that are none, what changes meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from multikueue.api import kinds
from multikueue.api.jobs.job import Job, JobKey
from multikueue.api.jobs.pod import (
    GROUP_COUNT_ANNOTATION,
    GROUP_FAST_ANNOTATION,
    GROUP_LABEL,
    PARENT_ANNOTATION,
    POD_FINALIZER,
    ROLE_HASH_ANNOTATION,
)
from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION, ORIGIN_LABEL, PREBUILT_LABEL
from multikueue.api.meta import ObjectKey, encode
from multikueue.controllers.workers.connection import outbox as module
from multikueue.controllers.workers.connection.refused_calls import WORDS
from multikueue.dispatch.copies.effects import CreateJob, CreateWorkload, DeleteJob, FindJob
from multikueue.dispatch.copies.plan import Absent, Copied, Found, Plan, Running
from multikueue.dispatch.remote import Asked, attempt_of
from multikueue.errors import (
    ClusterUnreachable,
    Conflict,
    Forbidden,
    InvalidObject,
    MultiKueueError,
    NotFound,
    ServerError,
    Unauthorized,
)
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.framework.workloads import LONGEST_NAME
from multikueue.jobs.kinds.pods.group import POD_GROUP
from multikueue.runtime import AGAIN, DONE
from multikueue.settings import BESIDE_KUEUE, STANDALONE, Integrations, Role
from multikueue_simulator.time import VirtualLoop
from tests.builders import workload
from tests.controllers.table import NAMESPACE, Table, job_body, table
from tests.jobs import places
from tests.jobs.builders import ours, stored, tree, workload_of
from tests.jobs.kinds.pods.builders import body as pod_body
from tests.jobs.kinds.pods.builders import group, member
from tests.kube.test_definitions import PLAIN, documents

pytestmark = pytest.mark.anyio

JOB = ObjectKey(NAMESPACE, "job")
NO_ANSWER = ClusterUnreachable("w1", "no answer")
STORAGE = ServerError(500, "InternalError", "etcdserver: request timed out")


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


# What may still come of a request whose answer was lost.


async def lost() -> Table:
    """A job that w1 was asked for, and no answer came: it was not made so far."""
    world = table()
    world.submit()
    await world.settle()
    only(world, "create jobs", NO_ANSWER)
    world.admit("w1")
    await world.settle()
    assert world.runs_on() == []
    return world


def only(world: Table, call: str, error: MultiKueueError) -> None:
    """That call to w1 fails, and no other."""
    world.workers["w1"].fault = lambda verb, plural: error if f"{verb} {plural}" == call else None


def status(world: Table, type_: str) -> str:
    return str((world.condition(type_) or {}).get("status"))


async def test_a_job_that_is_not_there_yet_may_still_come() -> None:
    """The API server may carry out what it was sent for as long as it gives a request; until then quota is kept."""
    world = await lost()
    world.manager.change(kinds.WORKLOADS, world.key(), {"spec": {"active": False}})
    world.outboxes["w1"].breaker.trust()
    await world.settle()
    assert (status(world, "Evicted"), status(world, "QuotaReserved")) == ("True", "True")
    assert "get jobs" not in world.workers["w1"].calls
    world.time += timedelta(seconds=70)
    world.queues.workloads.add(world.key())
    await world.settle()
    assert world.workers["w1"].calls.count("get jobs") == 1
    assert status(world, "QuotaReserved") == "False"


async def test_a_deleted_workload_is_looked_at_again_when_it_can_be_told_what_became_of_its_job() -> None:
    world = await lost()
    key = world.key()
    world.manager.drop(kinds.JOBS, JOB)
    await world.manager.delete(kinds.WORKLOADS, key)
    world.outboxes["w1"].breaker.trust()
    await world.settle()
    (loop,) = (loop for loop in world.runnables.loops if loop.name == "workloads")
    assert world.store.worker("w1").expectations.asked(key)
    assert (await loop.reconcile(key)).again_after == timedelta(seconds=70)
    world.time += timedelta(seconds=70)
    world.queues.workloads.add(key)
    await world.settle()
    assert world.store.worker("w1").expectations.asked(key) is None


async def test_a_refusal_settles_nothing_while_an_earlier_request_may_still_be_carried_out() -> None:
    world = await lost()
    only(world, "create jobs", Forbidden(403, "Forbidden", "no"))
    world.outboxes["w1"].breaker.trust()
    world.queues.workloads.add(world.key())
    await world.settle()
    assert world.store.worker("w1").expectations.asked(world.key())
    assert world.runs_on() == []
    assert not world.store.worker("w1").expectations.is_passed_over(world.key())
    asked = world.store.worker("w1").expectations.asked(world.key())
    assert asked is not None
    world.time = asked.until
    world.queues.workloads.add(world.key())
    await world.settle()
    assert world.store.worker("w1").expectations.asked(world.key()) is None
    assert world.store.worker("w1").expectations.is_passed_over(world.key())


async def test_an_answer_that_cannot_be_read_is_a_lost_one() -> None:
    world = table()
    world.submit()
    await world.settle()
    world.workers["w1"].lose_answer = lambda verb, plural: (
        InvalidObject("answer", "$.spec", "object") if (verb, plural) == ("create", "jobs") else None
    )
    only(world, "get jobs", InvalidObject("answer", "$.spec", "object"))
    with world.workers["w1"].unheard(kinds.JOBS):
        world.admit("w1")
        await world.settle()
        world.queues.outboxes["w1"].add(world.key())
        await world.settle()
    assert {type(error) for error in world.errors} == {InvalidObject}
    assert world.store.worker("w1").expectations.asked(world.key())
    assert world.runs_on() == ["w1"]


@pytest.mark.parametrize("attempt", ["", "earlier"], ids=["the same attempt", "an earlier one"])
async def test_a_job_is_requested_since_the_first_request_of_its_attempt(attempt: str) -> None:
    world = await lost()
    key, worker = world.key(), world.store.worker("w1")
    before = worker.expectations.asked(key)
    assert before is not None
    worker.ask_for_job(key, replace(before, attempt=attempt or before.attempt))
    world.time += timedelta(seconds=10)
    world.outboxes["w1"].breaker.trust()
    with pytest.raises(ClusterUnreachable):
        await world.outboxes["w1"].reconcile(key)
    asked = worker.expectations.asked(key)
    assert asked is not None
    assert (asked.attempt, asked.since) == (before.attempt, world.time if attempt else before.since)
    assert "no answer" in asked.why


async def test_a_request_that_an_error_leaves_open_is_looked_at_once() -> None:
    """What is decided then is how long the job is requested again."""
    world, key = await dispatched()
    runs(world, key, "w1")
    only(world, "create jobs", STORAGE)
    for looks in (1, 0):
        while len(world.queues.workloads):
            world.queues.workloads.done(await world.queues.workloads.get())
        with pytest.raises(ServerError):
            await world.outboxes["w1"].reconcile(key)
        assert len(world.queues.workloads) == looks


async def test_a_request_whose_answer_is_lost_is_settled_by_the_job_that_the_watch_shows() -> None:
    world, key = await dispatched()
    runs(world, key, "w1")
    world.workers["w1"].lose_answer = lambda verb, _plural: NO_ANSWER if verb == "create" else None
    with pytest.raises(ClusterUnreachable):
        await world.outboxes["w1"].reconcile(key)
    assert world.store.worker("w1").job_of(key) is not None
    assert world.store.worker("w1").expectations.asked(key) is None


@pytest.mark.parametrize("gone", [kinds.WORKLOADS, kinds.JOBS], ids=["workload", "job"])
async def test_of_a_workload_or_job_that_is_gone_none_is_made(gone: Any) -> None:
    world, key = await dispatched()
    world.manager.drop(gone, key if gone is kinds.WORKLOADS else JOB)
    await world.outboxes["w1"]._create_job(CreateJob(cluster="w1", attempt="attempt"), key)
    assert world.runs_on() == []
    assert world.store.worker("w1").expectations.asked(key) is None


# What has the name.


async def test_a_job_left_of_another_workload_of_ours_is_not_asked_for_again_and_again() -> None:
    """It was deleted and recreated under its name, and what runs there of the first one is not gone yet."""
    world = table()
    left = job_body("job")
    left["metadata"]["labels"] |= {"kueue.x-k8s.io/multikueue-origin": "multikueue", PREBUILT_LABEL: "job-before"}
    left["metadata"]["finalizers"] = ["example.com/slow"]
    world.workers["w1"].put(kinds.JOBS, left)
    await world.begin()
    assert world.workers["w1"].calls.count("create jobs") == 1
    found = world.workers["w1"].find(kinds.JOBS, JOB)
    assert found is not None
    assert found["metadata"]["deletionTimestamp"], "its own workload is gone"
    world.admit("w2")
    await world.settle()
    assert world.runs_on() == ["w1", "w2"]
    assert world.status()["clusterName"] == "w2"


@pytest.mark.parametrize(
    ("named", "left"),
    [
        pytest.param({PREBUILT_LABEL: "job-before"}, [], id="a Workload that is gone"),
        pytest.param({}, ["job"], id="none: labels are handed on, so that proves nothing"),
    ],
)
async def test_a_job_of_our_origin_is_removed_by_the_workload_that_it_names(
    named: dict[str, str], left: list[str]
) -> None:
    world = table()
    stray = job_body("job")
    stray["metadata"]["labels"] |= {ORIGIN_LABEL: "multikueue", **named}
    stray["metadata"]["annotations"] = {ATTEMPT_ANNOTATION: "2026-01-01T12:00:00Z/uid"}
    world.workers["w1"].put(kinds.JOBS, stray)
    await world.settle()
    for key in world.store.worker("w1").held():
        world.queues.workloads.add(key)
    await world.settle()
    assert [job["metadata"]["name"] for job in world.workers["w1"].all(kinds.JOBS)] == left
    assert not world.store.worker("w1").is_in_use


@pytest.mark.parametrize("again", [False, True], ids=["it is there", "it was recreated"])
async def test_a_refused_delete_is_looked_at_and_not_taken_for_done(again: bool) -> None:
    world = table()
    world.submit()
    await world.settle()
    cluster, cache, key = world.workers["w3"], world.store.worker("w3").workloads, world.key()

    def conflict(verb: str, plural: str) -> Conflict | None:
        if (verb, plural) != ("delete", "workloads"):
            return None
        if again:
            body = cluster.find(kinds.WORKLOADS, key) or {}
            cluster.drop(kinds.WORKLOADS, key)
            cluster.put(kinds.WORKLOADS, body | {"metadata": body["metadata"] | {"uid": "another", "labels": {}}})
        cluster.fault = lambda _verb, _plural: None
        return Conflict(409, "Conflict", "a webhook says no" if not again else "the UID is another")

    cluster.fault = conflict
    world.admit("w1")
    await world.settle()
    assert cache.get(key) is None
    assert (cluster.find(kinds.WORKLOADS, key) is None) is not again


@pytest.mark.parametrize("kind", [kinds.WORKLOADS, kinds.JOBS], ids=["a copy", "a job"])
@pytest.mark.parametrize("labels", [None, {}, {ORIGIN_LABEL: "multikueue"}], ids=["nothing", "somebody's", "ours"])
async def test_a_name_that_is_taken_is_told_of_its_workload_unless_by_what_is_ours(kind: Any, labels: Any) -> None:
    world = table()
    worker = world.store.worker("w1")
    name, of = ObjectKey(NAMESPACE, "taken"), ObjectKey(NAMESPACE, "of") if kind is kinds.JOBS else None
    cache = worker.jobs.of(kind) if kind is kinds.JOBS else worker.workloads
    with world.workers["w1"].unheard():
        if labels is not None:
            body = job_body("taken")
            world.workers["w1"].put(
                kind,
                body
                | {
                    "kind": kind.kind,
                    "apiVersion": kind.api_version,
                    "metadata": body["metadata"] | {"labels": labels},
                },
            )
    found = await world.outboxes["w1"]._adopt(kind, cache, name, of=of)
    assert (found is not None) is (cache.get(name) is not None) is bool(labels)
    assert worker.expectations.is_passed_over(of or name) is not bool(labels)
    refusal = world.store.refusals.get(of or name, cluster="w1")
    told = WORDS[CreateJob if of else CreateWorkload]
    assert (refusal.what if refusal else None) == (told if labels is None else None)


NOT_SENT = ClusterUnreachable("w1", "no connection", was_sent=False)
DENIED, BUSY = Forbidden(403, "Forbidden", "no"), Conflict(409, "Conflict", "later")


@pytest.mark.parametrize(
    ("error", "before", "is_raised", "is_asked", "is_passed_over"),
    [
        pytest.param(DENIED, timedelta(seconds=1), True, True, False, id="an earlier request may still come"),
        pytest.param(DENIED, timedelta(), False, False, True, id="the time of an earlier one is over"),
        pytest.param(DENIED, None, False, False, True, id="it is refused for good"),
        pytest.param(BUSY, None, True, False, False, id="it may succeed at the next try"),
        pytest.param(NOT_SENT, None, True, False, True, id="it was not sent"),
    ],
)
async def test_a_request_that_made_nothing(
    error: Any, before: timedelta | None, is_raised: bool, is_asked: bool, is_passed_over: bool
) -> None:
    world, key = await dispatched()
    worker = world.store.worker("w1")
    earlier = Asked("attempt", world.now() + before) if before is not None else None
    worker.ask_for_job(key, Asked("attempt", world.now() + timedelta(minutes=1)))
    with pytest.raises(type(error)) if is_raised else nullcontext():
        await world.outboxes["w1"]._not_made(key, JobKey(kinds.JOBS.name, *JOB), error, earlier)
    assert worker.expectations.asked(key) == (earlier if is_asked else None)
    assert worker.expectations.is_passed_over(key) is is_passed_over


@pytest.mark.parametrize(
    ("origin", "is_ours"),
    [
        pytest.param({ORIGIN_LABEL: "multikueue"}, True, id="one of ours was made before, and is the job"),
        pytest.param({}, False, id="one of somebody else keeps the name"),
    ],
)
async def test_a_job_that_is_there_already(origin: dict[str, str], is_ours: bool) -> None:
    world, key = await dispatched()
    local, job, cluster = world.store.workloads.get(key), job_body("job"), world.workers["w1"]
    job["metadata"]["labels"] |= {PREBUILT_LABEL: key.name, **origin}
    with cluster.unheard():
        cluster.put(kinds.JOBS, job)
    assert local is not None
    await world.outboxes["w1"]._create_part(cluster.value(kinds.JOBS, job), key, local, "attempt")
    assert (world.store.worker("w1").job_of(key) is not None) is is_ours
    assert world.store.worker("w1").expectations.is_passed_over(key) is not is_ours


async def test_a_request_that_made_nothing_as_an_earlier_one_made_the_job_says_nothing_against_the_worker() -> None:
    world, key = await dispatched()
    job, cluster, worker = job_body("job"), world.workers["w1"], world.store.worker("w1")
    job["metadata"]["labels"] |= {ORIGIN_LABEL: "multikueue", PREBUILT_LABEL: key.name}
    with cluster.unheard():
        cluster.put(kinds.JOBS, job)
    earlier = Asked("attempt", world.now())
    await world.outboxes["w1"]._not_made(key, JobKey(kinds.JOBS.name, *JOB), DENIED, earlier)
    assert worker.job_of(key) is not None
    assert not worker.expectations.is_passed_over(key)


async def test_a_request_for_a_workload_that_is_gone_ends_with_a_look() -> None:
    world, key = table(), ObjectKey(NAMESPACE, "gone")
    worker = world.store.worker("w1")
    worker.ask_for_job(key, Asked("attempt", world.now(), why="no answer"))
    await world.outboxes["w1"]._find_job(FindJob(cluster="w1"), key)
    assert worker.expectations.asked(key) is None
    assert not worker.expectations.is_passed_over(key)


@pytest.mark.parametrize(
    ("is_left_out", "calls"),
    [
        pytest.param(False, ["get jobs"], id="is cached, if it is there"),
        pytest.param(True, ["get workloads", "get jobs"], id="may have been left out"),
    ],
)
async def test_a_job_is_read_with_its_copy_where_that(
    is_left_out: bool, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job alone would look like one whose copy is gone. Nothing need have been asked: its end may be unheard of."""
    world, key = await dispatched()
    worker, cluster = world.store.worker("w1"), world.workers["w1"]
    monkeypatch.setattr(worker.workloads, "may_have_left_out", lambda keys: is_left_out and keys == (key,))
    cluster.calls.clear()
    await world.outboxes["w1"]._find_job(FindJob(cluster="w1"), key)
    assert cluster.calls == calls
    assert worker.expectations.about(key) == (None, world.now(), False)


# What is removed, and what is not.


async def dispatched(**settings: Any) -> tuple[Table, ObjectKey]:
    """A job with a copy on each worker."""
    world = table(**settings)
    world.submit()
    await world.settle()
    return world, world.key()


def runs(world: Table, key: ObjectKey, cluster: str) -> None:
    """The plan is that the job runs on a worker that has admitted the copy."""
    world.admit(cluster)
    local, run = world.store.workloads.get(key), Running(cluster=cluster, why="first to admit")
    assert local is not None
    plan = Plan(local=local, attempt=attempt_of(local), at=world.now(), desired=(run,), origin="multikueue")
    world.store.plans.put(key, plan)


def removes(world: Table, key: ObjectKey) -> None:
    """The plan is that nothing of the workload is left on w1, by the UIDs of now."""
    worker, local = world.store.worker("w1"), world.store.workloads.get(key)
    assert local is not None
    there = (worker.workloads.get(key), worker.job_of(key))
    absent = Absent(cluster="w1", why="", uids=frozenset(each.metadata.uid for each in there if each is not None))
    world.store.plans.put(key, Plan(local=local, attempt=attempt_of(local), at=world.now(), desired=(absent,)))


@pytest.mark.parametrize(
    ("meanwhile", "is_tried_again"), [("it is there", True), ("another has its name", False), ("it is gone", False)]
)
async def test_a_refused_delete_is_tried_again_where(meanwhile: str, is_tried_again: bool) -> None:
    world, key = await dispatched()
    cluster, cache = world.workers["w1"], world.store.worker("w1").workloads
    removes(world, key)

    def conflict(verb: str, plural: str) -> Conflict | None:
        if (verb, plural) != ("delete", "workloads"):
            return None
        body = cluster.find(kinds.WORKLOADS, key) or {}
        with cluster.unheard():
            if meanwhile != "it is there":
                cluster.drop(kinds.WORKLOADS, key)
            if meanwhile == "another has its name":
                cluster.put(kinds.WORKLOADS, body | {"metadata": body["metadata"] | {"uid": "another"}})
        return Conflict(409, "Conflict", "no")

    cluster.fault = conflict
    with pytest.raises(Conflict) if is_tried_again else nullcontext():
        await world.outboxes["w1"].reconcile(key)
    assert (cache.get(key) is not None) is is_tried_again


async def test_what_is_gone_when_it_is_deleted_is_known_no_more() -> None:
    world, key = await dispatched()
    removes(world, key)
    with world.workers["w1"].unheard():
        world.workers["w1"].drop(kinds.WORKLOADS, key)
    assert world.store.worker("w1").workloads.get(key) is not None
    assert await world.outboxes["w1"].reconcile(key) == DONE
    assert world.store.worker("w1").workloads.get(key) is None


async def test_what_takes_its_time_to_go_is_known_until_it_is_gone() -> None:
    world, key = await dispatched()
    cluster, cache = world.workers["w1"], world.store.worker("w1").workloads
    cluster.change(kinds.WORKLOADS, key, {"metadata": {"finalizers": ["example.com/slow"]}})
    removes(world, key)
    with cluster.unheard():
        await world.outboxes["w1"].reconcile(key)
    left = cache.get(key)
    assert left is not None
    assert left.metadata.deletion_timestamp is not None
    cluster.change(kinds.WORKLOADS, key, {"metadata": {"finalizers": None, "deletionTimestamp": None}})
    with cluster.unheard():
        await world.outboxes["w1"].reconcile(key)
    assert cache.get(key) is None


async def test_what_has_gone_before_its_turn_is_not_deleted() -> None:
    world, key = await dispatched()
    cluster = world.workers["w1"]
    world.admit("w1")
    await world.settle()
    removes(world, key)
    cluster.calls.clear()
    cluster.lose_answer = lambda verb, plural: (
        cluster.drop(kinds.WORKLOADS, key) if (verb, plural) == ("delete", "jobs") else None
    )
    await world.outboxes["w1"].reconcile(key)
    assert cluster.calls == ["delete jobs"]


async def test_a_job_of_another_uid_is_not_deleted() -> None:
    world, key = await dispatched()
    delete = DeleteJob(cluster="w1", uid="another")
    world.workers["w1"].calls.clear()
    await world.outboxes["w1"]._delete_job(delete, key)
    world.admit("w1")
    await world.settle()
    await world.outboxes["w1"]._delete_job(delete, key)
    assert "delete jobs" not in world.workers["w1"].calls


CREATED = "2026-01-01T12:00:00Z"
PODS = Integrations(frameworks=("batch/job", "pod"))


def pods(*names: str, finalizers: Sequence[str] = (POD_FINALIZER,), grouped: bool = True) -> list[dict[str, Any]]:
    """Pods of the group `g`, or single ones."""
    made = [pod_body(name, labels={GROUP_LABEL: "g"} if grouped else {}) for name in names]
    for each in made:
        each["metadata"] |= {"namespace": NAMESPACE, "finalizers": list(finalizers), "creationTimestamp": CREATED}
        each["metadata"]["annotations"] = {GROUP_COUNT_ANNOTATION: str(len(names))}
    return made


async def submitted(*bodies: dict[str, Any]) -> tuple[Table, ObjectKey]:
    """Pods with a copy of their Workload on each worker."""
    world = table(integrations=PODS)
    world.manager.watch(kinds.PODS, world.store.open_jobs(kinds.PODS))
    for body in bodies:
        world.manager.put(kinds.PODS, body)
    await world.settle()
    (made,) = world.manager.all(kinds.WORKLOADS)
    return world, ObjectKey(NAMESPACE, made["metadata"]["name"])


def admitted(world: Table, key: ObjectKey) -> None:
    now = [{"type": type_, "status": "True", "reason": type_, "message": ""} for type_ in ("QuotaReserved", "Admitted")]
    world.workers["w1"].change(kinds.WORKLOADS, key, {"status": {"conditions": now}})


async def test_a_group_whose_first_pod_is_refused_is_sent_no_further() -> None:
    world, key = await submitted(*pods("a", "b"))
    only(world, "create pods", Forbidden(403, "Forbidden", "no"))
    admitted(world, key)
    await world.settle()
    assert world.workers["w1"].calls.count("create pods") == 1


@pytest.mark.parametrize(
    ("bodies", "calls"),
    [
        pytest.param(pods("a", "b"), ["patch pods", "delete pods"] * 2, id="a group, which Kueue keeps"),
        pytest.param(pods("a", "b", finalizers=()), ["delete pods"] * 2, id="a group that nobody keeps"),
        pytest.param(pods("a", grouped=False), ["delete pods"], id="a Pod by itself"),
    ],
)
async def test_pods_are_removed_and_let_go_where_kueue_keeps_them(bodies: list[Any], calls: list[str]) -> None:
    world, key = await submitted(*bodies)
    admitted(world, key)
    await world.settle()
    cluster, worker = world.workers["w1"], world.store.worker("w1")
    for name in (ObjectKey(NAMESPACE, each["metadata"]["name"]) for each in bodies):
        cluster.change(kinds.PODS, name, {"metadata": {"finalizers": bodies[0]["metadata"]["finalizers"]}})
        worker.jobs.upsert(cluster.value(kinds.PODS, cluster.find(kinds.PODS, name) or {}))
    job = worker.job_of(key)
    assert job is not None
    cluster.calls.clear()
    await world.outboxes["w1"]._delete_job(DeleteJob(cluster="w1", uid=job.metadata.uid), key)
    assert cluster.calls == calls


@pytest.mark.parametrize(("there", "is_found"), [(("b",), True), (("a",), True), ((), False)])
async def test_a_group_may_have_been_made_where_one_of_its_pods_is(there: tuple[str, ...], is_found: bool) -> None:
    world, key = await submitted(*pods("a", "b"))
    cluster, local = world.workers["w1"], world.store.workloads.get(key)
    for body in pods(*there):
        body["metadata"]["labels"] |= {ORIGIN_LABEL: "multikueue", PREBUILT_LABEL: key.name}
        cluster.put(kinds.PODS, body)
    assert local is not None
    owner = world.store.owner(local)
    assert owner is not None
    assert await world.outboxes["w1"]._find(owner) is is_found
    assert cluster.calls.count("get pods") == 2
    assert (world.store.worker("w1").job_of(key) is not None) is is_found


# What a cluster has forgotten.


async def test_a_job_that_its_cluster_has_forgotten_to_have_run_is_read_once_more_and_given_up() -> None:
    world = table()
    await world.begin()
    world._set("w1", "job", Finished="True")
    world.time += timedelta(minutes=16)
    world.workers["w1"].calls.clear()
    world.queues.workloads.add(world.key())
    await world.settle()
    assert world.workers["w1"].calls.count("get jobs") == 1
    assert world.condition("Finished") is not None


async def test_an_end_that_nobody_has_heard_of_is_read_and_brought_home() -> None:
    """We slept, and of all that came meanwhile the copy's end is heard of first."""
    world = table()
    await world.begin()
    with world.workers["w1"].unheard():
        world.finish_job("w1")
    world._set("w1", "job", Finished="True")
    world.time += timedelta(minutes=16)
    world.manager.calls.clear()
    world.queues.workloads.add(world.key())
    await world.settle()
    told = [call for call in world.manager.writes() if call in ("patch jobs/status", "patch workloads/status")]
    assert told == ["patch jobs/status", "patch workloads/status"], "its end comes first"
    status = (world.manager.find(kinds.JOBS, JOB) or {})["status"]
    assert [c["type"] for c in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert world.condition("Finished") is not None


MEANWHILE = (
    "nothing",
    "evicted",
    "finished",
    "deleted",
    "gone at home",
    "its job is gone",
    "another plan",
    "asked elsewhere",
    "its quota is being given back",
    "its eviction is being written",
    "another attempt is being written",
    "its message is being written",
)


@pytest.mark.parametrize("meanwhile", MEANWHILE)
async def test_a_job_is_started_on_a_look_of_its_own(meanwhile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes before it takes time: here a read of what an earlier request may have made."""
    world = table()
    world.submit()
    await world.settle()
    key, worker, cluster = world.key(), world.store.worker("w1"), world.workers["w1"]
    world.admit("w1")
    local = world.store.workloads.get(key)
    assert local is not None
    attempt = attempt_of(local)
    desired = (Found(cluster="w1", why="a request without an answer"), Running(cluster="w1", why="first to admit"))
    world.store.plans.put(key, Plan(local=local, attempt=attempt, at=world.now(), desired=desired, origin="multikueue"))
    worker.ask_for_job(key, Asked(attempt, world.now()))
    get = cluster.get

    async def while_it_is_read(kind: Any, name: ObjectKey) -> Any:
        match meanwhile:
            case "evicted":
                world._set("w1", "job", Evicted="True")
            case "finished":
                world._set("w1", "job", Finished="True")
            case "deleted":
                cluster.drop(kinds.WORKLOADS, key)
            case "gone at home":
                world.manager.drop(kinds.WORKLOADS, key)
            case "its job is gone":
                world.manager.drop(kinds.JOBS, JOB)
            case "another plan":
                world.store.plans.put(key, Plan(local=local, attempt=attempt, at=world.now()))
            case "asked elsewhere":
                world.store.worker("w2").ask_for_job(key, Asked(attempt, world.now()))
            case "its quota is being given back":
                world.store.writes(key, workload("job").queue("main").build().status)
            case "its eviction is being written":
                world.store.writes(key, workload("job").reserved().evicted().build().status)
            case "another attempt is being written":
                world.store.writes(key, workload("job").reserved().check("mk", "Retry").build().status)
            case "its message is being written":
                world.store.writes(key, local.status)
        return await get(kind, name)

    monkeypatch.setattr(cluster, "get", while_it_is_read)
    await world.outboxes["w1"].reconcile(key)
    assert world.runs_on() == (["w1"] if meanwhile in ("nothing", "its message is being written") else [])


ERROR = "500 InternalError: no answer in time"


@pytest.mark.parametrize(
    ("attempt", "why", "there", "is_passed_over"),
    [
        pytest.param("", ERROR, None, True, id="nothing, after an error"),
        pytest.param("", "", None, False, id="nothing, after no answer at all"),
        pytest.param("earlier", ERROR, None, False, id="nothing, of an earlier attempt"),
        pytest.param("", ERROR, {ORIGIN_LABEL: "multikueue", PREBUILT_LABEL: "wl"}, False, id="a job of ours"),
        pytest.param("", ERROR, {}, True, id="a job of somebody else"),
    ],
)
async def test_a_worker_that_was_asked_for_a_job_is_passed_over_if_a_look_there_finds(
    attempt: str, why: str, there: dict[str, str] | None, is_passed_over: bool
) -> None:
    world = table()
    world.submit()
    await world.settle()
    key, worker = world.key(), world.store.worker("w1")
    local = world.store.workloads.get(key)
    assert local is not None
    if there is not None:
        body = job_body("job")
        body["metadata"]["labels"] |= there
        with world.workers["w1"].unheard(kinds.JOBS):
            world.workers["w1"].put(kinds.JOBS, body)
    look = Found(cluster="w1", why="a request without an answer")
    world.store.plans.put(key, Plan(local=local, attempt=attempt_of(local), at=world.now(), desired=(look,)))
    worker.ask_for_job(key, Asked(attempt or attempt_of(local), world.now(), why=why))
    await world.outboxes["w1"].reconcile(key)
    assert worker.expectations.asked(key) is None
    assert worker.expectations.is_passed_over(key) is is_passed_over
    assert (worker.jobs.of(kinds.JOBS).get(JOB) is not None) is bool(there)


@pytest.mark.parametrize(("is_made", "is_replaced"), [(True, True), (True, False), (False, True)])
async def test_only_after_a_copy_is_made_for_a_plan_that_is_replaced_the_new_one_is_looked_at_again(
    is_made: bool, is_replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision that was made meanwhile did not know of the copy."""
    world = table()
    world.submit()
    await world.settle()
    key, cluster, copies = world.key(), world.workers["w1"], world.store.worker("w1").workloads
    local, there = world.store.workloads.get(key), copies.get(key)
    assert local is not None
    assert there is not None
    copied, absent = (
        Copied(cluster="w1", why="nominated"),
        Absent(cluster="w1", why="", uids=frozenset({there.metadata.uid})),
    )
    plan = Plan(local=local, attempt=attempt_of(local), at=world.now(), desired=(copied if is_made else absent,))
    if is_made:
        cluster.drop(kinds.WORKLOADS, key)
    world.store.plans.put(key, plan)
    call = "create" if is_made else "delete"
    really = getattr(cluster, call)

    async def while_it_is_called(*args: Any, **more: Any) -> Any:
        if is_replaced:
            world.store.plans.put(key, replace(plan, at=plan.at + timedelta(seconds=1)))
        return await really(*args, **more)

    monkeypatch.setattr(cluster, call, while_it_is_called)
    assert await world.outboxes["w1"].reconcile(key) == (AGAIN if is_made and is_replaced else DONE)


# When the workload is looked at again.

STOPS: dict[str, Callable[[Table, ObjectKey], object]] = {
    "it goes on": lambda _world, _key: None,
    "it is evicted": lambda world, key: world.manager.change(
        kinds.WORKLOADS,
        key,
        {"status": {"conditions": [{"type": "Evicted", "status": "True", "reason": "x", "message": ""}]}},
    ),
    "it is being deleted": lambda world, key: world.manager.change(
        kinds.WORKLOADS, key, {"metadata": {"deletionTimestamp": "2026-01-01T13:00:00Z"}}
    ),
    "it is gone": lambda world, key: world.manager.drop(kinds.WORKLOADS, key),
}


@pytest.mark.parametrize("is_seen", [True, False], ids=["its job is seen", "its job is not seen"])
@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
async def test_an_answer_is_no_news_where_the_job_is_seen_of_what_goes_on(
    stop: Callable[[Table, ObjectKey], object], is_seen: bool
) -> None:
    world, key = await dispatched()
    if is_seen:
        world.admit("w1")
        await world.settle()
    stop(world, key)
    assert world.outboxes["w1"]._is_told_by_its_job(key) is (is_seen and stop is STOPS["it goes on"])


@pytest.mark.parametrize(("stop", "looks"), [("it goes on", 0), ("it is evicted", 1)])
async def test_a_workload_whose_job_the_watch_has_shown_is_looked_at_again_if_it_has_stopped(
    stop: str, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, key = await dispatched()
    queue, create = world.queues.workloads, world.workers["w1"].create
    runs(world, key, "w1")

    async def made(kind: Any, namespace: str, body: Any) -> Any:
        answer = await create(kind, namespace, body)
        STOPS[stop](world, key)
        while len(queue):
            queue.done(await queue.get())
        return answer

    monkeypatch.setattr(world.workers["w1"], "create", made)
    await world.outboxes["w1"].reconcile(key)
    assert world.runs_on() == ["w1"]
    assert len(queue) == looks


async def test_a_worker_that_hangs_is_not_called() -> None:
    world, key = await dispatched()
    removes(world, key)
    outbox = world.outboxes["w1"]
    outbox.breaker.doubt()
    assert outbox.breaker.is_open
    world.workers["w1"].calls.clear()
    assert await outbox.reconcile(key) == DONE
    assert world.workers["w1"].calls == []


@pytest.mark.parametrize(
    ("error", "is_doubted"),
    [
        pytest.param(NO_ANSWER, True, id="does not answer"),
        pytest.param(Unauthorized(401, "Unauthorized", "who are you?"), True, id="does not know us any more"),
        pytest.param(DENIED, False, id="refuses this call"),
    ],
)
async def test_a_worker_is_doubted_until_it_is_asked_how_it_is_if_it(error: MultiKueueError, is_doubted: bool) -> None:
    world, key = await dispatched()
    removes(world, key)
    outbox, queue = world.outboxes["w1"], world.queues.outboxes["w1"]
    only(world, "delete workloads", error)
    with pytest.raises(type(error)):
        await outbox.reconcile(key)
    assert outbox.breaker.is_open is is_doubted
    outbox.breaker.trust()
    assert len(queue) == is_doubted, "what was held back goes on"


# Workloads with names that are too long for an older Kueue.

LONG = ObjectKey(NAMESPACE, "w" * (LONGEST_NAME + 1))


@pytest.mark.parametrize(
    ("key", "pod_sets", "is_made", "asked"),
    [
        pytest.param(LONG, 10, True, 1, id="Kueue 0.18 reads it in an annotation"),
        pytest.param(LONG, 8, False, 2, id="an older one does not"),
        pytest.param(LONG, None, False, 2, id="nobody knows which one it is"),
        pytest.param(ObjectKey(NAMESPACE, LONG.name[1:]), 8, True, 0, id="a shorter one is a label, too"),
    ],
)
async def test_a_copy_of_a_long_name_is_made_where_kueue_can_read_it(
    key: ObjectKey, pod_sets: int | None, is_made: bool, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another Kueue would make a second Workload for its job: both would hold quota, and an eviction would stop neither."""
    world = table()
    cluster, outbox = world.workers["w1"], world.outboxes["w1"]
    paths: list[str] = []

    async def request(_method: str, path: str) -> bytes:
        paths.append(path)
        if pod_sets is None:
            raise NotFound(404, "NotFound", path)
        return encode(documents(PLAIN, pod_sets)[path])

    monkeypatch.setattr(cluster, "request", request)
    local = workload(key.name, namespace=NAMESPACE).queue("main").request(cpu=1).reserved("cq").build()
    world.store.workloads.upsert(local)
    assert await outbox.reconcile(key) == DONE
    absent, copied = Absent(cluster="w1", why="", uids=frozenset()), Copied(cluster="w1", why="nominated")
    plan = Plan(local=local, attempt=attempt_of(local), at=world.now(), desired=(absent,), origin="multikueue")
    world.store.plans.put(key, plan)
    await outbox.reconcile(key)
    assert paths == [], "nothing is to be made"
    left = workload(key.name, namespace=NAMESPACE).queue("main").request(cpu=1).origin().uid("left").build()
    cluster.put(kinds.WORKLOADS, msgspec.json.decode(encode(left)))
    world.store.plans.put(key, replace(plan, desired=(replace(absent, uids=frozenset({"left"})),)))
    await outbox.reconcile(key)
    assert (paths, cluster.find(kinds.WORKLOADS, key)) == ([], None), "what is to go may go"
    world.store.plans.put(key, replace(plan, desired=(copied,)))
    await outbox.reconcile(key)
    if is_made:
        cluster.drop(kinds.WORKLOADS, key)
    world.store.worker("w1").expectations.forget(key)
    await outbox.reconcile(key)
    assert (cluster.find(kinds.WORKLOADS, key) is not None) is is_made
    assert world.store.worker("w1").expectations.is_passed_over(key) is not is_made
    assert len([path for path in paths if path.startswith("/apis")]) == asked


@pytest.mark.parametrize(("pod_sets", "runs_on"), [(10, ["w1"]), (8, [])], ids=["Kueue 0.18", "an older one"])
async def test_a_job_is_made_beside_a_copy_of_a_long_name_by(
    pod_sets: int, runs_on: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy may be there from before its Kueue was replaced."""
    world, key = await dispatched()

    async def request(_method: str, path: str) -> bytes:
        return encode(documents(PLAIN, pod_sets)[path])

    monkeypatch.setattr(world.workers["w1"], "request", request)
    monkeypatch.setattr(module, "LONGEST_NAME", len(key.name) - 1)
    runs(world, key, "w1")
    await world.outboxes["w1"].reconcile(key)
    assert world.runs_on() == runs_on


# What is sent is what was counted.


async def test_a_job_that_has_changed_since_it_was_counted_is_not_sent() -> None:
    world = table()
    world.submit(pods=2)
    await world.settle()
    world.admit("w1")
    before, local = world.workload()["metadata"]["uid"], world.store.workloads.get(world.key())
    assert local is not None
    run = Running(cluster="w1", why="first to admit")
    world.store.plans.put(local.key, Plan(local=local, attempt=attempt_of(local), at=world.now(), desired=(run,)))
    world.manager.change(kinds.JOBS, JOB, {"spec": {"parallelism": 3, "completions": 3}})
    await world.outboxes["w1"].reconcile(world.key())
    assert world.runs_on() == []
    await world.settle()
    assert world.workload()["metadata"]["uid"] != before
    told = [message for reason, message in world.said() if reason == "DeletedWorkload"]
    assert [message.partition(": pod set main: ")[2] for message in told] == ["count is 3, and 2 in its Workload"]
    world.admit("w1")
    await world.settle()
    assert world.runs_on() == ["w1"]


async def test_a_job_with_quota_for_fewer_pods_asks_for_no_more_on_its_worker() -> None:
    world = table(quota=3)
    body = job_body("job", pods=5)
    body["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    world.manager.put(kinds.JOBS, body)
    await world.settle()
    world.admit("w1")
    await world.settle()
    copy = world.workers["w1"].find(kinds.WORKLOADS, world.key()) or {}
    job = world.workers["w1"].find(kinds.JOBS, JOB) or {}
    assert world.status()["admission"]["podSetAssignments"][0]["count"] == 3
    assert (copy["spec"]["podSets"][0]["count"], job["spec"]["parallelism"]) == (3, 3)


@pytest.mark.parametrize(
    ("roles", "is_sent"),
    [
        pytest.param(STANDALONE, False, id="where this process takes in jobs, as its job starts over"),
        pytest.param(BESIDE_KUEUE, True, id="but beside Kueue, which decides that itself"),
    ],
)
async def test_what_its_workload_does_not_count_is_not_sent(roles: frozenset[Role], is_sent: bool) -> None:
    outbox = table(roles=roles).outboxes["w1"]
    some = ours().parallelism(5).completions(9).annotations({"kueue.x-k8s.io/job-min-parallelism": "2"})
    whole, fewer, larger = workload_of(some.build()), places.admitted(workload_of(some.build()), 3), some.parallelism(6)
    assert outbox._as_counted(some.build(), whole) == some.build()
    sent = outbox._as_counted(some.build(), fewer)
    assert isinstance(sent, Job)
    assert tree(sent.spec)["parallelism"] == 3, "it has quota for so many"
    assert outbox._as_counted(larger.build(), fewer) == (larger.build() if is_sent else None)


async def test_a_pod_that_asks_for_more_than_its_stateful_set_counts_is_not_sent() -> None:
    """Anybody may make one who may make Pods, in the place of one that the StatefulSet's controller has not made yet."""
    world = table(integrations=Integrations(frameworks=("pod", "statefulset")))
    marks = {PARENT_ANNOTATION: "statefulset", ROLE_HASH_ANNOTATION: "main", GROUP_FAST_ANNOTATION: "true"}
    large: dict[str, Any] = {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1000"}}}]}
    honest, hostile = member("web-0", annotations=marks), member("web-1", annotations=marks, **large)
    local = stored(POD_GROUP.workload_body(group(honest), priority=Priority()))
    assert world.outboxes["w1"]._as_counted(group(honest), local) == group(honest)
    with pytest.raises(InvalidObject, match="Pod web-1: spec: expected no more than its Workload counts, got 'cpu 1k"):
        world.outboxes["w1"]._as_counted(group(honest, hostile), local)
