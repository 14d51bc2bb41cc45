"""Quota that workers offer to a ClusterQueue of the manager: their nominal quotas, over time, in the manager's flavors.

A LocalQueue of the ClusterQueue leads to the LocalQueue of the same namespace and name on a worker, and from there to a
ClusterQueue of the worker, which counts once however many LocalQueues lead to it. If several following ClusterQueues of
the manager lead to it, it is divided evenly among them, so that the promised sum never exceeds what is there.

More quota counts at once. A worker that has less, or is away, counts as before for a while, so that a short absence
changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.meta import ObjectKey, find_condition
from multikueue.quota.cache.tree import Amounts, FlavorResource, quotas

Feeders = Mapping[str, Collection[ObjectKey]]
"""The LocalQueues of each ClusterQueue of the manager that follows a worker."""


class WorkerQueues(msgspec.Struct, frozen=True):
    """The queues of a worker: where its LocalQueues lead, and the nominal quotas of its ClusterQueues, in its flavors.

    A ClusterQueue that admits nothing has the same quotas, of 0. LocalQueues in `forbidden` namespaces cannot be read.
    """

    routes: Mapping[ObjectKey, str]
    quotas: Mapping[str, Amounts]
    forbidden: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, local_queues: Iterable[LocalQueue], cluster_queues: Iterable[ClusterQueue], forbidden: Iterable[str] = ()
    ) -> WorkerQueues:
        routes = {queue.key: queue.spec.cluster_queue for queue in local_queues if queue.spec.stop_policy == "None"}
        quotas = {queue.metadata.name: _nominal(queue) for queue in cluster_queues}
        return cls(routes, quotas, frozenset(forbidden))

    def behind(self, feeders: Collection[ObjectKey]) -> set[str]:
        """The worker's ClusterQueues that LocalQueues of these names lead to."""
        return {self.routes[key] for key in feeders if key in self.routes} & self.quotas.keys()


def _nominal(queue: ClusterQueue) -> Amounts:
    active = find_condition(queue.status.conditions, ACTIVE)
    works = queue.spec.stop_policy == "None" and queue.metadata.deletion_timestamp is None
    works = works and (active is None or active.status != "False")
    return {fr: quota.nominal if works else 0 for fr, quota in quotas(queue.resource_groups_in_force).items()}


@dataclass(slots=True)
class Record:
    """One worker over time, observed since `since`. `absent` says why it was missing at the last look, and `problem`
    why it could not be read although it was there."""

    since: datetime
    absent: str = "was not looked at yet"
    problem: str = ""
    _now: WorkerQueues | None = None
    _past: list[tuple[WorkerQueues, datetime]] = field(default_factory=list)

    def saw(self, queues: WorkerQueues, now: datetime) -> None:
        self.absent = self.problem = ""
        if queues == self._now:
            return
        self._end(now)
        self._past = [(known, ended) for known, ended in self._past if known != queues]
        self._now = queues

    def missed(self, now: datetime, why: str = "is away") -> None:
        """The worker was not there, or is to get no work."""
        self.absent, self.problem = why, ""
        self._end(now)

    def refused(self, why: str) -> None:
        """The worker was there and could not be read: its quotas are unknown."""
        self.problem = why

    def _end(self, now: datetime) -> None:
        if self._now is not None:
            self._past.append((self._now, now))
        self._now = None

    def forget(self, hold: timedelta, now: datetime) -> None:
        """Drop past quotas that no longer count. The last is kept: it shows which resources the worker counts."""
        self._past = [(known, ended) for known, ended in self._past[:-1] if now - ended < hold] + self._past[-1:]

    def is_settled(self, hold: timedelta, now: datetime) -> bool:
        """Whether the worker has been observed for `hold`, so that its recent quotas are known."""
        return now - self.since >= hold

    def counting(self, hold: timedelta, now: datetime) -> tuple[WorkerQueues, ...]:
        """Its present quotas, and those that ended less than `hold` ago."""
        held = tuple(known for known, ended in self._past if now - ended < hold)
        return held if self._now is None else (self._now, *held)

    def latest(self) -> Iterator[WorkerQueues]:
        """Its present and past quotas, the latest first."""
        if self._now is not None:
            yield self._now
        yield from (known for known, _ in reversed(self._past))


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Quota of one worker for a ClusterQueue, in the manager's flavors; `resources` are all that the worker counts.

    Until it `is_settled` the worker may have had more recently. `problem` says why nothing is known of it, `notes` what
    does not count, or soon will not.
    """

    cluster: str
    amounts: Amounts = {}
    resources: frozenset[str] = frozenset()
    is_settled: bool = True
    problem: str = ""
    notes: tuple[str, ...] = ()


def offer(
    queue: ClusterQueue,
    feeders: Feeders,
    record: Record,
    *,
    cluster: str,
    flavors: Mapping[str, str],
    hold: timedelta,
    now: datetime,
) -> Offer:
    """The quota that the worker of `record` has for a ClusterQueue.

    `feeders` has all ClusterQueues that follow the worker; `flavors` maps its flavors, as `flavor` or `cluster/flavor`,
    to the manager's. Quota that the worker lost still counts for `hold`.
    """
    if record.problem:
        return Offer(cluster=cluster, problem=record.problem)
    name, most = queue.metadata.name, dict[FlavorResource, int]()
    translation = _Translation(cluster, flavors, tuple(quotas(queue.spec.resource_groups)))
    for queues in record.counting(hold, now):
        for fr, amount in translation.of(share(queues, name, feeders)).items():
            most[fr] = max(most.get(fr, 0), amount)
    shares = (share(queues, name, feeders) for queues in record.latest())
    counted = next(filter(None, shares), {})
    notes = [f"flavor {flavor} of {cluster} counts for nothing here" for flavor in translation.unknown(counted)]
    if record.absent:
        held = "; what it had counts for a while" if any(most.values()) else ""
        notes.append(f"{cluster} {record.absent}{held}")
    elif forbidden := _forbidden(next(record.latest()), feeders[name]):
        notes.append(f"{cluster} does not let us read the LocalQueues of {', '.join(forbidden)}: register it again")
    elif not next(record.latest()).behind(feeders[name]):
        notes.append(f"none of its LocalQueues leads to a ClusterQueue on {cluster}")
    resources = frozenset(resource for _, resource in counted)
    settled = record.is_settled(hold, now)
    return Offer(cluster=cluster, amounts=most, resources=resources, is_settled=settled, notes=tuple(notes))


def _forbidden(queues: WorkerQueues, feeders: Collection[ObjectKey]) -> list[str]:
    """The namespaces of these LocalQueues that cannot be read on the worker."""
    return sorted(queues.forbidden & {key.namespace for key in feeders})


def share(queues: WorkerQueues, name: str, feeders: Feeders) -> dict[FlavorResource, int]:
    """The part of a worker's quotas for one ClusterQueue of the manager, in the worker's flavors."""
    found: dict[FlavorResource, int] = {}
    for behind in queues.behind(feeders[name]):
        sharers = sorted(each for each, keys in feeders.items() if behind in queues.behind(keys))
        place, parts = sharers.index(name), len(sharers)
        for fr, amount in queues.quotas[behind].items():
            found[fr] = found.get(fr, 0) + amount // parts + (place < amount % parts)
    return found


class _Translation(msgspec.Struct, frozen=True):
    """Maps a worker's flavors to those of a ClusterQueue: as configured, else by the same name, else to the only one
    there is."""

    cluster: str
    flavors: Mapping[str, str]
    known: Collection[FlavorResource]

    def of(self, amounts: Amounts) -> dict[FlavorResource, int]:
        found: dict[FlavorResource, int] = {}
        for (flavor, resource), amount in amounts.items():
            if (known := self._flavor(flavor, resource)) is not None:
                found[known, resource] = found.get((known, resource), 0) + amount
        return found

    def unknown(self, amounts: Amounts) -> list[str]:
        """Flavors with an amount of a resource that the ClusterQueue counts, but that map to none of its flavors."""
        counted = {resource for _, resource in self.known}
        return sorted({f for (f, r), some in amounts.items() if some and r in counted and self._flavor(f, r) is None})

    def _flavor(self, flavor: str, resource: str) -> str | None:
        said = self.flavors.get(f"{self.cluster}/{flavor}", self.flavors.get(flavor))
        own = [name for name, counted in self.known if counted == resource]
        if said is not None or flavor in own:
            wanted = said or flavor
            return wanted if wanted in own else None
        return own[0] if len(own) == 1 else None
