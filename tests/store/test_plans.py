"""The newest plan of each workload, and what is no news beside it."""

from __future__ import annotations

import pytest

from multikueue.api.kueue.workload import Workload
from multikueue.dispatch.copies.plan import Absent, Alone, Copied, Desired, Plan, Ungated
from multikueue.store.caches.cache import Cache
from multikueue.store.plans import Plans
from tests.builders import NOW, workload
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import ATTEMPT, admitted_copy, copy, pending, reserved

KEY = pending().build().key
LOCAL = reserved().version(7)
COPIED = Copied(cluster="w1", why="nominated")
ALONE = Alone(cluster="w2", why="somebody else won", kept=frozenset({"kept"}))


def absent(uid: str) -> Absent:
    return Absent(cluster="w1", why="not wanted there", uids=frozenset({uid}))


def known(*desired: Desired, local: WorkloadBuilder = LOCAL, choice: str = "") -> tuple[Plans, Cache[Workload]]:
    cache: Cache[Workload] = Cache()
    cache.upsert(local.build())
    plans = Plans(cache)
    plans.put(KEY, Plan(local=local.build(), attempt=ATTEMPT, at=NOW, desired=desired, choice=choice))
    return plans, cache


def test_a_plan_is_in_force_until_its_workload_changes() -> None:
    plans, cache = known(COPIED)
    assert plans.get(KEY) is not None
    cache.unreadable[KEY] = "odd"
    assert plans.get(KEY) is None, "nobody knows what it says now"
    cache.unreadable.clear()
    cache.upsert(reserved().version(8).build())
    assert plans.get(KEY) is None


def test_the_choice_of_an_attempt_outlasts_the_plan_that_made_it() -> None:
    plans, cache = known(choice="w2")
    cache.upsert(reserved().version(8).build())
    assert (plans.choice(KEY, ATTEMPT), plans.choice(KEY, "another"), plans.choice(KEY, "")) == ("w2", "", "")


def test_what_is_being_opened_in_an_attempt_is_known() -> None:
    plans, _ = known(COPIED, Ungated(cluster="w2", why="it is the first that would preempt"))
    assert (plans.opening(KEY, ATTEMPT), plans.opening(KEY, "another"), plans.opening(KEY, "")) == ("w2", "", "")
    assert known(COPIED)[0].opening(KEY, ATTEMPT) == ""


def test_a_plan_that_wants_nothing_is_not_kept() -> None:
    plans, _ = known()
    assert plans.get(KEY) is None
    assert plans.choice(KEY, ATTEMPT) == ""


def test_a_plan_that_is_dropped_is_gone() -> None:
    plans, _ = known(COPIED, choice="w1")
    plans.put(KEY, None)
    assert (plans.get(KEY), plans.choice(KEY, ATTEMPT)) == (None, "")


def test_without_an_attempt_nothing_is_chosen() -> None:
    plans, _ = known(COPIED)
    plans.put(KEY, Plan(local=LOCAL.build(), attempt="", at=NOW, desired=(COPIED,), choice="w1"))
    assert (plans.choice(KEY, ""), plans.opening(KEY, "")) == ("", "")


OLD = copy().uid("old")
CHANGES = {
    "the copy that was asked for comes": (COPIED, None, copy(), False, True),
    "a copy comes that nobody asked for": (absent("old"), None, copy(), False, False),
    "one comes too late that is being made": (ALONE, None, copy(), True, True),
    "one comes too late that was made before": (ALONE, None, copy(), False, False),
    "what is kept comes by another name": (ALONE, None, copy().uid("kept"), True, False),
    "one that is to go is admitted": (absent("old"), OLD, admitted_copy().uid("old"), False, True),
    "one that is wanted is admitted": (COPIED, OLD, admitted_copy().uid("old"), False, False),
}


@pytest.mark.parametrize(("desired", "old", "new", "making", "settled"), CHANGES.values(), ids=CHANGES.keys())
def test_what_is_no_news(
    desired: Desired, old: WorkloadBuilder | None, new: WorkloadBuilder, making: bool, settled: bool
) -> None:
    plans, _ = known(desired)
    assert plans.is_expected(old.build() if old else None, new.build(), "w1", making) is settled


@pytest.mark.parametrize("local", [LOCAL.evicted(), LOCAL.deleted()], ids=["is evicted", "is being deleted"])
def test_somebody_waits_for_the_last_of_what_goes(local: WorkloadBuilder) -> None:
    plans, _ = known(absent("old"), local=local)
    assert not plans.is_expected(OLD.build(), OLD.build(), "w1", False)


def test_without_a_plan_everything_is_news() -> None:
    plans, _ = known(COPIED)
    assert not plans.is_expected(None, workload("another").build(), "w1", True)


@pytest.mark.parametrize("old", [None, OLD], ids=["comes", "changes"])
def test_of_a_workload_that_is_gone_every_copy_is_news_that(old: WorkloadBuilder | None) -> None:
    plans = Plans(Cache())
    plans.put(KEY, Plan(local=None, attempt="", at=NOW, desired=(absent("old"), COPIED)))
    assert plans.get(KEY) is not None
    assert not plans.is_expected(old.build() if old else None, copy(attempt="").uid("old").build(), "w1", False)
