"""What a batch Job gives back while it runs: never the quota of a pod that runs or may still run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from multikueue.api.kueue.compatibility import Compatibility
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB, BatchJob
from multikueue.jobs.kinds.batch_job.template import pods_count
from tests.builders import job
from tests.jobs.builders import with_spec, with_status
from tests.jobs.kinds.batch_job.test_status import INDEXES, rendered

Tree = dict[str, Any]


def given_back(spec: Tree, status: Tree, adapter: BatchJob = BATCH_JOB) -> int:
    freed = adapter.reclaimable(with_status(with_spec(job("j").build(), **spec), status))
    assert [each.name for each in freed] == ["main"] * len(freed)
    return sum(each.count for each in freed)


def queue(parallelism: int) -> Tree:
    """A work queue: it ends when its first pod has succeeded and the others are over."""
    return {"parallelism": parallelism, "completions": None}


def counted(parallelism: int, completions: int) -> Tree:
    return {"parallelism": parallelism, "completions": completions}


def indexed(parallelism: int, completions: int) -> Tree:
    return counted(parallelism, completions) | {"completionMode": "Indexed"}


CASES: dict[str, tuple[Tree, Tree, int]] = {
    "one pod at a time": (counted(1, 4), {"succeeded": 3, "active": 1}, 0),
    "all are needed once more": (counted(3, 9), {"succeeded": 6, "active": 3}, 0),
    "two are left to do": (counted(3, 9), {"succeeded": 7, "active": 2}, 1),
    "none has succeeded": (counted(3, 9), {"failed": 4, "active": 3}, 0),
    "all are over": (counted(3, 3), {"succeeded": 3}, 3),
    "more pods at a time than completions": (counted(100, 50), {"succeeded": 1, "active": 49}, 1),
    "the same, with indexes": (indexed(100, 50), {"succeeded": 1, "active": 49, "completedIndexes": "7"}, 1),
    "more pods at a time than completions, none over": (counted(100, 50), {"active": 50}, 0),
    "one completion, of many at a time": (counted(100, 1), {"active": 1}, 0),
    "a pod that is still being ended": (counted(3, 9), {"succeeded": 8, "active": 1, "terminating": 1}, 1),
    "more pods run than may": (counted(3, 9), {"succeeded": 8, "active": 3}, 0),
    "a work queue": (queue(3), {"succeeded": 1, "active": 2}, 1),
    "a work queue scaled below what is over": (queue(2), {"succeeded": 3, "active": 1}, 1),
    "a work queue, scaled down, of which all run": (queue(2), {"succeeded": 3, "active": 2}, 0),
    "an index that failed for good": (
        indexed(3, 3),
        {"succeeded": 1, "failed": 1, "active": 1, "completedIndexes": "0", "failedIndexes": "1"},
        2,
    ),
    "only indexes that failed for good": (indexed(3, 3), {"failed": 2, "active": 1, "failedIndexes": "0,2"}, 2),
    "indexes that failed in an early wave": (
        indexed(3, 9),
        {"succeeded": 2, "failed": 3, "active": 3, "completedIndexes": "0,1", "failedIndexes": "2-4"},
        0,
    ),
    "failed pods whose indexes are tried again": (
        indexed(3, 3),
        {"failed": 2, "active": 3, "failedIndexes": ""},
        0,
    ),
    "an index that both succeeded and failed": (
        indexed(3, 3),
        {"succeeded": 2, "failed": 1, "active": 1, "completedIndexes": "0-1", "failedIndexes": "1"},
        2,
    ),
    "indexes scaled below those that are over": (
        indexed(2, 2),
        {"succeeded": 3, "active": 2, "completedIndexes": "2-4"},
        0,
    ),
    "indexes that nobody can read": (indexed(3, 3), {"succeeded": 1, "active": 2, "completedIndexes": "2-0,x,-"}, 0),
    "indexes that are not told": (indexed(3, 3), {"succeeded": 1, "active": 2}, 0),
    "a suspended job that ran": (counted(3, 9) | {"suspend": True}, {"succeeded": 8, "terminating": 3}, 0),
    "no pods at all": (counted(0, 3), {"succeeded": 2}, 0),
}


@pytest.mark.parametrize(("spec", "status", "expected"), CASES.values(), ids=CASES.keys())
def test_pods_that_are_not_needed_again_give_their_quota_back(spec: Tree, status: Tree, expected: int) -> None:
    assert given_back(spec, status) == expected


def test_before_0_19_1_indexes_that_failed_for_good_keep_their_quota() -> None:
    spec, status, _ = CASES["an index that failed for good"]
    found = {
        release: given_back(spec, status, BATCH_JOB.of(Compatibility.of(release)))
        for release in ("0.16", "0.18", "0.19", "0.19.2")
    }
    assert found == {"0.16": 1, "0.18": 1, "0.19": 1, "0.19.2": 2}


COUNTS = st.integers(0, 12)


@given(
    parallelism=COUNTS,
    completions=st.none() | COUNTS,
    is_indexed=st.booleans(),
    over=INDEXES,
    failed=INDEXES,
    active=COUNTS,
    terminating=COUNTS,
    suspend=st.booleans(),
    releases=st.sampled_from(("0.16", "0.18", "0.19", "0.19.2")),
)
@example(100, 50, False, frozenset({0}), frozenset(), 49, 0, False, "0.19")
def test_nothing_is_given_back_that_runs_or_may_still_run(
    parallelism: int,
    completions: int | None,
    is_indexed: bool,
    over: frozenset[int],
    failed: frozenset[int],
    active: int,
    terminating: int,
    suspend: bool,
    releases: Any,
) -> None:
    is_indexed = is_indexed and completions is not None
    spec: Tree = {"parallelism": parallelism, "completions": completions, "suspend": suspend}
    status: Tree = {"succeeded": len(over), "failed": len(failed), "active": active, "terminating": terminating}
    if is_indexed:
        spec["completionMode"] = "Indexed"
        status |= {"completedIndexes": rendered(over), "failedIndexes": rendered(failed)}
    size = pods_count(with_spec(job("j").build(), **spec))
    if completions is None:
        may_run = 0 if over else size
    elif is_indexed:
        may_run = min(parallelism, sum(index not in over | failed for index in range(completions)))
    else:
        may_run = min(parallelism, max(0, completions - len(over)))
    freed = given_back(spec, status, BATCH_JOB.of(Compatibility.of(releases)))
    assert 0 <= freed <= max(0, size - max(may_run, active + terminating))
