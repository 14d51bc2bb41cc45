"""Who has to go, by priority and by who borrows (quota-engine 3.5; scenarios QE-152 to QE-204)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.compatibility import NEWEST
from multikueue.api.kueue.queues import BorrowWithinCohort
from tests.builders import ClusterQueueBuilder, CohortBuilder, cluster_queue, cohort, limits
from tests.quota.scenes import Held, Scene, held, needs, units

CQ, REC, RWB = "InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing"
GI = 2**30
CPU = ("default", "cpu")
LOWER: dict[str, Any] = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "LowerPriority"}
ANY: dict[str, Any] = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "Any"}
BELOW_ONE = BorrowWithinCohort(policy="LowerPriority", max_priority_threshold=0)


def queue(name: str, parent: str, quota: Any, rules: dict[str, Any]) -> ClusterQueueBuilder:
    return cluster_queue(name).cohort(parent).quota("default", cpu=quota).preempt(**rules)


def pair(parent: str, one: str, other: str, *, limited: bool) -> list[ClusterQueueBuilder]:
    """Two queues of 6 cpu and 3Gi; the first reclaims from the weaker only, the other from anybody, but keeps its own."""
    cpu, memory = (limits(6, borrowing=6), limits(3 * GI, borrowing=3 * GI)) if limited else (limits(6), limits(3 * GI))
    return [
        cluster_queue(one).cohort(parent).quota("default", cpu=cpu, memory=memory).preempt(**LOWER),
        cluster_queue(other)
        .cohort(parent)
        .quota("default", cpu=cpu, memory=memory)
        .preempt(within_cluster_queue="Never", reclaim_within_cohort="Any"),
    ]


def shared() -> list[ClusterQueueBuilder]:
    """Standard and best-effort queues around a lender of 10."""

    def one(name: str, quota: Any, within: str, reclaim: str) -> ClusterQueueBuilder:
        rules = {"within_cluster_queue": within, "reclaim_within_cohort": reclaim, "borrow_within_cohort": BELOW_ONE}
        return queue(name, "shared-cohort", quota, rules)

    return [
        one("a-standard", limits(1, borrowing=12), "Never", "LowerPriority"),
        one("b-standard", limits(1, borrowing=12), "LowerPriority", "Any"),
        one("a-best-effort", limits(1, borrowing=12), "Never", "LowerPriority"),
        one("b-best-effort", limits(0, borrowing=13), "Never", "LowerPriority"),
        cluster_queue("shared").cohort("shared-cohort").quota("default", cpu=10),
    ]


STANDALONE = [
    cluster_queue("standalone")
    .quota("default", cpu=6)
    .quota("alpha", memory=3 * GI)
    .quota("beta", memory=3 * GI)
    .preempt(within_cluster_queue="LowerPriority")
]
C = pair("cohort", "c1", "c2", limited=True)
D = pair("no-limits", "d1", "d2", limited=False)
LEGION = [queue("l1", "legion", limits(6, borrowing=12), LOWER)]
LENDING = [
    queue("lend1", "lending", limits(6, lending=4), LOWER),
    queue("lend2", "lending", limits(6, lending=2), LOWER),
]
THREE = [
    queue("a", "three", 2, ANY),
    queue("b", "three", 2, ANY),
    queue("c", "three", 2, ANY),
]
SHARED = shared()
PRESSED = [queue("s", "", 6, {"within_cluster_queue": "LowerOrNewerEqualPriority"})]

FULL = [held("low", "standalone", 2, -1), held("mid", "standalone", 2), held("high", "standalone", 2, 1)]
HALVES = [held("low", "standalone", 3, -1), held("mid", "standalone", 3)]
LOOSE = [held("low", "standalone", 1, -1), held("mid", "standalone", 1), held("high", "standalone", 3, 1)]
UNEVEN = [held("low", "standalone", 1, -1), held("mid", "standalone", 2), held("high", "standalone", 3, 1)]

ALONE = {
    "the weakest goes": (FULL, 2, 1, {"low": CQ}),
    "as many as needed go": (FULL, 3, 1, {"low": CQ, "mid": CQ}),
    "nobody is weaker": (HALVES, 1, -1, {}),
    "those who are weaker do not suffice": (HALVES, 4, 0, {}),
    "with some room fewer go": (LOOSE, 2, 1, {"low": CQ}),
    "who is not needed after all stays": (UNEVEN, 2, 1, {"mid": CQ}),
}


@pytest.mark.parametrize(("holders", "cpu", "priority", "expected"), ALONE.values(), ids=ALONE.keys())
def test_in_a_queue_of_its_own(holders: list[Held], cpu: float, priority: int, expected: dict[str, str]) -> None:
    assert Scene(STANDALONE, holders).victims("standalone", needs(cpu=cpu), priority) == expected


def test_only_those_who_use_the_flavor_at_hand_can_help() -> None:
    memory = [
        Held("low", "standalone", needs(on="alpha", memory=2 * GI), -1),
        Held("mid", "standalone", needs(on="beta", memory=GI)),
        Held("high", "standalone", needs(on="beta", memory=GI), 1),
    ]
    assert Scene(STANDALONE, memory).victims("standalone", needs(on="beta", memory=2 * GI), 1) == {"mid": CQ}


def test_what_is_short_on_two_flavors_takes_victims_on_both() -> None:
    memory = [
        Held(f"{size}-{on}", "standalone", needs(on=on, memory=amount), priority)
        for on in ("alpha", "beta")
        for size, amount, priority in (("low", 2 * GI, -1), ("mid", GI, 0))
    ]
    wanted = needs(on="alpha", memory=2 * GI) | needs(on="beta", memory=2 * GI)
    assert Scene(STANDALONE, memory).victims("standalone", wanted) == {"low-alpha": CQ, "low-beta": CQ}


@pytest.mark.parametrize(("is_zero_ignored", "expected"), [(True, {"other": REC}), (False, {})])
def test_who_asks_for_nothing_of_what_is_borrowed_stays_within_its_own(
    is_zero_ignored: bool, expected: dict[str, str]
) -> None:
    mine, theirs = (cluster_queue(name).cohort("all").quota("default", cpu=4, memory=2) for name in ("mine", "theirs"))
    holders = [held("own", "mine", 0, memory=3), held("other", "theirs", 8)]
    release = replace(NEWEST, is_zero_ignored=is_zero_ignored)
    scene = Scene([mine.preempt(reclaim_within_cohort="Any"), theirs], holders, compatibility=release)
    assert scene.victims("mine", needs(cpu=2, memory=0), short=[CPU]) == expected


def test_an_older_one_takes_the_place_of_a_newer_of_its_priority_the_last_reserved_first() -> None:
    here = [
        Held("high", "s", needs(cpu=2), 2, young=1),
        Held("late", "s", needs(cpu=2), 1, young=1, late=1),
        Held("early", "s", needs(cpu=2), 1, young=1),
    ]
    assert Scene(PRESSED, here).victims("s", needs(cpu=2), 1) == {"late": CQ}


def test_a_newer_one_does_not_take_the_place_of_an_older_of_its_priority() -> None:
    here = [Held(f"w{number}", "s", needs(cpu=2), 1) for number in range(3)]
    assert Scene(PRESSED, here).victims("s", needs(cpu=2), 1) == {}


COHORT = {
    "who borrows gives back before the own weak go": (
        C, [held("c1-low", "c1", 3, -1), held("c2-mid", "c2", 3), held("c2-high", "c2", 6, 1)], "c1", 3, 1, {"c2-mid": REC},
    ),
    "who does not borrow keeps its quota": (C, [held("c1-high", "c1", 4, 1), held("c2-low", "c2", 4, -1)], "c1", 4, 1, {}),
    "who would borrow itself cannot ask others to give back": (
        C, [held("c1-high", "c1", 4, 1), held("c2-low-1", "c2", 4, -1), held("c2-low-2", "c2", 4, -1)], "c1", 4, 1, {},
    ),
    "who borrows already asks in its own queue": (
        C, [held("c1-med", "c1", 4), held("c1-low", "c1", 4, -1), held("c2-low", "c2", 4, -1)], "c1", 4, 1, {"c1-low": CQ},
    ),
    "so too without limits": (
        D, [held("d1-med", "d1", 4), held("d1-low", "d1", 4, -1), held("d2-low", "d2", 4, -1)], "d1", 4, 1, {"d1-low": CQ},
    ),
    "of two the one that is enough goes": (
        LEGION, [held("l1-med", "l1", 4), held("l1-low", "l1", 2, -1)], "l1", 4, 1, {"l1-med": CQ},
    ),
    "an equal keeps what it borrows from one who reclaims from the weaker only": (
        C, [held("c1", "c1", 2), held("c2-1", "c2", 4), held("c2-2", "c2", 4)], "c1", 4, 0, {},
    ),
    "one who reclaims from anybody takes the weaker borrower": (
        C, [held("c1-1", "c1", 4), held("c1-2", "c1", 4, 1), held("c2", "c2", 2)], "c2", 4, 0, {"c1-1": REC},
    ),
    "inside and outside together": (
        C,
        [held("c1-low", "c1", 3, -1), held("c1-mid", "c1", 2), held("c2-low", "c2", 3, -1), held("c2-mid", "c2", 4)],
        "c1", 4, 0, {"c1-low": CQ, "c2-low": REC},
    ),
    "a queue that never preempts its own": (C, [held("c1-high", "c1", 6, 1), held("c2-low", "c2", 6, -1)], "c2", 3, 1, {}),
    "the weak may be made to go even for somebody who borrows": (
        SHARED, [held("a-low", "a-best-effort", 10, -1), held("b-low", "b-best-effort", 1, -1)], "a-standard", 10, 0,
        {"a-low": RWB},
    ),
    "but not one above the threshold": (SHARED, [held("b", "b-standard", 10, 1)], "a-standard", 10, 2, {}),
    "unless nothing is borrowed": (SHARED, [held("b", "b-standard", 13, 1)], "a-standard", 1, 2, {"b": REC}),
    "its own are safe where the queue never preempts them": (
        SHARED, [held("a", "a-standard", 13, 1)], "a-standard", 1, 2, {},
    ),
    "within its own queue rather than above the threshold": (
        SHARED,
        [held("a-1", "a-standard", 10, 1), held("a-2", "a-standard", 1, 1), held("b-1", "b-standard", 1, 1),
         held("b-2", "b-standard", 1, 2)],
        "b-standard", 1, 3, {"b-1": CQ},
    ),
    "the weak outside and one inside": (
        SHARED,
        [held("high", "b-standard", 10, 2), held("mid", "b-standard", 1, 1), held("low", "a-best-effort", 1, -1),
         held("lower", "a-best-effort", 1, -2)],
        "b-standard", 2, 2, {"lower": RWB, "mid": CQ},
    ),
    "what is lent is given back": (
        LENDING, [held("lend1-low", "lend1", 3, -1), held("lend2-mid", "lend2", 3), held("lend2-high", "lend2", 4, 1)],
        "lend1", 3, 1, {"lend2-mid": REC},
    ),
    "with lending limits inside and outside": (
        LENDING,
        [held("lend1-low", "lend1", 3, -1), held("lend1-mid", "lend1", 2), held("lend2-low", "lend2", 3, -1),
         held("lend2-mid", "lend2", 4)],
        "lend1", 4, 0, {"lend1-low": CQ, "lend2-low": REC},
    ),
    "what is not lent cannot be had": (LENDING, [held("lend2-low", "lend2", 10, -1)], "lend1", 9, 0, {}),
    "two of its own": (
        THREE, [held("a1", "a", 1, -2), held("a2", "a", 1, -2), held("a3", "a", 1, -1), *units("b", "b", 3)], "a", 2, 0,
        {"a1": CQ, "a2": CQ},
    ),
    "one of its own and one that borrows": (
        THREE, [held("a1", "a", 1, -1), *units("b", "b", 4), held("b5", "b", 1, -1)], "a", 2, 0, {"a1": CQ, "b5": REC},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("tree", "holders", "name", "cpu", "priority", "expected"), COHORT.values(), ids=COHORT.keys())
def test_in_a_flat_cohort(
    tree: list[ClusterQueueBuilder],
    holders: list[Held],
    name: str,
    cpu: float,
    priority: int,
    expected: dict[str, str],
) -> None:
    assert Scene(tree, holders).victims(name, needs(cpu=cpu), priority) == expected


def test_who_has_to_borrow_another_resource_takes_from_its_own_queue() -> None:
    here = [held("c1-low", "c1", 4, -1), held("c2-low", "c2", 4, -1), held("c2-high", "c2", 4, 1)]
    wanted = needs(cpu=4, memory=5 * GI)
    assert Scene(C, here).victims("c1", wanted, 1, short=[CPU]) == {"c1-low": CQ}


def test_a_resource_that_is_not_asked_for_does_not_matter_even_when_it_is_full() -> None:
    here = [held("c1-low", "c1", 3, -1, memory=3 * GI), held("c2-mid", "c2", 3), held("c2-high", "c2", 6, 1)]
    assert Scene(C, here).victims("c1", needs(cpu=3, memory=0), 1, short=[CPU]) == {"c2-mid": REC}


def tree(
    *, q: Any = 0, c: Any = 2, r: Any = 0, nominal: Any = 2, rules: dict[str, Any] = ANY
) -> list[ClusterQueueBuilder | CohortBuilder]:
    """Root r over cohort c with q and a queue beside it, and over a borrower and one with quota of its own."""
    return [
        cohort("r").quota("default", cpu=r),
        cohort("c").parent("r").quota("default", cpu=c),
        queue("q", "c", q, rules),
        queue("same", "c", 0, rules),
        queue("borrower", "r", 0, rules),
        queue("nominal", "r", nominal, rules),
    ]


MAY_BORROW = {**ANY, "borrow_within_cohort": BELOW_ONE}
WEAKER = {**LOWER, "borrow_within_cohort": BorrowWithinCohort(policy="LowerPriority")}

HIERARCHY = {
    "quota of the own cohort is taken back from an equal beyond it": (
        tree(nominal=0), [held("out", "borrower", 2)], 2, 0, {"out": REC},
    ),
    "but nobody who lives on its own has to go, however weak": (
        tree(), [held("out", "borrower", 2), held("own", "nominal", 2, -10)], 2, 0, {"out": REC},
    ),
    "not even the strong keep what is not theirs": (
        tree(nominal=0), [held("one", "borrower", 1, 1), held("two", "borrower", 1, 2)], 2, 0, {"one": REC, "two": REC},
    ),
    "in the own cohort the threshold counts": (
        tree(c=3, nominal=0, rules=MAY_BORROW),
        [held("strong", "same", 1, 1), held("weak", "same", 1, 0), held("own", "q", 1, -1)],
        2, 1, {"own": CQ, "weak": RWB},
    ),
    "a strong borrower goes before a weak one of the own queue": (
        tree(nominal=0), [held("own", "q", 1, -2), held("out", "borrower", 1, 1)], 1, 0, {"out": REC},
    ),
    "a weak one in the same cohort goes while the head borrows": (
        tree(nominal=0, rules=MAY_BORROW), [held("weak", "same", 2, -1)], 2, 0, {"weak": RWB},
    ),
    "quota of the queue itself is taken back from everywhere": (
        tree(q=4, nominal=0), [held("out", "borrower", 3, 10), held("beside", "same", 3, 10)], 4, 0,
        {"out": REC, "beside": REC},
    ),
    "from beyond as reclamation, from beside while borrowing": (
        tree(c=4, r=1, nominal=0, rules=WEAKER),
        [held("out", "borrower", 2, -1), held("strong", "borrower", 2, 1), held("beside", "same", 1, -1)],
        3, 0, {"out": REC, "beside": RWB},
    ),
    "from beyond as reclamation, and from the own queue": (
        tree(c=4, r=1, nominal=0, rules=WEAKER),
        [held("out", "borrower", 2, -1), held("strong", "borrower", 2, 1), held("own", "q", 1, -1)],
        3, 0, {"out": REC, "own": CQ},
    ),
    "the weakest of the borrowers": (
        tree(c=3),
        [held("b8", "borrower", 1, 8), held("b9", "borrower", 1, 9), held("b9b", "borrower", 1, 9),
         held("own", "nominal", 2, -2)],
        1, 0, {"b8": REC},
    ),
    "nobody borrows, so nobody goes": (
        tree(c=2), [held("beside", "same", 2), held("own", "nominal", 2)], 1, 0, {},
    ),
    "what the queue keeps for itself counts too": (
        tree(q=limits(3, lending=2), nominal=0), [held("out", "borrower", 4)], 5, -2, {"out": REC},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "holders", "cpu", "priority", "expected"), HIERARCHY.values(), ids=HIERARCHY.keys())
def test_in_a_hierarchy(
    nodes: list[ClusterQueueBuilder | CohortBuilder],
    holders: list[Held],
    cpu: float,
    priority: int,
    expected: dict[str, str],
) -> None:
    assert Scene(nodes, holders).victims("q", needs(cpu=cpu), priority) == dict(sorted(expected.items()))


def test_quota_in_another_branch_is_taken_back() -> None:
    nodes: list[ClusterQueueBuilder | CohortBuilder] = [
        cohort("left").parent("root"),
        cohort("right").parent("root"),
        queue("cq-left", "left", 10, ANY),
        queue("cq-right", "right", 0, ANY),
    ]
    assert Scene(nodes, [held("w", "cq-right", 5)]).victims("cq-left", needs(cpu=8)) == {"w": REC}


def test_who_goes_anyhow_goes_first() -> None:
    here = [held("low", "standalone", 3, -2), Held("leaving", "standalone", needs(cpu=3), -1, evicted=True)]
    assert Scene(STANDALONE, here).victims("standalone", needs(cpu=2)) == {"leaving": CQ}


def test_those_of_a_queue_that_admits_nothing_stay() -> None:
    scene = Scene(C, [held("c2-low", "c2", 9, -1)])
    scene.reservations["c2"] = []
    assert scene.victims("c1", needs(cpu=4), 1) == {}
