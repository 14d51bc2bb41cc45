"""How objects go: preconditions, finalizers, deletion of whole collections."""

from __future__ import annotations

import re

import pytest

from tests.contract.builders import config_map, job, pod, secret, widget
from tests.contract.server import Object
from tests.contract.space import JSON_PATCH, Collection, Space, eventually

pytestmark = pytest.mark.anyio

HOLD = "example.com/hold"
OTHER_UID = "11111111-2222-4333-8444-555555555555"


def held(body: Object, *finalizers: str) -> Object:
    """The object with finalizers."""
    return {**body, "metadata": {**body["metadata"], "finalizers": list(finalizers or (HOLD,))}}


@pytest.mark.parametrize("kind", ["ConfigMap", "Widget"])
async def test_a_deletion_of_another_uid_is_a_conflict(space: Space, kind: str) -> None:
    collection, body, what, details = {
        "ConfigMap": (space.maps, config_map("a"), "ConfigMap", {"name": "a", "kind": "ConfigMap"}),
        "Widget": (
            space.widgets,
            widget("a"),
            "Widget.contract.multikueue.dev",
            {"name": "a", "group": "contract.multikueue.dev", "kind": "Widget"},
        ),
    }[kind]
    made = await collection.made(body)
    refusal = (await collection.delete("a", {"preconditions": {"uid": OTHER_UID}})).refused(409, "Conflict")
    assert refusal["message"] == (
        f'Operation cannot be fulfilled on {what} "a": the UID in the precondition ({OTHER_UID}) does not match the UID '
        f"in record ({made['metadata']['uid']}). The object might have been deleted and then recreated"
    )
    assert refusal["details"] == details
    assert await collection.got("a") == made


async def test_a_deletion_of_another_version_is_a_conflict(maps: Collection) -> None:
    made = await maps.made(config_map("a"))
    changed = (await maps.patch("a", {"data": {"x": "y"}})).good()
    old, new = (each["metadata"]["resourceVersion"] for each in (made, changed))
    refusal = (await maps.delete("a", {"preconditions": {"resourceVersion": old}})).refused(409, "Conflict")
    assert refusal["message"] == (
        f'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition ({old}) does not match '
        f"the ResourceVersion in record ({new}). The object might have been modified"
    )
    await maps.got("a")


async def test_a_deletion_of_what_it_is_is_done(maps: Collection) -> None:
    metadata = (await maps.made(config_map("a")))["metadata"]
    wanted = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": wanted}
    (await maps.delete("a", options)).good(200)
    (await maps.get("a")).refused(404, "NotFound")


async def test_an_object_with_a_finalizer_stays_and_says_since_when(widgets: Collection) -> None:
    made = await widgets.made(held(widget("a")))
    answer = (await widgets.delete("a")).good(200)
    assert answer["kind"] == "Widget"
    metadata = answer["metadata"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["deletionTimestamp"])
    assert metadata["deletionGracePeriodSeconds"] == 0
    assert metadata["finalizers"] == [HOLD]
    assert int(metadata["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert await widgets.got("a") == answer


async def test_a_second_deletion_changes_nothing(widgets: Collection) -> None:
    await widgets.made(held(widget("a")))
    first = (await widgets.delete("a")).good(200)
    assert (await widgets.delete("a")).good(200) == first


@pytest.mark.parametrize("how", ["merge patch", "JSON patch", "update"])
async def test_an_object_goes_with_its_last_finalizer(widgets: Collection, how: str) -> None:
    await widgets.made(held(widget("a"), HOLD, "example.com/other"))
    await widgets.delete("a")
    still = (await widgets.patch("a", {"metadata": {"finalizers": [HOLD]}})).good(200)
    assert still["metadata"]["finalizers"] == [HOLD]
    writes = {
        "merge patch": lambda: widgets.patch("a", {"metadata": {"finalizers": None}}),
        "JSON patch": lambda: widgets.patch(
            "a", [{"op": "remove", "path": "/metadata/finalizers"}], content_type=JSON_PATCH
        ),
        "update": lambda: widgets.put({**still, "metadata": {**still["metadata"], "finalizers": []}}),
    }
    last = (await writes[how]()).good(200)
    assert last["metadata"]["uid"] == still["metadata"]["uid"]
    (await widgets.get("a")).refused(404, "NotFound")


async def test_no_finalizer_comes_to_what_is_being_deleted(widgets: Collection) -> None:
    await widgets.made(held(widget("a")))
    await widgets.delete("a")
    refusal = (await widgets.patch("a", {"metadata": {"finalizers": [HOLD, "example.com/new"]}})).refused(
        422, "Invalid"
    )
    assert (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new "
        'finalizers []string{"example.com/new"}' in refusal["message"]
    )


async def test_what_is_being_deleted_can_still_be_changed(widgets: Collection) -> None:
    await widgets.made(held(widget("a")))
    await widgets.delete("a")
    assert (await widgets.patch("a", {"spec": {"size": 8}})).good(200)["spec"]["size"] == 8
    assert (await widgets.patch("a", {"status": {"phase": "Going"}}, "status")).good(200)["status"] == {
        "phase": "Going"
    }


async def test_what_is_being_deleted_cannot_come_back(widgets: Collection) -> None:
    await widgets.made(held(widget("a")))
    since = (await widgets.delete("a")).good()["metadata"]["deletionTimestamp"]
    answer = await widgets.patch("a", {"metadata": {"deletionTimestamp": None}})
    assert answer.status in (200, 422)
    assert (await widgets.got("a"))["metadata"]["deletionTimestamp"] == since


async def test_a_name_is_taken_until_its_object_is_gone(widgets: Collection) -> None:
    await widgets.made(held(widget("a")))
    await widgets.delete("a")
    refusal = (await widgets.create(widget("a"))).refused(409, "AlreadyExists")
    assert refusal["message"].startswith('object is being deleted: widgets.contract.multikueue.dev "a" already exists')


async def test_a_finalizer_must_be_a_qualified_name(widgets: Collection) -> None:
    refusal = (await widgets.create(held(widget("a"), "not a name"))).refused(422, "Invalid")
    assert refusal["details"]["causes"][0]["field"] == "metadata.finalizers"


async def test_a_finalizer_without_a_domain_is_refused_for_most_built_in_kinds(maps: Collection) -> None:
    (await maps.create(held(config_map("a"), "plain"))).refused(422, "Invalid")


async def test_a_finalizer_without_a_domain_is_taken_elsewhere(space: Space) -> None:
    await space.of("coordination.k8s.io/v1", "leases").made(held({"metadata": {"name": "a"}}, "plain"))
    answer = await space.widgets.create(held(widget("a"), "plain"))
    assert answer.good(201)["metadata"]["finalizers"] == ["plain"]
    assert answer.headers["Warning"].startswith('299 - "metadata.finalizers: \\"plain\\": prefer a domain-qualified')


async def test_a_finalizer_can_be_added_later(maps: Collection) -> None:
    await maps.made(config_map("a"))
    (await maps.patch("a", {"metadata": {"finalizers": [HOLD]}})).good(200)
    assert "deletionTimestamp" in (await maps.delete("a")).good(200)["metadata"]


async def test_foreground_deletion_waits_for_the_garbage_collector(maps: Collection) -> None:
    await maps.made(held(config_map("a")))
    answer = (await maps.delete("a", {"propagationPolicy": "Foreground"})).good(200)
    assert "foregroundDeletion" in answer["metadata"]["finalizers"]


async def test_orphaning_waits_for_the_garbage_collector(maps: Collection) -> None:
    await maps.made(held(config_map("a")))
    answer = (await maps.delete("a", propagationPolicy="Orphan")).good(200)
    assert "orphan" in answer["metadata"]["finalizers"]


async def test_an_unknown_propagation_is_refused(maps: Collection) -> None:
    await maps.made(config_map("a"))
    refusal = (await maps.delete("a", {"propagationPolicy": "Sideways"})).refused(422, "Invalid")
    assert "propagationPolicy" in refusal["message"]


async def test_what_holds_on_deletion_of_a_built_in_kind_comes_back_whole(space: Space) -> None:
    secrets = space.core("secrets")
    await secrets.made(held(secret("a")))
    assert (await secrets.delete("a")).good(200)["kind"] == "Secret"


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_a_job_goes_in_each_way(jobs: Collection, propagation: str) -> None:
    await jobs.made(job("a"))
    (await jobs.delete("a", {"propagationPolicy": propagation})).good(200)
    await jobs.gone("a")


async def test_a_pod_that_never_ran_goes_at_once_and_comes_back_whole(space: Space) -> None:
    pods = space.core("pods")
    await pods.made(pod("a"))
    answer = (await pods.delete("a")).good(200)
    assert answer["kind"] == "Pod"
    assert "deletionTimestamp" in answer["metadata"]
    (await pods.get("a")).refused(404, "NotFound")


async def test_a_whole_collection_is_deleted(maps: Collection) -> None:
    for name in "abc":
        await maps.made(config_map(name))
    answer = (await maps.clear()).good(200)
    assert answer["kind"] == "ConfigMapList"
    assert await maps.names() == []


async def test_of_a_collection_only_the_selected_are_deleted(widgets: Collection) -> None:
    for name in "abc":
        await widgets.made({**widget(name), "metadata": {"name": name, "labels": {"on": str(name != "b")}}})
    answer = (await widgets.clear(labelSelector="on=True")).good(200)
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "c"]
    assert await widgets.names() == ["b"]


async def test_deleting_a_collection_respects_finalizers(widgets: Collection) -> None:
    await widgets.made(held(widget("a")))
    await widgets.made(widget("b"))
    (await widgets.clear()).good(200)
    assert await widgets.names() == ["a"]
    assert "deletionTimestamp" in (await widgets.got("a"))["metadata"]


async def test_a_collection_over_all_namespaces_cannot_be_deleted(space: Space) -> None:
    everywhere = Collection(space.server, "/api/v1/configmaps")
    (await everywhere.clear()).refused(405, "MethodNotAllowed")


async def test_a_deletion_is_an_event_with_the_last_state_and_a_new_version(maps: Collection) -> None:
    made = await maps.made(config_map("a", key="value"))
    async with maps.watch(resourceVersion=made["metadata"]["resourceVersion"]) as events:
        await maps.delete("a")
        event = await events.next()
    assert (event.type, event.object["data"]) == ("DELETED", {"key": "value"})
    assert event.version > int(made["metadata"]["resourceVersion"])


async def test_options_may_come_as_query(maps: Collection) -> None:
    await maps.made(config_map("a"))
    (await maps.delete("a", gracePeriodSeconds="0", propagationPolicy="Background")).good(200)
    await maps.gone("a")


# --- garbage collection ----------------------------------------------------------------------------------------------


def owned(body: Object, *owners: Object, block: bool = False) -> Object:
    """The object as a dependent of owners."""
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **({"blockOwnerDeletion": True} if block else {}),
        }
        for owner in owners
    ]
    return {**body, "metadata": {**body["metadata"], "ownerReferences": references}}


async def test_what_an_owner_leaves_behind_is_collected(maps: Collection, widgets: Collection) -> None:
    owner = await widgets.made(widget("owner"))
    await maps.made(owned(config_map("child"), owner))
    await maps.made(config_map("other"))
    await widgets.delete("owner", {"propagationPolicy": "Background"})
    await maps.gone("child")
    await maps.got("other")


async def test_custom_objects_are_collected_through_generations(maps: Collection, widgets: Collection) -> None:
    grandparent = await maps.made(config_map("grandparent"))
    parent = await widgets.made(owned(widget("parent"), grandparent))
    await maps.made(owned(config_map("child"), parent))
    await maps.delete("grandparent", {"propagationPolicy": "Background"})
    await widgets.gone("parent")
    await maps.gone("child")


async def test_an_object_stays_while_one_of_its_owners_is_there(maps: Collection) -> None:
    owners = [await maps.made(config_map(name)) for name in ("one", "two")]
    await maps.made(owned(config_map("child"), *owners))
    await maps.made(owned(config_map("witness"), owners[0]))
    await maps.delete("one", {"propagationPolicy": "Background"})
    await maps.gone("witness")

    async def one_owner() -> bool:
        return [each["name"] for each in (await maps.got("child"))["metadata"]["ownerReferences"]] == ["two"]

    await eventually(one_owner)
    await maps.delete("two", {"propagationPolicy": "Background"})
    await maps.gone("child")


async def test_orphans_stay_and_lose_their_reference(maps: Collection) -> None:
    owner = await maps.made(config_map("owner"))
    await maps.made(owned(config_map("child"), owner))
    await maps.delete("owner", {"propagationPolicy": "Orphan"})
    await maps.gone("owner")
    assert "ownerReferences" not in (await maps.got("child"))["metadata"]


async def test_in_the_foreground_an_owner_goes_after_what_blocks_it(maps: Collection) -> None:
    owner = await maps.made(config_map("owner"))
    await maps.made(held(owned(config_map("child"), owner, block=True)))
    answer = (await maps.delete("owner", {"propagationPolicy": "Foreground"})).good(200)
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def going() -> bool:
        return "deletionTimestamp" in (await maps.got("child"))["metadata"]

    await eventually(going)
    await maps.got("owner")
    await maps.patch("child", {"metadata": {"finalizers": None}})
    await maps.gone("owner")


async def test_who_names_an_owner_that_was_never_there_is_collected(maps: Collection) -> None:
    owner = await maps.made(config_map("owner"))
    stranger = {**owner, "metadata": {**owner["metadata"], "uid": OTHER_UID}}
    await maps.made(owned(config_map("child"), stranger))
    await maps.gone("child")
    await maps.got("owner")


@pytest.mark.usefixtures("as_of_1_37")
@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        *((each, "", "Required value: must not be empty") for each in ("apiVersion", "kind", "name", "uid")),
        ("apiVersion", "a/b/c", 'Invalid value: "a/b/c": must be <group>/<version> or <version>'),
        ("apiVersion", "a/", 'Invalid value: "a/": must be <group>/<version> or <version>'),
    ],
)
async def test_an_owner_reference_needs_all_its_fields(maps: Collection, field: str, value: str, why: str) -> None:
    body = config_map("a")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": OTHER_UID}
    body["metadata"]["ownerReferences"] = [owner, {**owner, field: value}]
    refusal = (await maps.create(body)).refused(422, "Invalid")
    (cause,) = refusal["details"]["causes"]
    assert (cause["field"], cause["message"]) == (f"metadata.ownerReferences[1].{field}", why)


async def test_an_object_has_at_most_one_controller(maps: Collection) -> None:
    owners = [await maps.made(config_map(name)) for name in ("one", "two")]
    body = owned(config_map("child"), *owners)
    for each in body["metadata"]["ownerReferences"]:
        each["controller"] = True
    refusal = (await maps.create(body)).refused(422, "Invalid")
    assert "Only one reference can have Controller set to true" in refusal["message"]


async def test_a_job_deleted_without_a_word_leaves_its_pods(jobs: Collection, space: Space) -> None:
    owner = await jobs.made(job("a"))
    pods = space.core("pods")
    await pods.made(owned(pod("child"), owner))
    answer = await jobs.delete("a")
    assert answer.good(200)["metadata"]["finalizers"] == ["orphan"]
    assert "child pods are preserved by default when jobs are deleted" in answer.headers["Warning"]
    await jobs.gone("a")
    assert "ownerReferences" not in (await pods.got("child"))["metadata"]


async def test_the_pods_of_a_job_go_with_it(jobs: Collection, space: Space) -> None:
    owner = await jobs.made(job("a"))
    pods = space.core("pods")
    await pods.made(owned(pod("child"), owner))
    await jobs.delete("a", {"propagationPolicy": "Background"})
    await pods.gone("child")
