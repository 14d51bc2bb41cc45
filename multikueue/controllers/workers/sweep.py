"""The sweep: looks again, from time to time, at everything that is on the workers, in case an event was missed."""

from __future__ import annotations

from math import inf

import anyio
import anyio.lowlevel

from multikueue.api.meta import ObjectKey
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.runtime import QueuePriority

__all__ = ["sweep"]

STRIDE = 500
"""Keys that the sweep adds between two checkpoints."""


async def sweep(context: ReconcileContext) -> None:
    """Enqueues, forever, each workload with something on a worker: its reconcile finds and removes what has no owner.
    Enqueues workers without a MultiKueueCluster, too: they are forgotten once nothing of ours can be there."""
    while True:
        interval = context.settings.dispatch.gc_interval.total_seconds()
        with anyio.move_on_after(interval or inf):
            await context.settings.changed()  # the interval may be among them
            continue
        context.metrics.guarded("sweeps", lambda: context.metrics.sweeps.inc())()
        for worker in tuple(context.store.workers.values()):
            if context.store.clusters.get(ObjectKey("", worker.name)) is None:
                context.queues.clusters.add(worker.name)
            for number, key in enumerate(worker.held(), 1):
                context.queues.workloads.add(key, QueuePriority.RESYNC)
                if number % STRIDE == 0:
                    await anyio.lowlevel.checkpoint()
