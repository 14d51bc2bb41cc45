"""A worker where the job `train` of namespace `team` runs, as `Reads` sees it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from multikueue.api.kinds import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, NAMESPACES
from multikueue.api.kubernetes.printed import PODS, PRINTED_EVENTS
from multikueue.api.kueue.workload import PREBUILT_LABEL, Workload
from multikueue.api.meta import ObjectKey, encode
from multikueue.controllers.serving.remote_reads import Reads
from multikueue.store.workers.worker import WorkerView
from multikueue.web.server import Write
from multikueue.web.visibility import Look, PodLog
from tests.builders import cluster_queue, local_queue, workload
from tests.cluster import Cluster

Tree = dict[str, Any]

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEAM = "team"
WORKLOAD = "job-train"


def train(cluster: str | None = "w1") -> Workload:
    """The workload at home."""
    made = workload(WORKLOAD, namespace=TEAM).queue("main").owner_job("train", uid="at home")
    return (made.reserved("cq").admitted().cluster_name(cluster) if cluster else made).build()


def has_queue(worker: Cluster, *, cpu: Any) -> None:
    """LocalQueue `lq` of `default` leads to so many CPUs there."""
    worker.put(NAMESPACES, {"metadata": {"name": "default"}})
    for kind, made in (
        (LOCAL_QUEUES, local_queue("lq", "theirs").build()),
        (CLUSTER_QUEUES, cluster_queue("theirs").quota("default", cpu=cpu).build()),
    ):
        worker.put(kind, json.loads(encode(made)))


async def _may() -> None:
    """The reader may see it."""


class Side:
    """The worker `w1`, with a copy of ours of the workload, and its job."""

    def __init__(self) -> None:
        self.worker = Cluster("w1", lambda: NOW, cluster="w1")
        self.view = WorkerView("w1")
        self.reads = Reads(clients={"w1": self.worker}, workers={"w1": self.view})
        self.worker.put(NAMESPACES, {"metadata": {"name": TEAM}})
        self.view.workloads.upsert(train(None))
        self.job = self.add(JOBS, "train", uid="there", labels={PREBUILT_LABEL: WORKLOAD})

    def add(self, kind: Any, name: str, *, body: Tree | None = None, **meta: Any) -> Tree:
        made = {"metadata": {"name": name, "namespace": TEAM, **meta}, **(body or {})}
        self.worker.put(kind, made)
        return {"apiVersion": kind.api_version, "kind": kind.kind, **made}

    def pod(self, name: str, owner: Tree | None = None, *, node: str = "n", **meta: Any) -> Tree:
        owners = {"ownerReferences": [reference(owner)]} if owner else {}
        secret = {"name": "main", "image": "x", "env": [{"name": "TOKEN", "value": "dear"}]}
        return self.add(PODS, name, body={"spec": {"containers": [secret], "nodeName": node}}, **owners, **meta)

    def event(self, name: str, about: Tree, message: str = "so it is") -> None:
        meta = about["metadata"]
        named = {"kind": about["kind"], "namespace": TEAM, "name": meta["name"], "uid": meta.get("uid", "")}
        self.add(
            PRINTED_EVENTS, name, body={"involvedObject": named, "type": "Normal", "reason": "Said", "message": message}
        )

    async def look(self, subresource: str = "pods", *, cluster: str | None = "w1") -> Tree:
        asked = Look(namespace=TEAM, name=WORKLOAD, subresource=subresource)
        return dict(await self.reads.look(asked, train(cluster)))

    async def log(
        self, pod: str = "one", *, cluster: str | None = "w1", admit: Callable[[], Awaitable[None]] = _may
    ) -> list[bytes]:
        """The pieces that were passed on."""
        pieces = list[bytes]()

        async def write(piece: bytes) -> None:
            pieces.append(piece)

        async def start() -> Write:
            return write

        await self.reads.log(PodLog(namespace=TEAM, name=WORKLOAD, pod=pod), train(cluster), admit, start)
        return pieces

    async def names(self, subresource: str = "pods") -> list[str]:
        return [item.metadata.name for item in (await self.look(subresource))["items"]]

    def key(self, name: str) -> ObjectKey:
        return ObjectKey(TEAM, name)


def reference(owner: Tree) -> Tree:
    named = {key: owner["metadata"][key] for key in ("name", "uid")}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True, **named}
