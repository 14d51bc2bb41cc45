"""`multikueue workloads events`: events of a job and its workload, of the manager and the worker, sorted by time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from multikueue.cli.access.connection import (
    ManagerOptions,
    fetch_pairs,
    now,
    run_async,
)
from multikueue.cli.access.worker_access import (
    WorkerAccess,
    WorkerOptions,
)
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.formats import Form, Format, Output
from multikueue.cli.terminal.output import Column, PrintedList, Ticker, age, note, print_items
from multikueue.cli.workload.lookup import InNamespace, Named
from multikueue.errors import Forbidden, MultiKueueError

if TYPE_CHECKING:
    from multikueue.api.kubernetes.printed import PrintedEvent
    from multikueue.api.kueue.workload import Workload
    from multikueue.cli.access.worker_access import ReachableWorker
    from multikueue.cli.workload.related_objects import RelatedObjects
    from multikueue.cli.workload.session import WorkloadSession
    from multikueue.cli.workload.view import WorkloadView
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["COLUMNS", "HOME", "LocatedEvent", "at_home", "at_worker", "events", "in_order", "row"]

HOME = "(manager)"
"""Shown as the cluster of the manager's events; no cluster can have this name."""

COLUMNS = (
    Column("LAST SEEN"),
    Column("CLUSTER"),
    Column("TYPE"),
    Column("REASON"),
    Column("OBJECT"),
    Column("MESSAGE"),
    Column("COUNT", is_wide=True),
)

_BEGINNING = datetime.min.replace(tzinfo=UTC)


class LocatedEvent(msgspec.Struct, frozen=True):
    """An event and its cluster: `event` as a value, `item` as the server sent it."""

    cluster: str
    event: PrintedEvent
    item: dict[str, Any]


@bundled
def events(
    name: Named,
    namespace: InNamespace = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on and show each one that comes.")] = False,
    output: Output = Format.TABLE,
    *,
    workers: WorkerOptions,
    manager: ManagerOptions,
) -> None:
    """List the events of a job, of all clusters, by time.

    Of itself and its workload on the manager, of its copy, job and pods where it runs.
    The clusters forget events, after an hour if they do not say otherwise.

    \b
    Examples:
      multikueue workloads events -n team-a my-job
      multikueue workloads events my-job -w
    """
    if watch and output not in (Format.TABLE, Format.WIDE):
        raise typer.BadParameter("--watch shows a table: choose table or wide")
    reach = workers.access(manager.target)
    run_async(lambda: _watch(name, namespace, reach, output) if watch else _list(name, namespace, reach, output))


async def _list(named: str, namespace: str | None, reach: WorkerAccess, output: Form) -> None:
    from multikueue.cli.workload.session import open_workload

    async with open_workload(named, namespace, reach) as session:
        told = await at_home(session)
        if session.workload.status.cluster_name:
            told += await _where_it_is(session)
        elif output in (Format.TABLE, Format.WIDE):
            note(f"Of the manager only: {await session.nowhere()}")
    moment, found = now(), in_order(told)
    listing = PrintedList(
        columns=COLUMNS,
        rows=[row(each.event, each.cluster, moment) for each in found],
        items=[each.item for each in found],
        resource="event",
        nothing=f"No events of workload {session.workload.key} found.",
    )
    print_items(listing, output)


async def _where_it_is(session: WorkloadSession) -> list[LocatedEvent]:
    """Events of the worker. If they cannot be read, a note says so, and the manager's are still shown."""
    try:
        async with session.winner() as view:
            found = [LocatedEvent(view.cluster, event, item) for item, event in await view.events()]
    except MultiKueueError as error:
        note(f"Of the manager only: {error}")
        return []
    for text in view.unseen:
        note(f"There may be more: {text}")
    return found


async def at_home(session: WorkloadSession) -> list[LocatedEvent]:
    """The manager's events of the workload and its owners; none, with a note, if the user may not list events."""
    try:
        found = await _fetch(session.manager, session.workload.metadata.namespace)
    except Forbidden as error:
        note(f"Not seen: events of the manager: {error.message}")
        return []
    ours = _uids(session.workload)
    return [LocatedEvent(HOME, event, item) for item, event in found if event.involved_object.uid in ours]


async def at_worker(worker: ReachableWorker, related: RelatedObjects, namespace: str) -> list[LocatedEvent]:
    """A worker's events about the relatives that `related` knows by now. Raises Forbidden."""
    found = await _fetch(worker.client, namespace)
    return [
        LocatedEvent(worker.cluster, event, item)
        for item, event in found
        if related.is_about_relative(event.involved_object)
    ]


def in_order(told: Iterable[LocatedEvent]) -> Sequence[LocatedEvent]:
    """Events of all clusters sorted by time."""
    return sorted(told, key=lambda each: each.event.at or _BEGINNING)


async def _fetch(client: ClusterClient, namespace: str) -> list[tuple[dict[str, Any], PrintedEvent]]:
    from multikueue.api.kubernetes.printed import PRINTED_EVENTS

    return await fetch_pairs(client, PRINTED_EVENTS, namespace=namespace)


def _uids(workload: Workload) -> set[str]:
    return {workload.metadata.uid, *(owner.uid for owner in workload.metadata.owner_references)}


def row(event: PrintedEvent, cluster: str, moment: datetime) -> tuple[str, ...]:
    """One event as a row of `COLUMNS`."""
    about, series = event.involved_object, event.series
    count = (series.count if series else event.count) or 1
    where = f"{about.kind.lower()}/{about.name}"
    return age(event.at, moment), cluster, event.type, event.reason, where, event.message, str(count)


# --- watch -----------------------------------------------------------------------------------------------------------


async def _watch(named: str, namespace: str | None, reach: WorkerAccess, output: Form) -> None:
    import anyio

    from multikueue.api.kubernetes.printed import PRINTED_EVENTS
    from multikueue.cli.access.following import follow
    from multikueue.cli.workload.session import ended, open_workload

    ticker = Ticker(COLUMNS, output)
    async with open_workload(named, namespace, reach) as session, anyio.create_task_group() as tasks:
        ours = _uids(session.workload)

        async def take(event: PrintedEvent, is_gone: bool) -> None:
            if not is_gone and event.involved_object.uid in ours:
                ticker.add(row(event, HOME, now()))

        home = session.workload.metadata.namespace
        tasks.start_soon(partial(follow, session.manager, PRINTED_EVENTS, home, take, rest=ticker.flush))
        workload = await session.stay(_Show(ticker))
        tasks.cancel_scope.cancel()
    note(ended(workload))


class _Show:
    """Shows the events of the cluster where the workload is."""

    def __init__(self, ticker: Ticker) -> None:
        self._ticker = ticker

    async def play(self, view: WorkloadView, /) -> None:
        async def take(event: PrintedEvent, is_gone: bool) -> None:
            if not is_gone:
                self._ticker.add(row(event, view.cluster, now()))

        await view.follow_events(take, self._ticker.flush)

    async def drain(self) -> None:
        """No wait: later events are in the list of the next call."""
