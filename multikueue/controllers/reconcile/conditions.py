"""Writes the status of an object, or its Active condition, only where it differs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from multikueue.api.kind import Kind
from multikueue.api.kueue.admission_checks import ACTIVE, AdmissionCheck
from multikueue.api.kueue.queues import ClusterQueue, Cohort, LocalQueue
from multikueue.api.meta import Condition, Value, with_condition
from multikueue.api.multikueue.clusters import MultiKueueCluster
from multikueue.api.values.render import difference, status_patch
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.reconcile.kept import report_lost_fields
from multikueue.store.caches.cache import Cache

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
    changed the object, and not as written: that would go on for ever. And if it keeps no condition: each release has those,
    so what drops them may go, and no news would have them written then. Other fields wait for the next news."""
    patch = difference(obj.status, status)
    if patch:
        answer = await context.manager.merge_patch(kind, obj.key, status_patch(obj, patch), subresource="status")
        cache.upsert(answer)
        lost = difference(answer.status, status)
        is_settled = answer.metadata.resource_version == obj.metadata.resource_version
        report_lost_fields(context, kind, obj, lost, is_harmless=is_settled and "conditions" not in lost)
