"""Which cluster a worker is: the UID of its namespace kube-system, kept on its MultiKueueCluster for the processes to come.

It tells two mistakes apart from work that is gone: a second name for a cluster that another name leads to, and a name
that leads to another cluster than before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from multikueue.api.core import KUBE_SYSTEM
from multikueue.api.kinds import MULTIKUEUE_CLUSTERS, NAMESPACES
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue import MultiKueueCluster
from multikueue.controllers.world import World
from multikueue.errors import Forbidden, MultiKueueError, NotFound
from multikueue.kube.client import Client
from multikueue.store.store import CLUSTER_UID_ANNOTATION
from multikueue.store.worker import WorkerView
from multikueue.telemetry import get_logger

__all__ = ["Identity", "OtherCluster", "SameCluster"]

log = get_logger()

UNTOLD = "whether it leads where another name leads, or elsewhere than before, cannot be told without its kube-system"

EVER = datetime.min.replace(tzinfo=UTC)


class OtherCluster(MultiKueueError):
    """The credentials are good, and lead to another cluster than before."""


class SameCluster(MultiKueueError):
    """The credentials are good, and lead to the cluster of another name."""


@dataclass(slots=True)
class Identity:
    """Of one worker. `uid` is that of the cluster in use, empty while there is none or where it may not be read."""

    world: World
    worker: WorkerView
    uid: str = ""
    _told: set[str] = field(default_factory=set)

    async def read(self, client: Client) -> str:
        """The UID of the cluster that a client leads to; empty if it may not be read, which is told."""
        try:
            return (await client.get(NAMESPACES, KUBE_SYSTEM)).metadata.uid
        except (NotFound, Forbidden) as error:
            self._tell("IdentityUnknown", f"{UNTOLD} ({error}): register it again, or let us get that namespace")
            return ""

    async def claim(self, uid: str) -> None:
        """Let the name stand for that cluster from now on.

        Raises SameCluster if another name does, OtherCluster if something of ours may still be on the one before. Names
        are given one after another: what was recorded first is first, for ever and on all replicas.
        """
        if self._recorded == uid:
            return self._judge(uid)
        async with self.world.claims:
            self._judge(uid)
            await self._record(uid)
        return self._judge(uid)  # the world went on meanwhile

    @property
    def before(self) -> str:
        """The UID of the cluster that the name stands for, as far as that is known."""
        return self.uid or self._recorded

    @property
    def _object(self) -> MultiKueueCluster | None:
        return self.world.store.clusters.get(ObjectKey("", self.worker.name))

    @property
    def _recorded(self) -> str:
        return self._object.metadata.annotations.get(CLUSTER_UID_ANNOTATION, "") if self._object is not None else ""

    def _judge(self, uid: str) -> None:
        first = min(self.world.store.clusters.by("uid", uid), key=_age, default=self._object)
        if first is not None and first.metadata.name != self.worker.name:
            name = first.metadata.name
            raise SameCluster(
                f'it leads to the cluster that "{name}" stands for: nothing is done through a second name; remove it'
            )
        if self.before not in ("", uid) and self._holds() and not self._is_lost():
            raise OtherCluster(
                f"it leads to another cluster: that has the UID {uid}, and the one before {self.before}; it is used once"
                " nothing of ours is left on the one before, or that one is lost"
                + ("" if self.uid else f"; if it is meant, remove the annotation {CLUSTER_UID_ANNOTATION}")
            )

    def _holds(self) -> bool:
        """Whether anything of ours is, or may be, on the cluster before."""
        seen = self.worker.held() or self.worker.asked or self.worker.creating
        return bool(seen) or (not self.worker.known and self.world.store.may_be_on(self.worker.name))

    def _is_lost(self) -> bool:
        return self.worker.lost(self.world.now(), self.world.lost_after)

    async def _record(self, uid: str) -> None:
        """On the object. Where that cannot be, this process goes by what it has seen itself."""
        cluster = self._object
        if cluster is None or not self.world.mandate.valid() or "IdentityNotKept" in self._told:
            return
        body = {"metadata": {"uid": cluster.metadata.uid, "annotations": {CLUSTER_UID_ANNOTATION: uid}}}
        try:
            answer = await self.world.manager.merge_patch(MULTIKUEUE_CLUSTERS, cluster.key, body)
        except Forbidden as error:
            self._tell("IdentityNotKept", f"its identity {uid} cannot be kept for the next start: {error}")
            return
        except MultiKueueError as error:
            log.warning("cluster.identity_not_kept", cluster=self.worker.name, why=str(error))
            return
        log.info("cluster.identified", cluster=self.worker.name, uid=uid, before=self.before)
        self.world.store.clusters.upsert(answer)

    def _tell(self, reason: str, why: str) -> None:
        """Once: these do not change by themselves."""
        if reason in self._told or self._object is None or not self.world.mandate.valid():
            return
        self._told.add(reason)
        log.warning("cluster.identity_trouble", cluster=self.worker.name, why=why)
        self.world.recorder.emit(MULTIKUEUE_CLUSTERS, self._object, type_="Warning", reason=reason, message=why)


def _age(cluster: MultiKueueCluster) -> tuple[datetime, str]:
    """The eldest first: two have one UID only where somebody copied an object with its annotation."""
    return cluster.metadata.creation_timestamp or EVER, cluster.metadata.name
