"""How clients find out what there is."""

from __future__ import annotations

import pytest

from tests.contract.builders import GROUP, GROUP_VERSION, define, definition, structure, unique, version
from tests.contract.server import Object, Server
from tests.contract.space import Collection, Space, eventually

pytestmark = pytest.mark.anyio

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KUBECTL = f"{AGGREGATED},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

EVERYTHING = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}


async def read(server: Server, path: str) -> Object:
    return (await server.call("GET", path)).good(200)


async def resources(server: Server, group_version: str) -> dict[str, Object]:
    """What a group list says, by name."""
    listed = await read(server, f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}")
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", group_version)
    return {each["name"]: each for each in listed["resources"]}


@pytest.mark.usefixtures("as_of_1_37")
async def test_the_version_is_told(server: Server) -> None:
    told = await read(server, "/version")
    assert (told["major"], told["minor"]) == ("1", "37")
    assert told["gitVersion"].startswith("v1.37.")


async def test_the_core_versions_are_listed(server: Server) -> None:
    listed = await read(server, "/api")
    assert (listed["kind"], listed["versions"]) == ("APIVersions", ["v1"])


async def test_the_groups_are_listed_with_their_versions(server: Server) -> None:
    listed = await read(server, "/apis")
    assert (listed["kind"], listed["apiVersion"]) == ("APIGroupList", "v1")
    groups = {each["name"]: each for each in listed["groups"]}
    needed = {"batch", "coordination.k8s.io", "apiextensions.k8s.io", "authorization.k8s.io", "events.k8s.io", GROUP}
    assert needed <= set(groups)
    assert groups[GROUP] == {
        "name": GROUP,
        "versions": [
            {"groupVersion": f"{GROUP}/v1", "version": "v1"},
            {"groupVersion": f"{GROUP}/v1beta1", "version": "v1beta1"},
        ],
        "preferredVersion": {"groupVersion": f"{GROUP}/v1", "version": "v1"},
    }


async def test_a_group_tells_of_itself(server: Server) -> None:
    told = await read(server, f"/apis/{GROUP}")
    assert (told["kind"], told["name"]) == ("APIGroup", GROUP)
    assert [each["version"] for each in told["versions"]] == ["v1", "v1beta1"]


async def test_a_version_lists_the_kinds_of_a_definition(server: Server) -> None:
    listed = await resources(server, GROUP_VERSION)
    widgets = listed["widgets"]
    assert {name: widgets[name] for name in ("singularName", "namespaced", "kind", "shortNames", "categories")} == {
        "singularName": "widget",
        "namespaced": True,
        "kind": "Widget",
        "shortNames": ["wd"],
        "categories": ["contract"],
    }
    assert set(widgets["verbs"]) == EVERYTHING
    assert set(listed["widgets/status"]["verbs"]) == {"get", "patch", "update"}
    scale = listed["widgets/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert "gadgets/status" not in listed
    assert listed["globes"]["namespaced"] is False


async def test_a_version_that_is_not_served_lists_nothing(server: Server) -> None:
    assert (await server.call("GET", f"/apis/{GROUP}/v1alpha1")).status == 404
    assert (await server.call("GET", "/apis/nobody.example.com/v1")).status == 404
    assert (await server.call("GET", "/apis/nobody.example.com")).status == 404


BUILT_IN: dict[str, dict[str, list[str] | None]] = {
    "v1": {
        "configmaps": ["cm"],
        "namespaces": ["ns"],
        "pods": ["po"],
        "secrets": None,
        "events": ["ev"],
        "nodes": ["no"],
    },
    "batch/v1": {"jobs": None},
    "coordination.k8s.io/v1": {"leases": None},
    "events.k8s.io/v1": {"events": ["ev"]},
    "apiextensions.k8s.io/v1": {"customresourcedefinitions": ["crd", "crds"]},
    "scheduling.k8s.io/v1": {"priorityclasses": ["pc"]},
    "admissionregistration.k8s.io/v1": {
        "mutatingwebhookconfigurations": None,
        "validatingwebhookconfigurations": None,
    },
}


@pytest.mark.parametrize("group_version", BUILT_IN)
async def test_built_in_kinds_are_listed(server: Server, group_version: str) -> None:
    listed = await resources(server, group_version)
    for plural, short_names in BUILT_IN[group_version].items():
        assert listed[plural].get("shortNames") == short_names
        assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(listed[plural]["verbs"])


async def test_reviews_can_only_be_created(server: Server) -> None:
    listed = await resources(server, "authorization.k8s.io/v1")
    for plural in ("selfsubjectaccessreviews", "subjectaccessreviews", "selfsubjectrulesreviews"):
        assert listed[plural]["verbs"] == ["create"]


async def test_the_statuses_of_built_in_kinds_are_listed(server: Server) -> None:
    assert set((await resources(server, "batch/v1"))["jobs/status"]["verbs"]) == {"get", "patch", "update"}
    assert "namespaces/finalize" in await resources(server, "v1")


async def test_everything_is_discovered_at_once(server: Server) -> None:
    answer = await server.call("GET", "/apis", accept=KUBECTL)
    found = answer.good(200)
    assert answer.headers["Content-Type"] == AGGREGATED
    assert (found["kind"], found["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    ours = next(each for each in found["items"] if each["metadata"]["name"] == GROUP)
    assert [(each["version"], each["freshness"]) for each in ours["versions"]] == [
        ("v1", "Current"),
        ("v1beta1", "Current"),
    ]
    widgets = next(each for each in ours["versions"][0]["resources"] if each["resource"] == "widgets")
    assert set(widgets.pop("verbs")) == EVERYTHING
    subresources = {each["subresource"]: each["responseKind"]["kind"] for each in widgets.pop("subresources")}
    assert subresources == {"status": "Widget", "scale": "Scale"}
    assert widgets == {
        "resource": "widgets",
        "responseKind": {"group": GROUP, "version": "v1", "kind": "Widget"},
        "scope": "Namespaced",
        "singularResource": "widget",
        "shortNames": ["wd"],
        "categories": ["contract"],
    }


async def test_the_core_kinds_are_discovered_at_once(server: Server) -> None:
    found = (await server.call("GET", "/api", accept=KUBECTL)).good(200)
    [core] = found["items"]
    [version] = core["versions"]
    assert version["version"] == "v1"
    by_name = {each["resource"]: each for each in version["resources"]}
    assert by_name["pods"]["shortNames"] == ["po"]
    assert by_name["namespaces"]["scope"] == "Cluster"
    assert by_name["configmaps"]["responseKind"]["kind"] == "ConfigMap"


async def test_the_index_of_schemas_names_each_version(server: Server) -> None:
    paths = (await read(server, "/openapi/v3"))["paths"]
    assert {"api/v1", "apis/batch/v1", f"apis/{GROUP_VERSION}"} <= set(paths)
    assert paths["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")


async def schema_of(server: Server, group_version: str, kind: str) -> Object:
    """The schema of a kind by its marker, as `kubectl explain` looks for it."""
    root = "apis" if "/" in group_version else "api"
    document = await read(server, f"/openapi/v3/{root}/{group_version}")
    group, _, version = group_version.rpartition("/")
    marker = {"group": group, "version": version, "kind": kind}
    schemas = document["components"]["schemas"].values()
    found: Object = next(each for each in schemas if marker in each.get("x-kubernetes-group-version-kind", []))
    return found


async def test_the_schema_of_a_custom_kind_is_that_of_its_definition(server: Server) -> None:
    schema = await schema_of(server, GROUP_VERSION, "Widget")
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert schema["properties"]["spec"]["properties"]["mode"]["enum"] == ["Fast", "Slow"]
    assert schema["properties"]["spec"]["properties"]["parts"]["x-kubernetes-list-map-keys"] == ["name"]


@pytest.mark.parametrize(("group_version", "kind"), [("v1", "ConfigMap"), ("batch/v1", "Job"), ("v1", "Pod")])
async def test_built_in_kinds_have_schemas(server: Server, group_version: str, kind: str) -> None:
    schema = await schema_of(server, group_version, kind)
    assert {"apiVersion", "kind", "metadata"} <= set(schema["properties"])


async def test_schemas_name_the_path_of_each_kind(server: Server) -> None:
    """kubectl looks there for what an apply may say (validation of fields, dry runs)."""
    paths = (await read(server, f"/openapi/v3/apis/{GROUP_VERSION}"))["paths"]
    assert f"/apis/{GROUP_VERSION}/namespaces/{{namespace}}/widgets/{{name}}" in paths


async def test_there_are_schemas_of_the_second_version_too(server: Server) -> None:
    assert (await read(server, "/openapi/v2"))["swagger"] == "2.0"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_a_server_says_that_it_is_well(server: Server, path: str) -> None:
    answer = await server.call("GET", path)
    assert (answer.status, answer.body) == (200, "ok")


async def test_a_new_kind_is_discovered_and_a_removed_one_is_not(server: Server, space: Space) -> None:
    group = f"{unique('group')}.multikueue.dev"
    await define(server, definition("Thing", version("v1", structure()), group=group))
    await eventually(lambda: is_listed(server, group))
    things = space.of(f"{group}/v1", "things")
    await things.made({"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "a"}})
    definitions = Collection(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    (await definitions.delete(f"things.{group}")).good(200)

    async def gone() -> bool:
        return not await is_listed(server, group) and (await things.list()).status == 404

    await eventually(gone)


async def is_listed(server: Server, group: str) -> bool:
    return group in {each["name"] for each in (await read(server, "/apis"))["groups"]}
