"""Jobs without a Workload, since an API server refuses it: their events say why."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multikueue.api.kubernetes.printed import PrintedEvent
    from multikueue.api.kueue.workload import Workload
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["RefusedJob", "fetch_refused_jobs"]

_BEGINNING = datetime.min.replace(tzinfo=UTC)


class RefusedJob(msgspec.Struct, frozen=True):
    """A job without a Workload, and the manager's words why."""

    api_version: str
    kind: str
    namespace: str
    name: str
    why: str


async def fetch_refused_jobs(client: ClusterClient, namespace: str, workloads: Iterable[Workload]) -> list[RefusedJob]:
    """The jobs of the namespace (of all if it is empty) whose newest event `Refused` is about a Workload, and that own none
    of `workloads`; none if the user may not list events."""
    from multikueue.api.kubernetes.event import REFUSED
    from multikueue.api.kubernetes.printed import PRINTED_EVENTS
    from multikueue.cli.access.connection import fetch_pairs
    from multikueue.errors import ApiError

    try:
        pairs = await fetch_pairs(
            client, PRINTED_EVENTS, namespace=namespace, params={"fieldSelector": f"reason={REFUSED}"}
        )
    except ApiError:
        return []
    owned = {owner.uid for workload in workloads for owner in workload.metadata.owner_references}
    newest: dict[str, PrintedEvent] = {}
    for _, event in sorted(pairs, key=lambda pair: pair[1].at or _BEGINNING):
        if (
            event.reason == REFUSED
            and event.involved_object.uid not in owned
            and event.involved_object.kind != "Workload"
        ):
            newest[event.involved_object.uid] = event
    return [_refused(event) for event in newest.values() if await _is_there(client, event)]


def _refused(event: PrintedEvent) -> RefusedJob:
    about = event.involved_object
    return RefusedJob(about.api_version, about.kind, event.metadata.namespace, about.name, event.message)


async def _is_there(client: ClusterClient, event: PrintedEvent) -> bool:
    """Whether the job still exists; also if the user may not read it."""
    from multikueue.errors import ApiError, NotFound
    from multikueue.kube.relatives import collection, plural_of

    about = event.involved_object
    try:
        plural = await plural_of(client, about.api_version, about.kind)
        path = collection(about.api_version, event.metadata.namespace, plural)
        found = json.loads(await client.request("GET", f"{path}/{quote(about.name, safe='')}"))
    except NotFound:
        return False
    except ApiError:
        return True
    return bool(found["metadata"]["uid"] == about.uid)
