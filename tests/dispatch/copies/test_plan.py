"""A plan beside the workload that it was made for, and beside what comes after it."""

from __future__ import annotations

import msgspec
import pytest

from multikueue.api.kueue.workload import Workload
from multikueue.dispatch.copies.plan import Copied, Plan
from multikueue.testing import NOW
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import ATTEMPT, EARLIER, admitted_copy, copy, reserved

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
