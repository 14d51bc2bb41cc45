"""The winner: how a worker wins, its job, the record of the win, and what it keeps."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from multikueue.api.kubernetes.event import Event
from multikueue.dispatch.copies.effects import CreateJob, DeleteJob, DeleteWorkload
from multikueue.dispatch.copies.plan import Running
from multikueue.dispatch.remote import Asked, Remote
from multikueue.dispatch.slices import NO_SLICE, Slice
from multikueue.testing import NOW
from multikueue.workload.case import MAX_NOMINATED
from multikueue.workload.decide import decide
from multikueue.workload.handlers.winning import record_win
from multikueue.workload.phases import Phase
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import (
    ATTEMPT,
    EARLIER,
    LATE,
    admitted_copy,
    away,
    but,
    carried_out,
    case_of,
    check_of,
    copy,
    decided,
    remote_job,
    reserved,
    told,
    unchecked,
    with_status,
    won,
    worker,
)


@pytest.mark.parametrize(
    "w1",
    [
        worker("w1", admitted_copy(), remote_job()),
        but(worker("w1", admitted_copy(), remote_job()), is_incomplete=True),
        away(worker("w1", admitted_copy(), remote_job())),
    ],
    ids=["it runs", "a part of it is missing", "its worker is away"],
)
def test_a_job_that_lost_its_check_stays_where_it_is(w1: Remote) -> None:
    """Recorded at once: Admitted without a cluster, it would be stopped, or start here too."""
    decision = decided(unchecked(), w1, worker("w2", copy()))

    assert decision.status is not None
    assert (decision.status.cluster_name, decision.status.nominated_cluster_names) == ("w1", ())
    assert told(decision) == ["DeleteWorkload w2"]
    later = decided(unchecked().nominated().admitted().cluster_name("w1"), w1)
    assert later.phase in (Phase.ADMITTED, Phase.WINNER_UNREACHABLE)
    assert not any(isinstance(action, DeleteJob | DeleteWorkload) for action in later.actions)


def test_a_job_that_was_asked_for_when_its_check_went_is_asked_for_again() -> None:
    """It is recorded once it is seen: a win without a job would be Ready with the check, and be nowhere."""
    asked = but(worker("w1", admitted_copy()), asked=ATTEMPT, until=NOW + timedelta(seconds=70))
    decision = decided(unchecked(), asked, worker("w2", copy()))

    assert decision.status is not None
    assert decision.status.cluster_name is None
    assert told(decision) == ["CreateJob w1", "DeleteWorkload w2"]


def test_the_first_to_admit_wins_and_losers_go_first() -> None:
    w1, w2 = worker("w1", admitted_copy(at=NOW + timedelta(seconds=1))), worker("w2", admitted_copy())
    assert told(decided(reserved().nominated("w1", "w2"), w1, w2)) == ["DeleteWorkload w1", "CreateJob w2"]


def test_no_job_is_made_of_one_that_kueue_has_not_stopped_wholly() -> None:
    """What its start wrote into it, and the mark that it is being stopped, would have the worker never start it."""
    local, w1, w2 = reserved().nominated("w1", "w2"), worker("w1"), worker("w2", admitted_copy())
    assert told(decided(local, w1, w2, may_copy_job=False)) == []
    assert told(decided(local, w1, w2)) == ["CreateJob w2"]


def test_a_tie_goes_by_the_order_of_the_configuration() -> None:
    w1, w2 = worker("w1", admitted_copy()), worker("w2", admitted_copy())
    assert told(decided(reserved().nominated("w2", "w1"), w2, w1)) == ["CreateJob w2", "DeleteWorkload w1"]


def test_a_copy_out_of_step_stays_with_the_win_that_is_written() -> None:
    drifted = worker("w1", admitted_copy().request(cpu=7), remote_job())
    decision = decided(reserved().nominated("w1"), drifted)
    assert check_of(decision.status)[0] == "Ready"
    assert told(decision) == []


def test_the_win_is_one_write_once_the_job_exists() -> None:
    status = decided(reserved().nominated("w1", "w2"), worker("w1", admitted_copy(), remote_job())).status
    assert status is not None
    assert (status.cluster_name, status.nominated_cluster_names) == ("w1", ())
    assert check_of(status) == ("Ready", 'The workload was admitted on "w1"')


def test_a_win_is_told_once_with_the_write_that_says_so() -> None:
    """As Kueue's own MultiKueue does (contract 6.2)."""
    won = worker("w1", admitted_copy(), remote_job())
    first = decided(reserved().nominated("w1"), won)
    assert first.events == (Event("Normal", "MultiKueue", 'The workload was admitted on "w1"', is_routine=True),)
    settled = replace(case_of(reserved().nominated("w1"), won), workload=with_status(reserved().build(), first.status))
    assert decide(settled).events == ()
    stale = decided(reserved().cluster_name("w2"), won, worker("w2"))
    assert (check_of(stale.status)[0], stale.events) == ("Pending", ())


def test_late_news_of_an_earlier_admission_does_not_turn_the_choice_around() -> None:
    """Losers are being removed already: turning around would leave nobody."""
    w1, w2 = worker("w1", admitted_copy()), worker("w2", admitted_copy(at=NOW + timedelta(seconds=1)))
    local = reserved().nominated("w1", "w2")
    assert told(decided(local, w1, w2, choice="w2")) == ["DeleteWorkload w1", "CreateJob w2"]
    evicted = worker("w2", copy().evicted())
    assert told(decided(local, w1, evicted, choice="w2")) == ["CreateJob w1", "DeleteWorkload w2"]


def test_a_worker_that_gave_no_answer_is_not_waited_for() -> None:
    silent = but(worker("w1", admitted_copy()), is_silent=True)
    w2 = worker("w2", admitted_copy(at=NOW + timedelta(seconds=1)))
    local = reserved().nominated("w1", "w2")
    assert told(decided(local, silent, w2, choice="w1")) == ["DeleteWorkload w1", "CreateJob w2"]
    assert told(decided(local, silent, worker("w2"), choice="w1")) == ["CreateWorkload w2"]


@pytest.mark.parametrize(
    "local",
    [reserved().nominated("w1", "w2"), won("w1")],
    ids=["it may hold the job", "it is recorded"],
)
def test_a_silent_worker_keeps_what_it_has(local: WorkloadBuilder) -> None:
    held = but(worker("w1", admitted_copy(), remote_job()), is_silent=True)
    assert told(decided(local, held, worker("w2", admitted_copy()))) == ["DeleteWorkload w2"]
    asked = but(worker("w1", admitted_copy()), is_silent=True, asked=ATTEMPT)
    assert "CreateJob w2" not in told(decided(local, asked, worker("w2", admitted_copy())))


def test_a_worker_that_only_reserved_has_not_won() -> None:
    assert decided(reserved(), worker("w1", copy().reserved("remote"))).phase is Phase.NOMINATING


def test_a_foreign_object_makes_the_next_worker_win() -> None:
    taken = but(worker("w1", admitted_copy()), unfit="Job default/job is there and not ours")
    decision = decided(reserved().nominated("w1", "w2"), taken, worker("w2"))
    assert told(decision) == ["DeleteWorkload w1", "CreateWorkload w2"]
    assert decision.status is not None
    assert decision.status.nominated_cluster_names == ("w2",)


def test_a_returning_worker_with_an_older_admission_loses() -> None:
    older = worker("w2", admitted_copy(at=NOW - timedelta(minutes=5)), remote_job())
    decision = decided(won("w1"), worker("w1", admitted_copy(), remote_job()), older)
    assert told(decision) == ["DeleteJob w2", "DeleteWorkload w2"]
    assert decision.status == won("w1").build().status


@pytest.mark.parametrize("local", [reserved().nominated("w1"), won()], ids=["before the win is told", "after it"])
def test_what_is_missing_of_a_job_of_several_objects_is_made(local: WorkloadBuilder) -> None:
    whole = worker("w1", admitted_copy(), remote_job())

    assert told(decided(local, but(whole, is_incomplete=True))) == ["CreateJob w1"]
    assert told(decided(local, whole)) == []


@pytest.mark.parametrize(
    ("local", "done"),
    [(reserved().nominated("w1"), ["DeleteJob w1"]), (won(), [])],
    ids=["it goes elsewhere", "unless it runs there"],
)
def test_where_a_job_cannot_be_whole_nothing_is_tried_at_once(local: WorkloadBuilder, done: list[str]) -> None:
    until = NOW + timedelta(minutes=1)
    partial = worker("w1", admitted_copy(), remote_job(), is_incomplete=True, unfit="refused", until=until)
    decision = decided(local, partial)

    assert told(decision) == done
    assert decision.again_after == timedelta(minutes=1)


def test_the_job_of_a_predecessor_is_adopted() -> None:
    w1 = worker("w1", admitted_copy(at=NOW + timedelta(seconds=9)), remote_job())
    decision = decided(reserved().nominated("w1", "w2"), worker("w2", admitted_copy()), w1)
    assert told(decision) == ["DeleteWorkload w2"]
    assert decision.status is not None
    assert decision.status.cluster_name == "w1"


def test_a_worker_that_was_withdrawn_wins_no_more_though_it_has_the_job() -> None:
    """Somebody else nominates, and Kueue's webhook refuses the win of who is not nominated. Its job goes before another
    is made."""
    withdrawn = worker("w1", admitted_copy(), remote_job())
    decision = decided(reserved().nominated("w2"), withdrawn, worker("w2", admitted_copy()))
    assert decision.status is not None
    assert decision.status.cluster_name is None
    assert told(decision) == ["DeleteJob w1", "DeleteWorkload w1"]
    asked = but(worker("w1", admitted_copy()), asked=ATTEMPT)
    assert "CreateJob w2" not in told(decided(reserved().nominated("w2"), asked, worker("w2", admitted_copy())))


def test_a_worker_that_may_have_got_the_job_is_the_winner_though_it_is_away() -> None:
    asked = away(but(worker("w1", admitted_copy()), asked=ATTEMPT))
    local = reserved().nominated("w1", "w2")
    decision = decided(local, asked, worker("w2", admitted_copy()))
    assert decision.phase is Phase.WINNER_UNREACHABLE
    assert not any(isinstance(action, CreateJob) for action in decision.actions)
    assert decided(local, asked, worker("w2"), now=LATE).phase is Phase.WINNER_LOST


def test_a_job_that_is_still_wanted_is_asked_for_again_at_once() -> None:
    asked = but(worker("w1", admitted_copy()), asked=ATTEMPT, until=NOW + timedelta(seconds=70))
    assert told(decided(reserved().nominated("w1"), asked)) == ["CreateJob w1"]


@pytest.mark.parametrize(
    ("ago", "actions", "left"),
    [
        pytest.param(29, ["CreateJob w1"], 1, id="for half a minute"),
        pytest.param(30, [], 70, id="and then no more, so that it is read once nothing can come"),
    ],
)
def test_a_job_is_asked_for_again(ago: int, actions: list[str], left: int) -> None:
    asked = Asked(ATTEMPT, NOW + timedelta(seconds=70), NOW - timedelta(seconds=ago), why="500 InternalError")
    decision = decided(reserved().nominated("w1"), replace(worker("w1", admitted_copy()), asked=asked))
    assert told(decision) == actions
    assert decision.again_after == timedelta(seconds=left)


def test_a_stale_job_that_is_out_of_reach_is_waited_for() -> None:
    left = away(worker("w2", None, remote_job(EARLIER)))
    decision = decided(reserved().nominated("w1"), worker("w1", admitted_copy()), left)
    assert (told(decision), decision.again_after) == ([], timedelta(minutes=15))


STALE = {
    "on the winner": ((worker("w1", admitted_copy(), remote_job(EARLIER)),), ["DeleteJob w1"]),
    "on the winner, and in part": (
        (worker("w1", admitted_copy(), remote_job(EARLIER), is_incomplete=True),),
        ["DeleteJob w1"],
    ),
    "on another worker": ((worker("w1", admitted_copy()), worker("w2", None, remote_job(EARLIER))), ["DeleteJob w2"]),
}


@pytest.mark.parametrize(("remotes", "actions"), STALE.values(), ids=STALE)
def test_a_stale_job_in_the_way_is_removed_first(remotes: tuple[Remote, ...], actions: list[str]) -> None:
    assert told(decided(reserved().nominated("w1"), *remotes)) == actions


def test_a_stale_job_that_does_not_go_is_told_a_minute_after_the_reservation() -> None:
    local = reserved().nominated("w1")
    since = local.build().condition("QuotaReserved")
    assert since is not None
    assert since.last_transition_time is not None
    soon, late = (
        decided(local, *STALE["on another worker"][0], now=since.last_transition_time + timedelta(seconds=after))
        for after in (59, 61)
    )
    assert (soon.events, [event.type for event in late.events]) == ((), ["Warning"])
    assert "left of an earlier attempt" in check_of(late.status)[1]


def test_a_check_that_is_added_again_is_ready_where_the_job_runs() -> None:
    runs = worker("w1", admitted_copy(), remote_job())
    decision = decided(reserved().admitted().cluster_name("w1"), runs)
    assert (check_of(decision.status)[0], told(decision)) == ("Ready", [])


def test_the_winner_is_never_replaced_for_drift() -> None:
    assert told(decided(won("w1"), worker("w1", admitted_copy().request(cpu=7), remote_job()))) == []


NAMES = tuple(f"n{number}" for number in range(MAX_NOMINATED))


@pytest.mark.parametrize(
    ("named", "is_enough"),
    [
        pytest.param(("w1",), True, id="it is recorded"),
        pytest.param(("w1", *NAMES[1:]), True, id="so many are, and it is one of them"),
        pytest.param(NAMES, False, id="so many others are"),
    ],
)
def test_a_winner_is_recorded_as_nominated_before_it_gets_the_job_and_before_its_win(
    named: tuple[str, ...], is_enough: bool
) -> None:
    local, recorded = reserved().nominated(*named), (*NAMES[:-1], "w1")
    before = decided(local, worker("w1", admitted_copy()))
    assert any(isinstance(each, Running) for each in before.desired) is is_enough
    there = decided(local, worker("w1", admitted_copy(), remote_job()))
    assert there.status is not None
    assert there.status.cluster_name == ("w1" if is_enough else None)
    if not is_enough:
        for each in (before, there):
            assert each.status is not None
            assert (each.status.nominated_cluster_names, each.again_after) == (recorded, timedelta())


@pytest.mark.parametrize(
    ("local", "cluster", "again"),
    [
        pytest.param(reserved().nominated("w1"), "w1", None, id="it was nominated"),
        pytest.param(reserved().nominated("w2"), "w1", None, id="others were, and there is place for one more"),
        pytest.param(reserved().cluster_name("w2").nominated("w1"), None, timedelta(), id="another name goes first"),
        pytest.param(reserved().cluster_name("w1").nominated("w1"), "w1", None, id="its own name stays"),
    ],
)
def test_a_win_is_recorded_in_one_write_unless_another_one_is(
    local: WorkloadBuilder, cluster: str | None, again: timedelta | None
) -> None:
    """Kueue's webhook lets `clusterName` change to nothing, and not to another name."""
    asked = but(worker("w1", admitted_copy(), remote_job()), asked=ATTEMPT, until=NOW + timedelta(seconds=70))
    outcome = record_win(case_of(local, asked), ())
    assert outcome.status is not None
    assert (outcome.status.cluster_name, outcome.again_after) == (cluster, again)


PINNED = Slice(is_elastic=True, stays="w1")


@pytest.mark.parametrize(
    ("is_inherited", "slice_", "may_copy", "expected"),
    [
        pytest.param(True, PINNED, False, [], id="the job of the slice before is taken over"),
        pytest.param(False, PINNED, True, ["DeleteJob w1"], id="one that is left of an attempt is removed"),
        pytest.param(True, NO_SLICE, True, ["DeleteJob w1"], id="so is that of a slice which is none any more"),
    ],
)
def test_what_runs_where_a_slice_is_admitted(
    is_inherited: bool, slice_: Slice, may_copy: bool, expected: list[str]
) -> None:
    there = but(worker("w1", admitted_copy(), remote_job(EARLIER)), is_inherited=is_inherited)
    case = case_of(reserved().nominated("w1"), there, may_copy_job=may_copy, slice=slice_)
    assert told(carried_out(case)) == expected


@pytest.mark.parametrize(
    ("slice_", "may_copy", "state", "actions"),
    [
        pytest.param(PINNED, False, "Retry", [], id="a slice whose job is gone starts over"),
        pytest.param(PINNED, True, "Pending", ["CreateJob w1"], id="one whose job stands still is made there"),
        pytest.param(NO_SLICE, False, "Pending", [], id="a job that has not stopped is waited for"),
    ],
)
def test_a_job_that_is_not_there_is_made_only_of_one_that_stands_still(
    slice_: Slice, may_copy: bool, state: str, actions: list[str]
) -> None:
    case = case_of(reserved().nominated("w1"), worker("w1", admitted_copy()), may_copy_job=may_copy, slice=slice_)
    decision = carried_out(case)
    assert told(decision) == actions
    assert check_of(decision.status or case.local.status)[0] == state
