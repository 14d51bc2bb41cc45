"""Whether two connections lead to one cluster: what is written through one of them is read through the other.

What a cluster says of itself proves nothing: the UID of its kube-system is no secret, and a cluster that was restored
from a backup of another one has that, too. The object is a Workload without a queue, since that is what the account of a
worker may write; Kueue never admits it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from secrets import token_hex
from typing import Any

from multikueue.api.kinds import WORKLOADS
from multikueue.api.kubernetes.builtins import KUBE_SYSTEM
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue.errors import AlreadyExists, Forbidden, InvalidObject, MultiKueueError, NotFound
from multikueue.kube.cluster_client import ClusterClient

__all__ = ["NONCE_ANNOTATION", "PROOF_LABEL", "Unproven", "common_place", "is_same_cluster", "proof_key"]

PROOF_LABEL = "multikueue.dev/proof"
"""On the object: it is ours, and may be changed and removed by who proves something."""

NONCE_ANNOTATION = "multikueue.dev/nonce"

ALL_NAMESPACES = ("",)


class Unproven(MultiKueueError):
    """Nothing was written, or the question got no answer. `is_by_reader`: all was written, and the other side fails."""

    def __init__(self, why: str, *, is_by_reader: bool = False) -> None:
        super().__init__(why)
        self.is_by_reader = is_by_reader


def common_place(*offered: tuple[str, ...]) -> str:
    """The namespace for an object that accounts of these namespaces ("": all) may all write and read; empty if none.

    It is kube-system where possible: each cluster has it, and no tenant may read it.
    """
    limited = [frozenset(names) for names in offered if names != ALL_NAMESPACES]
    if not limited:
        return KUBE_SYSTEM.name
    return min(frozenset.intersection(*limited), default="")


def proof_key(namespace: str, origin: str, name: str) -> ObjectKey:
    """The object by which the worker of that name is proven: one for each manager (origin) and name, used again and again."""
    return ObjectKey(namespace, f"multikueue-proof-{sha256(f'{origin}/{name}'.encode()).hexdigest()[:16]}")


async def is_same_cluster(writer: ClusterClient, reader: ClusterClient, key: ObjectKey) -> bool:
    """Writes a nonce at `key` through one client, and reads it through the other.

    A reader that is refused does not show it. Raises Unproven if nothing can be proven.
    """
    nonce = token_hex(16)
    written = await _written(writer, key, nonce)
    try:
        is_shown = await _is_shown(reader, key, nonce)
        if not is_shown:
            await _refuse_unless_kept(writer, key, nonce)
        return is_shown
    finally:
        await _removed(writer, written)


async def _written(writer: ClusterClient, key: ObjectKey, nonce: str) -> Workload:
    try:
        try:
            return await writer.create(WORKLOADS, key.namespace, _body(key, nonce))
        except AlreadyExists:  # the manager that made it has ended before it was removed
            found = await writer.get(WORKLOADS, key)
            if PROOF_LABEL not in found.metadata.labels:
                raise Unproven(f"Workload {key} is there and not ours (no label {PROOF_LABEL})") from None
            change = {"metadata": {"uid": found.metadata.uid, "annotations": {NONCE_ANNOTATION: nonce}}}
            return await writer.merge_patch(WORKLOADS, key, change)
    except Unproven:
        raise
    except MultiKueueError as error:
        raise Unproven(f"nothing can be written there: {error}") from error


async def _is_shown(reader: ClusterClient, key: ObjectKey, nonce: str) -> bool:
    try:
        found = await reader.get(WORKLOADS, key)
    except (NotFound, Forbidden, InvalidObject):
        return False
    except MultiKueueError as error:
        raise Unproven(f"what was written there cannot be looked for: {error}", is_by_reader=True) from error
    return found.metadata.annotations.get(NONCE_ANNOTATION) == nonce


async def _refuse_unless_kept(writer: ClusterClient, key: ObjectKey, nonce: str) -> None:
    """Raises Unproven if it was removed or overwritten meanwhile: then it could not be shown."""
    try:
        found = await writer.get(WORKLOADS, key)
    except MultiKueueError as error:
        raise Unproven(f"what was written there does not stay: {error}") from error
    if found.metadata.annotations.get(NONCE_ANNOTATION) != nonce:
        raise Unproven("what was written there was changed meanwhile")


async def _removed(writer: ClusterClient, written: Workload) -> None:
    """What cannot be removed is used by the next proof. The verdict does not depend on it."""
    with suppress(MultiKueueError):
        await writer.delete(WORKLOADS, written.key, uid=written.metadata.uid)


def _body(key: ObjectKey, nonce: str) -> Mapping[str, Any]:
    metadata = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": {PROOF_LABEL: "true"},
        "annotations": {NONCE_ANNOTATION: nonce},
    }
    container = {"name": "none", "image": "none"}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": metadata,
        "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}]},
    }
