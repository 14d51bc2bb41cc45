"""Resources and objects for tests of what an API server shows of itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fakekube.model.resources import Column, Registry, Resource
from fakekube.model.storage import Storage, key_of
from fakekube.model.wire import Object

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def ago(**parts: float) -> str:
    return (NOW - timedelta(**parts)).strftime("%Y-%m-%dT%H:%M:%SZ")


def resource(plural: str, kind: str, group: str = "", **more: Any) -> Resource:
    usual: dict[str, Any] = {"version": "v1", "singular": kind.lower(), "namespaced": True}
    return Resource(group=group, plural=plural, kind=kind, **usual | more)


PODS = resource("pods", "Pod", short_names=("po",), categories=("all",), subresources=frozenset({"status", "log"}))
JOBS = resource("jobs", "Job", "batch", subresources=frozenset({"status"}), categories=("all",))
CONFIG_MAPS = resource("configmaps", "ConfigMap", short_names=("cm",))
NAMESPACES = resource("namespaces", "Namespace", namespaced=False, subresources=frozenset({"status", "finalize"}))
ACCOUNTS = resource("serviceaccounts", "ServiceAccount", subresources=frozenset({"token"}))
TOYS = resource(
    "toys",
    "Toy",
    "example.com",
    version="v1beta1",
    custom=True,
    subresources=frozenset({"status", "scale"}),
    schema={
        "type": "object",
        "description": "Toy is what one plays with.",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
    },
    columns=(
        Column("Size", ".spec.size", "integer"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Age", ".metadata.creationTimestamp", "date", priority=1),
    ),
)


def registry(*resources: Resource) -> Registry:
    return Registry(resources or (NAMESPACES, PODS, CONFIG_MAPS, ACCOUNTS, JOBS, TOYS))


def item(name: str, namespace: str = "", **parts: Any) -> Object:
    metadata: Object = {"name": name, "creationTimestamp": ago(minutes=5, seconds=13), "resourceVersion": "7"}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata | parts.pop("metadata", {}), **parts}


def stored(storage: Storage, plural: str, group: str, body: Object) -> Object:
    """The object, put into storage."""
    key = key_of(body["metadata"].get("namespace", ""), body["metadata"]["name"])
    return storage.put(f"{plural}.{group}", key, body).object
