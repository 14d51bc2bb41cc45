"""What is told to whom, in which order, and when it ends."""

from __future__ import annotations

import json

import pytest

from fakekube.model.wire import Watch
from tests.fakekube.builders import MAPS, TOYS, Bench, config_map, events, told, toy


def test_without_a_version_the_state_comes_first(bench: Bench) -> None:
    bench.make(MAPS, config_map("b"))
    bench.make(MAPS, config_map("a"))
    for version in ({}, {"resourceVersion": "0"}, {"resourceVersion": ""}):
        watch = bench.watch(MAPS, **version)
        assert told(watch) == [("ADDED", "a"), ("ADDED", "b")]
        watch.close()


def test_from_a_version_on_everything_comes_once_and_in_order(bench: Bench) -> None:
    start = bench.make(MAPS, config_map("a"))["metadata"]["resourceVersion"]
    bench.patch(f"{MAPS}/a", {"data": {"key": "2"}})
    watch = bench.watch(MAPS, resourceVersion=start)
    bench.make(MAPS, config_map("b"))
    bench.done("DELETE", f"{MAPS}/a")
    assert told(watch) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_a_line_is_the_object_as_it_is_got(bench: Bench) -> None:
    watch = bench.watch(MAPS)
    made = bench.make(MAPS, config_map("a"))
    assert list(events(watch)) == [("ADDED", made)]


def test_a_deletion_tells_the_last_state_under_a_new_version(bench: Bench) -> None:
    made = bench.make(MAPS, config_map("a"))
    watch = bench.watch(MAPS, resourceVersion=made["metadata"]["resourceVersion"])
    bench.done("DELETE", f"{MAPS}/a")
    [(kind, last)] = events(watch)
    assert (kind, last["data"]) == ("DELETED", made["data"])
    assert int(last["metadata"]["resourceVersion"]) == bench.storage.rv > int(made["metadata"]["resourceVersion"])


def test_a_write_that_changes_nothing_tells_nothing(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    watch = bench.watch(MAPS, resourceVersion=str(bench.storage.rv))
    bench.patch(f"{MAPS}/a", {"data": {"key": "value"}})
    assert not watch.lines


def test_other_namespaces_are_not_told(bench: Bench) -> None:
    bench.namespace("tt")
    watch, everywhere = bench.watch(MAPS), bench.watch("/api/v1/configmaps")
    bench.make("/api/v1/namespaces/tt/configmaps", config_map("x"))
    assert (told(watch), told(everywhere)) == ([], [("ADDED", "x")])


def test_who_enters_a_selection_is_added_and_who_leaves_it_deleted(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    watch = bench.watch(MAPS, labelSelector="color=red")

    def paint(color: str | None, **data: str) -> None:
        bench.patch(f"{MAPS}/a", {"metadata": {"labels": {"color": color}}, "data": data})

    paint("red")
    paint("red", key="2")
    paint("blue", key="3")
    paint("green")
    seen = list(events(watch))
    assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "DELETED"]
    # It is told as its reader knows it, under the version that took it from sight.
    last = seen[-1][1]
    assert (last["metadata"]["labels"], last["data"]["key"]) == ({"color": "red"}, "2")
    assert int(last["metadata"]["resourceVersion"]) > int(seen[1][1]["metadata"]["resourceVersion"])
    paint("red")
    bench.done("DELETE", f"{MAPS}/a")
    assert told(watch) == [("ADDED", "a"), ("DELETED", "a")]


def test_fields_choose_too(bench: Bench) -> None:
    watch = bench.watch(MAPS, fieldSelector="metadata.name=a")
    bench.make(MAPS, config_map("a"))
    bench.make(MAPS, config_map("b"))
    assert told(watch) == [("ADDED", "a")]


def test_a_forgotten_version_is_told_in_the_stream(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    bench.storage.compact()
    watch = bench.watch(MAPS, resourceVersion="3")
    [(kind, status)] = events(watch)
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert status["message"] == f"too old resource version: 3 ({bench.storage.rv})"
    assert watch.ended


def test_of_the_future_nothing_is_told_until_it_comes(bench: Bench) -> None:
    future = bench.storage.rv + 2
    watch = bench.watch(MAPS, resourceVersion=str(future))
    for name in "abc":
        bench.make(MAPS, config_map(name))
    assert told(watch) == [("ADDED", "c")]


@pytest.mark.parametrize(("query", "code"), [({"resourceVersion": "x"}, 500), ({"timeoutSeconds": "x"}, 400)])
def test_what_cannot_be_read_is_refused(bench: Bench, query: dict[str, str], code: int) -> None:
    bench.refused(code, "GET", MAPS, watch="true", **query)
    assert len(bench.cluster.api.watches) == 0


def test_the_state_may_come_with_a_mark_at_its_end(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    watch = bench.watch(MAPS, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true")
    (added, _), (kind, mark) = events(watch)
    assert (added, kind) == ("ADDED", "BOOKMARK")
    assert mark == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": str(bench.storage.rv),
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    }


def test_the_state_may_be_left_out(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    watch = bench.watch(MAPS, sendInitialEvents="false", resourceVersionMatch="NotOlderThan", resourceVersion="0")
    bench.make(MAPS, config_map("b"))
    assert told(watch) == [("ADDED", "b")]


def test_a_watch_ends_in_time(bench: Bench) -> None:
    watch = bench.watch(MAPS, timeoutSeconds="5")
    bench.clock.turn(4.9)
    assert not watch.ended
    bench.clock.turn(0.2)
    assert watch.ended
    bench.make(MAPS, config_map("a"))
    assert not watch.lines


def test_a_watch_that_names_no_time_lasts_half_an_hour_to_an_hour(bench: Bench) -> None:
    watch = bench.watch(MAPS)
    bench.clock.turn(1800)
    assert not watch.ended
    bench.clock.turn(1800)
    assert watch.ended


def test_bookmarks_come_each_minute_and_before_the_end(bench: Bench) -> None:
    watch = bench.watch(MAPS, allowWatchBookmarks="true", timeoutSeconds="100")
    marks = []
    for _ in range(100):
        bench.clock.turn(1)
        marks += [bench.clock.passed for _ in events(watch)]
    assert marks == [60, 98]
    assert watch.ended


def test_a_bookmark_names_the_latest_version_of_all(bench: Bench) -> None:
    watch = bench.watch(MAPS, allowWatchBookmarks="true")
    bench.namespace("other")
    bench.clock.turn(60)
    [(_, mark)] = events(watch)
    assert mark["metadata"] == {"resourceVersion": str(bench.storage.rv)}
    silent = bench.watch(MAPS)
    bench.clock.turn(60)
    assert not silent.lines, "nobody gets them unasked"


def test_a_reader_who_is_too_slow_is_left(bench: Bench) -> None:
    bench.make(MAPS, config_map("first"))
    bench.cluster.api.server.watch_buffer = 3
    slow = bench.watch(MAPS)
    for number in range(10):
        bench.make(MAPS, config_map(f"m{number}"))
    # The first state does not count.
    assert (slow.ended, len(slow.lines)) == (True, 5)
    assert len(bench.cluster.api.watches) == 0


def test_a_reader_who_goes_leaves_nothing_behind(bench: Bench) -> None:
    before = bench.clock.waiting
    watch = bench.watch(MAPS, allowWatchBookmarks="true", timeoutSeconds="100")
    assert bench.clock.waiting == before + 3
    watch.close()
    bench.make(MAPS, config_map("a"))
    assert (bench.clock.waiting, len(bench.cluster.api.watches), list(watch.lines)) == (before, 0, [])


def test_readers_are_woken(bench: Bench) -> None:
    woken: list[int] = []
    watch = bench.watch(MAPS, timeoutSeconds="5")
    watch.wake = lambda: woken.append(len(watch.lines))
    bench.make(MAPS, config_map("a"))
    bench.clock.turn(5)
    assert woken == [1, 1]


def test_lines_have_other_forms(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    bench.make(MAPS, config_map("b"))
    table = bench.watch(MAPS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    first, second = (item for _, item in events(table))
    assert first["rows"][0]["cells"][0] == "a"
    assert (bool(first["columnDefinitions"]), second["columnDefinitions"]) == (True, None)
    partial = bench.watch(MAPS, accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
    assert [item["kind"] for _, item in events(partial)] == ["PartialObjectMetadata"] * 2


def test_when_a_kind_goes_its_watches_end(bench: Bench) -> None:
    bench.define()
    bench.make(TOYS, toy("a"))
    watch = bench.watch(TOYS)
    other = bench.watch(MAPS)
    bench.done("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/toys.example.com")
    bench.clock.turn(1)
    assert told(watch) == [("ADDED", "a"), ("DELETED", "a")]
    assert (watch.ended, other.ended) == (True, False)


def test_when_the_server_goes_all_watches_end(bench: Bench) -> None:
    watches: list[Watch] = [bench.watch(MAPS), bench.watch("/api/v1/nodes")]
    bench.cluster.close()
    assert all(watch.ended for watch in watches)


def test_watchers_share_the_bytes(bench: Bench) -> None:
    one, other = bench.watch(MAPS), bench.watch("/api/v1/configmaps")
    bench.make(MAPS, config_map("a"))
    assert one.lines[0] == other.lines[0]
    assert one.lines[0].endswith(b"}\n")
    assert json.loads(one.lines[0])["object"]["kind"] == "ConfigMap"
