from __future__ import annotations

import pytest

from multikueue.errors import ApiError, ClusterUnreachable, Conflict, MultiKueueError, NotFound, ServerError, Throttled
from multikueue.kube.transport.retry import MAX_RETRIES, is_repeatable, wait_before_retry

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
