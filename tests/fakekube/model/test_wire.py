"""Refusals as Status objects, and watches between a server and a reader."""

from __future__ import annotations

import msgspec
import pytest

from fakekube.model.wire import Refused, Response, Watch, object_of


def test_a_refusal_is_a_status_with_its_causes_and_when_to_come_back() -> None:
    error = Refused(
        422, "Invalid", "bad", details={"name": "x"}, causes=[("FieldValueInvalid", "no", "spec.a")], retry_after=2
    )
    answer = error.response()
    body = msgspec.json.decode(answer.body)
    assert answer.status == body["code"] == 422
    assert answer.headers["Retry-After"] == "2"
    assert body["details"] == {
        "name": "x",
        "causes": [{"reason": "FieldValueInvalid", "message": "no", "field": "spec.a"}],
        "retryAfterSeconds": 2,
    }


def test_a_refusal_without_details_has_none() -> None:
    assert "details" not in msgspec.json.decode(Refused(404, "NotFound", "gone").response().body)


def test_a_reader_is_woken_by_each_line_and_by_the_end() -> None:
    watch, woken = Watch(), list[int]()
    watch.wake = lambda: woken.append(len(watch.lines))
    watch.feed(b"1\n")
    watch.feed(b"2\n")
    watch.end()
    assert woken == [1, 2, 2]
    assert watch.ended


def test_the_server_is_told_once_that_the_reader_is_gone() -> None:
    watch, told = Watch(), list[str]()
    watch.on_close = lambda: told.append("gone")
    watch.close()
    watch.close()
    assert told == ["gone"]


def test_an_answer_is_its_object() -> None:
    assert object_of(Response(body=b'{"kind":"Toy"}')) == {"kind": "Toy"}


def test_a_refusal_comes_out_of_an_answer_as_it_went_in() -> None:
    with pytest.raises(Refused) as caught:
        object_of(Refused(409, "Conflict", "somebody wrote first", details={"name": "toy"}).response())
    found = caught.value
    assert (found.code, found.reason, found.message) == (409, "Conflict", "somebody wrote first")
    assert found.details["name"] == "toy"
