"""Bodies that come in beside others that do not."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from multikueue.web.server import LARGEST_REVIEW
from tests.web.builders import review_of
from tests.web.test_door import HOST, SERVED, answer, called, post, server, trusting

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("padding", [0, 2**20], ids=["small ones", "large ones"])
async def test_large_bodies_that_never_come_take_no_turn_from_others(padding: int) -> None:
    body = review_of() + b" " * padding
    async with server() as listening:
        port = await listening.serve_webhook(HOST, 0, SERVED)
        async with anyio.create_task_group() as tasks:

            async def promise() -> None:
                async with called(port, trusting()) as wire:
                    await answer(wire, post(LARGEST_REVIEW, b"half"))

            for _ in range(12):
                tasks.start_soon(promise)
            await anyio.wait_all_tasks_blocked()
            async with called(port, trusting()) as wire:
                assert b"200 OK" in await answer(wire, post(len(body), body))
            tasks.cancel_scope.cancel()


async def test_where_bodies_take_too_much_the_one_that_began_first_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.web.bodies.MOST_HELD", 3000)
    async with server() as listening:
        port = await listening.serve_webhook(HOST, 0, SERVED)
        async with called(port, trusting()) as first, called(port, trusting()) as second:
            for wire in (first, second):
                wire[1].write(post(2500, b" " * 1000))
                await anyio.sleep(0.05)
            async with called(port, trusting()) as third:
                body = review_of() + b" " * (2000 - len(review_of()))
                assert b"200 OK" in await answer(third, post(2000, body))
            assert (await answer(first, b"")).startswith(b"HTTP/1.1 408")
            assert (await answer(second, b" " * 1500)).startswith(b"HTTP/1.1 400")


async def test_a_body_that_grows_beyond_what_it_may_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.web.server.LARGEST_REVIEW", 1000)
    head = post(0, b"", headers=b"Transfer-Encoding: chunked\r\n").replace(b"Content-Length: 0\r\n", b"")
    async with server() as listening, called(await listening.serve_webhook(HOST, 0, SERVED), trusting()) as wire:
        assert (await answer(wire, head + b"7d0\r\n" + b" " * 2000)).startswith(b"HTTP/1.1 413")
