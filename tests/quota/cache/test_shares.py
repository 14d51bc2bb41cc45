"""The dominant resource share (quota-engine 1.8; scenarios QE-140 to QE-151)."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.quota.cache.shares import NOTHING, UNBOUNDED, Share, share
from tests.builders import ClusterQueueBuilder, CohortBuilder, cluster_queue, cohort, limits
from tests.quota.scenes import Held, Scene, needs

GPU = "example.com/gpu"


def lone(**weight: Any) -> ClusterQueueBuilder:
    return cluster_queue("q").cohort("c").quota("default", {"cpu": 2, GPU: 5})


def lender(cpu: float = 8, gpu: int = 5) -> ClusterQueueBuilder:
    return cluster_queue("lender").cohort("c").quota("default", {"cpu": cpu, GPU: gpu})


def used(cpu: float = 0, gpu: int = 0) -> list[Held]:
    return [Held("w", "q", {("default", "cpu"): round(cpu * 1000), ("default", GPU): gpu})]


FIGURES: dict[str, tuple[list[ClusterQueueBuilder], list[Held], int]] = {
    "without a cohort there is nothing to share": ([cluster_queue("q").quota("default", cpu=2)], used(cpu=5), 0),
    "what is one's own does not count": ([lone(), lender()], used(cpu=2, gpu=5), 0),
    "the resource with the largest share decides": ([lone(), lender()], used(cpu=3, gpu=7), 200),
    "whatever the others are": ([lone(), lender()], used(cpu=3, gpu=3), 100),
    "it is measured by what all lend together": ([lone(), lender()], used(cpu=5), 300),
    "what nobody lends is left out": (
        [
            cluster_queue("q").cohort("c").quota("default", {"cpu": 2, GPU: limits(0)}),
            cluster_queue("lender").cohort("c").quota("default", {"cpu": 8, GPU: 0}),
        ],
        used(cpu=5, gpu=3),
        300,
    ),
    "a fraction is rounded up": (
        [cluster_queue("q").cohort("c").quota("default", cpu="500m"), lender(cpu=1, gpu=0)],
        used(cpu=0.501),
        1,
    ),
    "also after weighing": (
        [cluster_queue("q").cohort("c").quota("default", cpu="500m").fair_weight(300), lender(cpu=1, gpu=0)],
        used(cpu=0.8),
        1,
    ),
    "twice the weight, half the share": ([lone().fair_weight(2), lender()], used(cpu=4), 100),
    "half the weight, twice the share": ([lone().fair_weight("0.5"), lender()], used(cpu=4), 400),
    "without weight it is unbounded": ([lone().fair_weight(0), lender()], used(cpu=4), UNBOUNDED),
    "but only for one that borrows": ([lone().fair_weight(0), lender()], used(cpu=2), 0),
}


@pytest.mark.parametrize(("tree", "holders", "expected"), FIGURES.values(), ids=FIGURES.keys())
def test_the_share_of_a_queue(tree: list[ClusterQueueBuilder], holders: list[Held], expected: int) -> None:
    assert share(Scene(tree, holders).node("q")).figure == expected


def test_flavors_of_a_resource_count_together() -> None:
    own = cluster_queue("q").cohort("c").quota("default", cpu=20).quota("spot", cpu=80)
    other = cluster_queue("lender").cohort("c").quota("default", cpu=100).quota("spot", cpu=0)
    scene = Scene([own, other], [Held("a", "q", needs(cpu=25)), Held("b", "q", needs(on="spot", cpu=5))])
    assert share(scene.node("q")).figure == 25


def nested(quota: Any, child: Any, root: int, weight: int = 1) -> list[ClusterQueueBuilder | CohortBuilder]:
    return [
        cohort("root").quota("default", cpu=root),
        cohort("child").parent("root").quota("default", cpu=child).fair_weight(weight),
        cluster_queue("q").cohort("child").quota("default", cpu=quota),
    ]


NESTED = {
    "a cohort shares what its queues do not cover": (nested(5, 0, 45, weight=2), (100, 50, 0)),
    "all of it if they have nothing": (nested(0, 0, 50, weight=2), (200, 100, 0)),
    "what it may not borrow it cannot lend on": (nested(0, limits(0, borrowing=10), 50), (1000, 200, 0)),
}


@pytest.mark.parametrize(("tree", "expected"), NESTED.values(), ids=NESTED.keys())
def test_the_shares_in_a_hierarchy(
    tree: list[ClusterQueueBuilder | CohortBuilder], expected: tuple[int, int, int]
) -> None:
    scene = Scene(tree, [Held("w", "q", needs(cpu=10))])
    assert tuple(share(scene.node(name)).figure for name in ("q", "child", "root")) == expected


def test_shares_compare_by_their_value_but_those_without_bound_are_larger() -> None:
    ordered = [NOTHING, Share(False, 0.5), Share(False, 1000.0), Share(True, 0.5), Share(True, 7.0)]
    assert sorted([ordered[index] for index in (3, 1, 4, 0, 2)]) == ordered
    assert [each.is_zero for each in ordered] == [True, False, False, False, False]
