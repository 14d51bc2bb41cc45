"""What a waiting workload asks for, and when it may be looked at."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from multikueue.quota.queueing.pending_workload import Progress
from tests.builders import NOW, WorkloadBuilder, pod_set
from tests.quota.builders import after, waiting, wants

Change = Callable[[WorkloadBuilder], WorkloadBuilder]


ASKS: dict[str, tuple[Change, bool]] = {
    "another name and age": (lambda w: w.uid("another").created(after(-9)), True),
    "another verdict in its status": (lambda w: w.unreserved(message="no room"), True),
    "a check that is pending": (lambda w: w.check("mk"), True),
    "a check that failed": (lambda w: w.check("mk", "Rejected"), False),
    "another priority": (lambda w: w.priority(1), False),
    "more": (lambda w: w.request(cpu=2), False),
    "fewer pods would do": (lambda w: w.pod_sets(pod_set(count=2).request(cpu=1).min_count(1)), False),
    "another kind of node": (lambda w: w.pod_sets(pod_set(count=2).request(cpu=1).node_selector(zone="a")), False),
    "nodes that others shun": (lambda w: w.pod_sets(pod_set(count=2).request(cpu=1).tolerate("spot")), False),
}


@pytest.mark.parametrize(("change", "same"), ASKS.values(), ids=ASKS)
def test_who_asks_the_same(change: Change, same: bool) -> None:
    one = wants("a").pod_sets(pod_set(count=2).request(cpu=1))
    assert (waiting(change(one)).ask() == waiting(one).ask()) is same


def test_namespaces_are_apart() -> None:
    assert waiting(wants("a", namespace="x")).ask() != waiting(wants("a", namespace="y")).ask()


def test_whose_search_was_interrupted_stands_alone() -> None:
    one, other = waiting(wants("a")), waiting(wants("b"))
    one.progress = other.progress = Progress(1, ({"cpu": 0},))
    assert one.ask() != other.ask()


def test_a_back_off_is_over_at_its_last_instant() -> None:
    one = waiting(wants("a").requeue_state(1, at=after(5)))
    assert [one.may_queue(at) for at in (NOW, after(4.9), after(5))] == [False, False, True]
