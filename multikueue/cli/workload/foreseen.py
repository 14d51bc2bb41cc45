"""Looks at a job that is not submitted yet, and at what it would depend on: the input of the answer of a dry run."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from multikueue.cli.access.connection import now
from multikueue.errors import Forbidden

if TYPE_CHECKING:
    from multikueue.answers.seen import Seen
    from multikueue.api.kind import Kind
    from multikueue.cli.access.worker_access import WorkerAccess
    from multikueue.cli.workload.seen import Inspection
    from multikueue.jobs.framework.adapter import Adapter
    from multikueue.jobs.framework.priority import Priority
    from multikueue.kube.cluster_client import ClusterClient, WatchingClient
    from multikueue.settings import Settings

__all__ = ["look_ahead"]

Tree = dict[str, Any]


async def look_ahead(
    client: WatchingClient, reach: WorkerAccess, job: Tree, settings: Settings | None
) -> Inspection | None:
    """What `why` would see of the job once it is there; None for a kind that settings declare, of which nothing is known here.

    `job` is what the server would store."""
    from msgspec.structs import replace

    from multikueue.api.kueue.workload import Workload
    from multikueue.api.meta import decoder, encode, render_time
    from multikueue.cli.workload.choices import foreseen_choice
    from multikueue.cli.workload.seen import Inspection, look_at, seen_job
    from multikueue.jobs.integrations.frameworks import known_kind

    adapter = known_kind(job["apiVersion"], job["kind"])
    if adapter is None:
        return None
    value = decoder(adapter.kind.type)(encode(job))
    not_seen = list[str]()
    priority = await _priority(client, adapter, value, settings, not_seen)
    if isinstance(priority, str):
        return Inspection(await _without_class(client, job, priority, not_seen))
    body = adapter.workload_body(value, priority=priority)
    body["metadata"] |= {"uid": "dry-run", "creationTimestamp": render_time(now())}
    workload = decoder(Workload)(encode(body))
    found = await look_at(client, reach, workload, [], settings, foreseen=seen_job(job))
    with suppress(Forbidden):  # its workers were not seen then either, and the answer says so
        found.choice = await foreseen_choice(client, workload, job, settings)
    found.seen = replace(found.seen, not_seen=(*not_seen, *found.seen.not_seen))
    return found


async def _priority(
    client: ClusterClient, adapter: Adapter, job: Any, settings: Settings | None, not_seen: list[str]
) -> Priority | str:
    """Its priority, 0 where its class may not be seen; a text for a class that does not exist."""
    from multikueue.api.kinds import PRIORITY_CLASSES, WORKLOAD_PRIORITY_CLASSES
    from multikueue.jobs.framework.priority import Priority, resolve
    from multikueue.jobs.framework.workloads import workload_priority_class

    try:
        return resolve(
            workload_class=workload_priority_class(job),
            pod_class=adapter.pod_priority_class(job),
            classes=await _by_name(client, WORKLOAD_PRIORITY_CLASSES),
            pod_classes=await _by_name(client, PRIORITY_CLASSES),
            should_count_system_classes=settings is not None and settings.quota.system_priority_classes == "Count",
        )
    except Forbidden:
        not_seen.append("its priority, since you may not list classes of priority")
        return Priority()


async def _by_name(client: ClusterClient, kind: Kind[Any]) -> dict[str, Any]:
    return {each.metadata.name: each for each in (await client.list(kind)).items}


async def _without_class(client: ClusterClient, tree: Tree, why: str, not_seen: list[str]) -> Seen:
    """A job that would get no Workload, since its class does not exist: its event would say so."""
    from multikueue.answers.seen import Seen
    from multikueue.api.kinds import WORKLOAD_PRIORITY_CLASSES
    from multikueue.api.kubernetes.printed import PrintedEvent
    from multikueue.cli.workload.seen import seen_job

    job = seen_job(tree)
    return Seen(
        name=f"{job.kind.lower()}/{job.meta.name}",
        namespace=job.meta.namespace,
        job=job,
        classes=frozenset(await _by_name(client, WORKLOAD_PRIORITY_CLASSES)),
        told=(PrintedEvent(reason="PriorityNotFound", message=why),),
        is_foreseen=True,
        not_seen=tuple(not_seen),
    )
