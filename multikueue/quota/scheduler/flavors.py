"""The flavors of a head in its ClusterQueue: an ordered choice per resource group (quota-engine 3.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.api.kueue.queues import FlavorFungibility
from multikueue.api.kueue.unadmitted import EXCEEDS_MAX_QUOTA, NO_MATCHING_FLAVOR, WAITING_FOR_QUOTA
from multikueue.api.kueue.workload import Admission, PodSetAssignment
from multikueue.api.values import quantity
from multikueue.quota.cache.catalog import FlavorGroup, QueueSnapshot
from multikueue.quota.cache.tree import FlavorResource, subtree_that_fits
from multikueue.quota.preemption.candidates import Grade, Mode, Oracle
from multikueue.quota.queueing.pending_workload import Progress
from multikueue.quota.requests import matching
from multikueue.quota.requests.amounts import Demand, PodSetDemand, rendered
from multikueue.quota.requests.matching import unsuitable

_SEVERITIES = (WAITING_FOR_QUOTA, EXCEEDS_MAX_QUOTA, NO_MATCHING_FLAVOR)
"""Why a flavor does not fit, from what passes by itself to what does not."""


class Choice(msgspec.Struct, frozen=True):
    """The flavor of one resource; `tried` is the index of the last flavor looked at, -1 if the group has no further
    one."""

    flavor: str
    grade: Grade
    tried: int


@dataclass(slots=True)
class PodSetFlavors:
    """The flavors of one pod set, and every reason why they are not better; if it got none, `no_fit` says in a word why.
    `is_placed`: the worker places its pods by topology."""

    pod_set: PodSetDemand
    requests: Mapping[str, int]
    choices: dict[str, Choice] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    no_fit: str = ""
    is_placed: bool = False

    @property
    def mode(self) -> Mode:
        if not self.reasons:
            return Mode.FIT
        return min((choice.grade.mode for choice in self.choices.values()), default=Mode.NO_FIT)


@dataclass(slots=True)
class Assignment:
    """The outcome for all pod sets, in order; those after one without flavors are missing."""

    pod_sets: list[PodSetFlavors] = field(default_factory=list)
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    generation: int = 0

    @property
    def mode(self) -> Mode:
        return min((each.mode for each in self.pod_sets), default=Mode.FIT)

    @property
    def no_fit(self) -> str:
        """Why a pod set got no flavors, as the reason of QuotaReserved=False; empty if none went without."""
        return next((each.no_fit for each in self.pod_sets if each.no_fit), "")

    @property
    def short(self) -> frozenset[FlavorResource]:
        """The (flavor, resource) pairs that need preemption."""
        return frozenset(
            (choice.flavor, resource)
            for each in self.pod_sets
            for resource, choice in each.choices.items()
            if Mode.NO_FIT < choice.grade.mode < Mode.FIT
        )

    @property
    def borrowing(self) -> int:
        return max((c.grade.borrowing for each in self.pod_sets for c in each.choices.values()), default=0)

    def progress(self) -> Progress | None:
        """Where the search for flavors resumes; None if no flavor is left to try."""
        tried = tuple({r: choice.tried for r, choice in each.choices.items()} for each in self.pod_sets)
        untried = any(index != -1 for pod_set in tried for index in pod_set.values())
        return Progress(self.generation, tried) if untried else None

    def message(self) -> str:
        return "; ".join(
            f"couldn't assign flavors to pod set {each.pod_set.name}: {', '.join(sorted(set(each.reasons)))}"
            for each in self.pod_sets
            if each.reasons
        )

    def admission(self, cluster_queue: str) -> Admission:
        return Admission(
            cluster_queue=cluster_queue,
            pod_set_assignments=tuple(
                PodSetAssignment(
                    name=each.pod_set.name,
                    flavors={resource: choice.flavor for resource, choice in each.choices.items()},
                    resource_usage=rendered({name: each.requests[name] for name in each.choices}),
                    count=each.pod_set.count,
                    delayed_topology_request=matching.PENDING if each.is_placed else "",
                )
                for each in self.pod_sets
            ),
        )


def assign(
    demand: Demand,
    queue: QueueSnapshot,
    *,
    oracle: Oracle,
    generation: int = 0,
    progress: Progress | None = None,
) -> Assignment:
    """Flavors for a demand at current usage.

    `generation` counts changes of the quota that the queue can use: an interrupted search resumes only at the same
    generation.
    """
    if progress is not None and generation > progress.generation:
        progress = None
    assignment = Assignment(generation=generation)
    for members in _pod_set_groups(demand.pod_sets):
        search = _Search(queue, members, assignment.usage, oracle, progress)
        found = search.run()
        assignment.pod_sets += found
        for each in found:
            for resource, choice in each.choices.items():
                fr = (choice.flavor, resource)
                assignment.usage[fr] = assignment.usage.get(fr, 0) + each.requests[resource]
        if any(each.reasons and not each.choices for each in found):
            break  # it is admitted with all its pod sets or not at all: the flavors of the others do not matter
    return assignment


def _pod_set_groups(pod_sets: Iterable[PodSetDemand]) -> list[list[tuple[int, PodSetDemand]]]:
    groups: dict[str, list[tuple[int, PodSetDemand]]] = {}
    for index, pod_set in enumerate(pod_sets):
        groups.setdefault(f"group/{pod_set.group}" if pod_set.group else f"{index}", []).append((index, pod_set))
    return list(groups.values())


class _Search:
    """The search for the flavors of pod sets that must share them."""

    def __init__(
        self,
        queue: QueueSnapshot,
        members: list[tuple[int, PodSetDemand]],
        used: Mapping[FlavorResource, int],
        oracle: Oracle,
        progress: Progress | None,
    ) -> None:
        self._queue, self._used, self._oracle = queue, used, oracle
        self._pod_sets = [pod_set for _, pod_set in members]
        self._requests = [p.with_pods() if queue.is_counting_pods else p.requests for p in self._pod_sets]
        self._need = _sum(self._requests)
        first = members[0][0]
        self._tried = progress.tried[first] if progress and first < len(progress.tried) else {}
        self._no_fits: list[str] = []
        """Why the flavors of the present group that do not fit do not, in a word each."""

    def run(self) -> list[PodSetFlavors]:
        choices: dict[str, Choice] = {}
        reasons: list[str] = []
        no_fit = ""
        for resource in sorted(self._need):
            group = self._queue.group_of.get(resource)
            if resource in choices or (group is None and not self._is_counted(resource)):
                continue
            found, why = self._find(resource, group)
            if not found:
                choices, reasons = {}, why
                no_fit = min(self._no_fits, key=_SEVERITIES.index, default=NO_MATCHING_FLAVOR)
                break
            choices |= found
            reasons += why
        return [
            self._outcome(pod_set, requests, {r: choices[r] for r in requests if r in choices}, tuple(reasons), no_fit)
            for pod_set, requests in zip(self._pod_sets, self._requests, strict=True)
        ]

    def _is_counted(self, resource: str) -> bool:
        return self._need[resource] > 0 and not self._queue.should_ignore_undeclared

    def _outcome(
        self,
        pod_set: PodSetDemand,
        requests: Mapping[str, int],
        choices: dict[str, Choice],
        reasons: tuple[str, ...],
        no_fit: str,
    ) -> PodSetFlavors:
        """A topology places a pod set only if all its resources have one flavor."""
        wanted = pod_set.has_topology or self._queue.is_topology_only
        placed = wanted and len({choice.flavor for choice in choices.values()}) == 1
        return PodSetFlavors(pod_set, requests, choices, reasons, no_fit, placed)

    def _find(self, resource: str, group: FlavorGroup | None) -> tuple[dict[str, Choice], list[str]]:
        """The best flavor for all needed resources of the group, or none, and the reasons against better ones."""
        self._no_fits.clear()
        if group is None:
            return {}, [f"resource {resource} unavailable in ClusterQueue"]
        needed = sorted(group.resources & self._need.keys())
        reasons: list[str] = []
        best: dict[str, tuple[str, Grade]] = {}
        best_grade = Grade(Mode.NO_FIT)
        attempted = -1
        start = self._tried.get(resource, -1) + 1
        # A search may go on though its queue has fewer flavors now: without any it would pass for one that fits.
        for attempted in range(start if start < len(group.flavors) else 0, len(group.flavors)):
            flavor = group.flavors[attempted]
            if why := self._unsuitable(flavor, group):
                reasons.append(why)
                self._no_fits.append(NO_MATCHING_FLAVOR)
                continue
            grade, graded, whys = self._grade(flavor, needed)
            reasons += whys
            if not self._should_go_on(grade):
                best, best_grade = graded, grade
                break
            if self._is_preferred(grade, best_grade):
                best, best_grade = graded, grade
        tried = attempted if attempted + 1 < len(group.flavors) else -1
        choices = {name: Choice(flavor, grade, tried) for name, (flavor, grade) in best.items()}
        return choices, [] if best_grade.mode is Mode.FIT else reasons

    def _unsuitable(self, name: str, group: FlavorGroup) -> str:
        flavor = self._queue.flavors.get(name)
        if flavor is None:
            return f"flavor {name} not found"
        only = self._queue.is_topology_only
        whys = (
            matching.mismatch(flavor, is_explicit=pod_set.has_topology, is_only_topology=only)
            or unsuitable(pod_set.nodes, flavor, group.label_keys.get(name, frozenset()))
            for pod_set in self._pod_sets
        )
        return next((why for why in whys if why), "")

    def _grade(self, flavor: str, needed: list[str]) -> tuple[Grade, dict[str, tuple[str, Grade]], list[str]]:
        """The grade of a flavor is that of its worst resource."""
        worst = Grade(Mode.FIT)
        graded: dict[str, tuple[str, Grade]] = {}
        reasons: list[str] = []
        for resource in needed:
            grade, why = self._quota_grade((flavor, resource), self._need[resource])
            if why:
                reasons.append(why)
            if self._is_preferred(worst, grade):
                worst = grade
            if worst.mode is Mode.NO_FIT:
                break
            graded[resource] = (flavor, grade)
        return worst, graded, reasons

    def _quota_grade(self, fr: FlavorResource, need: int) -> tuple[Grade, str]:
        flavor, resource = fr
        cell = self._queue.node.cell(fr)
        used = self._used.get(fr, 0)
        total = used + need
        if total > (potential := cell.potential()):
            self._no_fits.append(EXCEEDS_MAX_QUOTA)
            numbers = [quantity.render(resource, value) for value in (used, need, potential)]
            return Grade(Mode.NO_FIT), (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
                f"({numbers[0]}) + current podset request ({numbers[1]}) > maximum capacity ({numbers[2]})"
            )
        borrowing, may_reclaim = subtree_that_fits(cell, total)
        available = max(0, cell.available())
        if total <= available:
            return Grade(Mode.FIT, borrowing), ""
        missing = quantity.render(resource, total - available)
        why = f"insufficient unused quota for {resource} in flavor {flavor}, {missing} more needed"
        # Preemption gives a queue its nominal quota back; to borrow more by it, borrowWithinCohort has to allow that.
        if total <= cell.quota.nominal or may_reclaim or self._queue.may_preempt_while_borrowing:
            return self._oracle(fr, total), why
        self._no_fits.append(WAITING_FOR_QUOTA)
        return Grade(Mode.NO_FIT, borrowing), why

    def _should_go_on(self, grade: Grade) -> bool:
        rule = self._queue.spec.flavor_fungibility
        if grade.mode in (Mode.NO_FIT, Mode.NO_CANDIDATES):
            return True
        if grade.mode in (Mode.PREEMPT, Mode.RECLAIM) and rule.when_can_preempt == "TryNextFlavor":
            return True
        return grade.borrowing > 0 and rule.when_can_borrow == "TryNextFlavor"

    def _is_preferred(self, a: Grade, b: Grade) -> bool:
        return is_preferred(a, b, self._queue.spec.flavor_fungibility, self._queue.compatibility)


def is_preferred(a: Grade, b: Grade, rule: FlavorFungibility, compatibility: Compatibility = NEWEST) -> bool:
    """Whether `a` is strictly better than `b`. A flavor in which no workload can be preempted does not help now, whatever is
    preferred."""
    if a.mode is Mode.NO_FIT:
        return False
    if b.mode is Mode.NO_FIT:
        return True
    is_hopeless = a.mode is Mode.NO_CANDIDATES
    if compatibility.has_hopeless_flavors_last and is_hopeless is not (b.mode is Mode.NO_CANDIDATES):
        return not is_hopeless
    if rule.preference == "PreemptionOverBorrowing":
        return (-a.borrowing, a.mode) > (-b.borrowing, b.mode)
    return (a.mode, -a.borrowing) > (b.mode, -b.borrowing)


def _sum(requests: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for name, value in _items(requests):
        total[name] = total.get(name, 0) + value
    return total


def _items(requests: Iterable[Mapping[str, int]]) -> Iterator[tuple[str, int]]:
    return (item for each in requests for item in each.items())
