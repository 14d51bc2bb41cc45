"""Whether the API server has stored what was written: a policy, a webhook or an older definition may drop a field."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from multikueue.api.kind import Kind
from multikueue.api.meta import Object
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.errors import NotKept
from multikueue.store.refusals import StatusKey

__all__ = ["report_lost_fields"]


def report_lost_fields(
    context: ReconcileContext, kind: Kind[Any], obj: Object, lost: Collection[str], *, is_harmless: bool = False
) -> None:
    """Tells once which fields of a status were written and not stored. Raises NotKept if there are any, for a back-off,
    unless that `is_harmless`."""
    key = StatusKey(kind.name, obj.key)
    if not lost:
        context.store.refusals.over(key)
        return
    fields = ", ".join(f"status.{name}" for name in sorted(lost))
    what, why = f"the API server does not keep {fields}", "see to admission policies, webhooks and the definition"
    if context.store.refusals.fails(key, what, why, context.now(), is_sure=True):
        context.recorder.emit(kind, obj, type_="Warning", reason="StatusNotKept", message=f"{what}: {why}")
    if not is_harmless:
        raise NotKept(f"{kind.kind} {obj.key}: {what}")
