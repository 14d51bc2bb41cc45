"""The decision, branch by branch of contract section 3: one file, the table of its phases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.compatibility import Compatibility, Release
from multikueue.api.kueue.workload import (
    FAILED_ON,
    MAX_CONDITIONS,
    NOMINATED,
    QUOTA_RESERVED,
    UNDISPATCHABLE_ANNOTATION,
    Workload,
    WorkloadStatus,
)
from multikueue.api.meta import Condition, find_condition
from multikueue.dispatch.consult import Answer, Chosen
from multikueue.dispatch.copies.actions import CreateJob, CreateWorkload, DeleteJob, DeleteWorkload
from multikueue.dispatch.decide import Decision, decide, nominate
from multikueue.dispatch.group.group import MAX_NOMINATED, Reach, Remote
from multikueue.dispatch.group.phases import Phase
from multikueue.dispatch.handlers.evicting import is_holding
from multikueue.strategy import Fleet, Nomination
from multikueue.strategy import Workload as StrategyWorkload
from multikueue.testing import NOW, workload
from multikueue.testing.workloads import WorkloadBuilder
from strategies.incremental import Incremental
from tests.dispatch.builders import (
    ATTEMPT,
    EARLIER,
    RESERVED,
    Decided,
    admitted_copy,
    away,
    but,
    carried_out,
    consulted,
    copy,
    decided,
    group,
    pending,
    remote_job,
    reserved,
    told,
    unusable,
    won,
    worker,
)

BOTH = (worker("w1"), worker("w2"))
LATE = NOW + timedelta(minutes=16)


def check_of(status: WorkloadStatus | None) -> tuple[str, str]:
    assert status is not None
    return status.admission_checks[0].state, status.admission_checks[0].message


def unchecked() -> WorkloadBuilder:
    """A workload that was nominated, and whose ClusterQueue has dropped the check since."""
    return pending().reserved("cq", at=RESERVED).nominated("w1", "w2")


PHASES = {
    "a deleted workload is gone": (Phase.GONE, None, ()),
    "a workload without our check is not ours": (Phase.UNCHECKED, pending().reserved("cq"), ()),
    "one whose check is gone before any worker was asked for its job": (
        Phase.UNCHECKED,
        unchecked(),
        (worker("w1", admitted_copy()),),
    ),
    "one whose check is gone, and which a worker runs": (
        Phase.UNRECORDED,
        unchecked(),
        (worker("w1", admitted_copy(), remote_job()),),
    ),
    "one whose check is gone, and which has ended": (
        Phase.UNRECORDED,
        unchecked(),
        (worker("w1", admitted_copy().finished(), remote_job()),),
    ),
    "one whose check is gone, and whose job was asked for": (
        Phase.ADMITTED,
        unchecked(),
        (but(worker("w1", admitted_copy()), asked=ATTEMPT),),
    ),
    "one whose check is gone, and whose worker is away": (
        Phase.UNRECORDED,
        unchecked(),
        (away(worker("w1", admitted_copy(), remote_job())),),
    ),
    "a finished workload stays finished": (Phase.FINISHED, won().finished(), ()),
    "no quota, no copies": (Phase.UNRESERVED, pending().check(), ()),
    "a rejected check": (Phase.REJECTED, reserved().check("mk", "Rejected"), ()),
    "evicted on the manager": (Phase.EVICTED, won().evicted(), ()),
    "a retry waits for its eviction": (Phase.RETRY_PENDING, reserved().check("mk", "Retry"), ()),
    "copies are out and none is admitted": (Phase.NOMINATING, reserved(), (worker("w1", copy()),)),
    "all who were asked have deactivated it": (
        Phase.DECLINED_BY_ALL,
        reserved().nominated("w1"),
        (worker("w1", copy().evicted("Deactivated")),),
    ),
    "another check is not ready": (Phase.WAITING, reserved().check("other"), BOTH),
    "one admitted": (Phase.ADMITTED, reserved().nominated("w1"), (worker("w1", admitted_copy()),)),
    "one admitted that is being withdrawn": (
        Phase.NOMINATING,
        reserved().nominated("w2"),
        (worker("w1", admitted_copy()), worker("w2")),
    ),
    "the winner finished": (Phase.COMPLETING, won(), (worker("w1", admitted_copy().finished(), remote_job()),)),
    "the winner ended out of sync": (Phase.OUT_OF_SYNC, won(), (worker("w1", admitted_copy().finished("OutOfSync")),)),
    "the winner evicted it": (Phase.EVICTED_REMOTELY, won(), (worker("w1", copy().evicted(), remote_job()),)),
    "the winner's copy is gone": (Phase.WINNER_GONE, won(), BOTH),
    "the winner's job is gone": (Phase.WINNER_GONE, won(), (worker("w1", admitted_copy()),)),
    "Ready without a recorded winner": (Phase.WINNER_GONE, reserved().check("mk", "Ready"), BOTH),
    "the winner is away": (Phase.WINNER_UNREACHABLE, won(), (away(worker("w1", admitted_copy(), remote_job())),)),
    "the winner is away for too long": (
        Phase.WINNER_LOST,
        won(),
        (away(worker("w1"), since=NOW - timedelta(hours=1)),),
    ),
}


@pytest.mark.parametrize(("phase", "local", "remotes"), PHASES.values(), ids=PHASES.keys())
def test_phase(phase: Phase, local: WorkloadBuilder | None, remotes: tuple[Remote, ...]) -> None:
    assert decided(local, *remotes).phase is phase


@pytest.mark.parametrize(
    "w1",
    [
        worker("w1", admitted_copy(), remote_job()),
        but(worker("w1", admitted_copy(), remote_job()), incomplete=True),
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


OF_SLICES = {Phase.SLICE_TOO_EARLY, Phase.SLICE_PINNED, Phase.SLICE_PIN_LOST}
"""Those are in a table of their own (test_slices), and so is FITS_NOWHERE (test_fit)."""


def test_every_phase_is_in_the_table() -> None:
    others = {Phase.UNDISPATCHABLE, Phase.UNREADABLE, Phase.FITS_NOWHERE, Phase.READMITTED, *OF_SLICES}
    assert {phase for phase, *_ in PHASES.values()} | others == set(Phase)


@pytest.mark.parametrize("local", [None, won()], ids=["it never was", "it was once"])
def test_a_workload_that_cannot_be_read_is_left_as_it_is(local: WorkloadBuilder | None) -> None:
    w1, asked = worker("w1", admitted_copy(), remote_job()), but(worker("w2"), asked=ATTEMPT)
    decision = decided(local, w1, asked, hidden=True)
    assert (decision.phase, decision.actions) == (Phase.UNREADABLE, ())
    assert decision.status == (local.build().status if local else None)


CLEANED = {
    "deleted": None,
    "finished": won().finished(),
    "without quota": pending().check(),
    "rejected": reserved().check("mk", "Rejected"),
    "waiting for another check": reserved().check("other"),
}


@pytest.mark.parametrize("local", CLEANED.values(), ids=CLEANED.keys())
def test_everything_is_removed_job_first(local: WorkloadBuilder | None) -> None:
    stale = replace(worker("w1", copy(EARLIER), remote_job(EARLIER)), configured=False)
    assert told(decided(local, stale)) == ["DeleteJob w1", "DeleteWorkload w1"]


def test_what_is_being_deleted_is_not_deleted_again() -> None:
    leaving = worker("w1", copy().deleted(), remote_job().deleted())
    assert told(decided(None, leaving)) == []


def test_an_unreachable_worker_is_asked_nothing() -> None:
    assert told(decided(None, away(worker("w1", copy(), remote_job())))) == []


def test_without_quota_nothing_stays_recorded() -> None:
    status = decided(pending().check().cluster_name("w1")).status
    assert status is not None
    assert (status.cluster_name, status.nominated_cluster_names) == (None, ())


# Nomination.


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
    anew = reserved().uid("another").nominated("w1")  # within the second: the times of both reservations are the same
    decision = decided(anew, worker("w1", admitted_copy(), remote_job()))
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


@pytest.mark.parametrize("reach", [Reach.CONNECTED, Reach.ISOLATED], ids=["while it answers", "while it is away"])
def test_what_the_winner_holds_is_not_removed_where_another_name_leads_to_it(reach: Reach) -> None:
    winner = worker("w1", admitted_copy(), remote_job())
    alias = replace(winner, cluster="alias")
    seen = away(winner) if reach is Reach.ISOLATED else winner
    loser = worker("w2", copy())
    assert told(decided(won(), seen, alias, loser)) == ["DeleteWorkload w2"]


def test_a_nominated_worker_that_goes_away_stays_nominated() -> None:
    decision = decided(reserved().nominated("w1", "w2"), away(worker("w1", copy())), worker("w2", copy()))
    assert decision.status is not None
    assert set(decision.status.nominated_cluster_names) == {"w1", "w2"}


def test_nobody_to_nominate_is_explained() -> None:
    fleet = unusable("w1", "not connected (refused)"), unusable("w2", "cordoned")
    status = decided(reserved(), away(worker("w1")), worker("w2"), fleet=fleet).status
    assert check_of(status) == ("Pending", "No worker can be nominated: w1: not connected (refused), w2: cordoned")


def test_an_inadmissible_copy_is_explained_once_it_lasts() -> None:
    stuck = copy().condition("QuotaReserved", "False", reason="Inadmissible", message="LocalQueue main doesn't exist")
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
    unseen = away(but(worker("w99"), known=False))
    status = decided(reserved().nominated("w99"), *many, unseen).status
    assert status is not None
    assert "w99" in status.nominated_cluster_names
    assert len(status.nominated_cluster_names) == MAX_NOMINATED


def test_a_strategy_that_raises_hurts_its_own_workload_only() -> None:
    class Broken:
        def nominate(self, workload: StrategyWorkload, fleet: Fleet) -> Nomination:
            raise ValueError("no idea")

    decision = decide(consulted(group(reserved(), *BOTH), by=Chosen("broken", Broken())), NOW)
    assert check_of(decision.status) == ("Pending", "strategy Broken raised ValueError: no idea")
    assert decision.again_after == timedelta(seconds=30)
    assert [event.reason for event in decision.events] == ["StrategyFailed"]


# What the strategy's answer leaves in the workload.


@dataclass(frozen=True)
class Says:
    """Says what it is told to."""

    nomination: Nomination

    def nominate(self, workload: StrategyWorkload, fleet: Fleet) -> Nomination:
        return self.nomination


def saying(
    local: WorkloadBuilder, *remotes: Remote, now: datetime = NOW, name: str = "one-by-one", **said: Any
) -> Decided:
    said["clusters"] = tuple(said.get("clusters", ()))
    return carried_out(consulted(group(local, *remotes), now, by=Chosen(name, Says(Nomination(**said)))), now)


def note(decision: Decision, type_: str = NOMINATED) -> Condition | None:
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
    seen = consulted(group(local, *BOTH), by=Chosen("x", Says(Nomination(give_back=True))))
    decision = nominate(seen, NOW)
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


# Answers that are missing, late, or refused.


def test_without_an_answer_everything_stays_as_it_is() -> None:
    decision = carried_out(group(reserved().nominated("w1"), worker("w1"), worker("w2", copy())), NOW)
    assert (decision.phase, decision.actions) == (Phase.NOMINATING, ())
    assert decision.status == reserved().nominated("w1").build().status


def test_an_answer_about_another_fleet_is_not_acted_on() -> None:
    """An outbox may come before the reconcile has asked anew: the copy of a worker that came back must not be removed."""
    local = reserved().nominated("w1", "w2")
    before = consulted(group(local, worker("w1", copy()), away(worker("w2", copy()))))
    back = replace(group(local, worker("w1", copy()), worker("w2", copy())), answer=before.answer)
    assert told(carried_out(back, NOW)) == []


def test_a_failure_says_so_and_takes_nothing_back() -> None:
    local = reserved().nominated("w1")
    decision = saying(local, worker("w1", copy()), worker("w2"), clusters=["nobody"])
    problem = "strategy Says nominated nobody, not in its fleet of w1, w2"
    assert check_of(decision.status) == ("Pending", problem)
    assert (told(decision), decision.again_after) == ([], timedelta(seconds=30))
    assert [(e.type, e.reason, e.message) for e in decision.events] == [("Warning", "StrategyFailed", problem)]


def test_a_choice_that_is_refused_says_so_and_waits() -> None:
    asked = consulted(group(reserved(), *BOTH))
    assert asked.answer is not None
    refused = replace(asked, answer=Answer(question=asked.answer.question, problem="not allowed"))
    decision = carried_out(refused, NOW)
    assert check_of(decision.status) == ("Pending", "not allowed")
    assert [event.reason for event in decision.events] == ["StrategyRefused"]
    assert (told(decision), decision.again_after) == ([], None)


def test_no_copy_is_made_where_somebody_elses_object_is_though_a_strategy_names_it() -> None:
    taken = but(worker("w1"), unfit="taken")
    assert told(saying(reserved().nominated("w1"), taken, clusters=["w1"])) == []


def test_rounds_go_on_beyond_what_the_status_holds() -> None:
    names = [f"w{n:02}" for n in range(25)]
    by, local, now = Chosen("incremental", Incremental(step=3)), reserved(), NOW
    holding: set[str] = set()
    answer: Answer | None = None
    for _ in range(9):
        for _ in range(2):  # the second look makes the copies
            remotes = [worker(name, copy() if name in holding else None) for name in names]
            seen = consulted(replace(group(local, *remotes), answer=answer), now, by=by)
            decision, answer = carried_out(seen, now), seen.answer
            assert decision.status is not None
            local = replace(local, value=_with(local.build(), decision.status))
        holding |= {action.cluster for action in decision.actions if isinstance(action, CreateWorkload)}
        assert not any(isinstance(action, DeleteWorkload) for action in decision.actions)
        now += SOON
    assert holding == set(names)
    assert local.build().status.nominated_cluster_names == tuple(names[:MAX_NOMINATED])


# The race.


def test_the_first_to_admit_wins_and_losers_go_first() -> None:
    w1, w2 = worker("w1", admitted_copy(at=NOW + timedelta(seconds=1))), worker("w2", admitted_copy())
    assert told(decided(reserved().nominated("w1", "w2"), w1, w2)) == ["DeleteWorkload w1", "CreateJob w2"]


def test_no_job_is_made_of_one_that_kueue_has_not_stopped_wholly() -> None:
    """What its start wrote into it, and the mark that it is being stopped, would have the worker never start it."""
    local, w1, w2 = reserved().nominated("w1", "w2"), worker("w1"), worker("w2", admitted_copy())
    assert told(decided(local, w1, w2, job_may_be_copied=False)) == []
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
    assert first.events == (Event("Normal", "MultiKueue", 'The workload was admitted on "w1"', of_each=True),)
    settled = replace(group(reserved().nominated("w1"), won), local=_with(reserved().build(), first.status))
    assert decide(settled, NOW).events == ()
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
    silent = but(worker("w1", admitted_copy()), silent=True)
    w2 = worker("w2", admitted_copy(at=NOW + timedelta(seconds=1)))
    local = reserved().nominated("w1", "w2")
    assert told(decided(local, silent, w2, choice="w1")) == ["DeleteWorkload w1", "CreateJob w2"]
    assert told(decided(local, silent, worker("w2"), choice="w1")) == ["CreateWorkload w2"]
    assert told(carried_out(group(local, silent, w2, choice="w1"), NOW)) == [], "nor is it asked before that is chosen"


@pytest.mark.parametrize(
    "local",
    [reserved().nominated("w1", "w2"), won("w1")],
    ids=["it may hold the job", "it is recorded"],
)
def test_a_silent_worker_keeps_what_it_has(local: WorkloadBuilder) -> None:
    held = but(worker("w1", admitted_copy(), remote_job()), silent=True)
    assert told(decided(local, held, worker("w2", admitted_copy()))) == ["DeleteWorkload w2"]
    asked = but(worker("w1", admitted_copy()), silent=True, asked=ATTEMPT)
    assert "CreateJob w2" not in told(decided(local, asked, worker("w2", admitted_copy())))


def test_the_decision_does_not_choose() -> None:
    decision = carried_out(group(reserved().nominated("w1"), worker("w1", admitted_copy())), NOW)
    assert (decision.phase, told(decision)) == (Phase.NOMINATING, [])


def test_a_worker_that_only_reserved_has_not_won() -> None:
    assert decided(reserved(), worker("w1", copy().reserved("remote"))).phase is Phase.NOMINATING


def test_a_foreign_object_makes_the_next_worker_win() -> None:
    taken = but(worker("w1", admitted_copy()), unfit="Job default/job is there and not ours")
    decision = decided(reserved().nominated("w1", "w2"), taken, worker("w2"))
    assert told(decision) == ["DeleteWorkload w1", "CreateWorkload w2"]
    assert decision.status is not None
    assert decision.status.nominated_cluster_names == ("w2",)


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


def test_a_returning_worker_with_an_older_admission_loses() -> None:
    older = worker("w2", admitted_copy(at=NOW - timedelta(minutes=5)), remote_job())
    decision = decided(won("w1"), worker("w1", admitted_copy(), remote_job()), older)
    assert told(decision) == ["DeleteJob w2", "DeleteWorkload w2"]
    assert decision.status == won("w1").build().status


# What a predecessor left.


@pytest.mark.parametrize("local", [reserved().nominated("w1"), won()], ids=["before the win is told", "after it"])
def test_what_is_missing_of_a_job_of_several_objects_is_made(local: WorkloadBuilder) -> None:
    whole = worker("w1", admitted_copy(), remote_job())

    assert told(decided(local, but(whole, incomplete=True))) == ["CreateJob w1"]
    assert told(decided(local, whole)) == []


@pytest.mark.parametrize(
    ("local", "done"),
    [(reserved().nominated("w1"), ["DeleteJob w1"]), (won(), [])],
    ids=["it goes elsewhere", "unless it runs there"],
)
def test_where_a_job_cannot_be_whole_nothing_is_tried_at_once(local: WorkloadBuilder, done: list[str]) -> None:
    until = NOW + timedelta(minutes=1)
    partial = worker("w1", admitted_copy(), remote_job(), incomplete=True, unfit="refused", until=until)
    decision = decided(local, partial)

    assert told(decision) == done
    assert decision.again_after == timedelta(minutes=1)


def test_the_job_of_a_predecessor_is_adopted() -> None:
    w1 = worker("w1", admitted_copy(at=NOW + timedelta(seconds=9)), remote_job())
    decision = decided(reserved().nominated("w1", "w2"), worker("w2", admitted_copy()), w1)
    assert told(decision) == ["DeleteWorkload w2"]
    assert decision.status is not None
    assert decision.status.cluster_name == "w1"


def test_a_job_that_finished_before_it_was_recorded_is_recorded_then_finished() -> None:
    done = worker("w1", admitted_copy().finished(message="done"), remote_job().complete())
    first = decided(reserved().nominated("w1"), done)
    assert check_of(first.status)[0] == "Ready"
    second = decided(won("w1"), done, job_finished=True)
    assert second.status is not None
    finished = second.status.conditions[-1]
    assert (finished.type, finished.reason, finished.message) == ("Finished", "Succeeded", "done")


DAY = timedelta(days=1)
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
    decision = decided(won("w1").finished(), remote, now=NOW + later, copy_retention=DAY)
    assert told(decision) == actions
    assert decision.again_after == (None if actions else DAY - later)


def test_where_a_finished_job_ran_is_told_even_if_its_win_was_never_recorded() -> None:
    lost, done = worker("w2", copy()), worker("w1", admitted_copy().finished(), remote_job().complete())
    decision = decided(reserved().nominated("w1", "w2").finished(), lost, done)
    assert decision.status is not None
    assert (decision.status.cluster_name, decision.status.nominated_cluster_names) == ("w1", ())
    assert decision.status.admission_checks[0].state == "Ready"
    assert told(decision) == ["DeleteWorkload w2", "DeleteJob w1", "DeleteWorkload w1"]


def test_the_copy_of_a_finished_workload_is_retained_while_its_win_is_told() -> None:
    lost, done = worker("w2", copy()), worker("w1", admitted_copy().finished(), remote_job().complete())
    decision = decided(reserved().nominated("w1", "w2").finished(), lost, done, copy_retention=DAY)
    assert decision.status is not None
    assert decision.status.cluster_name == "w1"
    assert told(decision) == ["DeleteWorkload w2"]
    assert decision.again_after == DAY


def test_where_a_finished_job_ran_is_not_told_of_a_worker_without_it_or_no_longer_nominated() -> None:
    local = reserved().nominated("w1").finished()
    assert decided(local, worker("w1", admitted_copy())).status == local.build().status
    evicted = reserved().finished()
    done = worker("w1", admitted_copy().finished(), remote_job().complete())
    assert decided(evicted, done).status == evicted.build().status


def test_a_workload_is_not_finished_before_its_job_is_final() -> None:
    done = worker("w1", admitted_copy().finished(), remote_job().complete())
    assert decided(won("w1"), done, job_finished=False).status == won("w1").build().status


def test_a_copy_that_is_seen_to_finish_before_its_job_is_seen_waits_for_it() -> None:
    """The two are watched apart: a short job may have ended before the answer to its making is here."""
    done = but(worker("w1", admitted_copy().finished()), asked=ATTEMPT)
    assert decided(won("w1"), done, job_finished=False).status == won("w1").build().status
    gone = decided(won("w1"), but(done, asked=""), job_finished=False)
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
    decision = decided(won("w1"), there, job_finished=False)
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
    decision = decided(won("w1"), there, job_finished=False)
    assert told(decision) == ["FindJob w1"]
    assert decision.status == won("w1").build().status


def test_one_that_runs_under_a_finished_workload_is_waited_for() -> None:
    copy = admitted_copy().finished(at=NOW - timedelta(hours=1))
    decision = decided(won("w1"), worker("w1", copy, remote_job()), job_finished=False)
    assert (decision.again_after, decision.status) == (None, won("w1").build().status)


def test_an_end_without_a_time_is_not_waited_for_for_ever() -> None:
    there = held_and_finished(timedelta())
    assert there.workload is not None
    conditions = tuple(
        msgspec.structs.replace(c, last_transition_time=None) if c.type == "Finished" else c
        for c in there.workload.status.conditions
    )
    status = msgspec.structs.replace(there.workload.status, conditions=conditions)
    there = replace(there, workload=msgspec.structs.replace(there.workload, status=status))
    assert told(decided(won("w1"), there, job_finished=False)) == ["FindJob w1"]
    read = decided(won("w1"), replace(there, read_at=NOW), job_finished=False)
    assert read.status is not None
    assert read.status.conditions[-1].type == "Finished"


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


def test_a_nominated_worker_not_yet_seen_holds_the_job_back() -> None:
    """A predecessor may have made the job there just before it died."""
    unseen = away(but(worker("w2"), known=False))
    ended = (
        reserved().nominated("w1").condition(FAILED_ON, reason="AttemptFailed", message="w2 at 2026-01-01T11:00:00Z")
    )
    assert told(decided(ended, worker("w1", admitted_copy()), unseen)) == [], "its job may still be there"
    local = reserved().nominated("w1", "w2")
    decision = decided(local, worker("w1", admitted_copy()), unseen)
    assert told(decision) == []
    assert decision.again_after == timedelta(minutes=15)
    assert told(decided(local, worker("w1", admitted_copy()), unseen, now=LATE)) == ["CreateJob w1"]


def test_one_that_was_taken_out_of_the_config_meanwhile_stays_nominated_until_it_is_seen_or_lost() -> None:
    """Or nothing would tell any more that the job may be there."""
    unseen = away(but(worker("w2"), known=False, configured=False))
    local = reserved().nominated("w1", "w2")
    for remotes in ((worker("w1"), unseen), (worker("w1", copy()), unseen)):
        status = decided(local, *remotes).status
        assert status is not None
        assert set(status.nominated_cluster_names) == {"w1", "w2"}
    for gone, now in ((unseen, LATE), (but(unseen, known=True), NOW)):
        status = decided(local, worker("w1"), gone, now=now).status
        assert status is not None
        assert status.nominated_cluster_names == ("w1",)


def test_after_an_eviction_by_others_any_worker_not_yet_seen_holds_the_job_back() -> None:
    """A Kueue beside us takes the nomination away when it evicts, perhaps while no process of ours runs."""
    unseen = away(but(worker("w2"), known=False))
    local = reserved().nominated("w1")
    decision = decided(local, worker("w1", admitted_copy()), unseen, may_be_anywhere=True)
    assert (told(decision), decision.again_after) == ([], timedelta(minutes=15))
    for seen in (worker("w2"), away(worker("w2"))):
        assert told(decided(local, worker("w1", admitted_copy()), seen, may_be_anywhere=True)) == ["CreateJob w1"]


def test_without_quota_the_nomination_of_a_worker_not_yet_seen_stays() -> None:
    unseen = away(but(worker("w2"), known=False))
    local = pending().nominated("w1", "w2").check()
    decision = decided(local, worker("w1"), unseen)
    assert decision.status is not None
    assert (decision.status.nominated_cluster_names, decision.again_after) == (("w2",), timedelta(minutes=15))
    for gone, now in ((unseen, LATE), (away(worker("w2")), NOW)):
        status = decided(local, worker("w1"), gone, now=now).status
        assert status is not None
        assert status.nominated_cluster_names == ()


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


def test_a_worker_that_may_have_got_the_job_is_the_winner_though_it_is_away() -> None:
    asked = away(but(worker("w1", admitted_copy()), asked=ATTEMPT))
    local = reserved().nominated("w1", "w2")
    decision = decided(local, asked, worker("w2", admitted_copy()))
    assert decision.phase is Phase.WINNER_UNREACHABLE
    assert not any(isinstance(action, CreateJob) for action in decision.actions)
    assert decided(local, asked, worker("w2"), now=LATE).phase is Phase.WINNER_LOST


def test_a_worker_is_lost_only_if_it_was_asked_in_vain_after_its_time() -> None:
    """A manager that was stopped for an hour must ask again first: the worker may be back since long."""
    winner = away(worker("w1", admitted_copy(), remote_job()))
    early = decided(won("w1"), but(winner, last_failed_probe=NOW + timedelta(minutes=1)), now=LATE)
    assert (early.phase, early.again_after) == (Phase.WINNER_UNREACHABLE, timedelta(seconds=1))
    assert decided(won("w1"), but(winner, last_failed_probe=LATE), now=LATE).phase is Phase.WINNER_LOST
    assert decided(won("w1"), winner, now=LATE).phase is Phase.WINNER_LOST, "where nobody is to ask, time alone counts"


def test_a_job_that_is_not_wanted_any_more_is_looked_for_once_it_cannot_come_any_more() -> None:
    asked = but(worker("w1"), asked=ATTEMPT, until=NOW + timedelta(seconds=70))
    local = reserved().evicted()
    early = decided(local, asked)
    assert (told(early), early.again_after) == ([], timedelta(seconds=70))
    late = decided(local, asked, now=NOW + timedelta(seconds=70))
    assert (told(late), late.again_after) == (["FindJob w1"], None)
    assert told(decided(local, away(asked), now=LATE)) == [], "a worker out of reach is asked nothing"


def test_a_job_that_is_still_wanted_is_asked_for_anew_at_once() -> None:
    asked = but(worker("w1", admitted_copy()), asked=ATTEMPT, until=NOW + timedelta(seconds=70))
    assert told(decided(reserved().nominated("w1"), asked)) == ["CreateJob w1"]


def test_a_stale_job_in_the_way_is_removed_first() -> None:
    assert told(decided(reserved().nominated("w1"), worker("w1", admitted_copy(), remote_job(EARLIER)))) == [
        "DeleteJob w1"
    ]


# Loss.


def test_the_lost_timeout_is_waited_for_exactly() -> None:
    gone = away(worker("w1", admitted_copy(), remote_job()), since=NOW - timedelta(minutes=10))
    assert decided(won("w1"), gone).again_after == timedelta(minutes=5)


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


@pytest.mark.parametrize("release", ["0.16", "0.18"])
def test_up_to_0_18_a_worker_reserves_and_nobody_says_what_was_before(release: Release) -> None:
    older: dict[str, Any] = {"compatibility": Compatibility.of(release)}
    win = decided(reserved().nominated("w1"), worker("w1", admitted_copy(), remote_job()), **older)
    assert check_of(win.status) == ("Ready", 'The workload got reservation on "w1"')
    lost = decided(won("w1"), away(worker("w1")), now=LATE, **older)
    assert check_of(lost.status) == (
        "Retry",
        'Reserving remote lost: worker cluster "w1" is out of reach for too long',
    )
    refused = decided(reserved(), *BOTH, problem="No multikueue adapter found", **older)
    assert check_of(refused.status) == ("Rejected", "No multikueue adapter found")


def test_an_eviction_on_the_worker_says_what_was_before_in_every_release() -> None:
    evicted = worker("w1", admitted_copy().evicted(), remote_job())
    messages = {
        check_of(decided(won("w1"), evicted, compatibility=Compatibility.of(release)).status)[1]
        for release in ("0.16", "0.18", "0.19")
    }
    assert messages == {'Workload evicted on worker cluster: "w1", resetting for re-admission. Previously: "Ready"'}


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


# Eviction on the manager.


def test_an_evicted_workload_is_stopped_where_it_runs_and_taken_back_where_not() -> None:
    running = worker("w1", admitted_copy(), remote_job().running())
    decision = decided(won("w1").evicted(message="preempted"), running, worker("w2", copy()))
    assert told(decision) == ["PatchStatus w1", "DeleteWorkload w2"]


def test_a_stopped_copy_is_not_stopped_again() -> None:
    asked = admitted_copy().condition("DeactivationTarget")
    assert told(decided(won("w1").evicted(), worker("w1", asked, remote_job().running()))) == []


def always(_job: AnyJob) -> bool:
    return True


def never(_job: AnyJob) -> bool:
    return False


def ended(attempt: str) -> Remote:
    return worker("w1", admitted_copy(attempt).finished(), remote_job(attempt).complete(), has_ended=always)


UNSEEN = away(but(worker("w3"), known=False))
HOLDING = {
    "a running job holds": (True, worker("w1", admitted_copy(), remote_job().running())),
    "an admitted job may start at any time": (True, worker("w1", admitted_copy(), remote_job())),
    "an evicted job whose pods still end holds": (True, worker("w1", copy().evicted(), remote_job().running())),
    "an evicted quiet job does not": (False, worker("w1", admitted_copy().evicted(), remote_job())),
    "a result that the local job is not told yet holds": (True, ended(ATTEMPT)),
    "a copy that ended before its job was seen to end holds": (True, but(ended(ATTEMPT), has_ended=never)),
    "one whose job is suspended does not": (False, but(ended(ATTEMPT), has_ended=never, is_held=always)),
    "a result of an earlier attempt does not": (False, ended("2020-01-01T00:00:00Z/an-earlier-one")),
    "a copy without a job does not": (False, worker("w1", admitted_copy())),
    "the recorded winner out of reach holds": (True, away(worker("w1"))),
    "the winner lost holds nothing": (
        False,
        away(worker("w1", admitted_copy(), remote_job()), since=NOW - timedelta(hours=1)),
    ),
    "a job asked for holds": (True, but(worker("w1"), asked=ATTEMPT)),
    "what a predecessor nominated holds until it is seen": (True, UNSEEN),
    "what it did not nominate does not": (False, but(UNSEEN, cluster="w2")),
    "one that was seen without a job does not": (False, but(UNSEEN, known=True)),
}


@pytest.mark.parametrize(("holds", "remote"), HOLDING.values(), ids=HOLDING.keys())
def test_holding(holds: bool, remote: Remote) -> None:
    assert is_holding(group(won("w1").nominated("w3").evicted(), remote), NOW) is holds


def test_a_result_that_the_local_job_has_holds_nothing() -> None:
    assert not is_holding(group(won("w1").evicted(), ended(ATTEMPT), job_finished=True), NOW)


# Drift.


def test_a_priority_is_changed_in_place() -> None:
    local = reserved().priority(9, workload_class="high").nominated("w1")
    theirs = copy().priority(1, workload_class="low")
    assert told(decided(local, worker("w1", theirs))) == ["PatchWorkload w1"]


def test_any_other_difference_makes_a_new_copy() -> None:
    assert told(decided(reserved().nominated("w1"), worker("w1", copy().request(cpu=7)))) == ["DeleteWorkload w1"]


def test_the_winner_is_never_replaced_for_drift() -> None:
    assert told(decided(won("w1"), worker("w1", admitted_copy().request(cpu=7), remote_job()))) == []


def test_a_worker_may_win_by_reserving_quota_where_its_checks_are_not_waited_for() -> None:
    local = reserved().nominated("w1", "w2")
    remotes = (worker("w1", copy().reserved("remote")), worker("w2", copy()))
    assert told(decided(local, *remotes)) == []
    assert told(decided(local, *remotes, wins_by=QUOTA_RESERVED)) == ["CreateJob w1", "DeleteWorkload w2"]
    running = (worker("w1", copy().reserved("remote"), remote_job()),)
    assert decided(won("w1"), *running, wins_by=QUOTA_RESERVED).phase is Phase.ADMITTED
    evicted = (worker("w1", copy().reserved("remote").evicted(), remote_job()),)
    assert decided(won("w1"), *evicted, wins_by=QUOTA_RESERVED).phase is Phase.EVICTED_REMOTELY


PATIENT = {
    "just now": (copy().evicted(), {}, Phase.READMITTED),
    "too long ago": (copy().evicted(), {"lost_after": timedelta()}, Phase.EVICTED_REMOTELY),
    "for good": (copy().evicted("Deactivated"), {}, Phase.EVICTED_REMOTELY),
    "and it has been admitted again": (admitted_copy(), {}, Phase.ADMITTED),
}


@pytest.mark.parametrize(("theirs", "more", "phase"), PATIENT.values(), ids=PATIENT)
def test_a_worker_may_admit_again_what_it_evicted_where_nothing_is_redone(
    theirs: WorkloadBuilder, more: dict[str, Any], phase: Phase
) -> None:
    decision = decided(won("w1"), worker("w1", theirs, remote_job()), redoes_admission=False, **more)
    assert (decision.phase, told(decision)) == (phase, [])
    if phase is Phase.READMITTED:
        assert (check_of(decision.status)[0], decision.again_after) == ("Ready", timedelta(minutes=15))


def test_a_win_that_is_not_recorded_is_redone_in_any_case() -> None:
    local = reserved().nominated("w1")
    theirs = worker("w1", copy().evicted(), remote_job())
    assert decided(local, theirs, redoes_admission=False).phase is Phase.EVICTED_REMOTELY


def test_an_undispatchable_workload_is_rejected() -> None:
    decision = decided(reserved(), *BOTH, problem="No multikueue adapter found")
    assert check_of(decision.status) == ("Rejected", 'No multikueue adapter found, Previously: "Pending"')


def test_an_undispatchable_workload_is_rejected_before_it_has_quota() -> None:
    decision = decided(pending().check(), *BOTH, problem="No multikueue adapter found")
    assert check_of(decision.status)[0] == "Rejected"


def test_one_whose_job_may_still_come_is_not_rejected_before_it_has_quota() -> None:
    local = workload("wl").queue("main").request(cpu=1).check()
    assert check_of(decided(local, *BOTH, problem="No multikueue adapter found").status)[0] == "Pending"


def test_one_that_explains_itself_already_is_not_rejected_before_it_has_quota() -> None:
    local = pending().check().annotations({UNDISPATCHABLE_ANNOTATION: "recreate the job"})
    assert check_of(decided(local, *BOTH, problem="not managed").status)[0] == "Pending"


@pytest.mark.parametrize(("phase", "local", "remotes"), PHASES.values(), ids=PHASES.keys())
def test_the_decision_taken_is_at_rest(
    phase: Phase, local: WorkloadBuilder | None, remotes: tuple[Remote, ...]
) -> None:
    """Deciding on what was decided changes no status (I11)."""
    first = decided(local, *remotes)
    if local is None or first.status is None:
        return
    settled = replace(group(local, *remotes), local=_with(local.build(), first.status))
    second = decide(consulted(settled), NOW)
    again = decide(consulted(replace(settled, local=_with(settled.local, second.status))), NOW)
    assert again.status == second.status


def _with(local: Workload | None, status: WorkloadStatus | None) -> Workload:
    import msgspec

    assert local is not None
    assert status is not None
    return msgspec.structs.replace(local, status=status)


def test_deletes_name_the_uid_they_are_meant_for() -> None:
    actions = decided(None, worker("w1", copy().uid("u1").build(), remote_job().uid("u2").build())).actions
    assert [a.uid for a in actions if isinstance(a, (DeleteJob, DeleteWorkload))] == ["u2", "u1"]


def test_a_suspect_worker_keeps_its_copy() -> None:
    suspect = away(worker("w1", copy()), reach=Reach.SUSPECT)
    assert told(decided(reserved().nominated("w1"), suspect)) == []


# --- what is left of an earlier attempt --------------------------------------------------------------------------------

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
