"""Workers out of reach: when one is lost, and whose job may be there unseen."""

from __future__ import annotations

from datetime import timedelta

from multikueue.api.kueue.workload import FAILED_ON
from multikueue.testing import NOW
from multikueue.workload.phases import Phase
from tests.workload.builders import (
    ATTEMPT,
    EARLIER,
    LATE,
    admitted_copy,
    away,
    but,
    copy,
    decided,
    remote_job,
    reserved,
    told,
    won,
    worker,
)


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
