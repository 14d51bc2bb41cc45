"""The identity of a worker: the UID of its namespace kube-system, kept on its MultiKueueCluster for later processes.

It distinguishes two mistakes from lost work: a second name for a cluster that another name leads to, and a name that
leads to another cluster than before. The UID is no secret, and a cluster restored from a backup of another one has the same:
where two names show one, `proofs` finds out whether they lead to one cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile

import anyio.abc

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS, NAMESPACES
from multikueue.api.kubernetes.builtins import KUBE_SYSTEM
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import (
    CLUSTER_UID_ANNOTATION,
    OTHER_THAN_ANNOTATION,
    MultiKueueCluster,
    other_than,
)
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.workers.connection.proofs import Proofs
from multikueue.errors import Conflict, Forbidden, MultiKueueError, NotFound
from multikueue.kube.cluster_client import WatchingClient
from multikueue.store.workers.worker import WorkerView
from multikueue.telemetry import get_logger

__all__ = ["ClusterIdentity", "OtherCluster", "SameCluster"]

log = get_logger()

UNKNOWN, NOT_KEPT, SHARED = "IdentityUnknown", "IdentityNotKept", "IdentityShared"

UNTOLD = "whether it leads where another name leads, or elsewhere than before, cannot be told without its kube-system"

PATIENCE = timedelta(hours=1)
"""Time until a forbidden request is tried again: an administrator may have allowed it meanwhile."""

EVER = datetime.min.replace(tzinfo=UTC)


class OtherCluster(MultiKueueError):
    """The credentials are good, and lead to another cluster than before."""


class SameCluster(MultiKueueError):
    """The credentials are good, and lead to the cluster of another name."""


@dataclass(slots=True)
class ClusterIdentity:
    """The identity of one worker. `uid` is that of the cluster in use; empty if there is none, or it is unreadable."""

    context: ReconcileContext
    worker: WorkerView
    uid: str = ""
    _proofs: Proofs = field(init=False)
    _refused: dict[str, datetime] = field(default_factory=dict)
    _is_keeping: bool = False

    def __post_init__(self) -> None:
        self._proofs = Proofs(self.context, self.worker)

    async def read(self, client: WatchingClient) -> str:
        """The UID of the cluster that a client leads to; empty, with a warning, if it may not be read."""
        try:
            return (await client.get(NAMESPACES, KUBE_SYSTEM)).metadata.uid
        except (NotFound, Forbidden) as error:
            self._tell(UNKNOWN, f"{UNTOLD} ({error}): register it again, or let us get that namespace")
            return ""

    @property
    def is_due(self) -> bool:
        """Whether the UID is unknown, and it is time to read it again."""
        return not self.uid and self._is_over(UNKNOWN)

    async def vouch(self, client: WatchingClient) -> None:
        """Raises OtherCluster if a client leads to another cluster than it did, behind the same address."""
        route = client.route
        uid = await self.read(client) if self.uid else ""
        if uid not in ("", self.uid) and client.route is route:
            raise OtherCluster(f"it is another cluster now: that has the UID {uid}, and the one before {self.uid}")

    async def claim(self, uid: str, client: WatchingClient) -> None:
        """Lets the name stand for the cluster with that UID, to which the client leads, from now on.

        Raises SameCluster if another name does, OtherCluster if something of ours may still be on the cluster before.
        Claims are made one at a time: the name recorded first is first, forever and on all replicas, whatever is there by
        this one, and so is a name that another one was recorded after. A name that shows the UID of another one, and is
        proven to lead elsewhere, is used beside it.
        """
        for name in self._ahead(uid):
            await self._proofs.prove(name, client)
        if not self._is_recorded(uid):
            async with self.context.claims:
                self._judge(uid, client)
                await self._record(uid)
        self._judge(uid, client)  # again: the awaits gave other names time to change
        self.context.identified[self.worker.name] = uid
        if self._ahead(uid):
            self._tell(SHARED, self.note(uid))

    def uphold(self, tasks: anyio.abc.TaskGroup, client: WatchingClient) -> None:
        """Checks the cluster in use as `claim` does, and proves and records it in a task: heartbeats never wait for the
        manager cluster, nor for another worker.

        Raises SameCluster or OtherCluster.
        """
        is_to_prove = any(self._proofs.is_due(name, client) for name in self._ahead(self.uid))
        is_to_record = not self._is_recorded(self.uid) and self._is_over(NOT_KEPT)
        if (is_to_prove or is_to_record) and not self._is_keeping:
            self._is_keeping = True
            tasks.start_soon(self._keep, client)
        self._judge(self.uid, client)

    async def _keep(self, client: WatchingClient) -> None:
        try:
            await self.claim(self.uid, client)
        except MultiKueueError:
            return  # the next heartbeat raises it too
        finally:
            self._is_keeping = False

    def note(self, uid: str) -> str:
        """What is to be said of a cluster that is used beside others with its UID; empty if there are none before it."""
        others = ", ".join(f'"{name}"' for name in self._ahead(uid))
        if not others:
            return ""
        return (
            f"it shows the identity of {others}, and is another cluster: what is written through it is not seen there; one of"
            " them lies, or was restored from a backup of another one"
        )

    @property
    def before(self) -> str:
        """The UID of the cluster that the name stands for; empty if unknown."""
        return self.uid or self._recorded

    @property
    def _object(self) -> MultiKueueCluster | None:
        return self.context.store.clusters.get(ObjectKey("", self.worker.name))

    @property
    def _recorded(self) -> str:
        return self._object.metadata.annotations.get(CLUSTER_UID_ANNOTATION, "") if self._object is not None else ""

    def _is_recorded(self, uid: str) -> bool:
        others = other_than(self._object) if self._object is not None else ()
        return (self._recorded, others) == (uid, self._ahead(uid))

    def _ahead(self, uid: str) -> tuple[str, ...]:
        """The other names that show a UID and come before this one, first to last."""
        found = sorted(self._showing(uid), key=_precedence)
        return tuple(takewhile(lambda name: name != self.worker.name, (each.metadata.name for each in found)))

    def _showing(self, uid: str) -> Iterator[MultiKueueCluster]:
        """The names recorded with a UID, and those that one of them was recorded after. While none is recorded, as on a
        standby, the names that were seen to lead there."""
        clusters, identified = self.context.store.clusters, self.context.identified
        recorded = tuple(clusters.by("uid", uid))
        yield from recorded
        first = {name for each in recorded for name in other_than(each)}
        seen = {self.worker.name, *(name for name, shown in identified.items() if shown == uid)}
        for name in first if recorded else seen:
            cluster = clusters.get(ObjectKey("", name))
            if cluster is not None and not (recorded and CLUSTER_UID_ANNOTATION in cluster.metadata.annotations):
                yield cluster

    def _judge(self, uid: str, client: WatchingClient) -> None:
        first = next((name for name in self._ahead(uid) if not self._proofs.is_other(name, client)), "")
        if first:
            way_out = (
                "remove it"
                if self.before in ("", uid)
                else "have it lead where it led before, or remove one of the two"
            )
            unproven = self._proofs.why_unproven(first, client)
            raise SameCluster(
                f'it leads to the cluster that "{first}" stands for: nothing is done through a second name; {way_out}'
                + (f". By its UID, which is not proven: {unproven}" if unproven else "")
            )
        is_lost = self.worker.is_lost(self.context.now(), self.context.lost_after)
        if self.before not in ("", uid) and not is_lost and self._may_be_in_use(self.worker):
            raise OtherCluster(
                f"it leads to another cluster: that has the UID {uid}, and the one before {self.before}; it is used once"
                " nothing of ours is left on the one before, or that one is lost"
                + ("" if self.uid else f"; if it is meant, remove the annotation {CLUSTER_UID_ANNOTATION}")
            )

    def _may_be_in_use(self, worker: WorkerView) -> bool:
        """Whether anything of ours is, or may be, on the cluster that the worker's name stood for."""
        return worker.is_in_use or (not worker.link.is_known and self.context.store.may_be_on(worker.name))

    def _is_over(self, refusal: str) -> bool:
        return self.context.now() >= self._refused.get(refusal, EVER) + PATIENCE

    async def _record(self, uid: str) -> None:
        """Records the UID on the object, and which names before it are other clusters. Where that fails, this process relies
        on `ReconcileContext.identified`."""
        marks = {CLUSTER_UID_ANNOTATION: uid, OTHER_THAN_ANNOTATION: ",".join(self._ahead(uid)) or None}
        if self._object is not None and await self._annotate(self._object, marks):
            log.info("cluster.identified", cluster=self.worker.name, uid=uid, before=self.before)

    async def _annotate(self, cluster: MultiKueueCluster, marks: dict[str, str | None]) -> bool:
        """The version is named, so a write of a former leader that arrives late changes nothing."""
        if not self.context.mandate.is_valid() or not self._is_over(NOT_KEPT):
            return False
        meta = cluster.metadata
        identity = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body = {"metadata": {**identity, "annotations": marks}}
        try:
            self.context.store.clusters.upsert(
                await self.context.manager.merge_patch(MULTIKUEUE_CLUSTERS, cluster.key, body)
            )
        except Forbidden as error:
            self._tell(
                NOT_KEPT, f"its identity {marks[CLUSTER_UID_ANNOTATION]} cannot be kept for the next start: {error}"
            )
            return False
        except Conflict:
            return False  # the next heartbeat tries again, with the version that is seen by then
        except MultiKueueError as error:
            log.warning("cluster.identity_not_kept", cluster=cluster.metadata.name, why=str(error))
            return False
        return True

    def _tell(self, reason: str, why: str) -> None:
        """Warns once per `PATIENCE` and reason: these problems do not change by themselves."""
        was_over, self._refused[reason] = self._is_over(reason), self.context.now()
        if not was_over or self._object is None or not self.context.mandate.is_valid():
            return
        log.warning("cluster.identity_trouble", cluster=self.worker.name, why=why)
        self.context.recorder.emit(MULTIKUEUE_CLUSTERS, self._object, type_="Warning", reason=reason, message=why)


def _precedence(cluster: MultiKueueCluster) -> tuple[int, datetime, str]:
    """Sort key of names that show one UID: by how many were recorded before them, then the oldest first. Two are alike only
    where an object was copied with its annotation."""
    meta = cluster.metadata
    return len(other_than(cluster)), meta.creation_timestamp or EVER, meta.name
