"""Bounds that are learned from what an API server says."""

from __future__ import annotations

import pytest

from multikueue.api.kueue.queues import FlavorUsage, QueueStatus, ResourceUsage
from multikueue.api.meta import Condition
from multikueue.store.bounds import Bounds

LONG = QueueStatus(
    conditions=(Condition(type="Active", status="True", reason="x", message="long words"),),
    flavors_usage=tuple(
        FlavorUsage(name=f"f{n}", resources=tuple(ResourceUsage(name=f"r{m}", total="1") for m in range(4)))
        for n in range(3)
    ),
)


@pytest.mark.parametrize(
    "words",
    [
        "status.flavorsUsage[1].resources: Too many: 4: must have at most 2 items",
        '"cq" is invalid: [status.flavorsUsage[0].resources: Too many: 4: must have at most 2 items, '
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid]",
    ],
)
def test_lists_within_lists_are_cut(words: str) -> None:
    bounds = Bounds()
    assert bounds.learn("ClusterQueue", words)
    shown, lacking = bounds.cut("ClusterQueue", LONG)
    assert [len(each.resources) for each in shown.flavors_usage] == [2, 2, 2]
    assert lacking == ("flavorsUsage[].resources: only the first 2",)
    assert bounds.cut("LocalQueue", LONG) == (LONG, ())


@pytest.mark.parametrize(
    "words",
    [
        "status.conditions[0].message: Too long: may not be more than 4 bytes",
        "status.conditions[0].message: Too long: may not be longer than 4",
        "status.conditions[0].message: Too long: must have at most 4 characters",
    ],
)
def test_so_are_texts(words: str) -> None:
    bounds = Bounds()
    assert bounds.learn("ClusterQueue", words)
    assert bounds.cut("ClusterQueue", LONG)[0].conditions[0].message == "long"


def test_what_is_known_or_says_no_bound_is_no_news() -> None:
    bounds = Bounds()
    words = "status.flavorsUsage: Too many: 3: must have at most 2 items"
    assert bounds.learn("ClusterQueue", words)
    assert not bounds.learn("ClusterQueue", words)
    assert not bounds.learn("ClusterQueue", "status.flavorsUsage: Required value")
    assert not bounds.learn("ClusterQueue", "spec.cohort: Too many: 3: must have at most 1 items")
