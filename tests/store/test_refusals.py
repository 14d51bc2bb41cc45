"""What is refused try after try: told once it lasts, told again when the words change, and over when the write succeeds."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.api.kueue.queues import FlavorUsage, QueueStatus, ResourceUsage
from multikueue.api.meta import Condition, ObjectKey
from multikueue.store.refusals import LASTING, TOLD_AGAIN, Bounds, Refusals, StatusKey
from multikueue.testing import NOW

KEY = ObjectKey("default", "train")
LATER = NOW + LASTING


def test_what_may_succeed_at_the_next_try_is_told_once_it_lasts() -> None:
    refusals = Refusals()
    told = [
        refusals.fails(KEY, "job", "no answer", NOW + after, is_sure=False)
        for after in (timedelta(), LASTING / 2, LASTING, 2 * LASTING)
    ]
    assert told == [False, False, True, False]


def test_what_would_fail_again_is_told_at_once_and_once() -> None:
    refusals = Refusals()
    assert [refusals.fails(KEY, "job", "denied", NOW, is_sure=True) for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize(
    ("what", "why", "after", "is_told"),
    [
        pytest.param("job", "denied", timedelta(minutes=1), False, id="the same is no news"),
        pytest.param("job", "denied by another", timedelta(minutes=1), True, id="other words are"),
        pytest.param("copy", "denied", timedelta(minutes=1), True, id="another write is"),
        pytest.param("job", "denied", TOLD_AGAIN, True, id="the same is told again before its event is gone"),
    ],
)
def test_it_is_told_again_when_there_is_something_to_tell(what: str, why: str, after: timedelta, is_told: bool) -> None:
    refusals = Refusals()
    refusals.fails(KEY, "job", "denied", NOW, is_sure=True)
    assert refusals.fails(KEY, what, why, NOW + after, is_sure=True) is is_told


@pytest.mark.parametrize(
    ("what", "was_told", "is_left"),
    [
        pytest.param("", True, False, id="whatever it was"),
        pytest.param("job", True, False, id="that write"),
        pytest.param("copy", False, True, id="not another one"),
    ],
)
def test_it_is_over_when_the_write_succeeds(what: str, was_told: bool, is_left: bool) -> None:
    refusals = Refusals()
    refusals.fails(KEY, "job", "denied", NOW, cluster="w1", is_sure=True)
    assert refusals.told(KEY, "w1") == "job: denied"
    assert refusals.over(KEY, cluster="w1", what=what) is was_told
    assert refusals.clusters(KEY) == (("w1",) if is_left else ())


def test_what_was_never_told_was_no_news_when_it_is_over() -> None:
    refusals = Refusals()
    refusals.fails(KEY, "job", "no answer", NOW, is_sure=False)
    assert refusals.told(KEY, "") == ""
    assert not refusals.over(KEY)
    assert not refusals.over(KEY)


def test_those_that_are_sure_or_last_are_counted_by_what_they_are_about() -> None:
    refusals = Refusals()
    refusals.fails(KEY, "job", "denied", NOW, cluster="w1", is_sure=True)
    refusals.fails("a job", "workload", "denied", NOW, is_sure=True)
    refusals.fails(StatusKey("workloads", KEY), "status", "not kept", NOW, is_sure=True)
    refusals.fails(ObjectKey("default", "young"), "job", "no answer", LATER, cluster="w1", is_sure=False)
    assert refusals.count(LATER) == {("workload", "w1"): 1, ("job", ""): 1, ("status", ""): 1}
    assert refusals.count(LATER + LASTING)[("workload", "w1")] == 2


def test_another_write_that_fails_is_one_of_its_own() -> None:
    refusals = Refusals()
    refusals.fails(KEY, "job", "no answer", NOW, is_sure=False)
    assert not refusals.fails(KEY, "copy", "no answer", LATER, is_sure=False)


def test_what_was_told_is_told_again_in_other_words_and_as_long_after_that() -> None:
    refusals = Refusals()
    refusals.fails(KEY, "job", "denied", NOW, is_sure=True)
    soon = NOW + LASTING / 2
    assert refusals.fails(KEY, "job", "no answer", soon, is_sure=False)
    assert not refusals.fails(KEY, "job", "no answer", NOW + TOLD_AGAIN, is_sure=False)
    assert refusals.fails(KEY, "job", "no answer", soon + TOLD_AGAIN, is_sure=False)


def test_the_failures_of_two_clusters_are_two() -> None:
    refusals = Refusals()
    for cluster in ("w1", "w2"):
        refusals.fails(KEY, "job", "denied", NOW, cluster=cluster, is_sure=True)
    assert refusals.over(KEY, cluster="w1")
    assert (refusals.clusters(KEY), refusals.told(KEY, "w1"), refusals.told(KEY, "w2")) == (("w2",), "", "job: denied")
    assert refusals.told(ObjectKey("default", "another"), "w2") == ""
    assert refusals.count(NOW) == {("workload", "w2"): 1}
    assert refusals.over(KEY, cluster="w2")
    assert refusals._of == {}, "nothing is kept of what is over"


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


def test_what_is_within_its_bounds_or_not_of_that_kind_of_thing_is_as_it_is() -> None:
    bounds = Bounds()
    wide = "status.flavorsUsage: Too many: 30: must have at most 20 items"
    odd = (
        "status.flavorsUsage.name: Too many: 3: must have at most 2 items",
        "status.conditions[0].message[0].x: Too long: may not be more than 4 bytes",
        "status.flavorsUsage[0].unknown: Too many: 3: must have at most 2 items",
        "status.pendingWorkloads: Too many: 3: must have at most 2 items",
    )
    assert all(bounds.learn("ClusterQueue", words) for words in (wide, *odd))
    assert bounds.cut("ClusterQueue", LONG) == (LONG, ())
