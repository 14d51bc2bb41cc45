"""A plan beside the workload that it was made for, and beside what comes after it."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from multikueue.api.kueue.workload import Workload
from multikueue.dispatch.copies.plan import Absent, Alone, Copied, Desired, Plan, Running, Ungated
from multikueue.testing import NOW
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import ATTEMPT, EARLIER, admitted_copy, copy, pending, reserved, won, worker

LOCAL = reserved().uid("u").version(7).build()


def made(local: Workload | None = LOCAL) -> Plan:
    return Plan(local=local, attempt=ATTEMPT, at=NOW, desired=(Copied(cluster="w1", why="nominated"),))


NOW_THERE = {
    "the same": (reserved().uid("u").version(7), True),
    "a newer version": (reserved().uid("u").version(8), False),
    "another one of that name": (reserved().uid("v").version(7), False),
    "nothing": (None, False),
}


@pytest.mark.parametrize(("there", "holds"), NOW_THERE.values(), ids=NOW_THERE.keys())
def test_a_change_of_the_workload_overtakes_its_plan(there: WorkloadBuilder | None, holds: bool) -> None:
    assert made().is_of(there.build() if there else None) is holds


def test_a_plan_for_what_is_gone_ends_when_it_comes_again() -> None:
    assert made(None).is_of(None)
    assert not made(None).is_of(LOCAL)


COMING = {
    "the copy that was asked for": (copy(), "w1", True),
    "one of an earlier attempt": (copy(EARLIER), "w1", False),
    "one that has been admitted already": (admitted_copy(), "w1", False),
    "one that nobody wants there": (copy(), "w2", False),
}


@pytest.mark.parametrize(("coming", "cluster", "expected"), COMING.values(), ids=COMING.keys())
def test_only_what_was_asked_for_is_no_news(coming: WorkloadBuilder, cluster: str, expected: bool) -> None:
    assert made().is_expected(coming.build(), cluster) is expected


def test_an_object_without_a_mark_counts_if_it_is_not_older_than_the_reservation() -> None:
    unmarked = copy().build()
    annotations = {k: v for k, v in unmarked.metadata.annotations.items() if "attempt" not in k}
    meta = msgspec.structs.replace(unmarked.metadata, annotations=annotations, creation_timestamp=NOW)
    assert made().is_current(msgspec.structs.replace(unmarked, metadata=meta))
    assert not made(None).is_current(unmarked)


def wanting(*desired: Desired) -> Plan:
    return Plan(local=LOCAL, attempt=ATTEMPT, at=NOW, desired=desired)


THERE = copy().uid("there")
RUNS = Running(cluster="w1", why="it won")
ALONE = Alone(cluster="w1", why="it won", kept=frozenset({"kept"}))


def test_where_a_job_runs_and_whose_gate_opens_are_known() -> None:
    plan = wanting(RUNS, Copied(cluster="w2", why="nominated"), Ungated(cluster="w3", why="it may preempt"))
    assert [plan.is_running_on(name) for name in ("w1", "w2", "w3", "w4")] == [True, False, False, False]
    assert plan.opening == "w3"
    assert wanting(RUNS).opening == ""


TOO_LATE = {
    "another worker has won": (wanting(ALONE), "w2", THERE, True),
    "it is the winner's": (wanting(ALONE), "w1", THERE, False),
    "the plan has more to say of that worker": (wanting(ALONE, RUNS), "w1", THERE, False),
    "the plan says what becomes of it": (
        wanting(ALONE, Absent(cluster="w2", why="lost", uids=frozenset())),
        "w2",
        THERE,
        False,
    ),
    "it may stay": (wanting(ALONE), "w2", copy().uid("kept"), False),
    "nobody has won": (wanting(RUNS), "w2", THERE, False),
}


@pytest.mark.parametrize(("plan", "cluster", "there", "late"), TOO_LATE.values(), ids=TOO_LATE.keys())
def test_a_copy_comes_too_late_where_another_worker_has_won(
    plan: Plan, cluster: str, there: WorkloadBuilder, late: bool
) -> None:
    assert plan.is_too_late(there.build(), cluster) is late


GIVEN_UP = {
    "it is the one that goes": (Absent(cluster="w1", why="lost", uids=frozenset({"there"})), True),
    "another one there goes": (Absent(cluster="w1", why="lost", uids=frozenset({"other"})), False),
    "it goes from another worker": (Absent(cluster="w2", why="lost", uids=frozenset({"there"})), False),
    "it is wanted": (Copied(cluster="w1", why="nominated"), False),
}


@pytest.mark.parametrize(("desired", "given_up"), GIVEN_UP.values(), ids=GIVEN_UP.keys())
def test_a_copy_is_given_up_by_its_uid(desired: Desired, given_up: bool) -> None:
    assert wanting(desired).is_given_up(THERE.build(), "w1") is given_up


def test_a_copy_of_the_attempt_is_current_and_one_of_an_earlier_is_not() -> None:
    assert made().is_current(copy().build())
    assert not made().is_current(copy(EARLIER).build())
    assert not made().is_current(None)
    assert not made(None).is_current(copy().build())


def test_an_old_object_without_a_mark_counts_on_the_worker_that_has_won() -> None:
    unmarked = pending().origin().created(NOW - timedelta(hours=1)).build()
    plan = Plan(local=won("w1").build(), attempt=ATTEMPT, at=NOW)
    assert plan.is_current(unmarked, worker("w1", unmarked))
    assert not plan.is_current(unmarked, worker("w2", unmarked))
    assert not plan.is_current(unmarked)
