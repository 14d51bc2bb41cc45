"""A reflector keeps its sink equal to a collection: one file, as what goes wrong may do so at each step."""

from __future__ import annotations

import asyncio
import json
import traceback
import tracemalloc
from datetime import timedelta
from tracemalloc import Filter
from typing import Any

import anyio
import pytest
from aiohttp import web

from multikueue.api.jobs.job import Job
from multikueue.api.kinds import JOBS
from multikueue.kube.reflector import Reflector
from multikueue.kube.transport import session
from tests.kube.following import LISTED, OPEN, Seen, running
from tests.kube.server import (
    Answer,
    aborts,
    bookmark,
    client_of,
    event,
    expired_event,
    hangs,
    job,
    lists,
    refuses,
    says,
    streams,
)

pytestmark = pytest.mark.anyio


# The normal course.
async def test_a_collection_is_listed_and_then_followed() -> None:
    watch = streams(
        event("ADDED", job("b", version=11)),
        event("MODIFIED", job("a", version=12)),
        event("DELETED", job("b", version=13)),
        then="silence",
    )
    async with running(lists(job("a", version=1), version="10"), watch) as run:
        await run.until(lambda: len(run.sink.told) == 4)
    assert run.sink.told == ["replace 10", "upsert b", "upsert a", "remove b"]
    assert run.sink.versions == {"a": 12}
    assert run.asked == ["list", "watch 10"]
    assert (run.states, run.pauses) == ([(True, "")], [])


async def test_what_a_watch_asks_for() -> None:
    async with running(lists(), OPEN, label_selector="x=y", namespace="ns") as run:
        await run.until(lambda: run.states != [])
    listed, watched = run.script.requests
    assert listed.path == watched.path == "/apis/batch/v1/namespaces/ns/jobs"
    assert dict(listed.query) == {"labelSelector": "x=y", "limit": "500"}
    assert dict(watched.query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "10",
        "timeoutSeconds": "435",
        "labelSelector": "x=y",
    }


async def test_the_time_of_a_watch_stays_in_its_range() -> None:
    asked = []
    for jitter in (0.0, 0.999999):
        async with running(lists(), OPEN, jitter=lambda jitter=jitter: jitter) as run:
            await run.until(run.has_a_state)
        asked.append(run.script.queries("timeoutSeconds")[1])
    assert asked == ["290", "580"]


async def test_nothing_is_handed_over_before_the_last_page() -> None:
    pages = [lists(job("a"), cont="c"), refuses(403), lists(job("a"), cont="c"), lists(job("b"), version="11"), OPEN]
    async with running(*pages, page=1) as run:
        await run.until(lambda: (True, "") in run.states)
    assert run.sink.told == ["replace 11"]
    assert run.sink.expected == 2, "each time before it asked"
    assert run.sink.versions == {"a": 1, "b": 1}


async def test_readiness_is_told_once_the_sink_is_filled() -> None:
    async with client_of(refuses(500), LISTED, OPEN) as (client, _), anyio.create_task_group() as tasks:
        sink = Seen()
        reflector = Reflector(client, JOBS, sink, on_state=lambda _ok, _why: None)
        assert not reflector.synced.is_set()
        tasks.start_soon(reflector.run)
        await reflector.synced.wait()
        assert sink.versions == {"a": 1}
        tasks.cancel_scope.cancel()


async def test_the_end_of_a_watch_is_no_failure() -> None:
    watches = [
        streams(event("ADDED", job("b", version=11))),
        streams(bookmark(20)),
        streams(event("ADDED", job("c", version=21)), then="silence"),
    ]
    async with running(LISTED, *watches) as run:
        await run.until(lambda: "c" in run.sink.versions)
    assert run.asked == ["list", "watch 10", "watch 11", "watch 20"]
    assert (run.states, run.pauses) == ([(True, "")], [])


async def test_a_flood_does_not_hold_up_the_others() -> None:
    flood = streams(*(event("MODIFIED", job("a", version=n)) for n in range(11, 1011)), then="silence")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with running(LISTED, flood) as run, anyio.create_task_group() as tasks:
        before: list[int] = []
        upsert = run.sink.upsert

        def counting(item: Job, /) -> None:
            before.append(turns)
            upsert(item)

        run.sink.upsert = counting  # type: ignore[method-assign]
        tasks.start_soon(others)
        await run.until(lambda: len(before) == 1000)
        tasks.cancel_scope.cancel()
    longest = max(before.count(turn) for turn in set(before))
    assert longest <= 64


# What goes wrong.
@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(streams(expired_event(), then="silence"), id="as an event"),
        pytest.param(refuses(410, "Expired"), id="as an answer"),
    ],
)
async def test_a_forgotten_version_means_listing_again_with_what_was_deleted_meanwhile(gone: Answer) -> None:
    first = lists(job("a"), job("b"), version="10")
    second = lists(job("b", version=15), version="20")
    async with running(first, streams(bookmark(12)), gone, second, OPEN) as run:
        await run.until(lambda: len(run.asked) == 5)
    assert run.asked == ["list", "watch 10", "watch 12", "list", "watch 20"]
    assert run.sink.versions == {"b": 15}
    assert run.states == [(True, "")]


async def test_a_server_that_goes_back_is_listed_again() -> None:
    """It was restored from a backup while its connection was open, or broken for a moment: watches go on as if nothing were."""
    restored = lists(job("a", version=3), version="5")
    watch = streams(event("MODIFIED", job("a", version=12)), bookmark(5), then="silence")
    async with running(LISTED, watch, restored, OPEN) as run:
        await run.until(lambda: len(run.asked) == 4)
    assert run.asked == ["list", "watch 10", "list", "watch 5"]
    assert run.sink.versions == {"a": 3}
    assert [why for _, why in run.states if why] == ["the server went back from version 12 to 5"]


async def test_a_server_that_forgets_what_it_listed_just_now_is_not_hammered() -> None:
    async with running(*[LISTED, streams(expired_event(), late=0.01)] * 9, LISTED, OPEN) as run:
        await run.until(lambda: len(run.pauses) == 9)
    assert run.pauses == sorted(run.pauses)
    assert (run.pauses[0], run.pauses[-1]) == (0.5, 15.0)
    assert sum(ok for ok, _ in run.states) <= 1


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        pytest.param(
            says(b"<html>Bad", status=502, kind="text/html"),
            "watch /apis/batch/v1/jobs: 502 ServerError: text/html instead of a Status: '<html>Bad'",
            id="HTML of a proxy",
        ),
        pytest.param(says(b"", status=429), "watch /apis/batch/v1/jobs: 429 Throttled: empty body", id="an empty 429"),
        pytest.param(streams(), "the server closed the watch at once", id="closing at once"),
        pytest.param(aborts, "watch jobs: Server disconnected", id="a lost connection"),
        pytest.param(
            streams(event("ERROR", {"kind": "Status", "code": 500, "message": "etcd"}), then="silence"),
            "watch jobs: 500 ServerError: etcd",
            id="an error as an event",
        ),
        pytest.param(
            streams(cut=b'{"type":"ADDED","obj'), "the stream was cut off in the middle of a line", id="half a line"
        ),
        pytest.param(streams(b"what?\n"), "a line of the watch is no event: b'what?\\n'", id="no event"),
    ],
)
async def test_a_failing_watch_is_tried_again_ever_more_slowly(bad: Answer, why: str) -> None:
    def answer_lists(request: web.BaseRequest) -> Answer:
        return bad if request.query.get("watch") else LISTED

    async def server(request: web.BaseRequest) -> web.StreamResponse:
        return await answer_lists(request)(request)

    async with running(server) as run:
        await run.until(lambda: len(run.pauses) >= 10)
    told = [state for state in run.states if not state[0]]
    assert told[0] == (False, why)
    assert len(told) >= 10
    assert run.pauses[9] == 15.0
    assert all(pause >= 0.5 for pause in run.pauses)
    # Good news at most once in the beginning, not once per attempt.
    assert sum(ok for ok, _ in run.states) <= 1


async def test_an_event_of_an_unknown_type_is_passed_over() -> None:
    watch = streams(event("PONDERED", job("b", version=11)), event("ADDED", job("c", version=12)), then="silence")
    async with running(lists(), watch) as run:
        await run.until(lambda: "c" in run.sink.versions)
    assert run.sink.versions == {"c": 12}


async def test_what_the_sink_does_not_want_comes_neither_by_list_nor_by_watch() -> None:
    watch = streams(event("ADDED", job("no", version=11)), event("ADDED", job("c", version=12)), then="silence")
    async with running(
        lists(job("a", version=1), job("not", version=2)), watch, wanted=lambda name: not name.startswith("no")
    ) as run:
        await run.until(lambda: "c" in run.sink.versions)
    assert run.sink.versions == {"a": 1, "c": 12}


@pytest.mark.parametrize(
    ("listed", "asked"),
    [
        pytest.param(lists(job("a"), job("no")), ["list", "watch 10", "list", "watch 10"], id="something was left out"),
        pytest.param(lists(job("a")), ["list", "watch 10"], id="nothing was left out"),
    ],
)
async def test_who_wants_more_has_it_listed_again_in_the_middle_of_a_watch(
    listed: Answer, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multikueue.kube.reflector._PAUSE_BETWEEN_LISTS", timedelta())
    async with running(listed, OPEN, listed, OPEN, wanted=lambda name: name != "no") as run:
        await run.until(lambda: len(run.asked) == 2)
        run.sink.wanted = lambda _name: True
        run.reflector.list_anew()
        await run.until(lambda: len(run.asked) == len(asked))
        await anyio.sleep(0.05)
    assert run.asked == asked
    assert ("no" in run.sink.versions) is (len(asked) == 4)
    assert not [why for ok, why in run.states if not ok]


async def test_lists_that_are_asked_for_have_a_while_between_them() -> None:
    listed = lists(job("a"), job("no"))
    async with running(listed, OPEN, wanted=lambda name: name != "no") as run:
        await run.until(lambda: len(run.asked) == 2)
        run.reflector.list_anew()
        await anyio.sleep(0.05)
    assert len(run.asked) == 2


async def test_a_list_that_was_asked_for_and_fails_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.kube.reflector._PAUSE_BETWEEN_LISTS", timedelta())
    listed = lists(job("a"), job("no"))
    async with running(listed, OPEN, refuses(403, "Forbidden"), listed, OPEN, wanted=lambda n: n != "no") as run:
        await run.until(lambda: len(run.asked) == 2)
        run.reflector.list_anew()
        await run.until(lambda: len(run.asked) >= 5)
    assert run.asked[2:5] == ["list", "list", "watch 10"]


async def test_an_error_of_the_sink_is_not_swallowed() -> None:
    class Bad(Seen):
        def upsert(self, item: Job, /) -> None:
            raise LookupError(item.key.name)

    async with client_of(lists(), streams(event("ADDED", job("b")))) as (client, _):
        with pytest.raises(LookupError):
            await Reflector(client, JOBS, Bad(), on_state=lambda _ok, _why: None).run()


async def test_random_changes_through_random_faults_end_in_the_same_place() -> None:
    """A server with a real history, whose watches break in every way at any moment."""
    history: list[tuple[int, str, dict[str, Any]]] = []
    state: dict[str, dict[str, Any]] = {}
    faults = ["end", "abort", "cut", "expired", "end"]
    version = 10

    def change(step: int) -> None:
        nonlocal version
        version += 1
        name = f"j{step * 7 % 11}"
        if name in state and step % 3 == 0:
            history.append((version, "DELETED", state.pop(name) | {"metadata": job(name, version=version)["metadata"]}))
            return
        type_ = "MODIFIED" if name in state else "ADDED"
        state[name] = job(name, version=version)
        history.append((version, type_, state[name]))

    async def server(request: web.BaseRequest) -> web.StreamResponse:
        if not request.query.get("watch"):
            return await lists(*state.values(), version=str(version))(request)
        start = int(request.query["resourceVersion"])
        count = len(run.script.requests)
        fault = faults[count % len(faults)] if count < 60 else "silence"
        for step in range(count, count + 3):
            change(step)
        if fault == "expired" and count % 2:
            return await streams(expired_event())(request)
        events = [event(type_, item) for at, type_, item in history if at > start]
        cut = json.dumps(events[-1]).encode()[:40] if fault == "cut" else b""
        kept = events[:-1] if fault == "cut" else events
        return await streams(*kept, cut=cut, then="abort" if fault == "cut" else fault)(request)

    async with running(server) as run:
        await run.until(lambda: len(run.script.requests) >= 60 and run.sink.versions.get("end") is None)
        expected = {name: int(item["metadata"]["resourceVersion"]) for name, item in state.items()}
        await run.until(lambda: run.sink.versions == expected)
    assert len(run.script.requests) >= 60


# Another server.
async def test_after_a_change_of_the_server_everything_is_listed_there_and_nothing_is_called_trouble() -> None:
    there = (lists(job("a", version=3), job("b", version=2), version="5"), OPEN)
    async with running(LISTED, OPEN) as run, client_of(*there) as (other, new):
        await run.until(run.has_a_state)
        run.client.take_over(other)
        await run.until(lambda: len(new.requests) == 2)
        await run.until(lambda: "b" in run.sink.versions)
        assert run.asked == ["list", "watch 10"]
        assert new.queries("resourceVersion") == [None, "5"]
        assert run.states == [(True, "")]
        assert run.pauses == []


async def test_a_list_of_the_server_before_is_not_watched_from_at_the_new_one() -> None:
    go, asked = anyio.Event(), anyio.Event()

    async def late(request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        await go.wait()
        return await LISTED(request)

    async with running(late) as run, client_of(lists(version="5"), OPEN) as (other, new):
        await asked.wait()
        run.client.take_over(other)
        go.set()
        await run.until(lambda: len(new.requests) == 2)
        assert new.queries("resourceVersion") == [None, "5"]
        assert run.sink.versions == {}


async def test_hurry_makes_the_next_failure_the_first_again() -> None:
    longest = []

    async def pause(seconds: float) -> None:
        longest.append(seconds)
        if len(longest) == 4:
            await anyio.sleep_forever()

    async with running(aborts, sleep=pause, jitter=lambda: 0.99) as run:
        await run.until(lambda: len(longest) == 4)
        run.reflector.hurry()
        await run.until(lambda: len(longest) == 5)
    assert longest[4] == pytest.approx(longest[0])
    assert longest[3] > 4 * longest[0]


async def test_who_is_hurried_while_it_asks_for_its_version_lists_again() -> None:
    """A watch from no version tells what there is, and never what is gone."""
    go, asked = anyio.Event(), anyio.Event()

    async def late(request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        await go.wait()
        return await LISTED(request)

    async with running(LISTED, streams(), aborts, late, lists(version="20"), OPEN) as run:
        await asked.wait()
        run.reflector.hurry()
        go.set()
        await run.until(lambda: len(run.script.requests) == 6)
        assert run.asked == ["list", "watch 10", "watch 10", "check 10", "list", "watch 20"]
        assert run.sink.versions == {}


async def test_the_error_of_a_cancelled_reflector_keeps_nothing_of_what_it_read() -> None:
    async with running(hangs) as run:
        await run.until(lambda: bool(run.asked))
        task = asyncio.create_task(run.reflector.run())
        await run.until(lambda: len(run.asked) > 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][1:] == ["run"]


async def test_a_line_is_kept_no_longer_than_it_is_looked_at() -> None:
    large = event("DELETED", job("a", version=12, metadata={"annotations": {"a": "a" * 300_000}}))
    tracemalloc.start()
    try:
        async with running(LISTED, streams(large, then="silence")) as run:
            await run.until(lambda: run.sink.told[-1:] == ["remove a"])
            taken = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    assert max(trace.size for trace in taken.filter_traces([Filter(True, session.__file__)]).traces) < 100_000
