"""Queues as trees of cohorts."""

from __future__ import annotations

import pytest

from multikueue.api.kueue.queues import MAX_SPEND_ANNOTATION, ClusterQueueStatus, FlavorUsage, ResourceUsage
from multikueue.api.meta import Condition, render_time
from multikueue.quota.capacity.spend import SPEND_LIMIT_REACHED
from multikueue.testing import NOW
from multikueue_console.model.objects import SeenObjects
from multikueue_console.model.queues import Bar, CohortNode, Spending, local_rows, queue_trees
from tests.builders.clusters import admission_check
from tests.builders.queues import ClusterQueueBuilder, cluster_queue, cohort, limits, local_queue


def using(queue: ClusterQueueBuilder, total: str, borrowed: str = "") -> ClusterQueueBuilder:
    cell = ResourceUsage(name="cpu", total=total, borrowed=borrowed)
    return queue._with(status=ClusterQueueStatus(flavors_reservation=(FlavorUsage(name="default", resources=(cell,)),)))


def trees(*queues: ClusterQueueBuilder, **more: object) -> tuple[CohortNode, ...]:
    built = [each.build() for each in queues]
    return queue_trees(SeenObjects(cluster_queues={each.key: each for each in built}, **more))  # type: ignore[arg-type]


def bar(nominal: int, used: int = 0, borrowed: int = 0, lent: int = 0, limit: int = -1) -> Bar:
    return Bar("default", "cpu", nominal * 1000, used * 1000, borrowed * 1000, lent * 1000, limit)


def test_a_queue_without_cohort_is_a_tree_of_its_own() -> None:
    (tree,) = trees(using(cluster_queue("a").quota("default", cpu=4), "1"))

    assert (tree.name, tree.bars) == ("", (bar(4, used=1),))
    assert tree.bars[0].free == 3000


def test_what_one_queue_borrows_another_lends() -> None:
    (tree,) = trees(
        using(cluster_queue("a").quota("default", cpu=4).cohort("all"), "6", "2"),
        using(cluster_queue("b").quota("default", cpu=4).cohort("all"), "1"),
    )

    assert tree.name == "all"
    assert [each.bars for each in tree.queues] == [(bar(4, used=6, borrowed=2),), (bar(4, used=1, lent=2),)]
    assert tree.bars == (bar(8, used=7, borrowed=2, lent=2),)


def test_a_loan_from_the_cohorts_own_quota_is_nobodys() -> None:
    own = cohort("all").quota("default", cpu=2).build()
    (tree,) = trees(
        using(cluster_queue("a").quota("default", cpu=4).cohort("all"), "6", "2"),
        using(cluster_queue("b").quota("default", cpu=4).cohort("all"), "1"),
        cohorts={own.key: own},
    )

    assert tree.queues[1].bars == (bar(4, used=1),)
    assert tree.bars == (bar(10, used=7, borrowed=2),)


def test_cohorts_are_nested_and_a_circle_of_parents_is_cut() -> None:
    cohorts = [cohort("root").build(), cohort("leaf").parent("root").build(), cohort("x").parent("y").build()]
    cohorts.append(cohort("y").parent("x").build())
    found = trees(cluster_queue("a").quota("default", cpu=1).cohort("leaf"), cohorts={c.key: c for c in cohorts})

    assert [tree.name for tree in found] == ["root", "x", "y"]
    assert [each.name for each in found[0].cohorts] == ["leaf"]
    assert found[0].bars == (bar(1),)


def test_limits_problems_and_the_strategy_of_the_check_are_told() -> None:
    check = admission_check("mk").annotations({"multikueue.dev/strategy": "incremental"}).build()
    stopped = cluster_queue("a").quota("default", cpu=limits(4, borrowing=1)).checks("mk").stopped()
    (tree,) = trees(stopped.active(False, message="is stopped"), checks={check.key: check})
    (queue,) = tree.queues

    assert (queue.problem, queue.is_held, queue.strategy) == ("is stopped", True, "incremental")
    assert queue.bars == (bar(4, limit=1000),)


def test_without_the_right_to_list_there_is_no_tree_and_local_queues_are_rows() -> None:
    queue = local_queue("main", "a", namespace="team").build()
    seen = SeenObjects(local_queues={queue.key: queue})

    assert queue_trees(seen) == ()
    assert [(row.namespace, row.name, row.cluster_queue) for row in local_rows(seen)] == [("team", "main", "a")]


@pytest.mark.parametrize(
    ("limit", "words", "expected"),
    [
        ("100/7d", "of 100 within 168h", Spending(12.5, int(NOW.timestamp()), 168.0, 100.0)),
        ("", "within 168h", Spending(12.5, int(NOW.timestamp()), 168.0)),
    ],
    ids=["with a limit", "without one"],
)
def test_what_a_queue_spent_is_as_its_condition_says(limit: str, words: str, expected: Spending) -> None:
    told = f"12.5000 spent by {render_time(NOW)}, {words}"
    made = cluster_queue("a").quota("default", cpu=4).annotations({MAX_SPEND_ANNOTATION: limit} if limit else {})
    condition = Condition(type=SPEND_LIMIT_REACHED, status="False", reason="WithinLimit", message=told)
    (tree,) = trees(made._with(status=ClusterQueueStatus(conditions=(condition,))))
    assert [each.spending for each in tree.queues] == [expected]
    assert [each.spending for each in trees(made)[0].queues] == [None]
