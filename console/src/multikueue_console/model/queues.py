"""Queues as a tree of cohorts: what each has, uses, borrows and lends, by flavor and resource."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.kueue.queues import ClusterQueue, Cohort, FlavorUsage, LocalQueue, ResourceGroup
from multikueue.api.meta import Condition, find_condition
from multikueue.api.multikueue.strategies import STRATEGY_ANNOTATION
from multikueue.api.values import quantity
from multikueue.errors import InvalidObject
from multikueue.quota.capacity.spend import limit_of, told_account
from multikueue_console.model.objects import SeenObjects
from multikueue_console.model.workloads import seconds

__all__ = ["Bar", "CohortNode", "LocalRow", "QueueNode", "Spending", "local_rows", "queue_trees"]

_ANY_TIME = datetime.max.replace(tzinfo=UTC)

Cell = tuple[str, str]
"""A flavor and a resource."""


class Bar(msgspec.Struct, frozen=True, gc=False):
    """One resource of one flavor, in the units that Kueue counts with: milli-units of cpu, whole units of all else.

    `used` counts what is borrowed, too; `lent` is the unused part of `nominal` that others in the cohort have borrowed. Who of
    several lends is not recorded anywhere: each is counted by its share of what could be lent. `limit`: the most that may be
    borrowed, -1 without a limit.
    """

    flavor: str
    resource: str
    nominal: int = 0
    used: int = 0
    borrowed: int = 0
    lent: int = 0
    limit: int = -1

    @property
    def free(self) -> int:
        """What is left of its own."""
        return max(0, self.nominal - self.lent - (self.used - self.borrowed))


class Spending(msgspec.Struct, frozen=True, gc=False):
    """What a queue had spent at that time, in seconds since 1970, of which old money counts less the longer ago it was, as its
    condition says. `most`: what it may spend within so many hours; None for any amount."""

    spent: float
    at: int
    hours: float
    most: float | None = None


class LocalRow(msgspec.Struct, frozen=True, gc=False):
    """A LocalQueue. `problem`: why it admits nothing, empty if it does. `spending`: None if nothing is told of it."""

    namespace: str
    name: str
    cluster_queue: str
    pending: int
    reserving: int
    admitted: int
    problem: str = ""
    is_held: bool = False
    spending: Spending | None = None


class QueueNode(msgspec.Struct, frozen=True, gc=False):
    """A ClusterQueue. `strategy`: the one that its admission check names, empty for the default. `share`: its weighted share
    where sharing is fair, -1 elsewhere. `spending`: None if nothing is told of it."""

    name: str
    cohort: str
    bars: tuple[Bar, ...]
    pending: int
    reserving: int
    admitted: int
    checks: tuple[str, ...] = ()
    order: str = ""
    problem: str = ""
    is_held: bool = False
    strategy: str = ""
    share: int = -1
    spending: Spending | None = None


class CohortNode(msgspec.Struct, frozen=True, gc=False):
    """A cohort with all that is below it; without a name, a queue that is in no cohort. `bars` are the sums of its queues and
    cohorts, and its own quota."""

    name: str
    bars: tuple[Bar, ...]
    queues: tuple[QueueNode, ...] = ()
    cohorts: tuple[CohortNode, ...] = ()


def queue_trees(seen: SeenObjects) -> tuple[CohortNode, ...]:
    """The trees by name, first those with a cohort; none if ClusterQueues may not be listed."""
    strategies = {
        each.metadata.name: each.metadata.annotations.get(STRATEGY_ANNOTATION, "")
        for each in (seen.checks or {}).values()
    }
    queues = [_queue(each, strategies) for each in (seen.cluster_queues or {}).values()]
    cohorts = {each.metadata.name: each for each in (seen.cohorts or {}).values()}
    parents = {name: each.spec.parent_name for name, each in cohorts.items()}
    names = {each.cohort for each in queues if each.cohort} | set(parents) | {each for each in parents.values() if each}
    members: dict[str, list[QueueNode]] = {}
    for each in sorted(queues, key=lambda queue: queue.name):
        members.setdefault(each.cohort, []).append(each)
    children: dict[str, list[str]] = {}
    for name in sorted(names):
        children.setdefault(_parent(name, parents), []).append(name)
    trees = (_cohort(name, members, children, cohorts) for name in children.get("", ()))
    alone = (CohortNode(name="", bars=each.bars, queues=(each,)) for each in members.get("", ()))
    return (*trees, *alone)


def local_rows(seen: SeenObjects) -> tuple[LocalRow, ...]:
    """LocalQueues by namespace and name."""
    found = (seen.local_queues or {}).values()
    return tuple(_local(each) for each in sorted(found, key=lambda queue: queue.key))


def _parent(name: str, parents: Mapping[str, str]) -> str:
    """The parent of a cohort; none for one whose ancestors form a circle."""
    seen, each = {name}, parents.get(name, "")
    while each:
        if each in seen:
            return ""
        seen.add(each)
        each = parents.get(each, "")
    return parents.get(name, "")


def _cohort(
    name: str,
    members: Mapping[str, list[QueueNode]],
    children: Mapping[str, list[str]],
    cohorts: Mapping[str, Cohort],
) -> CohortNode:
    below = tuple(_cohort(child, members, children, cohorts) for child in children.get(name, ()))
    own = dict(_nominal(cohorts[name].spec.resource_groups)) if name in cohorts else {}
    queues = _with_lent(members.get(name, []), own)
    bars = _summed([*(each.bars for each in queues), *(each.bars for each in below)], own)
    return CohortNode(name=name, bars=bars, queues=queues, cohorts=below)


def _with_lent(queues: Iterable[QueueNode], own: Mapping[Cell, tuple[int, int]]) -> tuple[QueueNode, ...]:
    queues = tuple(queues)
    borrowed: dict[Cell, int] = {}
    spare: dict[Cell, int] = {}
    for bar in (bar for each in queues for bar in each.bars):
        cell = (bar.flavor, bar.resource)
        borrowed[cell] = borrowed.get(cell, 0) + bar.borrowed
        spare[cell] = spare.get(cell, 0) + _spare(bar)
    for cell, (nominal, _) in own.items():
        borrowed[cell] = max(0, borrowed.get(cell, 0) - nominal)

    def lent(bar: Bar) -> Bar:
        cell = (bar.flavor, bar.resource)
        if not borrowed[cell] or not spare[cell] or not _spare(bar):
            return bar
        part = min(_spare(bar), borrowed[cell] * _spare(bar) // spare[cell])
        return msgspec.structs.replace(bar, lent=part)

    return tuple(msgspec.structs.replace(each, bars=tuple(map(lent, each.bars))) for each in queues)


def _spare(bar: Bar) -> int:
    return max(0, bar.nominal - (bar.used - bar.borrowed))


def _summed(parts: Iterable[tuple[Bar, ...]], own: Mapping[Cell, tuple[int, int]]) -> tuple[Bar, ...]:
    total: dict[Cell, Bar] = {cell: Bar(*cell, nominal=nominal) for cell, (nominal, _) in own.items()}
    for bar in (bar for bars in parts for bar in bars):
        cell = (bar.flavor, bar.resource)
        known = total.get(cell) or Bar(*cell)
        total[cell] = Bar(
            *cell,
            nominal=known.nominal + bar.nominal,
            used=known.used + bar.used,
            borrowed=known.borrowed + bar.borrowed,
            lent=known.lent + bar.lent,
        )
    return tuple(total.values())


def _queue(queue: ClusterQueue, strategies: Mapping[str, str]) -> QueueNode:
    status, sharing = queue.status, queue.status.fair_sharing
    checks = tuple(each.name for each in queue.spec.admission_checks_strategy.admission_checks)
    return QueueNode(
        name=queue.metadata.name,
        cohort=queue.spec.cohort_name,
        bars=tuple(_bars(queue)),
        pending=status.pending_workloads,
        reserving=status.reserving_workloads,
        admitted=status.admitted_workloads,
        checks=checks,
        order=queue.spec.queueing_strategy,
        problem=_problem(status.conditions),
        is_held=queue.spec.stop_policy != "None",
        strategy=next((name for each in checks if (name := strategies.get(each, ""))), ""),
        share=sharing.weighted_share if sharing is not None else -1,
        spending=_spending(queue),
    )


def _local(queue: LocalQueue) -> LocalRow:
    status = queue.status
    return LocalRow(
        namespace=queue.metadata.namespace,
        name=queue.metadata.name,
        cluster_queue=queue.spec.cluster_queue,
        pending=status.pending_workloads,
        reserving=status.reserving_workloads,
        admitted=status.admitted_workloads,
        problem=_problem(status.conditions),
        is_held=queue.spec.stop_policy != "None",
        spending=_spending(queue),
    )


def _spending(queue: ClusterQueue | LocalQueue) -> Spending | None:
    limit = limit_of(queue)
    told = told_account(queue.status.conditions, limit, _ANY_TIME)
    if told is None:
        return None
    return Spending(told.spent, seconds(told.at), limit.window / timedelta(hours=1), limit.most)


def _problem(conditions: tuple[Condition, ...]) -> str:
    active = find_condition(conditions, ACTIVE)
    return (active.message or active.reason) if active is not None and active.status == "False" else ""


def _bars(queue: ClusterQueue) -> Iterator[Bar]:
    used = dict(_usage(queue.status.flavors_reservation))
    for cell, (nominal, limit) in _nominal(queue.resource_groups_in_force):
        total, borrowed = used.get(cell, (0, 0))
        yield Bar(*cell, nominal=nominal, used=total, borrowed=borrowed, limit=limit)


def _nominal(groups: Iterable[ResourceGroup]) -> Iterator[tuple[Cell, tuple[int, int]]]:
    """What is given by flavor and resource, and the most that may be borrowed, -1 without a limit."""
    for group in groups:
        for flavor in group.flavors:
            for each in flavor.resources:
                limit = _count(each.name, each.borrowing_limit) if each.borrowing_limit is not None else -1
                yield (flavor.name, each.name), (_count(each.name, each.nominal_quota), limit)


def _usage(flavors: Iterable[FlavorUsage]) -> Iterator[tuple[Cell, tuple[int, int]]]:
    for flavor in flavors:
        for each in flavor.resources:
            yield (
                (flavor.name, each.name),
                (_count(each.name, each.total or "0"), _count(each.name, each.borrowed or "0")),
            )


def _count(resource: str, text: object) -> int:
    try:
        return quantity.counted(resource, text)
    except InvalidObject:
        return 0
