"""The end of the winner: when it is taken over, and what stays of it on its worker."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from multikueue.api.kueue.workload import LOGS_UNTIL
from multikueue.api.meta import render_time
from multikueue.dispatch.remote import Remote
from multikueue.dispatch.slices import Slice
from multikueue.testing import NOW
from multikueue.workload.case import MAX_NOMINATED
from multikueue.workload.decide import decide
from multikueue.workload.decision_rules import NO_RETENTION, CopyRetention
from multikueue.workload.handlers.outcome import Outcome
from tests.workload.builders import (
    ATTEMPT,
    admitted_copy,
    but,
    carried_out,
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


def test_a_job_that_finished_before_it_was_recorded_is_recorded_then_finished() -> None:
    done = worker("w1", admitted_copy().finished(message="done"), remote_job().complete())
    first = decided(reserved().nominated("w1"), done)
    assert check_of(first.status)[0] == "Ready"
    second = decided(won("w1"), done, is_job_finished=True)
    assert second.status is not None
    finished = second.status.conditions[-1]
    assert (finished.type, finished.reason, finished.message) == ("Finished", "Succeeded", "done")


DAY = timedelta(days=1)
ONE_DAY = CopyRetention(succeeded=DAY)
OVER = worker("w1", admitted_copy().finished(), remote_job().complete())
RETAINED = {
    "it stays where it ended": (OVER, timedelta(hours=23), []),
    "also before Kueue there has looked at its end": (
        but(worker("w1", admitted_copy(), remote_job().complete()), has_ended=lambda _: True),
        timedelta(hours=23),
        [],
    ),
    "until its time is over": (OVER, DAY, ["DeleteJob w1", "DeleteWorkload w1"]),
    "not where its worker does not say that it is over": (
        worker("w1", admitted_copy(), remote_job()),
        timedelta(0),
        ["DeleteJob w1", "DeleteWorkload w1"],
    ),
    "not one left from an earlier attempt": (
        worker("w1", admitted_copy("earlier").finished(), remote_job("earlier").complete()),
        timedelta(0),
        ["DeleteJob w1", "DeleteWorkload w1"],
    ),
    "nor anywhere else": (worker("w2", copy()), timedelta(0), ["DeleteWorkload w2"]),
}


@pytest.mark.parametrize(("remote", "later", "actions"), RETAINED.values(), ids=RETAINED)
def test_the_copy_of_a_finished_workload_is_retained(remote: Remote, later: timedelta, actions: list[str]) -> None:
    decision = decided(won("w1").finished(), remote, now=NOW + later, copy_retention=ONE_DAY)
    assert told(decision) == actions
    assert decision.again_after == (None if actions else DAY - later)


def kept_until(decision: Outcome) -> str | None:
    assert decision.status is not None
    found = next((c for c in decision.status.conditions if c.type == LOGS_UNTIL), None)
    return found.message if found else None


def test_the_end_of_the_logs_is_written_with_the_end_of_the_job() -> None:
    ended = worker("w1", admitted_copy().finished(), remote_job().complete())
    first = decided(won("w1"), ended, is_job_finished=True, copy_retention=ONE_DAY, has_life=True)
    assert kept_until(first) == render_time(NOW + DAY)


def test_the_end_of_the_logs_is_written_once_and_follows_the_retention() -> None:
    kept = decided(won("w1").finished(), OVER, copy_retention=ONE_DAY, has_life=True)
    assert kept_until(kept) == render_time(NOW + DAY)
    assert kept.status is not None
    written = replace(won("w1").finished().build(), status=kept.status)
    later = case_of(won("w1").finished(), OVER, now=NOW + timedelta(hours=2), copy_retention=ONE_DAY, has_life=True)
    later = replace(later, workload=written)
    assert decide(later).status == kept.status
    longer = decide(replace(later, copy_retention=CopyRetention(succeeded=2 * DAY)))
    assert kept_until(longer) == render_time(NOW + 2 * DAY)
    assert decide(replace(later, copy_retention=NO_RETENTION)).status == kept.status


@pytest.mark.parametrize(
    ("remote", "more"),
    [
        pytest.param(OVER, {"copy_retention": NO_RETENTION, "has_life": True}, id="at once, and no logs stay"),
        pytest.param(
            OVER, {"copy_retention": ONE_DAY, "has_life": True, "now": NOW + DAY}, id="their time is over by now"
        ),
        pytest.param(worker("w2"), {"copy_retention": ONE_DAY, "has_life": True}, id="there is no copy"),
        pytest.param(OVER, {"copy_retention": ONE_DAY}, id="beside Kueue, where it would be a write of its own"),
    ],
)
def test_no_end_of_logs_is_written(remote: Remote, more: dict[str, Any]) -> None:
    assert kept_until(decided(won("w1").finished(), remote, **more)) is None


def test_where_a_finished_job_ran_is_told_even_if_its_win_was_never_recorded() -> None:
    lost, done = worker("w2", copy()), worker("w1", admitted_copy().finished(), remote_job().complete())
    decision = decided(reserved().nominated("w1", "w2").finished(), lost, done)
    assert decision.status is not None
    assert (decision.status.cluster_name, decision.status.nominated_cluster_names) == ("w1", ())
    assert decision.status.admission_checks[0].state == "Ready"
    assert told(decision) == ["DeleteWorkload w2", "DeleteJob w1", "DeleteWorkload w1"]


def test_the_copy_of_a_finished_workload_is_retained_while_its_win_is_told() -> None:
    lost, done = worker("w2", copy()), worker("w1", admitted_copy().finished(), remote_job().complete())
    decision = decided(reserved().nominated("w1", "w2").finished(), lost, done, copy_retention=ONE_DAY)
    assert decision.status is not None
    assert decision.status.cluster_name == "w1"
    assert told(decision) == ["DeleteWorkload w2"]
    assert decision.again_after == DAY


def test_where_a_finished_job_ran_is_not_told_of_a_worker_without_it_or_no_longer_nominated() -> None:
    local = reserved().nominated("w1").finished()
    assert decided(local, worker("w1", admitted_copy())).status == local.build().status
    done = worker("w1", admitted_copy().finished(), remote_job().complete())
    others = (f"other-{number}" for number in range(MAX_NOMINATED))
    for unnamed in (reserved().finished(), reserved().nominated(*others).finished()):
        assert decided(unnamed, done).status == unnamed.build().status


def test_a_win_that_was_recorded_is_not_recorded_again() -> None:
    """Also where somebody has nominated its worker again since."""
    local = won("w1").nominated("w1").finished()
    assert decided(local, OVER).status == local.build().status


def test_the_copy_of_a_workload_that_finished_without_a_time_goes_at_once() -> None:
    built = won("w1").finished().build()
    conditions = tuple(
        replace(each, last_transition_time=None) if each.type == "Finished" else each
        for each in built.status.conditions
    )
    over = replace(built, status=replace(built.status, conditions=conditions))
    case = replace(case_of(won("w1").finished(), OVER, copy_retention=ONE_DAY), workload=over)
    assert told(carried_out(case)) == ["DeleteJob w1", "DeleteWorkload w1"]


def test_no_copy_is_retained_where_no_job_was() -> None:
    decision = decided(
        reserved().nominated("w1").finished(), worker("w1", admitted_copy().finished()), copy_retention=ONE_DAY
    )
    assert (told(decision), decision.again_after) == (["DeleteWorkload w1"], None)


def test_a_workload_is_not_finished_before_its_job_is_final() -> None:
    done = worker("w1", admitted_copy().finished(), remote_job().complete())
    assert decided(won("w1"), done, is_job_finished=False).status == won("w1").build().status


def test_a_copy_that_is_seen_to_finish_before_its_job_is_seen_waits_for_it() -> None:
    """The two are watched apart: a short job may have ended before the answer to its making is here."""
    done = but(worker("w1", admitted_copy().finished()), asked=ATTEMPT)
    assert decided(won("w1"), done, is_job_finished=False).status == won("w1").build().status
    gone = decided(won("w1"), but(done, asked=""), is_job_finished=False)
    assert gone.status is not None
    assert gone.status.conditions[-1].type == "Finished"


@pytest.mark.parametrize(
    ("minutes", "after"),
    [
        pytest.param(0, 15, id="its news may be late"),
        pytest.param(14, 1, id="until its worker would count as lost"),
        pytest.param(15, None, id="its end is forgotten"),
    ],
)
def test_a_job_that_is_held_under_a_finished_workload_is_given_up(minutes: int, after: int | None) -> None:
    there = replace(held_and_finished(timedelta(minutes=minutes)), read_at=NOW)
    decision = decided(won("w1"), there, is_job_finished=False)
    assert decision.again_after == (timedelta(minutes=after) if after else None)
    assert decision.status is not None
    assert (decision.status.conditions[-1].type == "Finished") is (after is None)


def held_and_finished(since: timedelta) -> Remote:
    copy = admitted_copy().finished(at=NOW - since)
    return worker("w1", copy, remote_job().suspended(), is_held=lambda _job: True)


@pytest.mark.parametrize("read_at", [None, NOW - timedelta(minutes=2)], ids=["never", "before its time had come"])
def test_it_is_read_once_more_before_it_is_given_up(read_at: datetime | None) -> None:
    """Whoever wakes after a long sleep hears of the copy first, and of the job that has ended too a moment later."""
    there = replace(held_and_finished(timedelta(minutes=16)), read_at=read_at)
    decision = decided(won("w1"), there, is_job_finished=False)
    assert told(decision) == ["FindJob w1"]
    assert decision.status == won("w1").build().status


def test_one_that_runs_under_a_finished_workload_is_waited_for() -> None:
    copy = admitted_copy().finished(at=NOW - timedelta(hours=1))
    decision = decided(won("w1"), worker("w1", copy, remote_job()), is_job_finished=False)
    assert (decision.again_after, decision.status) == (None, won("w1").build().status)
    assert told(decision) == [], "nor is it read"


def test_an_end_without_a_time_is_not_waited_for_for_ever() -> None:
    there = held_and_finished(timedelta())
    assert there.workload is not None
    conditions = tuple(
        msgspec.structs.replace(c, last_transition_time=None) if c.type == "Finished" else c
        for c in there.workload.status.conditions
    )
    status = msgspec.structs.replace(there.workload.status, conditions=conditions)
    there = replace(there, workload=msgspec.structs.replace(there.workload, status=status))
    assert told(decided(won("w1"), there, is_job_finished=False)) == ["FindJob w1"]
    read = decided(won("w1"), replace(there, read_at=NOW), is_job_finished=False)
    assert read.status is not None
    assert read.status.conditions[-1].type == "Finished"


@pytest.mark.parametrize("recorded", [None, "w1", "w2"])
@pytest.mark.parametrize("has_check", [True, False], ids=["with our check", "without it"])
@pytest.mark.parametrize("stays", ["", "w1"], ids=["free", "pinned"])
def test_the_record_of_a_win_that_came_too_late_comes_to_rest(
    recorded: str | None, has_check: bool, stays: str
) -> None:
    """Whatever `clusterName` says: it is looked at again at once only after a write that changes something."""
    local = reserved().finished().nominated("w1", "w2")
    local = local if recorded is None else local.cluster_name(recorded)
    more: dict[str, Any] = {"slice": Slice(is_elastic=bool(stays), stays=stays), "is_job_finished": True}
    built = local.build()
    if not has_check:
        built = replace(built, status=replace(built.status, admission_checks=()))
    seen = case_of(local, worker("w1", admitted_copy().finished(), remote_job().complete()), **more)
    for _ in range(4):
        seen = replace(seen, workload=built)
        decision = decide(seen)
        if decision.status is None or decision.status == built.status:
            assert decision.again_after is None or decision.again_after > timedelta()
            return
        built = replace(built, status=decision.status)
    raise AssertionError("does not come to rest")
