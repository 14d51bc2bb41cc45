"""Variants in the queue (KEP 8691): one behind the other, the most preferred flavor first."""

from __future__ import annotations

from multikueue.api.kueue.concurrent_admission import allowed_flavors, flavors_in_order, parent_of
from multikueue.api.kueue.preemption_gates import opened_at
from multikueue.quota.cache.catalog import Catalog
from multikueue.quota.queueing.pending_workload import PendingWorkload

__all__ = ["variant_of"]

_LAST = 99


def variant_of(waiting: PendingWorkload, catalog: Catalog) -> PendingWorkload:
    """The pending workload with what it may use. Siblings of the same second stay together, in the order of their flavors:
    Kueue's order is that of chance there, and a less preferred one that comes first is evicted again at once."""
    workload, parent = waiting.workload, parent_of(waiting.workload)
    waiting.flavors = allowed_flavors(workload)
    waiting.is_gated = any(opened_at(workload, gate.name) is None for gate in waiting.spec.preemption_gates)
    if parent is not None:
        waiting.parent = parent.uid
        priority, since, _ = waiting.rank
        waiting.rank = (priority, since, f"{parent.uid}/{_place(waiting, catalog):02}/{workload.metadata.uid}")
    return waiting


def _place(waiting: PendingWorkload, catalog: Catalog) -> int:
    queue = catalog.queues.get(catalog.place(waiting.local_queue) or "")
    flavors = flavors_in_order(queue.spec) if queue is not None else ()
    return next((n for n, flavor in enumerate(flavors) if flavor in waiting.flavors), _LAST)
