"""Objects that the suite creates, as plain dictionaries, and the definitions of its own kinds."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping
from typing import Any

from tests.contract.server import Object, Server
from tests.contract.space import Collection, eventually

__all__ = [
    "GROUP",
    "GROUP_VERSION",
    "condition",
    "config_map",
    "definition",
    "gadget",
    "globe",
    "install",
    "job",
    "lease",
    "namespace",
    "pod",
    "secret",
    "unique",
    "widget",
]

GROUP = "contract.multikueue.dev"
GROUP_VERSION = f"{GROUP}/v1"

_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    """A name that nobody else uses."""
    return f"{prefix}-{next(_numbers)}-{secrets.token_hex(3)}"


def _object(api_version: str, kind: str, name: str, **more: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}


def namespace(name: str) -> Object:
    return _object("v1", "Namespace", name)


def config_map(name: str, labels: Mapping[str, str] | None = None, **data: str) -> Object:
    body = _object("v1", "ConfigMap", name, **({"data": data} if data else {}))
    if labels:
        body["metadata"]["labels"] = dict(labels)
    return body


def secret(name: str, **more: Any) -> Object:
    return _object("v1", "Secret", name, **more)


def pod(name: str, **spec: Any) -> Object:
    """One container that does nothing."""
    return _object("v1", "Pod", name, spec={"containers": [{"name": "main", "image": "pause"}], **spec})


def job(name: str, **spec: Any) -> Object:
    """A Job of one pod that does nothing."""
    containers = [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    return _object("batch/v1", "Job", name, spec={"suspend": True, "template": template, **spec})


def lease(name: str, **spec: Any) -> Object:
    return _object("coordination.k8s.io/v1", "Lease", name, spec=spec)


def widget(name: str, **spec: Any) -> Object:
    return _object(GROUP_VERSION, "Widget", name, spec=spec)


def gadget(name: str, **more: Any) -> Object:
    return _object(GROUP_VERSION, "Gadget", name, **more)


def globe(name: str, **spec: Any) -> Object:
    return _object(GROUP_VERSION, "Globe", name, spec=spec)


def condition(type_: str, status: str, reason: str = "Tested", message: str = "") -> Object:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }


# --- kinds of our own ------------------------------------------------------------------------------------------------


async def install(server: Server) -> None:
    """Create the definitions of the suite's kinds and wait until they are served."""
    for body in (WIDGETS, GADGETS, GLOBES, BOXES):
        await define(server, body)


async def define(server: Server, body: Object) -> Object:
    """Create a definition; the answer is its state once its kind is served."""
    definitions = Collection(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    await definitions.made(body)

    async def served() -> Object | None:
        found = await definitions.got(body["metadata"]["name"])
        conditions = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions") or []}
        return found if conditions.get("Established") == "True" and await _is_listed(server, found) else None

    return await eventually(served)


async def _is_listed(server: Server, definition: Object) -> bool:
    """A kind is established a moment before it answers."""
    spec = definition["spec"]
    versions = [each["name"] for each in spec["versions"] if each["served"]]
    paths = [f"/apis/{spec['group']}/{version}/{spec['names']['plural']}" for version in versions]
    return all([(await server.call("GET", path)).status == 200 for path in paths])


def definition(kind: str, *versions: Object, group: str = GROUP, scope: str = "Namespaced", **names: Any) -> Object:
    singular = kind.lower()
    plural = names.pop("plural", f"{singular}s")
    return _object(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        f"{plural}.{group}",
        spec={
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": singular, "listKind": f"{kind}List"} | names,
            "versions": list(versions),
        },
    )


def version(name: str, schema: Object, *, served: bool = True, storage: bool = True, **more: Any) -> Object:
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def structure(**properties: Any) -> Object:
    return {"type": "object", "properties": properties}


TEXT: Object = {"type": "string"}
NUMBER: Object = {"type": "integer"}

PART: Object = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": TEXT, "count": {"type": "integer", "default": 1}, "color": TEXT},
}

CONDITION: Object = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": TEXT,
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": TEXT,
        "message": TEXT,
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64"},
    },
}

WIDGET_SPEC: Object = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "maximum": 100, "default": 1},
        "smallest": NUMBER,
        "mode": {
            "type": "string",
            "enum": ["Fast", "Slow"],
            "default": "Fast",
            "x-kubernetes-validations": [
                {
                    "rule": "self == oldSelf",
                    "message": "mode is immutable",
                    "messageExpression": "'mode stays ' + oldSelf",
                }
            ],
        },
        "title": {"type": "string", "minLength": 2, "maxLength": 10, "pattern": "^[a-z]+$"},
        "limit": {"type": "integer", "nullable": True},
        "amount": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "notes": {"type": "object", "additionalProperties": TEXT},
        "policy": {
            "type": "object",
            "default": {},
            "properties": {"retries": {"type": "integer", "default": 3}, "owner": TEXT},
        },
        "parts": {
            "type": "array",
            "maxItems": 4,
            "items": PART,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        "sizes": {"type": "array", "items": NUMBER},
        "fixed": {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "x-kubernetes-map-type": "atomic"},
    },
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.smallest) || self.smallest <= self.size",
            "message": "size is below smallest",
            "fieldPath": ".size",
        },
        {
            "rule": "!has(oldSelf.smallest) || has(self.smallest)",
            "message": "smallest stays once set",
            "reason": "FieldValueForbidden",
        },
    ],
}

WIDGET_STATUS: Object = {
    "type": "object",
    "properties": {
        "replicas": NUMBER,
        "selector": TEXT,
        "phase": TEXT,
        "conditions": {
            "type": "array",
            "items": CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}

WIDGET_COLUMNS: list[Object] = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How large it is"},
    {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"},
    {"name": "Title", "type": "string", "jsonPath": ".spec.title", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]

WIDGET_VERSION: Object = {
    "subresources": {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
    "additionalPrinterColumns": WIDGET_COLUMNS,
    "selectableFields": [{"jsonPath": ".spec.mode"}, {"jsonPath": ".spec.size"}],
}

WIDGET_SCHEMA = structure(spec=WIDGET_SPEC, status=WIDGET_STATUS)

WIDGETS = definition(
    "Widget",
    version("v1", WIDGET_SCHEMA, **WIDGET_VERSION),
    version("v1beta1", WIDGET_SCHEMA, storage=False, **WIDGET_VERSION),
    version("v1alpha1", structure(spec=structure()), storage=False, served=False),
    shortNames=["wd"],
    categories=["contract"],
)
"""All that a definition can say."""

GADGETS = definition("Gadget", version("v1", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}))
"""Anything goes, and there are no subresources."""

GLOBES = definition(
    "Globe",
    version("v1", structure(spec=structure(size=NUMBER), status=structure(phase=TEXT)), subresources={"status": {}}),
    scope="Cluster",
)
"""In no namespace."""


def boxes(group: str) -> Object:
    """A kind in two versions; the second has a title more."""
    one = version("v1", structure(spec=structure(size=NUMBER)))
    two = version("v2", structure(spec=structure(size=NUMBER, title=TEXT)), storage=False)
    return definition("Box", one, two, group=group, plural="boxes")


BOXES_GROUP = "boxes.multikueue.dev"

BOXES = boxes(BOXES_GROUP)


def box(name: str, *, version: str = "v1", group: str = BOXES_GROUP, **spec: Any) -> Object:
    return _object(f"{group}/{version}", "Box", name, spec=spec)
