"""Objects come, are read, change and go."""

from __future__ import annotations

import re

import pytest

from tests.contract.builders import config_map, gadget, globe, unique, widget
from tests.contract.server import Object, Server
from tests.contract.space import MERGE, Collection, Space

pytestmark = pytest.mark.anyio

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


async def test_a_created_object_is_answered_with_what_the_server_added(maps: Collection, space: Space) -> None:
    answer = await maps.create(config_map("a", {"app": "x"}, key="value"))
    made = answer.good(201)
    metadata = made.pop("metadata")
    assert made == {"kind": "ConfigMap", "apiVersion": "v1", "data": {"key": "value"}}
    assert metadata.pop("managedFields")
    assert UID.fullmatch(metadata.pop("uid"))
    assert int(metadata.pop("resourceVersion")) > 0
    assert TIME.fullmatch(metadata.pop("creationTimestamp"))
    assert metadata == {"name": "a", "namespace": space.namespace, "labels": {"app": "x"}}


async def test_what_was_created_is_read_back_alike(maps: Collection) -> None:
    made = await maps.made(config_map("a", key="value"))
    assert await maps.got("a") == made


async def test_a_namespaced_object_is_read_by_its_namespace_only(server: Server, maps: Collection) -> None:
    await maps.made(config_map("a"))
    elsewhere = Collection(server, "/api/v1/namespaces/default/configmaps")
    (await elsewhere.get("a")).refused(404, "NotFound")


async def test_a_second_create_says_that_it_exists(maps: Collection) -> None:
    await maps.made(config_map("a"))
    refusal = (await maps.create(config_map("a"))).refused(409, "AlreadyExists")
    assert refusal["message"] == 'configmaps "a" already exists'
    assert refusal["details"] == {"name": "a", "kind": "configmaps"}
    assert refusal["metadata"] == {}


async def test_a_second_create_of_a_custom_object_names_its_group(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    refusal = (await widgets.create(widget("a"))).refused(409, "AlreadyExists")
    assert refusal["message"] == 'widgets.contract.multikueue.dev "a" already exists'
    assert refusal["details"] == {"name": "a", "group": "contract.multikueue.dev", "kind": "widgets"}


async def test_a_generated_name_begins_as_asked(maps: Collection) -> None:
    body = {"metadata": {"generateName": "some-"}}
    names = {(await maps.made(body))["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"some-[a-z0-9]{5}", name) for name in names)


async def test_a_generated_name_stays_known_as_such(widgets: Collection) -> None:
    made = await widgets.made({**widget(""), "metadata": {"generateName": "some-"}})
    assert made["metadata"]["generateName"] == "some-"


async def test_a_name_given_goes_before_one_to_generate(maps: Collection) -> None:
    made = await maps.made({"metadata": {"name": "given", "generateName": "some-"}})
    assert made["metadata"]["name"] == "given"


async def test_an_object_without_any_name_is_refused(maps: Collection) -> None:
    refusal = (await maps.create({"metadata": {}})).refused(422, "Invalid")
    assert refusal["message"] == (
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )
    assert refusal["details"]["causes"] == [
        {
            "reason": "FieldValueRequired",
            "message": "Required value: name or generateName is required",
            "field": "metadata.name",
        }
    ]


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "dot.", "a" * 254], ids=lambda name: name[:12])
async def test_a_name_that_is_no_dns_name_is_refused(maps: Collection, name: str) -> None:
    refusal = (await maps.create(config_map(name))).refused(422, "Invalid")
    assert refusal["message"].startswith(f'ConfigMap "{name}" is invalid: metadata.name: Invalid value: "{name}": ')
    assert refusal["details"]["causes"][0]["field"] == "metadata.name"


async def test_body_and_path_must_name_the_same_namespace(maps: Collection) -> None:
    body = config_map("a")
    body["metadata"]["namespace"] = "default"
    refusal = (await maps.create(body)).refused(400, "BadRequest")
    assert refusal["message"] == "the namespace of the provided object does not match the namespace sent on the request"


async def test_body_and_path_must_name_the_same_object(maps: Collection) -> None:
    made = await maps.made(config_map("a"))
    refusal = (await maps.put(made, name="b")).refused(400, "BadRequest")
    assert refusal["message"] == "the name of the object (a) does not match the name on the URL (b)"


async def test_an_object_of_another_kind_is_refused(maps: Collection) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    (await maps.create(body)).refused(400, "BadRequest")


async def test_an_object_of_another_group_is_refused(widgets: Collection) -> None:
    body = {**widget("a"), "apiVersion": "batch/v1"}
    (await widgets.create(body)).refused(400, "BadRequest")


async def test_kind_and_version_may_be_left_out_of_built_in_kinds(maps: Collection) -> None:
    made = await maps.made({"metadata": {"name": "a"}, "data": {"k": "v"}})
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")


async def test_what_is_no_json_is_refused(server: Server, maps: Collection) -> None:
    (await server.call("POST", maps.path, body=b"{nonsense")).refused(400, "BadRequest")


async def test_a_body_may_be_yaml(server: Server, maps: Collection) -> None:
    text = b"metadata:\n  name: a\ndata:\n  key: 'value'\n"
    made = (await server.call("POST", maps.path, body=text, content_type="application/yaml")).good(201)
    assert made["data"] == {"key": "value"}


async def test_a_body_of_another_type_is_refused(server: Server, maps: Collection) -> None:
    answer = await server.call("POST", maps.path, body=b"<map/>", content_type="text/xml")
    answer.refused(415, "UnsupportedMediaType")


async def test_what_is_not_there_is_not_found(maps: Collection) -> None:
    refusal = (await maps.get("nothing")).refused(404, "NotFound")
    assert refusal["message"] == 'configmaps "nothing" not found'
    assert refusal["details"] == {"name": "nothing", "kind": "configmaps"}


async def test_a_custom_object_that_is_not_there_is_not_found(widgets: Collection) -> None:
    refusal = (await widgets.get("nothing")).refused(404, "NotFound")
    assert refusal["message"] == 'widgets.contract.multikueue.dev "nothing" not found'
    assert refusal["details"] == {"name": "nothing", "group": "contract.multikueue.dev", "kind": "widgets"}


@pytest.mark.parametrize(
    "path",
    [
        "/apis/contract.multikueue.dev/v1/nothings",
        "/apis/contract.multikueue.dev/v9/widgets",
        "/apis/contract.multikueue.dev/v1alpha1/widgets",
        "/apis/nobody.example.com/v1/things",
        "/api/v2/pods",
        "/nowhere",
    ],
    ids=["kind", "version", "version not served", "group", "core version", "path"],
)
async def test_what_no_server_has_is_not_found(server: Server, path: str) -> None:
    answer = await server.call("GET", path)
    assert answer.status == 404


async def test_a_path_that_leads_nowhere_is_told_in_plain_text(server: Server) -> None:
    answer = await server.call("GET", "/apis/nobody.example.com/v1/things")
    assert (answer.status, answer.body) == (404, "404 page not found\n")


async def test_a_kind_that_a_version_does_not_have_is_told_in_a_status(server: Server) -> None:
    refusal = (await server.call("GET", "/api/v1/namespaces/default/nothings")).refused(404, "NotFound")
    assert refusal["message"] == "the server could not find the requested resource"


async def test_an_update_replaces_all_but_what_the_server_owns(maps: Collection) -> None:
    made = await maps.made(config_map("a", {"app": "x"}, key="value"))
    updated = (await maps.put(config_map("a", other="value"))).good(200)
    assert updated["data"] == {"other": "value"}
    assert "labels" not in updated["metadata"]
    for name in ("uid", "creationTimestamp", "name", "namespace"):
        assert updated["metadata"][name] == made["metadata"][name]
    assert int(updated["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_an_update_cannot_move_what_the_server_owns(maps: Collection) -> None:
    made = await maps.made(config_map("a"))
    body = config_map("a", key="value")
    body["metadata"] |= {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    updated = (await maps.put(body)).good(200)
    assert updated["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert "generation" not in updated["metadata"]


async def test_a_new_object_has_no_version_yet(maps: Collection) -> None:
    body = config_map("a")
    body["metadata"]["resourceVersion"] = "7"
    refusal = (await maps.create(body)).refused(500, "")
    assert refusal["message"] == "resourceVersion should not be set on objects to be created"


async def test_a_new_object_gets_a_uid_of_its_own(maps: Collection) -> None:
    body = config_map("a")
    body["metadata"]["uid"] = "11111111-2222-4333-8444-555555555555"
    assert (await maps.made(body))["metadata"]["uid"] != body["metadata"]["uid"]


async def test_what_comes_again_under_a_name_is_another_object(maps: Collection) -> None:
    first = await maps.made(config_map("a"))
    await maps.delete("a")
    second = await maps.made(config_map("a"))
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_built_in_kinds_that_allow_it_are_created_by_an_update(space: Space) -> None:
    leases = space.of("coordination.k8s.io/v1", "leases")
    made = await leases.put({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}})
    made.good(201)


@pytest.mark.parametrize("kind", ["maps", "widgets"])
async def test_an_update_of_nothing_is_not_found(space: Space, kind: str) -> None:
    bodies: dict[str, Object] = {"maps": config_map("a"), "widgets": widget("a")}
    collection: Collection = getattr(space, kind)
    (await collection.put(bodies[kind])).refused(404, "NotFound")


async def test_deleting_answers_with_success_and_the_uid(maps: Collection) -> None:
    made = await maps.made(config_map("a"))
    answer = (await maps.delete("a")).good(200)
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
    (await maps.get("a")).refused(404, "NotFound")


async def test_deleting_nothing_is_not_found(maps: Collection) -> None:
    refusal = (await maps.delete("nothing")).refused(404, "NotFound")
    assert refusal["message"] == 'configmaps "nothing" not found'


async def test_a_method_that_makes_no_sense_is_refused(server: Server, maps: Collection) -> None:
    answer = await server.call("PUT", maps.path, body=config_map("a"))
    answer.refused(405, "MethodNotAllowed")


async def test_cluster_scoped_objects_have_no_namespace(server: Server) -> None:
    globes = Collection(server, "/apis/contract.multikueue.dev/v1/globes")
    name = unique("globe")
    made = await globes.made(globe(name, size=1))
    assert "namespace" not in made["metadata"]
    assert await globes.got(name) == made


async def test_a_cluster_scoped_kind_is_not_served_in_a_namespace(space: Space) -> None:
    assert (await space.of("contract.multikueue.dev/v1", "globes").list()).status == 404


async def test_an_object_needs_a_namespace_that_is_there(server: Server) -> None:
    maps = Collection(server, "/api/v1/namespaces/nowhere-at-all/configmaps")
    refusal = (await maps.create(config_map("a"))).refused(404, "NotFound")
    assert refusal["message"] == 'namespaces "nowhere-at-all" not found'
    assert refusal["details"] == {"name": "nowhere-at-all", "kind": "namespaces"}


async def test_reading_a_namespace_that_is_not_there_finds_nothing(server: Server) -> None:
    maps = Collection(server, "/api/v1/namespaces/nowhere-at-all/configmaps")
    assert await maps.names() == []
    (await maps.get("a")).refused(404, "NotFound")


@pytest.mark.parametrize("method", ["create", "update", "patch", "apply", "delete"])
async def test_a_dry_run_answers_as_if_and_changes_nothing(maps: Collection, method: str) -> None:
    made = await maps.made(config_map("old", key="old"))
    body = config_map("old", key="new")
    calls = {
        "create": lambda: maps.create(config_map("new", key="new"), dryRun="All"),
        "update": lambda: maps.put(body, dryRun="All"),
        "patch": lambda: maps.patch("old", {"data": {"key": "new"}}, content_type=MERGE, dryRun="All"),
        "apply": lambda: maps.apply(body, force=True, dryRun="All"),
        "delete": lambda: maps.delete("old", dryRun="All"),
    }
    answer = (await calls[method]()).good()
    assert method == "delete" or answer["data"] == {"key": "new"}
    assert await maps.got("old") == made
    assert "new" not in await maps.names()


async def test_a_dry_run_of_another_kind_is_refused(maps: Collection) -> None:
    refusal = (await maps.create(config_map("a"), dryRun="Some")).refused(422, "Invalid")
    assert "dryRun" in refusal["message"]


async def test_a_dry_run_refuses_what_would_be_refused(maps: Collection) -> None:
    await maps.made(config_map("a"))
    (await maps.create(config_map("a"), dryRun="All")).refused(409, "AlreadyExists")


async def test_unknown_fields_of_a_built_in_kind_are_dropped(maps: Collection) -> None:
    made = await maps.made({**config_map("a", key="value"), "unknown": {"deep": 1}})
    assert "unknown" not in made


async def test_unknown_fields_are_refused_when_validation_is_strict(maps: Collection) -> None:
    body = {**config_map("a", key="value"), "unknown": 1}
    refusal = (await maps.create(body, fieldValidation="Strict")).refused(400, "BadRequest")
    assert refusal["message"] == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "unknown"'
    )


async def test_unknown_fields_of_a_custom_kind_are_refused_when_validation_is_strict(widgets: Collection) -> None:
    refusal = (await widgets.create(widget("a", unknown=1), fieldValidation="Strict")).refused(400, "BadRequest")
    assert 'unknown field "spec.unknown"' in refusal["message"]


async def test_anything_goes_where_a_schema_lets_it(space: Space) -> None:
    gadgets = space.gadgets
    made = await gadgets.made(gadget("a", anything={"deep": [1, {"x": None}]}, status={"ready": True}))
    assert made["anything"] == {"deep": [1, {"x": None}]}
    assert made["status"] == {"ready": True}


async def test_a_namespace_of_a_cluster_scoped_object_is_dropped(server: Server) -> None:
    body = globe(unique("globe"))
    body["metadata"]["namespace"] = "default"
    made = await Collection(server, "/apis/contract.multikueue.dev/v1/globes").made(body)
    assert "namespace" not in made["metadata"]


async def test_a_namespaced_object_is_not_created_outside_of_one(server: Server) -> None:
    body = widget("a")
    body["metadata"]["namespace"] = "default"
    everywhere = Collection(server, "/apis/contract.multikueue.dev/v1/widgets")
    assert (await everywhere.create(body)).status == 404


async def test_a_subresource_that_nobody_has_is_not_found(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    assert (await widgets.get("a", "nothing")).status == 404
    assert (await widgets.patch("a", {}, "nothing")).status == 404


async def test_a_status_is_not_created_or_deleted(server: Server, widgets: Collection) -> None:
    made = await widgets.made(widget("a"))
    for method in ("POST", "DELETE"):
        answer = await server.call(method, widgets.item("a", "status"), body=made)
        answer.refused(405, "MethodNotAllowed")
