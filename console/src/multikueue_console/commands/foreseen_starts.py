"""Estimates of starts, kept fresh beside a watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from multikueue.cli.workload.expected_starts import ExpectedStart, sentence

if TYPE_CHECKING:
    from multikueue.api.kind import Kind
    from multikueue.api.kueue.workload import Workload
    from multikueue.api.meta import Object, ObjectKey
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue_console.history.outlook import Forecast
    from multikueue_console.history.store import RunHistory
    from multikueue_console.model.objects import SeenObjects

__all__ = ["ForeseenFleet", "Outlook", "expected_starts"]

V = TypeVar("V", bound="Object")

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
        return sentence(self.starts(), key)

    def starts(self) -> dict[ObjectKey, ExpectedStart | None]:
        """What is told, as the manager's commands take it."""
        return {
            key: ExpectedStart(each.low, each.middle, each.high) if each is not None else None
            for key, each in self.told.items()
        }

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


class _SeenOnce:
    """A fleet as a handful of lists show it."""

    def __init__(self, seen: SeenObjects, now: datetime) -> None:
        self.seen, self._now = seen, now

    def now(self) -> datetime:
        return self._now


async def expected_starts(
    client: ClusterClient, url: str, more: Sequence[Workload]
) -> dict[ObjectKey, ExpectedStart | None]:
    """The starts of all that wait now, with these workloads as if they were submitted: what the manager's commands ask for.

    Raises Forbidden if a kind may not be listed in all namespaces: of a part of the line nothing follows. Raises
    ConfigurationError and HistoryUnavailable as `stored.opened`, and errors of `ClusterClient.list`.
    """
    from multikueue.api import kinds
    from multikueue.runtime.clock import SystemClock
    from multikueue_console.commands.stored import opened
    from multikueue_console.model.objects import SeenObjects

    async def by_key(kind: Kind[V]) -> dict[ObjectKey, V]:
        return {each.key: each for each in (await client.list(kind)).items}

    seen = SeenObjects(
        workloads=await by_key(kinds.WORKLOADS) | {each.key: each for each in more},
        local_queues=await by_key(kinds.LOCAL_QUEUES),
        cluster_queues=await by_key(kinds.CLUSTER_QUEUES),
        cohorts=await by_key(kinds.COHORTS),
        checks=await by_key(kinds.ADMISSION_CHECKS),
    )
    flavors, namespaces = await by_key(kinds.RESOURCE_FLAVORS), await by_key(kinds.NAMESPACES)
    outlook = Outlook(_SeenOnce(seen, SystemClock().now()))
    with opened(url) as history:
        await outlook.compute(history, [*flavors.values(), *namespaces.values()])
    return outlook.starts()
