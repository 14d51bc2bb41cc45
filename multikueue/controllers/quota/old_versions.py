"""Reports queues and clusters that were written in an older version of Kueue's API, and lost fields on the way.

Kueue's definitions serve v1beta1 besides v1beta2, and leave the conversion to a webhook of Kueue. Where no Kueue runs, the
API server converts by changing the version alone: it accepts `spec.cohort`, and keeps nothing of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import anyio
import msgspec

from multikueue.api.kind import Kind
from multikueue.api.kinds import CLUSTER_QUEUES, MULTIKUEUE_CLUSTERS
from multikueue.api.kueue.conversion import VERSION, lost_fields
from multikueue.api.meta import Object, ObjectKey
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.errors import ApiError, ClusterUnreachable
from multikueue.kube.cluster_client import ClusterClient
from multikueue.kube.definitions import served_versions
from multikueue.telemetry import get_logger

__all__ = ["ADVICE", "OldVersions", "objects_with_losses"]

log = get_logger()

LOOK_EVERY = timedelta(seconds=5)
"""Time between two looks whether a queue or cluster has a new spec, the only reason to ask the API server: a manager at rest
makes no calls."""

ADVICE = (
    f"convert its manifest with `multikueue convert -f FILE` and apply it again; "
    f"the definitions of kind-configs/crds serve {VERSION} alone"
)


async def objects_with_losses(client: ClusterClient) -> list[tuple[Kind[Any], ObjectKey, tuple[str, ...]]]:
    """The objects that lost fields, with these: `spec.cohort`. Two lists.

    Raises as `ClusterClient.request` does.
    """
    found = []
    for kind in (CLUSTER_QUEUES, MULTIKUEUE_CLUSTERS):
        answer = msgspec.json.decode(await client.request("GET", kind.path()))
        for item in answer.get("items", ()):
            fields = lost_fields({"kind": kind.kind, **item})
            if fields:
                found.append((kind, ObjectKey("", item["metadata"]["name"]), fields))
    return found


@dataclass(slots=True)
class OldVersions:
    """Looks which versions of Kueue's API the manager cluster serves, and while there are several, what lost fields.

    It is for a manager cluster without Kueue. A loss is reported by an event on the object, and counted; that old versions are
    served is logged once.
    """

    context: ReconcileContext
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    _told: tuple[str, ...] = ()
    _is_due: bool = True

    def __post_init__(self) -> None:
        self.context.store.cluster_queues.observe(self._changed)
        self.context.store.clusters.observe(self._changed)

    async def run(self) -> None:
        while True:
            await self.look()
            await self.sleep(LOOK_EVERY.total_seconds())

    async def look(self) -> None:
        """Asks the API server, unless no queue or cluster has a new spec since the last answer."""
        if self._is_due:
            self._is_due = False
            # A spec may change while the answer is awaited, so nothing is set back after it.
            if not await self._has_answer():
                self._is_due = True

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or old.metadata.generation != new.metadata.generation):
            self._is_due = True

    async def _has_answer(self) -> bool:
        try:
            versions = await served_versions(self.context.manager)
            old = tuple(each for each in versions if each != VERSION)
            found = await objects_with_losses(self.context.manager) if old else []
        except (ApiError, ClusterUnreachable) as error:
            log.info("kueue.versions_unknown", why=str(error))
            return False
        if old and old != self._told:
            log.warning("kueue.old_versions_served", versions=old, advice=_about_the_cluster(old))
        self._told = old
        metrics = self.context.metrics
        metrics.guarded("old versions", lambda: metrics.lost_fields.set(len(found)))()
        for kind, key, fields in found:
            self._tell(kind, key, fields)
        return True

    def _tell(self, kind: Kind[Any], key: ObjectKey, fields: tuple[str, ...]) -> None:
        store = self.context.store
        about = (store.cluster_queues if kind is CLUSTER_QUEUES else store.clusters).get(key)
        if about is None:
            return
        message = f"Written in an older version, and nobody converts it here: {', '.join(fields)} is lost; {ADVICE}"
        self.context.recorder.emit(kind, about, type_="Warning", reason="FieldsLost", message=message)
        log.warning("object.fields_lost", kind=kind.kind, object=str(key), fields=fields)


def _about_the_cluster(versions: tuple[str, ...]) -> str:
    return (
        f"the API server takes objects in {', '.join(versions)} and drops the fields that {VERSION} has not: install the"
        f" definitions of kind-configs/crds, which serve {VERSION} alone, and convert manifests with `multikueue convert`"
    )
