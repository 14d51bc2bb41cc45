"""What the manager's LocalQueues are on the workers that their jobs may go to, as the caller may see it there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from multikueue.cli.access.connection import ContextChoice, fetch_pairs, now
from multikueue.cli.access.worker_access import WorkerOptions
from multikueue.cli.commands.queues.rows import LOCAL, NAMESPACE, row_of, state_of
from multikueue.cli.terminal.formats import Form, Format, is_document
from multikueue.cli.terminal.output import Column, PrintedList, note, print_items, print_table
from multikueue.cli.terminal.progress import each

if TYPE_CHECKING:
    from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
    from multikueue.api.meta import ObjectKey
    from multikueue.cli.access.worker_access import WorkerAccess
    from multikueue.errors import MultiKueueError
    from multikueue.kube.client import Client

__all__ = ["ON_WORKERS", "OnWorkers", "QueueThere", "list_on_workers", "on_workers", "row_there"]

ON_WORKERS = (Column("WORKER"), *LOCAL[1:7], Column("CLUSTERQUEUE STATE"), LOCAL[-1])


@dataclass(frozen=True)
class OnWorkers(WorkerOptions):
    """Whether workers are asked too, and by which ways."""

    workers: Annotated[
        bool, typer.Option("--workers", help="And what it is on workers, as far as you may see it there.")
    ] = False


class QueueThere(msgspec.Struct, frozen=True, kw_only=True):
    """A LocalQueue of a worker, and the ClusterQueue that it leads to there; None is one that is missing."""

    worker: str
    key: ObjectKey
    queue: LocalQueue | None
    shared: ClusterQueue | None

    @property
    def document(self) -> dict[str, Any]:
        """For programs: both as the worker has them, null where one is missing."""
        return {"worker": self.worker, "localQueue": _tree(self.queue), "clusterQueue": _tree(self.shared)}


async def _queues_there(
    client: Client, access: WorkerAccess, queues: Sequence[LocalQueue]
) -> tuple[list[QueueThere], list[MultiKueueError]]:
    """Each queue on each of its workers, in the natural order of the workers' names, and which workers could not be asked."""
    from multikueue.cli.access.worker_clusters import gather
    from multikueue.registration.preflight import routes
    from multikueue.store.workers.watch_scope import namespaces_of

    way, wanted = await routes(client), {queue.key for queue in queues}
    members, _ = await gather(client, access.namespace, should_read_secrets=False)
    asked = [
        (member, keys)
        for member in members
        if (
            keys := [
                key
                for key in way.queues_to(member.name)
                if key in wanted and {"", key.namespace} & {*namespaces_of(member.cluster)}
            ]
        )
    ]

    async def ask(one: tuple[Any, Sequence[ObjectKey]]) -> list[QueueThere]:
        from multikueue.api.kinds import CLUSTER_QUEUES, LOCAL_QUEUES

        member, keys = one
        async with access.connect(client, member.name) as worker:
            spaces = sorted({key.namespace for key in keys})
            pages = [await worker.client.list(LOCAL_QUEUES, namespace=space) for space in spaces]
            there = {queue.key: queue for page in pages for queue in page.items}
            shared = {queue.metadata.name: queue for queue in (await worker.client.list(CLUSTER_QUEUES)).items}
        found = ((key, there.get(key)) for key in keys)
        return [
            QueueThere(
                worker=member.name, key=key, queue=queue, shared=shared.get(queue.spec.cluster_queue) if queue else None
            )
            for key, queue in found
        ]

    answers, failures = await each("asking", asked, ask)
    return [there for answer in answers for there in answer], failures


async def on_workers(client: Client, access: WorkerAccess, queues: Sequence[Any]) -> list[QueueThere]:
    found, failures = await _queues_there(client, access, queues)
    for failure in failures:
        note(f"Not seen: {failure}")
    return found


async def list_on_workers(
    target: ContextChoice,
    access: WorkerAccess,
    namespace: str | None,
    output: Form,
    *,
    is_everywhere: bool,
    has_headers: bool,
) -> None:
    """Prints each LocalQueue, and after it what it is on the workers."""
    from multikueue.api.kinds import LOCAL_QUEUES

    async with target.connect_in(namespace) as (client, meant):
        where = "" if is_everywhere else meant
        pairs = await fetch_pairs(client, LOCAL_QUEUES, namespace=where)
        there = await on_workers(client, access, [queue for _, queue in pairs])
    rows, items = list[tuple[str, ...]](), list[dict[str, Any]]()
    for item, queue in pairs:
        spaced = () if where else (queue.metadata.namespace,)
        name, *rest, message = row_of(queue, now())
        mine = [each for each in there if each.key == queue.key]
        rows += [(*spaced, name, "-", *rest, "-", message), *((*spaced, name, *row_there(each)) for each in mine)]
        items.append({**item, "workers": [each.document for each in mine]})
    columns = (*(() if where else (NAMESPACE,)), LOCAL[0], *ON_WORKERS)
    if is_document(output) or output is Format.NAME:
        listing = PrintedList(columns=columns, rows=[], items=items, resource="localqueue.kueue.x-k8s.io", nothing="")
        print_items(listing, output)
    elif not rows:
        note(f"No LocalQueues found{f' in namespace {where}' if where else ''}.")
    else:
        print_table(columns, rows, output, has_headers=has_headers)


def row_there(there: QueueThere) -> tuple[str, ...]:
    """A worker's LocalQueue as a row of `ON_WORKERS`."""
    if there.queue is None:
        return there.worker, "", "", "", "", "Missing", "", "", "`multikueue queues sync` makes it"
    _, parent, *rest, message = row_of(there.queue, now())
    shared = "Missing" if there.shared is None else state_of(there.shared)
    return there.worker, parent, *rest, shared, message


def _tree(value: LocalQueue | ClusterQueue | None) -> Any:
    return None if value is None else msgspec.json.decode(msgspec.json.encode(value))
