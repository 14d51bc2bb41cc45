"""The identity of a worker: the UID of its namespace kube-system, kept on its MultiKueueCluster for later processes.

It distinguishes two mistakes from lost work: a second name for a cluster that another name leads to, and a name that
leads to another cluster than before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import anyio.abc

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS, NAMESPACES
from multikueue.api.kubernetes.builtins import KUBE_SYSTEM
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import MultiKueueCluster
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.errors import Conflict, Forbidden, MultiKueueError, NotFound
from multikueue.kube.cluster_client import WatchingClient
from multikueue.store.references import CLUSTER_UID_ANNOTATION
from multikueue.store.workers.worker import WorkerView
from multikueue.telemetry import get_logger

__all__ = ["ClusterIdentity", "OtherCluster", "SameCluster"]

log = get_logger()

UNKNOWN, NOT_KEPT = "IdentityUnknown", "IdentityNotKept"

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
    _refused: dict[str, datetime] = field(default_factory=dict)
    _is_keeping: bool = False

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

    async def claim(self, uid: str) -> None:
        """Lets the name stand for the cluster with that UID from now on.

        Raises SameCluster if another name does, OtherCluster if something of ours may still be on the cluster before.
        Claims are made one at a time: the name recorded first is first, for ever and on all replicas, whatever is there by
        this one. The UID of another cluster is no secret, so a worker that shows it later proves nothing.
        """
        if self._recorded != uid:
            async with self.context.claims:
                self._judge(uid)
                await self._record(uid)
        self._judge(uid)  # again: the awaits gave other names time to change
        self.context.identified[self.worker.name] = uid

    def uphold(self, tasks: anyio.abc.TaskGroup) -> None:
        """Checks the cluster in use as `claim` does, and records it in a task: heartbeats never wait for the manager
        cluster.

        Raises SameCluster or OtherCluster.
        """
        self._judge(self.uid)
        if self._recorded != self.uid and not self._is_keeping and self._is_over(NOT_KEPT):
            self._is_keeping = True
            tasks.start_soon(self._keep)

    async def _keep(self) -> None:
        try:
            await self.claim(self.uid)
        except MultiKueueError:
            return  # the next heartbeat raises it too
        finally:
            self._is_keeping = False

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

    def _first(self, uid: str) -> MultiKueueCluster | None:
        """The other name that stands for a cluster, if any. While none is recorded, as on a standby, the eldest of the
        names that were seen to lead there."""
        clusters, identified = self.context.store.clusters, self.context.identified
        names = {self.worker.name, *(name for name, seen in identified.items() if seen == uid)}
        there = (clusters.get(ObjectKey("", name)) for name in names)
        found = clusters.by("uid", uid) or tuple(filter(None, there))
        first = min(found, key=_age, default=None)
        return first if first is not None and first.metadata.name != self.worker.name else None

    def _judge(self, uid: str) -> None:
        first = self._first(uid)
        if first is not None:
            raise SameCluster(
                f'it leads to the cluster that "{first.metadata.name}" stands for: nothing is done through a second name; '
                + (
                    "remove it"
                    if self.before in ("", uid)
                    else "have it lead where it led before, or remove one of the two"
                )
            )
        if self.before not in ("", uid) and self._may_be_in_use(self.worker) and not self._is_lost():
            raise OtherCluster(
                f"it leads to another cluster: that has the UID {uid}, and the one before {self.before}; it is used once"
                " nothing of ours is left on the one before, or that one is lost"
                + ("" if self.uid else f"; if it is meant, remove the annotation {CLUSTER_UID_ANNOTATION}")
            )

    def _may_be_in_use(self, worker: WorkerView) -> bool:
        """Whether anything of ours is, or may be, on the cluster that the worker's name stood for."""
        return worker.is_in_use or (not worker.link.is_known and self.context.store.may_be_on(worker.name))

    def _is_lost(self) -> bool:
        return self.worker.is_lost(self.context.now(), self.context.lost_after)

    def _is_over(self, refusal: str) -> bool:
        return self.context.now() >= self._refused.get(refusal, EVER) + PATIENCE

    async def _record(self, uid: str) -> None:
        """Records the UID on the object. Where that fails, this process relies on `ReconcileContext.identified`."""
        if self._object is not None and await self._annotate(self._object, uid):
            log.info("cluster.identified", cluster=self.worker.name, uid=uid, before=self.before)

    async def _annotate(self, cluster: MultiKueueCluster, uid: str) -> bool:
        """The version is named, so a write of a former leader that arrives late changes nothing."""
        if not self.context.mandate.is_valid() or not self._is_over(NOT_KEPT):
            return False
        meta = cluster.metadata
        identity = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body = {"metadata": {**identity, "annotations": {CLUSTER_UID_ANNOTATION: uid}}}
        try:
            self.context.store.clusters.upsert(
                await self.context.manager.merge_patch(MULTIKUEUE_CLUSTERS, cluster.key, body)
            )
        except Forbidden as error:
            self._tell(NOT_KEPT, f"its identity {uid} cannot be kept for the next start: {error}")
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


def _age(cluster: MultiKueueCluster) -> tuple[datetime, str]:
    """Sort key, eldest first. Two recorded names share a UID only where an object was copied with its annotation."""
    return cluster.metadata.creation_timestamp or EVER, cluster.metadata.name
