"""Patches: JSON patch, merge patch, strategic merge."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.builders import condition, config_map, job, pod, widget
from tests.contract.server import Object
from tests.contract.space import APPLY, JSON_PATCH, MERGE, STRATEGIC, Collection, Space

pytestmark = pytest.mark.anyio

REJECTED = "the server rejected our request due to an error in our request"


def full(name: str = "a") -> Object:
    """A widget with something of each shape."""
    return widget(name, size=2, notes={"k": "v", "other": "o"}, parts=[{"name": "x"}, {"name": "y"}], sizes=[1, 2, 3])


# --- JSON patch ------------------------------------------------------------------------------------------------------

DONE: dict[str, tuple[list[Object], str, Any]] = {
    "add a field": ([{"op": "add", "path": "/spec/title", "value": "abc"}], "title", "abc"),
    "add in the place of another": ([{"op": "add", "path": "/spec/size", "value": 9}], "size", 9),
    "add to the end of a list": ([{"op": "add", "path": "/spec/sizes/-", "value": 4}], "sizes", [1, 2, 3, 4]),
    "add into a list": ([{"op": "add", "path": "/spec/sizes/1", "value": 9}], "sizes", [1, 9, 2, 3]),
    "replace a field": ([{"op": "replace", "path": "/spec/size", "value": 9}], "size", 9),
    "replace an entry": ([{"op": "replace", "path": "/spec/sizes/0", "value": 9}], "sizes", [9, 2, 3]),
    "remove a field": ([{"op": "remove", "path": "/spec/notes/k"}], "notes", {"other": "o"}),
    "remove an entry": ([{"op": "remove", "path": "/spec/sizes/1"}], "sizes", [1, 3]),
    "move": ([{"op": "move", "from": "/spec/notes/k", "path": "/spec/notes/l"}], "notes", {"l": "v", "other": "o"}),
    "copy": (
        [{"op": "copy", "from": "/spec/notes/k", "path": "/spec/notes/l"}],
        "notes",
        {"k": "v", "l": "v", "other": "o"},
    ),
    "test and change": (
        [{"op": "test", "path": "/spec/size", "value": 2}, {"op": "replace", "path": "/spec/size", "value": 3}],
        "size",
        3,
    ),
    "slashes and tildes": (
        [{"op": "add", "path": "/spec/notes/a~1b~0c", "value": "1"}],
        "notes",
        {"a/b~c": "1", "k": "v", "other": "o"},
    ),
    "one after the other": (
        [{"op": "remove", "path": "/spec/sizes/0"}, {"op": "remove", "path": "/spec/sizes/0"}],
        "sizes",
        [3],
    ),
    "an empty list of operations": ([], "size", 2),
}


@pytest.mark.parametrize("what", DONE)
async def test_a_json_patch_does(widgets: Collection, what: str) -> None:
    operations, field, value = DONE[what]
    await widgets.made(full())
    patched = (await widgets.patch("a", operations, content_type=JSON_PATCH)).good(200)
    assert patched["spec"][field] == value


REFUSED_OPERATIONS: dict[str, list[Object]] = {
    "a test that fails": [{"op": "test", "path": "/spec/size", "value": 9}],
    "a test of nothing": [{"op": "test", "path": "/spec/nothing", "value": 9}],
    "a removal of nothing": [{"op": "remove", "path": "/spec/nothing"}],
    "a way through nothing": [{"op": "add", "path": "/spec/nothing/x", "value": 1}],
    "a place beyond the end": [{"op": "add", "path": "/spec/sizes/9", "value": 1}],
    "an unknown operation": [{"op": "frob", "path": "/spec/size", "value": 1}],
}


@pytest.mark.parametrize("what", REFUSED_OPERATIONS)
async def test_a_json_patch_is_refused_as_a_whole(widgets: Collection, what: str) -> None:
    made = await widgets.made(full())
    operations = [{"op": "replace", "path": "/spec/size", "value": 7}, *REFUSED_OPERATIONS[what]]
    refusal = (await widgets.patch("a", operations, content_type=JSON_PATCH)).refused(422, "Invalid")
    assert refusal["message"] == REJECTED
    assert await widgets.got("a") == made


async def test_a_json_patch_finds_a_condition_by_its_place(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    await widgets.patch("a", {"status": {"conditions": [condition("One", "True")]}}, "status")
    operations = [
        {"op": "test", "path": "/status/conditions/0/type", "value": "One"},
        {"op": "replace", "path": "/status/conditions/0/status", "value": "False"},
    ]
    patched = (await widgets.patch("a", operations, "status", content_type=JSON_PATCH)).good(200)
    assert patched["status"]["conditions"][0]["status"] == "False"


# --- merge patch -----------------------------------------------------------------------------------------------------

MERGED: dict[str, tuple[Object, str, Any]] = {
    "set a field": ({"size": 9}, "size", 9),
    "merge mappings": ({"notes": {"new": "n"}}, "notes", {"k": "v", "other": "o", "new": "n"}),
    "remove by null": ({"notes": {"k": None}}, "notes", {"other": "o"}),
    "remove what is not there": ({"notes": {"x": None}}, "notes", {"k": "v", "other": "o"}),
    "replace lists whole": ({"sizes": [9]}, "sizes", [9]),
    "replace lists of parts whole": ({"parts": [{"name": "z"}]}, "parts", [{"name": "z", "count": 1}]),
    "default what was removed": ({"size": None}, "size", 1),
}


@pytest.mark.parametrize("what", MERGED)
async def test_a_merge_patch_can(widgets: Collection, what: str) -> None:
    spec, field, value = MERGED[what]
    await widgets.made(full())
    patched = (await widgets.patch("a", {"spec": spec})).good(200)
    assert patched["spec"][field] == value


async def test_a_merge_patch_removes_a_whole_mapping(maps: Collection) -> None:
    await maps.made(config_map("a", {"x": "y"}, key="value"))
    patched = (await maps.patch("a", {"metadata": {"labels": None}, "data": None})).good(200)
    assert "labels" not in patched["metadata"]
    assert "data" not in patched


# --- both ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type", [MERGE, JSON_PATCH, STRATEGIC, APPLY], ids=["merge", "json", "strategic", "apply"]
)
async def test_a_patch_that_is_garbage_is_refused(maps: Collection, content_type: str) -> None:
    await maps.made(config_map("a"))
    query = {"fieldManager": "x"} if content_type == APPLY else {}
    (await maps.patch("a", b"a: [", content_type=content_type, **query)).refused(400, "BadRequest")


async def test_a_merge_patch_is_an_object_and_a_json_patch_a_list(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    (await widgets.patch("a", [])).refused(400, "BadRequest")
    (await widgets.patch("a", {"op": "add"}, content_type=JSON_PATCH)).refused(400, "BadRequest")


MOVED: dict[str, tuple[Object, str]] = {
    "name": ({"metadata": {"name": "b"}}, "the name of the object (b) does not match the name on the URL (a)"),
    "namespace": (
        {"metadata": {"namespace": "b"}},
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
}


@pytest.mark.parametrize("what", MOVED)
async def test_a_patch_cannot_move_an_object(widgets: Collection, what: str) -> None:
    patch, message = MOVED[what]
    await widgets.made(widget("a"))
    assert (await widgets.patch("a", patch)).refused(400, "BadRequest")["message"] == message


async def test_a_patch_cannot_change_the_kind(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    for patch in ({"kind": "Other"}, {"apiVersion": "other/v1"}):
        assert (await widgets.patch("a", patch)).status in (400, 422)


@pytest.mark.parametrize("kind", ["maps", "widgets"])
@pytest.mark.parametrize("metadata", [{"labels": {"x": 1}}, {"finalizers": "x"}], ids=str)
async def test_what_cannot_be_read_after_a_patch_is_its_fault(space: Space, kind: str, metadata: Object) -> None:
    collection: Collection = getattr(space, kind)
    made = await collection.made({"maps": config_map("a"), "widgets": widget("a")}[kind])
    refusal = (await collection.patch("a", {"metadata": metadata})).refused(422, "Invalid")
    assert [cause["field"] for cause in refusal["details"]["causes"]] == ["patch"]
    assert await collection.got("a") == made


async def test_a_patch_of_nothing_is_not_found(widgets: Collection) -> None:
    (await widgets.patch("a", {"spec": {"size": 2}})).refused(404, "NotFound")
    operations = [{"op": "replace", "path": "/spec/size", "value": 2}]
    (await widgets.patch("a", operations, content_type=JSON_PATCH)).refused(404, "NotFound")


async def test_custom_kinds_know_no_strategic_merge(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    answer = await widgets.patch("a", {"spec": {"size": 2}}, content_type=STRATEGIC)
    assert answer.refused(415, "UnsupportedMediaType")["message"] == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


@pytest.mark.parametrize("kind", ["maps", "widgets"])
async def test_plain_json_is_no_patch(space: Space, kind: str) -> None:
    collection: Collection = getattr(space, kind)
    await collection.made({"maps": config_map("a"), "widgets": widget("a")}[kind])
    (await collection.patch("a", {}, content_type="application/json")).refused(415, "UnsupportedMediaType")


async def test_only_an_apply_can_be_forced(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    refusal = (await widgets.patch("a", {"spec": {}}, force="true")).refused(422, "Invalid")
    assert refusal["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch'
    )


async def test_a_patch_goes_through_another_version_too(space: Space) -> None:
    await space.widgets.made(widget("a"))
    beta = space.of("contract.multikueue.dev/v1beta1", "widgets")
    patched = (await beta.patch("a", {"spec": {"size": 7}})).good(200)
    assert patched["apiVersion"] == "contract.multikueue.dev/v1beta1"
    assert (await space.widgets.got("a"))["spec"]["size"] == 7


# --- strategic merge -------------------------------------------------------------------------------------------------


@pytest.fixture
async def a_pod(space: Space) -> Collection:
    """Pods, and among them `a` with two containers."""
    pods = space.core("pods")
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    containers = [{"name": "main", "image": "pause", "env": env}, {"name": "side", "image": "pause"}]
    await pods.made({**pod("a"), "spec": {"containers": containers}})
    return pods


async def strategic(collection: Collection, patch: Object) -> Object:
    return (await collection.patch("a", patch, content_type=STRATEGIC)).good(200)


async def test_a_strategic_merge_finds_containers_by_name(a_pod: Collection) -> None:
    patched = await strategic(a_pod, {"spec": {"containers": [{"name": "side", "image": "other"}]}})
    assert [(each["name"], each["image"]) for each in patched["spec"]["containers"]] == [
        ("main", "pause"),
        ("side", "other"),
    ]
    assert len(patched["spec"]["containers"][0]["env"]) == 2


async def test_a_strategic_merge_needs_the_key_of_an_entry(a_pod: Collection) -> None:
    answer = await a_pod.patch("a", {"spec": {"containers": [{"image": "other"}]}}, content_type=STRATEGIC)
    assert answer.refused(500, "")["message"] == ("map: map[image:other] does not contain declared merge key: name")


async def test_a_strategic_merge_merges_plain_lists_that_are_sets(maps: Collection) -> None:
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/a"]
    await maps.made(body)
    patched = await strategic(maps, {"metadata": {"finalizers": ["example.com/b"]}})
    assert sorted(patched["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    patched = await strategic(maps, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}})
    assert patched["metadata"]["finalizers"] == ["example.com/b"]


@pytest.fixture
async def a_job(jobs: Collection) -> Collection:
    """Jobs, and among them `a`, suspended, with a node selector and two variables."""
    body = job("a")
    spec = body["spec"]["template"]["spec"]
    spec["nodeSelector"] = {"zone": "a"}
    spec["containers"][0]["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    await jobs.made(body)
    return jobs


def template(**spec: Any) -> Object:
    return {"spec": {"template": {"spec": spec}}}


async def test_a_strategic_merge_merges_mappings(a_job: Collection) -> None:
    patched = await strategic(a_job, template(nodeSelector={"arch": "b"}))
    assert patched["spec"]["template"]["spec"]["nodeSelector"] == {"zone": "a", "arch": "b"}


async def test_a_strategic_merge_can_replace_a_mapping(a_job: Collection) -> None:
    patched = await strategic(a_job, template(nodeSelector={"$patch": "replace", "arch": "b"}))
    assert patched["spec"]["template"]["spec"]["nodeSelector"] == {"arch": "b"}


async def test_a_strategic_merge_can_remove_a_mapping(a_job: Collection) -> None:
    patched = await strategic(a_job, template(nodeSelector=None))
    assert "nodeSelector" not in patched["spec"]["template"]["spec"]


async def test_a_strategic_merge_removes_by_null(maps: Collection) -> None:
    await maps.made(config_map("a", {"one": "1", "two": "2"}, key="value"))
    patched = await strategic(maps, {"metadata": {"labels": {"one": None}}, "data": {"key": None, "new": "n"}})
    assert patched["metadata"]["labels"] == {"two": "2"}
    assert patched["data"] == {"new": "n"}


async def test_a_strategic_merge_replaces_lists_without_a_key(a_job: Collection) -> None:
    await a_job.patch("a", template(tolerations=[{"key": "x", "operator": "Exists"}]))
    patched = await strategic(a_job, template(tolerations=[{"key": "y", "operator": "Exists"}]))
    assert [each["key"] for each in patched["spec"]["template"]["spec"]["tolerations"]] == ["y"]


async def test_a_strategic_merge_removes_an_entry_by_its_key(space: Space) -> None:
    services = space.core("services")
    ports = [{"name": "one", "port": 1}, {"name": "two", "port": 2}]
    await services.made({"metadata": {"name": "a"}, "spec": {"ports": ports}})
    patched = await strategic(services, {"spec": {"ports": [{"port": 1, "$patch": "delete"}]}})
    assert [each["port"] for each in patched["spec"]["ports"]] == [2]


async def test_a_strategic_merge_sets_the_order_it_is_told(a_pod: Collection) -> None:
    patch = {
        "metadata": {"labels": {"x": "y"}},
        "spec": {"$setElementOrder/containers": [{"name": "main"}, {"name": "side"}]},
    }
    patched = await strategic(a_pod, patch)
    assert [each["name"] for each in patched["spec"]["containers"]] == ["main", "side"]
    assert patched["metadata"]["labels"] == {"x": "y"}
