"""The phases, each in a table, and what holds for the decision in all of them; `handlers` has the tests of each phase."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.compatibility import Compatibility, Release
from multikueue.dispatch.remote import Remote
from multikueue.dispatch.slices import NO_SLICE, Slice
from multikueue.testing import NOW
from multikueue.workload.case import MAX_NOMINATED
from multikueue.workload.decide import decide
from multikueue.workload.phases import Phase
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import (
    ATTEMPT,
    BOTH,
    EARLIER,
    LATE,
    admitted_copy,
    away,
    but,
    case_of,
    check_of,
    copy,
    decided,
    pending,
    remote_job,
    reserved,
    told,
    unchecked,
    with_nomination,
    with_status,
    won,
    worker,
)

PHASES = {
    "a deleted workload is gone": (Phase.GONE, None, ()),
    "one that is being deleted": (Phase.GONE, won().deleted(), (worker("w1", admitted_copy(), remote_job()),)),
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
    "what was deactivated is of an earlier attempt": (
        Phase.NOMINATING,
        reserved().nominated("w1"),
        (worker("w1", copy(EARLIER).evicted("Deactivated")),),
    ),
    "one was deactivated, and is active again": (
        Phase.NOMINATING,
        reserved().nominated("w1"),
        (worker("w1", copy().condition("Evicted", "False", reason="Deactivated")),),
    ),
    "one was preempted, and queues again there": (
        Phase.NOMINATING,
        reserved().nominated("w1"),
        (worker("w1", copy().evicted("Preempted")),),
    ),
    "all who are left have deactivated it": (
        Phase.NOMINATING,
        reserved().nominated("w1", "w2"),
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
    "the winner's copy is of an earlier attempt": (
        Phase.WINNER_GONE,
        won(),
        (worker("w1", admitted_copy(EARLIER), remote_job()),),
    ),
    "the winner's copy is not admitted any more": (Phase.WINNER_GONE, won(), (worker("w1", copy(), remote_job()),)),
    "the winner's copy is gone before the win is recorded": (
        Phase.WINNER_GONE,
        reserved().nominated("w1"),
        (worker("w1", None, remote_job()),),
    ),
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


TWO = (worker("w1", admitted_copy(at=NOW + timedelta(seconds=1))), worker("w2", admitted_copy()))
SOONER = worker("w1", admitted_copy(at=NOW - timedelta(seconds=1)))
NAMED = reserved().nominated("w1", "w2")

CHOICES = {
    "the first to admit": (NAMED, TWO, "", "w2"),
    "the one chosen before": (NAMED, TWO, "w1", "w1"),
    "another, where that one may not win any more": (reserved().nominated("w2"), TWO, "w1", "w2"),
    "one that could not be recorded": (reserved().nominated(*map(str, range(MAX_NOMINATED))), TWO, "", "w2"),
    "none that is out of reach": (NAMED, (away(SOONER), TWO[1]), "", "w2"),
    "none that is silent": (NAMED, (but(SOONER, is_silent=True), TWO[1]), "", "w2"),
    "none that cannot take it": (NAMED, (but(SOONER, unfit="taken"), TWO[1]), "", "w2"),
    "none that has evicted it since": (NAMED, (worker("w1", admitted_copy().evicted()), TWO[1]), "", "w2"),
    "none of an earlier attempt": (NAMED, (worker("w1", admitted_copy(EARLIER)), TWO[1]), "", "w2"),
    "none, once it is admitted nowhere": (NAMED, BOTH, "w1", ""),
    "as before, while a worker has the job": (NAMED, (worker("w1", admitted_copy(), remote_job()), TWO[1]), "w3", "w3"),
    "as before, once the win is recorded": (won("w2"), TWO, "w1", "w1"),
    "as before, without quota": (pending().check().nominated("w1", "w2"), TWO, "w1", "w1"),
}


@pytest.mark.parametrize(("local", "remotes", "before", "chosen"), CHOICES.values(), ids=CHOICES.keys())
def test_who_is_chosen(local: WorkloadBuilder, remotes: tuple[Remote, ...], before: str, chosen: str) -> None:
    assert case_of(local, *remotes, choice=before).chosen == chosen


def test_without_quota_nobody_has_won() -> None:
    local = pending().check("mk", "Ready").cluster_name("w1")
    assert case_of(local, worker("w1", admitted_copy(), remote_job())).winner is None


FREE, PINNED = NO_SLICE, Slice(is_elastic=True, stays="w1")

RECORDED = {
    "without a name": (reserved().admitted(), FREE, ""),
    "by the check": (won("w1"), FREE, "w1"),
    "not while the check waits": (reserved().cluster_name("w1"), FREE, ""),
    "while the check waits again": (reserved().admitted().cluster_name("w1"), FREE, "w1"),
    "without a check": (unchecked().cluster_name("w1"), FREE, "w1"),
    "not where a slice is only to run": (unchecked().cluster_name("w1"), PINNED, ""),
    "of no workload": (None, FREE, ""),
}


@pytest.mark.parametrize(("local", "slice_", "winner"), RECORDED.values(), ids=RECORDED.keys())
def test_whose_win_is_recorded(local: WorkloadBuilder | None, slice_: Slice, winner: str) -> None:
    assert case_of(local, slice=slice_).recorded_winner == winner


OF_SLICES = {Phase.SLICE_TOO_EARLY, Phase.SLICE_PINNED, Phase.SLICE_PIN_LOST}
"""Those are in a table of their own (test_slices), and so is FITS_NOWHERE (test_fit)."""


def test_every_phase_is_in_the_table() -> None:
    others = {Phase.UNDISPATCHABLE, Phase.UNREADABLE, Phase.FITS_NOWHERE, *OF_SLICES}
    assert {phase for phase, *_ in PHASES.values()} | others == set(Phase)


@pytest.mark.parametrize("local", [None, won()], ids=["it never was", "it was once"])
def test_a_workload_that_cannot_be_read_is_left_as_it_is(local: WorkloadBuilder | None) -> None:
    w1, asked = worker("w1", admitted_copy(), remote_job()), but(worker("w2"), asked=ATTEMPT)
    decision = decided(local, w1, asked, is_unreadable=True)
    assert (decision.phase, decision.actions) == (Phase.UNREADABLE, ())
    assert decision.status == (local.build().status if local else None)


def test_a_job_that_is_not_wanted_any_more_is_looked_for_once_it_cannot_come_any_more() -> None:
    asked = but(worker("w1"), asked=ATTEMPT, until=NOW + timedelta(seconds=70))
    local = reserved().evicted()
    early = decided(local, asked)
    assert (told(early), early.again_after) == ([], timedelta(seconds=70))
    late = decided(local, asked, now=NOW + timedelta(seconds=70))
    assert (told(late), late.again_after) == (["FindJob w1"], None)
    assert told(decided(local, away(asked), now=LATE)) == [], "a worker out of reach is asked nothing"


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


@pytest.mark.parametrize(("phase", "local", "remotes"), PHASES.values(), ids=PHASES.keys())
def test_the_decision_taken_is_at_rest(
    phase: Phase, local: WorkloadBuilder | None, remotes: tuple[Remote, ...]
) -> None:
    """Deciding on what was decided changes no status (I11)."""
    first = decided(local, *remotes)
    if local is None or first.status is None:
        return
    settled = replace(case_of(local, *remotes), workload=with_status(local.build(), first.status))
    second = decide(with_nomination(settled))
    again = decide(with_nomination(replace(settled, workload=with_status(settled.workload, second.status))))
    assert again.status == second.status
