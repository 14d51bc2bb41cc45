"""Who comes first (quota-engine 2.1, 3.2)."""

from __future__ import annotations

import pytest

from multikueue.api.kueue.workload import workload_spec
from multikueue.quota.workload.ordering import Rank, entry_rank, queue_rank, queue_time
from tests.builders import NOW, WorkloadBuilder
from tests.quota.builders import after, wants

TIMES = {
    "its creation": (wants("a"), NOW),
    "its eviction by a check": (wants("a").evicted("AdmissionCheck", at=after(9)), after(9)),
    "QE-291 its eviction for pods that were not ready": (wants("a").evicted("PodsReadyTimeout", at=after(9)), after(9)),
    "its creation after a preemption": (wants("a").evicted("Preempted", at=after(9)), NOW),
    "its creation once the eviction is history": (
        wants("a").evicted("AdmissionCheck", at=after(9)).condition("Evicted", "False", at=after(12)),
        NOW,
    ),
}


@pytest.mark.parametrize(("builder", "expected"), TIMES.values(), ids=TIMES)
def test_a_workload_waits_since(builder: WorkloadBuilder, expected: object) -> None:
    assert queue_time(builder.build()) == expected


def test_qe_292_who_keeps_its_place_waits_since_its_creation_after_late_pods_but_not_after_a_check() -> None:
    late, refused = (
        wants("a").evicted(reason, at=after(9)).build() for reason in ("PodsReadyTimeout", "AdmissionCheck")
    )

    assert queue_time(late, should_keep_place=True) == NOW
    assert queue_time(refused, should_keep_place=True) == after(9)


def test_the_uid_breaks_ties() -> None:
    first, second = wants("b").uid("1").build(), wants("a").uid("2").build()

    assert queue_rank(first, 0) < queue_rank(second, 0)


EVICTED = wants("evicted", age=9).evicted("PodsReadyTimeout", at=after(2))
HEADS: dict[str, tuple[int, WorkloadBuilder]] = {
    "new": (0, wants("new", age=-5)),
    "new, of high priority": (0, wants("high", age=-5).priority(1)),
    "old": (0, wants("old")),
    "evicted": (0, EVICTED),
    "borrows, new": (1, wants("new", age=-5)),
    "borrows, new, of high priority": (1, wants("high", age=-5).priority(1)),
    "borrows, old": (1, wants("old")),
    "borrows, evicted": (1, EVICTED),
    "borrows from farther away, of high priority": (2, wants("high").priority(1)),
}


def rank_of(builder: WorkloadBuilder, *, keeping_place: bool) -> Rank:
    value = builder.build()
    return queue_rank(value, workload_spec(value).priority, should_keep_place=keeping_place)


def in_order(*, keeping_place: bool) -> list[str]:
    ranks = {
        name: entry_rank(borrowing=borrowing, rank=rank_of(builder, keeping_place=keeping_place), queue=name)
        for name, (borrowing, builder) in HEADS.items()
    }
    return sorted(ranks, key=lambda name: ranks[name])


def test_qe_254_who_borrows_less_then_priority_then_since_when_it_waits() -> None:
    own = ["new, of high priority", "old", "evicted", "new"]
    theirs = ["borrows, new, of high priority", "borrows, old", "borrows, evicted", "borrows, new"]

    assert in_order(keeping_place=False) == [*own, *theirs, "borrows from farther away, of high priority"]


def test_qe_255_the_same_by_creation() -> None:
    own = ["new, of high priority", "evicted", "old", "new"]
    theirs = ["borrows, new, of high priority", "borrows, evicted", "borrows, old", "borrows, new"]

    assert in_order(keeping_place=True) == [*own, *theirs, "borrows from farther away, of high priority"]


def test_heads_that_borrow_less_come_first_then_priority_age_and_name() -> None:
    ranks = [
        entry_rank(borrowing=0, rank=(0, after(9), "z"), queue="q1"),
        entry_rank(borrowing=1, rank=(-5, after(9), "y"), queue="q2"),
        entry_rank(borrowing=1, rank=(0, after(1), "x"), queue="q3"),
        entry_rank(borrowing=1, rank=(0, after(2), "a"), queue="q4"),
        entry_rank(borrowing=1, rank=(0, after(2), "0"), queue="q5"),
    ]

    assert sorted(ranks) == ranks
