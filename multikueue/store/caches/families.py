"""Parents and their variants among the Workloads of the manager cluster (KEP 8691)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from multikueue.api.kueue.concurrent_admission import parent_key, parent_of, policy_of
from multikueue.api.kueue.queues import ClusterQueue, ClusterQueueSpec, LocalQueue
from multikueue.api.kueue.slices import is_elastic
from multikueue.api.kueue.workload import Workload, queue_of
from multikueue.api.meta import ObjectKey
from multikueue.quota.workload.family import Family, family_of
from multikueue.store.caches.cache import Cache

__all__ = ["Families"]


class Families(msgspec.Struct, frozen=True):
    """Questions about families. `workloads` have the index `owner`, by the UID of who controls them."""

    workloads: Cache[Workload]
    local_queues: Cache[LocalQueue]
    cluster_queues: Cache[ClusterQueue]

    def of(self, workload: Workload) -> Family | None:
        """The family of a parent, or of one of its variants; None of other work, and while its queues are unknown."""
        parent = workload if parent_of(workload) is None else self.parent(workload)
        spec = self._queue_spec(parent) if parent is not None else None
        if parent is None or spec is None:
            return None
        variants = self.workloads.by("owner", parent.metadata.uid)
        if is_elastic(parent):
            spec = msgspec.structs.replace(spec, concurrent_admission_policy=None)
        return family_of(parent, variants, spec) if variants or policy_of(spec) is not None else None

    def parent(self, variant: Workload) -> Workload | None:
        """The parent of a variant; None if it is gone."""
        owner, key = parent_of(variant), parent_key(variant)
        found = self.workloads.get(key) if key is not None else None
        return found if found is not None and owner is not None and found.metadata.uid == owner.uid else None

    def is_orphan(self, variant: Workload) -> bool:
        """Whether its parent is gone. One that cannot be read is not."""
        key = parent_key(variant)
        return key is not None and self.parent(variant) is None and key not in self.workloads.unreadable

    def beside(self, workload: Workload) -> Iterator[ObjectKey]:
        """The rest of its family."""
        owner, parent = parent_of(workload), parent_key(workload)
        if parent is not None:
            yield parent
        keys = self.workloads.keys_by("owner", owner.uid if owner is not None else workload.metadata.uid)
        yield from (key for key in keys if key != workload.key)

    def _queue_spec(self, parent: Workload) -> ClusterQueueSpec | None:
        """That of the ClusterQueue where it has quota, whatever becomes of its LocalQueue; or else waits."""
        name = self._place(parent)
        queue = self.cluster_queues.get(ObjectKey("", name)) if name is not None else None
        return queue.spec if queue is not None else None

    def _place(self, parent: Workload) -> str | None:
        if parent.status.admission is not None:
            return parent.status.admission.cluster_queue
        local = self.local_queues.get(queue_of(parent))
        return local.spec.cluster_queue if local is not None else None
