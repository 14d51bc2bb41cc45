"""What workers have for a ClusterQueue of the manager: their nominal quotas, over time, in the manager's flavors.

The LocalQueues of the ClusterQueue lead to LocalQueues of the same namespace and name on a worker, and those to ClusterQueues
there; each of these counts once, whoever of them leads to it. One that several ClusterQueues of the manager share is divided
evenly among those that follow, so that what is promised never exceeds what is there.

A worker that has more counts at once. One that has less, or is away, counts as before for a while: whoever comes and goes
moves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from multikueue.api.meta import ObjectKey, find_condition
from multikueue.api.multikueue import ACTIVE
from multikueue.api.queues import ClusterQueue, LocalQueue
from multikueue.quota.cache.tree import Amounts, FlavorResource, quotas

Feeders = Mapping[str, Collection[ObjectKey]]
"""The LocalQueues of each ClusterQueue of the manager that follows a worker."""


@dataclass(frozen=True, slots=True)
class WorkerQueues:
    """The queues of a worker: where its LocalQueues lead, and the nominal quotas of its ClusterQueues, in its flavors.

    One that takes in no work has the same quotas, of 0. Of the namespaces that are `hidden` nobody may read the LocalQueues.
    """

    routes: Mapping[ObjectKey, str]
    quotas: Mapping[str, Amounts]
    hidden: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, local_queues: Iterable[LocalQueue], cluster_queues: Iterable[ClusterQueue], hidden: Iterable[str] = ()
    ) -> WorkerQueues:
        routes = {queue.key: queue.spec.cluster_queue for queue in local_queues if queue.spec.stop_policy == "None"}
        quotas = {queue.metadata.name: _nominal(queue) for queue in cluster_queues}
        return cls(routes, quotas, frozenset(hidden))

    def behind(self, feeders: Collection[ObjectKey]) -> set[str]:
        """The ClusterQueues that LocalQueues of these names lead to."""
        return {self.routes[key] for key in feeders if key in self.routes} & self.quotas.keys()


def _nominal(queue: ClusterQueue) -> Amounts:
    active = find_condition(queue.status.conditions, ACTIVE)
    works = queue.spec.stop_policy == "None" and queue.metadata.deletion_timestamp is None
    works = works and (active is None or active.status != "False")
    return {fr: quota.nominal if works else 0 for fr, quota in quotas(queue.spec.resource_groups).items()}


@dataclass(slots=True)
class Record:
    """One worker over time, as looked at since `since`. `absent` says in which way it was not there the last time, and
    `problem` why it could not be read though it was."""

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
        """It was not there, or is to get no work."""
        self.absent, self.problem = why, ""
        self._end(now)

    def refused(self, why: str) -> None:
        """It was there and could not be read: nobody knows what it has."""
        self.problem = why

    def _end(self, now: datetime) -> None:
        if self._now is not None:
            self._past.append((self._now, now))
        self._now = None

    def forget(self, hold: timedelta, now: datetime) -> None:
        """What counts no more; of what is over the last is kept: it tells which resources the worker counts."""
        self._past = [(known, ended) for known, ended in self._past[:-1] if now - ended < hold] + self._past[-1:]

    def settled(self, hold: timedelta, now: datetime) -> bool:
        """Whether it was looked at for so long that it is known what it had of late."""
        return now - self.since >= hold

    def counting(self, hold: timedelta, now: datetime) -> tuple[WorkerQueues, ...]:
        """What it has, and what it had until less than `hold` ago."""
        held = tuple(known for known, ended in self._past if now - ended < hold)
        return held if self._now is None else (self._now, *held)

    def latest(self) -> Iterator[WorkerQueues]:
        """What it has, and had, the latest first."""
        if self._now is not None:
            yield self._now
        yield from (known for known, _ in reversed(self._past))


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What one worker has for a ClusterQueue, in that one's flavors, and the resources that the worker counts at all.

    Until it is `settled` it may have had more of late. `problem` says why nothing is known of it, `notes` what of it
    does not count, or soon will no more.
    """

    cluster: str
    amounts: Amounts = field(default_factory=dict)
    resources: frozenset[str] = frozenset()
    settled: bool = True
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
    """What the worker of that record has for a ClusterQueue.

    `feeders` are those of all that follow the worker; `flavors` leads from its flavors, as `flavor` or `cluster/flavor`,
    to the manager's. What it has less now counts for as long as `hold`.
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
    elif hidden := _hidden(next(record.latest()), feeders[name]):
        notes.append(f"{cluster} does not let us read the LocalQueues of {', '.join(hidden)}: register it again")
    elif not next(record.latest()).behind(feeders[name]):
        notes.append(f"none of its LocalQueues leads to a ClusterQueue on {cluster}")
    resources = frozenset(resource for _, resource in counted)
    settled = record.settled(hold, now)
    return Offer(cluster=cluster, amounts=most, resources=resources, settled=settled, notes=tuple(notes))


def _hidden(queues: WorkerQueues, feeders: Collection[ObjectKey]) -> list[str]:
    """The namespaces of which nobody knows whether LocalQueues of these names lead anywhere."""
    return sorted(queues.hidden & {key.namespace for key in feeders})


def share(queues: WorkerQueues, name: str, feeders: Feeders) -> dict[FlavorResource, int]:
    """The part of a worker's quota that is there for one ClusterQueue of the manager, in the worker's flavors."""
    found: dict[FlavorResource, int] = {}
    for behind in queues.behind(feeders[name]):
        sharers = sorted(each for each, keys in feeders.items() if behind in queues.behind(keys))
        place, parts = sharers.index(name), len(sharers)
        for fr, amount in queues.quotas[behind].items():
            found[fr] = found.get(fr, 0) + amount // parts + (place < amount % parts)
    return found


@dataclass(frozen=True, slots=True)
class _Translation:
    """From a worker's flavors to those of a ClusterQueue: as said, or by the same name, or to the only one there is."""

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
        """Flavors with something that the ClusterQueue counts, and counts under no flavor that is known."""
        counted = {resource for _, resource in self.known}
        return sorted({f for (f, r), some in amounts.items() if some and r in counted and self._flavor(f, r) is None})

    def _flavor(self, flavor: str, resource: str) -> str | None:
        said = self.flavors.get(f"{self.cluster}/{flavor}", self.flavors.get(flavor))
        own = [name for name, counted in self.known if counted == resource]
        if said is not None or flavor in own:
            wanted = said or flavor
            return wanted if wanted in own else None
        return own[0] if len(own) == 1 else None
