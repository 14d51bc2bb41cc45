"""Eviction on the manager: what is stopped, what holds the quota meanwhile, and what is held up by it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multikueue.api.jobs.job import AnyJob
from multikueue.dispatch.copies.effects import CreateJob
from multikueue.dispatch.remote import Remote
from multikueue.testing import NOW
from multikueue.workload.handlers.evicting import evicted, is_holding
from tests.workload.builders import (
    ATTEMPT,
    admitted_copy,
    away,
    but,
    case_of,
    check_of,
    copy,
    decided,
    remote_job,
    reserved,
    told,
    won,
    worker,
)


def test_an_evicted_workload_is_stopped_where_it_runs_and_taken_back_where_not() -> None:
    running = worker("w1", admitted_copy(), remote_job().running())
    decision = decided(won("w1").evicted(message="preempted"), running, worker("w2", copy()))
    assert told(decision) == ["PatchStatus w1", "DeleteWorkload w2"]


STOPPED = {
    "a copy, running or not": (worker("w1", admitted_copy()), True),
    "what another slice has left to it": (but(worker("w1", None, remote_job()), is_inherited=True), True),
    "no job without a copy, which goes by itself": (worker("w1", None, remote_job()), False),
    "nothing where nothing is": (worker("w1"), False),
    "nothing out of reach": (away(worker("w1", admitted_copy(), remote_job().running())), False),
}


@pytest.mark.parametrize(("remote", "stops"), STOPPED.values(), ids=STOPPED.keys())
def test_what_an_eviction_stops(remote: Remote, stops: bool) -> None:
    desired = evicted(case_of(won("w1").evicted(), remote)).desired
    assert [each.cluster for each in desired] == (["w1"] if stops else [])


def test_a_stopped_copy_is_not_stopped_again() -> None:
    asked = admitted_copy().condition("DeactivationTarget")
    assert told(decided(won("w1").evicted(), worker("w1", asked, remote_job().running()))) == []


def always(_job: AnyJob) -> bool:
    return True


def never(_job: AnyJob) -> bool:
    return False


def ended(attempt: str) -> Remote:
    return worker("w1", admitted_copy(attempt).finished(), remote_job(attempt).complete(), has_ended=always)


UNSEEN = away(but(worker("w3"), is_known=False))
HOLDING = {
    "a running job holds": (True, worker("w1", admitted_copy(), remote_job().running())),
    "an admitted job may start at any time": (True, worker("w1", admitted_copy(), remote_job())),
    "an evicted job whose pods still end holds": (True, worker("w1", copy().evicted(), remote_job().running())),
    "an evicted quiet job does not": (False, worker("w1", admitted_copy().evicted(), remote_job())),
    "a result that the local job is not told yet holds": (True, ended(ATTEMPT)),
    "a copy that ended before its job was seen to end holds": (True, but(ended(ATTEMPT), has_ended=never)),
    "a job that has ended holds, though it is suspended by now": (True, but(ended(ATTEMPT), is_held=always)),
    "one whose job is suspended does not": (False, but(ended(ATTEMPT), has_ended=never, is_held=always)),
    "a result of an earlier attempt does not": (False, ended("2020-01-01T00:00:00Z/an-earlier-one")),
    "a copy without a job does not": (False, worker("w1", admitted_copy())),
    "the recorded winner out of reach holds": (True, away(worker("w1"))),
    "the winner lost holds nothing": (
        False,
        away(worker("w1", admitted_copy(), remote_job()), since=NOW - timedelta(hours=1)),
    ),
    "a job out of reach holds, though nobody nominated that worker": (True, away(worker("w2", None, remote_job()))),
    "a job asked for holds": (True, but(worker("w1"), asked=ATTEMPT)),
    "what a predecessor nominated holds until it is seen": (True, UNSEEN),
    "what it did not nominate does not": (False, but(UNSEEN, cluster="w2")),
    "one that was seen without a job does not": (False, but(UNSEEN, is_known=True)),
}


@pytest.mark.parametrize(("holds", "remote"), HOLDING.values(), ids=HOLDING.keys())
def test_holding(holds: bool, remote: Remote) -> None:
    assert is_holding(case_of(won("w1").nominated("w3").evicted(), remote)) is holds


def test_a_result_that_the_local_job_has_holds_nothing() -> None:
    assert not is_holding(case_of(won("w1").evicted(), ended(ATTEMPT), is_job_finished=True))


OLD_JOB = remote_job("earlier").deleted(at=NOW)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize("holder", ["w1", "w2"])
@pytest.mark.parametrize(
    ("job_", "words"),
    [
        (OLD_JOB.finalizers("example.com/hold"), "is held by example.com/hold: see to who has to take it away there"),
        (OLD_JOB, "is being deleted: see to its pods and their nodes there"),
    ],
    ids=["a foreign finalizer", "its pods"],
)
def test_a_job_that_does_not_go_holds_up_the_next_attempt_and_is_named(holder: str, job_: Any, words: str) -> None:
    local = reserved().nominated("w1")
    jobs = {name: job_ if name == holder else None for name in ("w1", "w2")}
    remotes = worker("w1", admitted_copy(), jobs["w1"]), worker("w2", None, jobs["w2"])
    early = decided(local, *remotes, now=NOW)
    assert (check_of(early.status), early.events) == (("Pending", ""), ())
    assert early.again_after == MINUTE
    late = decided(local, *remotes, now=NOW + MINUTE)
    text = f'Waiting for what is left of an earlier attempt: Job default/job on worker cluster "{holder}" {words}'
    assert check_of(late.status) == ("Pending", text)
    assert [(event.type, event.message) for event in late.events] == [("Warning", text)]
    assert not [action for action in late.actions if isinstance(action, CreateJob)]
    again = decided(local.check("mk", "Pending", message=text), *remotes, now=NOW + MINUTE)
    assert (check_of(again.status), again.events) == (("Pending", text), ())


def test_pods_that_do_not_end_keep_an_evicted_workload_and_are_named() -> None:
    local = won().check("mk", "Pending").evicted(at=NOW)
    runs = worker("w1", admitted_copy().evicted(), remote_job().running())
    assert decided(local, runs, now=NOW).events == ()
    (event,) = decided(local, runs, now=NOW + MINUTE).events
    assert 'Job default/job on worker cluster "w1" still has pods' in event.message


@pytest.mark.parametrize(
    "remote",
    [
        away(worker("w1", admitted_copy().evicted(), remote_job().running())),
        worker("w1", admitted_copy().evicted(), remote_job()),
    ],
    ids=["it is out of reach", "its pods have ended"],
)
def test_what_does_not_run_as_far_as_is_seen_is_not_named(remote: Remote) -> None:
    local = won().check("mk", "Pending").evicted(at=NOW)
    assert decided(local, remote, now=NOW + MINUTE).events == ()
