"""Several heads and preemptors in one cycle (quota-engine 3.1; scenarios QE-263 to QE-282)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from multikueue.api.kueue.queues import BorrowWithinCohort
from multikueue.quota.preemption.fair import FairPreemption
from multikueue.quota.queueing.pending_workload import Reason
from multikueue.quota.scheduler.cycle import Decision, Refuse, Reserve, run
from tests.builders import ClusterQueueBuilder, CohortBuilder, WorkloadBuilder, cluster_queue, cohort, limits
from tests.quota.builders import wants
from tests.quota.scenes import Held, Scene, held, needs, units
from tests.quota.scheduler.test_cycle import head

ANY: dict[str, Any] = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "Any"}
LOWER: dict[str, Any] = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "LowerPriority"}
NO_LONGER = "Workload no longer fits after processing another workload"
OVERLAP = "Workload has overlapping preemption targets with another workload"


def queue(name: str, cpu: Any, rules: dict[str, Any] = LOWER) -> ClusterQueueBuilder:
    return cluster_queue(name).cohort("all").quota("default", cpu=cpu).preempt(**rules)


def play(
    tree: Iterable[ClusterQueueBuilder | CohortBuilder],
    holders: Iterable[Held],
    fair: FairPreemption | None = None,
    **heads: WorkloadBuilder,
) -> list[Decision]:
    """One cycle over one head per queue."""
    scene = Scene(tree, list(holders), fair)
    before = scene.usage()
    decisions = run([head(scene.view(name), wanted) for name, wanted in heads.items()], scene.preemption)
    assert scene.usage().items() >= before.items()
    return decisions


def outcome(decisions: Iterable[Decision]) -> dict[str, str | list[str]]:
    """By head: reserved, whom it has evicted, or why it was refused."""
    return {each.head.waiting.key.name: _told(each) for each in decisions}


def _told(decision: Decision) -> str | list[str]:
    if isinstance(decision, Reserve):
        return "reserved"
    if decision.reason is Reason.PENDING_PREEMPTION:
        return sorted(each.key.name for each in decision.evictions)
    return decision.message if decision.reason is Reason.FAILED_AFTER_NOMINATION else decision.reason.name


def test_qe_266_two_queues_preempt_on_their_own() -> None:
    holders = [held("a-low", "a", 3, -1), held("b-low", "b", 3, -1)]
    found = play([queue("a", 3), queue("b", 3)], holders, a=wants("x", cpu=3), b=wants("y", cpu=3))
    assert outcome(found) == {"x": ["a-low"], "y": ["b-low"]}


def test_a_preemptor_is_told_for_how_many_it_waits_whoever_evicted_them() -> None:
    leaving = Held("leaving", "a", needs(cpu=1), -1, evicted=True)
    (found,) = play([queue("a", 3)], [leaving, held("low", "a", 2, -1)], a=wants("x", cpu=3))
    assert isinstance(found, Refuse)
    assert found.message.endswith("3 more needed. Pending the preemption of 2 workload(s)")
    assert [each.key.name for each in found.evictions] == ["low"]
    assert found.head.waiting.progress is None


def test_qe_267_a_head_that_fits_and_one_that_preempts() -> None:
    tree = [queue("a", 3), queue("b", limits(3, borrowing=0))]
    found = play(tree, [held("b-low", "b", 3, -1)], a=wants("x", cpu=3), b=wants("y", cpu=3))
    assert outcome(found) == {"x": "reserved", "y": ["b-low"]}


def test_qe_268_two_who_need_the_same_free_quota_besides_their_victims() -> None:
    rules = {**LOWER, "borrow_within_cohort": BorrowWithinCohort(policy="LowerPriority")}
    tree = [queue("a", 2, rules), queue("b", 2, rules), queue("bank", 1, {})]
    holders = [held("a-low", "a", 2, -1), held("b-low", "b", 2, -1)]
    found = play(tree, holders, a=wants("x", cpu=3, age=2), b=wants("y", cpu=3, age=1))
    assert outcome(found) == {"x": ["a-low"], "y": NO_LONGER}
    assert [each.has_lost_targets for each in found if isinstance(each, Refuse)] == [False, True]


def test_qe_270_two_who_need_the_same_victim() -> None:
    tree = [queue("a", 3), queue("b", 3), queue("c", 0)]
    found = play(tree, [held("c-low", "c", 6, -1)], a=wants("x", cpu=3, age=2), b=wants("y", cpu=3, age=1))
    assert outcome(found) == {"x": ["c-low"], "y": OVERLAP}
    assert [each.has_lost_targets for each in found if isinstance(each, Refuse)] == [False, True]


def test_what_is_on_its_way_out_does_not_stand_in_the_way_of_a_later_head() -> None:
    tree = [queue("a", 2), queue("b", 2), queue("c", 1)]
    found = play(tree, [held("c-low", "c", 4, -1)], a=wants("x", cpu=2, age=2), b=wants("y", cpu=1, age=1))
    assert outcome(found) == {"x": ["c-low"], "y": "reserved"}


def test_qe_264_a_weak_head_gets_its_own_back_while_a_strong_one_may_not_borrow() -> None:
    tree = [queue("a", 50, ANY), queue("b", 50, ANY), queue("c", 0)]
    found = play(
        tree, units("c", "c", 100, 5), a=wants("weak", cpu=1).priority(-1), b=wants("strong", cpu=60).priority(1)
    )
    assert outcome(found) == {"weak": ["c1"], "strong": "GENERIC"}


@pytest.mark.parametrize(
    ("reclaim", "expected"), [("Any", "reserved"), ("LowerPriority", NO_LONGER), ("Never", NO_LONGER)]
)
def test_qe_279_to_281_a_head_that_can_reclaim_at_any_time_blocks_nothing(reclaim: str, expected: str) -> None:
    tree = [
        queue("a", 4, {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": reclaim}),
        queue("b", 2),
    ]
    holders = [held("a-high", "a", 3, 9)]
    found = play(tree, holders, a=wants("x", cpu=4), b=wants("y", cpu=3))
    assert outcome(found) == {"x": "GENERIC", "y": expected}


def test_qe_265_a_head_without_candidates_keeps_only_what_it_may_borrow() -> None:
    rules = {**LOWER, "within_cluster_queue": "Never"}
    tree: list[ClusterQueueBuilder | CohortBuilder] = [
        cohort("all").quota("default", cpu=4),
        queue("a", limits(0, borrowing=3), rules),
        queue("b", 0, rules),
    ]
    found = play(tree, [held("a0", "a", 2)], a=wants("x", cpu=2, age=9), b=wants("y", cpu=1))
    assert outcome(found) == {"x": "GENERIC", "y": "reserved"}


def test_fair_sharing_serves_and_takes_by_share() -> None:
    tree = [queue("a", 3, ANY), queue("b", 3, ANY), queue("c", 3, ANY)]
    holders = [*units("b", "b", 6), *units("c", "c", 3)]
    found = play(tree, holders, FairPreemption(), a=wants("x", cpu=2), b=wants("y", cpu=1, age=9))
    assert outcome(found) == {"x": ["b1", "b2"], "y": "GENERIC"}
    assert [each.head.waiting.key.name for each in found] == ["x", "y"]


def test_with_fair_sharing_somebody_is_asked_to_go_even_for_a_head_that_borrows() -> None:
    tree = [queue("a", 0, ANY), queue("b", 0, ANY), queue("bank", 6, {})]
    holders = units("b", "b", 6)
    assert outcome(play(tree, holders, FairPreemption(), a=wants("x", cpu=2))) == {"x": ["b1", "b2"]}
    assert outcome(play(tree, holders, a=wants("x", cpu=2))) == {"x": "GENERIC"}
