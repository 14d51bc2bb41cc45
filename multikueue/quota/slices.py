"""Slices of elastic jobs: quota that one workload has, and another is to have in its place (quota-engine 3.1).

A slice asks for all its pods, but is judged as if the one before it were gone: what it needs is the difference. It gets
the same flavors, for the pods that run stay where they are. From the moment it has quota the one before it counts no
more, finished or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from multikueue.api.meta import ObjectKey
from multikueue.quota.preemption import Preemption
from multikueue.quota.snapshot import Group, QueueSnapshot
from multikueue.quota.tree import Amounts
from multikueue.quota.usage import Holding, Reordered

__all__ = ["Succession", "bound", "difference", "sparing"]


@dataclass(slots=True)
class Succession:
    """Which workloads have quota in the place of which. What is only assumed can be taken back, so the old is kept."""

    trusting: bool = False
    """Whether slices need not be of one job: the copies on a worker belong to nobody until their job comes."""

    _heirs: dict[ObjectKey, tuple[ObjectKey, str]] = field(default_factory=dict)
    _replaced: dict[ObjectKey, tuple[ObjectKey, Holding | None]] = field(default_factory=dict)

    def may_replace(self, job: str, old: Holding | None) -> bool:
        """Whether a slice of that job may take the place of what holds quota there."""
        return old is not None and self._is_one_job(job, old.job)

    def succeed(self, heir: ObjectKey, old: ObjectKey, *, job: str, holding: Holding | None = None) -> None:
        """The heir has quota; `holding` is what the old one had, as long as that may have to be given back to it."""
        if not self._leads(old, heir):
            self._heirs[old] = heir, job
            self._replaced[heir] = old, holding

    def has_heir(self, key: ObjectKey, *, job: str) -> bool:
        """Whether another slice of its job has quota in the place of this one."""
        heir, its = self._heirs.get(key, (None, ""))
        return heir is not None and self._is_one_job(its, job)

    def _is_one_job(self, one: str, other: str) -> bool:
        return self.trusting or (bool(one) and one == other)

    def _leads(self, later: ObjectKey, earlier: ObjectKey) -> bool:
        """Whether the one took the place of the other, at however many removes: then it cannot be the other way round too."""
        key: ObjectKey | None = later
        while key is not None and key != earlier:
            key = self._replaced.get(key, (None, None))[0]
        return key is not None

    def end(self, key: ObjectKey) -> None:
        """That workload is finished, or gone."""
        heir, _ = self._heirs.pop(key, (None, ""))
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


def bound(queue: QueueSnapshot, replaced: Holding) -> QueueSnapshot:
    """The queue with no other flavors than the slice has that is to be replaced, as far as it has any."""
    groups = tuple(_bound(group, replaced) for group in queue.groups)
    return replace(queue, groups=groups, group_of={name: group for group in groups for name in group.resources})


def _bound(group: Group, replaced: Holding) -> Group:
    used = {flavor for flavor, resource in replaced.amounts if resource in group.resources}
    if not used:
        return group
    return replace(group, flavors=tuple(name for name in group.flavors if name in used) or tuple(sorted(used)))


def difference(usage: Amounts, replaced: Holding) -> Mapping[tuple[str, str], int]:
    """What a slice uses beyond the one before it; less than nothing where that had more."""
    return {fr: usage.get(fr, 0) - replaced.amounts.get(fr, 0) for fr in dict.fromkeys((*usage, *replaced.amounts))}
