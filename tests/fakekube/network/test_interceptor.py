"""One request that fails as a test says, in front of an API server that works."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from fakekube.cluster import Cluster
from fakekube.model.wire import Refused, Request, Response
from fakekube.network.interceptor import Interceptor

pytestmark = pytest.mark.anyio

MADE = Request(method="POST", path="/api/v1/namespaces", body=b'{"metadata":{"name":"n"}}')
READ = Request(method="GET", path="/api/v1/namespaces/n")


async def refuse(*_: object) -> Response | None:
    raise Refused(403, "Forbidden", "no")


async def lie(*_: object) -> Response | None:
    return Response(status=418)


async def break_off(*_: object) -> Response | None:
    raise ConnectionResetError


async def status(api: Interceptor, request: Request) -> int:
    answer = await api.handle(request)
    assert isinstance(answer, Response)
    return answer.status


@pytest.fixture
def api() -> Interceptor:
    cluster = Cluster("c", now=lambda: datetime(2030, 1, 1, tzinfo=UTC), rng=random.Random(1))
    return Interceptor(cluster.api)


async def test_without_hooks_it_answers_as_the_server_does(api: Interceptor) -> None:
    assert [await status(api, MADE), await status(api, READ)] == [201, 200]


@pytest.mark.parametrize(("hook", "told"), [(refuse, 403), (lie, 418)])
async def test_what_comes_before_is_the_answer_and_nothing_is_done(api: Interceptor, hook: Any, told: int) -> None:
    usual, api.before = api.before, hook
    assert await status(api, MADE) == told
    api.before = usual
    assert await status(api, READ) == 404


@pytest.mark.parametrize(("hook", "told"), [(refuse, 403), (lie, 418)])
async def test_what_comes_after_hides_the_answer_of_what_is_done(api: Interceptor, hook: Any, told: int) -> None:
    usual, api.after = api.after, hook
    assert await status(api, MADE) == told
    api.after = usual
    assert await status(api, READ) == 200


async def test_a_broken_connection_reaches_whoever_called(api: Interceptor) -> None:
    api.after = break_off
    with pytest.raises(ConnectionResetError):
        await status(api, MADE)
