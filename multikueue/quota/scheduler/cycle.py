"""One scheduling cycle: judge one head per ClusterQueue, order them, reserve in that order (quota-engine 3.1).

All heads are judged against the usage at the start; what happens within the cycle can only make a head lose, never get
other flavors. The cycle changes usage for its own arithmetic and rolls it back; the scheduler applies its decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import msgspec
from msgspec.structs import replace

from multikueue.api.kueue.unadmitted import (
    MISCONFIGURED,
    WAITING_FOR_PREEMPTED_WORKLOADS,
    WAITING_FOR_QUOTA,
)
from multikueue.api.kueue.workload import Admission, PodSetRequest
from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.budgets import Allowance, unlimited
from multikueue.quota.cache.catalog import QueueSnapshot
from multikueue.quota.cache.reservations import Reservation
from multikueue.quota.cache.tree import Amounts, FlavorResource, Node, UndoLog
from multikueue.quota.preemption.candidates import Mode, Target, are_within, eviction
from multikueue.quota.preemption.preemption import NO_PREEMPTION, PreemptionRules, Searches
from multikueue.quota.queueing.pending_workload import PendingWorkload, Reason
from multikueue.quota.requests.amounts import Demand, resource_requests
from multikueue.quota.scheduler.fair_sharing_iterator import tournament
from multikueue.quota.scheduler.flavors import Assignment, assign
from multikueue.quota.scheduler.partial import largest, reduced, reduction
from multikueue.quota.scheduler.slices import bound, difference, sparing
from multikueue.quota.workload.ordering import Rank, entry_rank
from multikueue.quota.workload.outcome import LOST, OVERLAPPING, Eviction


class Head(msgspec.Struct, frozen=True):
    """A workload at the head of its queue; `generation` as in `flavors.assign`.

    With a `problem` it is refused for that `reason`, whatever the quota, and told `quota_reserved_reason`. `replaced` is
    the reservation of the slice that it replaces, if it is a slice of an elastic job.
    """

    waiting: PendingWorkload
    queue: QueueSnapshot
    generation: int
    problem: str = ""
    reason: Reason = Reason.GENERIC
    replaced: Reservation | None = None
    quota_reserved_reason: str = MISCONFIGURED


class Reserve(msgspec.Struct, frozen=True):
    """The head gets quota."""

    head: Head
    admission: Admission
    usage: Amounts


class Refuse(msgspec.Struct, frozen=True):
    """The head goes back to its queue, and gets the granular `quota_reserved_reason`. `evictions` are new: they make
    room for it, once they are carried out.

    `has_lost_targets`: it had preemption targets, but lost to another head.
    """

    head: Head
    reason: Reason
    message: str
    quota_reserved_reason: str
    resource_requests: tuple[PodSetRequest, ...]
    evictions: tuple[Eviction, ...] = ()
    has_lost_targets: bool = False

    @property
    def has_no_fit(self) -> bool:
        """Whether no flavor has room for it, not even by preemption."""
        return self.reason is Reason.GENERIC and not self.head.problem


Decision = Reserve | Refuse


class _Entry(msgspec.Struct, frozen=True):
    """A judged head: its flavors and its preemption targets. A contender of the tournament."""

    head: Head
    assignment: Assignment
    targets: tuple[Target, ...] = ()

    @property
    def has_room(self) -> bool:
        """Whether it fits, or will once its targets are gone."""
        return self.assignment.mode is Mode.FIT or bool(self.targets)

    @property
    def node(self) -> Node:
        return self.head.queue.node

    @property
    def usage(self) -> Amounts:
        """The amounts that the entry adds to the usage of its queue."""
        replaced = self.head.replaced
        return self.assignment.usage if replaced is None else difference(self.assignment.usage, replaced)

    @property
    def borrowing(self) -> int:
        return self.assignment.borrowing

    @property
    def rank(self) -> Rank:
        return self.head.waiting.rank


def run(heads: Iterable[Head], preemption: PreemptionRules = NO_PREEMPTION) -> list[Decision]:
    """One decision for each head of a cycle: first those with a problem, then the others in the order of the cycle."""
    decisions: list[Decision] = []
    entries: list[_Entry] = []
    for head in heads:
        if head.problem:
            decisions.append(_refuse(head, head.problem, head.quota_reserved_reason, reason=head.reason))
        else:
            entries.append(_nominate(head, preemption))
    round_ = _Round(preemption.allowance)
    fair = preemption.fair is not None
    in_order: Iterable[_Entry] = (
        tournament(entries, preemption.compatibility)
        if fair
        else sorted(entries, key=lambda e: entry_rank(borrowing=e.borrowing, rank=e.rank, queue=e.head.queue.name))
    )
    decisions += [round_.process(entry) for entry in in_order]
    round_.log.roll_back()
    return decisions


def _nominate(head: Head, preemption: PreemptionRules) -> _Entry:
    """Judge a head on all its pods, else on as many as there is room for, if it allows partial admission."""
    if head.replaced is not None:
        return _in_place_of(head.replaced, head, preemption)
    searches = Searches(head.waiting, head.queue, preemption)

    def judge(counts: tuple[int, ...]) -> _Entry | None:
        entry = _judged(head, reduced(head.waiting.demand, counts), searches)
        return entry if entry.has_room else None

    whole = _judged(head, head.waiting.demand, searches)
    if whole.has_room:
        return whole
    return largest(reduction(head.waiting.spec.pod_sets), judge) or whole


def _in_place_of(replaced: Reservation, head: Head, preemption: PreemptionRules) -> _Entry:
    """Judge a slice of an elastic job on the difference to the slice it replaces. It gets no partial admission."""
    log = UndoLog()
    head = replace(head, queue=bound(head.queue, replaced))
    head.queue.node.remove(replaced.amounts, log)
    searches = Searches(head.waiting, head.queue, sparing(preemption, replaced))
    entry = _judged(head, head.waiting.demand, searches)
    log.roll_back()
    return entry


def _judged(head: Head, demand: Demand, searches: Searches) -> _Entry:
    assignment = assign(
        demand,
        head.queue,
        oracle=searches.oracle,
        generation=head.generation,
        progress=head.waiting.progress,
    )
    if assignment.mode in (Mode.NO_FIT, Mode.FIT):
        return _Entry(head, assignment)
    return _Entry(head, assignment, searches.targets(assignment.short, assignment.usage))


@dataclass(slots=True)
class _Round:
    """Reservations and evictions of this cycle so far. Preemption targets keep counting as usage for later heads: only
    the check whether a head fits leaves them out."""

    allowance: Allowance = unlimited
    log: UndoLog = field(default_factory=UndoLog)
    leaving: dict[ObjectKey, Target] = field(default_factory=dict)
    preemptors: list[_Entry] = field(default_factory=list)
    """Those that wait until their targets are gone: their usage is in the tree already."""

    replaced: set[ObjectKey] = field(default_factory=set)
    """Slices whose quota another slice took in this cycle."""

    def process(self, entry: _Entry) -> Decision:
        head, assignment, waiting = entry.head, entry.assignment, entry.head.waiting
        waiting.progress = None
        if assignment.mode is Mode.NO_FIT:
            waiting.progress = assignment.progress()  # other flavors for the pod sets before the one that got none
            return _refuse(head, assignment.message(), assignment.no_fit)
        if assignment.mode is not Mode.FIT and not entry.targets:
            waiting.progress = assignment.progress()
            # Later heads would take what it waits for, again in each cycle. A queue that may reclaim from any priority gets
            # what it lends back in time, so meanwhile others may have it.
            if head.queue.spec.preemption.reclaim_within_cohort != "Any":
                entry.node.add(_blocked(entry), self.log)
            return _refuse(head, assignment.message(), WAITING_FOR_QUOTA)
        if self._has_overlap(entry):
            return _lose_contest(entry, OVERLAPPING)
        if entry.targets and not are_within(self.allowance, *self.leaving.values(), *entry.targets):
            return _lose(entry, "Workload's preemption targets exceed what their ClusterQueue may lose for now")
        if not self._can_fit(entry):
            return _lose_contest(entry, LOST)
        self.leaving |= {target.reservation.key: target for target in entry.targets}
        entry.node.add(entry.usage, self.log)
        if entry.targets:
            self.preemptors.append(entry)
            return _preempt(entry)
        if head.replaced is not None:
            self.replaced.add(head.replaced.key)
        return Reserve(head, assignment.admission(head.queue.name), assignment.usage)

    def _has_overlap(self, entry: _Entry) -> bool:
        """Whether an earlier head of this cycle evicts or replaces a target, or evicts the slice it replaces."""
        gone = any(t.reservation.key in self.leaving or t.reservation.key in self.replaced for t in entry.targets)
        return gone or (entry.head.replaced is not None and entry.head.replaced.key in self.leaving)

    def _can_fit(self, entry: _Entry) -> bool:
        """Whether there is room once the targets of this cycle are gone; and now, where there are no targets. Kueue does not
        ask for the latter: there two heads may get the room of one beside targets that still run."""
        leaving = (target.simulate_removal for target in (*self.leaving.values(), *entry.targets))
        if entry.targets or not self.preemptors:
            return self._has_room(entry, leaving)
        waiting = (partial(each.node.remove, each.usage) for each in self.preemptors)
        return self._has_room(entry, leaving) and self._has_room(entry, waiting)

    def _has_room(self, entry: _Entry, removals: Iterable[Callable[[UndoLog], None]]) -> bool:
        """Whether there is room without what the removals take away, each from the tree as it is."""
        mark = self.log.mark()
        for remove in removals:
            remove(self.log)
        fits = all(amount <= entry.node.available(fr) for fr, amount in entry.usage.items())
        self.log.roll_back(mark)
        return fits


def _blocked(entry: _Entry) -> Amounts:
    """Amounts that a head waiting for quota blocks for later heads, within what its queue may ever use."""
    blocked: dict[FlavorResource, int] = {}
    for fr, amount in entry.usage.items():
        cell = entry.node.cell(fr)
        quota = cell.quota
        if entry.borrowing == 0:
            blocked[fr] = max(0, min(amount, quota.nominal - cell.usage))
        elif quota.borrowing_limit is None:
            blocked[fr] = amount
        else:
            blocked[fr] = min(amount, quota.nominal + quota.borrowing_limit - cell.usage)
    return blocked


def _preempt(entry: _Entry) -> Refuse:
    """The head waits until its targets are gone. A target that is evicted already gets no second eviction."""
    evictions = tuple(
        eviction(target, entry.head.waiting.workload, entry.node)
        for target in entry.targets
        if not target.reservation.is_evicted
    )
    message = f"{entry.assignment.message()}. Pending the preemption of {len(entry.targets)} workload(s)"
    return _refuse(
        entry.head,
        message,
        WAITING_FOR_PREEMPTED_WORKLOADS,
        reason=Reason.PENDING_PREEMPTION,
        evictions=evictions,
    )


def _lose_contest(entry: _Entry, message: str) -> Refuse:
    """Another head of this cycle took what it was to get. It goes on with the next flavor: where others are always faster,
    it would never come to that (#13956)."""
    if entry.head.queue.compatibility.has_lasting_searches:
        entry.head.waiting.progress = entry.assignment.progress()
    return _lose(entry, message)


def _lose(entry: _Entry, message: str) -> Refuse:
    return _refuse(
        entry.head,
        message,
        WAITING_FOR_QUOTA,
        reason=Reason.FAILED_AFTER_NOMINATION,
        has_lost_targets=bool(entry.targets),
    )


def _refuse(
    head: Head,
    message: str,
    quota_reserved_reason: str,
    *,
    reason: Reason = Reason.GENERIC,
    evictions: tuple[Eviction, ...] = (),
    has_lost_targets: bool = False,
) -> Refuse:
    requests = resource_requests(head.waiting.demand.pod_sets, should_count_pods=head.queue.is_counting_pods)
    return Refuse(head, reason, message, quota_reserved_reason, requests, evictions, has_lost_targets)
