"""Watches: every change once, in order, from where one was."""

from __future__ import annotations

import json
from time import monotonic

import pytest

from tests.contract.builders import config_map, job, lease, unique, widget
from tests.contract.server import Server
from tests.contract.space import Collection, Space

pytestmark = pytest.mark.anyio


async def test_a_watch_tells_each_change_in_order(maps: Collection) -> None:
    async with maps.watch(resourceVersion=await maps.version()) as events:
        await maps.made(config_map("a"))
        await maps.patch("a", {"data": {"x": "y"}})
        await maps.made(config_map("b"))
        await maps.delete("a")
        changes = [await events.next() for _ in range(4)]
    assert [(each.type, each.name) for each in changes] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]
    versions = [each.version for each in changes]
    assert versions == sorted(set(versions))


async def test_an_event_carries_the_whole_object(widgets: Collection) -> None:
    async with widgets.watch(resourceVersion=await widgets.version()) as events:
        made = await widgets.made(widget("a", title="title"))
        assert (await events.next()).object == made
        patched = (await widgets.patch("a", {"status": {"phase": "Done"}}, "status")).good()
        assert (await events.next()).object == patched


async def test_a_watch_begins_after_the_version_given(maps: Collection) -> None:
    await maps.made(config_map("a"))
    version = (await maps.made(config_map("b")))["metadata"]["resourceVersion"]
    await maps.made(config_map("c"))
    async with maps.watch(resourceVersion=version) as events:
        assert await events.take(1) == [("ADDED", "c")]


async def test_what_happened_before_the_watch_is_told_from_its_version_on(maps: Collection) -> None:
    version = await maps.version()
    await maps.made(config_map("a"))
    await maps.patch("a", {"data": {"x": "y"}})
    await maps.delete("a")
    async with maps.watch(resourceVersion=version) as events:
        assert await events.take(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


@pytest.mark.parametrize(
    "query", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}], ids=["none", "empty", "zero"]
)
async def test_a_watch_from_nowhere_begins_with_what_is_there(maps: Collection, query: dict[str, str]) -> None:
    for name in "ba":
        await maps.made(config_map(name))
    await maps.patch("b", {"data": {"x": "y"}})
    async with maps.watch(**query) as events:
        assert sorted(await events.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        await maps.made(config_map("c"))
        assert await events.take(1) == [("ADDED", "c")]


async def test_a_watch_of_one_namespace_tells_of_no_other(server: Server, maps: Collection) -> None:
    elsewhere = Collection(server, "/api/v1/namespaces/default/configmaps")
    async with maps.watch(resourceVersion=await maps.version()) as events:
        await elsewhere.made(config_map(unique("other")))
        await maps.made(config_map("a"))
        assert await events.take(1) == [("ADDED", "a")]


async def test_a_watch_of_all_namespaces_tells_of_each(server: Server, space: Space) -> None:
    everywhere = Collection(server, "/api/v1/configmaps")
    elsewhere = Collection(server, "/api/v1/namespaces/default/configmaps")
    names = unique("a"), unique("b")
    async with everywhere.watch(resourceVersion=await everywhere.version()) as events:
        await space.maps.made(config_map(names[0]))
        await elsewhere.made(config_map(names[1]))
        await events.until("ADDED", names[0])
        await events.until("ADDED", names[1])


async def test_a_write_that_changes_nothing_is_no_event(maps: Collection) -> None:
    made = await maps.made(config_map("a", key="value"))
    async with maps.watch(resourceVersion=made["metadata"]["resourceVersion"]) as events:
        (await maps.put(made)).good()
        (await maps.patch("a", {"data": {"key": "value"}})).good()
        (await maps.create(config_map("c"), dryRun="All")).good()
        await maps.made(config_map("b"))
        assert await events.take(1) == [("ADDED", "b")]


async def test_labels_select_what_is_watched(maps: Collection) -> None:
    async with maps.watch(resourceVersion=await maps.version(), labelSelector="app=x") as events:
        await maps.made(config_map("a", {"app": "y"}))
        await maps.made(config_map("b", {"app": "x"}))
        assert await events.take(1) == [("ADDED", "b")]


async def test_an_object_comes_into_a_selection_and_leaves_it(maps: Collection) -> None:
    await maps.made(config_map("a", {"app": "y"}))
    async with maps.watch(resourceVersion=await maps.version(), labelSelector="app=x") as events:
        await maps.patch("a", {"metadata": {"labels": {"app": "x"}}})
        await maps.patch("a", {"data": {"x": "y"}})
        left = (await maps.patch("a", {"metadata": {"labels": {"app": "z"}}})).good()
        await maps.delete("a")
        await maps.made(config_map("b", {"app": "x"}))
        changes = [await events.next() for _ in range(4)]
    assert [(each.type, each.name) for each in changes] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
        ("ADDED", "b"),
    ]
    # It is told as it was last within the selection, with the version at which it left.
    assert changes[2].object["metadata"]["labels"] == {"app": "x"}
    assert changes[2].version == int(left["metadata"]["resourceVersion"])


async def test_fields_select_what_is_watched(space: Space) -> None:
    leases = space.of("coordination.k8s.io/v1", "leases")
    version = (await leases.made(lease("mine", holderIdentity="me")))["metadata"]["resourceVersion"]
    async with leases.watch(resourceVersion=version, fieldSelector="metadata.name=mine") as events:
        await leases.made(lease("other", holderIdentity="me"))
        await leases.patch("mine", {"spec": {"holderIdentity": "you"}})
        event = await events.next()
    assert (event.type, event.name, event.object["spec"]["holderIdentity"]) == ("MODIFIED", "mine", "you")


async def test_declared_fields_of_a_custom_kind_select_what_is_watched(widgets: Collection) -> None:
    await widgets.made(widget("a", size=1))
    async with widgets.watch(resourceVersion=await widgets.version(), fieldSelector="spec.size=2") as events:
        await widgets.patch("a", {"spec": {"size": 2}})
        await widgets.patch("a", {"spec": {"size": 3}})
        assert await events.take(2) == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_watch_ends_in_time(maps: Collection) -> None:
    begun = monotonic()
    async with maps.watch(resourceVersion=await maps.version(), timeoutSeconds="1") as events:
        assert await events.rest() == []
    assert 0.5 < monotonic() - begun < 10


async def test_a_watch_that_ended_goes_on_from_the_last_version(maps: Collection) -> None:
    async with maps.watch(resourceVersion=await maps.version()) as events:
        await maps.made(config_map("a"))
        last = (await events.next()).version
    await maps.made(config_map("b"))
    async with maps.watch(resourceVersion=str(last)) as events:
        assert await events.take(1) == [("ADDED", "b")]


async def test_a_watch_from_the_future_is_silent(maps: Collection) -> None:
    async with maps.watch(resourceVersion="999999999", timeoutSeconds="1") as events:
        await maps.made(config_map("a"))
        assert await events.rest() == []


async def test_a_watch_from_a_forgotten_version_says_so_and_ends(server: Server, widgets: Collection) -> None:
    await widgets.made(widget("a"))
    await server.forget()
    async with widgets.watch(resourceVersion="1", timeoutSeconds="5") as events:
        told = await events.rest()
    assert [each.type for each in told] == ["ERROR"]
    status = told[0].object
    assert status["message"].startswith("too old resource version: 1 (")
    assert {name: value for name, value in status.items() if name != "message"} == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": "Expired",
        "code": 410,
    }


async def test_a_version_of_now_can_be_watched_from_after_forgetting(server: Server, widgets: Collection) -> None:
    await widgets.made(widget("a"))
    await server.forget()
    async with widgets.watch(resourceVersion=await widgets.version()) as events:
        await widgets.made(widget("b"))
        assert await events.take(1) == [("ADDED", "b")]


async def test_a_version_that_is_no_number_cannot_be_watched_from(maps: Collection) -> None:
    assert (await maps.list(watch="true", timeoutSeconds="1", resourceVersion="abc")).status >= 400


async def test_a_selector_that_is_none_cannot_be_watched(maps: Collection) -> None:
    (await maps.list(watch="true", timeoutSeconds="1", labelSelector="a in b")).refused(400, "BadRequest")


async def test_a_kind_that_is_not_there_cannot_be_watched(server: Server) -> None:
    answer = await server.call("GET", "/apis/contract.multikueue.dev/v1/nothings", query={"watch": "true"})
    assert answer.status == 404


@pytest.mark.parametrize("kind", ["maps", "widgets"])
async def test_initial_events_end_with_a_bookmark(space: Space, kind: str) -> None:
    collection: Collection = getattr(space, kind)
    body = {"maps": config_map, "widgets": widget}[kind]
    for name in "ab":
        await collection.made(body(name))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with collection.watch(**query) as events:
        assert sorted(await events.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        bookmark = await events.any()
        assert bookmark.type == "BOOKMARK"
        assert set(bookmark.object) <= {"kind", "apiVersion", "metadata", "spec"}
        assert bookmark.object["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert bookmark.version >= int((await collection.got("b"))["metadata"]["resourceVersion"])
        await collection.made(body("c"))
        assert await events.take(1) == [("ADDED", "c")]


async def test_initial_events_of_a_selection_are_those_selected(maps: Collection) -> None:
    for name in "ab":
        await maps.made(config_map(name, {"name": name}))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with maps.watch(**query, labelSelector="name=b") as events:
        assert await events.take(1) == [("ADDED", "b")]
        assert (await events.any()).type == "BOOKMARK"


async def test_without_initial_events_a_watch_begins_with_the_next_change(maps: Collection) -> None:
    await maps.made(config_map("a"))
    query = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
    async with maps.watch(**query, resourceVersion=await maps.version()) as events:
        await maps.made(config_map("b"))
        assert await events.take(1) == [("ADDED", "b")]


async def test_bookmarks_tell_whoever_asked_how_far_a_silent_watch_has_come(server: Server, maps: Collection) -> None:
    await maps.made(config_map("a"))
    elsewhere = Collection(server, "/api/v1/namespaces/default/configmaps")
    query = {"resourceVersion": await maps.version(), "timeoutSeconds": "3"}
    async with maps.watch(**query, allowWatchBookmarks="true") as asked, maps.watch(**query) as unasked:
        other = await elsewhere.made(config_map(unique("other")))
        bookmark = (await asked.rest())[-1]
        assert await unasked.rest() == []
    assert bookmark.type == "BOOKMARK"
    assert set(bookmark.object) == {"kind", "apiVersion", "metadata"}
    assert bookmark.object["kind"] == "ConfigMap"
    assert set(bookmark.object["metadata"]) == {"resourceVersion"}
    assert bookmark.version >= int(other["metadata"]["resourceVersion"])


async def test_two_watches_see_the_same(maps: Collection) -> None:
    version = await maps.version()
    async with maps.watch(resourceVersion=version) as one, maps.watch(resourceVersion=version) as two:
        for name in "abc":
            await maps.made(config_map(name))
        assert [await one.next() for _ in range(3)] == [await two.next() for _ in range(3)]


async def test_a_version_of_one_kind_is_one_of_all(maps: Collection, jobs: Collection) -> None:
    made = await maps.made(config_map("a"))
    async with jobs.watch(resourceVersion=made["metadata"]["resourceVersion"]) as events:
        created = await jobs.made(job("j"))
        assert (await events.next()).object == created
    assert int(created["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_an_object_held_by_a_finalizer_goes_in_two_events(widgets: Collection) -> None:
    body = widget("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await widgets.made(body)
    async with widgets.watch(resourceVersion=await widgets.version()) as events:
        await widgets.delete("a")
        await widgets.patch("a", {"metadata": {"finalizers": None}})
        going, gone = await events.next(), await events.next()
    assert (going.type, gone.type) == ("MODIFIED", "DELETED")
    assert "deletionTimestamp" in going.object["metadata"]
    assert gone.version > going.version


async def test_what_is_watched_in_another_version_is_told_in_that(space: Space) -> None:
    beta = space.of("contract.multikueue.dev/v1beta1", "widgets")
    async with beta.watch(resourceVersion=await beta.version()) as events:
        await space.widgets.made(widget("a"))
        assert (await events.next()).object["apiVersion"] == "contract.multikueue.dev/v1beta1"


async def test_a_watch_of_partial_objects_tells_their_metadata_only(widgets: Collection) -> None:
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    version = await widgets.version()
    async with widgets.watch(accept=accept, resourceVersion=version) as events:
        made = await widgets.made(widget("a", size=3))
        event = await events.next()
    assert event.object == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }


async def test_a_watch_of_tables_tells_rows(widgets: Collection) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    version = await widgets.version()
    async with widgets.watch(accept=accept, resourceVersion=version) as events:
        for name in "ab":
            await widgets.made(widget(name, size=3))
        tables = [(await events.next()).object for _ in range(2)]
    assert [table["rows"][0]["cells"][:3] for table in tables] == [["a", 3, "Fast"], ["b", 3, "Fast"]]
    # The columns are named once.
    assert [column["name"] for column in tables[0]["columnDefinitions"]] == [
        "Name",
        "Size",
        "Mode",
        "Ready",
        "Title",
        "Age",
    ]
    assert not tables[1]["columnDefinitions"]


async def test_a_line_is_one_event(server: Server, maps: Collection) -> None:
    async with server.watch(maps.path, {"resourceVersion": await maps.version()}) as stream:
        await maps.made(config_map("a", text="two\nlines"))
        line = await stream.line()
    assert line.count(b"\n") == 1
    assert json.loads(line)["object"]["data"] == {"text": "two\nlines"}
