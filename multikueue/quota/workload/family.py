"""A parent and its variants (KEP 8691): which there are, which of them may have quota, and what the parent has by them.

A variant is work like any other: it queues, has quota and is preempted. The parent has the quota of one of its variants, and
is what is dispatched; while it has that quota, the variant keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from multikueue.api.kueue.concurrent_admission import (
    GATE,
    PARENT_LABEL,
    flavor_of,
    flavors_in_order,
    last_acceptable_flavor,
    policy_of,
    stays,
)
from multikueue.api.kueue.preemption_gates import BLOCKED, ONE_AT_A_TIME, opened_at, turn_left
from multikueue.api.kueue.queues import ClusterQueueSpec, ConcurrentAdmissionPolicy
from multikueue.api.kueue.workload import (
    ADMITTED,
    DEACTIVATED,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    Admission,
    Finish,
    PriorityClassRef,
    Workload,
    WorkloadSpec,
    workload_spec,
)

__all__ = [
    "NO_VARIANT",
    "VARIANT_EVICTED",
    "Action",
    "Create",
    "Delete",
    "Family",
    "Mark",
    "Reprioritize",
    "SetActive",
    "actions",
    "admission_of",
    "family_of",
    "gate_to_open",
    "holder",
    "loss_of",
]

VARIANT_EVICTED, NO_VARIANT = "VariantEvicted", "ConcurrentAdmission"
"""Reasons of the eviction of a parent: the variant whose quota it has was evicted, or is gone."""


class Family(msgspec.Struct, frozen=True):
    """A parent, and its variants from the most preferred flavor on; of one flavor, those with quota first. Without a policy
    there shall be none."""

    parent: Workload
    variants: tuple[Workload, ...]
    flavors: tuple[str, ...]
    policy: ConcurrentAdmissionPolicy | None

    def place(self, variant: Workload) -> int:
        """The place of its flavor among those of the ClusterQueue; behind all if it is not one of them."""
        name = flavor_of(variant)
        return self.flavors.index(name) if name in self.flavors else len(self.flavors)

    def rank(self, variant: Workload) -> tuple[int, bool, bool, str]:
        has_quota = variant.has(QUOTA_RESERVED)
        is_admitted = has_quota and variant.has(ADMITTED)
        return self.place(variant), not is_admitted, not has_quota, variant.metadata.name


class Mark(msgspec.Struct, frozen=True):
    """The parent gets its label."""


class Create(msgspec.Struct, frozen=True):
    """A variant for that flavor is made."""

    flavor: str


class Delete(msgspec.Struct, frozen=True):
    variant: Workload
    why: str


class SetActive(msgspec.Struct, frozen=True):
    """A variant may queue, or may not have quota any more."""

    variant: Workload
    is_active: bool
    why: str


class Reprioritize(msgspec.Struct, frozen=True):
    """A variant gets the priority of the parent."""

    variant: Workload


Action = Mark | Create | Delete | SetActive | Reprioritize


def family_of(parent: Workload, variants: Iterable[Workload], queue: ClusterQueueSpec) -> Family:
    """The family of a parent in a ClusterQueue. A variant that is being deleted is none any more."""
    flavors = flavors_in_order(queue)
    there = (each for each in variants if each.metadata.deletion_timestamp is None)
    family = Family(parent, tuple(there), flavors, policy_of(queue))
    return msgspec.structs.replace(family, variants=tuple(sorted(family.variants, key=family.rank)))


# Which variants there are, and which may have quota.


def actions(family: Family, *, is_gated: bool = False) -> Iterator[Action]:
    """What is to be done about the variants. A parent that `is_gated` is not admitted yet, and has none made."""
    parent = family.parent
    if parent.metadata.deletion_timestamp is not None or parent.has(FINISHED):
        return
    if family.policy is not None and parent.metadata.labels.get(PARENT_LABEL) != "true":
        yield Mark()
    stale = {each.variant.key: each for each in _stale(family)}
    yield from stale.values()
    left = tuple(each for each in family.variants if each.key not in stale)
    if family.policy is None:
        return
    there = set(map(flavor_of, left))
    yield from (Create(name) for name in family.flavors if name not in there and not is_gated)
    yield from _changes(msgspec.structs.replace(family, variants=left), family.policy)


def _stale(family: Family) -> Iterator[Delete]:
    """The variants that are none of the family any more. Of each flavor one is left: that with quota, if any."""
    kept: set[str] = set()
    for each in family.variants:
        if why := _why_stale(each, family):
            yield Delete(each, why)
        elif flavor_of(each) in kept:
            yield Delete(each, f'another one is there for flavor "{flavor_of(each)}"')
        else:
            kept.add(flavor_of(each))


def _why_stale(variant: Workload, family: Family) -> str:
    """Why a variant is not one of the family any more; empty if it is."""
    if family.policy is None:
        return "its ClusterQueue has no policy of Concurrent Admission"
    if flavor_of(variant) not in family.flavors:
        return f'flavor "{flavor_of(variant)}" no longer in ClusterQueue'
    mine, its = workload_spec(family.parent), workload_spec(variant)
    if mine.queue_name != its.queue_name or not _has_same_pods(mine, its):
        return "its parent asks for something else now"
    return ""


def _has_same_pods(mine: WorkloadSpec, its: WorkloadSpec) -> bool:
    return mine.pod_sets == its.pod_sets or _trees(mine) == _trees(its)


def _trees(spec: WorkloadSpec) -> object:
    return msgspec.json.decode(msgspec.json.encode(spec.pod_sets))


def _changes(family: Family, policy: ConcurrentAdmissionPolicy) -> Iterator[Action]:
    mine = workload_spec(family.parent)
    for variant in family.variants:
        its = workload_spec(variant)
        is_news = (its.priority, its.priority_class_ref) != (mine.priority, mine.priority_class_ref)
        if is_news and _may_take(mine.priority_class_ref, variant, its.priority_class_ref):
            yield Reprioritize(variant)
        wanted = _wanted(variant, family, policy)
        if wanted is not None and wanted[0] != its.active:
            yield SetActive(variant, *wanted)


def _may_take(new: PriorityClassRef | None, variant: Workload, old: PriorityClassRef | None) -> bool:
    """While quota is reserved, the API server lets one WorkloadPriorityClass follow another, and nothing else."""
    if new == old or not variant.has(QUOTA_RESERVED):
        return True
    return all(each is not None and each.kind == "WorkloadPriorityClass" for each in (new, old))


def _wanted(variant: Workload, family: Family, policy: ConcurrentAdmissionPolicy) -> tuple[bool, str] | None:
    """Whether a variant shall be active, and why; None: as it is."""
    if not _is_usable(family.parent):
        return False, f'its parent Workload "{family.parent.key}" takes no quota now'
    if _is_ending(family.parent):
        return None
    admitted = _admitted(family)
    if admitted is None:
        return None if _is_given_up(variant) else (True, "no other Variant being admitted")
    if variant.key == admitted.key:
        return None
    if stays(policy):
        return False, f'RetainFirstAdmission: another Variant "{admitted.key}" is admitted'
    last = last_acceptable_flavor(policy)
    if family.place(variant) > family.place(admitted):
        return False, f'being lower priority than admitted Variant "{admitted.key}"'
    if last is not None and family.place(variant) > family.flavors.index(last):
        return False, f'being below lastAcceptableFlavor: "{last}" and another Variant admitted "{admitted.key}"'
    return None if _is_given_up(variant) else (True, f'being higher priority than admitted Variant "{admitted.key}"')


def _is_usable(parent: Workload) -> bool:
    """Whether variants may have quota for the parent: it is active, and not in its back-off."""
    if not workload_spec(parent).active:
        return False
    state = parent.status.requeue_state
    return parent.has(QUOTA_RESERVED) or state is None or state.requeue_at is None


def _is_ending(parent: Workload) -> bool:
    """Whether the parent is evicted for a cause of its own. Until nothing of it runs, its quota stays where it is."""
    evicted = parent.condition(EVICTED)
    is_evicted = parent.has(QUOTA_RESERVED) and evicted is not None and evicted.status == "True"
    return is_evicted and evicted is not None and evicted.reason not in (VARIANT_EVICTED, NO_VARIANT)


def _is_given_up(variant: Workload) -> bool:
    """Whether it is deactivated for a cause, such as a check that says Rejected: made active again, it would only repeat.
    Its eviction is written after it is inactive; until then the target says so."""
    evicted = variant.condition(EVICTED)
    if variant.has(DEACTIVATION_TARGET):
        return True
    return evicted is not None and evicted.status == "True" and evicted.reason.startswith(f"{DEACTIVATED}DueTo")


# What the parent has by them.


def _admitted(family: Family) -> Workload | None:
    return next((each for each in family.variants if each.has(ADMITTED) and each.has(QUOTA_RESERVED)), None)


def admission_of(family: Family) -> Admission | None:
    """The admission that a parent without quota takes from a variant."""
    if family.policy is None or family.parent.has(QUOTA_RESERVED) or not _is_usable(family.parent):
        return None
    for variant in family.variants:
        if variant.has(ADMITTED) and variant.has(QUOTA_RESERVED) and not variant.has(EVICTED):
            return variant.status.admission
    return None


def holder(family: Family) -> Workload | None:
    """The variant whose quota the parent has."""
    admission = family.parent.status.admission
    if admission is None:
        return None
    flavors = admission.flavors
    if not flavors:
        return _admitted(family)
    return next((each for each in family.variants if flavor_of(each) in flavors), None)


def loss_of(family: Family) -> Finish | None:
    """Why a parent has to give up the quota that it has by a variant: reason and message; None while it may keep it."""
    if not family.parent.has(QUOTA_RESERVED) or family.parent.has(EVICTED):
        return None
    held = holder(family)
    if held is None or not held.has(QUOTA_RESERVED):
        return Finish(reason=NO_VARIANT, message="No variant is running")
    if held.has(EVICTED):
        return Finish(reason=VARIANT_EVICTED, message="Admitted variant was evicted")
    return None


# Who may preempt.


def gate_to_open(family: Family, now: datetime) -> tuple[Workload | None, timedelta | None]:
    """The variant whose preemption gate is to be opened now, if any; and when to look again."""
    waiting = [each for each in family.variants if workload_spec(each).active and not each.has(QUOTA_RESERVED)]
    opened = [at for each in waiting if (at := opened_at(each, GATE)) is not None]
    blocked = [each for each in waiting if each.has(BLOCKED) and opened_at(each, GATE) is None]
    if not blocked:
        return None, None
    left = turn_left(opened, now)
    return (None, left) if left > timedelta() else (blocked[0], ONE_AT_A_TIME)
