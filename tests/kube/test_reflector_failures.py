"""Failures of connection and server: how long a reflector waits, and what it still believes."""

from __future__ import annotations

import sys
from datetime import timedelta

import anyio
import pytest

from tests.kube.following import LISTED, OPEN, running
from tests.kube.server import (
    aborts,
    bookmark,
    hangs,
    job,
    lists,
    refuses,
    says,
    streams,
)

pytestmark = pytest.mark.anyio


async def test_full_jitter_has_a_floor_and_a_ceiling() -> None:
    pauses = []
    for jitter in (0.0, 0.99):
        async with running(refuses(403), jitter=lambda jitter=jitter: jitter) as run:
            await run.paused(9)
        pauses.append([round(pause, 2) for pause in run.pauses[:9]])
    assert pauses[0] == [0.1] * 9
    assert pauses[1] == [0.99, 1.98, 3.96, 7.92, 15.84, 29.7, 29.7, 29.7, 29.7]


async def test_the_first_event_forgets_old_failures() -> None:
    no = refuses(403, "Forbidden")
    async with running(LISTED, no, no, no, streams(bookmark(11)), no, OPEN) as run:
        await run.until(lambda: len(run.asked) == 7)
        await run.until(lambda: run.states[-1][0])
    assert run.pauses == [0.5, 1.0, 2.0, 0.5]
    assert [ok for ok, _ in run.states] == [False, False, False, True, False, True]
    assert run.asked[-1] == "watch 11"


async def test_the_servers_wish_to_wait_is_honoured() -> None:
    async with running(LISTED, refuses(429, headers={"Retry-After": "7"}), OPEN) as run:
        await run.until(lambda: len(run.asked) == 3)
    assert run.pauses == [7.5]


async def test_the_servers_wish_has_a_limit() -> None:
    async with running(LISTED, refuses(503, headers={"Retry-After": "86400"}), OPEN) as run:
        await run.until(lambda: len(run.asked) == 3)
    assert run.pauses == [120.5]


async def test_a_dead_peer_is_noticed_by_its_silence_and_the_watch_goes_on_where_it_was() -> None:
    """It may have been restored from a backup meanwhile, so it is asked for its version first."""
    watches = [streams(bookmark(number), then="silence") for number in (11, 12)]
    async with running(LISTED, watches[0], LISTED, watches[1], idle=0.1) as run:
        await run.until(lambda: len(run.asked) >= 4)
    assert run.asked[:4] == ["list", "watch 10", "check 11", "watch 11"]
    assert run.states[:2] == [(True, ""), (False, "watch: no answer in time")]


async def test_a_watch_that_does_not_even_open_is_given_up() -> None:
    async with running(LISTED, hangs, OPEN, call_timeout=0.1, idle=60) as run:
        await run.until(lambda: len(run.asked) == 3)
    assert run.states[0] == (False, "watch jobs: no answer in time")


async def test_a_version_that_brings_nothing_is_doubted_in_the_end() -> None:
    # A server restored from a backup never reaches our version: it keeps silent, or hangs up.
    async with running(LISTED, streams(), streams(), streams(), lists(version="5"), OPEN) as run:
        await run.until(lambda: len(run.asked) == 6)
    assert run.asked == ["list", "watch 10", "watch 10", "watch 10", "list", "watch 5"]
    assert run.sink.versions == {}


async def test_a_connection_that_cannot_be_made_does_not_cost_the_version() -> None:
    async with running(LISTED, *[aborts] * 6, LISTED, OPEN) as run:
        await run.until(lambda: len(run.asked) == 9)
    assert run.asked == ["list", "watch 10", *["check 10"] * 6, "watch 10"]
    assert run.script.queries("limit")[2:8] == ["1"] * 6


async def test_a_server_that_comes_back_and_does_not_know_the_version_is_listed_again() -> None:
    # Restored from a backup: until it has come as far again, a watch from there would hear nothing of what changed.
    too_large = refuses(504, "Timeout", "Too large resource version: 10, current: 5")
    async with running(LISTED, aborts, *[too_large] * 3, lists(version="5"), OPEN) as run:
        await run.until(lambda: len(run.asked) == 7)
    assert run.asked == ["list", "watch 10", *["check 10"] * 3, "list", "watch 5"]
    assert run.sink.versions == {}


async def test_a_server_that_comes_back_and_forgot_an_answer_of_its_own_is_listed_again() -> None:
    # The answer to a write came, the watch broke before it told of it, and the backup is from before.
    too_large = refuses(504, "Timeout", "Too large resource version: 12, current: 10")
    async with running(LISTED, aborts, *[too_large] * 3, lists(job("a", version=9)), OPEN) as run:
        run.sink.highest = 12
        await run.until(lambda: len(run.asked) == 7)
    assert run.asked == ["list", "watch 10", *["check 12"] * 3, "list", "watch 10"]


async def test_a_silent_watch_is_doubted_when_it_had_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.kube.reflector._SETTLED_AFTER", timedelta(milliseconds=50))
    async with running(LISTED, OPEN, lists(version="5"), OPEN, idle=0.1) as run:
        await run.until(lambda: len(run.asked) >= 4)
    assert run.asked[:4] == ["list", "watch 10", "list", "watch 5"]


async def test_after_a_fruitless_watch_good_news_wait_until_the_next_has_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("multikueue.kube.reflector._SETTLED_AFTER", timedelta(milliseconds=50))
    async with running(LISTED, streams(), OPEN) as run:
        await run.until(lambda: len(run.asked) == 3)
        await run.until(lambda: run.states[-1] == (True, ""))
    assert run.states[-2] == (False, "the server closed the watch at once")


async def test_a_kind_the_server_does_not_have_is_looked_for_slowly() -> None:
    pauses = []
    absent = [refuses(404, "NotFound") for _ in range(6)]
    for jitter in (0.0, 0.99):
        async with running(*absent, LISTED, OPEN, jitter=lambda jitter=jitter: jitter) as run:
            await run.paused(6)
        pauses += [run.pauses[0], *run.pauses[4:6]]
        assert run.states[0] == (False, "the server has no kind Job (batch/v1)")
    assert pauses == [1.5, 22.5, 22.5, pytest.approx(2.49), pytest.approx(37.35), pytest.approx(37.35)]


async def test_a_refused_identity_is_a_failure_like_others() -> None:
    async with running(refuses(401), LISTED, OPEN) as run:
        await run.until(lambda: len(run.asked) == 3)
    assert run.states[0][0] is False
    assert "401 Unauthorized" in run.states[0][1]


async def test_a_list_that_is_none_is_a_failure() -> None:
    async with running(says({"hello": 1}), LISTED, OPEN) as run:
        await run.until(lambda: len(run.asked) == 3)
    assert "missing required field `metadata`" in run.states[0][1]


async def test_an_error_is_not_kept_during_the_pause_after_it() -> None:
    """Its traceback would keep a large answer in memory for so long."""
    kept: list[BaseException | None] = []

    async def sleep(_seconds: float) -> None:
        kept.append(sys.exception())
        await anyio.lowlevel.checkpoint()

    async with running(refuses(403, "Forbidden"), lists(), OPEN, sleep=sleep) as run:
        await run.until(lambda: kept != [])
    assert kept == [None]
