"""What became of a workload, folded from its versions."""

from __future__ import annotations

from datetime import datetime, timedelta

from multikueue.testing import NOW
from multikueue_console.model.attempts import MOST_ATTEMPTS, Attempt, folded
from multikueue_console.model.stories import steps_of
from tests.builders.workloads import WorkloadBuilder, workload


def at(seconds: int) -> datetime:
    return NOW + timedelta(seconds=seconds)


def after(*versions: WorkloadBuilder) -> tuple[Attempt, ...]:
    known: tuple[Attempt, ...] = ()
    for each in versions:
        known = folded(known, each.build())
    return known


def test_one_that_waits_has_no_attempt() -> None:
    assert after(workload("w")) == ()


def test_a_win_keeps_who_was_asked() -> None:
    reserved = workload("w").reserved(at=at(1)).nominated("one", "two")
    won = reserved.cluster_name("two").admitted(at=at(3))
    (attempt,) = after(reserved, won, won.condition("PodsReady", at=at(5)))

    assert (attempt.nominated, attempt.cluster) == (("one", "two"), "two")
    assert (attempt.reserved_at, attempt.won_at, attempt.running_at) == (at(1), at(3), at(5))
    assert attempt.ended_at is None


def test_an_eviction_ends_the_attempt_and_the_next_one_is_another() -> None:
    first = workload("w").reserved(at=at(1)).cluster_name("one").admitted(at=at(2))
    evicted = first.evicted("Preempted", at=at(4))
    freed = evicted._with_status(cluster_name=None).unreserved(at=at(5))
    again = freed.reserved(at=at(9)).nominated("two")
    known = after(first, evicted, freed, again)

    assert [(each.cluster, each.end, each.ended_at) for each in known] == [("one", "Preempted", at(4)), ("", "", None)]
    assert known[1].nominated == ("two",)


def test_a_finished_one_is_over_and_stays_the_same_object() -> None:
    done = workload("w").reserved(at=at(1)).cluster_name("one").admitted(at=at(2)).finished(at=at(8))
    known = after(done)

    assert [(each.is_over, each.end, each.ended_at) for each in known] == [(True, "Succeeded", at(8))]
    assert folded(known, done.build()) is known


def test_the_same_version_twice_tells_nothing_new() -> None:
    reserved = workload("w").reserved(at=at(1)).nominated("one").build()
    known = folded((), reserved)

    assert folded(known, reserved) is known


def test_attempts_that_nobody_here_saw_are_told_by_the_object() -> None:
    failed = workload("w").condition("multikueue.dev/FailedOn", message="one at 2026-01-01T00:00:00Z")

    assert [(each.cluster, each.end) for each in after(failed)] == [("one", "Ended there")]


def test_only_the_newest_attempts_are_kept() -> None:
    known: tuple[Attempt, ...] = ()
    for number in range(MOST_ATTEMPTS + 5):
        known = folded(known, workload("w").reserved(at=at(number)).build())

    assert len(known) == MOST_ATTEMPTS
    assert known[-1].reserved_at == at(MOST_ATTEMPTS + 4)


def test_steps_are_told_in_their_order() -> None:
    done = workload("w").reserved(at=at(1)).cluster_name("one").admitted(at=at(2)).finished(at=at(8))

    told = [(step.what, step.cluster) for step in steps_of(done.build(), after(done))]
    assert told == [("Submitted", ""), ("Reserved", ""), ("Won", "one"), ("Finished", "one")]
