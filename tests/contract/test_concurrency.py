"""Many at once: one counter, one order, no lost writes."""

from __future__ import annotations

import anyio
import pytest

from tests.contract.builders import config_map, unique, widget
from tests.contract.server import Server
from tests.contract.space import Collection, Space

pytestmark = pytest.mark.anyio

WRITERS = 8


async def test_of_many_that_create_one_name_one_does(maps: Collection) -> None:
    statuses: list[int] = []

    async def create() -> None:
        statuses.append((await maps.create(config_map("a"))).status)

    async with anyio.create_task_group() as tasks:
        for _ in range(WRITERS):
            tasks.start_soon(create)
    assert sorted(statuses) == [201] + [409] * (WRITERS - 1)


async def test_of_many_that_write_to_one_version_one_does(widgets: Collection) -> None:
    made = await widgets.made(widget("a", size=0))
    statuses: list[int] = []

    async def write(size: int) -> None:
        patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {"size": size}}
        statuses.append((await widgets.patch("a", patch)).status)

    async with anyio.create_task_group() as tasks:
        for number in range(1, WRITERS + 1):
            tasks.start_soon(write, number)
    assert sorted(statuses) == [200] + [409] * (WRITERS - 1)


async def test_no_write_is_lost_among_those_who_look_again(widgets: Collection) -> None:
    await widgets.made(widget("a", size=0))

    async def count_up() -> None:
        while True:
            found = await widgets.got("a")
            found["spec"]["size"] += 1
            if (await widgets.put(found)).status == 200:
                return

    async with anyio.create_task_group() as tasks:
        for _ in range(WRITERS):
            tasks.start_soon(count_up)
    assert (await widgets.got("a"))["spec"]["size"] == WRITERS


async def test_patches_of_different_fields_all_arrive(maps: Collection) -> None:
    await maps.made(config_map("a"))

    async def patch(key: str) -> None:
        (await maps.patch("a", {"data": {key: key}})).good(200)

    keys = [f"key-{number}" for number in range(WRITERS)]
    async with anyio.create_task_group() as tasks:
        for key in keys:
            tasks.start_soon(patch, key)
    assert sorted((await maps.got("a"))["data"]) == keys


async def test_versions_differ_and_grow_over_all_kinds(space: Space) -> None:
    versions: list[int] = []
    for number in range(3):
        for collection, body in ((space.maps, config_map(f"a-{number}")), (space.widgets, widget(f"a-{number}"))):
            versions.append(int((await collection.made(body))["metadata"]["resourceVersion"]))
    assert versions == sorted(set(versions))


async def test_a_watch_sees_what_many_wrote_in_the_order_of_versions(maps: Collection) -> None:
    async with maps.watch(resourceVersion=await maps.version()) as events:
        async with anyio.create_task_group() as tasks:
            for number in range(WRITERS):
                tasks.start_soon(maps.made, config_map(f"a-{number}"))
        seen = [await events.next() for _ in range(WRITERS)]
    assert {event.name for event in seen} == {f"a-{number}" for number in range(WRITERS)}
    versions = [event.version for event in seen]
    assert versions == sorted(set(versions))


async def test_pages_over_all_namespaces_give_everything_once(server: Server, space: Space) -> None:
    label = unique("label")
    elsewhere = Collection(server, "/api/v1/namespaces/default/configmaps")
    for number in range(3):
        await space.maps.made(config_map(f"{label}-{number}", {"of": label}))
        await elsewhere.made(config_map(f"{label}-{number}", {"of": label}))
    everywhere = Collection(server, "/api/v1/configmaps")
    seen, cont = [], ""
    while True:
        more = {"continue": cont} if cont else {}
        listed = (await everywhere.list(labelSelector=f"of={label}", limit="2", **more)).good(200)
        seen += [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in listed["items"]]
        if not (cont := listed["metadata"].get("continue", "")):
            break
    assert seen == sorted(seen)
    assert len(set(seen)) == 6
