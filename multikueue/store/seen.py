"""What the manager sees of a workload, as the input of its answer. It sees no pods, only what jobs count of them."""

from __future__ import annotations

from multikueue.answers.seen import Seen, SeenJob, of_job, typed_name
from multikueue.api.kueue.workload import FINISHED, Workload, queue_of
from multikueue.api.meta import ObjectKey
from multikueue.quota.visibility.explain import Explanation
from multikueue.store.store import Store
from multikueue.workload.case import Case
from multikueue.workload.nomination.prospects import prospects

__all__ = ["seen_of"]


def seen_of(store: Store, workload: Workload, case: Case, quota: Explanation | None = None) -> Seen:
    """`quota`: why it has none, with the names that may be shown."""
    queue = store.local_queues.get(queue_of(workload))
    return Seen(
        name=typed_name(workload),
        namespace=workload.metadata.namespace,
        job=_job_of(store, workload),
        workload=workload,
        queues=_queues(store, queue_of(workload)),
        cluster_queue=queue.spec.cluster_queue if queue is not None else "",
        quota=quota,
        workers=() if workload.has(FINISHED) else prospects(case),
        jobs=dict(_names(store, quota)) if quota is not None else {},
        own_check=case.check,
        lost_after=case.rules.lost_after,
    )


def _job_of(store: Store, workload: Workload) -> SeenJob | None:
    job = store.local_job(workload)
    return of_job(store.runtimes.completed(job), store.adapters.of(job)) if job is not None else None


def _queues(store: Store, named: ObjectKey) -> frozenset[str]:
    """Its LocalQueue; all of its namespace only if that is not there, and the nearest name has to be found."""
    if store.local_queues.get(named) is not None:
        return frozenset((named.name,))
    return frozenset(key.name for key in store.local_queues.all_keys() if key.namespace == named.namespace)


def _names(store: Store, quota: Explanation) -> list[tuple[str, str]]:
    """The jobs of the workloads that it names, which are few."""
    keys = {quota.behind, *quota.enough, *(each.workload for each in quota.endings)}
    found = ((text, store.workloads.get(ObjectKey(*text.split("/", 1)))) for text in keys if "/" in text)
    return [(text, typed_name(workload)) for text, workload in found if workload is not None]
