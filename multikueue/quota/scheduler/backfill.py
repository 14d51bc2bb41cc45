"""Who may pass the head of a StrictFIFO queue while that waits for quota: only work that does not delay it.

An annotation of the ClusterQueue turns it on, beyond Kueue's rules. Each (flavor, resource) is a tree of its own, so whether
the head fits depends on those it may use and on nothing else. Whoever passes fits at once, within its queue's own quota: it
neither borrows nor has anybody evicted, so that no other queue, and no share, is worse off than by any other use of that
quota. And it

- uses nothing that the head may use, or only so much that the head's whole need remains, out of quota that nobody else can
  take meanwhile: then it surely does not delay the head;
- or, where that is allowed, is over before the head starts if those with quota end as late as they may. By when it has to be
  gone is kept in its status, and it is told to stop then, whatever it took to start it.

The promise is to the head of the moment; nobody foresees who comes later with a higher priority and goes before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from multikueue.api.queues import BACKFILL_ANNOTATION, KNOWN_ENDS, SPARE_QUOTA, ClusterQueue
from multikueue.quota.cache.reservations import Reservation
from multikueue.quota.cache.snapshot import QueueSnapshot
from multikueue.quota.cache.tree import Amounts, FlavorResource, Node, UndoLog
from multikueue.quota.preemption.grade import Grade, Mode
from multikueue.quota.queueing.pending_workload import PendingWorkload, Reason
from multikueue.quota.requests.amounts import Demand
from multikueue.quota.scheduler.cycle import Head, Refuse, Reserve, run
from multikueue.quota.scheduler.flavors import assign
from multikueue.quota.scheduler.partial import reduced, reduction

DEPTH = 100
"""So many of those behind a head are looked at per cycle."""

LEEWAY = timedelta(seconds=30)
"""What it may take to start somewhere, and again to stop there, so that the quota is free when the head wants it."""

_WAITS_FOR_QUOTA = (Reason.GENERIC, Reason.PENDING_PREEMPTION)


@dataclass(frozen=True, slots=True)
class Passing:
    """A workload gets quota ahead of the head; with `until` it has to be gone by then."""

    reserve: Reserve
    until: datetime | None = None


def backfill(queue: ClusterQueue) -> str:
    """Who may pass the head of the queue, in the annotation's word; empty: nobody."""
    value = queue.metadata.annotations.get(BACKFILL_ANNOTATION, "")
    return value if queue.spec.queueing_strategy == "StrictFIFO" and value in (SPARE_QUOTA, KNOWN_ENDS) else ""


def backfill_problem(queue: ClusterQueue) -> str:
    """What is wrong with the annotation, which then counts as absent; empty: nothing."""
    value = queue.metadata.annotations.get(BACKFILL_ANNOTATION)
    if value in (None, SPARE_QUOTA, KNOWN_ENDS):
        return ""
    where = f"ClusterQueue {queue.metadata.name}: annotation {BACKFILL_ANNOTATION}"
    return f'{where}: expected "{SPARE_QUOTA}" or "{KNOWN_ENDS}", got "{value}"'


def waits_for_quota(decision: Refuse) -> bool:
    """Whether it is quota that the head waits for: else nobody knows what it will need."""
    return decision.reason in _WAITS_FOR_QUOTA and not decision.head.problem


def passing(follower: Head, head: Head, *, now: datetime, start: datetime | None = None) -> Passing | None:
    """What a follower gets, if it may pass the head as things stand; `start` is when the head is to start, if what is
    over before may pass too."""
    if follower.problem:
        return None
    waiting = follower.waiting
    progress, waiting.progress = waiting.progress, None
    (decision,) = run([follower])
    waiting.progress = progress  # it was not at the head
    if not isinstance(decision, Reserve) or _borrows(decision.usage, head.queue.node):
        return None
    if _leaves_enough(decision.usage, head):
        return Passing(decision)
    until = None if start is None else start - LEEWAY
    return Passing(decision, until) if until and _is_over(waiting, until, now) else None


def _borrows(usage: Amounts, node: Node) -> bool:
    return any(node.cell(fr).borrows_with(amount) for fr, amount in usage.items() if amount)


def _leaves_enough(usage: Amounts, head: Head) -> bool:
    node, needs = head.queue.node, needs_of(head.waiting.demand, head.queue)
    used = {fr: amount for fr, amount in usage.items() if amount and fr in needs}
    return all(needs[fr] + amount <= _certain(node, fr) for fr, amount in used.items())


def needs_of(demand: Demand, queue: QueueSnapshot) -> Mapping[FlavorResource, int]:
    """The most a workload may use of each flavor that it could be given."""
    needs: dict[FlavorResource, int] = {}
    for pod_set in demand.pod_sets:
        requests = pod_set.with_pods() if queue.counts_pods else pod_set.requests
        for resource, amount in requests.items():
            group = queue.group_of.get(resource)
            for flavor in group.flavors if group and amount else ():
                needs[flavor, resource] = needs.get((flavor, resource), 0) + amount
    return needs


def _certain(node: Node, fr: FlavorResource) -> int:
    """What the queue can use whatever others do: all there is if it stands alone, else what it never lends."""
    cell = node.cell(fr)
    return cell.available() if cell.parent is None else cell.local_available()


def _is_over(waiting: PendingWorkload, until: datetime, now: datetime) -> bool:
    """Whether its maximum execution time ends by then, if it starts soon."""
    limit = waiting.spec.maximum_execution_time_seconds
    past = waiting.workload.status.accumulated_past_execution_time_seconds or 0
    return limit is not None and now + LEEWAY + timedelta(seconds=limit - past) <= until


def start_of(head: Head, holders: Iterable[Reservation], now: datetime) -> datetime | None:
    """When the head starts, at the fewest pods it makes do with, if those with quota of its queue end as late as they may;
    None: that is not known.

    It is known only where the queue stands alone: in a Cohort others may take what becomes free.
    """
    node, waiting = head.queue.node, head.waiting
    if node.parent is not None:
        return None
    fewest = reduction(waiting.spec.pod_sets)
    demand = reduced(waiting.demand, fewest.counts(fewest.steps)) if fewest.steps else waiting.demand
    ends = ((now if each.evicted else each.ends_by, each) for each in holders)
    known = sorted(((end, each) for end, each in ends if end is not None), key=lambda pair: pair[0])
    log = UndoLog()
    start = None
    for end, reservation in known:
        node.remove(reservation.amounts, log)
        if assign(demand, head.queue, oracle=_no_help).mode is Mode.FIT:
            start = end
            break
    log.roll_back()
    return start


def _no_help(_fr: FlavorResource, _amount: int) -> Grade:
    return Grade(Mode.NO_CANDIDATES)
