"""One scheduling cycle: judge one head per ClusterQueue, order them, reserve in that order (quota-engine 3.1).

All heads are judged against the usage at the start; what happens within the cycle can only make a head lose, never get
other flavors. The cycle changes usage for its own arithmetic and rolls it back: applying the verdicts is the engine's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from multikueue.api.workload import Admission, PodSetRequest
from multikueue.quota.amounts import resource_requests
from multikueue.quota.flavors import Assignment, Grade, Mode, assign
from multikueue.quota.ordering import EntryRank, entry_rank
from multikueue.quota.pending import Reason, Waiting
from multikueue.quota.preemption import find_targets
from multikueue.quota.snapshot import QueueSnapshot
from multikueue.quota.tree import Amounts, FlavorResource, Node, UndoLog, subtree_that_fits


@dataclass(frozen=True, slots=True)
class Head:
    """A workload at the head of its queue, its namespace's verdict included; `generation` as in `flavors.assign`."""

    waiting: Waiting
    queue: QueueSnapshot
    generation: int
    problem: str = ""
    reason: Reason = Reason.GENERIC


@dataclass(frozen=True, slots=True)
class Reserve:
    """The head gets quota."""

    head: Head
    admission: Admission
    usage: Amounts


@dataclass(frozen=True, slots=True)
class Refuse:
    """The head goes back to its queue."""

    head: Head
    reason: Reason
    message: str
    resource_requests: tuple[PodSetRequest, ...]


Decision = Reserve | Refuse


def run(heads: Iterable[Head]) -> list[Decision]:
    """Decide about all heads of a cycle; one decision each, in the order they were taken."""
    decisions: list[Decision] = []
    entries: list[tuple[Head, Assignment]] = []
    for head in heads:
        if head.problem:
            decisions.append(_refuse(head, head.problem, reason=head.reason))
        else:
            entries.append((head, _nominate(head)))
    log = UndoLog()
    decisions += [_process(head, assignment, log) for head, assignment in sorted(entries, key=_entry_rank)]
    log.roll_back()
    return decisions


def _entry_rank(entry: tuple[Head, Assignment]) -> EntryRank:
    head, assignment = entry
    return entry_rank(borrowing=assignment.borrowing, rank=head.waiting.rank, queue=head.queue.name)


def _nominate(head: Head) -> Assignment:
    def oracle(fr: FlavorResource, amount: int) -> Grade:
        node = head.queue.node
        borrowing, _ = subtree_that_fits(node.cell(fr), amount)
        targets = find_targets(head.waiting, node, {fr: amount})
        return Grade(Mode.PREEMPT if targets else Mode.NO_CANDIDATES, borrowing)

    return assign(
        head.waiting.demand,
        head.queue,
        oracle=oracle,
        generation=head.generation,
        progress=head.waiting.progress,
    )


def _process(head: Head, assignment: Assignment, log: UndoLog) -> Decision:
    node = head.queue.node
    if assignment.mode is Mode.NO_FIT:
        head.waiting.progress = None
        return _refuse(head, assignment.message())
    if assignment.mode is not Mode.FIT:
        head.waiting.progress = assignment.progress()
        if head.queue.spec.preemption.reclaim_within_cohort != "Any":
            node.add(_blocked(node, assignment), log)
        return _refuse(head, assignment.message())
    head.waiting.progress = None
    if any(amount > node.available(fr) for fr, amount in assignment.usage.items()):
        message = "Workload no longer fits after processing another workload"
        return _refuse(head, message, reason=Reason.FAILED_AFTER_NOMINATION)
    node.add(assignment.usage, log)
    return Reserve(head, assignment.admission(head.queue.name), assignment.usage)


def _blocked(node: Node, assignment: Assignment) -> Amounts:
    """What a head that waits for quota keeps from those after it, within what its queue may ever use."""
    blocked: dict[FlavorResource, int] = {}
    for fr, amount in assignment.usage.items():
        cell = node.cell(fr)
        quota = cell.quota
        if assignment.borrowing == 0:
            blocked[fr] = max(0, min(amount, quota.nominal - cell.usage))
        elif quota.borrowing_limit is None:
            blocked[fr] = amount
        else:
            blocked[fr] = min(amount, quota.nominal + quota.borrowing_limit - cell.usage)
    return blocked


def _refuse(head: Head, message: str, *, reason: Reason = Reason.GENERIC) -> Refuse:
    requests = resource_requests(head.waiting.demand.pod_sets, count_pods=head.queue.counts_pods)
    return Refuse(head, reason, message, requests)
