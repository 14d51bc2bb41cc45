"""Runs scheduler cycles when they may find something, and queues the workloads that they decided about.

A cycle is synchronous and writes nothing: the engine assumes its reservations at once, and the reconcile of the
workload writes them together with the nomination.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from time import monotonic

import anyio

from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.quota.scheduler.scheduler import Cycle
from multikueue.runtime import QueuePriority

AT_ONCE = 8
"""Heads that get quota between two turns of others. Each takes a fraction of a millisecond, and a workload that is looked
at only with its quota is looked at once."""


@dataclass(slots=True)
class SchedulerLoop:
    """Owner of the one task that runs cycles. `wake` may be called at any time."""

    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        self._news.set()

    async def run(self, context: ReconcileContext) -> None:
        next_look, heads = context.store.engine.scheduler.next_look, 0
        while True:
            now = context.now()
            due = next_look(now)
            if due is None or due > now:
                await self._rest(None if due is None else (due - now).total_seconds())
                self._news.clear()
                heads = 0
                continue
            cycle = self._cycle(context)
            heads += cycle.heads
            if heads >= AT_ONCE or cycle.evicted or not cycle.reserved:
                await asyncio.sleep(0)
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

    async def _rest(self, seconds: float | None) -> None:
        """Waits for `wake`, or until the next parked workload is due."""
        if self._news.is_set():
            await asyncio.sleep(0)  # others have their turn
        elif seconds is None:
            await self._news.wait()
        else:
            with anyio.move_on_after(seconds):
                await self._news.wait()
