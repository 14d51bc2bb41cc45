"""The quota tree against the figures of quota-scenarios 9.5, and its invariants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.quota.cache.tree import CellQuota, Forest, Member, UndoLog, quotas, subtree_that_fits
from tests.builders import cluster_queue, limits

FR = ("red", "cpu")


def member(parent: str, nominal: int, borrowing: int | None = None, lending: int | None = None) -> Member:
    return Member(parent, {FR: CellQuota(nominal, borrowing, lending)})


def forest(
    queues: dict[str, Member], cohorts: dict[str, Member] | None = None, used: dict[str, int] | None = None
) -> Forest:
    trees = Forest()
    for name, spec in (cohorts or {}).items():
        trees.declare_cohort(name, spec)
    for name, spec in queues.items():
        trees.declare_queue(name, spec)
    trees.build({name: {FR: amount} for name, amount in (used or {}).items()})
    return trees


def available(trees: Forest, *names: str) -> list[int]:
    return [node.available(FR) for name in names if (node := trees.queue(name))]


def potential(trees: Forest, *names: str) -> list[int]:
    return [node.cell(FR).potential() for name in names if (node := trees.queue(name))]


@pytest.mark.parametrize("used", [7000, 5000, 3000], ids=["above", "equal to", "below"])
def test_qe_133_what_is_used_bubbles_up_only_beyond_what_is_kept(used: int) -> None:
    """5000 of 10000 are not lent."""
    trees = forest({"cq": member("c", 10000, None, 5000), "other": member("c", 0)}, {"c": member("", 0)}, {"cq": used})
    beyond = max(0, used - 5000)
    assert available(trees, "cq", "other") == [10000 - used, 5000 - beyond]
    node = trees.queue("cq")
    assert node
    node.remove({FR: used})
    assert available(trees, "cq", "other") == [10000, 5000]
    node.add({FR: used})
    assert available(trees, "cq", "other") == [10000 - used, 5000 - beyond]


FIGURES = {
    "QE-125 a queue that uses more than it has takes from nobody without a cohort": (
        {"cq1": member("", 0), "cq2": member("", 5000)},
        {},
        {"cq1": 1000, "cq2": 2500},
        [0, 2500],
        [0, 5000],
    ),
    "QE-126 what is not lent is for its owner alone": (
        {"cq1": member("c", 10000), "cq2": member("c", 10000, None, 9000)},
        {"c": member("", 10000)},
        {"cq1": 1000, "cq2": 500},
        [28000, 28500],
        [29000, 30000],
    ),
    "QE-127 the cohort's own quota can be used up": (
        {"cq1": member("c", 10000)},
        {"c": member("", 10000)},
        {"cq1": 11000},
        [9000],
        [20000],
    ),
    "QE-128 an oversubscribed cohort starves even those who neither borrow nor lend": (
        {"cq1": member("c", 10000), "cq2": member("c", 10000, 0, 0)},
        {"c": member("", 10000)},
        {"cq1": 31000},
        [0, 0],
        [20000, 10000],
    ),
    "QE-129 borrowing and lending limits side by side": (
        {"cq1": member("c", 10000), "cq2": member("c", 10000, 2000), "cq3": member("c", 10000, None, 5000)},
        {"c": member("", 10000)},
        {"cq1": 20000, "cq2": 10000, "cq3": 6000},
        [4000, 2000, 4000],
        [35000, 12000, 40000],
    ),
    "QE-130 a cohort's own quota flows up though its queue lends nothing": (
        {"cq1": member("left", 10000), "cq2": member("right", 10000, None, 0)},
        {"left": member("root", 10000), "right": member("root", 10000), "root": Member()},
        {"cq1": 10000, "cq2": 5000},
        [20000, 25000],
        [30000, 40000],
    ),
    "QE-131 a borrowing limit in the middle bounds all below": (
        {
            "left-cq1": member("left", 10000),
            "left-cq2": member("left", 10000, 5000),
            "right-cq": member("right", 10000),
        },
        {"left": member("root", 10000, 5000), "right": member("root", 10000), "root": Member()},
        {},
        [35000, 15000, 50000],
        [35000, 15000, 50000],
    ),
    "QE-132 lending limits on the way keep what they do not lend": (
        {
            "left-cq1": member("left", 10000, None, 5000),
            "left-cq2": member("left", 0),
            "right-cq": member("right", 0),
            "root-cq": member("root", 0),
        },
        {"left": member("root", 10000, None, 5000), "right": member("root", 0), "root": Member()},
        {},
        [20000, 15000, 5000, 5000],
        [20000, 15000, 5000, 5000],
    ),
}


@pytest.mark.parametrize(("queues", "cohorts", "used", "free", "most"), FIGURES.values(), ids=FIGURES)
def test_figures_of_the_reference(
    queues: dict[str, Member], cohorts: dict[str, Member], used: dict[str, int], free: list[int], most: list[int]
) -> None:
    trees = forest(queues, cohorts, used)

    assert available(trees, *queues) == free
    assert potential(trees, *queues) == most


@pytest.mark.parametrize("before", [0, 4000, 5000, 12000], ids=lambda used: f"with {used} used")
@pytest.mark.parametrize("amount", [1000, 5000, 9000], ids=lambda amount: f"adding {amount}")
def test_usage_bubbles_up_only_beyond_the_private_part(before: int, amount: int) -> None:
    trees = forest({"cq": member("c", 10000, None, 5000)}, used={"cq": before})
    queue, cohort = trees.queue("cq"), trees.cohort("c")
    assert queue
    assert cohort

    queue.add({FR: amount})
    assert cohort.cell(FR).usage == max(0, before + amount - 5000)

    queue.remove({FR: amount})
    assert cohort.cell(FR).usage == max(0, before - 5000)


def test_a_cohort_that_is_only_named_exists_without_quota() -> None:
    trees = forest({"a": member("c", 3000), "b": member("c", 2000)})

    assert available(trees, "a", "b") == [5000, 5000]
    assert trees.root_name("a") == trees.root_name("b") == "cohort/c"


def test_a_removed_cohort_object_cuts_its_queues_off_from_the_parent() -> None:
    trees = forest({"a": member("c", 3000)}, {"c": Member("root"), "root": member("", 7000)})
    assert available(trees, "a") == [10000]

    trees.declare_cohort("c", None)
    trees.build({})

    assert available(trees, "a") == [3000]


def test_queues_below_a_ring_of_cohorts_are_marked_and_stand_alone_until_it_is_broken() -> None:
    trees = forest(
        {"a": member("x", 4000), "b": member("low", 1000)}, {"x": Member("y"), "y": Member("x"), "low": Member("x")}
    )
    assert [trees.queue(name).in_cycle for name in ("a", "b")] == [True, True]  # type: ignore[union-attr]

    trees.declare_cohort("y", Member())
    trees.build({})

    assert [trees.queue(name).in_cycle for name in ("a", "b")] == [False, False]  # type: ignore[union-attr]
    assert available(trees, "a") == [5000]


def test_usage_of_a_flavor_that_is_no_longer_declared_stays_counted() -> None:
    trees = forest({"a": Member("c"), "b": member("c", 5000)}, used={"a": 2000})

    assert available(trees, "b") == [3000]


def test_declaring_the_same_again_is_no_change() -> None:
    trees = forest({"a": member("c", 3000)})

    assert trees.declare_queue("a", member("c", 3000)) is False
    assert trees.stale is False
    assert trees.declare_queue("a", member("c", 4000)) is True
    assert trees.stale is True


@pytest.mark.parametrize(
    ("amount", "expected"),
    [(1000, (0, True)), (3000, (1, True)), (6000, (2, False)), (60000, (2, False))],
    ids=["within the queue's own", "within the cohort", "within the root", "beyond all"],
)
def test_the_lowest_subtree_that_holds_an_amount(amount: int, expected: tuple[int, bool]) -> None:
    trees = forest({"a": member("c", 2000), "b": member("c", 2000)}, {"c": Member("root"), "root": member("", 5000)})
    node = trees.queue("a")
    assert node

    assert subtree_that_fits(node.cell(FR), amount) == expected


def test_quotas_are_read_as_whole_amounts() -> None:
    queue = cluster_queue("cq").quota("spot", cpu=limits("1500m", borrowing=1), memory=limits("1Gi", lending="0.5Gi"))

    assert quotas(queue.build().spec.resource_groups) == {
        ("spot", "cpu"): CellQuota(1500, 1000, None),
        ("spot", "memory"): CellQuota(2**30, None, 2**29),
    }


AMOUNTS = st.integers(0, 40)
LIMITS = st.none() | AMOUNTS


@st.composite
def grown(draw: st.DrawFn) -> tuple[Forest, list[str]]:
    """A tree of three levels with random limits."""
    cohorts = {
        name: member(parent, draw(AMOUNTS), *((draw(LIMITS), draw(LIMITS)) if parent else (None, None)))
        for name, parent in (("root", ""), ("left", "root"), ("right", "root"))
    }
    parents = draw(st.lists(st.sampled_from(["", "root", "left", "right"]), min_size=1, max_size=5))
    queues = {
        f"cq{i}": member(parent, draw(AMOUNTS), *((draw(LIMITS), draw(LIMITS)) if parent else (None, None)))
        for i, parent in enumerate(parents)
    }
    return forest(queues, cohorts), list(queues)


def usages(trees: Forest, queues: list[str]) -> list[int]:
    nodes = [*(trees.queue(name) for name in queues), *(trees.cohort(name) for name in ("root", "left", "right"))]
    return [node.cell(FR).usage for node in nodes if node]


@given(grown(), st.lists(st.tuples(st.integers(0, 4), AMOUNTS), max_size=12), st.randoms())
def test_adding_and_removing_in_any_order_restores_the_tree(
    grown: tuple[Forest, list[str]], moves: list[tuple[int, int]], chance: object
) -> None:
    trees, queues = grown
    before = usages(trees, queues)
    for index, amount in moves:
        trees.queue(queues[index % len(queues)]).add({FR: amount})  # type: ignore[union-attr]
    chance.shuffle(moves)  # type: ignore[attr-defined]
    for index, amount in moves:
        trees.queue(queues[index % len(queues)]).remove({FR: amount})  # type: ignore[union-attr]

    assert usages(trees, queues) == before


@given(grown(), st.lists(st.tuples(st.integers(0, 4), AMOUNTS), max_size=12))
def test_usage_added_step_by_step_equals_usage_built_at_once(
    grown: tuple[Forest, list[str]], moves: list[tuple[int, int]]
) -> None:
    trees, queues = grown
    total: dict[str, dict[tuple[str, str], int]] = {}
    for index, amount in moves:
        name = queues[index % len(queues)]
        trees.queue(name).add({FR: amount})  # type: ignore[union-attr]
        total.setdefault(name, {FR: 0})[FR] += amount
    stepwise = usages(trees, queues)

    trees.build(total)

    assert usages(trees, queues) == stepwise


@given(grown(), st.lists(st.tuples(st.integers(0, 4), AMOUNTS), max_size=15))
def test_who_takes_only_what_is_available_never_exceeds_what_the_tree_allows(
    grown: tuple[Forest, list[str]], moves: list[tuple[int, int]]
) -> None:
    trees, queues = grown
    for index, amount in moves:
        node = trees.queue(queues[index % len(queues)])
        assert node
        if amount <= node.available(FR):
            node.add({FR: amount})

    for name in ("root", *queues):
        node = trees.cohort(name) or trees.queue(name)
        assert node
        cell = node.cell(FR)
        if cell.parent is None:
            assert cell.usage <= cell.subtree
        elif cell.quota.borrowing_limit is not None:
            assert cell.usage <= cell.subtree + cell.quota.borrowing_limit


@given(grown(), st.lists(st.tuples(st.integers(0, 4), st.integers(-20, 40)), max_size=12))
def test_rolling_back_restores_even_what_was_held_back_negatively(
    grown: tuple[Forest, list[str]], moves: list[tuple[int, int]]
) -> None:
    trees, queues = grown
    before = usages(trees, queues)
    log = UndoLog()
    for index, amount in moves:
        node = trees.queue(queues[index % len(queues)])
        assert node
        node.add({FR: amount}, log)
        node.remove({FR: amount // 2}, log)

    log.roll_back()

    assert usages(trees, queues) == before
