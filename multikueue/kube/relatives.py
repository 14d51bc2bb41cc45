"""Relatives of a workload on one cluster: its copy, its job, the job's pods, and the events about them.

No table of kinds is needed. The copy and the job have the same names as on the manager cluster. A pod belongs to the
workload if its annotation says so, which Kueue puts on each pod it lets start while topology-aware scheduling is on; else
if its owners lead to an object that carries the workload's name as label, as each remote job does.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from multikueue.api.kinds import WORKLOADS
from multikueue.api.kubernetes.printed import PODS, WORKLOAD_ANNOTATION, Reference
from multikueue.api.kueue.workload import Workload, any_owner_of, prebuilt_workload
from multikueue.api.meta import Object, ObjectMeta, OwnerReference, controller_of, decoder, render_time
from multikueue.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["DRAIN_AT_ANNOTATION", "Relatives", "collection", "kind_called", "meta_of", "plural_of", "tell_pods"]

DRAIN_AT_ANNOTATION = "multikueue.dev/drain-at"
"""On the pods of what runs on a worker that is drained by signal: until when they have time, as RFC 3339. A program reads it
through the downward API."""

_FARTHEST = 5
"""Maximum owners between a pod and its job; the kinds we know have at most two."""

_decode = decoder(Object)


class Relatives:
    """The relatives of one workload on one cluster, found step by step; `uids` are those of the relatives found so far.

    `forbidden`: kinds of owners that we may not read, so that pods may be missing. At most `most` objects are read; beyond
    that an object counts as no relative, and `gave_up` is true.
    """

    def __init__(self, client: ClusterClient, workload: Workload, *, most: int = sys.maxsize) -> None:
        self.uids: set[str] = set()
        self.forbidden: set[str] = set()
        self.gave_up = False
        self._client, self._key, self._job, self._left = client, workload.key, any_owner_of(workload), most
        self._plurals: dict[tuple[str, str], str] = {}
        self._judged: dict[tuple[str, str, str], bool] = {}

    async def has(self, meta: ObjectMeta, *, far: int = 0) -> bool:
        """Whether the object belongs to the workload."""
        owner = controller_of(meta)
        is_marked = self._key.name in (meta.annotations.get(WORKLOAD_ANNOTATION), prebuilt_workload(meta))
        if not is_marked and not (owner and far < _FARTHEST and await self._is_ours(owner, far)):
            return False
        self.uids |= {meta.uid} | ({owner.uid} if owner else set())
        return True

    def is_about_relative(self, about: Reference) -> bool:
        """Whether an event is about a relative: the copy, the job, or an object found by `has`."""
        job = self._job
        ours = {(WORKLOADS.kind, self._key.name)} | ({(job.kind, job.name)} if job else set())
        return about.uid in self.uids or (about.kind, about.name) in ours

    async def is_about_new_relative(self, about: Reference) -> bool:
        """Whether a new event is about a relative; a pod that is not known yet is read first."""
        if self.is_about_relative(about) or about.kind != PODS.kind:
            return self.is_about_relative(about)
        return await self._is_ours(OwnerReference(api_version="v1", kind="Pod", name=about.name, uid=about.uid), 0)

    async def _is_ours(self, ref: OwnerReference, far: int) -> bool:
        named = ref.kind, ref.name, ref.uid  # who names another object by this UID says nothing about this one
        if named not in self._judged:
            found = await self._read(ref)
            meta = meta_of(found) if found else ObjectMeta()
            self._judged[named] = meta.uid == ref.uid and await self.has(meta, far=far + 1)
        return self._judged[named]

    async def _read(self, ref: OwnerReference) -> bytes | None:
        """The object that the reference names; None without one, or if we may not see it."""
        if self._left <= 0:
            self.gave_up = True
            return None
        self._left -= 1
        try:
            plural = await self._plural(ref.api_version, ref.kind)
            path = collection(ref.api_version, self._key.namespace, plural)
            return await self._client.request("GET", f"{path}/{quote(ref.name, safe='')}") if plural else None
        except NotFound:
            return None
        except Forbidden:
            self.forbidden.add(ref.kind)
            return None

    async def _plural(self, api_version: str, kind: str) -> str:
        """The name of the kind in paths, from the server's discovery; empty if the server does not know it."""
        if (api_version, kind) not in self._plurals:
            self._plurals[api_version, kind] = await plural_of(self._client, api_version, kind)
        return self._plurals[api_version, kind]


async def tell_pods(client: ClusterClient, workload: Workload, until: datetime) -> int:
    """Tells the pods of a workload on one cluster until when they have time, and returns how many there are. Raises Forbidden
    without the right to list and patch pods there."""
    related = Relatives(client, workload)
    found = await client.list(PODS, namespace=workload.metadata.namespace)
    ours = [pod for pod in found.items if await related.has(pod.metadata)]
    body = {"metadata": {"annotations": {DRAIN_AT_ANNOTATION: render_time(until)}}}
    for pod in ours:
        with suppress(NotFound):  # it has ended meanwhile
            await client.merge_patch(PODS, pod.key, body)
    return len(ours)


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    kind: str = ""
    short_names: tuple[str, ...] = ()


class _Resources(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] = ()


async def plural_of(client: ClusterClient, api_version: str, kind: str) -> str:
    """The name of the kind in paths; empty if the server knows no such kind. Raises NotFound for an unknown group."""
    return next((each.name for each in await _served(client, api_version) if each.kind == kind), "")


async def kind_called(client: ClusterClient, api_version: str, word: str) -> tuple[str, str] | None:
    """The kind, and its name in paths, for which that word stands as in kubectl; None if the server knows no such kind."""
    try:
        served = await _served(client, api_version)
    except NotFound:
        return None
    words = ((each, (each.kind.lower(), each.name, *each.short_names)) for each in served)
    return next(((each.kind, each.name) for each, known in words if word.lower() in known), None)


async def _served(client: ClusterClient, api_version: str) -> list[_Resource]:
    """The kinds of a group and version, without what is below an object."""
    served = decoder(_Resources)(await client.request("GET", _root(api_version))).resources
    return [each for each in served if "/" not in each.name]


def collection(api_version: str, namespace: str, plural: str) -> str:
    """The path of a kind's objects in a namespace."""
    return f"{_root(api_version)}/namespaces/{quote(namespace, safe='')}/{plural}"


def meta_of(item: bytes) -> ObjectMeta:
    """The metadata of an object of any kind."""
    return _decode(item).metadata


def _root(api_version: str) -> str:
    """The path of a group and version. Quoted: an owner reference is foreign text and must not lead to another path."""
    group, slash, version = api_version.partition("/")
    return f"/apis/{quote(group, safe='')}/{quote(version, safe='')}" if slash else f"/api/{quote(group, safe='')}"
