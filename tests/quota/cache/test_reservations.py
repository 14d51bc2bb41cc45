"""Reservations and their sums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.kueue.workload import Admission, PodSetAssignment, ReclaimablePod
from multikueue.quota.cache.reservations import QueueUsage, Reservation, Reservations, admission_amounts
from tests.quota.builders import key_of


def held(name: str, amount: int = 1, *, queue: str = "cq", admitted: bool = False) -> Reservation:
    return Reservation(
        key=key_of(name),
        cluster_queue=queue,
        local_queue=key_of("lq"),
        amounts={("default", "cpu"): amount},
        is_admitted=admitted,
    )


def test_holdings_are_summed_by_both_kinds_of_queue() -> None:
    reservations = Reservations()
    reservations.add(held("a", 3))
    reservations.add(held("b", 4, admitted=True))

    cpu = ("default", "cpu")
    expected = QueueUsage(reserving=2, admitted=1, reservation={cpu: 7}, usage={cpu: 4})
    assert reservations.queue("cq") == expected
    assert reservations.local_queue(key_of("lq")) == expected
    assert reservations.by_queue() == {"cq": {cpu: 7}}


def test_an_unknown_queue_holds_nothing() -> None:
    assert Reservations().queue("cq") == QueueUsage()


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5), st.booleans()), max_size=20))
def test_what_is_removed_leaves_no_trace(moves: list[tuple[str, int, bool]]) -> None:
    reservations = Reservations()
    for name, amount, admitted in moves:
        reservations.remove(key_of(name))
        reservations.add(held(name, amount, admitted=admitted))
    for reservation in list(reservations):
        reservations.remove(reservation.key)

    assert reservations.queue("cq") == QueueUsage()
    assert list(reservations) == []


def assignment(count: int | None, cpu: str) -> Admission:
    pods = PodSetAssignment(name="main", flavors={"cpu": "f"}, resource_usage={"cpu": cpu, "gpu": "7"}, count=count)
    return Admission(cluster_queue="cq", pod_set_assignments=(pods,))


AMOUNTS = {
    "as admitted; a resource without flavor does not count": (assignment(5, "5"), 5, 0, 5000),
    "reclaimed pods give their share back": (assignment(5, "5"), 5, 2, 3000),
    "a partial admission uses what it got": (assignment(3, "3"), 5, 0, 3000),
    "reclaiming counts from the spec": (assignment(3, "3"), 5, 3, 2000),
    "more than all is nothing": (assignment(3, "3"), 3, 9, 0),
    "without a count all were admitted": (assignment(None, "5"), 5, 2, 3000),
    "an amount below zero is nothing": (assignment(3, "-5"), 3, 0, 0),
    "a number of reclaimed pods below zero is none": (assignment(3, "3"), 5, -9, 3000),
    "a number of pods below zero is none": (assignment(-3, "3"), 5, 0, 0),
    "a remainder is lost in scaling": (assignment(3, "1m"), 3, 1, 0),
}


@pytest.mark.parametrize(("admission", "count", "gone", "expected"), AMOUNTS.values(), ids=AMOUNTS)
def test_what_an_admission_uses(admission: Admission, count: int, gone: int, expected: int) -> None:
    reclaimed = (ReclaimablePod(name="main", count=gone),)

    assert admission_amounts(admission, {"main": count}, reclaimed) == {("f", "cpu"): expected}
