"""A client takes over the route of another: what is under way ends well, what comes goes to the new server."""

from __future__ import annotations

import anyio
import pytest
from aiohttp import web

from multikueue.api.kinds import JOBS
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.tokens import FixedToken
from multikueue.kube.client import Client
from tests.kube.calling import FOUND, A, held, tokens
from tests.kube.server import (
    Script,
    client_of,
    hangs,
    job,
    names,
    refuses,
    serving,
    streams,
)

pytestmark = pytest.mark.anyio


async def test_what_is_asked_after_a_change_goes_to_the_new_server_with_the_new_token() -> None:
    async with client_of(FOUND) as (client, old), client_of(FOUND) as (other, new):
        before = client.route
        await client.get(JOBS, A)
        client.take_over(other)
        await client.get(JOBS, A)
        assert (len(old.requests), len(new.requests)) == (1, 1)
        assert client.route is not before


async def test_the_client_taken_over_may_be_closed() -> None:
    script = Script(FOUND)
    async with client_of(hangs) as (client, _), serving(script) as url:
        async with Client.connect(Credentials(server=url, token=FixedToken("Bearer new"))) as other:
            client.take_over(other)
        await client.get(JOBS, A)
        assert tokens(script) == ["Bearer new"]


async def test_a_write_under_way_is_let_finish() -> None:
    go, asked, answers = anyio.Event(), anyio.Event(), []
    async with client_of(held(FOUND, go, asked)) as (client, old), client_of(FOUND) as (other, new):

        async def create() -> None:
            answers.append(await client.create(JOBS, "ns", job("a")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(create)
            await asked.wait()
            client.take_over(other)
            go.set()
        assert names(answers) == ["a"]
        assert (len(old.requests), len(new.requests)) == (1, 0)


async def test_a_write_refused_for_its_token_meanwhile_is_sent_with_the_new_one() -> None:
    go, asked = anyio.Event(), anyio.Event()
    refusing = held(refuses(401, "Unauthorized"), go, asked)
    async with client_of(refusing) as (client, old), client_of(FOUND) as (other, new):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.create, JOBS, "ns", job("a"))
            await asked.wait()
            client.take_over(other)
            go.set()
        assert (old.asked, new.asked) == (["POST /apis/batch/v1/namespaces/ns/jobs"],) * 2


async def test_a_stream_ends_for_its_reader_as_if_by_itself() -> None:
    async with (
        client_of(streams(b"one\n", then="silence")) as (client, _),
        client_of(FOUND) as (other, _),
        client.stream("/apis/batch/v1/jobs", {"watch": "true"}, idle=60) as stream,
    ):
        assert await stream.line() == b"one\n"
        async with anyio.create_task_group() as tasks:
            lines = []

            async def read() -> None:
                lines.append(await stream.line())

            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            client.take_over(other)
        assert lines == [b""]
        assert await stream.line() == b""


async def test_a_stream_that_is_being_opened_ends_too() -> None:
    go, asked = anyio.Event(), anyio.Event()
    async with client_of(held(hangs, go, asked)) as (client, _), client_of(FOUND) as (other, _):
        lines = []

        async def read() -> None:
            async with client.stream("/apis/batch/v1/jobs", {"watch": "true"}, idle=60) as stream:
                lines.append(await stream.line())

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read)
                await asked.wait()
                client.take_over(other)
        assert lines == [b""]
        go.set()


async def test_no_call_fails_when_the_old_token_is_revoked_at_the_very_moment_of_the_change() -> None:
    good, made, enough = {"Bearer one"}, 0, 60

    async def server(request: web.BaseRequest) -> web.StreamResponse:
        await anyio.sleep(0.001)
        return await (FOUND if request.headers["Authorization"] in good else refuses(401, "Unauthorized"))(request)

    def credentials(token: str) -> Credentials:
        return Credentials(server=url, token=FixedToken(f"Bearer {token}"))

    async with (
        serving(server) as url,
        Client.connect(credentials("one")) as client,
        Client.connect(credentials("two")) as other,
    ):

        async def work() -> None:
            nonlocal made, good
            while made < enough:
                await client.create(JOBS, "ns", job("a"))
                made += 1
                if made == enough // 2:
                    good = {"Bearer two"}
                    client.take_over(other)

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(work)
    assert made >= enough
