"""The rules of Kubernetes for updates of jobs/status, played by a small judge of the same rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.jobs.kinds.batch_job.status import comparable, count_indexes, end_of, reset, writable

Status = dict[str, Any]

EARLY, STARTED, ENDED, LATE = (f"2026-01-01T{hour}:00:00Z" for hour in (10, 12, 13, 15))


def condition(type_: str, status: str = "True", **more: str) -> Status:
    return {"type": type_, "status": status, **more}


COMPLETE = {
    "conditions": [condition("SuccessCriteriaMet"), condition("Complete", lastTransitionTime=ENDED)],
    "startTime": STARTED,
    "completionTime": ENDED,
    "succeeded": 1,
}
FAILED = {
    "conditions": [condition("FailureTarget"), condition("Failed", reason="BackoffLimitExceeded", message="m")],
    "startTime": STARTED,
    "failed": 1,
}


def refusals(old: Status, new: Status, *, suspended: bool) -> list[str]:
    """What ValidateJobStatusUpdate of Kubernetes 1.35 would say, for a job with managedBy that is not Indexed."""
    was, now = (_true(s) for s in (old, new))
    finished = now & {"Complete", "Failed"}
    pods = {name: new.get(name) or 0 for name in ("active", "ready", "terminating")}
    uncounted = (new.get("uncountedTerminatedPods") or {}).values()
    rules = {
        "Complete without SuccessCriteriaMet": "Complete" in now and "SuccessCriteriaMet" not in now,
        "Failed without FailureTarget": "Failed" in now and "FailureTarget" not in now,
        "both ends": bool(now & {"Complete", "SuccessCriteriaMet"}) and bool(now & {"Failed", "FailureTarget"}),
        "taken back": bool(was & {"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"} - now),
        "completionTime without Complete": bool(new.get("completionTime")) and "Complete" not in now,
        "Complete without completionTime": "Complete" in now and not new.get("completionTime"),
        "completionTime before startTime": (new.get("completionTime") or "9") < (new.get("startTime") or "0"),
        "finished without startTime": bool(finished) and not new.get("startTime"),
        "finished with pods": bool(finished) and bool(pods["active"] or pods["terminating"] or any(uncounted)),
        "ready beyond active": pods["ready"] > pods["active"],
        "failed decreases": (new.get("failed") or 0) < (old.get("failed") or 0),
        "succeeded decreases": (new.get("succeeded") or 0) < (old.get("succeeded") or 0),
        "startTime changes": not suspended and bool(old.get("startTime")) and new.get("startTime") != old["startTime"],
    }
    return [rule for rule, broken in rules.items() if broken]


def _true(status: Status) -> set[str]:
    return {c["type"] for c in status.get("conditions", ()) if c["status"] == "True"}


@pytest.mark.parametrize(
    ("local", "remote", "suspended", "expected"),
    [
        pytest.param({}, COMPLETE, False, COMPLETE, id="a result as it is"),
        pytest.param({}, FAILED, False, FAILED, id="a failure as it is"),
        pytest.param(
            {"startTime": EARLY, "failed": 2},
            COMPLETE,
            False,
            COMPLETE | {"startTime": EARLY, "failed": 2},
            id="a second run keeps the first start and the failures of both",
        ),
        pytest.param({"startTime": EARLY}, COMPLETE, True, COMPLETE, id="a suspended job may start over"),
        pytest.param(
            {"active": 1},
            {"active": 2, "startTime": STARTED},
            True,
            {"active": 2, "conditions": []},
            id="a start that was taken away stays away as long as the job is being stopped",
        ),
        pytest.param(
            {"startTime": LATE},
            COMPLETE,
            False,
            COMPLETE | {"startTime": LATE, "completionTime": LATE},
            id="the worker's clock was behind: not completed before it started",
        ),
        pytest.param(
            {"active": 2, "ready": 2, "terminating": 1},
            COMPLETE | {"active": 1, "terminating": 1},
            False,
            COMPLETE,
            id="no pods after the end",
        ),
        pytest.param(
            {},
            COMPLETE | {"uncountedTerminatedPods": {"succeeded": ["u"]}},
            False,
            COMPLETE,
            id="no notes about pods that are elsewhere",
        ),
        pytest.param(
            {},
            {
                "startTime": STARTED,
                "active": 1,
                "conditions": [condition("FailureTarget"), condition("Suspended", "False")],
            },
            False,
            {"startTime": STARTED, "active": 1, "conditions": [condition("Suspended", "False")]},
            id="an end that was only announced is held back",
        ),
        pytest.param(
            {"conditions": [condition("FailureTarget")]},
            {"startTime": STARTED, "active": 1},
            False,
            {"startTime": STARTED, "active": 1, "conditions": [condition("FailureTarget")]},
            id="an announcement that is there stays there",
        ),
        pytest.param({"conditions": [condition("FailureTarget")]}, COMPLETE, False, None, id="no success after all"),
        pytest.param({"conditions": [condition("SuccessCriteriaMet")]}, FAILED, False, None, id="no failure after all"),
    ],
)
def test_what_may_be_written(local: Status, remote: Status, suspended: bool, expected: Status | None) -> None:
    assert writable(local, remote, is_suspended=suspended) == expected


def test_an_old_job_controller_announces_nothing() -> None:
    complete = condition("Complete", lastTransitionTime=ENDED, reason="", message="m")
    found = writable({}, {"conditions": [complete], "startTime": STARTED, "completionTime": ENDED}, is_suspended=False)
    assert found is not None
    assert found["conditions"] == [complete | {"type": "SuccessCriteriaMet"}, complete]


def test_an_end_without_times_gets_that_of_the_condition() -> None:
    remote = {"conditions": [condition("Complete", lastTransitionTime=ENDED)]}
    found = writable({}, remote, is_suspended=False)
    assert found is not None
    assert (found["startTime"], found["completionTime"]) == (ENDED, ENDED)


def test_succeeded_shrinks_only_where_indexes_may_go() -> None:
    local, remote = {"succeeded": 5}, {"succeeded": 3, "startTime": STARTED}
    kept, shrunk = (writable(local, remote, is_suspended=False, may_shrink_succeeded=may) for may in (False, True))
    assert kept is not None
    assert shrunk is not None
    assert (kept["succeeded"], shrunk["succeeded"]) == (5, 3)


def test_after_a_reset_nothing_runs_and_the_past_stays() -> None:
    status = {"active": 1, "ready": 1, "terminating": 1, "startTime": STARTED, "failed": 2, "succeeded": 1}
    assert reset(status | {"uncountedTerminatedPods": {}}) == {"failed": 2, "succeeded": 1}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"active": 0, "ready": 0, "conditions": []}, {}, True),
        ({"active": 1}, {}, False),
        ({"conditions": [condition("x")]}, {}, False),
        ({"conditions": [condition("x") | {"lastProbeTime": None}]}, {"conditions": [condition("x")]}, True),
    ],
)
def test_zero_empty_and_null_say_nothing(one: Status, other: Status, same: bool) -> None:
    assert (comparable(one) == comparable(other)) is same


TIMES = st.sampled_from([EARLY, STARTED, ENDED, LATE])
COUNT = st.integers(0, 3)


@st.composite
def statuses_of_a_worker(draw: st.DrawFn) -> Status:
    """What a job controller, new or old, may write."""
    end = draw(st.sampled_from(["", "Complete", "Failed", "announced"]))
    active = draw(COUNT)
    started = draw(TIMES)
    status: Status = {"failed": draw(COUNT), "succeeded": draw(COUNT), "active": active, "startTime": started}
    status |= {"ready": draw(st.integers(0, active)), "terminating": draw(COUNT), "conditions": []}
    if not end:
        return status if draw(st.booleans()) else {}
    if end == "announced":
        return status | {"conditions": [condition(draw(st.sampled_from(["FailureTarget", "SuccessCriteriaMet"])))]}
    announced = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[end]
    announcements = [condition(announced)] if draw(st.booleans()) else []
    ended = max(draw(TIMES), started)
    status["conditions"] = [*announcements, condition(end, lastTransitionTime=ended)]
    return status | ({"completionTime": ended} if end == "Complete" else {})


@given(runs=st.lists(statuses_of_a_worker(), min_size=1, max_size=5), suspended=st.booleans())
def test_kubernetes_refuses_nothing_of_what_is_written(runs: list[Status], suspended: bool) -> None:
    """Whatever several workers reported one after another, as long as the local job is not over."""
    local: Status = {}
    for remote in runs:
        new = writable(local, remote, is_suspended=suspended)
        assert new is not None, "without announcements in advance, nothing contradicts"
        assert refusals(local, new, suspended=suspended) == []
        if end_of(new):
            return
        local = new


@given(local=statuses_of_a_worker(), remote=statuses_of_a_worker(), suspended=st.booleans())
def test_nothing_contradictory_is_written_over_what_others_left(local: Status, remote: Status, suspended: bool) -> None:
    """Kueue copies announcements in advance; a job taken over from it may have one."""
    if end_of(local):
        return
    new = writable(local, remote, is_suspended=suspended)
    assert new is None or refusals(local, new, suspended=suspended) == []


@given(local=statuses_of_a_worker(), remote=statuses_of_a_worker(), suspended=st.booleans())
def test_written_once_is_enough(local: Status, remote: Status, suspended: bool) -> None:
    new = None if end_of(local) else writable(local, remote, is_suspended=suspended)
    if new is not None:
        again = writable(new, remote, is_suspended=suspended)
        assert again is not None
        assert comparable(again) == comparable(new)


INDEXES = st.frozensets(st.integers(0, 14), max_size=15)


def rendered(indexes: frozenset[int]) -> str:
    """As Kubernetes writes them: `0,2-4`."""
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


@given(over=INDEXES, failed=INDEXES, below=st.integers(0, 12))
def test_indexes_are_counted_once_and_only_below_the_completions(
    over: frozenset[int], failed: frozenset[int], below: int
) -> None:
    assert count_indexes((rendered(over), rendered(failed)), below=below) == sum(i < below for i in over | failed)


@given(st.text(alphabet="0123456789-, x²", max_size=12), st.integers(0, 20))
def test_any_text_of_indexes_has_a_count_within_bounds(text: str, below: int) -> None:
    assert 0 <= count_indexes((text,), below=below) <= below
