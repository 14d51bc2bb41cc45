"""OpenAPI documents from the schemas of served kinds: enough for `kubectl explain`, `apply` and `create`.

Version 3: an index at /openapi/v3 and one document per group and version. Each address contains a hash, so that clients
may cache a document forever. Version 2: one document with all definitions and no paths, for older clients.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from fakekube.model.resources import GroupVersion, Registry, Resource
from fakekube.model.wire import Object, Request, Response
from fakekube.server.printers.discovery import VERSION, subresource
from fakekube.server.printers.explained import META, PREFIX, explained, object_meta

__all__ = ["answer"]

_V2, _V3 = "/openapi/v2", "/openapi/v3"
_INFO = {"title": "Kubernetes", "version": VERSION}

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Document:
    """The document of a group and version: its resources, its content, and the hash of that."""

    resources: tuple[Resource, ...]
    body: bytes
    digest: str


@dataclass(slots=True)
class _Kept:
    """The documents of a registry. A document is kept until its resources change."""

    generation: int = -1
    index: bytes = b""
    documents: dict[GroupVersion, _Document] = field(default_factory=dict)


_kept: WeakKeyDictionary[Registry, _Kept] = WeakKeyDictionary()


def answer(registry: Registry, request: Request) -> Response | None:
    """The answer to a GET below /openapi; None for another path or a missing document."""
    path = request.path.rstrip("/")
    if request.method != "GET" or not path.startswith((_V2, _V3)):
        return None
    kept = _current(registry)
    if path == _V3:
        return Response(body=kept.index, content_type="text/plain; charset=utf-8")
    if path == _V2:
        return Response(body=_second(kept))
    document = next((d for at, d in kept.documents.items() if path == f"{_V3}/{_place(at)}"), None)
    if document is None:
        return None
    return Response(body=document.body, headers={"Cache-Control": "public, immutable"})


def _current(registry: Registry) -> _Kept:
    kept = _kept.setdefault(registry, _Kept())
    if kept.generation != registry.generation:
        kept.documents = dict(_documents(registry, kept.documents))
        kept.index = _index(kept.documents)
        kept.generation = registry.generation
    return kept


def _documents(registry: Registry, old: Mapping[GroupVersion, _Document]) -> Iterator[tuple[GroupVersion, _Document]]:
    served: dict[GroupVersion, list[Resource]] = {}
    for resource in registry:
        served.setdefault(GroupVersion(resource.group, resource.version), []).append(resource)
    for at in sorted(served, key=_place):
        resources = tuple(sorted(served[at], key=lambda resource: resource.plural))
        known = old.get(at)
        yield at, known if known is not None and _same(known.resources, resources) else _document(resources)


def _same(one: tuple[Resource, ...], other: tuple[Resource, ...]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _place(at: GroupVersion) -> str:
    return f"apis/{at}" if at.group else f"api/{at.version}"


def _index(documents: Mapping[GroupVersion, _Document]) -> bytes:
    paths = {
        _place(at): {"serverRelativeURL": f"{_V3}/{_place(at)}?hash={document.digest}"}
        for at, document in documents.items()
    }
    return msgspec.json.encode({"paths": paths})


def _document(resources: tuple[Resource, ...]) -> _Document:
    body = msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": dict(path for resource in resources for path in _paths(resource)),
            "components": {"schemas": _schemas(resources)},
        }
    )
    return _Document(resources, body, hashlib.sha256(body).hexdigest().upper())


def _second(kept: _Kept) -> bytes:
    resources = (resource for document in kept.documents.values() for resource in document.resources)
    body = msgspec.json.encode(
        {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": _schemas(tuple(resources))}
    )
    return body.replace(b'"#/components/schemas/', b'"#/definitions/')


# --- Schemas


def _schemas(resources: tuple[Resource, ...]) -> Object:
    found: Object = {**object_meta(), f"{META}.ListMeta": _LIST_META}
    for resource in resources:
        schema, parts = (resource.schema, {}) if resource.custom else explained(resource)
        found |= parts
        found[_name(resource)] = _kind(resource, schema)
        found[f"{_name(resource)}List"] = _list(resource)
    return dict(sorted(found.items()))


def _name(resource: Resource) -> str:
    """The name of a definition, as in kube-apiserver: the reversed group, or the Go package of a built-in kind."""
    if resource.custom:
        domain = ".".join(reversed(resource.group.split(".")))
    else:
        domain = f"io.k8s.api.{resource.group.partition('.')[0] or 'core'}"
    return f"{domain}.{resource.version}.{resource.kind}"


_API_VERSION = {
    "type": "string",
    "description": "The group and version that this representation of the object is of: `GROUP/VERSION`, or `v1`.",
}
_KIND = {"type": "string", "description": "The kind of the object, in CamelCase. It can't be changed."}


def _kind(resource: Resource, schema: Schema) -> Object:
    schema = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    metadata = {"description": "Standard object's metadata.", "allOf": [{"$ref": _reference("ObjectMeta")}]}
    own = {"apiVersion": _API_VERSION, "kind": _KIND, "metadata": metadata}
    properties = {key: value for key, value in schema.get("properties", {}).items() if key not in own}
    return {**schema, "properties": {**own, **properties}, "x-kubernetes-group-version-kind": [_gvk(resource)]}


def _list(resource: Resource) -> Object:
    items = {"type": "array", "items": {"$ref": f"{PREFIX}{_name(resource)}"}}
    metadata = {"description": "Standard list metadata.", "allOf": [{"$ref": _reference("ListMeta")}]}
    return {
        "description": f"{resource.list_kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {"apiVersion": _API_VERSION, "items": items, "kind": _KIND, "metadata": metadata},
        "x-kubernetes-group-version-kind": [_gvk(resource) | {"kind": resource.list_kind}],
    }


def _gvk(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}


def _reference(name: str) -> str:
    return f"{PREFIX}{META}.{name}"


def _field(description: str, **schema: Any) -> Object:
    return {"type": "string", **schema, "description": description}


_LIST_META: Object = {
    "description": "ListMeta is metadata that lists have.",
    "type": "object",
    "properties": {
        "continue": _field("Set if there is more: give it back to get the next part."),
        "remainingItemCount": _field("How many more there are.", type="integer", format="int64"),
        "resourceVersion": _field("The version of the whole, to watch from."),
        "selfLink": _field("Deprecated; it is not filled in any more."),
    },
}

# --- Paths


_ON_ALL = (("get", "list", "list"), ("post", "create", "post"), ("delete", "deletecollection", "deletecollection"))
_ON_ONE = (("get", "get", "get"), ("put", "update", "put"), ("patch", "patch", "patch"), ("delete", "delete", "delete"))
"""HTTP method, verb of the resource, and OpenAPI's name of the action."""

_WRITING = ("dryRun", "fieldManager", "fieldValidation")
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "list": ("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"),
    "post": _WRITING,
    "put": _WRITING,
    "patch": (*_WRITING, "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "propagationPolicy"),
    "deletecollection": ("dryRun", "fieldSelector", "gracePeriodSeconds", "labelSelector", "propagationPolicy"),
}
_TYPES = {"force": "boolean", "gracePeriodSeconds": "integer", "limit": "integer"} | dict.fromkeys(
    ("watch", "allowWatchBookmarks"), "boolean"
)

_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"


def _paths(resource: Resource) -> Iterator[tuple[str, Object]]:
    root = f"/{_place(GroupVersion(resource.group, resource.version))}"
    scoped = (
        f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    )
    if resource.namespaced and "list" in resource.verbs:
        yield f"{root}/{resource.plural}", {"get": _operation(resource, "list")}
    yield from _path(resource, scoped, _ON_ALL)
    yield from _path(resource, f"{scoped}/{{name}}", _ON_ONE)
    for name in sorted(resource.subresources):
        known = subresource(resource, name)
        methods = {"get": "get", "update": "put", "patch": "patch", "create": "post"}
        gvk = {"group": known.group, "version": known.version, "kind": known.kind} if known.kind else _gvk(resource)
        operations = {methods[verb]: _operation(resource, methods[verb], gvk) for verb in known.verbs}
        yield f"{scoped}/{{name}}/{name}", operations


def _path(resource: Resource, path: str, methods: tuple[tuple[str, str, str], ...]) -> Iterator[tuple[str, Object]]:
    operations = {method: _operation(resource, action) for method, verb, action in methods if verb in resource.verbs}
    if operations:
        named = [name for name in ("name", "namespace") if f"{{{name}}}" in path]
        yield path, {**operations, "parameters": [_parameter(name, "path") for name in named]}


def _operation(resource: Resource, action: str, gvk: Mapping[str, str] | None = None) -> Object:
    operation: Object = {
        "description": f"{action} {resource.kind}",
        "parameters": [_parameter(name, "query") for name in _PARAMETERS.get(action, ())],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk or _gvk(resource),
    }
    if action in ("post", "put", "patch"):
        operation["requestBody"] = {"required": True, "content": dict(_contents(resource, action))}
    return operation


def _contents(resource: Resource, action: str) -> Iterator[tuple[str, Object]]:
    if action != "patch":
        yield "*/*", {"schema": {"$ref": f"{PREFIX}{_name(resource)}"}}
        return
    for media in (*_PATCHES, *(() if resource.custom else (_STRATEGIC,))):
        yield media, {"schema": {"type": "object"}}


def _parameter(name: str, place: str) -> Object:
    return {
        "name": name,
        "in": place,
        "schema": {"type": _TYPES.get(name, "string"), "uniqueItems": True},
        **({"required": True} if place == "path" else {}),
    }
