"""Conversion between the stored form of an object and the form of a version of the API."""

from __future__ import annotations

from collections.abc import Mapping

from fakekube.model.resources import Registry, Resource
from fakekube.model.wire import Object
from fakekube.schemas.schema import Schema

__all__ = ["kept", "shown"]

_RENAMED: Mapping[str, str] = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
"""Fields of an Event of the core group, and their names in the group events.k8s.io."""

_BACK = {new: old for old, new in _RENAMED.items()}


def shown(resource: Resource, item: Object) -> Object:
    """A stored object in the resource's version of the API; the same object if that is the stored form."""
    if item.get("apiVersion") == resource.api_version:
        return item
    if resource.kept_with is not None:
        told = {name: value for name, value in item.items() if value != ""}
        item = {_RENAMED.get(name, name): value for name, value in told.items()}
    return {**item, "apiVersion": resource.api_version}


def kept(registry: Registry, resource: Resource, item: Object) -> Object:
    """An object in its stored form. The storage version drops unknown fields."""
    if resource.kept_with is not None:
        renamed = {_BACK.get(name, name): value for name, value in item.items()}
        return {"reportingComponent": "", "reportingInstance": "", **renamed, "apiVersion": "v1"}
    if not resource.custom:
        return item
    stored = registry.stored(resource)
    if stored is resource:
        return item
    return Schema.of(stored).prune_and_default({**item, "apiVersion": stored.api_version})
