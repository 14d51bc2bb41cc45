"""Reservations of quota by workload, their sums by ClusterQueue and by LocalQueue, and which slice has it in place of which.

Rules: quota-engine 1.7, 3.1.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter

import msgspec

from multikueue.api.kueue.workload import Admission, ReclaimablePod
from multikueue.api.meta import ObjectKey
from multikueue.api.values import quantity
from multikueue.quota.cache.tree import Amounts, FlavorResource
from multikueue.quota.requests.amounts import scaled

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


EvictionRank = tuple[bool, int, float, str, ObjectKey]

_UNRANKED: EvictionRank = (False, 0, 0.0, "", ObjectKey("", ""))


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """The reservation of one workload. It counts from the moment a cycle assumes it until the quota is released.

    `since` is its queue time, `reserved_at` when it got the quota. `is_evicted`: it is about to go. `is_protected`: it is
    exempt from preemption. `ends_by`: when it has to be gone, if that is known. `job`: the UID of the job that it is a
    slice of, with elastic jobs.
    """

    key: ObjectKey
    cluster_queue: str
    local_queue: ObjectKey
    amounts: Amounts
    priority: int = 0
    is_admitted: bool = False
    uid: str = ""
    since: datetime = _EPOCH
    reserved_at: datetime = _EPOCH
    is_evicted: bool = False
    is_protected: bool = False
    ends_by: datetime | None = None
    job: str = ""
    eviction_rank: EvictionRank = _UNRANKED
    """The order of eviction in a queue: evicted first, then low priority, late reservation, UID, key; computed."""

    def __post_init__(self) -> None:
        rank = (not self.is_evicted, self.priority, -self.reserved_at.timestamp(), self.uid, self.key)
        msgspec.structs.force_setattr(self, "eviction_rank", rank)

    @property
    def traits(self) -> tuple[object, ...]:
        """The values that decide about pending workloads beside it."""
        return self.amounts, self.priority, self.cluster_queue, self.is_protected


class Reordered(tuple[Reservation, ...]):
    """Reservations of a queue in an order of eviction other than lowest priority first."""


@dataclass(slots=True)
class QueueUsage:
    """Sums over the reservations of one queue."""

    reserving: int = 0
    admitted: int = 0
    reservation: dict[FlavorResource, int] = field(default_factory=dict)
    usage: dict[FlavorResource, int] = field(default_factory=dict)

    def count(self, reservation: Reservation, sign: int) -> None:
        self.reserving += sign
        _count(self.reservation, reservation.amounts, sign)
        if reservation.is_admitted:
            self.admitted += sign
            _count(self.usage, reservation.amounts, sign)


_EMPTY = QueueUsage()
_eviction_rank = attrgetter("eviction_rank")


class Reservations:
    """All reservations. Owned by the cache."""

    def __init__(self) -> None:
        self._by_key: dict[ObjectKey, Reservation] = {}
        self._by_eviction_rank: dict[str, list[Reservation]] = {}
        self._queues: dict[str, QueueUsage] = {}
        self._local_queues: dict[ObjectKey, QueueUsage] = {}

    def get(self, key: ObjectKey) -> Reservation | None:
        return self._by_key.get(key)

    def add(self, reservation: Reservation) -> None:
        self._by_key[reservation.key] = reservation
        insort(self._by_eviction_rank.setdefault(reservation.cluster_queue, []), reservation, key=_eviction_rank)
        self._count(reservation, 1)

    def remove(self, key: ObjectKey) -> Reservation | None:
        reservation = self._by_key.pop(key, None)
        if reservation is not None:
            line = self._by_eviction_rank[reservation.cluster_queue]
            del line[bisect_left(line, reservation.eviction_rank, key=_eviction_rank)]
            self._count(reservation, -1)
        return reservation

    def in_queue(self, name: str) -> Sequence[Reservation]:
        """The reservations of a ClusterQueue in order of eviction. Use it at once and do not keep it: it changes."""
        return self._by_eviction_rank.get(name, ())

    def queue(self, name: str) -> QueueUsage:
        return self._queues.get(name, _EMPTY)

    def local_queue(self, key: ObjectKey) -> QueueUsage:
        return self._local_queues.get(key, _EMPTY)

    def by_queue(self) -> Mapping[str, Amounts]:
        return {name: queue_usage.reservation for name, queue_usage in self._queues.items()}

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._by_key.values())

    def _count(self, reservation: Reservation, sign: int) -> None:
        self._queues.setdefault(reservation.cluster_queue, QueueUsage()).count(reservation, sign)
        self._local_queues.setdefault(reservation.local_queue, QueueUsage()).count(reservation, sign)


def _count(total: dict[FlavorResource, int], amounts: Amounts, sign: int) -> None:
    for fr, amount in amounts.items():
        left = total.get(fr, 0) + sign * amount
        if left:
            total[fr] = left
        else:
            total.pop(fr, None)


def admission_amounts(
    admission: Admission, counts: Mapping[str, int], reclaimed: Iterable[ReclaimablePod] = ()
) -> Amounts:
    """The usage of an admission, in counted amounts, of which none is below zero whatever the status says. `counts` has
    the pods of the spec by pod set; reclaimed pods need no quota."""
    gone = {pods.name: pods.count for pods in reclaimed}
    total: dict[FlavorResource, int] = {}
    for pod_set in admission.pod_set_assignments:
        count = counts.get(pod_set.name, 0) if pod_set.count is None else pod_set.count
        left = counts.get(pod_set.name, count) - max(0, gone.get(pod_set.name, 0))
        to = max(0, min(count, left))
        for resource, flavor in pod_set.flavors.items():
            used = quantity.counted(resource, pod_set.resource_usage.get(resource, "0"))
            fr = (flavor, resource)
            total[fr] = total.get(fr, 0) + scaled(used, of=count, to=to)
    return total


@dataclass(slots=True)
class SliceReplacements:
    """Pairs of slices, of which one has its quota in place of the other. An assumption can be taken back, so the reservation
    of the replaced slice is kept.

    From the moment a slice has quota, the slice it replaces no longer counts, finished or not (quota-engine 3.1).
    """

    is_trusting: bool = False
    """Whether slices may replace those of other jobs: copies on a worker have no owner until their job comes."""

    _replacements: dict[ObjectKey, tuple[ObjectKey, str]] = field(default_factory=dict)
    _replaced: dict[ObjectKey, tuple[ObjectKey, Reservation | None]] = field(default_factory=dict)

    def may_replace(self, job: str, old: Reservation | None) -> bool:
        """Whether a slice of `job` may replace the slice with the reservation `old`."""
        return old is not None and self._is_one_job(job, old.job)

    def record(
        self, replacement: ObjectKey, old: ObjectKey, *, job: str, reservation: Reservation | None = None
    ) -> None:
        """The replacement has quota. `reservation` is that of the old slice, while it may have to be restored."""
        if not self._is_successor(old, replacement):
            self._replacements[old] = replacement, job
            self._replaced[replacement] = old, reservation

    def has_replacement(self, key: ObjectKey, *, job: str) -> bool:
        """Whether another slice of its job has quota in its place."""
        replacement, its = self._replacements.get(key, (None, ""))
        return replacement is not None and self._is_one_job(its, job)

    def _is_one_job(self, one: str, other: str) -> bool:
        return self.is_trusting or (bool(one) and one == other)

    def _is_successor(self, later: ObjectKey, earlier: ObjectKey) -> bool:
        """Whether `later` replaces `earlier`, directly or through other slices. The reverse cannot hold then."""
        key: ObjectKey | None = later
        while key is not None and key != earlier:
            key = self._replaced.get(key, (None, None))[0]
        return key is not None

    def end(self, key: ObjectKey) -> None:
        """The workload is finished or gone."""
        replacement, _ = self._replacements.pop(key, (None, ""))
        if replacement is not None:
            self._replaced.pop(replacement, None)

    def lose(self, replacement: ObjectKey) -> Reservation | None:
        """The replacement has no quota any more. Returns the reservation of the old slice, if it lost that to an
        assumption only."""
        old, reservation = self._replaced.pop(replacement, (None, None))
        if old is not None:
            self._replacements.pop(old, None)
        return reservation
