"""No write leaves without leave, and one that was given up never arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from multikueue.api.kinds import JOBS
from multikueue.api.meta import ObjectKey
from multikueue.errors import ClusterUnreachable, NotLeading
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.client import Call, Client
from tests.kube.server import client_of, job, lists, says

pytestmark = pytest.mark.anyio

KEY = ObjectKey("ns", "a")
Write = Callable[[Client], Awaitable[Any]]

WRITES: list[Any] = [
    pytest.param(lambda c: c.create(JOBS, "ns", job("a")), id="create"),
    pytest.param(lambda c: c.merge_patch(JOBS, KEY, {"metadata": {"resourceVersion": "1"}}), id="merge patch"),
    pytest.param(lambda c: c.apply(JOBS, KEY, {}, manager="m", force=True), id="apply"),
    pytest.param(lambda c: c.delete(JOBS, KEY), id="delete"),
    pytest.param(lambda c: c.request("POST", "/api/v1/namespaces", body=b"x" * 2**21), id="a large body"),
]
BODYLESS = pytest.param(lambda c: c.request("DELETE", "/api/v1/namespaces/ns/pods/a"), id="a request without a body")


class Leave:
    """Says yes as often as told, then no."""

    def __init__(self, times: float = 0) -> None:
        self.left = times

    def __call__(self) -> bool:
        self.left -= 1
        return self.left >= 0


@pytest.mark.parametrize("write", [*WRITES, BODYLESS])
async def test_a_write_without_leave_is_not_sent(write: Write) -> None:
    async with client_of(says(job("a")), may_write=Leave()) as (client, script):
        with pytest.raises(NotLeading, match="not sent"):
            await write(client)
        assert script.asked == []


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_whose_leave_ends_while_it_is_prepared_is_not_sent(write: Write) -> None:
    """On its connection already, before the first byte: what a process that was frozen right then finds."""
    async with client_of(says(job("a")), may_write=Leave(1)) as (client, script):
        with pytest.raises(NotLeading, match="not sent"):
            await write(client)
        assert script.asked == []


@pytest.mark.parametrize("write", [*WRITES, BODYLESS])
async def test_a_write_with_leave_is_sent_once(write: Write) -> None:
    async with client_of(says(job("a")), may_write=Leave(100)) as (client, script):
        await write(client)
        assert len(script.asked) == 1


async def test_reading_needs_no_leave() -> None:
    async with client_of(says(job("a")), lists(), may_write=Leave()) as (client, script):
        await client.get(JOBS, KEY)
        await client.list(JOBS)
        await client.probe(5)
        assert len(script.asked) == 3


async def test_a_question_in_the_form_of_a_write_needs_no_leave() -> None:
    async with client_of(says({}), may_write=Leave()) as (client, script):
        await client.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=b"{}")
        assert len(script.asked) == 1


async def test_a_repetition_asks_again() -> None:
    """The first try fails for good reason, the leave ends during the wait: there is no second try."""
    leave = Leave(2)
    unavailable = says({"kind": "Status", "message": "no"}, status=503, headers={"Retry-After": "0"})
    async with client_of(unavailable, says(job("a")), may_write=leave) as (client, script):
        with pytest.raises(NotLeading):
            await client.merge_patch(JOBS, KEY, {"metadata": {"resourceVersion": "1"}})
        assert len(script.asked) == 1


async def test_the_connection_of_a_refused_write_does_no_harm_to_the_next() -> None:
    async with client_of(says(job("a")), limit=1, may_write=(leave := Leave())) as (client, script):
        for _ in range(3):
            with pytest.raises(NotLeading):
                await client.merge_patch(JOBS, KEY, {})
        leave.left = 10
        assert (await client.merge_patch(JOBS, KEY, {})).metadata.name == "a"
        assert len(script.asked) == 1


async def test_a_refused_write_is_told_with_its_error() -> None:
    calls: list[Call] = []
    async with client_of(says({}), may_write=Leave(), on_call=calls.append) as (client, _):
        with pytest.raises(NotLeading):
            await client.delete(JOBS, KEY)
    assert [(call.verb, call.status) for call in calls] == [("delete", "NotLeading")]


async def test_what_a_call_that_was_given_up_could_not_deliver_is_never_delivered() -> None:
    """The peer reads again after the call has ended: what our side still held is gone, and the end is a reset."""
    heard, ends = 0, []
    done, given_up = anyio.Event(), anyio.Event()

    async def deaf_for_a_while(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        await given_up.wait()
        try:
            while data := await reader.read(2**16):
                heard += len(data)
            ends.append("end")
        except ConnectionResetError:
            ends.append("reset")
        finally:
            writer.close()
            done.set()

    server = await asyncio.start_server(deaf_for_a_while, "127.0.0.1", 0, limit=1)
    host, port = server.sockets[0].getsockname()[:2]
    body = b"x" * 2**25
    async with Client.connect(Credentials(server=f"http://{host}:{port}"), call_timeout=0.3) as client:
        with pytest.raises(ClusterUnreachable):
            await client.request("POST", "/api/v1/namespaces", body=body)
    given_up.set()
    with anyio.fail_after(10):
        await done.wait()
    server.close()
    await server.wait_closed()

    assert ends == ["reset"]
    assert heard < len(body)
