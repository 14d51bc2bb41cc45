"""Estimates of starts, kept fresh beside a watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from multikueue.api.meta import Object, ObjectKey
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue_console.history.outlook import Forecast
    from multikueue_console.history.store import RunHistory
    from multikueue_console.model.objects import SeenObjects

__all__ = ["ForeseenFleet", "Outlook"]

EVERY = 60.0
"""Seconds between two estimates."""

MOST_WAITING = 300
"""Jobs in all lines beyond which nothing is estimated: it would take the time of the terminal and of pages."""

MOST_PAST = 2_000
"""Jobs as which others come in each play."""

MOST_RUNS = 20_000
"""The newest runs, of which run times are taken."""


class ForeseenFleet(Protocol):
    """What estimates are computed of: see `multikueue_console.watch.fleet_watch.FleetWatch`."""

    @property
    def seen(self) -> SeenObjects: ...

    def now(self) -> datetime: ...


class Outlook:
    """When jobs start that wait, by the run times in the history; computed again each minute.

    `told`: the ranges; None for a job of which it is unknown. A job that nothing was computed of is missing.
    """

    def __init__(self, fleet: ForeseenFleet) -> None:
        self._fleet = fleet
        self.told: Mapping[ObjectKey, Forecast | None] = {}

    def expected(self, key: ObjectKey) -> str:
        """The range of the start in UTC, or that it is unknown; empty for a job that nothing was computed of."""
        if key not in self.told:
            return ""
        found = self.told[key]
        if found is None:
            return "unknown: too few jobs were seen, or too many wait before it"
        return f"about {found.middle:%m-%d %H:%M}, in 4 of 5 cases from {found.low:%m-%d %H:%M} to {found.high:%m-%d %H:%M} UTC"

    async def run(self, client: ClusterClient, history: RunHistory) -> None:
        """Compute until it is cancelled. Who may not list flavors and namespaces gets no estimate."""
        import anyio

        from multikueue.api import kinds
        from multikueue.errors import Forbidden

        try:
            flavors = (await client.list(kinds.RESOURCE_FLAVORS)).items
            namespaces = (await client.list(kinds.NAMESPACES)).items
        except Forbidden:
            return
        while True:
            await self.compute(history, [*flavors, *namespaces])
            await anyio.sleep(EVERY)

    async def compute(self, history: RunHistory, more: Sequence[Object]) -> None:
        """Compute once, with these flavors and namespaces."""
        import random
        from functools import partial

        import anyio.to_thread

        from multikueue_console.history.outlook import forecast, jobs_of, objects_of
        from multikueue_console.history.run_times import RunTimes
        from multikueue_console.history.store import HistoryUnavailable

        now, seen = self._fleet.now(), self._fleet.seen
        jobs = jobs_of(seen)
        if sum(job.started is None for job in jobs) > MOST_WAITING:
            self.told = {job.key: None for job in jobs if job.started is None}
            return
        try:
            runs = await anyio.to_thread.run_sync(partial(history.runs, most=MOST_RUNS))
        except HistoryUnavailable:
            return  # the last estimates stay
        past = [*jobs, *jobs_of(seen, is_over=True)][-MOST_PAST:]
        objects, luck = [*more, *objects_of(seen)], random.Random(1)  # noqa: S311  # not a secret
        compute = partial(forecast, objects, jobs, RunTimes(runs, now), now, luck, past=past)
        self.told = await anyio.to_thread.run_sync(compute)
