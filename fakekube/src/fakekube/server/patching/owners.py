"""Owners of fields, as entries of `metadata.managedFields`: parse, take fields, merge and sort."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from fakekube.model.wire import Json, Object
from fakekube.server.patching.fields import Fields, canonical, minus, union

__all__ = [
    "Entry",
    "Owner",
    "Owners",
    "cap",
    "entry_of",
    "fields_of",
    "given",
    "listed",
    "owners_of",
    "take",
    "with_entries",
]

_MOST_UPDATERS = 10
_ANCIENT = "ancient-changes"

Entry = dict[str, Any]
"""An entry of `metadata.managedFields`."""


class Owner(NamedTuple):
    """An owner. `version` is empty for an apply, whose owner is the same in all versions."""

    manager: str
    operation: str
    version: str
    subresource: str

    def __str__(self) -> str:
        who = json.dumps(self.manager, ensure_ascii=False)
        if self.subresource:
            who += f' with subresource "{self.subresource}"'
        return f"{who} using {self.version}" if self.operation == "Update" else who

    @property
    def rank(self) -> str:
        """The sort key of owners: JSON of the fields that are not empty, in this order."""
        names = ("manager", "operation", "apiVersion", "subresource")
        return json.dumps({name: value for name, value in zip(names, self, strict=True) if value}, ensure_ascii=False)


Owners = dict[Owner, Entry]
"""Entries by owner, in the order of the entries. Entries are immutable."""


def owners_of(obj: Object | None) -> Owners:
    """The owners of a stored object."""
    entries = obj["metadata"].get("managedFields") or () if obj else ()
    return {_owner(entry): entry for entry in entries}


def given(entries: Json) -> Owners | None:
    """The owners in a request; None for an invalid list or one without owners, empty for a list that ends the
    tracking."""
    if entries in ([], [{}]):
        return {}
    try:
        return dict(map(_read, entries)) or None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _read(entry: Entry) -> tuple[Owner, Entry]:
    if entry["operation"] not in ("Apply", "Update") or not entry["apiVersion"]:
        raise ValueError("operation must be `Apply` or `Update`, and of a version")
    if entry["fieldsType"] != "FieldsV1":
        raise ValueError("not FieldsV1")
    owner, fields = _owner(entry), canonical(entry.get("fieldsV1") or {})
    return owner, entry_of(owner, fields, entry["apiVersion"], entry.get("time"))


def _owner(entry: Entry) -> Owner:
    version = "" if entry["operation"] == "Apply" else entry["apiVersion"]
    return Owner(entry.get("manager", ""), entry["operation"], version, entry.get("subresource", ""))


def entry_of(owner: Owner, fields: Fields, api_version: str, time: datetime | str | None) -> Entry:
    return {
        "manager": owner.manager,
        "operation": owner.operation,
        "apiVersion": api_version,
        **({"time": _written(time)} if time else {}),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **({"subresource": owner.subresource} if owner.subresource else {}),
    }


def _written(time: datetime | str) -> str:
    return time if isinstance(time, str) else _seconds(time)


@lru_cache(maxsize=8)
def _seconds(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def fields_of(owners: Owners, owner: Owner) -> Fields:
    """The fields of an owner; empty for an unknown owner."""
    entry = owners.get(owner)
    fields: Fields = entry["fieldsV1"] if entry else {}
    return fields


def take(owners: Owners, taken: Callable[[Entry], Fields]) -> None:
    """Take fields from all owners, computed for each entry. An owner without fields is removed."""
    for owner, entry in list(owners.items()):
        left = minus(entry["fieldsV1"], taken(entry))
        if not left:
            del owners[owner]
        elif left is not entry["fieldsV1"]:
            owners[owner] = {**entry, "fieldsV1": left}


def cap(owners: Owners) -> None:
    """Merge the oldest update entries of a version if there are too many."""
    updaters = [owner for owner in owners if owner.operation == "Update"]
    excess = len(updaters) - _MOST_UPDATERS
    firsts: dict[str, Owner] = {}
    for owner in sorted(updaters, key=lambda each: (owners[each].get("time", ""), each.rank)) if excess > 0 else ():
        if excess == 0:
            return
        first = firsts.setdefault(owner.version, owner)
        if first is owner:
            continue
        bucket = Owner(_ANCIENT, "Update", owner.version, "")
        if bucket not in owners:
            owners[bucket] = owners.pop(first)
        entry = owners.pop(owner)
        fields = union(entry["fieldsV1"], fields_of(owners, bucket))
        owners[bucket] = entry_of(bucket, fields, owner.version, entry.get("time"))
        excess -= 1


def listed(owners: Owners) -> list[Entry]:
    """The entries in the order of managedFields."""
    return sorted(owners.values(), key=_order)


def _order(entry: Entry) -> tuple[str, ...]:
    subresource = entry.get("subresource", "")
    return (entry["operation"], entry.get("time", ""), entry["manager"], entry["apiVersion"], subresource)


def with_entries(obj: Object, entries: list[Entry]) -> Object:
    """The object with these managedFields; the same object if they are equal."""
    metadata = obj["metadata"]
    if metadata.get("managedFields", []) == entries and (entries or "managedFields" not in metadata):
        return obj
    metadata = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**obj, "metadata": {**metadata, "managedFields": entries} if entries else metadata}
