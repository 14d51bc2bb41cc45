"""The status of a Workload that Kueue's core writes too, and how to share it (contract 3.13).

Kueue's core uses server-side apply as one field manager, always with all fields that this manager owns. It clears
`clusterName` and the nominations by omitting them, which removes only what no other field manager owns. So a second
writer of the Workload applies under the same name, with the same fields, from the version that it read. Those that a newer
Kueue has and this version does not know are among them: `managedFields` say which they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec.structs import replace

from multikueue.api.kueue.workload import (
    ADMITTED,
    DEACTIVATION_TARGET,
    EVICTED,
    FAILED_ON,
    FINISHED,
    FITS_NO_WORKER,
    NOMINATED,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    RequeueState,
    Workload,
    WorkloadStatus,
)
from multikueue.api.meta import Condition, encode

KUEUE_ADMISSION = "kueue-admission"
"""The field manager of Kueue's core."""

CORE = (KUEUE_ADMISSION, "Apply", "status")
"""Manager, operation and subresource of what it applies, in managedFields."""

SHARED_CONDITIONS = frozenset({QUOTA_RESERVED, EVICTED, ADMITTED, PREEMPTED, REQUEUED, DEACTIVATION_TARGET, FINISHED})
"""The conditions that it owns; others, such as PodsReady, have field managers of their own."""

OUR_CONDITIONS = frozenset({NOMINATED, FAILED_ON, FITS_NO_WORKER})
"""The conditions that are ours alone, under a field manager of our own: Kueue's core would drop them."""


def shared_part(status: WorkloadStatus) -> WorkloadStatus:
    """The part of a status that Kueue's core applies, always as a whole."""
    return replace(
        status,
        conditions=tuple(c for c in status.conditions if c.type in SHARED_CONDITIONS),
        requeue_state=None if status.requeue_state == RequeueState() else status.requeue_state,
        # Once there is an admission, its resource usage takes their place.
        resource_requests=() if status.admission is not None else status.resource_requests,
        reclaimable_pods=(),
    )


def our_part(status: WorkloadStatus) -> WorkloadStatus:
    """The part of a status that is ours alone."""
    return WorkloadStatus(conditions=tuple(c for c in status.conditions if c.type in OUR_CONDITIONS))


def applied(workload: Workload, part: WorkloadStatus, stored: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The body that applies `part`, for exactly the version of the workload that was read.

    With the object as it is `stored`, managedFields and all, fields that Kueue's core holds and this version does not know
    go along: to leave them out would remove them.
    """
    meta = workload.metadata
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        },
        "status": part if stored is None else _with_unknown(part, stored),
    }


def _with_unknown(part: WorkloadStatus, stored: Mapping[str, Any]) -> dict[str, Any]:
    ours: dict[str, Any] = msgspec.json.decode(encode(part))
    for entry in stored["metadata"].get("managedFields") or ():
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource")) == CORE:
            return _carried(ours, stored.get("status") or {}, entry["fieldsV1"].get("f:status") or {}, WorkloadStatus)
    return ours


def _carried(
    ours: Mapping[str, Any], value: Mapping[str, Any], owned: Mapping[str, Any], type_: type[msgspec.Struct]
) -> dict[str, Any]:
    """Ours, with the owned fields of `value` that the struct does not have, also below those that it has. A field that it
    has and that ours lacks was cleared."""
    types = _types_of(type_)
    found = dict(ours)
    for name, below, inner in _fields(value, owned):
        if name not in types:
            found[name] = _owned(inner, below)
        elif (struct := _struct_of(types[name])) is not None:
            if isinstance(inner, list):
                found |= {name: many} if (many := _carried_entries(ours.get(name, ()), inner, below, struct)) else {}
            elif name in ours:
                found[name] = _carried(ours[name], inner, below, struct)
    return found


def _carried_entries(
    ours: Iterable[dict[str, Any]], value: list[Any], owned: Mapping[str, Any], struct: type[msgspec.Struct]
) -> list[dict[str, Any]]:
    """The same of a list: an entry that ours lacks was removed, but for a condition of a type that we do not know."""
    found = list(ours)
    for key, entry, below in _entries(value, owned):
        at = next((n for n, each in enumerate(found) if key.items() <= each.items()), None)
        if at is not None:
            found[at] = _carried(found[at], entry, below, struct)
        elif struct is Condition and key["type"] not in SHARED_CONDITIONS | OUR_CONDITIONS:
            found.append(_owned(entry, below))
    return found


def _owned(value: Any, owned: Mapping[str, Any]) -> Any:
    """The owned fields and entries of a value; all of it where it is owned as one."""
    if isinstance(value, dict) and any(each.startswith("f:") for each in owned):
        return {name: _owned(inner, below) for name, below, inner in _fields(value, owned)}
    if isinstance(value, list) and any(each.startswith("k:") for each in owned):
        return [_owned(entry, below) for _, entry, below in _entries(value, owned)]
    return value


def _fields(value: Mapping[str, Any], owned: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """The owned fields: name, what of it is owned, value."""
    named = ((each[2:], below) for each, below in owned.items() if each.startswith("f:"))
    return ((name, below, value[name]) for name, below in named if name in value)


def _entries(value: list[Any], owned: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Any, Mapping[str, Any]]]:
    """The owned entries of a list that has keys: key, entry, what of it is owned."""
    for each, below in owned.items():
        if each.startswith("k:"):
            key: dict[str, Any] = msgspec.json.decode(each[2:])
            yield from ((key, entry, below) for entry in value if key.items() <= entry.items())


@cache
def _types_of(type_: type[msgspec.Struct]) -> Mapping[str, Any]:
    hints = get_type_hints(type_)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(type_)}


def _struct_of(hint: Any) -> type[msgspec.Struct] | None:
    """The struct of a field, or of its entries, if it has one."""
    options = get_args(hint) or (hint,)
    return next((each for each in options if isinstance(each, type) and issubclass(each, msgspec.Struct)), None)
