"""Groups of Pods as jobs: built from the Pods of one cluster, one job per group name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import sha1
from itertools import count

from multikueue.api.jobs.pod import POD_FINALIZER, Pod, PodGroup, group_of
from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION
from multikueue.api.meta import ObjectKey, ObjectMeta
from multikueue.store.caches.cache import Cache, Indexer, Listener, ignore

__all__ = ["Groups", "group_key"]


def group_key(pod: Pod) -> Iterable[ObjectKey]:
    """The group of a Pod."""
    name = group_of(pod.metadata)
    return (ObjectKey(pod.metadata.namespace, name),) if name else ()


class Groups(Cache[PodGroup]):
    """The groups of `pods`, which has an index `group`. A change of a member makes its group stale. The group is
    rebuilt, as a new version, when it is read next, so that many changes cost one rebuild.

    A group is being deleted when all its members are. A group on a worker (`are_copies`)
    counts as deleted only once its finalizers are gone: Kueue's may keep its Pods forever.
    """

    def __init__(
        self,
        pods: Cache[Pod],
        on_change: Listener[PodGroup] = ignore,
        *,
        are_copies: bool = False,
        indexes: Mapping[str, Indexer[PodGroup]] | None = None,
    ) -> None:
        super().__init__(on_change, indexes=indexes)
        self.get = self._gathered
        self._pods, self._copies = pods, are_copies
        self._stale: dict[ObjectKey, None] = {}
        self._versions = count(1)
        pods.follow(self._member_changed)

    def __len__(self) -> int:
        self._gather_all()
        return super().__len__()

    def __iter__(self) -> Iterator[PodGroup]:
        self._gather_all()
        return super().__iter__()

    def all_keys(self) -> tuple[ObjectKey, ...]:
        self._gather_all()
        return super().all_keys()

    def _gathered(self, key: ObjectKey) -> PodGroup | None:
        if key in self._stale:
            self._gather(key)
        return self._objects.find(key)

    def by(self, index: str, value: Hashable) -> tuple[PodGroup, ...]:
        self._gather_all()
        return super().by(index, value)

    def keys_by(self, index: str, value: Hashable) -> tuple[ObjectKey, ...]:
        self._gather_all()
        return super().keys_by(index, value)

    def named(self, index: str) -> tuple[Hashable, ...]:
        self._gather_all()
        return super().named(index)

    def going_on(self) -> Iterator[PodGroup]:
        self._gather_all()
        return super().going_on()

    def _member_changed(self, old: Pod | None, new: Pod | None) -> None:
        touched = (key for pod in (old, new) if pod is not None for key in group_key(pod))
        self._stale.update(dict.fromkeys(touched))

    def _gather_all(self) -> None:
        while self._stale:
            self._gather(next(iter(self._stale)))

    def _gather(self, key: ObjectKey) -> None:
        del self._stale[key]
        members, known, version = self._pods.by("group", key), self._objects.find(key), next(self._versions)
        if members:
            self.upsert(_group(key, members, version, known, are_copies=self._copies))
        elif known is not None:
            self.remove(known)
        else:
            self.unreadable.pop(key, None)


def _group(
    key: ObjectKey, members: tuple[Pod, ...], version: int, known: PodGroup | None, *, are_copies: bool
) -> PodGroup:
    ordered = tuple(sorted(members, key=_age))
    first, leaving = ordered[0].metadata, [_leaves_at(member, are_copies=are_copies) for member in ordered]
    shape = int(
        sha1(" ".join(each.metadata.uid for each in ordered).encode(), usedforsecurity=False).hexdigest()[:15], 16
    )
    # A group that returns with the very same members, which were only out of sight, is not the group that went.
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


def _leaves_at(pod: Pod, *, are_copies: bool) -> datetime | None:
    is_kept = are_copies and POD_FINALIZER in pod.metadata.finalizers
    return None if is_kept else pod.metadata.deletion_timestamp


def _annotations(members: tuple[Pod, ...]) -> dict[str, str]:
    """The annotations of the first member; the attempt only if all members have the same."""
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
