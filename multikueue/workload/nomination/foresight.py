"""What a worker without a copy could make of one, by its own queues."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.kueue.workload import Workload, queue_of, workload_spec
from multikueue.api.meta import ObjectKey, Value, find_condition
from multikueue.api.values.foreign import answer_or, excerpt
from multikueue.api.values.quantity import render
from multikueue.quota.cache.tree import CellQuota, quotas
from multikueue.quota.requests.amounts import Demand
from multikueue.workload.nomination.prospects import Prospect, State, lacking

__all__ = ["QueuesThere", "Requests", "closed", "excess", "foresee", "is_told_closed", "requested", "why_inactive"]

_TOLD_CLOSED = re.compile(r"(?:Local|Cluster)Queue \S+ (?:doesn't exist|is inactive)\b")
"""Of a copy, by Kueue in its condition."""

_STOPPED = "Stopped"
"""The reason of a ClusterQueue's condition Active while its stop policy holds it."""

Requests = Mapping[str, int]
"""Counted amounts of all pods of a pod set, by resource."""


class QueuesThere(Value, frozen=True):
    """The queues of a worker: where its LocalQueues lead, and its ClusterQueues by name."""

    local: Mapping[ObjectKey, LocalQueue]
    shared: Mapping[str, ClusterQueue]

    @classmethod
    def of(cls, local_queues: Iterable[LocalQueue], cluster_queues: Iterable[ClusterQueue]) -> QueuesThere:
        local = {each.key: each for each in local_queues}
        return cls(local=local, shared={each.metadata.name: each for each in cluster_queues})

    def behind(self, queue: ObjectKey) -> ClusterQueue | None:
        """The ClusterQueue that a LocalQueue leads to; None if either is missing."""
        found = self.local.get(queue)
        return self.shared.get(found.spec.cluster_queue) if found is not None else None


def foresee(cluster: str, workload: Workload, pod_sets: Sequence[Requests], there: QueuesThere) -> Prospect:
    """The prospect on a worker that was not asked yet. `pod_sets`: as `requested` has them. A queue that makes no sense rules
    nothing out."""
    key = queue_of(workload)
    queue, why = there.behind(key), closed(key, there.local.get(key), there.behind(key))
    if why:
        return Prospect(cluster=cluster, state=lacking(why).value, message=excerpt(why))
    most = answer_or(lambda: excess(pod_sets, queue), "") if queue is not None else ""
    return Prospect(cluster=cluster, state=(State.NEVER if most else State.NOT_ASKED).value, message=excerpt(most))


def closed(key: ObjectKey, queue: LocalQueue | None, behind: ClusterQueue | None) -> str:
    """Why no workload of a worker's LocalQueue of that name can run, in Kueue's words; empty if one may. `behind`: its
    ClusterQueue. A queue that somebody has stopped is not closed: workloads wait in it for their turn."""
    if queue is None:
        return f"LocalQueue {key.name} doesn't exist"
    if behind is None:
        return f"ClusterQueue {queue.spec.cluster_queue} doesn't exist"
    return why_inactive(behind)


def why_inactive(queue: ClusterQueue) -> str:
    """Why a ClusterQueue admits nothing, such as a flavor that is missing; empty if it may, or if nobody has looked at it."""
    active, words = find_condition(queue.status.conditions, ACTIVE), f"ClusterQueue {queue.metadata.name} is inactive"
    if queue.metadata.deletion_timestamp is not None:
        return f"{words} (it is being deleted)"
    if active is None or active.status != "False" or active.reason == _STOPPED:
        return ""
    why = (active.message or active.reason).rstrip(". ")
    return f"{words} ({why})" if why else words


def is_told_closed(message: str) -> bool:
    """Whether the words are those of a queue that is missing or inactive."""
    return _TOLD_CLOSED.match(message) is not None


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
