"""`multikueue queues`: their pending workloads, their quota, and whether they are stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multikueue.cli.access.connection import (
    ContextChoice,
    ManagerOptions,
    fetch_pairs,
    now,
    run_async,
)
from multikueue.cli.access.groups import group
from multikueue.cli.commands.queues import stopping
from multikueue.cli.commands.queues.fleet import (
    ON_WORKERS,
    OnWorkers,
    list_on_workers,
    on_workers,
    row_there,
)
from multikueue.cli.commands.queues.naming import FoundQueue, InQueueNamespace, NamedQueue, find
from multikueue.cli.commands.queues.rows import columns, row_of
from multikueue.cli.commands.queues.syncing import sync
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.formats import Form, Format, NoHeaders, Output, SortBy, is_document
from multikueue.cli.terminal.output import (
    Column,
    PrintedList,
    Ticker,
    age,
    heading,
    note,
    print_document,
    print_facts,
    print_items,
    print_table,
)

if TYPE_CHECKING:
    from multikueue.api.kind import Kind
    from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
    from multikueue.api.kueue.workload import Workload
    from multikueue.cli.commands.queues.fleet import QueueThere
    from multikueue.kube.client import Client

__all__ = ["app", "list_queues", "watch_queues"]


app = group("queues", "See queues, hold, resume and sync them.")

QUOTAS = (Column("FLAVOR"), Column("RESOURCE"), Column("RESERVED"), Column("BORROWED"), Column("QUOTA"))
SPEND = tuple(map(Column, ("QUEUE", "NAMESPACE", "SPENT", "LIMIT", "WINDOW", "STATE")))
LINE = (Column("PLACE"), Column("WORKLOAD"), Column("JOB"), Column("PRIORITY"), Column("AGE"))


@app.command("list")
@bundled
def list_queues(
    namespace: InQueueNamespace = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")] = False,
    cluster_queues: Annotated[
        bool, typer.Option("--cluster-queues", help="The ClusterQueues in place of the LocalQueues.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on and show each change.")] = False,
    output: Output = Format.TABLE,
    sort_by: SortBy = "",
    no_headers: NoHeaders = False,
    *,
    ways: OnWorkers,
    manager: ManagerOptions,
) -> None:
    """List queues with their waiting and admitted workloads.

    With --workers each LocalQueue is followed by what it is on the workers that its jobs may go to, and by the ClusterQueue
    there.

    \b
    Examples:
      multikueue queues list -n team-a -w
      multikueue queues list -A --workers
      multikueue queues list --cluster-queues -o wide
    """
    from multikueue.api.kinds import CLUSTER_QUEUES, LOCAL_QUEUES

    kind = CLUSTER_QUEUES if cluster_queues else LOCAL_QUEUES
    target = manager.target
    if ways.workers:
        if cluster_queues or watch or sort_by:
            raise typer.BadParameter("--workers lists LocalQueues, as they are now")
        run_async(
            lambda: list_on_workers(
                target, ways.access(target), namespace, output, is_everywhere=all_namespaces, has_headers=not no_headers
            )
        )
        return
    if watch:
        if is_document(output):
            raise typer.BadParameter("--watch shows rows: choose table or wide")
        everywhere = "" if all_namespaces or cluster_queues else namespace
        run_async(lambda: watch_queues(target, everywhere, kind, output, has_headers=not no_headers))
        return

    async def work() -> tuple[str, list[tuple[dict[str, Any], Any]]]:
        async with target.connect_in(namespace) as (client, meant):
            where = "" if all_namespaces or cluster_queues else meant
            return where, await fetch_pairs(client, kind, namespace=where)

    where, pairs = run_async(work)
    moment, spaced = now(), not where and not cluster_queues
    rows = [row_of(queue, moment) for _, queue in pairs]
    print_items(
        PrintedList(
            columns=columns(kind, where),
            rows=[
                (queue.metadata.namespace, *row) if spaced else row for row, (_, queue) in zip(rows, pairs, strict=True)
            ],
            items=[item for item, _ in pairs],
            resource=f"{kind.kind.lower()}.kueue.x-k8s.io",
            nothing=f"No {kind.kind}s found{f' in namespace {where}' if where else ''}.",
        ),
        output,
        sort_by=sort_by,
        has_headers=not no_headers,
    )


@app.command("show")
@bundled
def show_queue(
    name: NamedQueue,
    namespace: InQueueNamespace = None,
    output: Output = Format.TABLE,
    *,
    ways: OnWorkers,
    manager: ManagerOptions,
) -> None:
    """Show one queue: its quota and who waits in it, in order.

    With --workers also what it is on the workers that its jobs may go to, and the ClusterQueue there.

    \b
    Examples:
      multikueue queues show -n team-a batch
      multikueue queues show -n team-a batch --workers
      multikueue queues show clusterqueue/shared
    """
    target = manager.target

    async def work() -> tuple[FoundQueue, ClusterQueue | None, list[Workload], list[QueueThere]]:
        async with target.connect_in(namespace) as (client, where):
            found = await find(client, where, name)
            if ways.workers and not found.kind.namespaced:
                raise typer.BadParameter("--workers is for a LocalQueue: workers have ClusterQueues of their own")
            there = await on_workers(client, ways.access(target), [found.queue]) if ways.workers else []
            if is_document(output):
                return found, None, [], there
            return found, await _with_quota(client, found.queue), await _line(client, found), there

    found, shared, line, there = run_async(work)
    if is_document(output):
        print_document(
            {**found.item, "workers": [each.document for each in there]} if ways.workers else found.item, output
        )
    elif output is Format.NAME:
        print(f"{found.kind.kind.lower()}.kueue.x-k8s.io/{found.queue.metadata.name}")
    else:
        _print_queue(found, shared, line)
        if there:
            print()
            heading("On the workers")
            print_table(ON_WORKERS, [row_there(each) for each in there], output)


@app.command("spend")
@bundled
def show_spend(
    namespace: InQueueNamespace = None,
    output: Output = Format.TABLE,
    sort_by: SortBy = "",
    no_headers: NoHeaders = False,
    *,
    manager: ManagerOptions,
) -> None:
    """Show what queues have spent on workers, and what they may.

    Old money counts less: what was spent one window ago a third, roughly. Queues of which nothing is known are left out.
    With a namespace only its LocalQueues are shown.

    \b
    Examples:
      multikueue queues spend
      multikueue queues spend -n team-a
    """
    from multikueue.api.kinds import CLUSTER_QUEUES, LOCAL_QUEUES

    async def work() -> list[tuple[dict[str, Any], Any]]:
        async with manager.target.connect_in(namespace) as (client, _):
            shared = [] if namespace else await fetch_pairs(client, CLUSTER_QUEUES)
            return [*shared, *await fetch_pairs(client, LOCAL_QUEUES, namespace=namespace or "")]

    moment = now()
    shown = [(row, item) for item, queue in run_async(work) if (row := _spend(queue, moment))]
    listing = PrintedList(
        columns=SPEND,
        rows=[row for row, _ in shown],
        items=[item for _, item in shown],
        resource="",
        nothing="No queue has spent anything or has a limit (annotation multikueue.dev/max-spend).",
    )
    print_items(listing, output, sort_by=sort_by, has_headers=not no_headers)


def _spend(queue: LocalQueue | ClusterQueue, moment: datetime) -> tuple[str, ...]:
    """Its row; empty if nothing is known of it."""
    from multikueue.quota.capacity.spend import Account, limit_of, told_account

    limit = limit_of(queue)
    told = told_account(queue.status.conditions, limit, moment)
    if told is None and limit.most is None:
        return ()
    account, meta = told or Account(at=moment, begun=moment, limit=limit), queue.metadata
    until = account.until(moment)
    state = "Within" if not account.is_over(moment) else f"Over until {until:%Y-%m-%dT%H:%MZ}" if until else "Over"
    most, window = "-" if limit.most is None else f"{limit.most:g}", f"{limit.window.total_seconds() / 3600:g}h"
    name = f"{type(queue).__name__.lower()}/{meta.name}"
    return name, meta.namespace or "-", f"{account.spent_by(moment):.2f}", most, window, state


app.command("sync")(sync)
app.command("hold")(stopping.hold)
app.command("resume")(stopping.resume)


async def watch_queues(
    target: ContextChoice, namespace: str | None, kind: Kind[Any], output: Form, *, has_headers: bool
) -> None:
    """Prints all queues, then each change. An empty `namespace` means all namespaces."""
    from multikueue.cli.access.following import follow

    async with target.connect_in(namespace) as (client, meant):
        where = "" if namespace == "" else meant
        ticker = Ticker(columns(kind, where), output, headers=has_headers)

        async def take(queue: LocalQueue | ClusterQueue, is_gone: bool) -> None:
            spaced = (queue.metadata.namespace,) if kind.namespaced and not where else ()
            row = row_of(queue, now())
            ticker.add((*spaced, *row[:5], "Gone", *row[6:]) if is_gone else (*spaced, *row))

        await follow(client, kind, where, take, rest=ticker.flush)


def _print_queue(found: FoundQueue, shared: ClusterQueue | None, line: Sequence[Workload]) -> None:
    queue, moment = found.queue, now()
    _, parent, pending, reserving, admitted, state, made, message = row_of(queue, moment)
    title = "ClusterQueue" if found.kind.namespaced else "Cohort"
    facts = {title: parent, "State": state, "Message": message, "Pending": pending, "Reserving": reserving}
    print_facts(str(found), (facts | {"Admitted": admitted, "Age": made}).items())
    quotas = list(_quotas(queue, shared))
    if quotas:
        print()
        heading("Quota")
        print_table(QUOTAS, quotas, Format.TABLE)
    if line:
        print()
        heading("Waiting")
        print_table(LINE, list(_places(line, moment)), Format.TABLE)


async def _with_quota(client: Client, queue: LocalQueue | ClusterQueue) -> ClusterQueue | None:
    """The ClusterQueue that the queue is or belongs to; None if there is none, or the user may not read it."""
    from multikueue.api.kinds import CLUSTER_QUEUES
    from multikueue.api.meta import ObjectKey
    from multikueue.errors import Forbidden, NotFound

    name = getattr(queue.spec, "cluster_queue", "")
    try:
        return await client.get(CLUSTER_QUEUES, ObjectKey("", name or queue.metadata.name))
    except NotFound:
        return None
    except Forbidden as error:
        note(f"Not seen: its quota: {error.message}")
        return None


def _quotas(queue: LocalQueue | ClusterQueue, shared: ClusterQueue | None) -> Iterator[tuple[str, ...]]:
    """What is reserved by the queue, beside the nominal quota of its ClusterQueue, if that is known."""
    groups = shared.spec.resource_groups if shared is not None else ()
    nominal = {
        (flavor.name, each.name): str(each.nominal_quota)
        for group_ in groups
        for flavor in group_.flavors
        for each in flavor.resources
    }
    for flavor in queue.status.flavors_reservation:
        for each in flavor.resources:
            yield flavor.name, each.name, each.total, each.borrowed, nominal.get((flavor.name, each.name), "")


def _places(line: Sequence[Workload], moment: datetime) -> Iterator[tuple[str, ...]]:
    from multikueue.api.kueue.workload import any_owner_of, workload_spec

    for place, each in enumerate(line, 1):
        owner, meta = any_owner_of(each), each.metadata
        job = f"{owner.kind}/{owner.name}" if owner else ""
        yield str(place), str(each.key), job, str(workload_spec(each).priority), age(meta.creation_timestamp, moment)


async def _line(client: Client, found: FoundQueue) -> list[Workload]:
    """The queue's pending workloads in Kueue's order: by priority, then by age."""
    from multikueue.api.kinds import WORKLOADS
    from multikueue.api.kueue.workload import FINISHED, QUOTA_RESERVED, queue_of, workload_spec
    from multikueue.errors import Forbidden
    from multikueue.quota.workload.ordering import queue_rank

    try:
        keys = await _queues_of(client, found)
        namespace = found.queue.metadata.namespace if found.kind.namespaced else ""
        all_ = (await client.list(WORKLOADS, namespace=namespace)).items
    except Forbidden as error:
        note(f"Not seen: who waits: {error.message}")
        return []
    waiting = (each for each in all_ if not each.has(QUOTA_RESERVED) and not each.has(FINISHED))
    line = [each for each in waiting if queue_of(each) in keys and workload_spec(each).active]
    return sorted(line, key=lambda each: queue_rank(each, workload_spec(each).priority))


async def _queues_of(client: Client, found: FoundQueue) -> set[Any]:
    """Keys of the LocalQueues of a ClusterQueue; for a LocalQueue its own key."""
    from multikueue.api.kinds import LOCAL_QUEUES

    if found.kind.namespaced:
        return {found.queue.key}
    local = (await client.list(LOCAL_QUEUES)).items
    return {each.key for each in local if each.spec.cluster_queue == found.queue.metadata.name}
