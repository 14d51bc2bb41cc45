"""Nomination: who gets a copy, what the answer of the strategy leaves in the workload, and answers that are missing."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.workload import FAILED_ON, MAX_CONDITIONS, NOMINATED
from multikueue.api.meta import Condition, find_condition
from multikueue.dispatch.copies.effects import CreateWorkload, DeleteWorkload
from multikueue.dispatch.remote import Reach, Remote
from multikueue.strategy import Fleet, Nomination
from multikueue.strategy import Workload as StrategyWorkload
from multikueue.testing import NOW
from multikueue.workload.case import MAX_NOMINATED
from multikueue.workload.decide import decide, nominate
from multikueue.workload.handlers.outcome import Outcome
from multikueue.workload.phases import Phase
from multikueue.workload.strategy_call import LoadedStrategy, NominationResult
from multikueue_strategies.incremental import Incremental
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import (
    ATTEMPT,
    BOTH,
    EARLIER,
    RESERVED,
    Decided,
    admitted_copy,
    away,
    but,
    carried_out,
    case_of,
    check_of,
    copy,
    decided,
    pending,
    remote_job,
    reserved,
    told,
    unusable,
    with_nomination,
    with_status,
    won,
    worker,
)


def test_who_is_nominated_gets_a_copy_by_the_plan_that_rests_on_it() -> None:
    first = decided(reserved(), *BOTH)
    assert first.status is not None
    assert first.status.nominated_cluster_names == ("w1", "w2")
    assert told(first) == ["CreateWorkload w1", "CreateWorkload w2"]
    second = decided(reserved().nominated("w1", "w2"), *BOTH)
    assert told(second) == ["CreateWorkload w1", "CreateWorkload w2"]
    assert second.status == reserved().nominated("w1", "w2").build().status


def test_a_copy_carries_origin_and_attempt_and_the_very_spec() -> None:
    (create,) = decided(reserved().nominated("w1"), worker("w1")).actions
    assert isinstance(create, CreateWorkload)
    metadata = create.body["metadata"]
    assert metadata["labels"] == {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
    assert metadata["annotations"] == {"multikueue.dev/attempt": ATTEMPT}
    assert bytes(create.body["spec"]) == bytes(reserved().build().spec)
    assert "ownerReferences" not in metadata


def test_a_copy_left_from_an_earlier_attempt_is_removed_and_cannot_win() -> None:
    decision = decided(reserved().nominated("w1"), worker("w1", admitted_copy(EARLIER)))
    assert decision.phase is Phase.NOMINATING
    assert told(decision) == ["DeleteWorkload w1"]


def test_what_is_left_of_a_deleted_workload_of_that_name_is_removed_and_cannot_win() -> None:
    next_attempt = (
        reserved().uid("another").nominated("w1")
    )  # within the second: the times of both reservations are the same
    decision = decided(next_attempt, worker("w1", admitted_copy(), remote_job()))
    assert decision.phase is Phase.NOMINATING
    assert told(decision) == ["DeleteJob w1", "DeleteWorkload w1"]


def test_a_copy_without_a_mark_counts_if_it_is_not_older_than_the_reservation() -> None:
    unmarked = pending().origin().reserved("remote").admitted()
    local = reserved().nominated("w1")
    assert decided(local, worker("w1", unmarked.created(RESERVED))).phase is Phase.ADMITTED
    assert decided(local, worker("w1", unmarked.created(RESERVED - timedelta(seconds=1)))).phase is Phase.NOMINATING


def test_a_worker_that_is_not_nominated_loses_its_copy() -> None:
    fleet = unusable("w1", "cordoned"), unusable("w2", "")
    remotes = worker("w1", copy()), worker("w2", copy())
    assert told(decided(reserved().nominated("w2"), *remotes, fleet=fleet)) == ["DeleteWorkload w1"]


def test_a_nominated_worker_that_goes_away_stays_nominated() -> None:
    decision = decided(reserved().nominated("w1", "w2"), away(worker("w1", copy())), worker("w2", copy()))
    assert decision.status is not None
    assert set(decision.status.nominated_cluster_names) == {"w1", "w2"}


def test_nobody_to_nominate_is_explained() -> None:
    fleet = unusable("w1", "not connected (refused)"), unusable("w2", "cordoned")
    status = decided(reserved(), away(worker("w1")), worker("w2"), fleet=fleet).status
    assert check_of(status) == ("Pending", "No worker can be nominated: w1: not connected (refused), w2: cordoned")


@pytest.mark.parametrize("reason", ["Inadmissible", "Misconfigured", "Suspended"])
def test_an_inadmissible_copy_is_explained_once_it_lasts(reason: str) -> None:
    """The worker's Kueue may say why (the gate UnadmittedWorkloadsObservability)."""
    stuck = copy().condition("QuotaReserved", "False", reason=reason, message="LocalQueue main doesn't exist")
    local, remotes = reserved().nominated("w1", "w2"), (worker("w1", stuck), worker("w2", copy()))
    early = decided(local, *remotes)
    assert check_of(early.status)[1] == ""
    assert early.again_after == timedelta(seconds=5)
    late = decided(local, *remotes, now=NOW + timedelta(seconds=5))
    assert check_of(late.status)[1] == "Waiting for admission; not possible on w1: LocalQueue main doesn't exist"


def test_more_than_twenty_workers_get_copies_though_the_status_holds_twenty() -> None:
    many = tuple(worker(f"w{n}") for n in range(25))
    status = decided(reserved(), *many).status
    assert status is not None
    assert len(status.nominated_cluster_names) == MAX_NOMINATED
    assert len(decided(reserved().nominated(*status.nominated_cluster_names), *many).actions) == 25


def test_one_that_may_hold_a_job_unseen_stays_among_the_twenty_that_the_status_holds() -> None:
    """The nomination is the only trace of that job."""
    many = tuple(worker(f"w{n:02}") for n in range(25))
    unseen = away(but(worker("w99"), is_known=False))
    status = decided(reserved().nominated("w99"), *many, unseen).status
    assert status is not None
    assert "w99" in status.nominated_cluster_names
    assert len(status.nominated_cluster_names) == MAX_NOMINATED


def test_a_strategy_that_raises_hurts_its_own_workload_only() -> None:
    class Broken:
        def nominate(self, workload: StrategyWorkload, fleet: Fleet) -> Nomination:
            raise ValueError("no idea")

    decision = decide(with_nomination(case_of(reserved(), *BOTH), by=LoadedStrategy("broken", Broken())))
    assert check_of(decision.status) == ("Pending", "strategy Broken raised ValueError: no idea")
    assert decision.again_after == timedelta(seconds=30)
    assert [event.reason for event in decision.events] == ["StrategyFailed"]


@dataclass(frozen=True)
class Says:
    """Says what it is told to."""

    nomination: Nomination

    def nominate(self, workload: StrategyWorkload, fleet: Fleet) -> Nomination:
        return self.nomination


def saying(
    local: WorkloadBuilder,
    *remotes: Remote,
    now: datetime = NOW,
    name: str = "one-by-one",
    reads: tuple[str, ...] = (),
    **said: Any,
) -> Decided:
    said["clusters"] = tuple(said.get("clusters", ()))
    by = LoadedStrategy(name, Says(Nomination(**said)), reads=frozenset(reads))
    return carried_out(with_nomination(case_of(local, *remotes, now=now), by=by))


def note(decision: Outcome, type_: str = NOMINATED) -> Condition | None:
    assert decision.status is not None
    return find_condition(decision.status.conditions, type_)


SOON = timedelta(minutes=5)


def test_an_answer_that_asks_to_be_revisited_leaves_a_note_in_the_same_write() -> None:
    decision = saying(reserved(), *BOTH, clusters=["w1"], revisit_after=SOON, reason="Round 1")
    found = note(decision)
    assert found is not None
    assert (found.status, found.reason, found.message) == ("True", "OneByOne", "Round 1")
    assert found.last_transition_time == NOW
    assert decision.again_after == SOON
    assert decision.status is not None
    assert decision.status.nominated_cluster_names == ("w1",)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        pytest.param({"revisit_after": SOON}, "Nominated by the strategy one-by-one", id="it wants to be asked again"),
        pytest.param({"reason": "because"}, "because", id="it has a reason"),
        pytest.param({}, None, id="it has neither: AllAtOnce"),
    ],
)
def test_who_has_nothing_to_remember_leaves_no_note(said: dict[str, Any], message: str | None) -> None:
    found = note(saying(reserved(), *BOTH, clusters=["w1"], **said))
    assert (found.message if found else None) == message


def noted(*names: str, at: datetime) -> WorkloadBuilder:
    return reserved().nominated(*names).condition(NOMINATED, reason="OneByOne", message="Round 1", at=at)


def test_the_time_of_the_note_is_that_of_the_newest_name_and_rounded_up() -> None:
    began, now = NOW - timedelta(minutes=1), NOW + timedelta(milliseconds=1)
    same = note(saying(noted("w1", at=began), *BOTH, now=now, clusters=["w1"], reason="Round 1"))
    assert same is not None
    assert (same.last_transition_time, same.message) == (began, "Round 1")
    fewer = note(saying(noted("w1", "w2", at=began), *BOTH, now=now, clusters=["w1"], reason="less"))
    assert fewer is not None
    assert (fewer.last_transition_time, fewer.message) == (began, "less")
    more = note(saying(noted("w1", at=began), *BOTH, now=now, clusters=["w1", "w2"], reason="more"))
    assert more is not None
    assert more.last_transition_time == NOW + timedelta(seconds=1)


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param({"clusters": []}, id="nobody is nominated any more"),
        pytest.param({"clusters": ["w1"]}, id="the strategy has no more to say"),
    ],
)
def test_the_note_goes_when_there_is_nothing_to_note(gone: dict[str, Any]) -> None:
    assert note(saying(noted("w1", at=NOW), *BOTH, **gone)) is None


def test_the_note_of_somebody_else_who_nominates_stays() -> None:
    """The manager that is Kueue's dispatcher may be another one than that which dispatches in Kueue's place."""
    theirs = noted("w1", at=NOW)
    kept = note(saying(theirs, *BOTH, name="external", clusters=["w1"]))
    assert kept is not None
    assert kept.reason == "OneByOne"
    assert note(saying(theirs, *BOTH, name="external", clusters=["w1", "w2"])) is None
    first = noted(at=NOW)  # names come in another write than the note
    assert note(saying(first, *BOTH, name="external", clusters=[], reason="nobody else has nominated one")) is not None


def test_the_note_of_another_manager_stays_though_its_strategy_has_the_same_name() -> None:
    follower: dict[str, Any] = {"name": "one-by-one", "reads": ("placementdecisions",)}
    assert note(saying(noted("w1", at=NOW), *BOTH, clusters=["w1"], **follower)) is not None
    assert note(saying(noted("w1", at=NOW), *BOTH, clusters=[], **follower)) is None


def test_the_note_goes_with_the_win_and_with_the_quota() -> None:
    local = noted("w1", at=NOW)
    assert note(decided(local, worker("w1", admitted_copy(), remote_job()))) is None
    lost = pending().check().condition(NOMINATED, reason="OneByOne", message="Round 1", at=NOW)
    assert note(decided(lost)) is None


def test_a_note_that_was_left_behind_by_a_win_goes() -> None:
    left = won().condition(NOMINATED, reason="OneByOne", message="Round 1", at=NOW)
    assert note(decided(left, worker("w1", admitted_copy(), remote_job()))) is None


def test_others_conditions_leave_no_room_for_ours_and_stay() -> None:
    local = reserved()
    for number in range(MAX_CONDITIONS - 1):
        local = local.condition(f"example.com/C{number}", reason="R", message="")
    before = local.build().status.conditions
    assert len(before) == MAX_CONDITIONS
    decision = saying(local, *BOTH, clusters=["w1"], reason="no room")
    assert decision.status is not None
    assert decision.status.conditions == before


@pytest.mark.parametrize(
    ("name", "reason"),
    [("all-at-once", "AllAtOnce"), ("x", "X"), ("3-tiers", "Strategy3Tiers"), ("äöü", "Strategy"), ("a.b_c", "ABC")],
)
def test_the_reason_of_the_note_is_a_word_kubernetes_takes(name: str, reason: str) -> None:
    found = note(saying(reserved(), *BOTH, name=name, clusters=["w1"], reason="because"))
    assert found is not None
    assert found.reason == reason


def test_giving_back_asks_for_a_retry_and_blames_no_worker() -> None:
    decision = saying(noted("w1", at=NOW), *BOTH, give_back=True, reason="No worker wants it")
    assert check_of(decision.status) == ("Retry", 'No worker wants it, Previously: "Pending"')
    assert note(decision, FAILED_ON) is None
    silent = saying(reserved(), *BOTH, give_back=True)
    assert check_of(silent.status)[1].startswith("Strategy one-by-one gives the quota back")


def test_beside_kueue_quota_is_not_given_back() -> None:
    local = noted("w1", at=NOW)
    seen = with_nomination(case_of(local, *BOTH), by=LoadedStrategy("x", Says(Nomination(give_back=True))))
    decision = nominate(seen)
    assert (decision.status, decision.events) == (local.build().status, ())


def test_where_an_attempt_ended_is_noted_in_the_write_that_ends_it() -> None:
    evicted = worker("w1", admitted_copy().evicted(), remote_job())
    found = note(decided(won("w1"), evicted), FAILED_ON)
    assert found is not None
    assert (found.status, found.reason, found.message) == ("True", "AttemptFailed", "w1 at 2026-01-01T12:00:00Z")
    before = won("w1").condition(FAILED_ON, reason="AttemptFailed", message="w2 at 2026-01-01T11:00:00Z; rubbish")
    again = note(decided(before, evicted), FAILED_ON)
    assert again is not None
    assert again.message == "w1 at 2026-01-01T12:00:00Z; w2 at 2026-01-01T11:00:00Z"


def test_without_an_answer_everything_stays_as_it_is() -> None:
    decision = carried_out(case_of(reserved().nominated("w1"), worker("w1"), worker("w2", copy())))
    assert (decision.phase, decision.actions) == (Phase.NOMINATING, ())
    assert decision.status == reserved().nominated("w1").build().status


def test_an_answer_about_another_fleet_is_not_acted_on() -> None:
    """An outbox may come before the reconcile has asked again: the copy of a worker that came back must not be removed."""
    local = reserved().nominated("w1", "w2")
    before = with_nomination(case_of(local, worker("w1", copy()), away(worker("w2", copy()))))
    back = replace(
        case_of(local, worker("w1", copy()), worker("w2", copy())), nomination_result=before.nomination_result
    )
    assert told(carried_out(back)) == []


def test_a_failure_says_so_and_takes_nothing_back() -> None:
    local = reserved().nominated("w1")
    decision = saying(local, worker("w1", copy()), worker("w2"), clusters=["nobody"])
    problem = "strategy Says nominated nobody, not in its fleet of w1, w2"
    assert check_of(decision.status) == ("Pending", problem)
    assert (told(decision), decision.again_after) == ([], timedelta(seconds=30))
    assert [(e.type, e.reason, e.message) for e in decision.events] == [("Warning", "StrategyFailed", problem)]


def test_a_choice_that_is_refused_says_so_and_waits() -> None:
    before = with_nomination(case_of(reserved(), *BOTH))
    assert before.nomination_result is not None
    refused = replace(
        before, nomination_result=NominationResult(request=before.nomination_result.request, problem="not allowed")
    )
    decision = carried_out(refused)
    assert check_of(decision.status) == ("Pending", "not allowed")
    assert [event.reason for event in decision.events] == ["StrategyRefused"]
    assert (told(decision), decision.again_after) == ([], None)


def test_no_copy_is_made_where_somebody_elses_object_is_though_a_strategy_names_it() -> None:
    taken = but(worker("w1"), unfit="taken")
    assert told(saying(reserved().nominated("w1"), taken, clusters=["w1"])) == []


def test_rounds_go_on_beyond_what_the_status_holds() -> None:
    names = [f"w{n:02}" for n in range(25)]
    by, local, now = LoadedStrategy("incremental", Incremental(step=3)), reserved(), NOW
    holding: set[str] = set()
    result: NominationResult | None = None
    for _ in range(9):
        for _ in range(2):  # the second look makes the copies
            remotes = [worker(name, copy() if name in holding else None) for name in names]
            seen = with_nomination(replace(case_of(local, *remotes, now=now), nomination_result=result), by=by)
            decision, result = carried_out(seen), seen.nomination_result
            assert decision.status is not None
            local = dataclasses.replace(local, value=with_status(local.build(), decision.status))
        holding |= {action.cluster for action in decision.actions if isinstance(action, CreateWorkload)}
        assert not any(isinstance(action, DeleteWorkload) for action in decision.actions)
        now += SOON
    assert holding == set(names)
    assert local.build().status.nominated_cluster_names == tuple(names[:MAX_NOMINATED])


def test_the_same_workers_in_another_order_are_not_written_again() -> None:
    away = but(worker("w1", copy()), reach=Reach.SUSPECT)
    decision = decided(reserved().nominated("w1", "w2"), away, worker("w2", copy()))
    assert decision.status is not None
    assert decision.status.nominated_cluster_names == ("w1", "w2")


def test_a_worker_passed_over_is_looked_at_again_when_that_ends() -> None:
    until = NOW + timedelta(minutes=5)
    taken = but(worker("w1"), unfit="taken", until=until)
    assert decided(reserved(), taken).again_after == timedelta(minutes=5)
    assert decided(reserved(), but(taken, unfit="taken")).again_after is None


def test_a_priority_is_changed_in_place() -> None:
    local = reserved().priority(9, workload_class="high").nominated("w1")
    theirs = copy().priority(1, workload_class="low")
    assert told(decided(local, worker("w1", theirs))) == ["PatchWorkload w1"]


def test_any_other_difference_makes_a_new_copy() -> None:
    assert told(decided(reserved().nominated("w1"), worker("w1", copy().request(cpu=7)))) == ["DeleteWorkload w1"]


def test_a_suspect_worker_keeps_its_copy() -> None:
    suspect = away(worker("w1", copy()), reach=Reach.SUSPECT)
    assert told(decided(reserved().nominated("w1"), suspect)) == []
