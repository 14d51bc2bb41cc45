"""Nominal quotas that follow the workers: the target, what prevents it, and the patch for it.

Beyond Kueue's rules: a setting turns it on for all ClusterQueues with a MultiKueue check, an annotation turns it on or
off for one of them. Quota grows at once. It shrinks only after all its workers were observed for long enough; usage may
exceed the quota then, and nothing is evicted for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from multikueue.api.kueue.queues import FOLLOW_ANNOTATION, ClusterQueue
from multikueue.api.meta import Condition
from multikueue.api.multikueue.clusters import MultiKueueConfig
from multikueue.api.values import quantity
from multikueue.errors import InvalidObject
from multikueue.quota.cache.tree import CellQuota, FlavorResource, quotas
from multikueue.quota.capacity.offers import Offer

_PERCENT = re.compile(r"(100|[1-9]?[0-9])%")


class Kept(msgspec.Struct, frozen=True):
    """The part of an amount to keep back: a percentage of it, or nano-units."""

    percent: int = 0
    nanos: int = 0

    def of(self, resource: str, total: int) -> int:
        """The part of `total`, both in counted amounts, at most all of it. Percentages are rounded up."""
        return min(total, -(-total * self.percent // 100) + quantity.amount(resource, self.nanos))


class WorkerReserve(msgspec.Struct, frozen=True):
    """The part of the workers' quota that the manager leaves to other users, by resource, in each of its flavors."""

    others: Kept = Kept()
    by_resource: Mapping[str, Kept] = {}

    @classmethod
    def parse(cls, text: str) -> WorkerReserve:
        """Parse a text such as `10%` or `5%,cpu=4,memory=10%`. Raises ValueError."""
        kept: dict[str, Kept] = {}
        for part in text.split(","):
            resource, equals, amount = (each.strip() for each in part.rpartition("="))
            if (equals and not resource) or resource in kept:
                raise ValueError(text)
            kept[resource] = _kept(amount, must_be_percent=not resource)
        return cls(kept.pop("", Kept()), kept)

    def of(self, resource: str, total: int) -> int:
        return self.by_resource.get(resource, self.others).of(resource, total)


def _kept(text: str, *, must_be_percent: bool) -> Kept:
    if match := _PERCENT.fullmatch(text):
        return Kept(percent=int(match[1]))
    try:
        nanos = quantity.parse(text)
    except InvalidObject:
        raise ValueError(text) from None
    if must_be_percent or nanos < 0:
        raise ValueError(text)
    return Kept(nanos=nanos)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How ClusterQueues follow their workers, unless their annotation says otherwise.

    Quota shrinks by what has been gone for `shrink_after`. `flavors` maps the workers' flavors to the manager's.
    """

    is_enabled: bool = False
    reserve: WorkerReserve = WorkerReserve()
    shrink_after: timedelta = timedelta(minutes=5)
    flavors: Mapping[str, str] = {}


def reserve_of(queue: ClusterQueue, rules: Rules) -> WorkerReserve | None:
    """The reserve of a ClusterQueue that follows its workers; None: it does not follow."""
    default = rules.reserve if rules.is_enabled else None
    match queue.metadata.annotations.get(FOLLOW_ANNOTATION):
        case None:
            return default
        case "true":
            return rules.reserve
        case "false":
            return None
        case text:
            try:
                return WorkerReserve.parse(text)
            except ValueError:
                return default


AUTOMATED = "Automated"
AUTOMATION = "MultiKueueManagerQuotaAutomation"
"""The condition of a ClusterQueue that says whether its MultiKueueConfig has it follow its workers (KEP 9988)."""


def automation(queue: ClusterQueue, config: MultiKueueConfig | None, offers: Iterable[Offer]) -> Condition:
    """The condition AUTOMATION. Not where it is True nothing changes."""
    reason, message = _automation(queue, config, offers)
    return Condition(
        type=AUTOMATION,
        status="False" if message else "True",
        reason=reason,
        message=message or "The nominal quotas are what the workers have together",
        observed_generation=queue.metadata.generation,
    )


def _automation(queue: ClusterQueue, config: MultiKueueConfig | None, offers: Iterable[Offer]) -> tuple[str, str]:
    unsupported, groups = "UnsupportedConfiguration", queue.spec.resource_groups
    if config is None:
        return unsupported, "There is no such MultiKueueConfig"
    if config.spec.quota_management != AUTOMATED:
        return "NotRequested", "The MultiKueueConfig leaves quota to people"
    if [len(group.flavors) for group in groups] != [1]:
        return unsupported, "It takes a ClusterQueue with exactly one flavor"
    missing = {resource for each in offers for resource in each.resources} - set(groups[0].covered_resources)
    if missing:
        return unsupported, f"Workers have quota for resources that are not covered here: {', '.join(sorted(missing))}"
    return "QuotaAutomated", ""


def follow_problem(queue: ClusterQueue) -> str:
    """The error in the annotation, which then counts as absent; empty if there is none."""
    text = queue.metadata.annotations.get(FOLLOW_ANNOTATION, "true")
    if text in ("true", "false"):
        return ""
    try:
        WorkerReserve.parse(text)
    except ValueError:
        where = f"ClusterQueue {queue.metadata.name}: annotation {FOLLOW_ANNOTATION}"
        return f'{where}: expected "true", "false" or a reserve such as "10%" or "5%,cpu=4", got "{text}"'
    return ""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One (flavor, resource) of a ClusterQueue, in counted amounts: nominal quota, the workers' quotas, the reserve out
    of them, and the quota that is `wanted`. `why` says why that is not what the reserve leaves."""

    flavor: str
    resource: str
    nominal: int
    workers: Mapping[str, int]
    reserve: int = 0
    wanted: int
    why: str = ""

    @property
    def total(self) -> int:
        return sum(self.workers.values())

    def __str__(self) -> str:
        def shown(amount: int) -> str:
            return quantity.render(self.resource, amount)

        parts = [f"{cluster} {shown(amount)}" for cluster, amount in self.workers.items()]
        parts += [f"reserve {shown(self.reserve)}"] if self.reserve else []
        parts += [self.why] if self.why else []
        change = f"{shown(self.nominal)} -> {shown(self.wanted)}"
        return f"{self.resource} in flavor {self.flavor}: {change} ({', '.join(parts)})"


class FollowedQuota(msgspec.Struct, frozen=True):
    """All figures of a ClusterQueue. With a `problem` nothing changes; `notes` name quota that does not count."""

    figures: tuple[Figure, ...]
    problem: str = ""
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Figure, ...]:
        return tuple(figure for figure in self.figures if figure.wanted != figure.nominal)


def follow(queue: ClusterQueue, offers: Sequence[Offer], *, reserve: WorkerReserve) -> FollowedQuota:
    """The nominal quotas that a ClusterQueue should have, given what its workers offer."""
    unread = [f"{each.cluster}: {each.problem}" for each in offers if each.problem]
    problem = "; ".join(unread) if offers else "no worker is configured"
    figures = (_figure(fr, quota, offers, reserve) for fr, quota in quotas(queue.spec.resource_groups).items())
    if problem:
        stay = (replace(each, wanted=each.nominal, why="not all of its workers are known") for each in figures)
        return FollowedQuota(tuple(stay), problem, _notes(offers))
    settled = all(each.is_settled for each in offers)
    damped = (_damped(figure, is_settled=settled) for figure in figures)
    return FollowedQuota(tuple(damped), notes=_notes(offers))


def _notes(offers: Iterable[Offer]) -> tuple[str, ...]:
    return tuple(note for each in offers for note in each.notes)


def _figure(fr: FlavorResource, quota: CellQuota, offers: Iterable[Offer], reserve: WorkerReserve) -> Figure:
    """The figure of one (flavor, resource), whatever the time of the change."""
    (flavor, resource), least = fr, quota.lending_limit or 0
    workers = {each.cluster: each.amounts.get(fr, 0) for each in offers if resource in each.resources}
    total = sum(workers.values())
    kept = reserve.of(resource, total)
    found = Figure(
        flavor=flavor,
        resource=resource,
        nominal=quota.nominal,
        workers=workers,
        reserve=kept,
        wanted=total - kept,
    )
    if not workers:
        return replace(found, wanted=found.nominal, why="no worker counts it")
    if found.wanted < least:
        return replace(found, wanted=least, why="not less than its lendingLimit")
    return found


def _damped(figure: Figure, *, is_settled: bool) -> Figure:
    """Keep the nominal quota where it would shrink too early."""
    if figure.wanted < figure.nominal and not is_settled:
        return replace(figure, wanted=figure.nominal, why="shrinks only after a while")
    return figure


def json_patch(queue: ClusterQueue, changes: Iterable[Figure]) -> list[dict[str, Any]]:
    """The JSON patch for these changes and nothing else. Its tests fail if the ClusterQueue was recreated, or if a
    quota that it changes was changed since the decision."""
    wanted = {(each.flavor, each.resource): quantity.render(each.resource, each.wanted) for each in changes}
    same = {"op": "test", "path": "/metadata/uid", "value": queue.metadata.uid}
    return [same, *_operations(queue, wanted)]


def _operations(queue: ClusterQueue, wanted: Mapping[FlavorResource, str]) -> Iterator[dict[str, Any]]:
    for g, group in enumerate(queue.spec.resource_groups):
        for f, flavor in enumerate(group.flavors):
            for r, resource in enumerate(flavor.resources):
                if (flavor.name, resource.name) not in wanted:
                    continue
                at = f"/spec/resourceGroups/{g}/flavors/{f}"
                quota = f"{at}/resources/{r}/nominalQuota"
                yield {"op": "test", "path": f"{at}/name", "value": flavor.name}
                yield {"op": "test", "path": f"{at}/resources/{r}/name", "value": resource.name}
                yield {"op": "test", "path": quota, "value": resource.nominal_quota}
                yield {"op": "replace", "path": quota, "value": wanted[flavor.name, resource.name]}
