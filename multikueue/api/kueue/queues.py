"""Kueue's queue objects (v1beta2): ClusterQueue, LocalQueue, Cohort, ResourceFlavor, WorkloadPriorityClass."""

from __future__ import annotations

from typing import Literal

from multikueue.api.meta import Condition, Int64, Object, Time, Value

MAX_PREEMPTED_ANNOTATION = "multikueue.dev/max-preempted-workloads"
"""On a ClusterQueue, `3/1h`: within any hour at most three of its workloads are preempted."""

MAX_SPEND_ANNOTATION = "multikueue.dev/max-spend"
"""On a ClusterQueue or LocalQueue, `100/7d`: whether it spent that within that time is reported, and shown to strategies."""

BACKFILL_ANNOTATION = "multikueue.dev/backfill"
"""On a ClusterQueue with StrictFIFO: which workloads may pass its head while that waits for quota."""

SPARE_QUOTA = "SpareQuota"
"""Workloads that use nothing that the head may use, or leave enough of it."""

KNOWN_ENDS = "KnownEnds"
"""Those of SpareQuota, and workloads that are over before the head starts."""

FOLLOW_ANNOTATION = "multikueue.dev/follow-capacity"
"""On a ClusterQueue: whether its nominal quotas follow its workers, `true` or `false`; or the reserve to follow
with."""

MANAGER_TOO_ANNOTATION = "multikueue.dev/manager-as-worker"
"""On a ClusterQueue, `true`: its MultiKueue check may be that of some flavors. Jobs with quota there go to workers; those with
quota of the others run on the manager cluster, as in a queue without that check. Kueue refuses such a check."""

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]


class LabelSelectorRequirement(Value):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Value):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class ResourceQuota(Value):
    name: str = ""
    nominal_quota: str | int | float = "0"
    borrowing_limit: str | int | float | None = None
    lending_limit: str | int | float | None = None


class FlavorQuotas(Value):
    name: str = ""
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(Value):
    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class BorrowWithinCohort(Value):
    policy: str = "Never"
    max_priority_threshold: Int64 | None = None


class Preemption(Value):
    reclaim_within_cohort: str = "Never"
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()
    within_cluster_queue: str = "Never"


class FlavorFungibility(Value):
    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str | None = None


class AdmissionCheckRule(Value):
    name: str = ""
    on_flavors: tuple[str, ...] = ()


class AdmissionChecksStrategy(Value):
    admission_checks: tuple[AdmissionCheckRule, ...] = ()


class FairSharing(Value):
    weight: str | int | float = "1"


class AdmissionScope(Value):
    admission_mode: str = ""


class ClusterQueueSpec(Value):
    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    queueing_strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    preemption: Preemption = Preemption()
    admission_checks_strategy: AdmissionChecksStrategy = AdmissionChecksStrategy()
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None


class ResourceUsage(Value):
    name: str = ""
    total: str = ""
    borrowed: str = ""


class FlavorUsage(Value):
    name: str = ""
    resources: tuple[ResourceUsage, ...] = ()


class AdmissionFairSharingStatus(Value):
    """The consumed resources of a LocalQueue. The API requires both fields, the resources even when empty."""

    consumed_resources: dict[str, str | int | float]
    last_update: Time


class FairSharingStatus(Value):
    """The API requires the share, even 0. Only a LocalQueue has the other field."""

    weighted_share: Int64
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


class QueueStatus(Value):
    """The part of the status that ClusterQueue and LocalQueue have in common."""

    conditions: tuple[Condition, ...] = ()
    flavors_reservation: tuple[FlavorUsage, ...] = ()
    flavors_usage: tuple[FlavorUsage, ...] = ()
    pending_workloads: Int64 = 0
    reserving_workloads: Int64 = 0
    admitted_workloads: Int64 = 0
    fair_sharing: FairSharingStatus | None = None


class EffectiveQuotas(Value):
    """KEP 12382, since 0.20: what an orchestrator writes counts in place of `spec.resourceGroups`, even if it is empty."""

    resource_groups: tuple[ResourceGroup, ...] = ()


class ClusterQueueStatus(QueueStatus):
    effective_quotas: EffectiveQuotas | None = None


class ClusterQueue(Object):
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()

    @property
    def resource_groups_in_force(self) -> tuple[ResourceGroup, ...]:
        """Those of an orchestrator, if it wrote some; else those of the spec."""
        effective = self.status.effective_quotas
        return self.spec.resource_groups if effective is None else effective.resource_groups


class LocalQueueSpec(Value):
    cluster_queue: str = ""
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing | None = None


class LocalQueue(Object):
    spec: LocalQueueSpec = LocalQueueSpec()
    status: QueueStatus = QueueStatus()


class CohortSpec(Value):
    parent_name: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_sharing: FairSharing | None = None


class CohortStatus(Value):
    fair_sharing: FairSharingStatus | None = None


class Cohort(Object):
    spec: CohortSpec = CohortSpec()
    status: CohortStatus = CohortStatus()


class Taint(Value):
    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(Value):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class ResourceFlavorSpec(Value):
    node_labels: dict[str, str] = {}
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: str = ""


class ResourceFlavor(Object):
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class WorkloadPriorityClass(Object):
    value: Int64 = 0
    description: str = ""


def has_manager_as_worker(queue: ClusterQueue) -> bool:
    """Whether its jobs may run on the manager cluster too."""
    return queue.metadata.annotations.get(MANAGER_TOO_ANNOTATION) == "true"
