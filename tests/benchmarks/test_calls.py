"""Calls per job from the events of an audit log."""

from __future__ import annotations

from benchmarks.calls import Calls, calls_of
from fakekube.front_end.audit import Event


def event(verb: str, resource: str = "workloads", *, user: str = "manager", code: int = 200) -> Event:
    return Event(
        user=user,
        user_agent="x/1",
        verb=verb,
        resource=resource,
        group="",
        version="v1",
        namespace="",
        name="",
        code=code,
        received="",
    )


def test_writes_reads_and_watches_are_counted_apart_and_per_job() -> None:
    events = [event("create"), event("patch", "workloads/status"), event("get"), event("list"), event("watch")]
    found = calls_of(events, user="manager", jobs=2)
    assert (found.writes, found.reads, found.watches, found.refused) == (1.0, 1.0, 0.5, 0.0)


def test_events_are_counted_as_writes_and_by_themselves() -> None:
    found = calls_of([event("create"), event("create", "events"), event("patch", "events")], user="manager", jobs=2)
    assert (found.writes, found.events) == (1.5, 1.0)


def test_calls_of_others_do_not_count() -> None:
    assert calls_of([event("create", user="kueue")], user="manager", jobs=1) == Calls(0, 0, 0, 0, {})


def test_a_refused_write_is_a_write_and_is_named() -> None:
    found = calls_of([event("patch", code=409), event("patch")], user="manager", jobs=1)
    assert (found.writes, found.refused) == (2.0, 1.0)
    assert found.by == {"patch workloads → 409": 1.0, "patch workloads": 1.0}


def test_the_most_frequent_call_comes_first() -> None:
    found = calls_of([event("get"), event("create"), event("create")], user="manager", jobs=1)
    assert list(found.by) == ["create workloads", "get workloads"]
