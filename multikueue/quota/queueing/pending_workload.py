"""A pending workload: its demand, its rank and its last verdict (quota-engine 2)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

import msgspec

from multikueue.api.kueue.workload import EVICTED, REQUEUED, Workload, WorkloadSpec
from multikueue.api.meta import ObjectKey
from multikueue.quota.requests.amounts import Demand
from multikueue.quota.workload.ordering import Rank
from multikueue.quota.workload.outcome import Verdict


class Reason(Enum):
    """Why a head comes back from a cycle."""

    GENERIC = "does not fit"
    FAILED_AFTER_NOMINATION = "lost within the cycle, or its reservation could not be written"
    NAMESPACE_MISMATCH = "its namespace is not selected"
    PENDING_PREEMPTION = "others are on their way out for it"


class Progress(msgspec.Struct, frozen=True):
    """An interrupted search for flavors.

    `tried` is the index of the last flavor tried, per pod set and resource; -1: all were. Of a missing pod set none
    was. Void once the quota has changed, which `generation` shows; unless its workload is the head of its queue again, where
    the release of Kueue that is followed has it so.
    """

    generation: int
    tried: tuple[dict[str, int], ...]


@dataclass(slots=True, eq=False)
class PendingWorkload:
    """A workload without quota, as last seen. Cycles change `progress`, `verdict` and `past`, and nothing else.
    `replaces` is the slice that it replaces, if it is a slice of an elastic job. `refused_until`: its reservation could not be
    written, and is not tried again before."""

    workload: Workload
    spec: WorkloadSpec
    demand: Demand
    rank: Rank
    progress: Progress | None = None
    verdict: Verdict | None = None
    past: list[Progress] = field(default_factory=list)
    replaces: ObjectKey | None = None
    refused_until: datetime | None = None
    key: ObjectKey = field(init=False)
    local_queue: ObjectKey = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.workload.key
        self.local_queue = ObjectKey(self.key.namespace, self.spec.queue_name)

    @property
    def requeue_at(self) -> datetime | None:
        state = self.workload.status.requeue_state
        times = (state.requeue_at if state is not None else None, self.refused_until)
        return max((at for at in times if at is not None), default=None)

    def is_repeating(self) -> bool:
        """Whether its search for flavors stopped where it stopped before, and would repeat itself.

        Kueue repeats it without end where two pod sets stop in turn. Here the next search begins with the first flavor
        again: which one will be free by then is unknown. In Kueue it may begin with any, but most often with the first,
        since each message that is new to the status starts it over.
        """
        assert self.progress is not None, "only a search that was interrupted can be taken up"
        if self.progress in self.past:
            self.past.clear()
            self.progress = Progress(self.progress.generation, ())
            return True
        self.past = [each for each in self.past if each.generation == self.progress.generation]
        self.past.append(self.progress)
        return False

    def may_queue(self, now: datetime) -> bool:
        """Whether its back-off is over. Requeued=False holds it back at any time."""
        requeued = self.workload.condition(REQUEUED)
        if requeued is not None and requeued.status == "False":
            return False
        return self.requeue_at is None or now >= self.requeue_at

    @property
    def was_stopped(self) -> bool:
        """Whether it was evicted because its LocalQueue was stopped. Once that is active again, its rank alone gives
        its place: younger workloads would pass it while it waits for its status to say so."""
        requeued = self.workload.condition(REQUEUED)
        return requeued is not None and requeued.status == "False" and requeued.reason == "LocalQueueStopped"

    @property
    def uncounted(self) -> str:
        """Why it does not queue: it claims devices that cannot be counted. Empty if it claims none such."""
        return self.demand.problem if self.demand.has_uncounted else ""

    @property
    def has_failed_checks(self) -> bool:
        return self.workload.status.has_failed_checks

    def shape(self) -> Hashable:
        """Equal for all workloads of a queue, whatever their namespace, that ask for the same amounts on the same nodes with
        the same priority. A slice that replaces another needs less than it asks for, and is equal to none."""
        fewest = tuple(pod_set.min_count for pod_set in self.spec.pod_sets)
        return self.rank[0], self.demand.shape, fewest, self.key if self.replaces is not None else None

    def ask(self) -> Hashable:
        """Equal for all workloads of a queue that a cycle would refuse for the same reasons. A workload with an
        interrupted search for flavors, or a slice that replaces another, is equal to none."""
        return (
            self.shape(),
            self.key.namespace,
            self.has_failed_checks,
            self.key if self.progress is not None else None,
        )

    def is_same_for_queue(self, other: PendingWorkload) -> bool:
        """Whether an update changes nothing that could make an inadmissible workload worth another look."""
        mine, its = self.workload, other.workload
        return (
            mine.spec == its.spec
            and mine.status.reclaimable_pods == its.status.reclaimable_pods
            and mine.condition(EVICTED) == its.condition(EVICTED)
            and mine.condition(REQUEUED) == its.condition(REQUEUED)
            and self.requeue_at == other.requeue_at
        )
