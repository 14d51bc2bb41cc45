"""Relatives of a workload on one cluster, as objects: its copy, its job and the job's pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from multikueue.api.kinds import WORKLOADS
from multikueue.api.kubernetes.printed import PODS, PrintedPod
from multikueue.api.kueue.workload import Workload
from multikueue.cli.access.connection import fetch_pairs
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.errors import NotFound
from multikueue.kube.relatives import Relatives, collection, meta_of, plural_of

if TYPE_CHECKING:
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["RelatedObjects", "collection_of"]

Tree = dict[str, Any]


class RelatedObjects(Relatives):
    """The relatives of one workload on one worker."""

    async def copy(self) -> Workload | None:
        """The workload of that name on the worker; None without one."""
        try:
            return await self._client.get(WORKLOADS, self._key)
        except NotFound:
            return None

    async def job(self) -> Tree | None:
        """The remote job as its server has it; None without one, or if another job has its name."""
        found = await self._read(self._job) if self._job else None
        return json.loads(found) if found and await self.has(meta_of(found)) else None

    async def path(self) -> str:
        """The path of the job, else of the workload. Raises CommandFailed if the job's kind is not served."""
        if self._job is None:
            return WORKLOADS.path(self._key)
        objects = await collection_of(self._client, self._job.api_version, self._job.kind, self._key.namespace)
        return f"{objects}/{quote(self._job.name, safe='')}"

    async def unserved(self) -> str:
        """The job's kind if the server does not serve it; else, and without a job, empty."""
        if self._job is None:
            return ""
        try:
            known = await self._plural(self._job.api_version, self._job.kind)
        except NotFound:
            known = ""
        return "" if known else f"{self._job.kind} ({self._job.api_version})"

    async def pods(self) -> list[tuple[Tree, PrintedPod]]:
        """The pods of the job, as the server sent them and as values. Raises Forbidden."""
        pairs = await fetch_pairs(self._client, PODS, namespace=self._key.namespace)
        return [pair for pair in pairs if await self.has(pair[1].metadata)]


async def collection_of(client: ClusterClient, api_version: str, kind: str, namespace: str) -> str:
    """The path of the kind's objects in the namespace. Raises CommandFailed if the server does not serve the kind."""
    try:
        plural = await plural_of(client, api_version, kind)
    except NotFound:
        plural = ""
    if not plural:
        raise CommandFailed(f"the server knows no {kind} ({api_version})")
    return collection(api_version, namespace, plural)
