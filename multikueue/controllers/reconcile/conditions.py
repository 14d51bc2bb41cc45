"""Writes the status of an object, or its Active condition, only where it differs: patches name only what changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from multikueue.api.kind import Kind
from multikueue.api.kueue.admission_checks import ACTIVE, AdmissionCheck
from multikueue.api.kueue.queues import ClusterQueue, Cohort, LocalQueue
from multikueue.api.meta import Condition, Object, Value, encode, with_condition
from multikueue.api.multikueue.clusters import MultiKueueCluster
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.errors import NotKept
from multikueue.store.caches.cache import Cache
from multikueue.store.refusals import StatusKey

T = TypeVar("T", AdmissionCheck, ClusterQueue, MultiKueueCluster)
S = TypeVar("S", AdmissionCheck, ClusterQueue, Cohort, LocalQueue, MultiKueueCluster)


def active(*, is_active: bool, reason: str, message: str, generation: int) -> Condition:
    """An Active condition with Kueue's reason and message."""
    return Condition(
        type=ACTIVE,
        status="True" if is_active else "False",
        reason=reason,
        message=message,
        observed_generation=generation,
    )


async def write_condition(
    context: ReconcileContext, kind: Kind[Any], cache: Cache[T], obj: T, condition: Condition, now: datetime
) -> None:
    """Writes one condition of an object, for the version that was seen, and caches the answer."""
    conditions = with_condition(obj.status.conditions, condition, now)
    await write_status(context, kind, cache, obj, msgspec.structs.replace(obj.status, conditions=conditions))


async def write_status(context: ReconcileContext, kind: Kind[Any], cache: Cache[S], obj: S, status: Value) -> None:
    """Writes the status of an object, for the version that was seen, and caches the answer. Raises NotKept if the server
    changed the object, and not as written: that would go on forever. And if it keeps no condition: each release has those,
    so what drops them may go, and no news would have them written then. Other fields wait for the next news."""
    patch = difference(obj.status, status)
    if patch:
        answer = await context.manager.merge_patch(kind, obj.key, status_patch(obj, patch), subresource="status")
        cache.upsert(answer)
        lost = difference(answer.status, status)
        is_settled = answer.metadata.resource_version == obj.metadata.resource_version
        report_lost_fields(context, kind, obj, lost, is_harmless=is_settled and "conditions" not in lost)


def report_lost_fields(
    context: ReconcileContext,
    kind: Kind[Any],
    obj: Object,
    lost: Collection[str],
    *,
    within: str = "status",
    is_harmless: bool = False,
) -> None:
    """Reports once which fields of a status (or `within` the spec) were written and not stored. Raises NotKept if there are
    any, for a back-off, unless that `is_harmless`."""
    key = StatusKey(kind.name, obj.key)
    if not lost:
        context.store.refusals.over(key)
        return
    fields = ", ".join(f"{within}.{name}" for name in sorted(lost))
    what, why = f"the API server does not keep {fields}", "see to admission policies, webhooks and the definition"
    if context.store.refusals.fails(key, what, why, context.now(), is_sure=True):
        reason = f"{within.capitalize()}NotKept"
        context.recorder.emit(kind, obj, type_="Warning", reason=reason, message=f"{what}: {why}")
    if not is_harmless:
        raise NotKept(f"{kind.kind} {obj.key}: {what}")


def lost_switches(patch: Mapping[str, Any], stored: object) -> Iterator[str]:
    """The paths of the switches and numbers of a patch that what is stored has otherwise. What it leaves out is off, or 0."""
    for name, value in patch.items():
        there = stored.get(name) if isinstance(stored, dict) else None
        if isinstance(value, dict):
            yield from (f"{name}.{path}" for path in lost_switches(value, there))
        elif isinstance(value, int) and (there or 0) != value:
            yield name


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
