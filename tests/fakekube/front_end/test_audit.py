from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakekube.front_end import audit
from fakekube.front_end.audit import Call, Event, Log, read
from fakekube.model.wire import Request, User
from tests.fakekube.front_ends import NOW

JOBS = "/apis/batch/v1/namespaces/team/jobs"


def event(method: str, path: str, *, body: bytes = b"", code: int = 200, **query: str) -> Event:
    request = Request(
        method=method, path=path, body=body, query=query, user=User("anne", ()), user_agent="test/1.0 (linux)"
    )
    made = audit.event(request, code, received=NOW)
    assert made is not None
    return made


def test_an_event_says_who_did_what() -> None:
    made = event("PATCH", f"{JOBS}/one/status", code=409)
    assert made == Event(
        user="anne",
        user_agent="test/1.0 (linux)",
        verb="patch",
        resource="jobs/status",
        group="batch",
        version="v1",
        namespace="team",
        name="one",
        code=409,
        received="2026-11-21T12:00:00.000000Z",
    )
    assert made.call == Call("anne", "test", "patch", "jobs/status")


def test_calls_are_writes_or_watches_or_neither() -> None:
    write, watch, read = event("DELETE", JOBS).call, event("GET", JOBS, watch="1").call, event("GET", JOBS).call
    assert [(call.is_write, call.is_watch) for call in (write, watch, read)] == [
        (True, False),
        (False, True),
        (False, False),
    ]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"metadata":{"name":"one"}}', "one"),
        (b'{"metadata":{"generateName":"one-"}}', ""),
        (b"", ""),
        (b"no json", ""),
        (b'{"metadata":{"name":7}}', ""),
    ],
)
def test_a_created_object_is_named_by_its_body(body: bytes, name: str) -> None:
    assert event("POST", JOBS, body=body).name == name


def test_what_is_for_no_resource_is_no_event() -> None:
    assert audit.event(Request(method="GET", path="/version"), 200, received=NOW) is None


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = Log(tmp_path / "audit.log")
    events = [event("GET", JOBS, watch="true"), event("POST", JOBS, body=b'{"metadata":{"name":"one"}}', code=201)]
    events += [event("POST", JOBS), event("PATCH", f"{JOBS}/one/status")]
    for each in events:
        log(each)
    log.close()
    assert list(read((tmp_path / "audit.log").read_bytes().splitlines())) == events


def test_a_line_has_the_shape_of_the_real_one(tmp_path: Path) -> None:
    log = Log(tmp_path / "audit.log")
    log(event("GET", f"{JOBS}/one"))
    log.close()
    line = json.loads((tmp_path / "audit.log").read_text())
    assert line["objectRef"] == {
        "resource": "jobs",
        "namespace": "team",
        "name": "one",
        "apiGroup": "batch",
        "apiVersion": "v1",
    }
    assert (line["kind"], line["stage"], line["level"]) == ("Event", "ResponseComplete", "Metadata")
