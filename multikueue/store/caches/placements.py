"""The Placement that a workload follows, and its present decisions: OCM's, or another scheduler's in SIG-Multicluster's form.

A Placement's answer is spread over several PlacementDecisions, which its controller writes one after another, with
labels and the Placement's own status last (ocm.md 2.4). So one read may miss a cluster that is in a slice a moment
later. What is read here is the present state; the time since which a cluster is missing is kept too, so that copies are
withdrawn only after a wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

import msgspec

from multikueue import strategy as contract
from multikueue.api.meta import Object, ObjectKey, find_condition
from multikueue.api.multikueue.decisions import DECISION_INDEX_LABEL, DECISION_KEY_LABEL, SharedPlacementDecision
from multikueue.api.multikueue.ocm import (
    FROZEN_ANNOTATION,
    GROUP_INDEX_LABEL,
    MISCONFIGURED,
    OCM_GROUP,
    PLACEMENT_LABEL,
    SATISFIED,
    Placement,
    PlacementDecision,
)
from multikueue.store.caches.cache import Cache

PLACEMENT_ANNOTATION = "multikueue.dev/placement"
"""Names the Placement to follow, as `name` or `namespace/name`: on a Workload or its job, a LocalQueue, a ClusterQueue,
or an AdmissionCheck. The most specific counts; the first two only where a setting allows them."""

ABSENCE_MEMORY = timedelta(hours=1)
"""How long the start of a cluster's absence is remembered; after that the absence counts from the first read."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
T = TypeVar("T", bound=Object)

_NUMBER = re.compile(r"[0-9]{1,9}")


class Named(msgspec.Struct, frozen=True):
    """The Placement named for a workload. Without a key the name is invalid: `problem` says why."""

    key: ObjectKey | None
    problem: str = ""


def named(givers: Iterable[Object | None], *, option: str = "", namespace: str) -> Named | None:
    """The name in the first giver's annotation, or else in the strategy's option; None if there is none.

    An invalid name is not skipped for a less specific one: that would send a job where its owner did not want it.
    `namespace` completes a name without one.
    """
    for giver in givers:
        text = giver.metadata.annotations.get(PLACEMENT_ANNOTATION) if giver is not None else None
        if giver is not None and text is not None:
            return _named(text, f"annotation {PLACEMENT_ANNOTATION} of {type(giver).__name__} {giver.key}", namespace)
    return _named(option, "option placement of the strategy", namespace) if option else None


def _named(text: str, where: str, namespace: str) -> Named:
    first, slash, second = text.strip().partition("/")
    key = ObjectKey(first, second) if slash else ObjectKey(namespace, first)
    if _NAME.fullmatch(key.namespace) and _NAME.fullmatch(key.name):
        return Named(key)
    return Named(None, f"{where}: expected NAME or NAMESPACE/NAME of a Placement, got {text[:100]!r}")


@dataclass(frozen=True, slots=True)
class Reading:
    """The decisions of a Placement at one moment: clusters by group, each once, and what is wrong."""

    groups: tuple[tuple[str, ...], ...] = ()
    problem: str = ""
    clusters: frozenset[str] = field(init=False, compare=False, default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "clusters", frozenset(name for group in self.groups for name in group))


def read(key: ObjectKey, placement: Placement | None, slices: Sequence[PlacementDecision]) -> Reading:
    """Reads a Placement. The problem distinguishes missing, deleted, misconfigured, undecided and empty (ocm.md 2.5)."""
    if placement is None:
        return Reading(problem=f"there is no Placement {key}")
    if placement.metadata.deletion_timestamp is not None:
        return Reading(problem=f"Placement {key} is being deleted")
    own = [each for each in slices if _is_of(each, placement)]
    groups = _groups(placement, own)
    return Reading(groups, _problem(placement, own, groups))


def read_shared(key: ObjectKey, slices: Sequence[SharedPlacementDecision]) -> Reading:
    """Reads a decision that has no Placement: one group, in the order of its slices and of their clusters."""
    ordered = sorted(
        slices, key=lambda each: (_counted(each.metadata.labels.get(DECISION_INDEX_LABEL, "")), each.metadata.name)
    )
    names = dict.fromkeys(found.cluster_profile_ref.name for each in ordered for found in each.decisions)
    chosen = tuple(filter(None, names))
    return Reading((chosen,)) if chosen else Reading(problem=f"PlacementDecision {key} has decided for no cluster")


def _decision_of(decision: SharedPlacementDecision) -> Iterable[ObjectKey]:
    """The key that joins a slice with the others, and is what a workload names."""
    meta = decision.metadata
    return (ObjectKey(meta.namespace, meta.labels.get(DECISION_KEY_LABEL) or meta.name),)


def _is_of(decision: PlacementDecision, placement: Placement) -> bool:
    """Whether a slice is the Placement's. A slice owned by an earlier Placement of that name is not; a slice without an
    owner, which a user made, is."""
    owners = [o.uid for o in decision.metadata.owner_references if o.kind == "Placement" and _is_ocm(o.api_version)]
    return not owners or placement.metadata.uid in owners


def _is_ocm(api_version: str) -> bool:
    return api_version.partition("/")[0] == OCM_GROUP


def _problem(placement: Placement, slices: Sequence[PlacementDecision], groups: tuple[tuple[str, ...], ...]) -> str:
    words = f"Placement {placement.key}"
    misconfigured = find_condition(placement.status.conditions, MISCONFIGURED)
    if misconfigured is not None and misconfigured.status == "True":
        return f"{words} is misconfigured: {misconfigured.message or misconfigured.reason}"
    if groups:
        return ""
    frozen = placement.metadata.annotations.get(FROZEN_ANNOTATION) == "true"
    note = f" (annotation {FROZEN_ANNOTATION} keeps it from deciding)" if frozen else ""
    if not slices:
        return f"{words} has no decisions yet{note}"
    satisfied = find_condition(placement.status.conditions, SATISFIED)
    if satisfied is not None and satisfied.status == "False":
        return f"{words} is not satisfied: {satisfied.message or satisfied.reason}{note}"
    return f"{words} has decided for no cluster{note}"


def _groups(placement: Placement, slices: Sequence[PlacementDecision]) -> tuple[tuple[str, ...], ...]:
    """The clusters by group in order of preference. The first slice that names a cluster counts.

    The Placement's status names the slices of each group. It is written last, so a slice that it does not name yet is
    taken by its label; an old slice's label may be late (ocm.md 2.4).
    """
    said = {name: group.decision_group_index for group in placement.status.decision_groups for name in group.decisions}
    groups: dict[int, list[str]] = {}
    taken: set[str] = set()
    for each in sorted(slices, key=lambda each: (_group(each, said), *_number(each))):
        for decision in each.status.decisions:
            if decision.cluster_name and decision.cluster_name not in taken:
                taken.add(decision.cluster_name)
                groups.setdefault(_group(each, said), []).append(decision.cluster_name)
    return tuple(tuple(group) for group in groups.values())


def _group(decision: PlacementDecision, said: dict[str, int]) -> int:
    label = decision.metadata.labels.get(GROUP_INDEX_LABEL, "")
    return said.get(decision.metadata.name, _counted(label))


def _number(decision: PlacementDecision) -> tuple[int, str]:
    """The sort key of a slice: slices are numbered across all groups, at the end of their names."""
    name = decision.metadata.name
    return _counted(name.rpartition("-")[2]), name


def _counted(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


def _placement_of(decision: PlacementDecision) -> Iterable[ObjectKey]:
    """The Placement of a slice, from its label, or from its owner while the label is missing."""
    meta = decision.metadata
    owner = next((o.name for o in meta.owner_references if o.kind == "Placement" and _is_ocm(o.api_version)), "")
    name = meta.labels.get(PLACEMENT_LABEL) or owner
    return (ObjectKey(meta.namespace, name),) if name else ()


@dataclass(slots=True)
class _Known:
    """The present reading of a Placement, the start of each cluster's absence, and the following workloads."""

    reading: Reading
    left: dict[str, datetime] = field(default_factory=dict)
    followers: dict[ObjectKey, None] = field(default_factory=dict)


def _nobody() -> None:
    """Does nothing."""


class Placements:
    """Owner: the store. The manager cluster's watches fill the caches; followers are reconciled at changes.

    `since` is the time of the first complete read, None before it; an absence cannot be known to be older. `trouble`
    says why nothing is read. `need` is called at each question that cannot be answered yet.
    """

    def __init__(self, touch: Callable[[ObjectKey], None], now: Callable[[], datetime]) -> None:
        self._touch, self._now = touch, now
        self.need: Callable[[], None] = _nobody
        self._known: dict[ObjectKey, _Known] = {}
        self._followed: dict[ObjectKey, ObjectKey] = {}
        self.since: datetime | None = None
        self.trouble = "Placements are not read yet"
        self.placements: Cache[Placement] = Cache(self._placement_changed)
        self.decisions: Cache[PlacementDecision] = Cache(
            partial(self._slice_changed, _placement_of), indexes={"placement": _placement_of}
        )
        self.shared: Cache[SharedPlacementDecision] = Cache(
            partial(self._slice_changed, _decision_of), indexes={"placement": _decision_of}
        )

    def begin(self) -> None:
        """All Placements and decisions are read."""
        if self.since is None:
            self.since = self._now()
            self._touch_all()

    def fail(self, why: str) -> None:
        """They cannot be read. Anything read before stays."""
        if self.since is None and self.trouble != why:
            self.trouble = why
            self._touch_all()

    def view(self, workload: ObjectKey, wanted: Named | None, workers: Iterable[str]) -> contract.Placement | None:
        """The strategy's view of the Placement named for a workload, which is reconciled at its changes from now on."""
        key = wanted.key if wanted is not None else None
        self._follow(workload, key)
        if wanted is None:
            return None
        if key is None:
            return contract.Placement(name="", problem=wanted.problem)
        if self.since is None:
            self.need()
            return contract.Placement(name=str(key), problem=self.trouble)
        known = self._known[key]
        missing = [name for name in workers if name not in known.reading.clusters]
        return contract.Placement(
            name=str(key),
            groups=known.reading.groups,
            absent_since={name: known.left.get(name, self.since) for name in missing},
            problem=known.reading.problem,
        )

    def forget(self, workload: ObjectKey) -> None:
        """The workload follows no Placement any more."""
        self._follow(workload, None)

    def _follow(self, workload: ObjectKey, key: ObjectKey | None) -> None:
        before = self._followed.pop(workload, None)
        if before is not None and before != key:
            self._known[before].followers.pop(workload, None)
            self._tidy(before)
        if key is not None:
            self._followed[workload] = key
            self._knowing(key).followers[workload] = None

    def _knowing(self, key: ObjectKey) -> _Known:
        if key not in self._known:
            self._known[key] = _Known(read(key, None, ()))
        return self._known[key]

    def _tidy(self, key: ObjectKey) -> None:
        """Forgets a Placement that is gone and has no followers."""
        is_there = self.placements.get(key) is not None or self._has_slices(key)
        if not is_there and not self._known[key].followers:
            del self._known[key]

    def _placement_changed(self, old: Placement | None, new: Placement | None) -> None:
        touched = new or old
        assert touched is not None
        self._look(touched.key)

    def _slice_changed(self, keys_of: Callable[[T], Iterable[ObjectKey]], old: T | None, new: T | None) -> None:
        for key in {key for each in (old, new) if each is not None for key in keys_of(each)}:
            self._look(key)

    def _has_slices(self, key: ObjectKey) -> bool:
        return bool(self.decisions.by("placement", key) or self.shared.by("placement", key))

    def _read(self, key: ObjectKey) -> Reading:
        if shared := self.shared.by("placement", key):
            return read_shared(key, shared)
        return read(key, self.placements.get(key), self.decisions.by("placement", key))

    def _look(self, key: ObjectKey) -> None:
        """Reads a Placement again, and reconciles its followers if the reading changed."""
        known, before = self._knowing(key), self._knowing(key).reading
        known.reading = self._read(key)
        if known.reading != before:
            known.left = self._absences(known, before)
            for workload in known.followers:
                self._touch(workload)
        self._tidy(key)

    def _absences(self, known: _Known, before: Reading) -> dict[str, datetime]:
        now, there = self._now(), known.reading.clusters
        old = {n: at for n, at in known.left.items() if n not in there and now < at + ABSENCE_MEMORY}
        return old | dict.fromkeys(before.clusters - there, now)

    def _touch_all(self) -> None:
        for workload in self._followed:
            self._touch(workload)
