"""Whole scenarios that no single rule decides (quota-scenarios 9.8 to 9.11)."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.preemption.fair import FairPreemption
from tests.builders import (
    ClusterQueueBuilder,
    CohortBuilder,
    cluster_queue,
    cohort,
    flavor,
    flavor_quotas,
    limits,
    local_queue,
)
from tests.quota.builders import Play, names, wants
from tests.quota.scenes import Held, Scene, held, needs, units
from tests.quota.test_contest import outcome, play

CQ, REC, FAIR = "InClusterQueue", "InCohortReclamation", "InCohortFairSharing"
ANY: dict[str, Any] = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "Any"}
LOWER: dict[str, Any] = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "LowerPriority"}

Nodes = list[ClusterQueueBuilder | CohortBuilder]


def below(name: str, parent: str, cpu: int | str = 0, *, weight: int | str = 1) -> CohortBuilder:
    node = cohort(name).parent(parent).fair_weight(weight)
    return node.quota("default", cpu=cpu) if cpu else node


def queue(
    name: str, parent: str, cpu: int | str = 0, *, weight: int | str = 1, rules: dict[str, Any] | None = None
) -> ClusterQueueBuilder:
    made = cluster_queue(name).cohort(parent).quota("default", cpu=cpu).fair_weight(weight)
    return made.preempt(**rules) if rules else made


# --- who has to go ---------------------------------------------------------------------------------------------------


def test_qe_205_in_a_tree_of_seven_cohorts_only_what_is_beyond_the_own_quota_goes() -> None:
    """Two branches below c11 lend to q5, which lives in a third; c12 lends to it over the root."""
    tree: Nodes = [cohort("r"), below("c11", "r", 4), below("c12", "r", 4)]
    tree += [below(name, "c11", 4) for name in ("c21", "c22", "c23")]
    tree += [below(name, "c21", 4) for name in ("c31", "c32")]
    places = {"q1": "c12", "q2": "c23", "q3": "c22", "q4": "c32", "q5": "c31"}
    tree += [queue(name, parent, rules=ANY) for name, parent in places.items()]
    holders = [
        held("borrowing-1", "q1", 4, -6),
        held("borrowing-2", "q1", 4, -5),
        held("borrowing-3", "q2", 4, -9),
        held("borrowing-4", "q2", 4, -10),
        held("borrowing-5", "q3", 4, -4),
        held("borrowing-6", "q3", 3, -3),
        held("borrowing-7", "q4", 2, 4),
        held("borrowing-8", "q4", 3, 2),
    ]
    assert Scene(tree, holders).victims("q5", needs(cpu=7), -2) == {"borrowing-1": REC, "borrowing-4": REC}


def each_priority(name: str) -> list[Held]:
    """Five of one cpu, of priorities 1 to 5."""
    return [held(f"{name}{number}", name, 1, number) for number in range(1, 6)]


def test_qe_230_all_sides_of_a_tree_give_what_they_have_too_much() -> None:
    reclaims = {"reclaim_within_cohort": "Any"}
    tree: Nodes = [cohort("root").quota("default", cpu=5)]
    tree += [below("left", "root", 5, weight=2), below("right", "root", 5)]
    tree += [queue("a", "left", 1, weight=2, rules=reclaims), queue("b", "left", 1), queue("c", "root", 1)]
    tree += [queue("d", "right", 1), queue("e", "right", 1, weight="0.99")]
    holders = [each for name in "bcde" for each in each_priority(name)]
    found = Scene(tree, holders, FairPreemption()).victims("a", needs(cpu=5))
    assert found == dict.fromkeys(("b1", "b2", "c1", "c2", "e1"), FAIR)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"), [("1.01", "0.99", {"b1": FAIR}), ("0.99", "1.01", {}), ("1", "1", {})]
)
def test_qe_233_far_below_the_root_the_weights_next_to_it_decide(
    ours: str, theirs: str, expected: dict[str, str]
) -> None:
    tree: Nodes = [cohort("root"), below("a1", "root", weight=ours), below("b1", "root", weight=theirs)]
    for side in "abc":
        tree += [below(f"{side}2", f"{side}1"), below(f"{side}3", f"{side}2")]
    tree += [below("c1", "root"), below("c4", "c3", 1)]
    tree += [queue("a", "a3", rules={"reclaim_within_cohort": "Any"}), queue("b", "b3")]
    assert Scene(tree, [held("b1", "b", 1)], FairPreemption()).victims("a", needs(cpu=1)) == expected


# --- several workloads, one after the other --------------------------------------------------------------------------


def lent() -> Play:
    """A cohort of 9 with two queues that have nothing of their own; the first uses 8 of it."""
    engine = Engine(EngineRules(fair_sharing=FairPreemption()))
    queues = [queue(name, "all", rules=ANY).build() for name in ("p1", "p2")]
    lines = [local_queue(f"lq-{name}", name).build() for name in ("p1", "p2")]
    scene = Play(cohort("all").quota("default", cpu=9).build(), *queues, *lines, engine=engine)
    scene.submit(*(wants(f"old-{number}", queue="lq-p1", cpu=2, age=99) for number in range(4)))
    assert len(settle(scene)) == 4
    return scene


def settle(scene: Play) -> list[str]:
    """Until nothing changes; those evicted stop at once."""
    reserved: list[str] = []
    while (more := scene.settle()) or scene.engine.scheduler.next_look(scene.now) is not None:
        reserved += more
        scene.wait(1)
    return reserved


def share(scene: Play, name: str) -> int:
    found = scene.engine.view.queue_share(name)
    assert found
    return found.figure


def cohort_share(scene: Play, name: str) -> int:
    found = scene.engine.view.cohort_share(name)
    assert found
    return found.figure


def test_qe_236_two_give_way_by_both_strategies() -> None:
    scene = lent()
    scene.submit(wants("new", queue="lq-p2", cpu=5))
    assert "new" in settle(scene)
    assert (scene.used("p1"), scene.used("p2")) == ("4", "5")
    assert (share(scene, "p1"), share(scene, "p2")) == (445, 556)


def test_qe_238_what_would_have_more_than_its_share_does_not_stop_the_next() -> None:
    scene = lent()
    scene.submit(wants("first", queue="lq-p2", cpu=6).priority(999), wants("second", queue="lq-p2", cpu=4))
    assert "second" in settle(scene)
    assert (share(scene, "p1"), share(scene, "p2")) == (445, 445)


def test_qe_239_nor_do_several() -> None:
    scene = lent()
    scene.submit(
        wants("seven", queue="lq-p2", cpu=7, age=3).priority(999),
        wants("six", queue="lq-p2", cpu=6, age=2).priority(999),
        wants("five", queue="lq-p2", cpu=5),
    )
    found = settle(scene)
    assert "five" in found
    assert not {"seven", "six"} & set(found)
    assert (scene.used("p1"), scene.used("p2")) == ("4", "5")


def fair_queues(*queues: ClusterQueueBuilder | CohortBuilder) -> Play:
    """Queues that share fairly, each with a LocalQueue of its name."""
    built = [each.build() for each in queues]
    lines = [
        local_queue(f"lq-{each.value.metadata.name}", each.value.metadata.name).build()
        for each in queues
        if isinstance(each, ClusterQueueBuilder)
    ]
    return Play(*built, *lines, engine=Engine(EngineRules(fair_sharing=FairPreemption())))


def test_qe_250_queues_that_share_with_nobody_are_all_served_in_one_cycle() -> None:
    scene = fair_queues(queue("a", "one", 1), queue("b", "two", 1), queue("c", "", 1))
    scene.submit(*(wants(name, queue=f"lq-{name}", cpu=1) for name in "abc"))
    assert sorted(scene.cycle()) == ["a", "b", "c"]


@pytest.mark.parametrize(("ours", "theirs", "first"), [(99, 101, "b"), (101, 99, "a")])
def test_qe_251_between_equal_shares_priority_decides(ours: int, theirs: int, first: str) -> None:
    scene = fair_queues(cohort("all").quota("default", cpu=1), queue("a", "all"), queue("b", "all"))
    scene.submit(
        wants("a", queue="lq-a", cpu=1, age=9).priority(ours), wants("b", queue="lq-b", cpu=1).priority(theirs)
    )
    assert scene.cycle() == (first,)


def test_qe_252_then_age() -> None:
    scene = fair_queues(cohort("all").quota("default", cpu=1), queue("a", "all"), queue("b", "all"))
    scene.submit(wants("a", queue="lq-a", cpu=1), wants("b", queue="lq-b", cpu=1, age=9))
    assert scene.cycle() == ("b",)


def test_qe_245_who_stays_within_its_own_quota_goes_before_who_borrows_whatever_their_shares() -> None:
    heavy = cluster_queue("heavy").cohort("all").quota("default", cpu=5).quota("spot", cpu=0)
    light = cluster_queue("light").cohort("all").quota("default", cpu=0).quota("spot", cpu=0)
    bank = cohort("all").quota("default", cpu=0).quota("spot", cpu=10)
    scene = fair_queues(bank, heavy, light)
    scene.apply(flavor("spot").build())
    scene.submit(wants("spot", queue="lq-heavy", cpu=9, age=99))
    assert scene.settle() == ["spot"]
    scene.submit(wants("own", queue="lq-heavy", cpu=5), wants("borrows", queue="lq-light", cpu=1, age=9))
    assert names(scene.engine.scheduler.cycle(scene.now).reserved) == ("own",)


def test_qe_258_shares_follow_what_is_used() -> None:
    scene = fair_queues(queue("a", "all", 3), queue("b", "all", 1), queue("shared", "all", 4))
    scene.submit(*(wants(f"a{number}", queue="lq-a", cpu=1) for number in range(8)))
    assert len(scene.settle()) == 8
    assert share(scene, "a") == 625
    for number in range(4):
        scene.finish(f"a{number}")
    scene.submit(*(wants(f"b{number}", queue="lq-b", cpu=1, age=number) for number in range(5)))
    scene.wait(1)
    assert len(settle(scene)) == 4
    assert (share(scene, "a"), share(scene, "b")) == (125, 375)


def test_a_cohort_with_room_for_all_owes_nothing() -> None:
    scene = fair_queues(
        cohort("cohort-a").quota("default", cpu=18), queue("p1", "cohort-a", 3), queue("p2", "cohort-a", 3)
    )
    scene.submit(*(wants(f"w{number}", queue="lq-p1", cpu=1) for number in range(18)))
    assert len(scene.settle()) == 18
    assert share(scene, "p1") == 625
    assert cohort_share(scene, "cohort-a") == 0


def test_qe_259_what_is_lent_is_shared_alike_and_taken_back_from_who_has_the_most() -> None:
    scene = fair_queues(*(queue(name, "all", 3, rules=ANY) for name in "abc"))
    scene.submit(*(wants(f"a{number}", queue="lq-a", cpu=1, age=99) for number in range(10)))
    assert len(settle(scene)) == 9
    assert [share(scene, name) for name in "abc"] == [667, 0, 0]
    scene.submit(*(wants(f"b{number}", queue="lq-b", cpu=1, age=50) for number in range(5)))
    settle(scene)
    assert [scene.used(name) for name in "abc"] == ["5", "4", "0"]
    assert [share(scene, name) for name in "abc"] == [223, 112, 0]
    scene.submit(wants("c0", queue="lq-c", cpu=1))
    settle(scene)
    assert [scene.used(name) for name in "abc"] == ["4", "4", "1"]
    assert [share(scene, name) for name in "abc"] == [112, 112, 0]


def test_qe_260_each_cohort_owes_what_its_branch_borrows() -> None:
    """Two queues far below one side of the root borrow from a bank on the other."""
    scene = fair_queues(
        *(below(name, "root") for name in ("first-left", "first-right")),
        *(below(name, "first-left") for name in ("second-left", "second-right")),
        below("bank", "first-right", 10),
        queue("l", "second-left", 2),
        queue("r", "second-right", 2),
    )
    for number in range(5):
        scene.submit(*(wants(f"{side}{number}", queue=f"lq-{side}", cpu=1, age=9 - number) for side in "lr"))
    assert len(settle(scene)) == 10
    figures = {name: cohort_share(scene, name) for name in ("first-left", "second-left", "second-right")}
    assert figures == {"first-left": 429, "second-left": 215, "second-right": 215}
    assert cohort_share(scene, "first-right") == cohort_share(scene, "bank") == 0


def test_qe_261_who_is_preempted_leaves_a_fair_share_at_each_level() -> None:
    reclaims = {"reclaim_within_cohort": "LowerPriority"}
    research = {"chemistry": 1, "physics": 1, "llm": 2}
    scene = fair_queues(
        cohort("root").quota("default", cpu=12),
        below("research", "root"),
        *(below(name, "research", weight=weight) for name, weight in research.items()),
        below("best-effort", "root", weight="0.5"),
        *(queue(f"q-{name}", name, rules=reclaims) for name in research),
        queue("q-best-effort", "best-effort"),
    )
    for name in ("best-effort", "physics"):
        scene.submit(*(wants(f"{name}{n}", queue=f"lq-q-{name}", cpu=1, age=99).priority(-1) for n in range(6)))
    assert len(settle(scene)) == 12
    assert (cohort_share(scene, "best-effort"), cohort_share(scene, "physics")) == (1000, 500)
    everybody = ("best-effort", *research)
    for n in range(6):
        scene.submit(*(wants(f"{name}-new{n}", queue=f"lq-q-{name}", cpu=1).priority(100) for name in everybody))
    settle(scene)
    used = {name: scene.used(f"q-{name}") for name in everybody}
    assert used == {"best-effort": "4", "chemistry": "2", "physics": "2", "llm": "4"}
    figures = {name: cohort_share(scene, name) for name in (*everybody, "research")}
    assert figures == {"best-effort": 667, "research": 667, "chemistry": 167, "physics": 167, "llm": 167}


def test_qe_262_the_flavor_with_room_left_in_the_cohort_comes_first() -> None:
    def two(name: str, parent: str, first: int, second: int) -> ClusterQueueBuilder:
        both = [
            flavor_quotas(each, cpu=limits(cpu, borrowing=10)) for each, cpu in (("default", first), ("spot", second))
        ]
        return (
            cluster_queue(name).cohort(parent).resource_group(*both).preempt(**ANY)
            .fungibility(when_can_borrow="TryNextFlavor", when_can_preempt="TryNextFlavor")
        )  # fmt: skip

    def house(name: str) -> CohortBuilder:
        nothing = limits(0, borrowing=10)
        return cohort(name).parent("root").quota("default", cpu=nothing).quota("spot", cpu=nothing)

    scene = fair_queues(
        cohort("root"),
        *(house(name) for name in ("cohort-a", "cohort-b")),
        *(two(name, "cohort-a", 3, 3) for name in ("p1", "p2")),
        two("p3", "cohort-a", 2, 4),
        two("p4", "cohort-b", 2, 0),
    )
    scene.apply(flavor("spot").build())
    scene.submit(*(wants(f"w{number:02}", queue="lq-p1", cpu=1, age=99 - number) for number in range(18)))
    assert len(settle(scene)) == 18
    assert (share(scene, "p1"), cohort_share(scene, "cohort-a")) == (600, 0)


def test_qe_272_a_head_larger_than_its_quota_may_not_have_others_evicted_to_borrow() -> None:
    tree: Nodes = [queue("a", "all", 2, rules=LOWER), queue("b", "all", 4, rules=LOWER)]
    assert Scene(tree, units("b", "b", 6, -1)).victims("a", needs(cpu=3)) == {}


# --- several heads and flavors in one cycle --------------------------------------------------------------------------


def pair(ours: int, theirs: int) -> Nodes:
    """Two queues with two flavors of gpus, of which the first preempts."""
    gpus = [(name, cpu) for name, cpu in (("a", ours), ("b", theirs))]
    first, second = (
        cluster_queue(name).cohort("all").quota("default", gpu=count).quota("spot", gpu=count) for name, count in gpus
    )
    return [first.preempt(**LOWER), second]


def uses(name: str, queue: str, gpu: int, *, on: str = "default", priority: int = 50) -> Held:
    return Held(name, queue, needs(on=on, gpu=gpu), priority)


FLAVORS: dict[str, tuple[Nodes, list[Held], int, FairPreemption | None, list[str]]] = {
    "QE-274 takes back what was lent of the second flavor rather than its own of the first": (
        pair(10, 0), [uses("a1", "a", 5), uses("b1", "b", 5, on="spot")], 6, None, ["b1"],
    ),
    "QE-275 also with fair sharing, borrowing": (
        pair(7, 3), [uses("a1", "a", 5), uses("b1", "b", 5, on="spot")], 8, FairPreemption(), ["b1"],
    ),
    "QE-276 stays with the first where the second needs both kinds of preemption": (
        pair(10, 0),
        [uses("a1", "a", 5), uses("a2", "a", 5, on="spot"), uses("b1", "b", 5, on="spot")],
        6, None, ["a1"],
    ),
    "QE-277 stays with the first where the second has its own to preempt too": (
        pair(10, 0),
        [uses("a1", "a", 6), uses("a2", "a", 5, on="spot"), uses("b1", "b", 5, on="spot", priority=9001)],
        5, None, ["a1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("tree", "holders", "gpu", "fair", "expected"), FLAVORS.values(), ids=FLAVORS)
def test_a_preemptor(
    tree: Nodes, holders: list[Held], gpu: int, fair: FairPreemption | None, expected: list[str]
) -> None:
    found = play(tree, holders, fair, a=wants("preemptor", gpu=gpu).priority(100))
    assert outcome(found) == {"preemptor": expected}


def test_qe_269_each_queue_takes_from_its_own_and_all_share_what_is_left() -> None:
    tree: Nodes = [queue(name, "all", 2, rules=LOWER) for name in "abc"]
    tree.append(queue("bank", "all", 3))
    holders = [held(f"{name}1", name, 3) for name in "abc"]
    heads = {name: wants(f"new-{name}", cpu=3).priority(100) for name in "abc"}
    found = play(tree, holders, FairPreemption(), **heads)
    assert outcome(found) == {f"new-{name}": [f"{name}1"] for name in "abc"}


def test_qe_271_as_few_as_possible_where_the_queue_uses_all_it_has() -> None:
    tree: Nodes = [queue("a", "all", 2, rules=ANY), queue("b", "all", 2), queue("c", "all", 2)]
    holders = [held("a1", "a", 1, -2), held("a2", "a", 1, -2), held("a3", "a", 1, -1), *units("b", "b", 3)]
    assert outcome(play(tree, holders, a=wants("new", cpu=2))) == {"new": ["a1", "a2"]}


def test_qe_273_by_shares_of_all_flavors_the_one_with_the_most_gives_first() -> None:
    tree: Nodes = [queue(name, "all", 50, rules=ANY) for name in ("alpha", "beta", "gamma")]
    holders = [held(f"alpha{number}", "alpha", 20) for number in range(1, 5)]
    holders += [held("gamma1", "gamma", 10), *(held(f"gamma{number}", "gamma", 20) for number in range(2, 5))]
    assert Scene(tree, holders, FairPreemption()).victims("beta", needs(cpu=30)) == {
        "alpha1": "InCohortReclamation",
        "gamma1": "InCohortReclamation",
    }


def test_qe_278_who_can_take_back_what_was_lent_is_not_held_up_by_an_older_one_who_cannot() -> None:
    tree: Nodes = [queue("one", "all", 10), queue("two", "all", 10, rules={"reclaim_within_cohort": "Any"})]
    tree.append(queue("three", "all"))
    holders = [held("first", "one", 5), held("weak", "three", 5), held("strong", "three", 5, 1)]
    found = play(tree, holders, one=wants("older", cpu=10, age=1), two=wants("younger", cpu=10))
    assert outcome(found) == {"older": "GENERIC", "younger": ["weak"]}
