"""Slices of elastic jobs: quota that one workload has, and another is to have in its place (quota-engine 3.1).

A slice asks for all its pods, but is judged as if the one before it were gone: what it needs is the difference. It gets
the same flavors, for the pods that run stay where they are. From the moment it has quota the one before it counts no
more, finished or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from multikueue.api.meta import ObjectKey
from multikueue.quota.amounts import Demand
from multikueue.quota.preemption import Preemption
from multikueue.quota.tree import Amounts
from multikueue.quota.usage import Holding, Reordered

__all__ = ["Succession", "bound", "difference", "sparing"]


@dataclass(slots=True)
class Succession:
    """Which workloads have quota in the place of which. What is only assumed can be taken back, so the old is kept."""

    _heirs: dict[ObjectKey, ObjectKey] = field(default_factory=dict)
    _replaced: dict[ObjectKey, tuple[ObjectKey, Holding | None]] = field(default_factory=dict)

    def succeed(self, heir: ObjectKey, old: ObjectKey, holding: Holding | None = None) -> None:
        """The heir has quota; `holding` is what the old one had, as long as that may have to be given back to it."""
        self._heirs[old] = heir
        self._replaced[heir] = (old, holding)

    def has_heir(self, key: ObjectKey) -> bool:
        return key in self._heirs

    def end(self, key: ObjectKey) -> None:
        """That workload is finished, or gone."""
        heir = self._heirs.pop(key, None)
        if heir is not None:
            self._replaced.pop(heir, None)

    def lose(self, heir: ObjectKey) -> Holding | None:
        """The heir has no quota any more; answers what the old one has again, if it lost that to an assumption only."""
        old, holding = self._replaced.pop(heir, (None, None))
        if old is not None:
            self._heirs.pop(old, None)
        return holding


def sparing(preemption: Preemption, replaced: Holding) -> Preemption:
    """The rules with nobody asked to go for the sake of a slice who goes for it anyhow."""

    def holders(queue: str) -> Sequence[Holding]:
        found = preemption.holders(queue)
        left = (each for each in found if each.key != replaced.key)
        return Reordered(left) if isinstance(found, Reordered) else tuple(left)

    return replace(preemption, holders=holders)


def bound(demand: Demand, replaced: Holding) -> Demand:
    """The demand for nothing but the flavors that the slice before it has."""
    flavors = {resource: flavor for flavor, resource in replaced.amounts}
    return replace(demand, pod_sets=tuple(replace(each, flavors=flavors) for each in demand.pod_sets))


def difference(usage: Amounts, replaced: Holding) -> Mapping[tuple[str, str], int]:
    """What a slice uses beyond the one before it; less than nothing where that had more."""
    return {fr: usage.get(fr, 0) - replaced.amounts.get(fr, 0) for fr in dict.fromkeys((*usage, *replaced.amounts))}
