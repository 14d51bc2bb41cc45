"""Status and spec are written apart, and the generation counts what was asked for."""

from __future__ import annotations

import pytest

from tests.contract.builders import GROUP_VERSION, condition, config_map, gadget, globe, job, pod, unique, widget
from tests.contract.server import Object, Server
from tests.contract.space import JSON_PATCH, STRATEGIC, Collection, Space

pytestmark = pytest.mark.anyio

DONE = {"phase": "Done"}


def now_with(found: Object, **more: object) -> Object:
    """The object as it was found, with other parts."""
    return {**found, **more}


async def test_a_status_given_to_create_is_dropped(widgets: Collection) -> None:
    assert "status" not in await widgets.made({**widget("a"), "status": DONE})


async def test_a_status_given_to_create_is_dropped_for_built_in_kinds(jobs: Collection) -> None:
    assert (await jobs.made({**job("a"), "status": {"active": 3}}))["status"] == {}


async def test_an_update_does_not_write_the_status(widgets: Collection) -> None:
    made = await widgets.made(widget("a"))
    updated = (await widgets.put(now_with(made, spec={"size": 2}, status=DONE))).good(200)
    assert updated["spec"]["size"] == 2
    assert "status" not in updated


async def test_an_update_without_a_status_keeps_it(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    found = (await widgets.patch("a", {"status": DONE}, "status")).good()
    body = {name: value for name, value in found.items() if name != "status"}
    assert (await widgets.put(now_with(body, spec={"size": 2}))).good(200)["status"] == DONE


@pytest.mark.parametrize("content_type", ["application/merge-patch+json", JSON_PATCH])
async def test_a_patch_does_not_write_the_status(widgets: Collection, content_type: str) -> None:
    await widgets.made(widget("a"))
    patches = {JSON_PATCH: [{"op": "add", "path": "/status", "value": DONE}]}
    patch = patches.get(content_type, {"status": DONE})
    patched = (await widgets.patch("a", patch, content_type=content_type)).good(200)
    assert "status" not in patched


async def test_a_patch_of_status_writes_nothing_else(widgets: Collection) -> None:
    made = await widgets.made(widget("a", size=3))
    patch = {"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}, "spec": {"size": 5}, "status": DONE}
    patched = (await widgets.patch("a", patch, "status")).good(200)
    assert patched["status"] == DONE
    assert patched["spec"] == made["spec"]
    assert "labels" not in patched["metadata"]
    assert "annotations" not in patched["metadata"]
    assert patched["metadata"]["generation"] == 1


async def test_an_update_of_status_writes_nothing_else(widgets: Collection) -> None:
    made = await widgets.made(widget("a", size=3))
    body = now_with(made, spec={"size": 5}, status=DONE)
    body["metadata"] = {**made["metadata"], "labels": {"x": "y"}, "finalizers": ["example.com/x"]}
    updated = (await widgets.put(body, "status")).good(200)
    assert updated["status"] == DONE
    assert updated["spec"] == made["spec"]
    assert not {"labels", "finalizers"} & set(updated["metadata"])


async def test_a_patch_of_a_jobs_status_writes_nothing_else(jobs: Collection) -> None:
    await jobs.made(job("a", parallelism=2))
    patch = {"metadata": {"labels": {"x": "y"}}, "spec": {"parallelism": 3}, "status": {"active": 1}}
    patched = (await jobs.patch("a", patch, "status")).good(200)
    assert patched["status"] == {"active": 1}
    assert patched["spec"]["parallelism"] == 2


async def test_the_status_is_read_at_its_path_too(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    patched = (await widgets.patch("a", {"status": DONE}, "status")).good(200)
    assert (await widgets.get("a", "status")).good(200) == patched


async def test_a_merge_patch_replaces_the_conditions_as_a_whole(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    await widgets.patch("a", {"status": {"conditions": [condition("One", "True")]}}, "status")
    patched = (await widgets.patch("a", {"status": {"conditions": [condition("Two", "True")]}}, "status")).good()
    assert [each["type"] for each in patched["status"]["conditions"]] == ["Two"]


async def test_a_kind_without_a_status_has_no_such_path(maps: Collection, space: Space) -> None:
    await maps.made(config_map("a"))
    assert (await maps.patch("a", {"status": {}}, "status")).status == 404
    await space.gadgets.made(gadget("a"))
    assert (await space.gadgets.patch("a", {"status": {}}, "status")).status == 404


async def test_a_kind_without_the_status_subresource_has_a_status_like_any_field(space: Space) -> None:
    gadgets = space.gadgets
    await gadgets.made(gadget("a", status=DONE))
    patched = (await gadgets.patch("a", {"status": {"phase": "Other"}})).good(200)
    assert patched["status"] == {"phase": "Other"}
    assert patched["metadata"]["generation"] == 2


async def test_status_of_nothing_is_not_found(widgets: Collection) -> None:
    refusal = (await widgets.patch("a", {"status": DONE}, "status")).refused(404, "NotFound")
    assert refusal["message"] == 'widgets.contract.multikueue.dev "a" not found'


async def test_status_of_a_cluster_scoped_object(server: Server) -> None:
    globes = Collection(server, f"/apis/{GROUP_VERSION}/globes")
    name = unique("globe")
    await globes.made(globe(name))
    assert (await globes.patch(name, {"status": DONE}, "status")).good(200)["status"] == DONE


async def test_a_strategic_merge_of_status_merges_conditions_by_their_type(space: Space) -> None:
    pods = space.core("pods")
    await pods.made(pod("a"))
    for type_ in ("One", "Two"):
        patch = {"status": {"conditions": [{"type": type_, "status": "True"}]}}
        patched = (await pods.patch("a", patch, "status", content_type=STRATEGIC)).good(200)
    assert {each["type"] for each in patched["status"]["conditions"]} == {"One", "Two"}


# --- generation ------------------------------------------------------------------------------------------------------


async def test_the_generation_begins_with_one(widgets: Collection, jobs: Collection) -> None:
    assert (await widgets.made(widget("a")))["metadata"]["generation"] == 1
    assert (await jobs.made(job("a")))["metadata"]["generation"] == 1


async def test_config_maps_have_no_generation(maps: Collection) -> None:
    await maps.made(config_map("a"))
    assert "generation" not in (await maps.patch("a", {"data": {"x": "y"}})).good()["metadata"]


CHANGES: dict[str, tuple[Object, str, int]] = {
    "the spec": ({"spec": {"size": 9}}, "", 2),
    "the spec to what it is": ({"spec": {"size": 1}}, "", 1),
    "a label": ({"metadata": {"labels": {"x": "y"}}}, "", 1),
    "an annotation": ({"metadata": {"annotations": {"x": "y"}}}, "", 1),
    "a finalizer": ({"metadata": {"finalizers": ["example.com/x"]}}, "", 1),
    "the status": ({"status": DONE}, "status", 1),
    "the generation itself": ({"metadata": {"generation": 7}}, "", 1),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_only_the_spec_counts_for_the_generation(widgets: Collection, what: str) -> None:
    patch, subresource, generation = CHANGES[what]
    await widgets.made(widget("a"))
    patched = (await widgets.patch("a", patch, subresource)).good(200)
    assert patched["metadata"]["generation"] == generation


async def test_a_jobs_generation_counts_its_spec(jobs: Collection) -> None:
    await jobs.made(job("a"))
    assert (await jobs.patch("a", {"spec": {"parallelism": 5}})).good()["metadata"]["generation"] == 2
    assert (await jobs.patch("a", {"metadata": {"labels": {"x": "y"}}})).good()["metadata"]["generation"] == 2
    assert (await jobs.patch("a", {"status": {"active": 1}}, "status")).good()["metadata"]["generation"] == 2


async def test_a_deletion_under_way_counts_for_the_generation(widgets: Collection) -> None:
    body = widget("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await widgets.made(body)
    await widgets.delete("a")
    assert (await widgets.got("a"))["metadata"]["generation"] == 2


# --- writes that change nothing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["update", "merge patch", "JSON patch", "apply", "status"])
async def test_a_write_that_changes_nothing_leaves_the_version(widgets: Collection, how: str) -> None:
    await widgets.apply(widget("a", size=3))
    before = (await widgets.patch("a", {"status": DONE}, "status")).good(200)
    writes = {
        "update": lambda: widgets.put(before),
        "merge patch": lambda: widgets.patch("a", {"spec": {"size": 3}}),
        "JSON patch": lambda: widgets.patch(
            "a", [{"op": "replace", "path": "/spec/size", "value": 3}], content_type=JSON_PATCH
        ),
        "apply": lambda: widgets.apply(widget("a", size=3)),
        "status": lambda: widgets.patch("a", {"status": DONE}, "status"),
    }
    assert (await writes[how]()).good(200) == before
    assert await widgets.got("a") == before


async def test_a_write_that_changes_nothing_leaves_a_jobs_version(jobs: Collection) -> None:
    made = await jobs.made(job("a"))
    # The first update of a job is a write even so: on the way back in, more is filled in than one sees.
    settled = (await jobs.put(made)).good(200)
    assert (await jobs.put(settled)).good(200) == settled
    assert (await jobs.patch("a", {"spec": {"suspend": True}})).good(200) == settled


# --- scale -----------------------------------------------------------------------------------------------------------


async def test_the_scale_shows_what_the_definition_points_to(widgets: Collection, space: Space) -> None:
    made = await widgets.made(widget("a", size=4))
    await widgets.patch("a", {"status": {"replicas": 2, "selector": "app=x"}}, "status")
    scale = (await widgets.get("a", "scale")).good(200)
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 4}, {"replicas": 2, "selector": "app=x"})
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_patch_of_the_scale_changes_the_size(widgets: Collection) -> None:
    await widgets.made(widget("a", size=4))
    scale = (await widgets.patch("a", {"spec": {"replicas": 6}}, "scale")).good(200)
    assert scale["spec"] == {"replicas": 6}
    found = await widgets.got("a")
    assert (found["spec"]["size"], found["metadata"]["generation"]) == (6, 2)
