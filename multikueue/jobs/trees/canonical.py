"""Compares and patches canonical JSON trees (`api.values.canonical`) whose schemas may be of different versions."""

from __future__ import annotations

from typing import Any

from multikueue.api.values.canonical import QUANTITIES

# The fields of a container that every schema in use knows: here absent means absent. Any other field may be missing in
# the Workload because its CustomResourceDefinition is older than the API server's own Job, and prunes it.
_KNOWN = frozenset(("args", "command", "env", "envFrom", "image", "name", "ports", "restartPolicy", "workingDir"))
_KNOWN |= frozenset(("resources", "requests", "limits", "volumeDevices", "volumeMounts"))


def is_pruned_copy(copy: Any, original: Any) -> bool:
    """Whether `copy` equals `original`, except for fields that its schema may have pruned. Both canonical."""
    if isinstance(copy, dict) and isinstance(original, dict):
        lost = original.keys() - copy.keys()
        if lost & _KNOWN or copy.keys() - original.keys():
            return False
        return all(
            value == original[key] if key in QUANTITIES else is_pruned_copy(value, original[key])
            for key, value in copy.items()
        )
    if isinstance(copy, list) and isinstance(original, list):
        return len(copy) == len(original) and all(map(is_pruned_copy, copy, original))
    return bool(copy == original)


def merge_patch(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) that turns `old` into `new`; empty if they are equal."""
    removed: dict[str, Any] = {key: None for key in old if key not in new}
    changed = {key: _change(old.get(key), value) for key, value in new.items() if key not in old or old[key] != value}
    return removed | changed


def _change(old: Any, new: Any) -> Any:
    return merge_patch(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
