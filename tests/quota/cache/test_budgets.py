"""How many workloads of a ClusterQueue may be preempted within a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.api.kueue.queues import MAX_PREEMPTED_ANNOTATION, BorrowWithinCohort
from multikueue.api.kueue.workload import EVICTED, PREEMPTED, PREEMPTED_AT, QUOTA_RESERVED, WorkloadStatus
from multikueue.quota.cache.budgets import Budget, budget_of, budget_problem, keep_time, preemptions
from multikueue.quota.engine import Engine
from multikueue.quota.preemption.fair import FairPreemption
from tests.builders import ClusterQueueBuilder, cluster_queue, local_queue, workload
from tests.quota.builders import Play, after, key_of, wants
from tests.quota.scenes import Held, Scene, held, needs, units

RULES: dict[str, Any] = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "Any"}
BORROWING = {**RULES, "borrow_within_cohort": BorrowWithinCohort(policy="LowerPriority")}


def queue(name: str, cpu: Any, rules: dict[str, Any] = RULES) -> ClusterQueueBuilder:
    return cluster_queue(name).cohort("all").quota("default", cpu=cpu).preempt(**rules)


def limited(text: str, name: str = "cq") -> ClusterQueueBuilder:
    rules = cluster_queue(name).quota("default", cpu=4).preempt(within_cluster_queue="LowerPriority")
    return rules.annotations({MAX_PREEMPTED_ANNOTATION: text})


# --- the annotation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3/1h", Budget(3, timedelta(hours=1))),
        ("0/30m", Budget(0, timedelta(minutes=30))),
        ("10/1d12h", Budget(10, timedelta(hours=36))),
        ("1/90s", Budget(1, timedelta(seconds=90))),
        ("1/90", Budget(1, timedelta(seconds=90))),
        ("2/1.5h", Budget(2, timedelta(minutes=90))),
        ("2/PT1H", Budget(2, timedelta(hours=1))),
        ("2/999999d999999d999999d999999d", Budget(2, timedelta(days=3650))),
    ],
)
def test_a_budget_is_a_number_and_a_duration(text: str, expected: Budget) -> None:
    value = limited(text).build()
    assert (budget_of(value), budget_problem(value)) == (expected, "")


@pytest.mark.parametrize(
    "text", ["", "3", "3/", "/1h", "3/soon", "-1/1h", "3/-1h", "3/0s", "1.5/1h", "three/1h", "3/1h x", "3/1w", "03/1h"]
)
def test_what_is_no_budget_is_complained_about_and_ignored(text: str) -> None:
    value = limited(text).build()
    assert budget_of(value) is None
    assert budget_problem(value) == (
        "ClusterQueue cq: annotation multikueue.dev/max-preempted-workloads: "
        f'expected a number of workloads and a duration such as "3/1h" or "0/30m", got "{text}"'
    )


def test_without_the_annotation_there_is_no_budget_and_no_complaint() -> None:
    value = cluster_queue("cq").build()
    assert (budget_of(value), budget_problem(value)) == (None, "")


# --- who may go ------------------------------------------------------------------------------------------------------

CASES: dict[str, tuple[list[ClusterQueueBuilder], list[Held], str, float, FairPreemption | None]] = {
    "in its own queue": ([queue("a", 4)], units("a", "a", 4, -1), "a", 2, None),
    "reclaimed": ([queue("a", 4), queue("b", 0)], units("a", "b", 4, -1), "b", 2, None),
    "reclaimed by one that borrows": (
        [queue("a", 1, BORROWING), queue("b", 0), queue("bank", 3)],
        units("a", "b", 4, -1),
        "b",
        2,
        None,
    ),
    "fair sharing": ([queue("a", 2), queue("b", 2)], units("a", "b", 4, -1), "b", 2, FairPreemption()),
}


@pytest.mark.parametrize(("tree", "holders", "loser", "cpu", "fair"), CASES.values(), ids=CASES.keys())
def test_no_queue_loses_more_than_it_may(
    tree: list[ClusterQueueBuilder], holders: list[Held], loser: str, cpu: int, fair: FairPreemption | None
) -> None:
    free = Scene(tree, holders, fair).victims("a", needs(cpu=cpu))
    assert len(free) == cpu
    assert Scene(tree, holders, fair, {loser: cpu}).victims("a", needs(cpu=cpu)) == free
    assert not Scene(tree, holders, fair, {loser: cpu - 1}).victims("a", needs(cpu=cpu))


def test_within_the_budget_those_go_who_would_without_one() -> None:
    holders = [held("small", "a", 1, -2), held("large", "a", 3, -1)]
    assert list(Scene([queue("a", 4)], holders, allowed={"a": 1}).victims("a", needs(cpu=3))) == ["large"]


def test_where_one_queue_may_lose_nobody_another_has_to() -> None:
    tree = [queue("a", 4), queue("b", 0), queue("c", 0)]
    holders = [held("b", "b", 2, -2), held("c", "c", 2, -1)]
    assert list(Scene(tree, holders).victims("a", needs(cpu=2))) == ["b"]
    assert list(Scene(tree, holders, allowed={"b": 0}).victims("a", needs(cpu=2))) == ["c"]


def test_who_goes_anyhow_costs_nothing() -> None:
    holders = [Held("leaving", "a", needs(cpu=2), -1, evicted=True), held("low", "a", 2, -1)]
    assert list(Scene([queue("a", 4)], holders, allowed={"a": 1}).victims("a", needs(cpu=4))) == ["leaving", "low"]


# --- the engine ------------------------------------------------------------------------------------------------------


def pressed(text: str, strong: int = 4) -> Play:
    """Four weak workloads have all the quota; so many strong ones, of one cpu each, want some."""
    play = Play(limited(text).build(), local_queue("lq", "cq").build())
    play.submit(*(wants(f"low{number}", cpu=1, age=9 - number).priority(-1) for number in range(4)))
    play.settle()
    play.submit(*(wants(f"high{number}", cpu=1, age=9 - number).priority(1) for number in range(strong)))
    return play


def evicted(play: Play) -> list[str]:
    return sorted(key.name for key, value in play.workloads.items() if value.has(PREEMPTED))


def strong_with_quota(play: Play) -> list[str]:
    return [name for name in sorted(play.reserved()) if name.startswith("high")]


def test_only_so_many_are_preempted_until_the_first_of_them_ceases_to_count() -> None:
    play = pressed("2/1m")
    play.settle()
    assert strong_with_quota(play) == ["high0", "high1"]
    play.wait(59)
    play.settle()
    assert strong_with_quota(play) == ["high0", "high1"]
    assert play.engine.scheduler.next_look(play.now) == after(60)
    play.wait(1)
    play.settle()
    play.wait(1)  # as all that wakes those who wait
    play.settle()
    assert strong_with_quota(play) == ["high0", "high1", "high2", "high3"]


def test_what_was_not_written_yet_counts_already() -> None:
    play = pressed("1/1h", strong=2)
    assert len(play.engine.scheduler.cycle(play.now).evicted) == 1
    play.run()
    assert sum(play.engine.scheduler.eviction(key) is not None for key in play.workloads) == 1


def test_another_process_counts_the_same() -> None:
    play = pressed("2/1m")
    play.settle()
    play.wait(30)
    again = Play(limited("2/1m").build(), local_queue("lq", "cq").build())
    again.now = play.now
    for value in play.workloads.values():
        again.see(value)
    again.settle()
    assert strong_with_quota(again) == ["high0", "high1"]
    again.wait(31)
    again.settle()
    again.wait(1)
    again.settle()
    assert strong_with_quota(again) == ["high0", "high1", "high2", "high3"]


def test_a_preemption_counts_after_its_workload_got_quota_again_and_finished() -> None:
    play = pressed("1/1h", strong=1)
    play.settle()
    assert (strong_with_quota(play), evicted(play)) == (["high0"], ["low0"])
    play.finish("high0")
    play.wait(1)
    play.settle()
    assert "low0" in play.reserved()
    assert evicted(play) == []
    play.submit(wants("high1", cpu=1).priority(1))
    assert play.engine.scheduler.cycle(play.now).evicted == []
    play.finish("low0")
    play.wait(1)
    play.submit(wants("high2", cpu=1).priority(1))
    play.settle()
    assert (strong_with_quota(play), evicted(play)) == (["high0", "high1"], [])


def test_a_workload_preempted_twice_counts_twice() -> None:
    status = WorkloadStatus()
    budget = limited("3/1m").build()
    for seconds in (0, 20, 70):
        status = keep_time(status, budget, generation=1, now=after(seconds))
    assert preemptions(status) == (after(20), after(70))  # the first counts no more by then


def test_without_a_budget_nothing_of_ours_is_written() -> None:
    play = Play.with_queue(cpu=4)
    play.apply(cluster_queue("cq").quota("default", cpu=4).preempt(within_cluster_queue="LowerPriority").build())
    play.submit(wants("low", cpu=4).priority(-1))
    play.settle()
    play.submit(wants("high", cpu=4).priority(1))
    play.settle()
    low = play.workloads[key_of("low")]
    assert low.has(PREEMPTED)
    assert low.condition(PREEMPTED_AT) is None


def test_words_that_are_no_times_are_passed_over() -> None:
    message = "2026-01-01T00:00:00Z, 2026-13-01T00:00:00Z, soon"
    value = workload("w").condition(PREEMPTED_AT, message=message).build()
    assert [when.year for when in preemptions(value.status)] == [2026]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda play: play.apply(limited("9/1h").build()), id="a larger budget"),
        pytest.param(lambda play: play.apply(limited("nonsense").build()), id="a budget that makes no sense"),
        pytest.param(
            lambda play: play.engine.observe(workload("low0").build(), None, play.now), id="its workload is deleted"
        ),
    ],
)
def test_who_waits_gets_another_look_when_the_budget_changes(change: Any) -> None:
    play = pressed("1/1h", strong=2)
    play.settle()
    assert strong_with_quota(play) == ["high0"]
    play.wait(9)
    play.settle()
    assert (play.engine.scheduler.next_look(play.now) or play.now) > play.now  # all sleep
    del play.workloads[key_of("low0")]
    change(play)
    play.run()
    play.wait(1)
    play.settle()
    assert strong_with_quota(play) == ["high0", "high1"]


@settings(max_examples=50)
@given(
    most=st.integers(0, 3),
    steps=st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["weak", "strong", "end", "restart"])), max_size=25),
)
def test_never_are_more_preempted_within_the_window_than_allowed(most: int, steps: list[tuple[int, str]]) -> None:
    play = Play(limited(f"{most}/1m").build(), local_queue("lq", "cq").build())
    when: list[Any] = []
    for number, (seconds, step) in enumerate(steps):
        play.wait(seconds)
        if step == "end":
            for name in play.reserved()[:1]:
                play.finish(name)
        elif step == "restart":
            play = restarted(play, f"{most}/1m")
        else:
            play.submit(wants(f"w{number}", cpu=2).priority(number if step == "strong" else -number))
        before = {key for key, value in play.workloads.items() if value.has(EVICTED)}
        play.settle()
        gone = {key for key, value in play.workloads.items() if value.has(EVICTED) and not value.has(QUOTA_RESERVED)}
        when += [play.now] * len(gone - before)
    for start in when:
        assert sum(start <= each < start + timedelta(minutes=1) for each in when) <= most


def restarted(play: Play, text: str) -> Play:
    fresh = Play(limited(text).build(), local_queue("lq", "cq").build(), engine=Engine())
    fresh.now = play.now
    for value in play.workloads.values():
        fresh.see(msgspec.structs.replace(value))
    return fresh
