"""What a worker without a copy could make of one, by its own queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.kueue.workload import Workload, queue_of, workload_spec
from multikueue.api.meta import ObjectKey, Value
from multikueue.api.values.foreign import answer_or, excerpt
from multikueue.api.values.quantity import render
from multikueue.quota.cache.tree import CellQuota, quotas
from multikueue.quota.requests.amounts import Demand
from multikueue.workload.nomination.prospects import Prospect, State

__all__ = ["QueuesThere", "Requests", "excess", "foresee", "requested"]

Requests = Mapping[str, int]
"""Counted amounts of all pods of a pod set, by resource."""


class QueuesThere(Value, frozen=True):
    """The queues of a worker: where its LocalQueues lead, and its ClusterQueues by name."""

    routes: Mapping[ObjectKey, str]
    shared: Mapping[str, ClusterQueue]

    @classmethod
    def of(cls, local_queues: Iterable[LocalQueue], cluster_queues: Iterable[ClusterQueue]) -> QueuesThere:
        routes = {each.key: each.spec.cluster_queue for each in local_queues}
        return cls(routes=routes, shared={each.metadata.name: each for each in cluster_queues})


def foresee(cluster: str, workload: Workload, pod_sets: Sequence[Requests], there: QueuesThere) -> Prospect:
    """The prospect on a worker that was not asked yet. `pod_sets`: as `requested` has them. A queue that makes no sense rules
    nothing out."""
    key = queue_of(workload)
    if key not in there.routes:
        message = f"LocalQueue {key.name} doesn't exist"
        return Prospect(cluster=cluster, state=State.LACKS_QUEUE.value, message=message)
    queue = there.shared.get(there.routes[key])
    most = answer_or(lambda: excess(pod_sets, queue), "") if queue is not None else ""
    return Prospect(cluster=cluster, state=(State.NEVER if most else State.NOT_ASKED).value, message=excerpt(most))


def requested(demand: Demand, workload: Workload) -> list[Requests]:
    """What each pod set needs at the least. Nothing is known with partial admission, where fewer pods may do."""
    if any(pod_set.min_count is not None for pod_set in workload_spec(workload).pod_sets):
        return []
    return [each.requests for each in demand.pod_sets]


def excess(pod_sets: Iterable[Requests], queue: ClusterQueue) -> str:
    """What a pod set needs beyond all that a worker's ClusterQueue could ever use; empty if nothing, or if its cohort may
    lend without limit, or if no flavor has the resource: some releases and configurations of Kueue ignore that."""
    cells, borrows = quotas(queue.resource_groups_in_force), bool(queue.spec.cohort_name)
    for requests in pod_sets:
        for resource, amount in sorted(requests.items()):
            most = {flavor: _most(cell, borrows) for (flavor, name), cell in cells.items() if name == resource}
            if most and all(each is not None and amount > each for each in most.values()):
                needed = f"{resource} {render(resource, amount)}"
                return ", ".join(
                    f"{needed} of {render(resource, each or 0)} at most in flavor {flavor}"
                    for flavor, each in most.items()
                )
    return ""


def _most(cell: CellQuota, may_borrow: bool) -> int | None:
    if not may_borrow:
        return cell.nominal
    return None if cell.borrowing_limit is None else cell.nominal + cell.borrowing_limit
