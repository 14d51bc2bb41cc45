"""Who has to go under fair sharing (quota-engine 3.6; scenarios QE-206 to QE-241)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.quota.preemption.fair import FINAL_SHARE, INITIAL_SHARE, FairPreemption
from tests.builders import ClusterQueueBuilder, CohortBuilder, cluster_queue, cohort
from tests.quota.scenes import Held, Scene, held, needs, units

CQ, RECLAIM, FAIR = "InClusterQueue", "InCohortReclamation", "InCohortFairSharing"
BOTH = FairPreemption()
SHARES_ALONE = replace(NEWEST, is_fair_within_nominal=False)


def queue(
    name: str, cpu: float, *, parent: str = "all", weight: float = 1, reclaim: str = "Any"
) -> ClusterQueueBuilder:
    rules = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": reclaim}
    return cluster_queue(name).cohort(parent).quota("default", cpu=cpu).fair_weight(str(weight)).preempt(**rules)  # type: ignore[arg-type]


def flat(**weights: float) -> list[ClusterQueueBuilder]:
    """Three queues of 3 cpu each, and one without quota that never preempts."""
    return [
        *(queue(name, 3, weight=weights.get(name, 1)) for name in "abc"),
        cluster_queue("preemptible").cohort("all").quota("default", cpu=0),
    ]


def sizes(name: str, *cpus: float, priority: int = 0) -> list[Held]:
    return [held(f"{name}{number}", name, cpu, priority) for number, cpu in enumerate(cpus, 1)]


def ones(name: str, count: int, priority: int = 0) -> list[Held]:
    return units(name, name, count, priority)


FLAT = {
    "who borrows gives to who does not": ([*ones("a", 3), *ones("b", 5), *ones("c", 1)], "c", 1, {"b1": RECLAIM}),
    "of two borrowers the one whose share is enough": ([*sizes("a", 3, 1), *sizes("b", 2, 3)], "c", 3, {"a1": RECLAIM}),
    "the larger borrower gives to the smaller": ([*ones("a", 3), *ones("b", 5), *ones("c", 1)], "a", 1, {"b1": FAIR}),
    "two borrowers give a little each": (
        [*sizes("a", 0.5, 0.5, 3), *sizes("b", 0.5, 0.5, 3)], "c", 2, {"a1": RECLAIM, "b1": RECLAIM},
    ),
    "nobody borrows": ([*ones("a", 3), *ones("b", 3), *ones("c", 3)], "a", 1, {}),
    "not so much that shares only change places": ([*ones("a", 3), *ones("b", 5)], "a", 2, {}),
    "the own weak, if the others do not have more": (
        [*units("low", "a", 2, -1), *ones("a", 2), *ones("b", 5)], "a", 2, {"low1": CQ, "low2": CQ},
    ),
    "both the own weak and another's": (
        [*units("low", "a", 1, -1), *ones("a", 2), *ones("b", 6)], "a", 2, {"low1": CQ, "b1": FAIR},
    ),
    "all that one has, if it is one piece": (sizes("b", 9), "a", 2, {"b1": RECLAIM}),
    "not one piece that leaves less than it takes": ([*sizes("a", 2), *sizes("b", 7)], "a", 5, {}),
    "too much for a fair part": (sizes("b", 2, 2, 3), "a", 6, {}),
    "own and others' in pieces": (
        [*[held("low1", "a", 2, -1), held("low2", "a", 1, -1)], *sizes("b", 3, 3)], "a", 4, {"low1": CQ, "b1": FAIR},
    ),
    "only what is needed": ([*sizes("b", 2, 1, 2), *sizes("c", 1)], "a", 3.5, {"b2": FAIR}),
    "from two who have more than their own": ([*sizes("b", 2, 2.5), *sizes("c", 2, 2.5)], "a", 3.5, {"b1": FAIR, "c1": FAIR}),
    "who borrows most gets nothing from the others": ([*sizes("a", 3.5), *sizes("b", 2.5), *sizes("c", 2.5)], "b", 2, {}),
    "pieces too large to take one": ([*sizes("b", 3, 3), *sizes("c", 3)], "a", 4, {}),
    "even the weak are safe from who would have more": (
        [*ones("a", 3), *ones("b", 3), *ones("preemptible", 3, -3)], "a", 2, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("holders", "name", "cpu", "expected"), FLAT.values(), ids=FLAT.keys())
def test_in_a_flat_cohort(holders: list[Held], name: str, cpu: float, expected: dict[str, str]) -> None:
    assert Scene(flat(), holders, BOTH).victims(name, needs(cpu=cpu)) == dict(sorted(expected.items()))


@pytest.mark.parametrize(("holders", "name", "cpu", "expected"), FLAT.values(), ids=FLAT.keys())
def test_by_shares_alone_the_same_have_to_go(
    holders: list[Held], name: str, cpu: float, expected: dict[str, str]
) -> None:
    by_shares = {victim: FAIR if cause == RECLAIM else cause for victim, cause in sorted(expected.items())}
    assert Scene(flat(), holders, BOTH, compatibility=SHARES_ALONE).victims(name, needs(cpu=cpu)) == by_shares


@pytest.mark.parametrize(("compatibility", "expected"), [(SHARES_ALONE, {}), (NEWEST, {"a1": RECLAIM})])
def test_who_borrows_something_else_takes_back_its_own_of_what_is_contested(
    compatibility: Compatibility, expected: dict[str, str]
) -> None:
    """It borrows so much memory that by its share it would never get its cpu."""
    tree = [queue(name, 4).quota("default", cpu=4, memory=4) for name in "abc"]
    holders = [held("a1", "a", 5), held("b1", "b", 0, memory=10), held("b2", "b", 2), held("c1", "c", 4)]
    assert Scene(tree, holders, BOTH, compatibility=compatibility).victims("b", needs(cpu=2)) == expected


LARGE_AND_SMALL = [*ones("a", 3), held("low", "b", 5), held("high", "b", 1, 1)]


@pytest.mark.parametrize(("strategy", "expected"), [(INITIAL_SHARE, {"low": FAIR}), (FINAL_SHARE, {"high": FAIR})])
def test_by_the_share_before_the_weak_go_by_the_share_after_whoever_leaves_enough(
    strategy: str, expected: dict[str, str]
) -> None:
    scene = Scene(flat(), LARGE_AND_SMALL, FairPreemption((strategy,)))
    assert scene.victims("a", needs(cpu=1), 2) == expected


WEIGHTS = {
    "who weighs more gets more": ({"a": 2}, [*ones("a", 3), *ones("b", 6)], 2, {"b1": FAIR, "b2": FAIR}),
    "who weighs nothing gives everything borrowed": (
        {"b": 0}, [*ones("a", 3), *ones("b", 6)], 3, {"b1": FAIR, "b2": FAIR, "b3": FAIR},
    ),
    "but nothing of its own": ({"b": 0}, [*ones("a", 3), *ones("b", 3), *ones("c", 3)], 1, {}),
}  # fmt: skip


@pytest.mark.parametrize(("weights", "holders", "cpu", "expected"), WEIGHTS.values(), ids=WEIGHTS.keys())
def test_with_weights(weights: dict[str, float], holders: list[Held], cpu: float, expected: dict[str, str]) -> None:
    assert Scene(flat(**weights), holders, BOTH).victims("a", needs(cpu=cpu)) == expected


def test_a_queue_without_cohort_takes_from_its_own() -> None:
    scene = Scene([queue("a", 1, parent="")], [held("low", "a", 1, -1)], BOTH)
    assert scene.victims("a", needs(cpu=1), 1000) == {"low": CQ}


def test_a_queue_without_cohort_that_has_not_enough_takes_nobody() -> None:
    scene = Scene([queue("a", 1, parent="")], [held("low", "a", 1, -1)], BOTH)
    assert scene.victims("a", needs(cpu=2), 1000) == {}


def test_the_strategies_follow_each_other_within_one_search() -> None:
    nodes: list[ClusterQueueBuilder | CohortBuilder] = [
        cohort("all").quota("default", cpu=9),
        queue("p1", 0),
        queue("p2", 0),
    ]
    scene = Scene(nodes, [held(f"w{number}", "p1", 2) for number in range(1, 5)], BOTH)
    assert scene.victims("p2", needs(cpu=5)) == {"w1": FAIR, "w2": FAIR}
    assert scene.victims("p2", needs(cpu=6), 999) == {}


def test_large_weights_do_not_round_shares_together() -> None:
    nodes = [queue("a", 600, weight=300), queue("b", 600, weight=300)]
    scene = Scene(nodes, [held(f"a{number}", "a", 100) for number in range(10)], BOTH)
    assert len(scene.victims("b", needs(cpu=500))) == 3


def two_sides(left: int = 0) -> list[ClusterQueueBuilder | CohortBuilder]:
    """A root without quota over two cohorts, one with two queues and one with one."""
    return [
        cohort("left").parent("root").quota("default", cpu=left),
        cohort("right").parent("root"),
        queue("a", 2, parent="left"),
        queue("b", 2, parent="left"),
        queue("d", 4, parent="right"),
    ]


def test_a_cohort_that_lives_on_its_own_is_left_alone() -> None:
    here = [*ones("b", 4), *units("low", "d", 2, -1), *ones("d", 2)]
    assert Scene(two_sides(), here, BOTH).victims("d", needs(cpu=1)) == {"low1": CQ}


def test_within_a_cohort_those_who_borrow_from_each_other_give_back() -> None:
    assert Scene(two_sides(), [*ones("b", 4), *ones("d", 4)], BOTH).victims("a", needs(cpu=1)) == {"b1": RECLAIM}


def test_a_cohort_that_borrows_gives_back_whoever_in_it_borrows() -> None:
    here = [*ones("a", 2), *ones("b", 4), *ones("d", 2)]
    assert Scene(two_sides(), here, BOTH).victims("d", needs(cpu=2)) == {"b1": RECLAIM, "b2": RECLAIM}


@pytest.mark.parametrize("weightless", ["queue", "cohort"])
def test_who_weighs_nothing_still_gets_back_its_own(weightless: str) -> None:
    nodes = [
        cohort("left").parent("root").fair_weight(0 if weightless == "cohort" else 1),
        queue("a", 3, parent="left", weight=0 if weightless == "queue" else 1),
        queue("b", 3, parent="root"),
    ]
    scene = Scene(nodes, ones("b", 6), BOTH)  # type: ignore[arg-type]
    assert scene.victims("a", needs(cpu=3)) == {"b1": RECLAIM, "b2": RECLAIM, "b3": RECLAIM}


def test_who_reclaims_from_the_weaker_only_leaves_the_strong_alone() -> None:
    nodes = [queue("a", 3, reclaim="LowerPriority"), queue("b", 3)]
    scene = Scene(nodes, [*units("low", "a", 3, -1), held("big", "b", 3, 100)], BOTH)
    assert scene.victims("a", needs(cpu=2)) == {"low1": CQ, "low2": CQ}


def test_the_search_puts_its_own_needs_back() -> None:
    scene = Scene(flat(), [*ones("a", 3), *ones("b", 5)], BOTH)
    before = scene.usage()
    scene.victims("a", needs(cpu=1))
    scene.victims("a", needs(cpu=2))
    assert scene.usage() == before
