"""Bodies that come in beside others that do not."""

from __future__ import annotations

from datetime import timedelta

import anyio
import anyio.lowlevel
import pytest

from multikueue.web.door import SLOW_BODY_AFTER, Bodies
from multikueue.web.server import LARGEST_REVIEW
from tests.web.builders import review_of
from tests.web.test_door import HOST, SERVED, answer, called, post, server, trusting

pytestmark = pytest.mark.anyio

MIB = 2**20


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


@pytest.fixture(name="held")
def _held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes were held at each look, with bounds that a test fills."""
    found: list[int] = []
    held = Bodies._held

    def noting(bodies: Bodies) -> int:
        found.append(held(bodies))
        return found[-1]

    monkeypatch.setattr(Bodies, "_held", noting)
    monkeypatch.setattr("multikueue.web.door.ENOUGH", 2 * MIB)
    monkeypatch.setattr("multikueue.web.door.MOST_HELD", 6 * MIB)
    return found


async def test_large_bodies_that_come_at_once_are_all_answered_and_never_held_at_once(held: list[int]) -> None:
    body = review_of() + b" " * (2 * MIB)
    answers = []
    async with server() as listening:
        port = await listening.serve_webhook(HOST, 0, SERVED)

        async def ask() -> None:
            async with called(port, trusting()) as wire:
                answers.append(await answer(wire, post(len(body), body)))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask)
    assert [b"200 OK" in each for each in answers] == [True] * 10
    assert 2 * MIB <= max(held) <= 6 * MIB


@pytest.mark.usefixtures("held")
async def test_a_small_body_waits_for_no_large_one() -> None:
    async with server() as listening:
        port = await listening.serve_webhook(HOST, 0, SERVED)
        async with called(port, trusting()) as large, called(port, trusting()) as small:
            large[1].write(post(3 * MIB, b" " * (2 * MIB + 1000)))
            await anyio.sleep(0.2)
            with anyio.fail_after(SLOW_BODY_AFTER.total_seconds() / 2):
                assert b"200 OK" in await answer(small, post(len(review_of()), review_of()))


@pytest.mark.usefixtures("held")
async def test_who_keeps_us_waiting_gives_way_to_who_waits_for_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.web.door.SLOW_BODY_AFTER", timedelta(milliseconds=300))
    body = review_of() + b" " * MIB
    async with server() as listening:
        port = await listening.serve_webhook(HOST, 0, SERVED)
        async with called(port, trusting()) as first, called(port, trusting()) as second:
            for wire in (first, second):
                wire[1].write(post(2 * MIB, b" " * (MIB + 1000)))
                await anyio.sleep(0.1)
            async with called(port, trusting()) as third:
                assert b"200 OK" in await answer(third, post(len(body), body))
            assert (await answer(first, b"")).startswith(b"HTTP/1.1 408")
            assert (await answer(second, b" " * (MIB - 1000))).startswith(b"HTTP/1.1 400")


@pytest.mark.usefixtures("held")
async def test_where_bodies_take_too_much_the_one_that_was_awaited_longest_gives_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("multikueue.web.door.SMALL", 4 * MIB)
    monkeypatch.setattr("multikueue.web.door.SLOW_BODY_AFTER", timedelta(minutes=1))
    async with server() as listening:
        port = await listening.serve_webhook(HOST, 0, SERVED)
        async with called(port, trusting()) as first, called(port, trusting()) as second:
            for wire in (first, second):
                wire[1].write(post(3 * MIB, b" " * (5 * MIB // 2)))
                await anyio.sleep(0.2)
            async with called(port, trusting()) as third:
                body = review_of() + b" " * (2 * MIB)
                assert b"200 OK" in await answer(third, post(len(body), body))
            assert (await answer(first, b"")).startswith(b"HTTP/1.1 408")
            assert (await answer(second, b" " * (MIB // 2))).startswith(b"HTTP/1.1 400")


async def test_a_body_that_grows_beyond_what_it_may_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.web.server.LARGEST_REVIEW", 1000)
    head = post(0, b"", headers=b"Transfer-Encoding: chunked\r\n").replace(b"Content-Length: 0\r\n", b"")
    async with server() as listening, called(await listening.serve_webhook(HOST, 0, SERVED), trusting()) as wire:
        assert (await answer(wire, head + b"7d0\r\n" + b" " * 2000)).startswith(b"HTTP/1.1 413")
