"""Backfill: workloads that may pass the head of a StrictFIFO queue that waits for quota, without delaying it.

An annotation of the ClusterQueue turns it on, beyond Kueue's rules. Each (flavor, resource) is a tree of its own, so
only those that the head may use decide whether it fits. A workload that passes fits at once, within its queue's own
quota: it neither borrows nor preempts, so no other queue, and no share, is worse off than by any other use of that
quota. And it

- uses nothing that the head may use, or so little that the head's whole need remains, out of quota that no other queue
  can take meanwhile: then it surely does not delay the head;
- or, with `KnownEnds`, is over before the head starts, if all workloads with quota end as late as they may. Its status
  says when it has to be gone, and it is evicted then, however late it started.

The promise is to the present head. A workload of a higher priority that comes later and goes first cannot be foreseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from multikueue.api.kueue.queues import BACKFILL_ANNOTATION, KNOWN_ENDS, SPARE_QUOTA, ClusterQueue
from multikueue.quota.cache.catalog import QueueSnapshot
from multikueue.quota.cache.reservations import Reservation
from multikueue.quota.cache.tree import Amounts, FlavorResource, Node, UndoLog
from multikueue.quota.preemption.candidates import Grade, Mode
from multikueue.quota.queueing.pending_workload import PendingWorkload, Reason
from multikueue.quota.requests.amounts import Demand
from multikueue.quota.scheduler.cycle import Head, Refuse, Reserve, run
from multikueue.quota.scheduler.flavors import assign
from multikueue.quota.scheduler.partial import reduced, reduction

DEPTH = 100
"""The number of workloads behind a head that a cycle looks at."""

LEEWAY = timedelta(seconds=30)
"""Time to start on a worker, and again to stop there, so that the quota is free when the head needs it."""

_WAITS_FOR_QUOTA = (Reason.GENERIC, Reason.PENDING_PREEMPTION)


class Passing(msgspec.Struct, frozen=True):
    """A workload gets quota ahead of the head; with `until` it has to be gone by then."""

    reserve: Reserve
    until: datetime | None = None


def backfill(queue: ClusterQueue) -> str:
    """The backfill mode of the queue, as its annotation names it; empty: nothing may pass its head."""
    value = queue.metadata.annotations.get(BACKFILL_ANNOTATION, "")
    return value if queue.spec.queueing_strategy == "StrictFIFO" and value in (SPARE_QUOTA, KNOWN_ENDS) else ""


def backfill_problem(queue: ClusterQueue) -> str:
    """The error in the annotation, which then counts as absent; empty if there is none."""
    value = queue.metadata.annotations.get(BACKFILL_ANNOTATION)
    if value in (None, SPARE_QUOTA, KNOWN_ENDS):
        return ""
    where = f"ClusterQueue {queue.metadata.name}: annotation {BACKFILL_ANNOTATION}"
    return f'{where}: expected "{SPARE_QUOTA}" or "{KNOWN_ENDS}", got "{value}"'


def is_waiting_for_quota(decision: Refuse) -> bool:
    """Whether the head waits for quota. If not, its future need is unknown."""
    return decision.reason in _WAITS_FOR_QUOTA and not decision.head.problem


def passing(follower: Head, head: Head, *, now: datetime, start: datetime | None = None) -> Passing | None:
    """The reservation of a follower that may pass the head now; None if it may not.

    With `start`, when the head is to start, a follower that is over before that may pass too.
    """
    if follower.problem:
        return None
    waiting = follower.waiting
    progress, waiting.progress = waiting.progress, None
    (decision,) = run([follower])
    waiting.progress = progress  # its own search goes on from there once it is the head
    if not isinstance(decision, Reserve) or _is_borrowing(decision.usage, head.queue.node):
        return None
    if _has_enough_left(decision.usage, head):
        return Passing(decision)
    until = None if start is None else start - LEEWAY
    return Passing(decision, until) if until and _is_over(waiting, until, now) else None


def _is_borrowing(usage: Amounts, node: Node) -> bool:
    return any(node.cell(fr).is_borrowing_with(amount) for fr, amount in usage.items() if amount)


def _has_enough_left(usage: Amounts, head: Head) -> bool:
    node, needs = head.queue.node, needs_of(head.waiting.demand, head.queue)
    used = {fr: amount for fr, amount in usage.items() if amount and fr in needs}
    return all(needs[fr] + amount <= _certain(node, fr) for fr, amount in used.items())


def needs_of(demand: Demand, queue: QueueSnapshot) -> Mapping[FlavorResource, int]:
    """The most that a workload may use of each (flavor, resource) it could get."""
    needs: dict[FlavorResource, int] = {}
    for pod_set in demand.pod_sets:
        requests = pod_set.with_pods() if queue.is_counting_pods else pod_set.requests
        for resource, amount in requests.items():
            group = queue.group_of.get(resource)
            for flavor in group.flavors if group and amount else ():
                needs[flavor, resource] = needs.get((flavor, resource), 0) + amount
    return needs


def _certain(node: Node, fr: FlavorResource) -> int:
    """The amount that the queue can use whatever other queues do: all that is available without a cohort, else what it
    never lends."""
    cell = node.cell(fr)
    return cell.available() if cell.parent is None else cell.local_available()


def _is_over(waiting: PendingWorkload, until: datetime, now: datetime) -> bool:
    """Whether its maximum execution time ends by `until`, if it starts within `LEEWAY`."""
    limit = waiting.spec.maximum_execution_time_seconds
    past = waiting.workload.status.accumulated_past_execution_time_seconds or 0
    return limit is not None and now + LEEWAY + timedelta(seconds=limit - past) <= until


def start_of(head: Head, holders: Iterable[Reservation], now: datetime) -> datetime | None:
    """The start of the head with its minimum of pods, if all workloads with quota of its queue end as late as they may.

    None: unknown, as always in a cohort, where other queues may take what becomes free.
    """
    node, waiting = head.queue.node, head.waiting
    if node.parent is not None:
        return None
    fewest = reduction(waiting.spec.pod_sets)
    demand = reduced(waiting.demand, fewest.counts(fewest.steps)) if fewest.steps else waiting.demand
    ends = ((now if each.is_evicted else each.ends_by, each) for each in holders)
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
