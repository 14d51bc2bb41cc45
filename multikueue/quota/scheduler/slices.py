"""Slices of elastic jobs: a slice takes over the quota of the slice that it replaces (quota-engine 3.1).

A slice asks for all its pods, but is judged as if the slice it replaces were gone: it needs the difference. It gets the
same flavors, since running pods stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from multikueue.quota.cache.catalog import FlavorGroup, QueueSnapshot
from multikueue.quota.cache.reservations import Reordered, Reservation
from multikueue.quota.cache.tree import Amounts
from multikueue.quota.preemption.preemption import PreemptionRules

__all__ = ["bound", "difference", "sparing"]


def sparing(preemption: PreemptionRules, replaced: Reservation) -> PreemptionRules:
    """The rules of preemption without the replaced slice as a candidate: it goes in any case."""

    def holders(queue: str) -> Sequence[Reservation]:
        found = preemption.holders(queue)
        left = (each for each in found if each.key != replaced.key)
        return Reordered(left) if isinstance(found, Reordered) else tuple(left)

    return replace(preemption, holders=holders)


def bound(queue: QueueSnapshot, replaced: Reservation) -> QueueSnapshot:
    """The queue limited to the flavors of the replaced slice, in each resource group where that has any."""
    groups = tuple(_bound(group, replaced) for group in queue.groups)
    return replace(queue, groups=groups, group_of={name: group for group in groups for name in group.resources})


def _bound(group: FlavorGroup, replaced: Reservation) -> FlavorGroup:
    used = {flavor for flavor, resource in replaced.amounts if resource in group.resources}
    if not used:
        return group
    return replace(group, flavors=tuple(name for name in group.flavors if name in used) or tuple(sorted(used)))


def difference(usage: Amounts, replaced: Reservation) -> Mapping[tuple[str, str], int]:
    """Usage of a slice beyond that of the slice it replaces; negative where that used more."""
    return {fr: usage.get(fr, 0) - replaced.amounts.get(fr, 0) for fr in dict.fromkeys((*usage, *replaced.amounts))}
