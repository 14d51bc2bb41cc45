"""The engine: what the process knows about queues and quota, kept up to date from watch events.

It puts Kueue's parts together: a cache of configuration and usage, a queue manager of pending workloads, a scheduler
that gives out quota, and a read-only view. `Engine.observe` is the only entry point for objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from multikueue.api.kubernetes.builtins import DeviceClass, LimitRange, Namespace, ResourceClaimTemplate, RuntimeClass
from multikueue.api.kueue.admission_checks import AdmissionCheck
from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.api.kueue.queues import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from multikueue.api.kueue.slices import job_of, replaced_key
from multikueue.api.kueue.workload import (
    EVICTED,
    FINISHED,
    PODS_READY,
    QUOTA_RESERVED,
    WAITING_FOR_REPLACEMENT,
    Admission,
    Workload,
    WorkloadSpec,
    admission_gates,
    workload_spec,
)
from multikueue.api.meta import Object, ObjectKey
from multikueue.quota.cache.cache import QuotaCache
from multikueue.quota.cache.catalog import is_leaving
from multikueue.quota.cache.consumed_resources import UsageDecay
from multikueue.quota.cache.reservations import SliceReplacements
from multikueue.quota.preemption.fair import FairPreemption
from multikueue.quota.queueing.queue_manager import QueueManager
from multikueue.quota.requests.amounts import AS_IT_IS, Accounting
from multikueue.quota.requests.devices import NO_CLASS, DeviceRules
from multikueue.quota.scheduler.scheduler import Scheduler
from multikueue.quota.visibility.view import QuotaView
from multikueue.quota.workload.outcome import AS_BEFORE, Reasons

Concerned = Iterable[str]
"""ClusterQueues whose status may differ now, besides those that were observed themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRules:
    """What the engine decides by.

    `compatibility` says where it decides as an older Kueue. `devices` says which devices count as what. With
    `should_ignore_undeclared` resources of which a ClusterQueue has no flavor are not counted. With `fair_sharing`
    heads are ordered, and workloads preempted, by dominant resource share. With `admission_sharing` the LocalQueues of
    ClusterQueues that ask for it are ordered by usage. With `should_block_admission` no workload gets quota while pods
    of a workload with quota are not ready. With `should_keep_place` a workload evicted for PodsReadyTimeout keeps its
    creation as its queue time. With `has_non_preemptible` workloads that ask for it by annotation are not preempted.
    With `has_elastic_jobs` a slice of an elastic job takes the quota of the slice it replaces; with `has_copies` also
    one of another job, since copies on a worker have no owner. With `should_check_gates`
    work does not queue before its admission gates are open. `reasons` say why a workload has no quota.
    """

    compatibility: Compatibility = NEWEST
    accounting: Accounting = AS_IT_IS
    devices: DeviceRules = NO_CLASS
    fair_sharing: FairPreemption | None = None
    admission_sharing: UsageDecay | None = None
    should_ignore_undeclared: bool = False
    should_block_admission: bool = False
    should_keep_place: bool = False
    has_non_preemptible: bool = False
    has_elastic_jobs: bool = False
    has_copies: bool = False
    should_check_gates: bool = True
    reasons: Reasons = AS_BEFORE


class Engine:
    """Takes in objects in the order in which they are seen. Each `now` has a time zone and never goes back."""

    def __init__(self, rules: EngineRules = EngineRules()) -> None:
        self.rules = rules
        self._cache = QuotaCache(
            is_fair_sharing=rules.fair_sharing is not None,
            admission_sharing=rules.admission_sharing,
            should_block_admission=rules.should_block_admission,
            should_keep_place=rules.should_keep_place,
            has_non_preemptible=rules.has_non_preemptible,
            slice_replacements=SliceReplacements(is_trusting=rules.has_copies) if rules.has_elastic_jobs else None,
            compatibility=rules.compatibility,
            should_ignore_undeclared=rules.should_ignore_undeclared,
        )
        self.devices = rules.devices
        self._queues = QueueManager(self._cache, rules.accounting, rules.devices)
        self.scheduler = Scheduler(self._cache, self._queues, rules.fair_sharing, rules.reasons)
        self.view = QuotaView(self._cache, self._queues, self.scheduler)
        self._specs: dict[ObjectKey, tuple[msgspec.Raw, WorkloadSpec]] = {}
        self._handlers: Mapping[type[Object], Callable[[Any, Any, datetime], Concerned]] = {
            Namespace: self._namespace_changed,
            LimitRange: self._limit_range_changed,
            RuntimeClass: self._runtime_class_changed,
            ResourceClaimTemplate: self._claim_template_changed,
            DeviceClass: self._device_class_changed,
            ResourceFlavor: self._flavor_changed,
            AdmissionCheck: self._check_changed,
            Cohort: self._cohort_changed,
            ClusterQueue: self._cluster_queue_changed,
            LocalQueue: self._local_queue_changed,
            Workload: self._workload_changed,
        }

    def observe(self, old: Object | None, new: Object | None, now: datetime) -> Concerned:
        """One watch event: the object is `new` now; None: it was deleted, and was `old`.

        Raises msgspec.ValidationError or InvalidObject if the object cannot be decoded; then nothing has changed.
        """
        seen = new if new is not None else old
        assert seen is not None, "of an object something was seen"
        return self._handlers[type(seen)](seen, new, now)

    def sample(self, local_queue: ObjectKey, now: datetime) -> timedelta | None:
        """Update the consumed resources of a LocalQueue if an interval has passed. Returns the time until the next
        sample; None while no samples are due: without admission fair sharing, or while one of its queues is stopped or
        inactive."""
        return self._cache.sample(local_queue, now)

    # --- queues, flavors, checks, namespaces ---

    def _cluster_queue_changed(self, seen: ClusterQueue, new: ClusterQueue | None, now: datetime) -> Concerned:
        name = seen.metadata.name
        before = self._cache.catalog.queues.get(name)
        if new is None:
            self.scheduler.drop_assumptions(now, cluster_queue=name)
            if self._cache.remove_cluster_queue(name):
                self._queues.remove_queue(name)
        elif self._cache.set_cluster_queue(new):
            self._queues.set_queue(name, is_strict=new.spec.queueing_strategy == "StrictFIFO", now=now)
            self._queues.requeueing.wake(name, now)
            if is_leaving(new) or new.spec.stop_policy != "None":
                self.scheduler.drop_assumptions(now, cluster_queue=name)
        elif before is not None and before.status.flavors_reservation != new.status.flavors_reservation:
            self._usage_told(name, now)
        return ()

    def _usage_told(self, name: str, now: datetime) -> None:
        """The status of a ClusterQueue has other usage: a queue that has begun to borrow has candidates for
        preemption that it had not before, so pending workloads of its tree are judged again.

        Kueue reconciles the Cohorts above a ClusterQueue at each of its updates, which requeues the tree; a cohort
        without an object is not reconciled.
        """
        if self._cache.forest.has_cohort_objects(name):
            self._queues.requeueing.request_flush(self._cache.forest.root_name(name), now)

    def _cohort_changed(self, seen: Cohort, new: Cohort | None, now: datetime) -> Concerned:
        name, forest = seen.metadata.name, self._cache.forest
        before = forest.root_of_cohort(name)
        if new is None:
            is_news = self._cache.remove_cohort(name)
        elif is_news := self._cache.set_cohort(new):
            self._queues.requeueing.request_flush(forest.root_of_cohort(name), now)
        return forest.queues_of({before, forest.root_of_cohort(name)}) if is_news else ()

    def _local_queue_changed(self, seen: LocalQueue, new: LocalQueue | None, now: datetime) -> Concerned:
        if new is not None:
            self._cache.set_local_queue(new)
            is_open = new.spec.stop_policy == "None" and not is_leaving(new)
            self._route(new.key, new.spec.cluster_queue if is_open else None, now)
        elif self._cache.remove_local_queue(seen.key):
            self._route(seen.key, None, now)
        return ()

    def _route(self, key: ObjectKey, queue: str | None, now: datetime) -> None:
        self._queues.set_route(key, queue, now)
        if queue is None:
            self.scheduler.drop_assumptions(now, local_queue=key)

    def _flavor_changed(self, seen: ResourceFlavor, new: ResourceFlavor | None, now: datetime) -> Concerned:
        catalog = self._cache.catalog
        return self._refresh(catalog.remove_flavor(seen.metadata.name) if new is None else catalog.set_flavor(new), now)

    def _check_changed(self, seen: AdmissionCheck, new: AdmissionCheck | None, now: datetime) -> Concerned:
        catalog = self._cache.catalog
        return self._refresh(catalog.remove_check(seen.metadata.name) if new is None else catalog.set_check(new), now)

    def _refresh(self, names: Iterable[str], now: datetime) -> Concerned:
        """A flavor or check of these ClusterQueues changed."""
        for name in names:
            self._cache.renew_snapshot(name)
            self._queues.requeueing.wake(name, now)
        return names

    def _namespace_changed(self, seen: Namespace, new: Namespace | None, now: datetime) -> Concerned:
        catalog, name = self._cache.catalog, seen.metadata.name
        if new is None:
            catalog.remove_namespace(name)
            self._cache.settled.clear()
        elif catalog.set_namespace(new):
            self._cache.settled.clear()
            self._queues.requeueing.wake_selecting(name, now)
        return ()

    def _limit_range_changed(self, seen: LimitRange, new: LimitRange | None, now: datetime) -> Concerned:  # noqa: ARG002
        self._queues.counting.limits.set_range(seen.key, new)
        self._queues.namespace_changed(seen.key.namespace)
        return ()

    def _runtime_class_changed(self, seen: RuntimeClass, new: RuntimeClass | None, now: datetime) -> Concerned:  # noqa: ARG002
        self._queues.counting.limits.set_class(seen.metadata.name, new)
        self._queues.named_changed((seen.metadata.name,))
        return ()

    def _claim_template_changed(
        self,
        seen: ResourceClaimTemplate,
        new: ResourceClaimTemplate | None,
        now: datetime,  # noqa: ARG002
    ) -> Concerned:
        self._queues.named_changed(self._queues.counting.devices.set_template(seen.key, new))
        return ()

    def _device_class_changed(self, seen: DeviceClass, new: DeviceClass | None, now: datetime) -> Concerned:  # noqa: ARG002
        self._queues.named_changed(self._queues.counting.devices.set_class(seen.metadata.name, new))
        return ()

    # --- workloads ---

    def surplus(self, workload: Workload, template: msgspec.Raw) -> str:
        """As `Counting.surplus`."""
        return self._queues.counting.surplus(workload, template)

    def _workload_changed(self, seen: Workload, new: Workload | None, now: datetime) -> Concerned:
        """Steps that may raise come first: a failed event changes nothing (quota-engine 4.4 end)."""
        if new is None:
            self._remove(seen.key, now)
            return ()
        spec, admission = self._spec(new), new.status.admission
        if not spec.active or new.has(FINISHED):
            self._remove(new.key, now)
            if new.has(QUOTA_RESERVED) and not new.has(FINISHED) and not new.has(EVICTED):
                self.scheduler.note_switched_off(new.key)
        elif new.has(QUOTA_RESERVED) and admission is not None:
            self._hold(new, spec, admission, now)
        else:
            self._await_quota(new, spec, now)
        if self.scheduler.eviction(new.key) is None:
            self._cache.budgets.see(new, ObjectKey(new.metadata.namespace, spec.queue_name))
        return ()

    def _remove(self, key: ObjectKey, now: datetime) -> None:
        self._specs.pop(key, None)
        self.scheduler.forget_all_of(key)
        self._cache.budgets.forget(key)
        if self._cache.slice_replacements is not None:
            self._cache.slice_replacements.end(key)
        self._queues.requeueing.wake_overlooked(key, now)
        self._queues.leave(key)
        self._release(key, now)

    def _release(self, key: ObjectKey, now: datetime) -> None:
        self._queues.requeueing.wake_after(self._cache.release(key), now)

    def _spec(self, workload: Workload) -> WorkloadSpec:
        """The decoded spec, decoded again only when its bytes changed."""
        known = self._specs.get(workload.key)
        if known is not None and known[0] == workload.spec:
            return known[1]
        spec = workload_spec(workload)
        self._specs[workload.key] = (workload.spec, spec)
        return spec

    def _hold(self, workload: Workload, spec: WorkloadSpec, admission: Admission, now: datetime) -> None:
        """The status has a reservation: one that we assumed, or one that another process made."""
        evicted = self.scheduler.is_to_go(workload.key)
        new = self._cache.reservation_of(workload, spec, admission, now, is_evicted=evicted)
        self.scheduler.confirm(workload)
        self._queues.leave(workload.key)
        if self._is_succeeded(workload, now):
            self._release(workload.key, now)
            return
        self._cache.note_pods(workload.key, are_ready=workload.has(PODS_READY))
        old = self._cache.replace(new, now)
        if old is not None and old.traits != new.traits:
            self._queues.requeueing.wake_after(old, now)

    def _is_succeeded(self, workload: Workload, now: datetime) -> bool:
        """Whether a later slice has quota in place of this one. Releases the slice that this one replaces."""
        slice_replacements = self._cache.slice_replacements
        if slice_replacements is None:
            return False
        old, job = replaced_key(workload), job_of(workload)
        if old is not None:
            slice_replacements.record(workload.key, old, job=job)
            if slice_replacements.may_replace(
                job, self._cache.reservations.get(old)
            ) and slice_replacements.has_replacement(old, job=job):
                self._release(old, now)
        return slice_replacements.has_replacement(workload.key, job=job)

    def _await_quota(self, workload: Workload, spec: WorkloadSpec, now: datetime) -> None:
        if self.scheduler.is_assumed(workload):
            return  # an older status: the assumed reservation is not in it yet
        waiting = self._queues.waiting_of(workload, spec)
        self.scheduler.forget_all_of(workload.key)
        self._release(workload.key, now)
        is_gated = self.rules.should_check_gates and admission_gates(workload.metadata)
        is_held = is_gated or workload.has(WAITING_FOR_REPLACEMENT)
        if workload.metadata.deletion_timestamp is None and not is_held:
            self._queues.add_or_update(waiting, now)
        else:
            self._queues.leave(workload.key)
