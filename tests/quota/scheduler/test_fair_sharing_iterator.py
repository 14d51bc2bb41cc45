"""The order of heads under fair sharing (quota-engine 3.2; scenarios QE-244 to QE-253)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.quota.cache.tree import Amounts, Node, UndoLog
from multikueue.quota.scheduler.fair_sharing_iterator import tournament
from multikueue.quota.workload.ordering import Rank
from tests.builders import NOW, ClusterQueueBuilder, CohortBuilder, cluster_queue, cohort
from tests.quota.scenes import Held, Scene, held, needs

Nodes = list[ClusterQueueBuilder | CohortBuilder]


@dataclass(frozen=True)
class Entry:
    node: Node
    usage: Amounts
    borrowing: int = 1
    priority: int = 0
    age: int = 0

    @property
    def rank(self) -> Rank:
        return -self.priority, NOW - timedelta(seconds=self.age), self.node.name


def order(scene: Scene, *entries: Entry, compatibility: Compatibility = NEWEST) -> str:
    """The names of the queues in the order they are served; each takes what it asks for."""
    log, names = UndoLog(), []
    for entry in tournament(entries, compatibility):
        entry.node.add(entry.usage, log)
        names.append(entry.node.name)
    log.roll_back()
    return " ".join(names)


def entry(scene: Scene, name: str, cpu: float, *, borrowing: int = 1, priority: int = 0, age: int = 0) -> Entry:
    return Entry(scene.node(name), needs(cpu=cpu), borrowing, priority, age)


def two(*, weight: int = 1, used: tuple[Held, ...] = ()) -> Scene:
    nodes: Nodes = [
        cohort("all").quota("default", cpu=100),
        cluster_queue("b").cohort("all").quota("default", cpu=0).fair_weight(weight),
        cluster_queue("c").cohort("all").quota("default", cpu=0).fair_weight(weight),
    ]
    return Scene(nodes, used)


def test_the_smaller_share_with_the_head_comes_first() -> None:
    scene = two(used=(held("w", "b", 10),))
    assert order(scene, entry(scene, "c", 75, priority=9), entry(scene, "b", 50)) == "b c"


@pytest.mark.parametrize("weight", [0, 123456789])
def test_with_any_equal_weight_less_borrowing_comes_first(weight: int) -> None:
    scene = two(weight=weight)
    assert order(scene, entry(scene, "b", 2, priority=9001), entry(scene, "c", 1)) == "c b"


EQUAL = {
    "of equal shares the higher priority": ({"priority": 99}, {"priority": 101}, "c b"),
    "of equal priority the older": ({"age": 1}, {"age": 2}, "c b"),
    "how far up somebody borrows does not matter": ({"borrowing": 2, "age": 1}, {"borrowing": 1}, "b c"),
}  # fmt: skip


@pytest.mark.parametrize(("b", "c", "expected"), EQUAL.values(), ids=EQUAL.keys())
def test_ties(b: dict[str, int], c: dict[str, int], expected: str) -> None:
    scene = two()
    assert (
        order(scene, Entry(scene.node("b"), needs(cpu=1), **b), Entry(scene.node("c"), needs(cpu=1), **c)) == expected
    )


@pytest.mark.parametrize("by_flavor", [True, False])
def test_who_stays_within_its_own_quota_comes_before_the_smaller_share(by_flavor: bool) -> None:
    """It uses so much of another flavor that its share is the larger one."""
    nodes: Nodes = [
        cohort("all").quota("default", cpu=100).quota("spot", cpu=100),
        cluster_queue("b").cohort("all").quota("default", cpu=0).quota("spot", cpu=0),
        cluster_queue("c").cohort("all").quota("default", cpu=5).quota("spot", cpu=0),
    ]
    scene = Scene(nodes, [Held("w", "c", needs(on="spot", cpu=90))])
    heads = entry(scene, "b", 1, borrowing=1), entry(scene, "c", 1, borrowing=0, priority=-9)
    assert order(scene, *heads, compatibility=replace(NEWEST, is_fair_by_flavor=by_flavor)) == "c b"


@pytest.mark.parametrize(("by_flavor", "expected"), [(True, "d b"), (False, "b d")])
def test_a_queue_within_its_own_quota_in_a_cohort_that_borrows_comes_after_a_cohort_that_does_not(
    by_flavor: bool, expected: str
) -> None:
    """Each of the heads stays within what its own queue has, but the other queue of one cohort uses all it lends."""
    nodes: Nodes = [
        cohort("left").parent("root"),
        cohort("right").parent("root"),
        cohort("root").quota("default", cpu=10),
        *(cluster_queue(name).cohort("left").quota("default", cpu=2) for name in "ab"),
        cluster_queue("d").cohort("right").quota("default", cpu=2).quota("spot", cpu=0),
    ]
    scene = Scene(nodes, [held("a1", "a", 4), Held("d1", "d", needs(on="spot", cpu=5))])
    heads = entry(scene, "b", 1, borrowing=0, priority=9), entry(scene, "d", 1, borrowing=0)
    assert order(scene, *heads, compatibility=replace(NEWEST, is_fair_by_flavor=by_flavor)) == expected


def test_queues_alone_come_too() -> None:
    scene = Scene([cluster_queue("x").quota("default", cpu=1), cluster_queue("y").cohort("yy").quota("default", cpu=1)])
    assert order(scene, entry(scene, "x", 1), entry(scene, "y", 1)) == "y x"


def tree() -> Scene:
    """Root a of 200 over cohorts b with queues d and e, and c with f and g, all without quota of their own."""
    nodes: Nodes = [cohort("a").quota("default", cpu=200), cohort("b").parent("a"), cohort("c").parent("a")]
    nodes += [cluster_queue(name).cohort("b").quota("default", cpu=0) for name in "de"]
    nodes += [cluster_queue(name).cohort("c").quota("default", cpu=0) for name in "fg"]
    return Scene(nodes, [held("d", "d", 10), held("e", "e", 20), held("g", "g", 100)])


def test_at_each_cohort_the_winners_of_the_cohorts_below_meet() -> None:
    scene = tree()
    heads = [entry(scene, "d", 70), entry(scene, "e", 61), entry(scene, "f", 1), entry(scene, "g", 1)]
    assert order(scene, *heads).startswith("d")


def test_what_a_head_takes_counts_for_its_cohort_in_the_next_round() -> None:
    scene = tree()
    heads = [entry(scene, "d", 75), entry(scene, "e", 5), entry(scene, "f", 1), entry(scene, "g", 1)]
    assert order(scene, *heads) == "e f g d"
    alone = [entry(scene, "d", 75), entry(scene, "f", 1), entry(scene, "g", 1)]
    assert order(scene, *alone) == "f g d"


def test_shares_are_looked_up_again_only_where_they_changed() -> None:
    scene = tree()
    heads = [entry(scene, name, cpu) for name, cpu in zip("defg", (30, 20, 1, 1), strict=True)]
    found = order(scene, *heads)
    slow: list[str] = []
    log, left = UndoLog(), list(heads)
    while left:
        best = next(iter(tournament(left)))
        best.node.add(best.usage, log)
        slow.append(best.node.name)
        left.remove(best)
    log.roll_back()
    assert found == " ".join(slow)
