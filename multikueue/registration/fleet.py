"""What is left to do until the workers are those of an inventory: joins, changes, and those who leave, with a bound. Pure.

All that a decision remembers is in the objects: that a worker is the fleet's (a label), since when it leaves (an annotation,
beside the one that drains it), who left of late (an annotation of the MultiKueueConfig). Each step is safe to repeat, and the
next look tells what follows from it: a worker is in the MultiKueueConfig once it is there, and is deleted once it is not in
there any more.

A hub that lies, flaps or empties itself costs few workers: a cluster counts as gone once it has been missing for a while, and
no more may leave within a window than a share. If more would, none of them begins to, until a person says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from multikueue.api.meta import Condition, Object, find_condition, natural, render_time
from multikueue.api.multikueue.clusters import (
    CLUSTERS_ANNOTATION,
    DRAIN_ANNOTATION,
    DRAINED,
    FLEET_LABEL,
    FOLLOWED_ANNOTATION,
    HUB_TAINTS_ANNOTATION,
    IN_FLEET,
    LEAVING_ANNOTATION,
    LEFT_ANNOTATION,
    MAY_LEAVE_ANNOTATION,
    MultiKueueCluster,
    MultiKueueConfig,
    clusters_of,
    source_of,
)
from multikueue.durations import Drain
from multikueue.registration.members import FleetMember, Inventoried
from multikueue.registration.plan import LABELS, MOST_CLUSTERS

__all__ = ["FleetPlan", "FleetRules", "FleetSeen", "FleetStep", "plan_fleet"]

StepKind = Literal["join", "follow", "leave", "return", "configure", "remove"]


class FleetRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the group `fleet` as far as they say what is to be done. `most`: a share as in `20%`, or a number."""

    origin: str
    config: str
    most: str = "20%"
    window: timedelta = timedelta(days=1)
    after: timedelta = timedelta(minutes=1)
    drain: Drain = Drain()

    def most_of(self, workers: int) -> int:
        """How many of so many may leave within the window."""
        if self.most.endswith("%"):
            return max(1, workers * int(self.most[:-1]) // 100) if self.most != "0%" else 0
        return int(self.most)


class FleetSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What there is. `clusters` are all MultiKueueClusters by name, `config` is that of the fleet. `missing`: since when a
    name of the fleet has been seen to be missing in the inventory, without a break."""

    inventory: Inventoried
    clusters: Mapping[str, MultiKueueCluster]
    config: MultiKueueConfig | None
    missing: Mapping[str, datetime]
    now: datetime


class FleetStep(msgspec.Struct, frozen=True, kw_only=True):
    """One write: `body` is the whole object of a `join`, or of `configure` where there is none yet, and else a merge patch;
    `remove` has none. `uid` is a precondition, empty for an object that is made."""

    kind: StepKind
    name: str
    body: Mapping[str, Any] = {}
    uid: str = ""


class FleetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The steps that are due, and what people should know.

    `problems` says of names of the inventory why they are no workers of the fleet, `conditions` what a worker is told that the
    inventory does not have, `held` which of them would leave if they might; `leaving` do. `again`: when time alone makes
    another look due.
    """

    steps: tuple[FleetStep, ...] = ()
    problems: Mapping[str, str] = {}
    conditions: Mapping[str, Condition] = {}
    held: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    members: int = 0
    again: datetime | None = None


def plan_fleet(rules: FleetRules, seen: FleetSeen) -> FleetPlan:
    """What is left to do, now."""
    members = seen.inventory.members
    ours = {
        name: seen.clusters[name]
        for name in sorted(seen.clusters, key=natural)
        if _is_ours(rules, seen.clusters[name]) and seen.clusters[name].metadata.deletion_timestamp is None
    }
    problems = dict(_problems(rules, seen, ours))
    join = [
        _join(rules, members[name])
        for name in sorted(members, key=natural)
        if name not in seen.clusters and name not in problems
    ]
    follow = [step for name in ours if name in members and (step := _follow(rules, members[name], ours[name]))]
    gone = {name: each for name, each in ours.items() if name not in members}
    leavers = _Leavers.of(rules, seen, gone, ours)
    leave = [_leave(rules, ours[name], seen.now) for name in leavers.begin]
    over = tuple(name for name in leavers.leaving if _is_drained(ours[name]))
    configure = _configure(rules, seen, ours, over)
    named = set(clusters_of(seen.config)) if seen.config and _is_ours(rules, seen.config) else set[str]()
    remove = [
        FleetStep(kind="remove", name=name, uid=ours[name].metadata.uid)
        for name in over
        if name not in named or named <= set(over)
    ]
    return FleetPlan(
        steps=(*join, *follow, *leave, *configure, *remove),
        problems=problems,
        conditions=leavers.conditions(rules),
        held=leavers.held,
        leaving=leavers.leaving,
        members=len(ours),
        again=leavers.again,
    )


def _problems(rules: FleetRules, seen: FleetSeen, ours: Mapping[str, MultiKueueCluster]) -> Iterator[tuple[str, str]]:
    """Why members are no workers of the fleet."""
    hand_over = f"hand it over with the label {FLEET_LABEL}={rules.origin}"
    for name, member in seen.inventory.members.items():
        if name in seen.clusters and name not in ours:
            is_going = seen.clusters[name].metadata.deletion_timestamp is not None
            yield (
                name,
                "it is being deleted" if is_going else f"MultiKueueCluster {name} is not the fleet's: {hand_over}",
            )
        elif name not in ours and member.problem:
            yield name, member.problem
    config = seen.config
    if config is not None and config.metadata.labels.get(FLEET_LABEL) != rules.origin:
        yield (
            f"MultiKueueConfig {rules.config}",
            f"it is not the fleet's: {hand_over}, or name another one in fleet.config",
        )


def _is_ours(rules: FleetRules, item: Object) -> bool:
    return item.metadata.labels.get(FLEET_LABEL) == rules.origin


# --- who is there ----------------------------------------------------------------------------------------------------


def _join(rules: FleetRules, member: FleetMember) -> FleetStep:
    metadata = {
        "name": member.name,
        "labels": {**member.labels, **LABELS, FLEET_LABEL: rules.origin},
        "annotations": {name: text for name, text in _annotations(member).items() if text is not None},
    }
    source = {name: value for name, value in member.source.items() if value is not None}
    body = {"metadata": metadata, "spec": {"clusterSource": source}}
    return FleetStep(kind="join", name=member.name, body=body)


def _annotations(member: FleetMember) -> dict[str, str | None]:
    followed = ",".join(sorted(member.labels))
    return {FOLLOWED_ANNOTATION: followed or None, HUB_TAINTS_ANNOTATION: member.taints or None}


def _follow(rules: FleetRules, member: FleetMember, cluster: MultiKueueCluster) -> FleetStep | None:
    """The change by which a worker is as its member, if one is needed. One that was about to leave stays."""
    labels, annotations = cluster.metadata.labels, cluster.metadata.annotations
    followed = filter(None, annotations.get(FOLLOWED_ANNOTATION, "").split(","))
    wanted: dict[str, str | None] = {**dict.fromkeys(followed), **member.labels, FLEET_LABEL: rules.origin}
    is_back = LEAVING_ANNOTATION in annotations
    back = dict.fromkeys((LEAVING_ANNOTATION, MAY_LEAVE_ANNOTATION, DRAIN_ANNOTATION) if is_back else ())
    told = {**_annotations(member), **back}
    metadata: dict[str, Any] = {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        metadata["labels"] = wanted
    if any(annotations.get(key) != value for key, value in told.items()):
        metadata["annotations"] = told
    kind: StepKind = "return" if is_back else "follow"
    is_moved = not member.problem and source_of(cluster) != member.place
    spec = {"clusterSource": member.source} if is_moved else None
    return _patch(kind, cluster, metadata, spec) if metadata or spec else None


def _patch(
    kind: StepKind, cluster: MultiKueueCluster, metadata: Mapping[str, Any], spec: Mapping[str, Any] | None = None
) -> FleetStep:
    uid = cluster.metadata.uid
    body = {"metadata": {**metadata, "uid": uid}} | ({"spec": spec} if spec else {})
    return FleetStep(kind=kind, name=cluster.metadata.name, body=body, uid=uid)


# --- who is gone -----------------------------------------------------------------------------------------------------


class _Leavers(msgspec.Struct, frozen=True, kw_only=True):
    """Those that the inventory does not have any more: `leaving` have begun to, `begin` do so now, `held` may not; others have
    not been missing for long enough. `allowed`: how many may leave within the window, `fleet`: of how many. `doubt`: why
    the inventory is not believed."""

    leaving: tuple[str, ...] = ()
    begin: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    allowed: int = 0
    fleet: int = 0
    again: datetime | None = None
    doubt: str = ""

    @classmethod
    def of(
        cls,
        rules: FleetRules,
        seen: FleetSeen,
        gone: Mapping[str, MultiKueueCluster],
        ours: Mapping[str, MultiKueueCluster],
    ) -> _Leavers:
        leaving = tuple(name for name, each in gone.items() if LEAVING_ANNOTATION in each.metadata.annotations)
        rest = [name for name in gone if name not in leaving]
        if seen.inventory.problem:
            return cls(leaving=leaving, held=tuple(rest), fleet=len(ours), doubt=seen.inventory.problem)
        told = {name for name in gone if gone[name].metadata.annotations.get(MAY_LEAVE_ANNOTATION) == "true"}
        due = {name: seen.missing.get(name, seen.now) + rules.after for name in rest if name not in told}
        unasked = tuple(name for name, at in due.items() if at <= seen.now)
        left = left_of_late(rules, seen.config, seen.now)
        fleet = len(ours.keys() | left.keys())
        allowed = rules.most_of(fleet)
        fits = not unasked or len(left.keys() | {*leaving, *unasked} - told) <= allowed
        later = [at for at in due.values() if at > seen.now]
        if not fits:
            later += [at + rules.window for at in left.values()]
        return cls(
            leaving=leaving,
            begin=tuple(name for name in rest if name in told or (fits and name in unasked)),
            held=() if fits else unasked,
            allowed=allowed,
            fleet=fleet,
            again=min(later, default=None),
        )

    def conditions(self, rules: FleetRules) -> dict[str, Condition]:
        leaves = Condition(
            type=IN_FLEET, status="False", reason="Leaving", message="its inventory does not have it any more"
        )
        why = self.doubt or (
            f"its inventory does not have {len(self.held)} workers any more that would begin to leave; of {self.fleet} no more"
            f" than {self.allowed} may within {rules.window} (fleet.most_leaving: {rules.most}), so none of them does. To let"
            f" it leave: annotation {MAY_LEAVE_ANNOTATION}=true"
        )
        held = Condition(type=IN_FLEET, status="False", reason="Held", message=why)
        return {**dict.fromkeys((*self.leaving, *self.begin), leaves), **dict.fromkeys(self.held, held)}


def _leave(rules: FleetRules, cluster: MultiKueueCluster, now: datetime) -> FleetStep:
    annotations = {LEAVING_ANNOTATION: render_time(now), DRAIN_ANNOTATION: str(rules.drain)}
    return _patch("leave", cluster, {"annotations": annotations})


def _is_drained(cluster: MultiKueueCluster) -> bool:
    drained = find_condition(cluster.status.conditions, DRAINED)
    return drained is not None and drained.status == "True"


def left_of_late(rules: FleetRules, config: MultiKueueConfig | None, now: datetime) -> dict[str, datetime]:
    """Who left within the window, by the annotation of the MultiKueueConfig."""
    text = config.metadata.annotations.get(LEFT_ANNOTATION, "") if config is not None else ""
    found: dict[str, datetime] = {}
    for part in text.split(","):
        name, _, moment = part.strip().partition("=")
        try:
            at = datetime.fromisoformat(moment)
        except ValueError:
            continue
        if at.tzinfo is not None and now < at + rules.window:
            found[name] = at
    return found


# --- the config ------------------------------------------------------------------------------------------------------


def _configure(
    rules: FleetRules, seen: FleetSeen, ours: Mapping[str, MultiKueueCluster], over: Iterable[str]
) -> Iterator[FleetStep]:
    """The MultiKueueConfig with the workers that are there, and with workers of others that somebody put there. Its order
    stays: who is new comes last. The API demands one worker: the last one stays."""
    config, going = seen.config, set(over)
    if config is not None and not _is_ours(rules, config):
        return
    before = clusters_of(config) if config is not None else ()
    kept = [name for name in before if name in seen.clusters and name not in going]
    names = [*kept, *(name for name in ours if name not in kept and name not in going)]
    if not names:
        return
    left = left_of_late(rules, config, seen.now)
    unasked = (name for name in going if ours[name].metadata.annotations.get(MAY_LEAVE_ANNOTATION) != "true")
    left |= {name: seen.now for name in unasked if name not in left}
    annotations = {
        CLUSTERS_ANNOTATION: ",".join(names[MOST_CLUSTERS:]) or None,
        LEFT_ANNOTATION: ", ".join(f"{name}={render_time(at)}" for name, at in sorted(left.items())) or None,
    }
    spec = {"clusters": names[:MOST_CLUSTERS]}
    if config is None:
        metadata = {"name": rules.config, "labels": {**LABELS, FLEET_LABEL: rules.origin}}
        made = {name: text for name, text in annotations.items() if text is not None}
        yield FleetStep(
            kind="configure", name=rules.config, body={"metadata": {**metadata, "annotations": made}, "spec": spec}
        )
    elif names != list(before) or set(left) - set(left_of_late(rules, config, seen.now)):
        # A merge patch replaces the whole list, so the version read is a precondition.
        version = {"resourceVersion": config.metadata.resource_version, "annotations": annotations}
        yield FleetStep(
            kind="configure", name=rules.config, body={"metadata": version, "spec": spec}, uid=config.metadata.uid
        )
