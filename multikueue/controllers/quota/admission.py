"""Runs scheduler cycles when they may find something, and queues the workloads that they decided about.

A cycle is synchronous and writes nothing: the engine assumes its reservations at once, and the reconcile of the
workload writes them together with the nomination.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

import anyio
import anyio.lowlevel

from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.quota.scheduler.scheduler import Cycle
from multikueue.runtime import QueuePriority

AT_ONCE = 8
"""Heads that get quota between two turns of others. Each takes a fraction of a millisecond, and a workload that is looked
at only with its quota is looked at once."""


@dataclass(slots=True)
class SchedulerLoop:
    """Owner of the one task that runs cycles. `wake` may be called at any time."""

    _news: anyio.Event = field(default_factory=anyio.Event)

    def wake(self) -> None:
        self._news.set()

    async def run(self, context: ReconcileContext) -> None:
        while True:
            await self._rest(context)
            self._news = anyio.Event()
            heads = 0
            while (due := context.store.engine.scheduler.next_look(context.now())) is not None and due <= context.now():
                cycle = self._cycle(context)
                heads += cycle.heads
                if heads >= AT_ONCE or cycle.evicted or not cycle.reserved:
                    await anyio.lowlevel.checkpoint()
                    heads = 0

    def _cycle(self, context: ReconcileContext) -> Cycle:
        began = monotonic()
        cycle = context.store.engine.scheduler.cycle(context.now())
        seconds = monotonic() - began
        for key in (*cycle.reserved, *cycle.evicted):
            context.queues.workloads.add(key)
        for key in cycle.pending:  # thousands at a start; nothing waits for their texts, so news go first
            context.queues.workloads.add(key, QueuePriority.REQUEUE)
        if cycle.heads:
            context.metrics.guarded("admission", self._count)(context, cycle, seconds)
        return cycle

    def _count(self, context: ReconcileContext, cycle: Cycle, seconds: float) -> None:
        result = "success" if cycle.reserved else "inadmissible"
        context.metrics.attempts(result).inc()
        context.metrics.attempt_seconds(result).observe(seconds)
        for key in cycle.evicted:
            eviction = context.store.engine.scheduler.eviction(key)
            assert eviction is not None, "nobody has seen it yet"
            context.metrics.preempted(eviction.by, eviction.cause.value).inc()

    async def _rest(self, context: ReconcileContext) -> None:
        """Waits for `wake`, or until the next parked workload is due."""
        due = context.store.engine.scheduler.next_look(context.now())
        seconds = None if due is None else max(0.0, (due - context.now()).total_seconds())
        with anyio.move_on_after(seconds):
            await self._news.wait()
