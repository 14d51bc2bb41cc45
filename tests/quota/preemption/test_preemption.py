"""The search for room, with and without fair sharing: what it is worth to a flavor, and what holds for all searches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from multikueue.api.kueue.queues import BorrowWithinCohort
from multikueue.quota.cache.tree import UndoLog
from multikueue.quota.preemption.candidates import Grade, Mode
from multikueue.quota.preemption.fair import FairPreemption
from multikueue.quota.preemption.preemption import NO_PREEMPTION, Searches, find_targets
from multikueue.quota.workload.outcome import Cause
from tests.builders import ClusterQueueBuilder, CohortBuilder, cluster_queue, cohort, limits
from tests.quota.builders import wants
from tests.quota.scenes import Held, Scene, held, needs
from tests.quota.scheduler.test_cycle import head

CPU = ("default", "cpu")
PAIR = [
    cluster_queue(name)
    .cohort("cohort")
    .quota("default", cpu=6)
    .preempt(within_cluster_queue="LowerPriority", reclaim_within_cohort="LowerPriority")
    for name in ("c1", "c2")
]


# What it is worth when flavors are chosen.


ORACLE = {
    "no candidates": ([held("c1-high", "c1", 6, 9)], Grade(Mode.NO_CANDIDATES, 1)),
    "somebody of the own queue": ([held("c1-low", "c1", 6, -1)], Grade(Mode.PREEMPT, 0)),
    "others only": ([held("c2-low", "c2", 12, -1)], Grade(Mode.RECLAIM, 0)),
}


@pytest.mark.parametrize(("holders", "expected"), ORACLE.values(), ids=ORACLE.keys())
def test_the_oracle_tells_whether_the_own_queue_pays(holders: list[Held], expected: Grade) -> None:
    scene = Scene(PAIR, holders)
    before = scene.usage()
    wanted = head(scene.view("c1"), wants("in", cpu=3).priority(1))
    assert Searches(wanted.waiting, scene.view("c1"), scene.preemption).oracle(CPU, 3000) == expected
    assert scene.usage() == before


def test_without_holders_nobody_goes() -> None:
    assert find_targets(Scene(PAIR, [held("c2", "c2", 12)]).request("c1", needs(cpu=3)), NO_PREEMPTION) == ()


# What holds for all.


AMOUNTS = st.integers(1, 4)
POLICIES = st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
LIMITS = st.none() | st.integers(0, 4)


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    reclaim = draw(st.sampled_from(["Never", "LowerPriority", "Any"]))
    may_borrow = reclaim != "Never" and draw(st.booleans())
    threshold = draw(st.none() | st.integers(-1, 2))
    return {
        "within_cluster_queue": draw(POLICIES),
        "reclaim_within_cohort": reclaim,
        "borrow_within_cohort": BorrowWithinCohort(policy="LowerPriority", max_priority_threshold=threshold)
        if may_borrow
        else None,
    }


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    parents = ["r", "c"]
    nodes: list[ClusterQueueBuilder | CohortBuilder] = [
        cohort("r").quota("default", cpu=draw(st.integers(0, 3))),
        cohort("c")
        .parent("r")
        .fair_weight(draw(st.sampled_from(["0", "1", "2"])))
        .quota("default", cpu=limits(draw(st.integers(0, 3)), borrowing=draw(LIMITS), lending=draw(LIMITS))),
    ]
    names = ["q0", "q1", "q2", "q3"]
    for name in names:
        nominal = draw(st.integers(0, 4))
        quota = limits(nominal, borrowing=draw(LIMITS), lending=draw(st.none() | st.integers(0, nominal)))
        weight = draw(st.sampled_from(["0", "0.5", "1", "3"]))
        nodes.append(
            cluster_queue(name)
            .cohort(draw(st.sampled_from(parents)))
            .quota("default", cpu=quota)
            .preempt(**draw(rules()))
            .fair_weight(weight)
        )
    scene = Scene(nodes, fair=draw(st.none() | st.just(FairPreemption())))
    holders: list[Held] = []
    log = UndoLog()
    for number in range(draw(st.integers(0, 8))):
        name, amount = draw(st.sampled_from(names)), draw(AMOUNTS) * 1000
        if scene.node(name).available(CPU) >= amount:
            scene.node(name).add({CPU: amount}, log)
            young, late = draw(st.integers(-1, 1)), draw(st.integers(0, 2))
            holders.append(Held(f"w{number}", name, {CPU: amount}, draw(st.integers(-1, 2)), late, young))
    return Scene(nodes, holders, scene.fair)


@given(scenes(), st.sampled_from(["q0", "q1", "q2", "q3"]), st.integers(1, 8), st.integers(-1, 3))
def test_a_search_changes_nothing_and_what_it_finds_makes_room(
    scene: Scene, name: str, cpu: int, priority: int
) -> None:
    before = scene.usage()
    request = scene.request(name, needs(cpu=cpu), priority)
    assume(not request.can_fit(may_borrow=True))
    targets = find_targets(request, scene.preemption)
    assert scene.usage().items() >= before.items()
    assert len({target.reservation.key for target in targets}) == len(targets)
    if not targets:
        return
    log = UndoLog()
    for target in targets:
        target.simulate_removal(log)
    assert request.can_fit(may_borrow=True)
    for target in targets:  # who could stay, stays; but one who must not borrow may need more to go
        mark = log.mark()
        target.restore(log)
        assert not (request.can_fit(may_borrow=True) and request.can_fit(may_borrow=False))
        log.roll_back(mark)
    log.roll_back()
    assert scene.usage().items() >= before.items()


@given(scenes(), st.sampled_from(["q0", "q1", "q2", "q3"]), st.integers(1, 8), st.integers(-1, 3))
def test_only_those_go_whom_the_rules_give_up(scene: Scene, name: str, cpu: int, priority: int) -> None:
    rules = scene.queues[name].spec.preemption
    for target in find_targets(scene.request(name, needs(cpu=cpu), priority), scene.preemption):
        inside = target.reservation.cluster_queue == name
        assert inside == (target.cause is Cause.IN_QUEUE)
        policy = rules.within_cluster_queue if inside else rules.reclaim_within_cohort
        assert policy != "Never"
        if policy == "LowerPriority":
            assert target.reservation.priority < priority
        if not inside:
            assert not scene.node(target.reservation.cluster_queue).is_within_nominal([CPU])
