"""Watches OCM's Placements and decisions, or SIG-Multicluster's decisions, and OCM's scores, once a strategy asks for one.

OCM is optional: while the server lacks the kinds it is asked for them now and then, one line in the log says so, and
workloads that name a Placement wait with that reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from multikueue.api.kind import Kind
from multikueue.api.kinds import PLACEMENT_DECISIONS, PLACEMENT_SCORES, PLACEMENTS, SHARED_DECISIONS
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.reconcile.events import log_state
from multikueue.kube.reflector import Reflector
from multikueue.store.caches.cache import Cache
from multikueue.telemetry import get_logger
from multikueue.workload.strategy_call import PLACEMENTS as READ_PLACEMENTS

log = get_logger()

PATIENCE = 3.0
"""Seconds that the first lists may take: a manager cluster that is slow at these kinds must not hold up the rest."""


@dataclass(slots=True)
class PlacementWatch:
    """Owner of the watches; fills the caches of the store's `Placements` and reports failures to it, and those of its
    `HubScores`, whose failure costs no more than scores that are unknown."""

    context: ReconcileContext
    _needed: anyio.Event = field(default_factory=anyio.Event)
    _looked: anyio.Event = field(default_factory=anyio.Event)
    _scored: anyio.Event = field(default_factory=anyio.Event)
    _troubles: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.context.store.placements.need = self._needed.set
        self.context.store.hub_scores.need = self._scored.set

    async def run(self) -> None:
        """Runs until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_placements)
            await self._scored.wait()
            scores = self.context.store.hub_scores.cache
            await Reflector(
                self.context.manager, PLACEMENT_SCORES, scores, on_state=log_state(PLACEMENT_SCORES.plural)
            ).run()

    async def _watch_placements(self) -> None:
        placements = self.context.store.placements
        await self._needed.wait()
        if self.context.settings.settings.dispatch.placement_decisions == "multicluster":
            reflectors = [self._reflector(SHARED_DECISIONS, placements.shared)]
        else:
            reflectors = [
                self._reflector(PLACEMENTS, placements.placements),
                self._reflector(PLACEMENT_DECISIONS, placements.decisions),
            ]
        async with anyio.create_task_group() as tasks:
            for reflector in reflectors:
                tasks.start_soon(reflector.run)
            for reflector in reflectors:
                await reflector.synced.wait()
            placements.begin()
            self._looked.set()

    async def contact(self) -> None:
        """Waits for the first lists or their failure, for `PATIENCE` at most, and only if a strategy reads them."""
        with anyio.move_on_after(PATIENCE):
            if await self.context.strategies.is_read_by_any(READ_PLACEMENTS):
                self._needed.set()
                await self._looked.wait()

    def _reflector(self, kind: Kind[Any], cache: Cache[Any]) -> Reflector[Any]:
        return Reflector(self.context.manager, kind, cache, on_state=self._states(kind.plural))

    def _states(self, plural: str) -> Callable[[bool, str], None]:
        """Logs changes, and passes failures on to the workloads that wait for a Placement."""

        def on_state(is_healthy: bool, why: str) -> None:
            if is_healthy:
                log.info("watch.stands", kind=plural)
            elif why != self._troubles.get(plural):
                log.warning("watch.broken", kind=plural, why=why)
            self._troubles[plural] = why
            self._tell()

        return on_state

    def _tell(self) -> None:
        """Passes on one failure, always the same of two, because its words are written into every waiting workload."""
        trouble = next((f"{plural} cannot be read: {why}" for plural, why in sorted(self._troubles.items()) if why), "")
        if trouble:
            self.context.store.placements.fail(trouble)
            self._looked.set()
