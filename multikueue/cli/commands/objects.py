"""`multikueue objects`: objects that the manager cannot read or take in, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from multikueue.cli.access.connection import Context, ContextChoice, Kubeconfig, SettingsFile, now, run_async
from multikueue.cli.access.groups import group
from multikueue.cli.terminal.formats import Form, Format, Output
from multikueue.cli.terminal.output import Column, PrintedList, note, one_line, print_items

if TYPE_CHECKING:
    from multikueue.api.kind import Kind
    from multikueue.api.meta import ObjectKey
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue.store.caches.cache import Cache

__all__ = ["app"]

app = group("objects", "List objects that the manager cannot work with.")

COLUMNS = (Column("KIND"), Column("NAMESPACE"), Column("NAME"), Column("REASON"))


@app.command()
def unreadable(
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """List unreadable objects and refused Workloads.

    An object that cannot be read or taken in is left out of all decisions. A job whose Workload the API server refuses
    waits. Neither costs any other job anything.
    Your own credentials read the manager cluster, and each object goes the way it goes in the manager. What workers
    hold is in the manager's log (object.unreadable) and its metric multikueue_objects_unreadable.

    \b
    Examples:
      multikueue objects unreadable
      multikueue objects unreadable -o json
    """
    run_async(lambda: _list(ContextChoice(kubeconfig, context), output))


async def _list(target: ContextChoice, output: Form) -> None:
    from multikueue.api.kinds import SECRETS
    from multikueue.cli.workload.refusals import fetch_refused_jobs
    from multikueue.quota.engine import Engine
    from multikueue.store.queues import NoQueues
    from multikueue.store.store import Store

    found: list[dict[str, Any]] = []
    async with target.connect() as client:
        store = Store(Engine(), NoQueues(), now)
        for _, kind, cache in store.caches():
            if kind is SECRETS:
                continue  # the manager reads those of one namespace only; the others are not ours to read
            await _take_in(client, kind, cache)
            found += [_item(kind, key, why) for key, why in sorted(cache.unreadable.items())]
        for job in await fetch_refused_jobs(client, "", store.workloads):
            metadata = {"namespace": job.namespace, "name": job.name}
            found.append({"apiVersion": job.api_version, "kind": job.kind, "metadata": metadata, "reason": job.why})
    print_items(
        PrintedList(
            columns=COLUMNS,
            rows=[_row(item) for item in found],
            items=found,
            resource="object",
            nothing="All objects can be read.",
        ),
        output,
    )


async def _take_in(client: ClusterClient, kind: Kind[Any], cache: Cache[Any]) -> None:
    from multikueue.errors import Forbidden, NotFound

    try:
        page = await client.list(kind)
    except (Forbidden, NotFound) as error:
        note(f"not looked at: {error}")
        return
    cache.unreadable.update(page.undecodable)
    cache.replace(page.items)


def _item(kind: Kind[Any], key: ObjectKey, why: str) -> dict[str, Any]:
    metadata = {"namespace": key.namespace, "name": key.name}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "reason": why}


def _row(item: dict[str, Any]) -> list[str]:
    metadata = item["metadata"]
    return [item["kind"], metadata["namespace"] or "-", metadata["name"], one_line(item["reason"])]
