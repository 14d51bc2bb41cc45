from __future__ import annotations

import msgspec
import pytest
from multidict import CIMultiDict

from multikueue import errors
from multikueue.errors import (
    ApiError,
    ClusterUnreachable,
    Conflict,
    Expired,
    MultiKueueError,
    NotFound,
    ServerError,
    Throttled,
)
from multikueue.kube.errors import (
    BY_REASON,
    BY_STATUS,
    MAX_RETRIES,
    error_from_answer,
    error_from_status,
    is_repeatable,
    wait_before_retry,
)


def answer(status: int, body: bytes = b"", **headers: str) -> ApiError:
    given = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return error_from_answer(status, given, body, call="get jobs")


def test_each_class_of_api_error_is_what_some_answer_becomes() -> None:
    ours = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ApiError)}
    assert {*BY_STATUS.values(), *BY_REASON.values(), ServerError, ApiError} == ours


@pytest.mark.parametrize(("status", "kind"), [*BY_STATUS.items(), (500, ServerError), (504, ServerError)])
def test_the_status_alone_decides_where_nothing_more_is_said(status: int, kind: type[ApiError]) -> None:
    error = answer(status)
    assert (type(error), error.status, error.reason) == (kind, status, kind.__name__)


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        pytest.param(409, "AlreadyExists", errors.AlreadyExists, id="a name that is taken is no conflict of versions"),
        pytest.param(409, "Conflict", Conflict, id="a conflict of versions"),
        pytest.param(400, "Expired", Expired, id="an expired version whatever the status"),
        pytest.param(410, "Gone", Expired, id="an expired continue token"),
        pytest.param(415, "UnsupportedMediaType", ApiError, id="a status without class of its own"),
        pytest.param(302, "", ApiError, id="a redirection, which we do not follow"),
    ],
)
def test_the_reason_goes_before_the_status(status: int, reason: str, kind: type[ApiError]) -> None:
    body = f'{{"kind":"Status","reason":"{reason}","message":"m"}}'.encode()
    error = answer(status, body)
    assert (type(error), error.message) == (kind, "m")


def test_the_message_names_the_call() -> None:
    body = b'{"kind":"Status","code":404,"reason":"NotFound","message":"jobs \\"a\\" not found","details":null}'
    assert str(answer(404, body)) == 'get jobs: 404 NotFound: jobs "a" not found'


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        pytest.param(b"<html>Bad Gateway", "text/html instead of a Status: '<html>Bad Gateway'", id="HTML of a proxy"),
        pytest.param(b"", "empty body", id="nothing"),
        pytest.param(b'"down"', "text/html instead of a Status: '\"down\"'", id="JSON that is no object"),
        pytest.param(b"\xff\xfe", "text/html instead of a Status: '��'", id="bytes"),
        pytest.param(b'{"code":{}}', "text/html instead of a Status: '{\"code\":{}}'", id="a Status out of shape"),
        pytest.param(b"x" * 999, f"text/html instead of a Status: '{'x' * 200}'", id="only the beginning of it"),
    ],
)
def test_a_body_that_is_no_status_is_an_error_all_the_same(body: bytes, shown: str) -> None:
    error = answer(502, body, Content_Type="text/html; charset=utf-8")
    assert (type(error), error.message) == (ServerError, shown)


@pytest.mark.parametrize(
    ("headers", "body", "after"),
    [
        pytest.param({"Retry_After": "3"}, b"", 3.0, id="seconds"),
        pytest.param({}, b"", None, id="not said"),
        pytest.param({"Retry_After": "soon"}, b"", None, id="neither number nor date"),
        pytest.param({"Retry_After": "-1"}, b"", None, id="negative"),
        pytest.param({}, b'{"kind":"Status","details":{"retryAfterSeconds":2}}', 2.0, id="only in the details"),
        pytest.param(
            {"Retry_After": "Sat, 21 Nov 2026 10:00:07 GMT", "Date": "Sat, 21 Nov 2026 10:00:00 GMT"},
            b"",
            7.0,
            id="a date, by the clock of the server",
        ),
        pytest.param({"Retry_After": "Sat, 21 Nov 2026 10:00:07 GMT"}, b"", None, id="a date and no clock"),
        pytest.param({"Retry_After": "999999999"}, b"", 120.0, id="31 years"),
        pytest.param({"Retry_After": "9" * 5000}, b"", 120.0, id="more digits than there is time"),
        pytest.param({}, b'{"kind":"Status","details":{"retryAfterSeconds":1e300}}', 120.0, id="the end of all time"),
        pytest.param({}, b'{"kind":"Status","details":{"retryAfterSeconds":-1e300}}', None, id="its beginning"),
        pytest.param(
            {}, b'{"kind":"Status","details":{"retryAfterSeconds":1e999}}', None, id="no number that there is"
        ),
        pytest.param({}, b'{"kind":"Status","details":{"retryAfterSeconds":NaN}}', None, id="no number at all"),
        pytest.param(
            {"Retry_After": "Fri, 31 Dec 9999 23:59:59 GMT", "Date": "Sat, 21 Nov 2026 10:00:00 GMT"},
            b"",
            120.0,
            id="a date that nobody sees",
        ),
        pytest.param(
            {"Retry_After": "Sat, 21 Nov 2026 09:00:00 GMT", "Date": "Sat, 21 Nov 2026 10:00:00 GMT"},
            b"",
            0.0,
            id="a date that is past",
        ),
        pytest.param(
            {"Retry_After": f"Sat, 21 Nov 2026 10:00:00 +{'9' * 5000}", "Date": "Sat, 21 Nov 2026 10:00:00 GMT"},
            b"",
            None,
            id="a date of no zone on earth",
        ),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], body: bytes, after: float | None) -> None:
    error = answer(429, body, **headers)
    assert (type(error), error.after) == (Throttled, after)


def test_an_error_event_is_the_same_error_as_an_error_answer() -> None:
    error = error_from_status(b'{"kind":"Status","code":410,"reason":"Expired","message":"old"}', call="watch jobs")
    assert (type(error), error.status, error.message) == (Expired, 410, "old")


def test_a_message_and_a_reason_are_cut_where_they_come_in() -> None:
    body = msgspec.json.encode({"kind": "Status", "reason": "r" * 10_000, "message": "m" * 10_000})
    for error in (answer(409, body), error_from_status(body, call="watch jobs")):
        assert (len(error.reason), len(error.message)) == (64, 1000)


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000], ids=["arrays", "objects"])
def test_a_tower_of_brackets_is_an_error_too(body: bytes) -> None:
    assert type(answer(409, body)) is Conflict
    assert type(error_from_status(body, call="watch jobs")) is ServerError


def test_an_unreadable_error_event_is_an_error_too() -> None:
    error = error_from_status(b'{"oops":1}', call="watch jobs")
    assert (type(error), error.status) == (ServerError, 500)


LOST = ClusterUnreachable("w", "reset")


@pytest.mark.parametrize(
    ("method", "body", "expected"),
    [
        pytest.param("GET", b"", True, id="a read"),
        pytest.param("POST", b'{"metadata":{"resourceVersion":"1"}}', False, id="a create, whatever it says"),
        pytest.param("PUT", b'{"metadata":{"resourceVersion":"7"}}', True, id="a replacement of a version"),
        pytest.param("PUT", b'{"metadata":{"name":"a"}}', False, id="a replacement of whatever is there"),
        pytest.param("PUT", b'{"spec":{"resourceVersion":"7"}}', False, id="the word in another place"),
        pytest.param("PATCH", b'{"metadata":{"resourceVersion":""},"spec":{}}', False, id="an empty version"),
        pytest.param("PATCH", b'{"metadata":{"resourceVersion":"7"},"status":{}}', True, id="a patch of a version"),
        pytest.param("PATCH", b'[{"op":"test","path":"/metadata/resourceVersion","value":"7"}]', False, id="a list"),
        pytest.param("PATCH", b"a: yaml", False, id="a body we cannot read"),
        pytest.param("DELETE", b'{"preconditions":{"uid":"u"}}', True, id="a delete of one object"),
        pytest.param("DELETE", b'{"preconditions":{"resourceVersion":"7"}}', True, id="a delete of one version"),
        pytest.param("DELETE", b'{"propagationPolicy":"Background"}', False, id="a delete of a name"),
        pytest.param("DELETE", b"", False, id="a delete without body"),
    ],
)
def test_what_may_be_done_twice(method: str, body: bytes, expected: bool) -> None:
    assert is_repeatable(method, body) is expected


def failed(status: int, after: float | None = None) -> ApiError:
    kind = {409: Conflict, 404: NotFound, 429: Throttled}.get(status, ServerError)
    return kind(status, "", "", after=after)


@pytest.mark.parametrize(
    ("failure", "read", "create"),
    [
        pytest.param(LOST, True, False, id="no answer"),
        pytest.param(failed(429, 1), True, True, id="throttled, with a time"),
        pytest.param(failed(429), False, False, id="throttled, without a time"),
        pytest.param(failed(503, 1), True, True, id="unavailable, with a time: it was not taken"),
        pytest.param(failed(503), True, False, id="unavailable, without a time"),
        pytest.param(failed(500), True, False, id="broken"),
        pytest.param(failed(502), True, False, id="broken before the server"),
        pytest.param(failed(504, 1), True, False, id="too slow: it may have been taken although a time is named"),
        pytest.param(failed(409), False, False, id="conflict"),
        pytest.param(failed(404), False, False, id="not found"),
    ],
)
def test_which_failure_is_tried_again(failure: MultiKueueError, read: bool, create: bool) -> None:
    def is_retried(repeatable: bool) -> bool:
        return wait_before_retry(failure, is_repeatable=repeatable, attempt=1, chance=0.5) is not None

    assert (is_retried(True), is_retried(False)) == (read, create)


def test_it_ends_after_two_retries() -> None:
    waits = [wait_before_retry(LOST, is_repeatable=True, attempt=n, chance=0.0) for n in range(1, MAX_RETRIES + 2)]
    assert waits == [0.1, 0.2, None]


def test_the_servers_time_is_a_lower_bound_and_callers_spread() -> None:
    low, high = (
        wait_before_retry(failed(429, 2), is_repeatable=False, attempt=1, chance=chance) for chance in (0.0, 0.9)
    )
    assert low is not None
    assert high is not None
    assert 2 < low < high < 3
