"""Object metadata: types, defaults, validation, and immutable fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from fakekube.model.refusals import (
    Problem,
    bad_request,
    forbidden_value,
    immutable,
    invalid_value,
    required,
    shown,
)
from fakekube.model.resources import Resource
from fakekube.model.values.names import NameRule, label_value, qualified_name
from fakekube.model.wire import Json, Object

__all__ = ["FOREGROUND", "ORPHAN", "cleaned", "problems", "timestamp", "unknown_fields", "update_problems", "warnings"]

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
"""The finalizers that select a propagation policy for the garbage collector."""

_STANDARD_FINALIZERS = frozenset({ORPHAN, FOREGROUND, "kubernetes"})
_ANNOTATIONS_LIMIT = 256 * 1024


class _Reference(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    self_link: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    owner_references: list[_Reference] | None = None
    finalizers: list[str] | None = None
    managed_fields: list[dict[str, Any]] | None = None


_FIELDS = frozenset(_Metadata.__struct_encode_fields__)
_POINTERS = frozenset({"deletionGracePeriodSeconds"})


def cleaned(item: Object, resource: Resource) -> Object:
    """The object with metadata of the right types, without empty and unknown fields. Raises Refused (400)."""
    metadata = item.get("metadata")
    if metadata is None:
        return {**item, "metadata": {}}
    try:
        msgspec.convert(metadata, _Metadata)
    except msgspec.ValidationError as error:
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: metadata: {error}'
        ) from None
    if all(name in _FIELDS and (value or name in _POINTERS) for name, value in metadata.items()) and not any(
        None in (metadata.get(name) or {}).values() for name in ("labels", "annotations")
    ):
        return item
    kept = {name: _told(value) for name, value in metadata.items() if name in _FIELDS and _is_told(name, value)}
    return {**item, "metadata": kept}


def _told(value: Json) -> Json:
    """Labels and annotations with "" in the place of null."""
    return {k: "" if v is None else v for k, v in value.items()} if isinstance(value, dict) else value


def _is_told(name: str, value: Json) -> bool:
    # An empty list of managers stays: it is a request to end field tracking.
    return bool(value) or (value is not None and (name in _POINTERS or name == "managedFields"))


def unknown_fields(item: Object) -> list[str]:
    """The paths of the unknown fields that `cleaned` drops."""
    metadata = item.get("metadata")
    return [f"metadata.{name}" for name in metadata if name not in _FIELDS] if isinstance(metadata, dict) else []


def problems(metadata: Object, *, rule: NameRule, namespaced: bool, plain_finalizers: bool) -> list[Problem]:
    """Problems of the metadata of a new object."""
    found = list(_name_problems(metadata, rule))
    if namespaced and not metadata.get("namespace"):
        found.append(required("metadata.namespace"))
    return found + _common_problems(metadata, plain_finalizers=plain_finalizers)


def _name_problems(metadata: Object, rule: NameRule) -> Iterator[Problem]:
    if prefix := metadata.get("generateName"):
        # The server appends a suffix, so the prefix may end with a dash.
        whole = prefix[:-1] + "a" if prefix.endswith("-") else prefix
        yield from (invalid_value("metadata.generateName", prefix, each) for each in rule(whole))
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
        return
    yield from (invalid_value("metadata.name", name, each) for each in rule(name))


def _common_problems(metadata: Object, *, plain_finalizers: bool) -> list[Problem]:
    found: list[Problem] = []
    if labels := metadata.get("labels"):
        found += _label_problems(labels)
    if annotations := metadata.get("annotations"):
        found += _annotation_problems(annotations)
    if owners := metadata.get("ownerReferences"):
        found += _owner_problems(owners)
    if finalizers := metadata.get("finalizers"):
        found += _finalizer_problems(finalizers, plain_finalizers=plain_finalizers)
    return found


def _label_problems(labels: Mapping[str, str]) -> Iterator[Problem]:
    for name, value in labels.items():
        yield from (invalid_value("metadata.labels", name, each) for each in qualified_name(name))
        yield from (invalid_value("metadata.labels", value, each) for each in label_value(value))


def _annotation_problems(annotations: Mapping[str, str]) -> Iterator[Problem]:
    for name in annotations:
        yield from (invalid_value("metadata.annotations", name, each) for each in qualified_name(name.lower()))
    if sum(len(name) + len(value.encode()) for name, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        message = f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        yield Problem("FieldValueTooLong", "metadata.annotations", message)


def _owner_problems(owners: list[Object]) -> Iterator[Problem]:
    path = "metadata.ownerReferences"
    controller: Object | None = None
    for index, owner in enumerate(owners):
        yield from _one_owner_problems(owner, f"{path}[{index}]")
        if not owner.get("controller"):
            continue
        if controller is not None:
            both = " and ".join(f"{each['kind']}/{each['name']}" for each in (controller, owner))
            detail = f'Only one reference can have Controller set to true. Found "true" in references for {both}'
            yield invalid_value(path, owners, detail)
        controller = owner


def _one_owner_problems(owner: Object, path: str) -> Iterator[Problem]:
    version = owner.get("apiVersion")
    if version and (version.count("/") > 1 or version.endswith("/")):
        yield invalid_value(f"{path}.apiVersion", version, "must be <group>/<version> or <version>")
    for name in ("apiVersion", "kind", "name", "uid"):
        if not owner.get(name):
            yield required(f"{path}.{name}", "must not be empty")


def _finalizer_problems(finalizers: list[str], *, plain_finalizers: bool) -> Iterator[Problem]:
    path = "metadata.finalizers"
    for index, name in enumerate(finalizers):
        yield from (invalid_value(path, name, each) for each in qualified_name(name))
        # kube-apiserver only warns about plain finalizers of these kinds.
        if not plain_finalizers and "/" not in name and name not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid_value(f"{path}[{index}]", name, detail)
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        yield invalid_value(path, finalizers, f"finalizers {ORPHAN} and {FOREGROUND} cannot be both set")


def warnings(new: Object, old: Object | None = None) -> list[str]:
    """Warnings about accepted but discouraged metadata of custom kinds."""
    finalizers = new.get("finalizers") or ()
    if old is not None and finalizers == (old.get("finalizers") or ()):
        return []
    advice = "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
    plain = (each for each in finalizers if "/" not in each and each not in _STANDARD_FINALIZERS)
    return [f'metadata.finalizers: "{each}": {advice}' for each in plain]


def update_problems(new: Object, old: Object, *, plain_finalizers: bool) -> list[Problem]:
    """Problems of an update of metadata. The caller has compared name and namespace with the path."""
    if new is old:
        return []
    found = []
    if new.get("uid") != old.get("uid"):
        found.append(immutable("metadata.uid", new.get("uid")))
    if new.get("deletionTimestamp") != old.get("deletionTimestamp"):
        found.append(immutable("metadata.deletionTimestamp", new.get("deletionTimestamp")))
    if new.get("deletionGracePeriodSeconds") != old.get("deletionGracePeriodSeconds"):
        found.append(immutable("metadata.deletionGracePeriodSeconds", new.get("deletionGracePeriodSeconds")))
    if added := _finalizers_added_late(new, old):
        # Go's `%#v` format of a list of strings.
        listed = ", ".join(shown(each) for each in added)
        detail = (
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
        )
        found.append(forbidden_value("metadata.finalizers", detail))
    changed = {name: new[name] for name in _CHECKED if name in new and new[name] != old.get(name)}
    return found + _common_problems(changed, plain_finalizers=plain_finalizers)


_CHECKED = ("labels", "annotations", "ownerReferences", "finalizers")


def _finalizers_added_late(new: Object, old: Object) -> list[str]:
    if not old.get("deletionTimestamp"):
        return []
    before = old.get("finalizers") or ()
    return sorted(each for each in new.get("finalizers") or () if each not in before)


def timestamp(moment: datetime) -> str:
    """A time as Kubernetes writes it: UTC, in whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
