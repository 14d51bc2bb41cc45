"""Builders of a strategy's input: its workload and its fleet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from multikueue.api.values.quantity import amount, parse
from multikueue.strategy import FlavorRoom, Fleet, Placement, Room, Spend, Waits, Worker
from multikueue.strategy import Workload as StrategyWorkload

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
"""The default of all times."""

Quantity = str | int | float
"""A Kubernetes quantity: `2`, `"500m"`, `"4Gi"`."""


@dataclass(frozen=True, slots=True)
class StrategyWorkloadBuilder:
    """A workload as strategies see it: reserved at `NOW`, not nominated."""

    value: StrategyWorkload

    def kind(self, name: str) -> Self:
        """Sets the kind of its job."""
        return self._with(kind=name)

    def queue(self, name: str, *, cluster_queue: str = "cq") -> Self:
        return self._with(queue=name, cluster_queue=cluster_queue)

    def priority(self, value: int) -> Self:
        return self._with(priority=value)

    def request(self, resources: Mapping[str, Quantity] | None = None, **more: Quantity) -> Self:
        """Adds requests of all pods together."""
        amounts = {name: amount(name, parse(each)) for name, each in {**(resources or {}), **more}.items()}
        return self._with(requests={**self.value.requests, **amounts})

    def labels(self, labels: Mapping[str, str] | None = None, **more: str) -> Self:
        return self._with(labels={**self.value.labels, **(labels or {}), **more})

    def annotations(self, annotations: Mapping[str, str] | None = None, **more: str) -> Self:
        return self._with(annotations={**self.value.annotations, **(annotations or {}), **more})

    def created(self, at: datetime) -> Self:
        return self._with(created_at=at)

    def reserved(self, at: datetime) -> Self:
        return self._with(reserved_at=at)

    def nominated(self, *clusters: str, at: datetime = NOW) -> Self:
        """Sets the nominated clusters, and the time of the nomination."""
        return self._with(nominated_clusters=clusters, nominated_at=at if clusters else None)

    def failed_on(self, cluster: str, *, at: datetime = NOW) -> Self:
        """Adds an earlier attempt that ended there at `at`."""
        return self._with(failed_on={**self.value.failed_on, cluster: at})

    def mates(self, **there: int) -> Self:
        """Sets how many others of its group are on which cluster."""
        return self._with(mates=there)

    def assigned(self, flavor: str) -> Self:
        """All that it requests has that flavor."""
        return self._with(assigned={(flavor, name): each for name, each in self.value.requests.items()})

    def spent(self, spent: float, *, most: float = 100, until: datetime | None = None) -> Self:
        """Adds a queue that has spent so much of `most` within a week."""
        found = Spend(queue="ClusterQueue cq", spent=spent, most=most, window=timedelta(days=7), until=until)
        return self._with(spends=(*self.value.spends, found))

    def build(self) -> StrategyWorkload:
        return self.value

    def _with(self, **changes: Any) -> Self:
        return replace(self, value=replace(self.value, **changes))


@dataclass(frozen=True, slots=True)
class FleetBuilder:
    """Workers in the order in which they were added, usable by default, at `NOW`."""

    value: Fleet

    def worker(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        prices: Mapping[str, float] | None = None,
        kueue: str = "",
    ) -> Self:
        """Adds a usable worker at the end."""
        shown = Worker(
            name=name,
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
            prices=dict(prices or {}),
            kueue=kueue,
        )
        return self._add(shown)

    def unusable(self, name: str, *, why: str = "not connected") -> Self:
        """Makes that worker unusable; adds it at the end if it is new."""
        lost = Worker(name=name, usable=False, why=why)
        if all(each.name != name for each in self.value.workers):
            return self._add(lost)
        return self._with(
            workers=tuple(
                replace(each, usable=False, why=why) if each.name == name else each for each in self.value.workers
            )
        )

    def room(self, name: str, *quotas: FlavorRoom, waiting: Mapping[int, int] | None = None, doubt: str = "") -> Self:
        """Sets what that worker has room for; `waiting` is how many wait there by priority."""
        found = Room(quotas=quotas, waiting=tuple(sorted((waiting or {}).items())), doubt=doubt)
        workers = (replace(each, room=found) if each.name == name else each for each in self.value.workers)
        return self._with(workers=tuple(workers))

    def waits(self, name: str, waits: Waits) -> Self:
        """Sets how long jobs like the workload waited on that worker."""
        workers = (replace(each, waits=waits) if each.name == name else each for each in self.value.workers)
        return self._with(workers=tuple(workers))

    def placement(
        self,
        name: str,
        *groups: tuple[str, ...],
        problem: str = "",
        absent: Mapping[str, datetime] | None = None,
    ) -> Self:
        """Sets the OCM Placement named for the workload, its decision groups in order of preference, and the absent
        clusters with the start of their absence."""
        found = Placement(name=name, groups=groups, problem=problem, absent_since=dict(absent or {}))
        return self._with(placement=found)

    def at(self, now: datetime) -> Self:
        return self._with(now=now)

    def later(self, by: timedelta) -> Self:
        return self._with(now=self.value.now + by)

    def build(self) -> Fleet:
        return self.value

    def _add(self, worker: Worker) -> Self:
        return self._with(workers=(*self.value.workers, worker))

    def _with(self, **changes: Any) -> Self:
        return replace(self, value=replace(self.value, **changes))


def strategy_workload(name: str = "wl", *, namespace: str = "default") -> StrategyWorkloadBuilder:
    value = StrategyWorkload(
        namespace=namespace, name=name, queue="main", cluster_queue="cq", created_at=NOW, reserved_at=NOW
    )
    return StrategyWorkloadBuilder(value)


def fleet(*names: str) -> FleetBuilder:
    """A fleet of usable workers of these names."""
    return FleetBuilder(Fleet(workers=tuple(Worker(name=name) for name in names), now=NOW))
