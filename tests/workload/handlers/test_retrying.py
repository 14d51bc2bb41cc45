"""The end of an attempt: when the workload is tried again, and what is said of that."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from multikueue.api.kueue.compatibility import Compatibility
from multikueue.api.kueue.workload import FAILED_ON
from multikueue.dispatch.remote import Remote, attempt_of
from multikueue.testing import NOW
from multikueue.workload.phases import Phase
from tests.builders.workloads import JobBuilder
from tests.workload.builders import (
    LATE,
    RESERVED,
    admitted_copy,
    away,
    check_of,
    copy,
    decided,
    pending,
    remote_job,
    reserved,
    unchecked,
    won,
    worker,
)


@pytest.mark.parametrize(
    ("remotes", "now", "message"),
    [
        ((away(worker("w1")),), LATE, 'Admitting remote lost: worker cluster "w1" is out of reach for too long'),
        ((worker("w1"),), NOW, 'Admitting remote no longer exists on worker cluster "w1"'),
        (
            (worker("w1", admitted_copy().evicted(), remote_job()),),
            NOW,
            'Workload evicted on worker cluster: "w1", resetting for re-admission. Previously: "Ready"',
        ),
        (
            (worker("w1", admitted_copy().finished("OutOfSync"), remote_job()),),
            NOW,
            'Remote workload on worker cluster "w1" is out of sync with its user job, resetting for re-dispatch',
        ),
    ],
    ids=["the winner is lost", "the copy is gone", "the worker evicted it", "the end was no result"],
)
def test_the_workload_is_tried_again(remotes: tuple[Remote, ...], now: object, message: str) -> None:
    decision = decided(won("w1"), *remotes, now=now)  # type: ignore[arg-type]
    text = message if "Previously" in message else f'{message}, Previously: "Ready"'
    assert check_of(decision.status) == ("Retry", text)
    assert [event.message for event in decision.events] == [text]


@pytest.mark.parametrize(
    "is_checked", [True, False], ids=["by its check", "without the check, by an eviction of its own"]
)
def test_an_attempt_is_ended_in_one_way(is_checked: bool) -> None:
    local = won("w1") if is_checked else unchecked().cluster_name("w1").nominated()
    status = decided(local, away(worker("w1", admitted_copy(), remote_job())), now=LATE).status
    assert status is not None
    evicted = [each.reason for each in status.conditions if (each.type, each.status) == ("Evicted", "True")]
    assert evicted == ([] if is_checked else ["AdmissionCheck"])
    assert [each.state for each in status.admission_checks] == (["Retry"] if is_checked else [])
    assert status.cluster_name == ("w1" if is_checked else None)


def test_an_eviction_on_the_worker_says_what_was_before_in_every_release() -> None:
    evicted = worker("w1", admitted_copy().evicted(), remote_job())
    messages = {
        check_of(decided(won("w1"), evicted, compatibility=Compatibility.of(release)).status)[1]
        for release in ("0.16", "0.18", "0.19")
    }
    assert messages == {'Workload evicted on worker cluster: "w1", resetting for re-admission. Previously: "Ready"'}


@pytest.mark.parametrize("remotes", [(), (worker("w1"), worker("w2"))], ids=["no worker", "workers without a copy"])
def test_a_check_that_is_ready_without_a_recorded_winner_is_tried_again(remotes: tuple[Remote, ...]) -> None:
    decision = decided(reserved().check("mk", "Ready").admitted(), *remotes)
    text = 'Admission check is Ready but no admitting cluster is recorded, Previously: "Ready"'
    assert (decision.phase, check_of(decision.status)) == (Phase.WINNER_GONE, ("Retry", text))


def test_where_the_attempt_failed_is_noted_before_where_earlier_ones_did() -> None:
    local = won("w1").condition(FAILED_ON, reason="AttemptFailed", message="w2 at 2026-01-01T11:00:00Z")
    status = decided(local, worker("w1")).status
    assert status is not None
    notes = [each.message for each in status.conditions if each.type == FAILED_ON]
    assert notes == ["w1 at 2026-01-01T12:00:00Z; w2 at 2026-01-01T11:00:00Z"]


def test_what_all_nominated_workers_have_deactivated_is_tried_again() -> None:
    refused = copy().evicted("Deactivated")
    local = reserved().nominated("w1", "w2")
    waits = decided(local, worker("w1", refused), worker("w2", copy()))
    assert waits.phase is Phase.NOMINATING
    away_ = decided(local, worker("w1", refused), away(worker("w2", refused)))
    assert away_.phase is Phase.NOMINATING
    over = decided(local, worker("w1", refused), worker("w2", refused))
    message = 'Workload deactivated on worker clusters: "w1, w2", resetting for re-admission, Previously: "Pending"'
    assert (over.phase, check_of(over.status)) == (Phase.DECLINED_BY_ALL, ("Retry", message))


def test_an_attempt_is_given_up_only_when_the_next_can_be_told_from_it() -> None:
    decision = decided(won("w1"), worker("w1"), now=RESERVED + timedelta(seconds=1))
    assert (decision.status, decision.again_after) == (won("w1").build().status, timedelta(seconds=1))
    assert decision.events == ()


def test_a_job_whose_time_is_up_on_its_worker_is_not_given_new_time() -> None:
    over = admitted_copy().evicted("DeactivatedDueToMaximumExecutionTimeExceeded")
    decision = decided(won("w1"), worker("w1", over, remote_job()))
    assert decision.status is not None
    assert check_of(decision.status)[0] == "Ready"
    target = decision.status.conditions[-1]
    assert (target.type, target.status, target.reason) == (
        "DeactivationTarget",
        "True",
        "MaximumExecutionTimeExceeded",
    )
    assert target.message == "exceeding the maximum execution time"
    assert decision.events == ()


def test_a_win_that_is_not_recorded_is_redone() -> None:
    local = reserved().nominated("w1")
    theirs = worker("w1", copy().evicted(), remote_job())
    assert decided(local, theirs).phase is Phase.EVICTED_REMOTELY


ENDS = {
    "for a reason of its own, so that a difference of the job explains nothing": (
        "Whatever",
        remote_job(),
        "ended as Whatever, resetting for re-dispatch",
    ),
    "since its job is another one, with the difference": (
        "OutOfSync",
        remote_job(),
        "is out of sync with its user job, resetting for re-dispatch: spec.suspend",
    ),
    "since its job is another one, which is gone by now": (
        "OutOfSync",
        None,
        "is out of sync with its user job, resetting for re-dispatch",
    ),
}


@pytest.mark.parametrize(("reason", "job", "message"), ENDS.values(), ids=ENDS.keys())
def test_a_copy_that_ended_without_a_result_is_tried_again_with_the_reason(
    reason: str, job: JobBuilder | None, message: str
) -> None:
    over = worker("w1", admitted_copy().finished(reason), job, difference=lambda _job, _copy: "spec.suspend")
    said = f'Remote workload on worker cluster "w1" {message}, Previously: "Ready"'
    assert check_of(decided(won("w1"), over).status) == ("Retry", said)


SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
AHEAD = {
    "a clock that is right": (NOW - SECOND, SECOND),
    "a clock ahead by a moment": (NOW + SECOND, 2 * SECOND),
    "a clock ahead by as much as is believed": (NOW + 2 * SECOND, 2 * SECOND),
    "a clock ahead by more, which says nothing": (NOW + 3 * SECOND, None),
    "a clock ahead by an hour": (NOW + HOUR, None),
}


@pytest.mark.parametrize(("at", "left"), AHEAD.values(), ids=AHEAD.keys())
def test_what_is_left_of_an_attempt_by_the_clock_of_who_reserved(at: datetime, left: timedelta | None) -> None:
    local = pending().reserved("cq", at=at).check(at=NOW).nominated("w1")
    decision = decided(local, worker("w1", copy(attempt_of(local.build())).evicted("Deactivated")), now=NOW)
    assert decision.phase is Phase.DECLINED_BY_ALL
    assert (check_of(decision.status)[0], decision.again_after) == ("Retry" if left is None else "Pending", left)


def test_where_that_clock_says_nothing_the_win_does() -> None:
    local = pending().reserved("cq", at=NOW + HOUR).check("mk", "Ready", at=NOW - SECOND).admitted().cluster_name("w1")
    assert decided(local, worker("w1"), now=NOW).again_after == SECOND
    assert check_of(decided(local, worker("w1"), now=NOW + SECOND).status)[0] == "Retry"
