"""Calls that fail: what each error becomes, what is tried again, and until when."""

from __future__ import annotations

import socket
from time import monotonic
from typing import Any

import anyio
import pytest

from multikueue.api.kinds import JOBS
from multikueue.errors import (
    AlreadyExists,
    ApiError,
    ClusterUnreachable,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    InvalidObject,
    ServerError,
    Throttled,
)
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.client import Client
from tests.kube.calling import FOUND, A
from tests.kube.server import (
    Answer,
    aborts,
    client_of,
    hangs,
    job,
    refuses,
    says,
    streams,
)

pytestmark = pytest.mark.anyio
VERSIONED = {"metadata": {"resourceVersion": "6"}}


# Errors.
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refuses(403, "Forbidden"), Forbidden),
        (refuses(409, "AlreadyExists"), AlreadyExists),
        (refuses(409, "Conflict"), Conflict),
        (refuses(410, "Expired"), Expired),
        (refuses(422, "Invalid"), Invalid),
        (refuses(429), Throttled),
        (refuses(500), ServerError),
        (says(b"<html>Bad Gateway</html>", status=502, kind="text/html"), ServerError),
        (says(b"", status=429), Throttled),
        (says(b"", status=302, headers={"Location": "http://127.0.0.1:9/"}), ApiError),
    ],
)
async def test_an_error_is_an_error_of_its_kind_and_never_a_success(answer: Answer, kind: type[ApiError]) -> None:
    async with client_of(answer) as (client, script):
        with pytest.raises(ApiError) as caught:
            await client.create(JOBS, "ns", {})
    assert type(caught.value) is kind
    assert "create /apis/batch/v1/namespaces/ns/jobs" in str(caught.value)
    assert len(script.requests) == 1


async def test_an_answer_that_is_no_json_is_no_answer() -> None:
    async with client_of(says(b"<html>log in</html>", kind="text/html")) as (client, _):
        with pytest.raises(ClusterUnreachable, match="the answer is no JSON: b'<html>log in"):
            await client.get(JOBS, A)


async def test_an_answer_of_another_shape_names_the_field() -> None:
    async with client_of(says(job("a", metadata={"name": 5}))) as (client, _):
        with pytest.raises(InvalidObject) as caught:
            await client.get(JOBS, A)
    assert (caught.value.field, caught.value.expected) == ("$.metadata.name", "`str`, got `int`")
    assert "get /apis/batch/v1/namespaces/ns/jobs/a of cluster w1" in caught.value.object


# Retries.
@pytest.mark.parametrize("failure", [aborts, refuses(500), refuses(503), says(b"", status=502)])
async def test_a_read_is_tried_again(failure: Answer) -> None:
    async with client_of(failure, failure, FOUND) as (client, script):
        assert (await client.get(JOBS, A)).key == A
    assert len(script.requests) == 3


async def test_it_ends_after_two_retries() -> None:
    async with client_of(refuses(500)) as (client, script):
        with pytest.raises(ServerError):
            await client.get(JOBS, A)
    assert len(script.requests) == 3


@pytest.mark.parametrize("failure", [aborts, refuses(500)])
@pytest.mark.parametrize(
    ("call", "times"),
    [
        pytest.param(lambda c: c.create(JOBS, "ns", VERSIONED), 1, id="create"),
        pytest.param(lambda c: c.merge_patch(JOBS, A, {"spec": {}}), 1, id="patch of whatever is there"),
        pytest.param(lambda c: c.merge_patch(JOBS, A, VERSIONED), 2, id="patch of a version"),
        pytest.param(lambda c: c.delete(JOBS, A), 1, id="delete of a name"),
        pytest.param(lambda c: c.delete(JOBS, A, uid="u"), 2, id="delete of an object"),
    ],
)
async def test_a_write_whose_answer_is_lost_is_repeated_only_if_it_is_guarded(
    call: Any, times: int, failure: Answer
) -> None:
    async with client_of(failure, FOUND) as (client, script):
        if times == 1:
            with pytest.raises((ClusterUnreachable, ServerError)):
                await call(client)
        else:
            await call(client)
    assert len(script.requests) == times


async def test_an_unguarded_write_on_a_connection_lost_meanwhile_is_not_repeated_by_the_library() -> None:
    async with client_of(FOUND, aborts, FOUND) as (client, script):
        await client.get(JOBS, A)
        with pytest.raises(ClusterUnreachable):
            await client.delete(JOBS, A)
    assert len(script.requests) == 2


async def test_a_create_is_repeated_when_the_server_says_that_it_did_not_take_it() -> None:
    async with client_of(refuses(429, headers={"Retry-After": "0"}), FOUND) as (client, script):
        await client.create(JOBS, "ns", {})
    assert len(script.requests) == 2


async def test_a_retry_after_beyond_the_deadline_is_the_callers_business() -> None:
    async with client_of(refuses(429, headers={"Retry-After": "40"}), FOUND) as (client, script):
        with pytest.raises(Throttled) as caught:
            await client.get(JOBS, A)
    assert (caught.value.after, len(script.requests)) == (40.0, 1)


async def test_a_conflict_is_never_repeated() -> None:
    async with client_of(refuses(409, "Conflict"), FOUND) as (client, script):
        with pytest.raises(Conflict):
            await client.merge_patch(JOBS, A, VERSIONED)
    assert len(script.requests) == 1


# Deadlines and cancellation.
async def test_a_server_that_does_not_answer_costs_no_more_than_the_deadline() -> None:
    async with client_of(hangs, call_timeout=0.2) as (client, _):
        started = monotonic()
        with pytest.raises(
            ClusterUnreachable, match=r"cluster w1 is unreachable: get jobs: no answer in time"
        ) as raised:
            await client.get(JOBS, A)
        assert raised.value.was_sent
    assert monotonic() - started < 1


async def test_a_body_that_never_ends_is_no_answer() -> None:
    async with client_of(streams(b'{"kind":', then="silence"), call_timeout=0.2) as (client, _):
        with pytest.raises(ClusterUnreachable, match="no answer in time"):
            await client.get(JOBS, A)


async def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: nobody else gets the port, nobody answers
        server = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with Client.connect(Credentials(server=server), cluster="w1", call_timeout=0.05) as client:
            with pytest.raises(ClusterUnreachable, match=r"no connection: .*Connect call failed") as raised:
                await client.get(JOBS, A)
            assert not raised.value.was_sent


async def test_cancellation_passes_and_leaves_the_client_usable() -> None:
    async with client_of(hangs, FOUND) as (client, _):
        with anyio.move_on_after(0.1) as scope:
            await client.get(JOBS, A)
        assert scope.cancelled_caught
        assert (await client.get(JOBS, A)).key == A


async def test_a_client_that_was_closed_is_unreachable() -> None:
    async with client_of(FOUND) as (client, _):
        pass
    started = monotonic()
    with pytest.raises(ClusterUnreachable, match="given up"):
        await client.get(JOBS, A)
    assert monotonic() - started < 0.05
