"""Groups of Pods as jobs: gathered from the Pods of one cluster, one job for all that share a group's name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha1
from itertools import count

from multikueue.api.meta import ObjectKey, ObjectMeta
from multikueue.api.pod import GROUP_LABEL, POD_FINALIZER, Pod, PodGroup
from multikueue.api.workload import ATTEMPT_ANNOTATION
from multikueue.store.cache import Cache

__all__ = ["Gathering", "group_key"]


def group_key(pod: Pod) -> Iterable[ObjectKey]:
    """The group a Pod is a member of."""
    name = pod.metadata.labels.get(GROUP_LABEL)
    return (ObjectKey(pod.metadata.namespace, name),) if name else ()


@dataclass(slots=True)
class Gathering:
    """Keeps `groups` in step with `pods`, which has an index `group`. Each change of a member makes a new version.

    A group is being deleted when all its members are; `copies` of them, which Kueue may keep for ever, only once nothing
    of Kueue's keeps them.
    """

    pods: Cache[Pod]
    groups: Cache[PodGroup]
    copies: bool = False
    _versions: count[int] = field(default_factory=lambda: count(1))

    def changed(self, old: Pod | None, new: Pod | None) -> None:
        touched = (key for pod in (old, new) if pod is not None for key in group_key(pod))
        for key in dict.fromkeys(touched):
            self._gather(key)

    def _gather(self, key: ObjectKey) -> None:
        members, known, version = self.pods.by("group", key), self.groups.get(key), next(self._versions)
        if members:
            self.groups.upsert(_group(key, members, version, known, copies=self.copies))
        elif known is not None:
            self.groups.remove(known)


def _group(key: ObjectKey, members: tuple[Pod, ...], version: int, known: PodGroup | None, *, copies: bool) -> PodGroup:
    ordered = tuple(sorted(members, key=_age))
    first, leaving = ordered[0].metadata, [_leaves_at(member, copies=copies) for member in ordered]
    shape = int(
        sha1(" ".join(each.metadata.uid for each in ordered).encode(), usedforsecurity=False).hexdigest()[:15], 16
    )
    # A group that comes back with the very same members, since they were only out of sight, is not the one that went.
    epoch = known.metadata.uid.partition("-")[0] if known is not None else str(version)
    return PodGroup(
        metadata=ObjectMeta(
            name=key.name,
            namespace=key.namespace,
            uid=f"{epoch}-{shape:x}",
            resource_version=str(version),
            generation=shape,
            creation_timestamp=first.creation_timestamp,
            deletion_timestamp=None if None in leaving else max(filter(None, leaving)),
            labels=first.labels,
            annotations=_annotations(ordered),
        ),
        members=ordered,
    )


def _leaves_at(pod: Pod, *, copies: bool) -> datetime | None:
    is_kept = copies and POD_FINALIZER in pod.metadata.finalizers
    return None if is_kept else pod.metadata.deletion_timestamp


def _annotations(members: tuple[Pod, ...]) -> dict[str, str]:
    """Those of the first, without the mark of an attempt that not all are from."""
    found = members[0].metadata.annotations
    attempts = {member.metadata.annotations.get(ATTEMPT_ANNOTATION) for member in members}
    return (
        found
        if len(attempts) == 1
        else {k: v for k, v in found.items() if k != ATTEMPT_ANNOTATION} | {ATTEMPT_ANNOTATION: ""}
    )


def _age(pod: Pod) -> tuple[str, str]:
    created = pod.metadata.creation_timestamp
    return created.isoformat() if created else "", pod.metadata.name
