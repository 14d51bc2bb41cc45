"""What belongs to a workload on the worker where it runs: its copy, its job, and that job's pods, of whatever kind it is.

No table of kinds is needed. The copy and the job have the names they have at home. A pod belongs to the workload if its
annotation says so, which Kueue puts on each pod it lets start while topology-aware scheduling is on; else if its owners
lead to an object that carries the workload's name as label, as each remote job does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from multikueue.api.kinds import WORKLOADS
from multikueue.api.meta import ObjectMeta, OwnerReference, controller_of, decoder, encode
from multikueue.api.pods import PODS, WORKLOAD_ANNOTATION, PrintedPod, Reference
from multikueue.api.workload import Workload, any_owner_of, prebuilt_workload
from multikueue.cli.access.connection import fetch_pairs
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["Kin", "collection_of"]

Tree = dict[str, Any]

_FARTHEST = 5
"""Owners between a pod and its job; there are two at most in the kinds we know."""


class Kin:
    """The relatives of one workload on one worker, as they are found out; `uids` are the objects known to be some.

    `hidden` are the kinds of owners that we may not read, for which pods may be missing.
    """

    def __init__(self, client: ClusterClient, workload: Workload) -> None:
        self.uids: set[str] = set()
        self.hidden: set[str] = set()
        self._client, self._key, self._job = client, workload.key, any_owner_of(workload)
        self._plurals: dict[tuple[str, str], str] = {}
        self._judged: dict[str, bool] = {}

    async def copy(self) -> Workload | None:
        """The workload as it is there; None if it is not."""
        try:
            return await self._client.get(WORKLOADS, self._key)
        except NotFound:
            return None

    async def job(self) -> Tree | None:
        """The remote job as its server has it; None if there is none, or if another has its name."""
        found = await self._object(self._job) if self._job else None
        return found if found and await self.has(_meta(found)) else None

    async def path(self) -> str:
        """Of the job, or of the workload if it has none. Raises NotFound where the job's kind is not served."""
        if self._job is None:
            return WORKLOADS.path(self._key)
        collection = await collection_of(self._client, self._job.api_version, self._job.kind, self._key.namespace)
        return f"{collection}/{quote(self._job.name, safe='')}"

    async def unserved(self) -> str:
        """The kind of the job, if the server knows none such; else, and without a job, empty."""
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

    async def has(self, meta: ObjectMeta, *, far: int = 0) -> bool:
        """Whether the object belongs to the workload."""
        owner = controller_of(meta)
        if not self._is_marked(meta) and not (owner and far < _FARTHEST and await self._is_ours(owner, far)):
            return False
        self.uids |= {meta.uid} | ({owner.uid} if owner else set())
        return True

    def told(self, about: Reference) -> bool:
        """Whether an event is about one of them: the copy, the job, or what was found out to be theirs."""
        job = self._job
        ours = {(WORKLOADS.kind, self._key.name)} | ({(job.kind, job.name)} if job else set())
        return about.uid in self.uids or (about.kind, about.name) in ours

    async def told_now(self, about: Reference) -> bool:
        """The same of an event that comes in, which may be about a pod that nobody has seen yet."""
        if self.told(about) or about.kind != PODS.kind:
            return self.told(about)
        return await self._is_ours(OwnerReference(api_version="v1", kind="Pod", name=about.name, uid=about.uid), 0)

    def _is_marked(self, meta: ObjectMeta) -> bool:
        return self._key.name in (meta.annotations.get(WORKLOAD_ANNOTATION), prebuilt_workload(meta))

    async def _is_ours(self, ref: OwnerReference, far: int) -> bool:
        if ref.uid not in self._judged:
            found = await self._object(ref)
            meta = _meta(found) if found else ObjectMeta()
            self._judged[ref.uid] = meta.uid == ref.uid and await self.has(meta, far=far + 1)
        return self._judged[ref.uid]

    async def _object(self, ref: OwnerReference) -> Tree | None:
        """What the reference names; None also if we may not see it."""
        try:
            plural = await self._plural(ref.api_version, ref.kind)
            path = _collection(ref.api_version, self._key.namespace, plural)
            return _tree(await self._client.request("GET", f"{path}/{quote(ref.name, safe='')}")) if plural else None
        except NotFound:
            return None
        except Forbidden:
            self.hidden.add(ref.kind)
            return None

    async def _plural(self, api_version: str, kind: str) -> str:
        """The name of the kind in paths, which the server knows; empty if it does not."""
        if (api_version, kind) not in self._plurals:
            self._plurals[api_version, kind] = await _plural_of(self._client, api_version, kind)
        return self._plurals[api_version, kind]


async def collection_of(client: ClusterClient, api_version: str, kind: str, namespace: str) -> str:
    """The path at which objects of the kind are made. Raises CommandFailed if the server knows none such."""
    try:
        plural = await _plural_of(client, api_version, kind)
    except NotFound:
        plural = ""
    if not plural:
        raise CommandFailed(f"the server knows no {kind} ({api_version})")
    return _collection(api_version, namespace, plural)


async def _plural_of(client: ClusterClient, api_version: str, kind: str) -> str:
    served = _tree(await client.request("GET", _root(api_version)))["resources"]
    return next((each["name"] for each in served if each.get("kind") == kind and "/" not in each["name"]), "")


def _collection(api_version: str, namespace: str, plural: str) -> str:
    return f"{_root(api_version)}/namespaces/{quote(namespace, safe='')}/{plural}"


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _meta(item: Tree) -> ObjectMeta:
    return decoder(ObjectMeta)(encode(item["metadata"]))


def _tree(answer: bytes) -> Tree:
    tree: Tree = json.loads(answer)
    return tree
