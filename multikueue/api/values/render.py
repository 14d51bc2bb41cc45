"""Request bodies from values: patches that name only what changed."""

from __future__ import annotations

from typing import Any

import msgspec

from multikueue.api.meta import Object, Value, encode


def difference(old: Value, new: Value) -> dict[str, Any]:
    """The JSON merge patch that turns `old` into `new`; empty if nothing changed.

    Fields that the values do not know are not touched. Lists are replaced whole, as in any merge patch, so the patch
    must carry the resourceVersion it was made from.
    """
    return {} if old == new else _difference(_plain(old), _plain(new))


def status_patch(obj: Object, patch: dict[str, Any]) -> dict[str, Any]:
    """A status patch that applies only to the version of the object it was made from."""
    return {"metadata": {"resourceVersion": obj.metadata.resource_version}, "status": patch}


def _plain(value: Value) -> Any:
    return msgspec.json.decode(encode(value))


def _difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if before == value:
            continue
        if isinstance(before, dict) and isinstance(value, dict):
            patch[name] = _difference(before, value)
        else:
            patch[name] = value
    return patch
