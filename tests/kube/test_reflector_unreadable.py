"""Objects that cannot be decoded: told once, kept out, and the others go on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest

from multikueue.api.jobs.job import Job
from multikueue.api.meta import ObjectKey, decoder, encode
from tests.kube.following import LISTED, OPEN, Seen, running
from tests.kube.server import (
    bookmark,
    deep_job,
    event,
    job,
    line_of,
    list_of_jobs,
    lists,
    refuses,
    says,
    streams,
)

pytestmark = pytest.mark.anyio


# Objects that cannot be read.
BAD_C = job("c", version=14, metadata={"labels": 5, "resourceVersion": "14"})
BAD_B = job("b", version=12, metadata={"labels": 5, "resourceVersion": "12"})


async def test_one_unreadable_object_does_not_stop_a_watch() -> None:
    watch = streams(event("MODIFIED", BAD_B), event("ADDED", job("c", version=13)), then="silence")
    async with running(lists(job("b", version=2)), watch) as run:
        await run.until(lambda: "c" in run.sink.versions)
    assert run.sink.versions == {"b": 2, "c": 13}
    assert run.garbage == [ObjectKey("ns", "b")]
    assert run.sink.unreadable.keys() == {ObjectKey("ns", "b")}


async def test_what_is_odd_in_one_way_is_told_once() -> None:
    other = job("b", version=14, metadata={"annotations": 5})
    lines = (event("MODIFIED", BAD_B), event("MODIFIED", BAD_B), event("MODIFIED", other), event("ADDED", job("c")))
    async with running(lists(job("b", version=2)), streams(*lines, then="silence")) as run:
        await run.until(lambda: "c" in run.sink.versions)
    assert run.garbage == [ObjectKey("ns", "b")] * 2


async def test_a_list_of_one_namespace_says_nothing_of_what_cannot_be_read_in_another() -> None:
    async with running(lists(BAD_B), OPEN, namespace="ns") as run:
        elsewhere = ObjectKey("other", "x")
        run.sink.unreadable |= {elsewhere: "refused", ObjectKey("ns", "gone"): "refused"}
        await run.until(run.has_a_state)
        assert run.sink.unreadable.keys() == {elsewhere, ObjectKey("ns", "b")}
    assert run.garbage == [ObjectKey("ns", "b")]


async def test_what_the_sink_cannot_take_in_is_told_once() -> None:
    lines = (event("MODIFIED", job("b", version=11)), event("MODIFIED", job("b", version=12)), event("ADDED", job("c")))
    async with running(lists(job("a"), job("b")), streams(*lines, then="silence"), refusing="b") as run:
        await run.until(lambda: "c" in run.sink.versions)
    assert run.garbage == [ObjectKey("ns", "b")]
    assert run.sink.unreadable == {ObjectKey("ns", "b"): "refused"}


async def test_an_object_nested_too_deeply_is_one_that_cannot_be_read() -> None:
    listed = says(list_of_jobs(json.dumps(job("a")).encode(), deep_job("b")))
    watch = streams(
        line_of("ADDED", deep_job("c", version=11)),
        line_of("ADDED", deep_job("d", version=12)),
        line_of("DELETED", deep_job("c", version=13)),
        event("MODIFIED", job("a", version=14)),
        then="silence",
    )
    async with running(listed, watch) as run:
        await run.until(lambda: run.sink.versions == {"a": 14})
    assert {key.name for key in run.sink.unreadable} == {"b", "d"}
    assert (run.asked, run.pauses) == (["list", "watch 9"], [])


async def test_what_can_be_read_again_or_is_gone_is_not_unreadable() -> None:
    watch = streams(event("ADDED", job("b", version=13)), event("DELETED", BAD_C), bookmark(15), then="silence")
    async with running(lists(BAD_B, BAD_C), watch) as run:
        await run.until(lambda: "b" in run.sink.versions and not run.sink.unreadable)
    assert run.garbage == [ObjectKey("ns", "b"), ObjectKey("ns", "c")]


async def test_the_version_of_an_unreadable_object_counts() -> None:
    async with running(LISTED, streams(event("MODIFIED", BAD_B)), OPEN) as run:
        await run.until(lambda: len(run.asked) == 3)
    assert run.asked[-1] == "watch 12"


async def test_an_unreadable_object_that_is_gone_is_gone() -> None:
    watch = streams(event("DELETED", BAD_B), event("DELETED", BAD_B), bookmark(14), then="silence")
    async with running(lists(job("b", version=2), job("a")), watch) as run:
        await run.until(lambda: len(run.garbage) == 2)
    assert run.sink.told == ["replace 10", "remove b"]


async def test_a_relist_keeps_what_exists_but_cannot_be_read() -> None:
    again = lists(BAD_B, version="20")
    async with running(lists(job("a"), job("b", version=2)), refuses(410), again, OPEN) as run:
        await run.until(lambda: len(run.asked) == 4)
    assert run.sink.versions == {"b": 2}
    assert run.garbage == [ObjectKey("ns", "b")]


async def test_a_list_forgets_of_the_unreadable_only_what_it_does_not_have_or_can_read() -> None:
    """Meanwhile they stay so: to take the object for gone would start its job a second time."""
    during: list[set[str]] = []

    class Watched(Seen):
        def replacing(self, items: Mapping[ObjectKey, Job], version: int, namespace: str, /) -> Iterator[None]:
            during.append({key.name for key in self.unreadable})
            yield from super().replacing(items, version, namespace)

    again = lists(BAD_B, job("a", version=15), version="20")
    first = lists(job("a", version=11, metadata={"labels": 5, "resourceVersion": "11"}), BAD_B, BAD_C)
    async with running(first, refuses(410), again, OPEN, sink=Watched()) as run:
        await run.until(lambda: len(run.asked) == 4)
    assert during == [{"a", "b", "c"}, {"a", "b", "c"}]
    assert {key.name for key in run.sink.unreadable} == {"b"}


async def test_what_the_sink_has_from_elsewhere_is_not_gone_because_it_cannot_be_read() -> None:
    """From the connection before, say: to take the copy of a running job for gone would start it a second time."""
    gone = streams(event("DELETED", BAD_B), bookmark(14), then="silence")
    async with running(lists(BAD_B), gone) as run:
        run.sink.kept[ObjectKey("ns", "b")] = decoder(Job)(encode(job("b", version=11)))
        await run.until(lambda: len(run.sink.told) == 2)
    assert run.sink.told == ["replace 10", "remove b"]


async def test_an_object_that_nobody_can_name_is_passed_over() -> None:
    watch = streams(event("ADDED", {"metadata": 5}), event("ADDED", job("c", version=13)), then="silence")
    async with running(lists(), watch) as run:
        await run.until(lambda: "c" in run.sink.versions)
    assert run.garbage == [None]
