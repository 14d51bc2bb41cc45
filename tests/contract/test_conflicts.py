"""Two writers: who read an older version loses."""

from __future__ import annotations

import pytest

from tests.contract.builders import config_map, widget
from tests.contract.server import Answer, Object
from tests.contract.space import JSON_PATCH, Collection, Space

pytestmark = pytest.mark.anyio

SIZE = {"spec": {"size": 7}}
PHASE = {"status": {"phase": "Done"}}


async def stale(widgets: Collection) -> Object:
    """A widget as it was before somebody changed it."""
    old = await widgets.made(widget("a"))
    (await widgets.patch("a", {"metadata": {"labels": {"changed": "yes"}}})).good()
    return old


def at(version: str | None, change: Object) -> Object:
    """The change to be made to that version, or to any."""
    return {"metadata": {"name": "a"} | ({} if version is None else {"resourceVersion": version}), **change}


def identity() -> Object:
    return {"apiVersion": "contract.multikueue.dev/v1", "kind": "Widget"}


async def write(widgets: Collection, how: str, version: str | None) -> Answer:
    """A write to this version of the object; to any, where none is given."""
    if how == "update":
        return await widgets.put(identity() | at(version, SIZE))
    if how == "update of status":
        return await widgets.put(identity() | at(version, PHASE), "status")
    if how == "merge patch":
        return await widgets.patch("a", at(version, SIZE))
    if how == "merge patch of status":
        return await widgets.patch("a", at(version, PHASE), "status")
    if how == "apply":
        return await widgets.apply(identity() | at(version, SIZE), force=True)
    if how == "apply of status":
        return await widgets.apply(identity() | at(version, PHASE), "status", force=True)
    operations = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": "/spec/size", "value": 7},
    ]
    return await widgets.patch("a", operations, content_type=JSON_PATCH)


WRITES = [
    "update",
    "update of status",
    "merge patch",
    "merge patch of status",
    "apply",
    "apply of status",
    "JSON patch",
]


@pytest.mark.parametrize("how", WRITES)
async def test_a_write_to_an_older_version_is_a_conflict(widgets: Collection, how: str) -> None:
    old = await stale(widgets)
    now = await widgets.got("a")
    refusal = (await write(widgets, how, old["metadata"]["resourceVersion"])).refused(409, "Conflict")
    assert refusal["message"] == (
        'Operation cannot be fulfilled on widgets.contract.multikueue.dev "a": '
        "the object has been modified; please apply your changes to the latest version and try again"
    )
    assert refusal["details"] == {"name": "a", "group": "contract.multikueue.dev", "kind": "widgets"}
    assert await widgets.got("a") == now


@pytest.mark.parametrize("how", WRITES)
async def test_a_write_to_the_present_version_is_done(widgets: Collection, how: str) -> None:
    await stale(widgets)
    now = await widgets.got("a")
    done = (await write(widgets, how, now["metadata"]["resourceVersion"])).good(200)
    assert int(done["metadata"]["resourceVersion"]) > int(now["metadata"]["resourceVersion"])
    assert done.get("status", {}).get("phase") == "Done" if "status" in how else done["spec"]["size"] == 7


PATCHES = ["merge patch", "merge patch of status", "apply", "apply of status"]


@pytest.mark.parametrize("how", PATCHES)
async def test_a_patch_without_a_version_is_done_to_any(widgets: Collection, how: str) -> None:
    await stale(widgets)
    (await write(widgets, how, None)).good(200)


@pytest.mark.parametrize("how", PATCHES)
async def test_an_empty_version_in_a_patch_of_a_custom_object_is_invalid(widgets: Collection, how: str) -> None:
    await stale(widgets)
    (await write(widgets, how, "")).refused(422, "Invalid")


async def test_an_update_without_a_version_is_done_to_any_of_a_built_in_kind(maps: Collection) -> None:
    await maps.made(config_map("a"))
    (await maps.put(config_map("a", key="value"))).good(200)


async def test_an_update_of_a_custom_object_must_name_its_version(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    refusal = (await widgets.put(widget("a", size=2))).refused(422, "Invalid")
    assert refusal["message"] == (
        'widgets.contract.multikueue.dev "a" is invalid: '
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    )


async def test_a_version_that_is_no_number_is_refused(widgets: Collection) -> None:
    made = await widgets.made(widget("a"))
    assert (await widgets.patch("a", at("nonsense", SIZE))).status >= 400
    assert await widgets.got("a") == made


async def test_a_version_from_the_future_is_a_conflict(widgets: Collection) -> None:
    made = await widgets.made(widget("a"))
    version = str(int(made["metadata"]["resourceVersion"]) + 1_000_000)
    (await write(widgets, "merge patch", version)).refused(409, "Conflict")


OTHER_UID = "11111111-2222-4333-8444-555555555555"


@pytest.mark.parametrize("kind", ["maps", "widgets"])
async def test_a_patch_of_another_uid_is_invalid(space: Space, kind: str) -> None:
    collection: Collection = getattr(space, kind)
    made = await collection.made({"maps": config_map("a"), "widgets": widget("a")}[kind])
    patch = {"metadata": {"uid": OTHER_UID, "labels": {"x": "y"}}}
    refusal = (await collection.patch("a", patch)).refused(422, "Invalid")
    cause = {
        "reason": "FieldValueInvalid",
        "message": f'Invalid value: "{OTHER_UID}": field is immutable',
        "field": "metadata.uid",
    }
    assert cause in refusal["details"]["causes"]
    assert await collection.got("a") == made


async def test_a_patch_of_the_uid_it_has_is_done(widgets: Collection) -> None:
    made = await widgets.made(widget("a"))
    patch = {"metadata": {"uid": made["metadata"]["uid"], "labels": {"x": "y"}}}
    assert (await widgets.patch("a", patch)).good(200)["metadata"]["labels"] == {"x": "y"}


async def test_the_uid_in_a_patch_of_status_is_ignored(widgets: Collection) -> None:
    made = await widgets.made(widget("a"))
    patched = (await widgets.patch("a", {"metadata": {"uid": OTHER_UID}, **PHASE}, "status")).good(200)
    assert patched["metadata"]["uid"] == made["metadata"]["uid"]
    assert patched["status"] == {"phase": "Done"}


@pytest.mark.parametrize("subresource", ["", "status"])
async def test_a_failed_test_of_a_json_patch_refuses_all_of_it(widgets: Collection, subresource: str) -> None:
    made = await widgets.made(widget("a"))
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": OTHER_UID},
        {"op": "add", "path": "/status", "value": {"phase": "Done"}},
    ]
    answer = await widgets.patch("a", operations, subresource, content_type=JSON_PATCH)
    answer.refused(422, "Invalid")
    assert await widgets.got("a") == made
