"""A quota tree with workloads in it, for the tests of preemption: who would have to go for whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.api.kueue.queues import ClusterQueue, Cohort
from multikueue.quota.cache.budgets import UNLIMITED
from multikueue.quota.cache.catalog import QueueSnapshot, snapshot
from multikueue.quota.cache.reservations import Reservation
from multikueue.quota.cache.tree import FlavorResource, Forest, Member, Node, fair_weight, quotas
from multikueue.quota.preemption.candidates import PreemptionRequest
from multikueue.quota.preemption.fair import FairPreemption
from multikueue.quota.preemption.preemption import PreemptionRules, find_targets
from tests.builders import NOW, ClusterQueueBuilder, CohortBuilder, flavor
from tests.quota.builders import key_of

FLAVORS = {name: flavor(name).build() for name in ("default", "spot", "alpha", "beta")}

Needs = Mapping[FlavorResource, int]


def needs(*, on: str = "default", cpu: float = 0, **more: int) -> dict[FlavorResource, int]:
    """Amounts on one flavor, cpu in cores."""
    amounts = {(on, name): amount for name, amount in more.items()}
    return {(on, "cpu"): round(cpu * 1000), **amounts} if cpu or not more else amounts


@dataclass(frozen=True)
class Held:
    """A workload with quota: `late` is how many seconds after the others it got it, `young` after NOW it was made."""

    name: str
    queue: str
    amounts: Needs
    priority: int = 0
    late: int = 0
    young: int = 0
    evicted: bool = False
    protected: bool = False

    def build(self) -> Reservation:
        return Reservation(
            key=key_of(self.name),
            cluster_queue=self.queue,
            local_queue=key_of(self.queue),
            amounts=self.amounts,
            priority=self.priority,
            uid=self.name,
            since=NOW + timedelta(seconds=self.young),
            reserved_at=NOW + timedelta(seconds=self.late),
            is_evicted=self.evicted,
            is_protected=self.protected,
        )


def held(name: str, queue: str, cpu: float, priority: int = 0, **more: int) -> Held:
    return Held(
        name, queue, needs(cpu=cpu) | {("default", resource): amount for resource, amount in more.items()}, priority
    )


def units(prefix: str, queue: str, count: int, priority: int = 0) -> list[Held]:
    """Workloads of one cpu each: b1, b2, ..."""
    return [held(f"{prefix}{number}", queue, 1, priority) for number in range(1, count + 1)]


@dataclass
class Scene:
    """The tree, and those who hold quota in it; some queues may be `allowed` to lose only so many of them."""

    tree: Iterable[ClusterQueueBuilder | CohortBuilder]
    holders: Iterable[Held] = ()
    fair: FairPreemption | None = None
    allowed: Mapping[str, int] = field(default_factory=dict)
    compatibility: Compatibility = NEWEST
    forest: Forest = field(default_factory=Forest)
    queues: dict[str, ClusterQueue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for builder in self.tree:
            self._declare(builder.build())
        used: dict[str, dict[FlavorResource, int]] = {}
        for each in self.holders:
            total = used.setdefault(each.queue, {})
            for fr, amount in each.amounts.items():
                total[fr] = total.get(fr, 0) + amount
        self.forest.build(used)
        built = [each.build() for each in self.holders]
        self.reservations = {
            name: sorted(
                (h for h in built if h.cluster_queue == name), key=lambda reservation: reservation.eviction_rank
            )
            for name in self.queues
        }

    def _declare(self, value: ClusterQueue | Cohort) -> None:
        limits, weight = quotas(value.spec.resource_groups), fair_weight(value.spec.fair_sharing)
        name = value.metadata.name
        if isinstance(value, ClusterQueue):
            self.queues[name] = value
            self.forest.declare_queue(name, Member(value.spec.cohort_name, limits, weight))
        else:
            self.forest.declare_cohort(name, Member(value.spec.parent_name, limits, weight))

    @property
    def preemption(self) -> PreemptionRules:
        allowance = lambda name: self.allowed.get(name, UNLIMITED)  # noqa: E731
        return PreemptionRules(lambda name: self.reservations.get(name, ()), self.fair, allowance, self.compatibility)

    def node(self, name: str) -> Node:
        found = self.forest.queue(name) or self.forest.cohort(name)
        assert found
        return found

    def view(self, queue: str) -> QueueSnapshot:
        return snapshot(self.queues[queue], self.node(queue), FLAVORS, is_fair_sharing=self.fair is not None)

    def usage(self) -> dict[tuple[str, FlavorResource], int]:
        """Of every node."""
        nodes = [self.node(name) for name in self.queues]
        nodes += {id(each): each for node in nodes for each in node.ancestors()}.values()
        return {(node.name, fr): cell.usage for node in nodes for fr, cell in node.cells.items()}

    def request(
        self, queue: str, amounts: Needs, priority: int = 0, short: Iterable[FlavorResource] | None = None
    ) -> PreemptionRequest:
        """Of a workload as old as all others; it is `short` of all it needs, if not told otherwise."""
        lacking = frozenset(amounts if short is None else short)
        return PreemptionRequest(priority, NOW, self.view(queue), lacking, amounts)

    def victims(
        self, queue: str, amounts: Needs, priority: int = 0, short: Iterable[FlavorResource] | None = None
    ) -> dict[str, str]:
        """Name and cause of each, by name."""
        targets = find_targets(self.request(queue, amounts, priority, short), self.preemption)
        return dict(sorted((target.reservation.key.name, target.cause.value) for target in targets))
