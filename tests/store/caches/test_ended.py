"""Which of the finished workloads of a worker and namespace are over a bound: those that ended first."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.meta import ObjectKey
from multikueue.store.caches.ended import EndedCopies
from multikueue.testing import NOW


def key(name: str, namespace: str = "team") -> ObjectKey:
    return ObjectKey(namespace, name)


def ended(*names: str, worker: str = "w1", namespace: str = "team") -> EndedCopies:
    """One a minute, in this order."""
    made = EndedCopies()
    for minute, name in enumerate(names):
        made.put(key(name, namespace), worker, NOW + timedelta(minutes=minute))
    return made


def test_those_that_ended_first_are_out() -> None:
    made = ended("a", "b", "c")
    assert [made.is_among(key(name), 2) for name in "abc"] == [False, True, True]
    assert made.out_by(key("c"), 2) == key("a")
    assert made.out_by(key("a"), 2) == key("a")
    assert made.out_by(key("c"), 3) is None


def test_other_namespaces_and_workers_do_not_count() -> None:
    made = ended("a", "b")
    made.put(key("c", "other"), "w1", NOW + timedelta(hours=1))
    made.put(key("d"), "w2", NOW + timedelta(hours=1))
    assert all(made.is_among(each, 2) for each in (key("a"), key("b"), key("c", "other"), key("d")))


def test_one_that_is_gone_makes_room() -> None:
    made = ended("a", "b", "c")
    made.remove(key("b"))
    made.remove(key("nobody"))
    assert made.is_among(key("a"), 2)
    assert made.out_by(key("c"), 2) is None


def test_nothing_is_kept_of_a_namespace_in_which_all_are_gone() -> None:
    made = ended("a", "b")
    made.remove(key("a"))
    made.remove(key("b"))
    assert not made._ends


def test_one_that_is_told_again_counts_once() -> None:
    made = ended("a", "b")
    made.put(key("b"), "w1", NOW + timedelta(minutes=1))
    made.put(key("a"), "w2", NOW)
    assert made.out_by(key("b"), 1) is None


def test_nobody_is_out_of_what_is_not_known() -> None:
    assert EndedCopies().is_among(key("a"), 0)
    assert EndedCopies().out_by(key("a"), 0) is None


@given(minutes=st.lists(st.integers(0, 20), max_size=30), most=st.integers(0, 10))
def test_whatever_the_order_each_that_is_over_the_bound_is_named(minutes: list[int], most: int) -> None:
    """As after a restart, when the workloads come in any order."""
    made, named = EndedCopies(), set[ObjectKey]()
    for number, minute in enumerate(minutes):
        made.put(key(f"{number:02}"), "w1", NOW + timedelta(minutes=minute))
        out = made.out_by(key(f"{number:02}"), most)
        named |= {out} if out else set()
    over = {each for number in range(len(minutes)) if not made.is_among(each := key(f"{number:02}"), most)}
    assert over == named
    assert len(over) == max(0, len(minutes) - most)
