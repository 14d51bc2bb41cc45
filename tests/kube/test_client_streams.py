"""A stream is read line by line, until its end, its silence or an error."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest
from aiohttp import web

from multikueue.api.kinds import JOBS
from multikueue.errors import (
    ClusterUnreachable,
    Expired,
    NotFound,
    ServerError,
    Throttled,
)
from tests.kube.calling import FOUND, A, read
from tests.kube.server import (
    Answer,
    client_of,
    hangs,
    refuses,
    says,
    streams,
)

pytestmark = pytest.mark.anyio


async def test_a_stream_is_read_line_by_line_to_its_end() -> None:
    async with client_of(streams(b"1\n", b"2\n")) as (client, _):
        assert await read(client) == [b"1\n", b"2\n"]


async def test_a_line_of_nine_mebibytes_is_read_and_one_of_eleven_is_not() -> None:
    """A Job of 1.5 MiB may have nine in JSON."""
    async with client_of(streams(b"x" * 9 * 2**20 + b"\n"), streams(b"x" * 11 * 2**20 + b"\n")) as (client, _):
        assert len((await read(client))[0]) == 9 * 2**20 + 1
        with pytest.raises(ClusterUnreachable, match="watch: "):
            await read(client)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(refuses(404, "NotFound"), NotFound, id="404"),
        pytest.param(refuses(410, "Expired"), Expired, id="410"),
        pytest.param(says(b"<html>", status=502, kind="text/html"), ServerError, id="HTML 502"),
        pytest.param(says(b"", status=429), Throttled, id="an empty 429"),
        pytest.param(says(b"", status=204), ClusterUnreachable, id="a success that is no stream"),
    ],
)
async def test_an_error_is_never_read_as_a_stream(answer: Answer, kind: type[Exception]) -> None:
    async with client_of(answer) as (client, _):
        with pytest.raises(kind):
            await read(client)


async def test_opening_a_stream_has_a_deadline_although_reading_has_none() -> None:
    async with client_of(hangs, call_timeout=0.1) as (client, _):
        with pytest.raises(ClusterUnreachable, match="no answer in time"):
            await read(client, idle=60)


async def test_silence_ends_a_stream() -> None:
    async with client_of(streams(b"1\n", then="silence")) as (client, _):
        with pytest.raises(ClusterUnreachable, match="watch: no answer in time"):
            await read(client, idle=0.1)


async def test_a_lost_connection_ends_a_stream_with_an_error() -> None:
    async with client_of(streams(b"1\n", then="abort")) as (client, _):
        with pytest.raises(ClusterUnreachable, match="watch: "):
            await read(client)


async def test_a_stream_can_be_read_without_waiting_for_the_end_of_a_line() -> None:
    async with (
        client_of(streams(b"1\n2", then="silence")) as (client, _),
        client.stream("/api/v1/namespaces/a/pods/p/log", {}, idle=1) as stream,
    ):
        assert await stream.line() == b"1\n"
        assert await stream.piece() == b"2"
        with pytest.raises(ClusterUnreachable):
            await stream.piece()


async def test_streams_do_not_take_the_places_of_calls() -> None:
    answers = [streams(b"1\n", then="silence"), streams(b"1\n", then="silence"), FOUND]
    async with client_of(*answers, limit=1) as (client, _), AsyncExitStack() as open_streams:
        for _ in range(2):
            stream = await open_streams.enter_async_context(client.stream("/apis/batch/v1/jobs", {}, idle=5))
            await stream.line()
        with anyio.fail_after(2):
            assert (await client.get(JOBS, A)).key == A


async def test_a_watch_takes_the_connection_that_its_list_has_left() -> None:
    transports = set[object]()

    async def seen(request: web.BaseRequest) -> web.StreamResponse:
        transports.add(request.transport)
        return await (streams(b"1\n", then="silence") if "watch" in request.query else FOUND)(request)

    async with client_of(seen, limit=1) as (client, _):
        await client.get(JOBS, A)
        async with client.stream("/apis/batch/v1/jobs", {"watch": "1"}, idle=5) as stream:
            await stream.line()
            assert len(transports) == 1
            await client.get(JOBS, A)
            assert len(transports) == 2


async def test_a_watch_that_has_ended_leaves_its_connection_to_the_next() -> None:
    transports = list[object]()

    async def seen(request: web.BaseRequest) -> web.StreamResponse:
        transports.append(request.transport)
        return await streams(b"1\n")(request)

    async with client_of(seen) as (client, _):
        for _ in range(2):
            assert await read(client) == [b"1\n"]
    assert len(transports) == 2
    assert len(set(transports)) == 1
