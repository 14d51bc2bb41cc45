"""Who may pass the head of a StrictFIFO queue while that waits for quota: only work that surely does not delay it.

An annotation of the ClusterQueue turns it on, beyond Kueue's rules. Each (flavor, resource) is a tree of its own, so whether
the head fits depends on those it may use and on nothing else. Whoever passes therefore

- fits at once, within its queue's own quota: it neither borrows nor has anybody evicted, so that no other queue, and no
  share, is worse off than by any other use of that quota;
- uses nothing that the head may use, or only so much that the head's whole need remains, out of quota that nobody else can
  take meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping

from multikueue.api.queues import BACKFILL_ANNOTATION, ClusterQueue
from multikueue.quota.amounts import Demand
from multikueue.quota.cycle import Head, Refuse, Reserve, run
from multikueue.quota.snapshot import QueueSnapshot
from multikueue.quota.tree import Amounts, FlavorResource, Node
from multikueue.quota.waiting import Reason

SPARE_QUOTA = "SpareQuota"

DEPTH = 100
"""So many of those behind a head are looked at per cycle."""

_WAITS_FOR_QUOTA = (Reason.GENERIC, Reason.PENDING_PREEMPTION)


def fills_back(queue: ClusterQueue) -> bool:
    """Whether others may pass the head of the queue."""
    return (
        queue.spec.queueing_strategy == "StrictFIFO"
        and queue.metadata.annotations.get(BACKFILL_ANNOTATION) == SPARE_QUOTA
    )


def backfill_problem(queue: ClusterQueue) -> str:
    """What is wrong with the annotation, which then counts as absent; empty: nothing."""
    value = queue.metadata.annotations.get(BACKFILL_ANNOTATION)
    if value in (None, SPARE_QUOTA):
        return ""
    return (
        f'ClusterQueue {queue.metadata.name}: annotation {BACKFILL_ANNOTATION}: expected "{SPARE_QUOTA}", got "{value}"'
    )


def waits_for_quota(decision: Refuse) -> bool:
    """Whether it is quota that the head waits for: else nobody knows what it will need."""
    return decision.reason in _WAITS_FOR_QUOTA and not decision.head.problem


def passing(follower: Head, head: Head) -> Reserve | None:
    """What a follower gets, if it may pass the head as things stand."""
    if follower.problem:
        return None
    waiting = follower.waiting
    progress, waiting.progress = waiting.progress, None
    (decision,) = run([follower])
    if isinstance(decision, Reserve) and _harmless(decision.usage, head):
        return decision
    waiting.progress = progress  # it was not at the head
    return None


def _harmless(usage: Amounts, head: Head) -> bool:
    node, needs = head.queue.node, needs_of(head.waiting.demand, head.queue)
    return all(
        not node.cell(fr).borrows_with(amount) and (fr not in needs or needs[fr] + amount <= _certain(node, fr))
        for fr, amount in usage.items()
        if amount
    )


def needs_of(demand: Demand, queue: QueueSnapshot) -> Mapping[FlavorResource, int]:
    """The most a workload may use of each flavor that it could be given."""
    needs: dict[FlavorResource, int] = {}
    for pod_set in demand.pod_sets:
        requests = pod_set.with_pods() if queue.counts_pods else pod_set.requests
        for resource, amount in requests.items():
            group = queue.group_of.get(resource)
            for flavor in group.flavors if group else ():
                needs[flavor, resource] = needs.get((flavor, resource), 0) + amount
    return needs


def _certain(node: Node, fr: FlavorResource) -> int:
    """What the queue can use whatever others do: all there is if it stands alone, else what it never lends."""
    cell = node.cell(fr)
    return cell.available() if cell.parent is None else cell.local_available()
