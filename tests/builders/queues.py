"""Builders of queues, cohorts, flavors and priority classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Self

import msgspec

from multikueue.api.kueue.queues import (
    AdmissionCheckRule,
    AdmissionChecksStrategy,
    AdmissionScope,
    BorrowWithinCohort,
    ClusterQueue,
    Cohort,
    EffectiveQuotas,
    FairSharing,
    FlavorFungibility,
    FlavorQuotas,
    LabelSelector,
    LocalQueue,
    LocalQueueSpec,
    Preemption,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    StopPolicy,
    Taint,
    Toleration,
    WorkloadPriorityClass,
)
from multikueue.testing import NOW, Quantity
from tests.builders.objects import Builder, active_condition, metadata_of


def limits(nominal: Quantity, *, borrowing: Quantity | None = None, lending: Quantity | None = None) -> ResourceQuota:
    """A quota with limits, in place of a plain amount: `quota("spot", cpu=limits(10, borrowing=5))`."""
    return ResourceQuota(nominal_quota=nominal, borrowing_limit=borrowing, lending_limit=lending)


def flavor_quotas(
    flavor: str, resources: Mapping[str, Quantity | ResourceQuota] | None = None, **more: Quantity | ResourceQuota
) -> FlavorQuotas:
    """The quotas of one flavor in a resource group."""
    quotas = {**(resources or {}), **more}
    return FlavorQuotas(name=flavor, resources=tuple(_quota(name, each) for name, each in quotas.items()))


def _quota(resource: str, quota: Quantity | ResourceQuota) -> ResourceQuota:
    known = quota if isinstance(quota, ResourceQuota) else limits(quota)
    return msgspec.structs.replace(known, name=resource)


def _with_flavor(groups: tuple[ResourceGroup, ...], quotas: FlavorQuotas) -> tuple[ResourceGroup, ...]:
    """The groups with the flavor in the group that covers exactly these resources, at its end, or in a new group."""
    covered = tuple(each.name for each in quotas.resources)
    fitting = next((group for group in groups if group.covered_resources == covered), None)
    if fitting is None:
        return (*groups, ResourceGroup(covered_resources=covered, flavors=(quotas,)))
    grown = msgspec.structs.replace(fitting, flavors=(*fitting.flavors, quotas))
    return tuple(grown if group is fitting else group for group in groups)


@dataclass(frozen=True, slots=True)
class ClusterQueueBuilder(Builder[ClusterQueue]):
    """A ClusterQueue without quota, open to all namespaces."""

    def quota(
        self,
        flavor: str,
        resources: Mapping[str, Quantity | ResourceQuota] | None = None,
        **more: Quantity | ResourceQuota,
    ) -> Self:
        """Adds a flavor to the resource group that covers exactly these resources in this order, or to a new group."""
        groups = _with_flavor(self.value.spec.resource_groups, flavor_quotas(flavor, resources, **more))
        return self._with_spec(resource_groups=groups)

    def effective(self, groups: ClusterQueueBuilder) -> Self:
        """Sets what an orchestrator wrote: the resource groups of another builder."""
        return self._with_status(effective_quotas=EffectiveQuotas(resource_groups=groups.value.spec.resource_groups))

    def resource_group(self, *flavors: FlavorQuotas) -> Self:
        """Adds a resource group that covers the resources of its first flavor."""
        covered = tuple(each.name for each in flavors[0].resources)
        group = ResourceGroup(covered_resources=covered, flavors=flavors)
        return self._with_spec(resource_groups=(*self.value.spec.resource_groups, group))

    def cohort(self, name: str) -> Self:
        return self._with_spec(cohort_name=name)

    def strict_fifo(self) -> Self:
        return self._with_spec(queueing_strategy="StrictFIFO")

    def namespaces(self, selector: LabelSelector | None) -> Self:
        """Sets the selector of namespaces that may use the queue; None: no namespace."""
        return self._with_spec(namespace_selector=selector)

    def checks(self, *names: str) -> Self:
        """Adds admission checks for all flavors."""
        return self._with_rules(*(AdmissionCheckRule(name=name) for name in names))

    def check_on(self, name: str, *flavors: str) -> Self:
        """Adds an admission check for these flavors only."""
        return self._with_rules(AdmissionCheckRule(name=name, on_flavors=flavors))

    def preempt(
        self,
        *,
        within_cluster_queue: str = "Never",
        reclaim_within_cohort: str = "Never",
        borrow_within_cohort: BorrowWithinCohort | None = None,
    ) -> Self:
        preemption = Preemption(
            within_cluster_queue=within_cluster_queue,
            reclaim_within_cohort=reclaim_within_cohort,
            borrow_within_cohort=borrow_within_cohort or BorrowWithinCohort(),
        )
        return self._with_spec(preemption=preemption)

    def fungibility(
        self,
        *,
        when_can_borrow: str = "MayStopSearch",
        when_can_preempt: str = "TryNextFlavor",
        preference: str | None = None,
    ) -> Self:
        fungibility = FlavorFungibility(
            when_can_borrow=when_can_borrow, when_can_preempt=when_can_preempt, preference=preference
        )
        return self._with_spec(flavor_fungibility=fungibility)

    def stopped(self, policy: StopPolicy = "Hold") -> Self:
        return self._with_spec(stop_policy=policy)

    def fair_weight(self, weight: Quantity) -> Self:
        return self._with_spec(fair_sharing=FairSharing(weight=weight))

    def taking_turns(self, mode: str = "UsageBasedAdmissionFairSharing") -> Self:
        """Turns on admission fair sharing: its LocalQueues are ordered by their recent usage."""
        return self._with_spec(admission_scope=AdmissionScope(admission_mode=mode))

    def active(self, yes: bool = True, *, reason: str = "Ready", message: str = "", at: datetime = NOW) -> Self:
        """Sets the condition Active."""
        return self._with_condition(active_condition(yes, reason, message), at)

    def _with_rules(self, *rules: AdmissionCheckRule) -> Self:
        known = self.value.spec.admission_checks_strategy.admission_checks
        return self._with_spec(admission_checks_strategy=AdmissionChecksStrategy(admission_checks=(*known, *rules)))


@dataclass(frozen=True, slots=True)
class LocalQueueBuilder(Builder[LocalQueue]):
    """A LocalQueue."""

    def stopped(self, policy: StopPolicy = "Hold") -> Self:
        return self._with_spec(stop_policy=policy)

    def fair_weight(self, weight: Quantity) -> Self:
        return self._with_spec(fair_sharing=FairSharing(weight=weight))

    def active(self, yes: bool = True, *, reason: str = "Ready", message: str = "", at: datetime = NOW) -> Self:
        """Sets the condition Active."""
        return self._with_condition(active_condition(yes, reason, message), at)


@dataclass(frozen=True, slots=True)
class CohortBuilder(Builder[Cohort]):
    """A Cohort at the root, without quota of its own."""

    def parent(self, name: str) -> Self:
        return self._with_spec(parent_name=name)

    def quota(
        self,
        flavor: str,
        resources: Mapping[str, Quantity | ResourceQuota] | None = None,
        **more: Quantity | ResourceQuota,
    ) -> Self:
        """As `ClusterQueueBuilder.quota`."""
        groups = _with_flavor(self.value.spec.resource_groups, flavor_quotas(flavor, resources, **more))
        return self._with_spec(resource_groups=groups)

    def fair_weight(self, weight: Quantity) -> Self:
        return self._with_spec(fair_sharing=FairSharing(weight=weight))


@dataclass(frozen=True, slots=True)
class FlavorBuilder(Builder[ResourceFlavor]):
    """A ResourceFlavor that fits every node."""

    def topology(self, name: str = "racks") -> Self:
        """Uses that topology for its pods."""
        return self.node_labels(topology=name)._with_spec(topology_name=name)

    def node_labels(self, labels: Mapping[str, str] | None = None, **more: str) -> Self:
        return self._with_spec(node_labels={**self.value.spec.node_labels, **(labels or {}), **more})

    def taint(self, key: str, value: str = "", *, effect: str = "NoSchedule") -> Self:
        return self._with_spec(node_taints=(*self.value.spec.node_taints, Taint(key=key, value=value, effect=effect)))

    def tolerate(self, key: str, value: str = "", *, effect: str = "NoSchedule", operator: str = "Equal") -> Self:
        toleration = Toleration(key=key, value=value, effect=effect, operator=operator)
        return self._with_spec(tolerations=(*self.value.spec.tolerations, toleration))


def cluster_queue(name: str) -> ClusterQueueBuilder:
    value = ClusterQueue(metadata=metadata_of("clusterqueue", name))
    return ClusterQueueBuilder(value).namespaces(LabelSelector())


def local_queue(name: str, cluster_queue: str = "cq", *, namespace: str = "default") -> LocalQueueBuilder:
    spec = LocalQueueSpec(cluster_queue=cluster_queue)
    return LocalQueueBuilder(LocalQueue(metadata=metadata_of("localqueue", name, namespace), spec=spec))


def cohort(name: str) -> CohortBuilder:
    return CohortBuilder(Cohort(metadata=metadata_of("cohort", name)))


def flavor(name: str = "default") -> FlavorBuilder:
    return FlavorBuilder(ResourceFlavor(metadata=metadata_of("resourceflavor", name)))


def workload_priority_class(name: str, value: int) -> Builder[WorkloadPriorityClass]:
    return Builder(WorkloadPriorityClass(metadata=metadata_of("workloadpriorityclass", name), value=value))
