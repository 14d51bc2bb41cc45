"""What is removed from workers, in which order, and what is never removed; and the phases in which nothing is to be there."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.workload import UNDISPATCHABLE_ANNOTATION
from multikueue.dispatch.copies.effects import DeleteJob, DeleteWorkload
from multikueue.dispatch.remote import Reach
from multikueue.workload.decide import decide, plan
from multikueue.workload.handlers.removal import removals
from multikueue.workload.phases import Phase
from tests.builders import NOW, workload
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import (
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
    won,
    worker,
)

CLEANED = {
    "deleted": None,
    "finished": won().finished(),
    "without quota": pending().check(),
    "rejected": reserved().check("mk", "Rejected"),
    "waiting for another check": reserved().check("other"),
}


@pytest.mark.parametrize("local", CLEANED.values(), ids=CLEANED.keys())
def test_everything_is_removed_job_first(local: WorkloadBuilder | None) -> None:
    stale = replace(worker("w1", copy(EARLIER), remote_job(EARLIER)), is_configured=False)
    assert told(decided(local, stale)) == ["DeleteJob w1", "DeleteWorkload w1"]


def test_what_is_being_deleted_is_not_deleted_again() -> None:
    leaving = worker("w1", copy().deleted(), remote_job().deleted())
    assert told(decided(None, leaving)) == []


def test_what_the_workers_kueue_made_of_a_copy_is_left_to_it() -> None:
    made = copy().owned_by(api_version="kueue.x-k8s.io/v1beta2", kind="Workload", name="wl", uid="uid-of-wl")
    assert told(decided(None, worker("w1", made))) == []


def test_an_unreachable_worker_is_asked_nothing_later_either() -> None:
    """What is seen when it is back decides, not what was there before it went."""
    gone = away(worker("w1", copy(), remote_job()))
    assert told(decided(None, gone)) == []
    assert list(removals((), (gone,))) == []


def test_a_worker_that_has_nothing_is_asked_for_nothing_so_a_copy_that_comes_later_is_too_late() -> None:
    seen = case_of(won(), worker("w1", admitted_copy(), remote_job()), worker("w2"))
    made = plan(seen, decide(seen))
    assert "w2" not in made.on
    assert made.is_too_late(copy().uid("late").build(), "w2")


@pytest.mark.parametrize("reach", [Reach.CONNECTED, Reach.ISOLATED], ids=["while it answers", "while it is away"])
def test_what_the_winner_holds_is_not_removed_where_another_name_leads_to_it(reach: Reach) -> None:
    winner = worker("w1", admitted_copy(), remote_job())
    alias = replace(winner, cluster="alias")
    seen = away(winner) if reach is Reach.ISOLATED else winner
    loser = worker("w2", copy())
    assert told(decided(won(), seen, alias, loser)) == ["DeleteWorkload w2"]


def test_deletes_name_the_uid_they_are_meant_for() -> None:
    actions = decided(None, worker("w1", copy().uid("u1").build(), remote_job().uid("u2").build())).actions
    assert [a.uid for a in actions if isinstance(a, (DeleteJob, DeleteWorkload))] == ["u2", "u1"]


def test_without_quota_nothing_stays_recorded() -> None:
    status = decided(pending().check().cluster_name("w1")).status
    assert status is not None
    assert (status.cluster_name, status.nominated_cluster_names) == (None, ())


def test_without_quota_the_nomination_of_a_worker_not_yet_seen_stays() -> None:
    unseen = away(but(worker("w2"), is_known=False))
    local = pending().nominated("w1", "w2").check()
    decision = decided(local, worker("w1"), unseen)
    assert decision.status is not None
    assert (decision.status.nominated_cluster_names, decision.again_after) == (("w2",), timedelta(minutes=15))
    for gone, now in ((unseen, LATE), (away(worker("w2")), NOW)):
        status = decided(local, worker("w1"), gone, now=now).status
        assert status is not None
        assert status.nominated_cluster_names == ()


NO_ADAPTER = "No multikueue adapter found"


@pytest.mark.parametrize("local", [pending().check(), reserved()], ids=["before it has quota", "with quota"])
def test_an_undispatchable_workload_is_rejected(local: WorkloadBuilder) -> None:
    decision = decided(local, *BOTH, problem=NO_ADAPTER)
    assert check_of(decision.status) == ("Rejected", f'{NO_ADAPTER}, Previously: "Pending"')


@pytest.mark.parametrize(
    ("phase", "local"),
    [(Phase.UNRESERVED, pending().check("mk", "Rejected")), (Phase.EVICTED, reserved().evicted())],
    ids=["it is rejected already", "it is to give its quota back first"],
)
def test_an_undispatchable_workload_is_rejected_once_and_in_its_turn(phase: Phase, local: WorkloadBuilder) -> None:
    decision = decided(local, *BOTH, problem=NO_ADAPTER)
    assert (decision.phase, decision.events) == (phase, ())


def test_one_whose_job_may_still_come_is_not_rejected_before_it_has_quota() -> None:
    local = workload("wl").queue("main").request(cpu=1).check()
    assert check_of(decided(local, *BOTH, problem=NO_ADAPTER).status)[0] == "Pending"


def test_one_that_explains_itself_already_is_not_rejected_before_it_has_quota() -> None:
    local = pending().check().annotations({UNDISPATCHABLE_ANNOTATION: "recreate the job"})
    assert check_of(decided(local, *BOTH, problem="not managed").status)[0] == "Pending"
