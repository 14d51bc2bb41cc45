"""What a failed call says of what it was to do."""

from __future__ import annotations

import pytest

from multikueue.controllers.workers.connection.refused_calls import is_unsure
from multikueue.errors import ApiError, ClusterUnreachable, Conflict, Forbidden, ServerError, Throttled

WEBHOOK = 'failed calling webhook "policy": context deadline exceeded'


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(ClusterUnreachable("w1", "no answer in time"), True, id="no answer"),
        pytest.param(ClusterUnreachable("w1", "no connection", was_sent=False), False, id="not sent"),
        pytest.param(ServerError(500, "InternalError", "etcdserver: request timed out"), True, id="a server error"),
        pytest.param(ServerError(504, "Timeout", "gateway"), True, id="a gateway that gave it up"),
        pytest.param(ServerError(500, "InternalError", WEBHOOK), False, id="a webhook is asked before"),
        pytest.param(Throttled(429, "TooManyRequests", "later"), False, id="too many requests"),
        pytest.param(Forbidden(403, "Forbidden", "no"), False, id="forbidden"),
        pytest.param(Conflict(409, "Conflict", "no"), False, id="a conflict"),
    ],
)
def test_whether_a_job_may_have_been_made_though_the_call_failed(
    error: ApiError | ClusterUnreachable, expected: bool
) -> None:
    assert is_unsure(error) is expected
