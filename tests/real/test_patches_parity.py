"""The sandbox's patches and managed fields against the real API server's: one file, a table of patches.

Managers send random requests to objects of a kind of ours that has every type of list and map, and to built-in kinds.
Each answer is compared with what the sandbox makes of the same request and the same object before it: the object, the
owners of its fields, whether anything was written at all, and the words of a refusal.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from fakekube.model.wire import Refused
from fakekube.server.patching import managed, patches
from testbed.bed import Testbed, unique
from testbed.client import ApiError, Client, Kind, eventually
from tests.fakekube.gadgets import CRD, GROUP, VERSIONS
from tests.real.dialect import served, spoken
from tests.real.patch_authors import (
    APPLY,
    JSON_PATCH,
    MERGE,
    PUT,
    STRATEGIC,
    Author,
    Deployer,
    Object,
    Place,
    Request,
    gadget,
)
from tests.real.skipping import needs_programs

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(120),
    needs_programs("its judge is a real API server"),
]


def ours(live: Object | None, request: Request, place: Place, now: datetime) -> Object:
    """The object as the sandbox makes it; what the server sets by itself it takes over."""
    how: dict[str, Any] = {
        "manager": request.manager,
        "api_version": place.api_version,
        "subresource": request.subresource,
        "now": now,
        "schema": place.schema,
        "resets": resets(request, place),
    }
    if request.type == APPLY:
        new = decoded(managed.apply(live, request.body, force=request.force, **how), place)
    elif live is None:
        new = managed.track(None, decoded(request.body, place), **how)
    else:
        new = managed.track(live, decoded(patched(live, request, place), place), **how)
    return isolated(live, new, request, place)


def resets(request: Request, place: Place) -> tuple[str, ...] | None:
    """What the server puts back, None where that goes without saying."""
    if not request.subresource:
        return place.resets
    return ("spec", "metadata") if place.custom and served("a status owns no metadata") else None


def patched(live: Object, request: Request, place: Place) -> Object:
    match request.type:
        case "application/merge-patch+json":
            return patches.merge_patch(live, request.body)
        case "application/json-patch+json":
            return patches.json_patch(live, request.body)
        case "application/strategic-merge-patch+json":
            return patches.strategic_merge(live, request.body, place.schema)
    new: Object = request.body
    return {**new, "metadata": {**system(live), **new["metadata"]}}


def system(live: Object) -> Object:
    names = ("uid", "creationTimestamp", "generation", "resourceVersion")
    return {name: live["metadata"][name] for name in names if name in live["metadata"]}


def decoded(obj: Object, place: Place) -> Object:
    """As the server decodes it: defaults are there, and what is empty in the metadata is not."""
    if not place.custom:
        return without_empty(obj, ("labels", "annotations", "data", "nodeSelector"))  # type: ignore[no-any-return]
    metadata = {name: value for name, value in obj["metadata"].items() if value not in ({}, [])}
    obj = {**obj, "metadata": metadata}
    if ports := obj.get("spec", {}).get("ports"):
        obj["spec"] = {**obj["spec"], "ports": [{"protocol": "TCP"} | port for port in ports]}
    return obj


def without_empty(value: Any, maps: Collection[str]) -> Any:
    """Types of built-in kinds leave out what is empty: lists, and some maps."""
    if isinstance(value, list):
        return [without_empty(item, maps) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {
        name: part
        for name, part in value.items()
        if name == "managedFields" or (part != [] and not (name in maps and part == {}))
    }
    return {name: part if name == "managedFields" else without_empty(part, maps) for name, part in kept.items()}


def isolated(live: Object | None, new: Object, request: Request, place: Place) -> Object:
    """As the server does it after it has counted the owners. What is not written at all is the live object."""
    old = live or {}
    if request.subresource:
        entries = new["metadata"].get("managedFields")
        metadata = new["metadata"] if not place.custom else {**old["metadata"], "managedFields": entries}
        new = replaced({**old, "metadata": metadata}, "status", new)
        if not entries:
            new["metadata"] = {name: value for name, value in metadata.items() if name != "managedFields"}
    elif place.has_status:
        new = replaced(new, "status", old)
    return managed.settled(old, new) if old else new


def replaced(obj: Object, name: str, other: Object) -> Object:
    """With a field as another object has it, if it has."""
    rest = {key: value for key, value in obj.items() if key != name}
    return {**rest, name: other[name]} if name in other else rest


def comparable(obj: Object) -> Object:
    """Without what differs by nature; owners as a table, with whether a time is known."""
    hidden = ("uid", "creationTimestamp", "generation", "resourceVersion", "managedFields")
    metadata = {name: value for name, value in obj["metadata"].items() if name not in hidden}
    owners = {}
    for entry in obj["metadata"].get("managedFields") or []:
        who = (entry["manager"], entry["operation"], entry["apiVersion"], entry.get("subresource", ""))
        assert entry["fieldsType"] == "FieldsV1"
        owners[who] = (entry["fieldsV1"], "time" in entry)
    rest = {name: value for name, value in obj.items() if name not in ("metadata", "apiVersion")}
    return {**rest, "metadata": metadata, "owners": owners}


def refusal(code: int, reason: str, message: str) -> Object:
    return {"code": code, "reason": reason, "message": message}


def refuses_null(answer: Object) -> bool:
    return answer.get("code") == 422 and 'Invalid value: "null"' in answer["message"]


async def compare(client: Client, live: Object | None, request: Request, place: Place) -> Object | None:
    """Send it; returns the object after it. Fails where the two differ."""
    note = json.dumps({"live": live, "request": request.__dict__}, default=str)
    began = datetime.now(UTC)
    theirs, after = await theirs_of(client, live, request, place)
    within_a_second = began.replace(microsecond=0) == datetime.now(UTC).replace(microsecond=0)
    try:
        made = ours(live, request, place, began)
        mine = comparable(made)
    except Refused as error:
        mine, made = refusal(error.code, error.reason, error.message), live or {}
    if theirs.get("message", "").startswith("Deployment"):
        return after  # its validation is none of our business here
    if refuses_null(theirs) and request.type == APPLY and spoken("what is emptied is null"):
        return after
    assert mine == theirs, note
    if live is not None and after is not None and within_a_second:  # otherwise owners may be sorted differently
        written = after["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]
        assert written == (made is not live), f"written: {written}, {note}"
    return after


async def settled(client: Client, place: Place) -> Object:
    """The object, after a patch that changes nothing: an apply may have left empty maps in the metadata as it is stored,
    which are not shown, and go with the next write.
    """
    live: Object = json.loads(await client.request("PATCH", place.path, body={}, content_type=MERGE))
    return live


async def theirs_of(
    client: Client, live: Object | None, request: Request, place: Place
) -> tuple[Object, Object | None]:
    path = place.path + (f"/{request.subresource}" if request.subresource else "")
    verb = "PATCH"
    if request.type == PUT:
        verb, path = ("POST", path.rpartition("/")[0]) if live is None else ("PUT", path)
    try:
        answer = await client.request(verb, path, body=request.body, query=request.query, content_type=request.type)
    except ApiError as error:
        return refusal(error.status, error.reason, error.message), live
    after: Object = json.loads(answer)
    return comparable(after), after


SCHEMAS: dict[tuple[str, str], Object] = {}
"""Those that were asked for."""


async def schema_of(client: Client, api_version: str, name: str) -> Object:
    """The schema of a built-in kind as the real server publishes it, with all that it refers to in it."""
    if (api_version, name) in SCHEMAS:
        return SCHEMAS[api_version, name]
    root = f"api/{api_version}" if api_version == "v1" else f"apis/{api_version}"
    schemas = json.loads(await client.request("GET", f"/openapi/v3/{root}"))["components"]["schemas"]

    def inlined(schema: Any) -> Any:
        if isinstance(schema, list):
            return [inlined(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        for reference in (schema, *schema.get("allOf", [])):
            if "$ref" in reference:
                found = inlined(schemas[reference["$ref"].rpartition("/")[2]])
                return found | {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        return {key: inlined(value) for key, value in schema.items()}

    SCHEMAS[api_version, name] = inlined(schemas[name])
    return SCHEMAS[api_version, name]


@pytest.fixture(scope="module")
async def client(anyio_backend: str, bed: Testbed) -> AsyncIterator[Client]:
    async with bed.manager.client() as client:
        await client.apply(CRD)
        await eventually(lambda: is_established(client), timeout=30)
        yield client


async def is_established(client: Client) -> bool:
    body = await client.get(Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"), f"gadgets.{GROUP}")
    conditions = body.get("status", {}).get("conditions") or []
    assert ("Established", "True") in [(each["type"], each["status"]) for each in conditions]
    for version in VERSIONS:
        try:
            await client.request("GET", f"/apis/{GROUP}/{version}/gadgets")
        except ApiError as error:  # 404, 429: not ready yet
            raise AssertionError(version) from error
    return True


@pytest.fixture(scope="module")
async def namespace(client: Client) -> str:
    name = unique("parity")
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture(scope="module")
async def owners(client: Client, namespace: str) -> list[Object]:
    bodies = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": n, "namespace": namespace}} for n in "ab"]
    return [await client.create(body) for body in bodies]


@pytest.mark.parametrize("seed", range(8))
async def test_managers_of_a_custom_kind_meet_as_on_the_real_server(
    client: Client, namespace: str, owners: Sequence[Object], seed: int
) -> None:
    author = Author(seed, namespace, f"gadget-{seed}", owners)
    place = gadget(namespace, f"gadget-{seed}")
    first = author.random.choice([APPLY, PUT])
    await compare(client, None, Request("alice", first, author.whole("v1")), place)
    for _ in range(40):
        live = await settled(client, place)
        request = author.request(live)
        await compare(client, live, request, gadget(namespace, f"gadget-{seed}", request.version))


@pytest.mark.parametrize("seed", range(3))
async def test_a_deployment_is_patched_as_on_the_real_server(client: Client, namespace: str, seed: int) -> None:
    name = f"deployment-{seed}"
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    place = Place(path, "apps/v1", await schema_of(client, "apps/v1", "io.k8s.api.apps.v1.Deployment"))
    deployer = Deployer(seed, namespace, name)
    await client.request("POST", path.rpartition("/")[0], body=deployer.first(), query={"fieldManager": "alice"})
    for _ in range(30):
        live = json.loads(await client.request("GET", place.path))
        await compare(client, live, deployer.request(live), place)


def applying(spec: Any, **more: Any) -> Object:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "spec": spec} | more


REFUSED_BY_GADGETS: dict[str, tuple[str, Any]] = {
    "operations are a list": (JSON_PATCH, {"op": "add"}),
    "operations are objects": (JSON_PATCH, ["add"]),
    "a path is a text": (JSON_PATCH, [{"op": "add", "path": 1, "value": 1}]),
    "an operation has a path": (JSON_PATCH, [{"op": "add", "value": 1}]),
    "an operation is known": (JSON_PATCH, [{"op": "increase", "path": "/spec/size"}]),
    "a test has a value": (JSON_PATCH, [{"op": "test", "path": "/spec/color"}]),
    "a test fails": (JSON_PATCH, [{"op": "test", "path": "/spec/color", "value": "b"}]),
    "what is removed is there": (JSON_PATCH, [{"op": "remove", "path": "/spec/size"}]),
    "what is copied is there": (JSON_PATCH, [{"op": "copy", "from": "/x/y", "path": "/spec/color"}]),
    "an index is in the list": (JSON_PATCH, [{"op": "add", "path": "/spec/steps/7", "value": "x"}]),
    "operations are not too many": (JSON_PATCH, [{"op": "test", "path": "/spec/color", "value": "a"}] * 10_001),
    "a merge patch is an object": (MERGE, ["x"]),
    "a merge patch is no text": (MERGE, "x"),
    "an applied field is known": (APPLY, applying({"unheard": 1})),
    "an applied field below is known": (APPLY, applying({"parts": {"inner": {"y": 1}}})),
    "an applied field of an item is known": (APPLY, applying({"ports": [{"number": 1, "z": 1}]})),
    "an applied text is one": (APPLY, applying({"color": 1})),
    "an applied text is no map": (APPLY, applying({"color": {"a": ["x", None]}})),
    "an applied number is one": (APPLY, applying({"size": "1"})),
    "an applied map is one": (APPLY, applying({"options": "x"})),
    "an applied list is one": (APPLY, applying({"steps": "x"})),
    "applied items are different": (APPLY, applying({"ports": [{"number": 1}, {"number": 1, "protocol": "TCP"}]})),
    "applied values are different": (APPLY, applying({"words": ["a", "b", "a"]})),
    "applied values are there": (APPLY, applying({"words": [None]})),
    "applied values are no maps": (APPLY, applying({"words": [{"a": "b"}]})),
    "applied values are no lists": (APPLY, applying({"numbers": [[1]]})),
    "applied items are maps": (APPLY, applying({"ports": ["x"]})),
    "an applied condition has its key": (APPLY, applying({}, status={"conditions": [{"reason": "x"}]})),
    "managed fields are not applied": (APPLY, applying({}, metadata={"managedFields": [{"manager": "x"}]})),
    "what is applied is of the version": (APPLY, applying({}, apiVersion=f"{GROUP}/v3")),
    "what is applied is of the kind": (APPLY, applying({}, kind="Widget")),
}


@pytest.mark.parametrize("case", REFUSED_BY_GADGETS)
async def test_a_refusal_has_the_words_of_the_real_server(client: Client, namespace: str, case: str) -> None:
    name = unique("gadget")
    place = gadget(namespace, name)
    body = applying({"color": "a", "steps": ["x"]}, metadata={"name": name, "namespace": namespace})
    live = await compare(client, None, Request("alice", PUT, body), place)
    type_, said = REFUSED_BY_GADGETS[case]
    if type_ == APPLY:
        said = said | {"metadata": {"name": name, "namespace": namespace} | said.get("metadata", {})}
    request = Request("bob", type_, said)
    theirs, _ = await theirs_of(client, live, request, place)
    assert theirs.get("code", 200) >= 400
    await compare(client, live, request, place)


TAKEN_BY_GADGETS: dict[str, tuple[str, Any]] = {
    "nulls in a new list": (MERGE, {"spec": {"free": {"l": [{"a": None, "b": [None, {"c": None}]}]}}}),
    "nulls in a list in the place of a list": (MERGE, {"spec": {"free": {"list": [{"a": None}]}}}),
    "nulls in a list in the place of a map": (MERGE, {"spec": {"free": {"map": [{"a": None}]}}}),
    "nulls in a map in the place of a text": (MERGE, {"spec": {"color": None, "free": {"text": {"a": None, "b": {}}}}}),
    "a null for what is not there": (MERGE, {"spec": {"size": None, "parts": {"left": None}}}),
    "a null that may be one": (JSON_PATCH, [{"op": "add", "path": "/spec/note", "value": None}]),
    "to replace what is not there": (JSON_PATCH, [{"op": "replace", "path": "/spec/size", "value": 1}]),
    "to test that it is not there": (JSON_PATCH, [{"op": "test", "path": "/spec/size", "value": None}]),
    "to move an item": (JSON_PATCH, [{"op": "move", "from": "/spec/steps/0", "path": "/spec/steps/1"}]),
    "to copy a map": (JSON_PATCH, [{"op": "copy", "from": "/spec/free/map", "path": "/spec/options"}]),
    "names with slashes": (JSON_PATCH, [{"op": "add", "path": "/spec/options", "value": {"a/b": "1", "c~d": "2"}}]),
    "names with slashes again": (
        JSON_PATCH,
        [
            {"op": "add", "path": "/spec/options", "value": {"a/b": "1", "c~d": "2"}},
            {"op": "remove", "path": "/spec/options/a~1b"},
            {"op": "replace", "path": "/spec/options/c~0d", "value": "3"},
        ],
    ),
}


@pytest.mark.parametrize("case", TAKEN_BY_GADGETS)
async def test_a_patch_is_taken_as_by_the_real_server(client: Client, namespace: str, case: str) -> None:
    name = unique("gadget")
    place = gadget(namespace, name)
    free = {"list": [{"x": "1"}], "map": {"y": "1"}, "text": "z"}
    body = applying({"color": "a", "steps": ["x", "y"], "free": free}, metadata={"name": name, "namespace": namespace})
    live = await compare(client, None, Request("alice", PUT, body), place)
    await compare(client, live, Request("bob", *TAKEN_BY_GADGETS[case]), place)


async def a_job(client: Client, namespace: str) -> tuple[Place, Object]:
    name = unique("job")
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
    place = Place(path, "batch/v1", await schema_of(client, "batch/v1", "io.k8s.api.batch.v1.Job"))
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "x"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "finalizers": ["x.io/a"], "labels": {"a": "1", "c": "1"}, "annotations": {"a": "1"}},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }
    live = json.loads(await client.request("POST", path.rpartition("/")[0], body=body))
    return place, live


REFUSED_BY_JOBS: dict[str, Any] = {
    "a strategic patch is an object": [],
    "all that is set is retained": {
        "spec": {"template": {"spec": {"volumes": [{"$retainKeys": ["name"], "name": "v", "emptyDir": {}}]}}}
    },
    "retained keys are a list": {"spec": {"$retainKeys": "parallelism", "parallelism": 1}},
    "an item has its key": {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}},
    "a directive is known": {"spec": {"$patch": "improve"}},
    "a directive of an item is known": {
        "spec": {"template": {"spec": {"containers": [{"$patch": "improve", "name": "x"}]}}}
    },
    "items do not merge lists": {"spec": {"template": {"spec": {"containers": [{"$patch": "merge", "name": "x"}]}}}},
    "a deleted item has its key": {"spec": {"template": {"spec": {"containers": [{"$patch": "delete"}]}}}},
    "what is patched is in order": {
        "metadata": {"finalizers": ["x.io/b", "x.io/a"], "$setElementOrder/finalizers": ["x.io/a", "x.io/b"]}
    },
    "the order is a list": {"metadata": {"finalizers": ["x.io/b"], "$setElementOrder/finalizers": "x.io/b"}},
    "items are alike": {"metadata": {"finalizers": ["x.io/b", 1]}},
    "items are as before": {"metadata": {"finalizers": [["x.io/b"]]}},
}


@pytest.mark.parametrize("case", REFUSED_BY_JOBS)
async def test_a_strategic_patch_is_refused_as_by_the_real_server(client: Client, namespace: str, case: str) -> None:
    place, live = await a_job(client, namespace)
    request = Request("bob", STRATEGIC, REFUSED_BY_JOBS[case])
    theirs, _ = await theirs_of(client, live, request, place)
    assert theirs.get("code", 200) >= 400
    await compare(client, live, request, place)


TAKEN_BY_JOBS: dict[str, Any] = {
    "values to delete that are no list": {"metadata": {"$deleteFromPrimitiveList/finalizers": "x.io/a"}},
    "a deleted value": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a", "x.io/c"]}},
    "labels": {"metadata": {"labels": {"a": "b", "c": None}}},
    "a map that is deleted": {"metadata": {"annotations": {"$patch": "delete"}}},
    "a map that is replaced": {"metadata": {"annotations": {"$patch": "replace", "new": "x"}}},
    "suspension": {"spec": {"suspend": False}},
    "nothing": {},
}


@pytest.mark.parametrize("case", TAKEN_BY_JOBS)
async def test_a_strategic_patch_is_taken_as_by_the_real_server(client: Client, namespace: str, case: str) -> None:
    place, live = await a_job(client, namespace)
    await compare(client, live, Request("bob", STRATEGIC, TAKEN_BY_JOBS[case]), place)


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize("stale", [False, True], ids=["unchanged since", "changed since"])
async def test_kubectl_takes_over_what_it_applied_by_itself(client: Client, namespace: str, stale: bool) -> None:
    name = unique("config")
    place = Place(
        f"/api/v1/namespaces/{namespace}/configmaps/{name}",
        "v1",
        await schema_of(client, "v1", "io.k8s.api.core.v1.ConfigMap"),
        has_status=False,
    )
    body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "<2>"}}
    body["metadata"] = {"name": name, "namespace": namespace, "annotations": {}}
    note = {LAST_APPLIED: json.dumps(body)}
    created = {**body, "metadata": {**body["metadata"], "annotations": note}}
    live = await compare(client, None, Request("kubectl-client-side-apply", PUT, created), place)
    if stale:
        live = await compare(client, live, Request("bob", MERGE, {"data": {"a": "3"}}), place)
    applied = {**body, "data": {"a": "2", "b": "2 & 3", "c": "x"}}
    live = await compare(client, live, Request("kubectl", APPLY, applied), place)
    live = await compare(client, live, Request("kubectl", APPLY, applied, force=True), place)
    await compare(client, live, Request("kubectl", APPLY, applied), place)


async def test_many_updaters_become_ancient(client: Client, namespace: str) -> None:
    name = unique("gadget")
    place = gadget(namespace, name)
    body = applying({"color": "a"}, metadata={"name": name, "namespace": namespace})
    live = await compare(client, None, Request("first", PUT, body), place)
    for number in range(14):
        patch = {"spec": {"options": {f"o{number}": "x"}}}
        live = await compare(client, live, Request(f"updater-{number:02}", MERGE, patch), place)
