"""Workers that say neither yes nor no, in one file: nobody waits for ever, and nobody waits in silence."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from multikueue.api import kinds
from multikueue.api.kueue.workload import FAILED_ON
from multikueue.api.meta import ObjectKey, encode
from multikueue.dispatch.remote import Asked, Remote
from multikueue.errors import (
    AlreadyExists,
    ClusterUnreachable,
    Conflict,
    Forbidden,
    InvalidObject,
    MultiKueueError,
    ServerError,
    Throttled,
)
from multikueue.testing import NOW
from multikueue.workload.case import MAX_NOMINATED
from multikueue.workload.handlers.doubts import may_be_there, until_lost
from multikueue.workload.phases import Phase
from tests.controllers.table import NAMESPACE, Table, job_body, table
from tests.workload.builders import (
    ATTEMPT,
    EARLIER,
    LATE,
    admitted_copy,
    away,
    but,
    case_of,
    copy,
    decided,
    remote_job,
    reserved,
    told,
    won,
    worker,
)

pytestmark = pytest.mark.anyio

JOB = ObjectKey(NAMESPACE, "job")
WEBHOOK = ServerError(500, "InternalError", 'failed calling webhook "policy": connection refused')
STORAGE = ServerError(500, "InternalError", "etcdserver: request timed out")
BUSY = Throttled(429, "TooManyRequests", "later")
HANGS = ClusterUnreachable("w1", "no answer in time")
GARBLED = InvalidObject("answer of w1", "$", "object")
CONFLICT = Conflict(409, "Conflict", "admission webhook denied the request: the object has been modified")
TAKEN = AlreadyExists(409, "AlreadyExists", "so it is said")


def breaks(world: Table, worker: str, error: MultiKueueError, *calls: str) -> None:
    world.workers[worker].fault = lambda verb, plural: error if f"{verb} {plural}" in calls else None


async def passes(world: Table, seconds: int, step: int = 5, admitting: str = "", key: ObjectKey | None = None) -> None:
    """Time passes; what is retried with a back-off is tried again at each step."""
    key = key or world.key()
    for _ in range(seconds // step):
        world.time += timedelta(seconds=step)
        world.queues.workloads.add(key)
        for name, outbox in world.outboxes.items():
            outbox.breaker.trust()
            world.queues.outboxes[name].add(key)
        await world.settle()
        if admitting in world.copies() and not world.runs_on():
            world.admit(admitting)
            await world.settle()


def message(world: Table) -> str:
    (check,) = world.status()["admissionChecks"]
    return str(check["message"])


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        pytest.param(WEBHOOK, 5, id="a webhook that is down made nothing, and the job goes elsewhere at once"),
        pytest.param(BUSY, 60, id="a server that is busy for long loses it"),
        pytest.param(STORAGE, 150, id="a server error leaves a doubt, which ends with a read"),
        pytest.param(HANGS, 150, id="a call without an answer leaves a doubt, which ends with a read"),
        pytest.param(GARBLED, 150, id="so does an answer that nobody can read"),
        pytest.param(CONFLICT, 60, id="a server that sees a conflict in each creation loses it"),
    ],
)
async def test_a_job_that_a_worker_does_not_take_goes_to_a_free_one(error: MultiKueueError, seconds: int) -> None:
    world = table(workers=2)
    breaks(world, "w1", error, "create jobs")
    world.submit()
    await world.settle()
    world.admit("w1")
    await world.settle()
    await passes(world, seconds, admitting="w2")
    assert world.runs_on() == ["w2"]
    assert any("w1" in words for _, words in world.said())


@pytest.mark.parametrize(
    "error",
    [WEBHOOK, BUSY, STORAGE, HANGS, GARBLED],
    ids=["webhook", "busy", "storage", "hangs", "garbled"],
)
async def test_the_only_worker_gets_the_job_once_it_can_take_it(error: MultiKueueError) -> None:
    world = table(workers=1)
    breaks(world, "w1", error, "create jobs")
    world.submit()
    await world.settle()
    world.admit("w1")
    await world.settle()
    await passes(world, 300, admitting="w1")
    asked = world.workers["w1"].calls.count("create jobs")
    assert asked < 40
    assert world.store.refusals.count(world.time) == {("workload", "w1"): 1}
    breaks(world, "w1", error)
    await passes(world, 320, step=20, admitting="w1")
    assert world.runs_on() == ["w1"]
    assert world.store.refusals.count(world.time) == {}


@pytest.mark.parametrize("call", ["create workloads", "create jobs"])
async def test_a_name_that_is_taken_by_what_is_not_there_is_asked_for_seldom(call: str) -> None:
    world = table(workers=1)
    breaks(world, "w1", TAKEN, call)
    world.submit()
    await world.settle()
    await passes(world, 25, step=1, admitting="w1")
    assert not any("w1" in words for _, words in world.said())
    await passes(world, 95, step=1, admitting="w1")
    assert 0 < world.workers["w1"].calls.count(call) <= 120 / 5 + 1
    (words,) = [words for _, words in world.said() if "w1" in words]
    assert words.endswith("is taken, by nothing that is there")
    breaks(world, "w1", TAKEN)
    await passes(world, 30, admitting="w1")
    assert world.runs_on() == ["w1"]


@pytest.mark.parametrize("error", [STORAGE, HANGS, GARBLED], ids=["storage", "hangs", "garbled"])
async def test_what_was_carried_out_though_the_answer_was_an_error_is_found_and_not_made_twice(
    error: MultiKueueError,
) -> None:
    world = table(workers=2)
    world.workers["w1"].lose_answer = lambda verb, plural: error if (verb, plural) == ("create", "jobs") else None
    world.submit()
    await world.settle()
    with world.workers["w1"].unheard(kinds.JOBS):
        world.admit("w1")
        await world.settle()
        await passes(world, 150, admitting="w2")
    assert world.runs_on() == ["w1"]
    assert world.status()["clusterName"] == "w1"


async def test_a_doubt_is_said_in_the_check_and_an_event_after_half_a_minute() -> None:
    world = table(workers=2)
    breaks(world, "w1", STORAGE, "create jobs")
    world.submit()
    await world.settle()
    world.admit("w1")
    await world.settle()
    await passes(world, 25)
    assert message(world) == ""
    await passes(world, 15)
    text = 'Waiting for worker cluster "w1", which may have taken the job: 500 InternalError: etcdserver: request timed out'
    assert message(world) == text
    assert [words for _, words in world.said()].count(text) == 1
    assert world.store.refusals.count(world.time) == {("workload", "w1"): 1}


CALLS: dict[str, tuple[str, str, Callable[[Table], None]]] = {
    "create workloads": ("the copy is refused", "", lambda _world: None),
    "delete workloads": ("the copy cannot be deleted", "w1", lambda world: world.admit("w2")),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", [STORAGE, BUSY, HANGS], ids=["storage", "busy", "hangs"])
async def test_any_call_that_fails_for_long_is_said_once_and_counted_until_it_succeeds(
    call: str, error: MultiKueueError
) -> None:
    words, _, act = CALLS[call]
    world = table(workers=3)
    breaks(world, "w1", error, call)
    world.submit()
    await world.settle()
    act(world)
    await world.settle()
    await passes(world, 25)
    assert not any("w1" in told for _, told in world.said() if "admitted" not in told)
    await passes(world, 60)
    told = [told for _, told in world.said() if words in told or "the copy is refused" in told]
    assert len(told) == 1
    assert 'worker cluster "w1"' in told[0].replace("Worker", "worker")
    assert world.store.refusals.count(world.time) == {("workload", "w1"): 1}
    breaks(world, "w1", error)
    await passes(world, 320, step=20)
    assert world.store.refusals.count(world.time) == {}


async def test_a_worker_that_went_away_with_a_request_is_named_at_once() -> None:
    world = table(workers=2)
    breaks(world, "w1", HANGS, "create jobs")
    world.submit()
    await world.settle()
    world.admit("w1")
    await world.settle()
    assert message(world) == (
        'Waiting for worker cluster "w1", which does not answer and may have taken the job: it runs nowhere else until '
        "that is known, or the worker is lost"
    )
    world.cut("w1")
    await world.settle()
    assert [words for _, words in world.said() if "does not answer" in words] == [message(world)]
    breaks(world, "w1", HANGS)
    world.connect("w1")
    await world.settle()
    assert world.runs_on() == ["w1"]
    assert message(world) == 'The workload was admitted on "w1"'


async def test_a_copy_that_a_worker_calls_out_of_sync_is_told_with_the_field_that_differs() -> None:
    world = table(workers=1)
    world.submit()
    await world.settle()
    world.admit("w1")
    await world.settle()
    container = {"name": "main", "image": "mirror/x", "resources": {"requests": {"cpu": "1"}}}
    there = world.workers["w1"].find(kinds.JOBS, JOB)
    assert there is not None
    (kept,) = there["spec"]["template"]["spec"]["containers"]
    pods = {"spec": {"template": {"spec": {"containers": [kept | container]}}}}
    world.workers["w1"].change(kinds.JOBS, JOB, pods)
    copy = world.workers["w1"].find(kinds.WORKLOADS, world.key())
    assert copy is not None
    end = {"type": "Finished", "status": "True", "reason": "OutOfSync", "message": "out of sync"}
    conditions = [*copy["status"]["conditions"], end | {"lastTransitionTime": "2026-01-01T12:00:00Z"}]
    world.time += timedelta(seconds=5)
    world.workers["w1"].change(kinds.WORKLOADS, world.key(), {"status": {"conditions": conditions}})
    await world.settle()
    words = next(words for _, words in world.said() if "out of sync" in words)
    assert 'pod set main: containers[0].image is "mirror/x", and "x" in its Workload' in words


async def test_a_worker_that_changes_each_copy_is_passed_over_and_named_with_the_field() -> None:
    world = table(workers=2)
    real = world.workers["w1"].create

    async def mirrored(kind: Any, namespace: str, body: Any, **more: Any) -> Any:
        tree = msgspec.json.decode(encode(body))
        if kind is kinds.WORKLOADS:
            tree["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["image"] = "mirror/x"
        return await real(kind, namespace, tree, **more)

    world.workers["w1"].create = mirrored  # type: ignore[method-assign]
    world.submit()
    await world.settle()
    await passes(world, 120)
    calls = world.workers["w1"].calls
    assert calls.count("create workloads") < 12
    told = [words for _, words in world.said() if "changes the copy" in words]
    assert len(told) == 1
    assert 'containers[0].image is "mirror/x", and "x" in its Workload' in told[0]
    assert world.store.refusals.count(world.time) == {("workload", "w1"): 1}
    world.admit("w2")
    await world.settle()
    assert world.runs_on() == ["w2"]


async def test_a_worker_that_changes_each_copy_once_it_is_made_is_passed_over_for_longer_each_time() -> None:
    world = table(workers=2)
    world.submit()
    await world.settle()
    for _ in range(600):
        copy = world.workers["w1"].find(kinds.WORKLOADS, world.key())
        if copy is not None:
            pods = msgspec.json.decode(encode(copy["spec"]["podSets"]))
            pods[0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1e20000"
            world.workers["w1"].change(kinds.WORKLOADS, world.key(), {"spec": {"podSets": pods}})
        await world.settle()
        await passes(world, 1)
    assert world.workers["w1"].calls.count("create workloads") < 12
    told = {words for _, words in world.said() if "changes the copy" in words}
    assert len(told) == 1
    assert "resources.requests.cpu is 9223372036854775807, and 1 in its Workload" in told.pop()
    world.admit("w2")
    await world.settle()
    assert world.runs_on() == ["w2"]


async def test_a_job_that_its_user_changes_again_and_again_is_no_workers_fault() -> None:
    world = table(workers=2)
    world.submit()
    await world.settle()
    for cpu in ("2", "3", "4"):
        pods = job_body("job", cpu=cpu)["spec"]["template"]
        world.manager.change(kinds.JOBS, JOB, {"spec": {"template": pods}})
        await world.settle()
        await passes(world, 10)
    assert world.copies() == ["w1", "w2"]
    assert not [words for _, words in world.said() if "changes the copy" in words]


@pytest.mark.parametrize("is_there", [False, True], ids=["and is not there", "and is there"])
async def test_a_job_that_may_not_be_read_is_said_while_it_holds_quota(is_there: bool) -> None:
    """The creation got no answer, and then jobs may not be read there: its quota is held for as long."""
    world = table(workers=1, quota=1)
    breaks(world, "w1", HANGS, "create jobs")
    if is_there:
        breaks(world, "w1", HANGS)
        world.workers["w1"].lose_answer = lambda verb, plural: HANGS if (verb, plural) == ("create", "jobs") else None
    world.submit()
    await world.settle()
    with world.workers["w1"].unheard(kinds.JOBS):
        world.admit("w1")
        await world.settle()
    world.workers["w1"].lose_answer = lambda _verb, _plural: None
    breaks(world, "w1", Forbidden(403, "Forbidden", "jobs may not be read"), "get jobs")
    world.manager.change(kinds.WORKLOADS, world.key(), {"spec": {"active": False}})
    await passes(world, 200, step=20)
    reserved = world.condition("QuotaReserved")
    assert reserved is not None
    assert reserved["status"] == "True"
    text = (
        'Waiting for worker cluster "w1": the job that may have been made there cannot be read: '
        "403 Forbidden: jobs may not be read"
    )
    assert message(world) == text
    assert [words for _, words in world.said()].count(text) == 1
    breaks(world, "w1", HANGS)
    await passes(world, 60, step=20)
    reserved = world.condition("QuotaReserved")
    assert reserved is not None
    assert reserved["status"] == ("True" if is_there and world.runs_on() else "False")
    assert world.store.refusals.count(world.time) == {}


def test_a_nominated_worker_not_yet_seen_holds_the_job_back() -> None:
    """A predecessor may have made the job there just before it died."""
    unseen = away(but(worker("w2"), is_known=False))
    ended = (
        reserved().nominated("w1").condition(FAILED_ON, reason="AttemptFailed", message="w2 at 2026-01-01T11:00:00Z")
    )
    assert told(decided(ended, worker("w1", admitted_copy()), unseen)) == [], "its job may still be there"
    local = reserved().nominated("w1", "w2")
    decision = decided(local, worker("w1", admitted_copy()), unseen)
    assert told(decision) == []
    assert decision.again_after == timedelta(minutes=15)
    (check,) = decision.status.admission_checks if decision.status else ()
    assert check.message == (
        'Waiting for worker cluster "w2", which is out of reach and may have the job: it starts on "w1" once that is known, '
        "or the worker is lost"
    )
    assert [event.message for event in decision.events] == [check.message]
    assert told(decided(local, worker("w1", admitted_copy()), unseen, now=LATE)) == ["CreateJob w1"]


def test_one_that_was_taken_out_of_the_config_meanwhile_stays_nominated_until_it_is_seen_or_lost() -> None:
    """Or nothing would tell any more that the job may be there."""
    unseen = away(but(worker("w2"), is_known=False, is_configured=False))
    local = reserved().nominated("w1", "w2")
    for remotes in ((worker("w1"), unseen), (worker("w1", copy()), unseen)):
        status = decided(local, *remotes).status
        assert status is not None
        assert set(status.nominated_cluster_names) == {"w1", "w2"}
    for gone, now in ((unseen, LATE), (but(unseen, is_known=True), NOW)):
        status = decided(local, worker("w1"), gone, now=now).status
        assert status is not None
        assert status.nominated_cluster_names == ("w1",)


def test_after_an_eviction_by_others_any_worker_not_yet_seen_holds_the_job_back() -> None:
    """A Kueue beside us takes the nomination away when it evicts, perhaps while no process of ours runs."""
    unseen = away(but(worker("w2"), is_known=False))
    local = reserved().nominated("w1")
    decision = decided(local, worker("w1", admitted_copy()), unseen, may_be_anywhere=True)
    assert (told(decision), decision.again_after) == ([], timedelta(minutes=15))
    for seen in (worker("w2"), away(worker("w2"))):
        assert told(decided(local, worker("w1", admitted_copy()), seen, may_be_anywhere=True)) == ["CreateJob w1"]


MANY = ("w1", *(f"n{number}" for number in range(MAX_NOMINATED - 1)))
FEW = ("w1",)


@pytest.mark.parametrize(
    ("named", "failed", "is_configured", "is_held"),
    [
        pytest.param(FEW, "", True, False, id="one that was not named has nothing"),
        pytest.param(FEW, "w3 at 2026-01-01T11:00:00Z", True, False, id="nor has it after a failure elsewhere"),
        pytest.param(FEW, "w2 at 2026-01-01T11:00:00Z", True, True, id="where an attempt failed, it may have"),
        pytest.param(MANY, "", True, True, id="of more than can be named, each that is configured may have"),
        pytest.param(MANY, "", False, False, id="but none that is not"),
        pytest.param(("w1", "w2"), "", False, True, id="one that was named may have, configured or not"),
    ],
)
def test_a_worker_not_yet_seen_holds_a_job_back_only_if_it_may_have_it(
    named: tuple[str, ...], failed: str, is_configured: bool, is_held: bool
) -> None:
    local = reserved().nominated(*named)
    local = local.condition(FAILED_ON, reason="AttemptFailed", message=failed) if failed else local
    unseen = away(but(worker("w2"), is_known=False, is_configured=is_configured))
    decision = decided(local, worker("w1", admitted_copy()), unseen)
    assert told(decision) == ([] if is_held else ["CreateJob w1"])


@pytest.mark.parametrize("has_job", [True, False])
@pytest.mark.parametrize(
    ("remote", "now", "may_be"),
    [
        pytest.param(worker("w2"), NOW, False, id="reached"),
        pytest.param(away(worker("w2")), NOW, True, id="out of reach"),
        pytest.param(away(worker("w2")), LATE, False, id="lost"),
    ],
)
def test_a_job_may_be_where_it_was_seen_and_cannot_be_removed(
    remote: Remote, now: datetime, may_be: bool, has_job: bool
) -> None:
    case = case_of(reserved(), remote, now=now)
    left = replace(remote, job=worker("w2", copy(EARLIER), remote_job(EARLIER)).job if has_job else None)
    assert may_be_there(case, left) is (may_be and has_job)


@pytest.mark.parametrize(
    ("is_known", "named", "has_job", "may_be"),
    [
        pytest.param(True, ("w2",), False, False, id="what it has is seen"),
        pytest.param(False, ("w2",), False, True, id="it was nominated, and what it has is not seen yet"),
        pytest.param(False, ("w1",), False, False, id="it was not nominated"),
        pytest.param(False, ("w1",), True, False, id="what another process has seen there can be removed"),
    ],
)
def test_a_job_may_be_where_requests_go_before_what_is_there_is_seen(
    is_known: bool, named: tuple[str, ...], has_job: bool, may_be: bool
) -> None:
    reached = worker("w2", None, remote_job(EARLIER) if has_job else None, is_known=is_known, since=NOW)
    assert may_be_there(case_of(reserved().nominated(*named), reached), reached) is may_be


def test_whom_is_lost_by_now_nobody_waits_for() -> None:
    lost, other = away(worker("w1"), since=NOW - timedelta(minutes=20)), away(worker("w2"))
    case = case_of(reserved(), lost, other)
    assert until_lost(case, [lost, other]) == timedelta(minutes=15)
    assert until_lost(case, [lost]) is None
    assert until_lost(case, [worker("w3")]) is None, "it is not away"
    assert until_lost(case, [worker("w3"), other]) == timedelta(minutes=15)


def test_a_worker_out_of_reach_that_was_asked_for_the_job_is_nominated_again() -> None:
    """Or the next process would not know that the job may be there, if this one dies."""
    asked = away(but(worker("w2"), asked=ATTEMPT.replace("1", "2", 1)))
    for remote, now, names in ((asked, NOW, {"w1", "w2"}), (asked, LATE, {"w1"})):
        status = decided(reserved(), worker("w1"), remote, now=now).status
        assert status is not None
        assert set(status.nominated_cluster_names) == names


def test_a_worker_out_of_reach_with_the_job_of_an_earlier_attempt_holds_the_job_back() -> None:
    """Its copy may be admitted there once more, and the job would run twice."""
    left = away(worker("w2", copy(EARLIER), remote_job(EARLIER)))
    local = reserved().nominated("w1")
    decision = decided(local, worker("w1", admitted_copy()), left)
    assert (told(decision), decision.again_after) == ([], timedelta(minutes=15))
    assert told(decided(local, worker("w1", admitted_copy()), left, now=LATE)) == ["CreateJob w1"]


@pytest.mark.parametrize(
    ("seconds", "actions", "after"),
    [(29, ["CreateJob w1"], timedelta(seconds=1)), (30, [], timedelta(seconds=70))],
    ids=["as long as an answer may come", "and then it is read once no request is under way"],
)
def test_a_job_is_asked_for_again_for_half_a_minute(seconds: int, actions: list[str], after: timedelta) -> None:
    since, until = NOW - timedelta(seconds=seconds), NOW + timedelta(seconds=70)
    asked = msgspec.structs.replace(worker("w1", admitted_copy()), asked=Asked(ATTEMPT, until, since))
    decision = decided(reserved().nominated("w1"), asked)
    assert (told(decision), decision.again_after) == (actions, after)


def test_a_worker_is_lost_only_if_it_was_asked_in_vain_after_its_time() -> None:
    """A manager that was stopped for an hour must ask again first: the worker may be back since long."""
    winner = away(worker("w1", admitted_copy(), remote_job()))
    early = decided(won("w1"), but(winner, last_failed_probe=NOW + timedelta(minutes=1)), now=LATE)
    assert (early.phase, early.again_after) == (Phase.WINNER_UNREACHABLE, timedelta(seconds=1))
    assert decided(won("w1"), but(winner, last_failed_probe=LATE), now=LATE).phase is Phase.WINNER_LOST
    assert decided(won("w1"), winner, now=LATE).phase is Phase.WINNER_LOST, "where nobody is to ask, time alone counts"


def test_the_lost_timeout_is_waited_for_exactly() -> None:
    gone = away(worker("w1", admitted_copy(), remote_job()), since=NOW - timedelta(minutes=10))
    assert decided(won("w1"), gone).again_after == timedelta(minutes=5)
