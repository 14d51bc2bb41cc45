"""The newest plan of each workload, and the changes that a plan expects."""

from __future__ import annotations

from multikueue.api.kueue.workload import EVICTED, Workload
from multikueue.api.meta import ObjectKey
from multikueue.dispatch.copies.plan import Plan
from multikueue.store.caches.cache import Cache

__all__ = ["Plans"]


class Plans:
    """Owner: the store. Written only by the reconcile of the workload, read by the outboxes."""

    def __init__(self, workloads: Cache[Workload]) -> None:
        self._workloads = workloads
        self._newest: dict[ObjectKey, Plan] = {}

    def get(self, key: ObjectKey) -> Plan | None:
        """The newest plan of a workload; None if there is none, or if the workload has changed since, even into
        something that cannot be decoded."""
        plan = self._newest.get(key)
        if plan is None or key in self._workloads.unreadable or not plan.is_of(self._workloads.get(key)):
            return None
        return plan

    def put(self, key: ObjectKey, plan: Plan | None) -> None:
        """Replaces the plan. A plan that wants nothing is dropped."""
        if plan is not None and (plan.desired or plan.choice):
            self._newest[key] = plan
        else:
            self._newest.pop(key, None)

    def choice(self, key: ObjectKey, attempt: str) -> str:
        """The worker chosen in that attempt of a workload, until its status records it; empty if none."""
        plan = self._newest.get(key)
        return plan.choice if plan is not None and attempt and plan.attempt == attempt else ""

    def opening(self, key: ObjectKey, attempt: str) -> str:
        """The worker whose gate the newest plan of that attempt opens; empty if none."""
        plan = self._newest.get(key)
        return plan.opening if plan is not None and attempt and plan.attempt == attempt else ""

    def is_expected(self, old: Workload | None, copy: Workload, worker: str, is_in_the_making: bool) -> bool:
        """Whether the plan expects this change of a copy, so that it is no news: the copy that the plan asked for,
        before it has any status; and any change of a copy that is to be removed, unless a deletion or eviction waits
        for that."""
        plan = self.get(copy.key)
        if plan is None or plan.local is None:
            return False
        if old is None:
            # The outbox that creates a copy reads the newest plan once the copy is created.
            return plan.is_expected(copy, worker) or (is_in_the_making and plan.is_too_late(copy, worker))
        waits = plan.local.metadata.deletion_timestamp is not None or plan.local.has(EVICTED)
        return not waits and plan.is_given_up(copy, worker)
