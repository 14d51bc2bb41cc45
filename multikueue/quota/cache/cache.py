"""Kueue's cache: the configuration of queues, and the usage of their quota (quota-engine 1.7).

ClusterQueues, cohorts, flavors, checks and namespaces, and the workloads with quota, including quota that the scheduler
only assumes. Pending workloads belong to the queue manager; the engine tells it of changes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.api.kueue.queues import BACKFILL_ANNOTATION, ClusterQueue, Cohort, LocalQueue
from multikueue.api.kueue.slices import job_of, replaced_key
from multikueue.api.kueue.workload import ADMITTED, EVICTED, QUOTA_RESERVED, Admission, Workload, WorkloadSpec
from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.budgets import Budgets, is_non_preemptible
from multikueue.quota.cache.catalog import Catalog, QueueSnapshot, snapshot
from multikueue.quota.cache.consumed_resources import USAGE_BASED, ConsumedResources, UsageDecay
from multikueue.quota.cache.reservations import (
    Reordered,
    Reservation,
    Reservations,
    SliceReplacements,
    admission_amounts,
)
from multikueue.quota.cache.tree import Forest, Member, fair_weight, quotas
from multikueue.quota.requests.amounts import Demand
from multikueue.quota.workload.ends import end_of, time_is_up
from multikueue.quota.workload.ordering import queue_time


class QuotaCache:
    """Owned by the engine; changed by its event handlers and by the scheduler."""

    def __init__(
        self,
        *,
        is_fair_sharing: bool = False,
        admission_sharing: UsageDecay | None = None,
        should_block_admission: bool = False,
        should_keep_place: bool = False,
        has_non_preemptible: bool = False,
        slice_replacements: SliceReplacements | None = None,
        compatibility: Compatibility = NEWEST,
        should_ignore_undeclared: bool = False,
    ) -> None:
        self.catalog = Catalog()
        self.forest = Forest()
        self.reservations = Reservations()
        self.budgets = Budgets(self.catalog.place)
        self.history = ConsumedResources(admission_sharing) if admission_sharing else None
        self.slice_replacements = slice_replacements
        self.is_fair_sharing = is_fair_sharing
        self.should_keep_place = should_keep_place
        self.compatibility = compatibility
        self._ignores_undeclared = should_ignore_undeclared
        self.not_ready: set[ObjectKey] = set()
        """Workloads with quota whose pods are not all ready, where that keeps others from getting quota."""
        self.settled: set[str] = set()
        """Trees whose heads were refused, without a change since: another look would end the same way."""
        self._block_admission = should_block_admission
        self._non_preemptible = has_non_preemptible
        self._snapshots: dict[str, QueueSnapshot] = {}
        self._generations: dict[str, int] = {}

    # --- ClusterQueues and cohorts ---

    def set_cluster_queue(self, queue: ClusterQueue) -> bool:
        """Returns whether its workloads may be decided otherwise now. What may raise comes first: a failed call changes
        nothing."""
        name = queue.metadata.name
        member = Member(
            queue.spec.cohort_name, quotas(queue.spec.resource_groups), fair_weight(queue.spec.fair_sharing)
        )
        old = self.catalog.queues.get(name, queue)
        new_rules = self.budgets.set_queue(queue) or _backfill(old) != _backfill(queue)
        if self.catalog.set_queue(queue):
            self.forest.declare_queue(name, member)
            self._snapshots.pop(name, None)
            self.settled.clear()
            return True
        return new_rules

    def remove_cluster_queue(self, name: str) -> bool:
        """Returns whether it was there."""
        if not self.catalog.remove_queue(name):
            return False
        self.budgets.remove_queue(name)
        self.forest.declare_queue(name, None)
        self._snapshots.pop(name, None)
        self.settled.clear()
        return True

    def set_cohort(self, cohort: Cohort) -> bool:
        """Returns whether it is new or has changed."""
        weight = fair_weight(cohort.spec.fair_sharing)
        return self._declare_cohort(
            cohort.metadata.name, Member(cohort.spec.parent_name, quotas(cohort.spec.resource_groups), weight)
        )

    def remove_cohort(self, name: str) -> bool:
        """Returns whether it was there."""
        return self._declare_cohort(name, None)

    def _declare_cohort(self, name: str, member: Member | None) -> bool:
        is_new = self.forest.declare_cohort(name, member)
        if is_new:
            self.settled.clear()
        return is_new

    def set_local_queue(self, queue: LocalQueue) -> None:
        self.catalog.set_local_queue(queue)
        if self.history is not None and self.history.set_queue(queue):
            self.unsettle(queue.spec.cluster_queue)

    def remove_local_queue(self, key: ObjectKey) -> bool:
        """Returns whether it was there."""
        if not self.catalog.remove_local_queue(key):
            return False
        if self.history is not None:
            self.history.remove_queue(key)
        return True

    def renew_snapshot(self, name: str) -> None:
        """An object that the ClusterQueue refers to has changed."""
        self._snapshots.pop(name, None)

    def build(self) -> None:
        """Build the trees again if a spec changed."""
        if self.forest.stale:
            self.forest.build(self.reservations.by_queue())
            self._snapshots.clear()
            self._generations = {name: self.generation(name) + 1 for name in self.catalog.queues}

    def snapshot(self, name: str) -> QueueSnapshot:
        """A ClusterQueue as a cycle sees it. Call `build` first."""
        known = self._snapshots.get(name)
        if known is None:
            node = self.forest.queue(name)
            assert node is not None, f"{name} is declared, so it has a node after a build"
            known = self._snapshots[name] = snapshot(
                self.catalog.queues[name],
                node,
                self.catalog.flavors,
                is_fair_sharing=self.is_fair_sharing,
                compatibility=self.compatibility,
                should_ignore_undeclared=self._ignores_undeclared,
            )
        return known

    def generation(self, name: str) -> int:
        """A number that changes whenever a search for flavors in a ClusterQueue has to start over."""
        return self._generations.get(name, 1)

    def unsettle(self, name: str) -> None:
        """The tree of a ClusterQueue changed: another look may end differently."""
        self.settled.discard(self.forest.root_name(name))

    def is_settled(self, name: str) -> bool:
        return self.forest.root_name(name) in self.settled

    # --- reservations ---

    def add(self, reservation: Reservation) -> None:
        self.reservations.add(reservation)
        self.unsettle(reservation.cluster_queue)
        if not self.forest.stale and (node := self.forest.queue(reservation.cluster_queue)) is not None:
            node.add(reservation.amounts)

    def remove(self, reservation: Reservation) -> None:
        self.reservations.remove(reservation.key)
        self._renew_generation(reservation.cluster_queue)
        self.unsettle(reservation.cluster_queue)
        if not self.forest.stale and (node := self.forest.queue(reservation.cluster_queue)) is not None:
            node.remove(reservation.amounts)

    def replace(self, new: Reservation, now: datetime) -> Reservation | None:
        """A workload has quota by its status. Returns the former reservation, if that was another."""
        old = self.reservations.get(new.key)
        if old == new:
            return None
        if old is not None:
            self.remove(old)
        self.add(new)
        if old is not None and new.is_admitted and not old.is_admitted:
            self._record(new, now)
        return old

    def release(self, key: ObjectKey) -> Reservation | None:
        """A workload has no quota any more. Returns what it had. A slice whose quota it only assumed gets that back."""
        self.not_ready.discard(key)
        restored = self.slice_replacements.lose(key) if self.slice_replacements is not None else None
        if restored is not None:
            self.add(restored)
        reservation = self.reservations.get(key)
        if reservation is not None:
            if self.history is not None:
                self.history.discharge(reservation.local_queue, key)
            self.remove(reservation)
        return reservation

    def assume(self, reservation: Reservation, demand: Demand, replaced: Reservation | None) -> None:
        """The scheduler gave a workload quota; in place of the slice `replaced`, if there is one."""
        self.note_pods(reservation.key, are_ready=False)
        if self.history is not None:
            self.history.charge(reservation.local_queue, reservation.key, demand)
        if replaced is not None and self.slice_replacements is not None:
            self.remove(replaced)
            self.not_ready.discard(replaced.key)
            self.slice_replacements.record(reservation.key, replaced.key, job=reservation.job, reservation=replaced)
        self.add(reservation)

    def evict(self, key: ObjectKey, now: datetime) -> None:
        """A workload is to be evicted. It keeps using its quota; only its place in the order of eviction is new."""
        reservation = self.reservations.remove(key)
        assert reservation is not None, "only who holds quota is evicted"
        self.reservations.add(replace(reservation, is_evicted=True))
        self.budgets.assume(key, reservation.local_queue, whole_second(now))
        self._renew_generation(reservation.cluster_queue)

    def _renew_generation(self, name: str) -> None:
        self._generations[name] = self.generation(name) + 1

    def note_pods(self, key: ObjectKey, *, are_ready: bool) -> None:
        """Whether all pods of a workload with quota are ready."""
        if are_ready:
            self.not_ready.discard(key)
        elif self._block_admission:
            self.not_ready.add(key)

    def reservation_of(
        self, workload: Workload, spec: WorkloadSpec, admission: Admission, now: datetime, *, is_evicted: bool
    ) -> Reservation:
        """The reservation in a workload's status.

        `is_evicted`: it is to be evicted, though its status does not show that yet. Raises InvalidObject if a quantity
        cannot be parsed.
        """
        counts = {pod_set.name: pod_set.count for pod_set in spec.pod_sets}
        reserved = workload.condition(QUOTA_RESERVED)
        return Reservation(
            key=workload.key,
            cluster_queue=admission.cluster_queue,
            local_queue=ObjectKey(workload.metadata.namespace, spec.queue_name),
            amounts=admission_amounts(admission, counts, workload.status.reclaimable_pods),
            priority=spec.priority,
            is_admitted=workload.has(ADMITTED),
            uid=workload.metadata.uid,
            since=queue_time(workload, should_keep_place=self.should_keep_place),
            reserved_at=whole_second((reserved and reserved.last_transition_time) or now),
            is_evicted=is_evicted or workload.has(EVICTED),
            is_protected=self.is_protected(workload),
            ends_by=min(filter(None, (time_is_up(workload.status, spec), end_of(workload.status))), default=None),
            job=self.job_of(workload),
        )

    def is_protected(self, workload: Workload) -> bool:
        """Whether the workload is exempt from preemption."""
        return self._non_preemptible and is_non_preemptible(workload)

    def job_of(self, workload: Workload) -> str:
        """The UID of the job that the workload is a slice of; empty without elastic jobs."""
        return job_of(workload) if self.slice_replacements is not None else ""

    def holders(self, name: str) -> Sequence[Reservation]:
        """The workloads of a ClusterQueue that may be evicted. An inactive ClusterQueue has none: it has no heads
        either."""
        if not self.catalog.is_active(name):
            return ()
        reservations = self.reservations.in_queue(name)
        if self.history is None or not self.is_usage_based(name):
            return reservations
        usage = self.history.usage
        return Reordered(sorted(reservations, key=lambda each: (not each.is_evicted, -usage(each.local_queue))))

    # --- slices of elastic jobs ---

    def replaced_by(self, workload: Workload) -> ObjectKey | None:
        """The slice that the workload replaces."""
        return replaced_key(workload) if self.slice_replacements is not None else None

    def may_replace(self, workload: Workload, old: Reservation | None) -> bool:
        return self.slice_replacements is not None and self.slice_replacements.may_replace(job_of(workload), old)

    # --- consumed resources ---

    def is_usage_based(self, name: str) -> bool:
        """Whether the LocalQueues of a ClusterQueue are ordered by consumed resources."""
        scope = self.catalog.queues[name].spec.admission_scope
        return self.history is not None and scope is not None and scope.admission_mode == USAGE_BASED

    def _record(self, reservation: Reservation, now: datetime) -> None:
        """A workload was admitted: from now on its usage counts as consumed."""
        if self.history is None:
            return
        if reservation.cluster_queue not in self.catalog.queues or not self.is_usage_based(reservation.cluster_queue):
            self.history.discharge(reservation.local_queue, reservation.key)
            return
        used = self.reservations.local_queue(reservation.local_queue).usage
        self.history.admitted(reservation.local_queue, reservation.key, takes=reservation.amounts, used=used, now=now)

    def sample(self, key: ObjectKey, now: datetime) -> timedelta | None:
        """Update the consumed resources of a LocalQueue if an interval has passed. Returns the time until the next
        sample; None while no samples are due: without admission fair sharing, or while one of its queues is stopped or
        inactive."""
        queue = self.catalog.local_queues.get(key)
        if self.history is None or queue is None or queue.spec.stop_policy != "None":
            return None
        if not self.catalog.is_active(queue.spec.cluster_queue):
            return None
        self.unsettle(queue.spec.cluster_queue)
        return self.history.sample(queue, self.reservations.local_queue(key).usage, now)


def _backfill(queue: ClusterQueue) -> str | None:
    return queue.metadata.annotations.get(BACKFILL_ANNOTATION)


def whole_second(time: datetime) -> datetime:
    """The time as the API returns it: in whole seconds."""
    return time.replace(microsecond=0)
