"""Each kind of field that differs is told once, and what is left out is not compared."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.parity.builders import PENDING, admitted, expected
from tests.parity.compare import NOTHING, differences, disagreements
from tests.parity.story import Object, Step

Change = Callable[[Object], object]


def decided() -> Object:
    """What was seen: it is complete, with usage and empty lists."""
    state = expected({"w": admitted(3, checks={"c": "Ready"}, reclaimable={"main": 1})}, used=3, running=1)
    state["clusterQueues"]["q"] |= {"usage": {"f": {"cpu": ["3", "0"]}}, "weightedShare": 7}
    state["cohorts"] = {"root": {"weightedShare": 5}, "plain": {}}
    return state


def wanted() -> Object:
    """The same as a story says it: usage only where it differs, cohorts only with a share."""
    state = decided()
    del state["clusterQueues"]["q"]["usage"]
    del state["cohorts"]["plain"]
    return state


def found(change: Change) -> list[tuple[str, str, Any, Any]]:
    expectation = wanted()
    change(expectation)
    return list(differences(expectation, decided()))


W: Callable[[Object], Object] = lambda e: e["workloads"]["w"]  # noqa: E731
Q: Callable[[Object], Object] = lambda e: e["clusterQueues"]["q"]  # noqa: E731

KINDS: dict[str, tuple[Change, tuple[str, str, Any, Any]]] = {
    "whether it is active": (lambda e: W(e).update(active=False), ("workload w", "active", False, True)),
    "its priority": (lambda e: W(e).update(priority=9), ("workload w", "priority", 9, 0)),
    "the reason of a condition": (
        lambda e: W(e).update(conditions={**W(e)["conditions"], **PENDING}),
        ("workload w", "conditions.QuotaReserved", ["False", "Pending"], ["True", "QuotaReserved"]),
    ),
    "a condition that is missing": (
        lambda e: W(e).update(conditions={**W(e)["conditions"], "Evicted": ["True", "Preempted"]}),
        ("workload w", "conditions.Evicted", ["True", "Preempted"], NOTHING),
    ),
    "a condition too many": (
        lambda e: W(e).update(conditions={"QuotaReserved": ["True", "QuotaReserved"]}),
        ("workload w", "conditions.Admitted", NOTHING, ["True", "Admitted"]),
    ),
    "the queue that admitted": (
        lambda e: W(e)["admission"].update(clusterQueue="other"),
        ("workload w", "admission.clusterQueue", "other", "q"),
    ),
    "how many pods were admitted": (
        lambda e: W(e)["admission"]["podSets"]["main"].update(count=2),
        ("workload w", "admission.podSets.main.count", 2, 1),
    ),
    "the flavor": (
        lambda e: W(e)["admission"]["podSets"]["main"].update(flavors={"cpu": "spot"}),
        ("workload w", "admission.podSets.main.flavors.cpu", "spot", "f"),
    ),
    "its usage": (
        lambda e: W(e)["admission"]["podSets"]["main"].update(usage={"cpu": "3500m"}),
        ("workload w", "admission.podSets.main.usage.cpu", "3500m", "3"),
    ),
    "the state of a check": (
        lambda e: W(e).update(checks={"c": "Retry"}),
        ("workload w", "checks.c", "Retry", "Ready"),
    ),
    "what is reclaimable": (
        lambda e: W(e).update(reclaimable={"main": 2}),
        ("workload w", "reclaimable.main", 2, 1),
    ),
    "a workload that is not there": (
        lambda e: e["workloads"].update(ghost=admitted(1)),
        ("workload ghost", "exists", True, False),
    ),
    "a workload too many": (lambda e: e["workloads"].pop("w"), ("workload w", "exists", False, True)),
    "why a queue is inactive": (
        lambda e: Q(e).update(active=["False", "Stopped"]),
        ("ClusterQueue q", "active", ["False", "Stopped"], ["True", "Ready"]),
    ),
    "who is pending": (lambda e: Q(e).update(pending=4), ("ClusterQueue q", "pending", 4, 0)),
    "who reserves": (lambda e: Q(e).update(reserving=4), ("ClusterQueue q", "reserving", 4, 1)),
    "who is admitted": (lambda e: Q(e).update(admitted=4), ("ClusterQueue q", "admitted", 4, 1)),
    "usage apart from the reservation": (
        lambda e: Q(e).update(usage={}),
        ("ClusterQueue q", "usage.f.cpu", NOTHING, ["3", "0"]),
    ),
    "the share of a queue": (lambda e: Q(e).update(weightedShare=8), ("ClusterQueue q", "weightedShare", 8, 7)),
    "counts of a LocalQueue": (
        lambda e: e["localQueues"]["l"].update(reserving=2),
        ("LocalQueue l", "reserving", 2, 1),
    ),
    "whether a LocalQueue is active": (
        lambda e: e["localQueues"]["l"].update(active=["False", "Stopped"]),
        ("LocalQueue l", "active", ["False", "Stopped"], ["True", "Ready"]),
    ),
    "the share of a cohort": (
        lambda e: e["cohorts"]["root"].update(weightedShare=6),
        ("Cohort root", "weightedShare", 6, 5),
    ),
}


def test_what_is_decided_as_expected_is_no_difference() -> None:
    assert found(lambda _: None) == []


@pytest.mark.parametrize(("change", "difference"), KINDS.values(), ids=KINDS)
def test_one_field_that_differs_is_one_difference(change: Change, difference: tuple[str, str, Any, Any]) -> None:
    assert found(change) == [difference]


def test_a_reservation_that_differs_is_one_of_usage_too_as_both_are_the_same() -> None:
    fields = [field for _, field, _, _ in found(lambda e: Q(e).update(reservation={"f": {"cpu": ["3", "1"]}}))]
    assert sorted(fields) == ["reservation.f.cpu", "usage.f.cpu"]


def test_a_local_queue_whose_state_is_not_told_may_be_active_or_not() -> None:
    assert found(lambda e: e["localQueues"]["l"].pop("active")) == []


def test_the_evictions_that_were_completed_are_compared_with_their_order() -> None:
    step = Step("complete_evictions", ("all",), wanted(), completed=("a", "b"))
    (one,) = disagreements("s", 4, step, got=decided(), completed=("b", "a"), messages={})
    assert str(one) == 's, step 4 (complete_evictions), evictions, completed: expected ["a","b"], got ["b","a"]'
    assert not one.is_hint


def test_another_text_is_a_hint_and_says_so() -> None:
    step = Step("create", (), wanted(), messages={"w": "too much", "v": "none"})
    (one,) = disagreements("s", 2, step, got=decided(), completed=(), messages={"w": "too little", "v": "none"})
    assert one.is_hint
    assert str(one) == 'hint: s, step 2 (create), workload w, message: expected "too much", got "too little"'


def test_a_line_says_where_what_and_how() -> None:
    expectation = copy.deepcopy(wanted())
    W(expectation)["conditions"] = {**W(expectation)["conditions"], "Evicted": ["True", "Preempted"]}
    (one,) = disagreements("s", 3, Step("finish", (), expectation), got=decided(), completed=(), messages={})
    assert str(one) == 's, step 3 (finish), workload w, conditions.Evicted: expected ["True","Preempted"], got nothing'
