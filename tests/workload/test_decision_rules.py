"""How long an evicted workload waits (quota-engine 5.2, QE-333)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from multikueue.api.meta import encode
from multikueue.workload.decision_rules import (
    COPY_RETENTION,
    JITTER,
    CopyRetention,
    DecisionRules,
    RequeueBackoff,
    asked_retention,
    copy_retention,
    copy_retention_problem,
    time_to_live,
)
from tests.builders import job
from tests.workload.builders import won

HOUR = timedelta(hours=1)
HOURLY = RequeueBackoff(first=HOUR, cap=HOUR)

WAITS = {
    "first": (10, 7200, 0, 10),
    "QE-333 doubled with each": (10, 7200, 3, 80),
    "QE-333 at most the cap": (10, 7200, 10, 7200),
    "so often that numbers would burst": (10, 7200, 2**31 - 1, 7200),
    "none": (0, 7200, 5, 0),
}


@pytest.mark.parametrize(("first", "cap", "tried", "expected"), WAITS.values(), ids=WAITS)
def test_the_wait(first: int, cap: int, tried: int, expected: int) -> None:
    found = RequeueBackoff(first=timedelta(seconds=first), cap=timedelta(seconds=cap)).after(tried, "u").total_seconds()
    assert expected <= found <= expected * (1 + JITTER)


@given(uid=st.uuids().map(str), tried=st.integers(0, 9))
def test_the_jitter_is_the_same_in_every_process_and_never_more_than_its_share(uid: str, tried: int) -> None:
    assert HOUR <= HOURLY.after(tried, uid) <= HOUR * (1 + JITTER)
    assert HOURLY.after(tried, uid) == HOURLY.after(tried, uid)


def test_those_evicted_together_do_not_come_back_together() -> None:
    assert len({HOURLY.after(3, f"u{number}") for number in range(20)}) == 20


TWO, NINE = timedelta(hours=2), timedelta(hours=9)
HOURS = DecisionRules(copies=CopyRetention(succeeded=TWO, failed=NINE))
ASKED = {
    "nothing is asked: as the settings say": (None, None, 2, ""),
    "the job asks for more": (None, "8h", 8, ""),
    "the job asks for less": (None, "30m", 0.5, ""),
    "the job wants none": (None, "0s", 0, ""),
    "the Workload goes first": ("1h", "8h", 1, ""),
    "as much as may be had": (None, "24h", 24, ""),
    "more than may be had": (None, "100h", 24, "100h is more than 1 day, 0:00:00"),
    "no duration": (None, "for ever", 2, "expected a duration as 12h or 30m, got 'for ever'"),
    "a negative one": (None, "-1h", 2, "expected a duration"),
    "more than a duration can be": (None, "9" * 30 + "h", 2, "expected a duration"),
}


@pytest.mark.parametrize(("workload", "own", "hours", "problem"), ASKED.values(), ids=ASKED)
def test_retention(workload: str | None, own: str | None, hours: float, problem: str) -> None:
    local = won().finished()
    if workload is not None:
        local = local.annotations({COPY_RETENTION: workload})
    owner = job("job") if own is None else job("job").annotations({COPY_RETENTION: own})
    asked = asked_retention(local.build(), owner.build())
    assert copy_retention(asked, HOURS).succeeded == timedelta(hours=hours)
    said = copy_retention_problem(asked, HOURS) if asked else ""
    assert problem in said if problem else not said


def test_a_workload_whose_job_is_gone_is_retained_by_the_settings() -> None:
    assert copy_retention(asked_retention(won().finished().build(), None), HOURS) == HOURS.copies


@pytest.mark.parametrize(
    ("reason", "stays"),
    [("Succeeded", TWO), ("Failed", NINE), ("OutOfSync", NINE), ("WorkloadSliceReplaced", timedelta())],
)
def test_what_failed_stays_longer_and_a_replaced_slice_not_at_all(reason: str, stays: timedelta) -> None:
    local = won().finished(reason=reason).build()
    ended = local.condition("Finished")
    assert ended is not None
    assert copy_retention(asked_retention(local, None), HOURS).of(ended) == stays


def test_an_annotation_counts_however_the_job_ends() -> None:
    local = won().annotations({COPY_RETENTION: "3h"}).build()
    assert copy_retention(asked_retention(local, None), HOURS) == CopyRetention(timedelta(hours=3), timedelta(hours=3))


def test_what_all_copies_have_an_annotation_may_ask_for() -> None:
    week = DecisionRules(copies=CopyRetention(failed=timedelta(days=7)))
    local = won().finished().annotations({COPY_RETENTION: "48h"}).build()
    assert copy_retention(asked_retention(local, None), week).succeeded == timedelta(days=2)
    assert copy_retention_problem(asked_retention(local, None), week) == ""


LASTING = {
    "a Job": ({"ttlSecondsAfterFinished": 60}, timedelta(minutes=1)),
    "a job of Kubeflow": ({"runPolicy": {"ttlSecondsAfterFinished": 60}}, timedelta(minutes=1)),
    "one that stays": ({}, None),
    "one that cannot be read": ({"ttlSecondsAfterFinished": "soon"}, None),
}


@pytest.mark.parametrize(("spec", "lasts"), LASTING.values(), ids=LASTING)
def test_how_long_a_job_itself_stays(spec: dict[str, Any], lasts: timedelta | None) -> None:
    assert time_to_live(replace(job("job").build(), spec=msgspec.Raw(encode(spec)))) == lasts


@pytest.mark.parametrize(
    ("limit", "left"), [(None, (TWO, NINE)), (NINE, (TWO, NINE)), (timedelta(0), (timedelta(0),) * 2)]
)
def test_a_copy_does_not_stay_longer_than_its_job(limit: timedelta | None, left: tuple[timedelta, timedelta]) -> None:
    assert HOURS.copies.within(limit) == CopyRetention(*left)
