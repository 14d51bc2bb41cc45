"""Counting calls in an audit log."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from fakekube.front_end.audit import Call
from testbed.audit import PROBE, Audit
from testbed.plane import ControlPlane

NOBODY = cast(ControlPlane, None)


def _entry(verb: str = "create", *, stage: str = "ResponseComplete", agent: str = "kueue/v0.16", **target: str) -> str:
    entry: dict[str, Any] = {
        "stage": stage,
        "verb": verb,
        "user": {"username": "kueue"},
        "userAgent": agent,
        "objectRef": {"resource": "jobs", "namespace": "team", "name": "one", "apiGroup": "batch", **target},
        "responseStatus": {"code": 201},
    }
    return json.dumps(entry) + "\n"


@pytest.fixture(name="audit")
def _audit(tmp_path: Path) -> Audit:
    return Audit(tmp_path / "audit.log", NOBODY)


def test_calls_are_counted_by_user_agent_verb_and_resource(audit: Audit) -> None:
    audit.path.write_text(_entry() + _entry() + _entry("patch", subresource="status"))
    assert audit.since(audit.mark()) == Counter()
    assert Counter(event.call for event in audit.events()) == Counter(
        {Call("kueue", "kueue", "create", "jobs"): 2, Call("kueue", "kueue", "patch", "jobs/status"): 1}
    )


def test_only_what_comes_after_the_mark_counts(audit: Audit) -> None:
    audit.path.write_text(_entry())
    mark = audit.mark()
    with audit.path.open("a") as log:
        log.write(_entry("delete"))
    until = audit.mark()
    with audit.path.open("a") as log:
        log.write(_entry("update"))
    assert audit.since(mark, until) == Counter({Call("kueue", "kueue", "delete", "jobs"): 1})


@pytest.mark.parametrize("length", [20, 200_000], ids=["its first bytes", "more than is read at once"])
@pytest.mark.parametrize("before", ["", _entry()], ids=["the first", "a later one"])
def test_a_line_half_written_at_the_mark_comes_whole_after_it(audit: Audit, before: str, length: int) -> None:
    line = _entry("delete", note="x" * 2 * length)
    audit.path.write_text(before + line[:length])
    mark = audit.mark()
    with audit.path.open("a") as log:
        log.write(line[length:])
    assert audit.since(mark) == Counter({Call("kueue", "kueue", "delete", "jobs"): 1})


def test_a_watch_counts_once_when_it_begins(audit: Audit) -> None:
    audit.path.write_text(_entry("watch", stage="ResponseStarted") + _entry("watch"))
    (call,) = audit.since(audit.mark() * 0).items()  # type: ignore[arg-type]
    assert call == (Call("kueue", "kueue", "watch", "jobs"), 1)


def test_a_line_that_is_still_being_written_waits(audit: Audit) -> None:
    audit.path.write_text(_entry() + _entry()[:20])
    assert len(audit.events()) == 1


def test_our_own_probes_and_calls_without_an_object_do_not_count(audit: Audit) -> None:
    other = json.dumps({"stage": "ResponseComplete", "verb": "get", "user": {}}) + "\n"
    audit.path.write_text(_entry(agent=PROBE) + other)
    assert audit.events() == []


def test_an_event_says_who_did_what_to_which_object(audit: Audit) -> None:
    audit.path.write_text(_entry())
    (event,) = audit.events()
    assert (event.user, event.verb, event.group, event.resource) == ("kueue", "create", "batch", "jobs")
    assert (event.namespace, event.name, event.code) == ("team", "one", 201)
    assert event.call.is_write
    assert not event.call.is_watch


def test_a_plane_that_was_not_started_has_no_events(audit: Audit) -> None:
    assert (audit.mark(), audit.events()) == (0, [])
