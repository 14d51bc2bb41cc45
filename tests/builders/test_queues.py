"""Queues, cohorts and flavors."""

from __future__ import annotations

from multikueue.api.kueue.queues import (
    AdmissionCheckRule,
    BorrowWithinCohort,
    ClusterQueueSpec,
    FairSharing,
    FlavorFungibility,
    FlavorQuotas,
    LabelSelector,
    LocalQueueSpec,
    Preemption,
    ResourceFlavorSpec,
    ResourceGroup,
    ResourceQuota,
    Taint,
    Toleration,
)
from multikueue.api.meta import is_true
from tests.builders import cluster_queue, cohort, flavor, flavor_quotas, limits, local_queue, workload_priority_class


def test_a_new_cluster_queue_is_open_to_all_and_has_nothing() -> None:
    assert cluster_queue("cq").build().spec == ClusterQueueSpec(namespace_selector=LabelSelector())


def test_flavors_for_the_same_resources_share_a_group() -> None:
    built = cluster_queue("cq").quota("spot", cpu=10, memory="1Gi").quota("on-demand", cpu=5, memory="2Gi").build()
    [group] = built.spec.resource_groups
    assert group.covered_resources == ("cpu", "memory")
    assert [each.name for each in group.flavors] == ["spot", "on-demand"]


def test_flavors_for_other_resources_get_a_group_of_their_own() -> None:
    built = (
        cluster_queue("cq").quota("default", cpu=10).quota("a100", {"nvidia.com/gpu": 8}).quota("spot", cpu=1).build()
    )
    assert [(group.covered_resources, len(group.flavors)) for group in built.spec.resource_groups] == [
        (("cpu",), 2),
        (("nvidia.com/gpu",), 1),
    ]


def test_quotas_may_have_limits() -> None:
    built = cluster_queue("cq").quota("default", cpu=limits(10, borrowing=5, lending=0)).build()
    assert built.spec.resource_groups[0].flavors[0] == FlavorQuotas(
        name="default", resources=(ResourceQuota(name="cpu", nominal_quota=10, borrowing_limit=5, lending_limit=0),)
    )


def test_a_group_may_be_given_whole() -> None:
    spot, default = flavor_quotas("spot", cpu=1), flavor_quotas("default", cpu=2)
    built = cluster_queue("cq").resource_group(spot, default).build()
    assert built.spec.resource_groups == (ResourceGroup(covered_resources=("cpu",), flavors=(spot, default)),)


def test_the_rest_of_a_cluster_queue() -> None:
    selector = LabelSelector(match_labels={"team": "a"})
    built = (
        cluster_queue("cq")
        .cohort("team")
        .strict_fifo()
        .namespaces(selector)
        .checks("mk", "other")
        .check_on("prov", "spot")
        .preempt(
            within_cluster_queue="LowerPriority",
            reclaim_within_cohort="Any",
            borrow_within_cohort=BorrowWithinCohort(policy="LowerPriority", max_priority_threshold=5),
        )
        .fungibility(when_can_borrow="TryNextFlavor", preference="BorrowingOverPreemption")
        .stopped("HoldAndDrain")
        .fair_weight(2)
        .build()
    )
    spec = built.spec
    assert (spec.cohort_name, spec.queueing_strategy, spec.stop_policy) == ("team", "StrictFIFO", "HoldAndDrain")
    assert spec.namespace_selector == selector
    assert spec.admission_checks_strategy.admission_checks == (
        AdmissionCheckRule(name="mk"),
        AdmissionCheckRule(name="other"),
        AdmissionCheckRule(name="prov", on_flavors=("spot",)),
    )
    assert spec.preemption == Preemption(
        within_cluster_queue="LowerPriority",
        reclaim_within_cohort="Any",
        borrow_within_cohort=BorrowWithinCohort(policy="LowerPriority", max_priority_threshold=5),
    )
    assert spec.flavor_fungibility == FlavorFungibility(
        when_can_borrow="TryNextFlavor", preference="BorrowingOverPreemption"
    )
    assert spec.fair_sharing == FairSharing(weight=2)


def test_a_closed_cluster_queue() -> None:
    assert cluster_queue("cq").namespaces(None).build().spec.namespace_selector is None


def test_a_local_queue() -> None:
    built = local_queue("main", "cq").stopped().fair_weight("0.5").active().build()
    assert built.spec == LocalQueueSpec(cluster_queue="cq", stop_policy="Hold", fair_sharing=FairSharing(weight="0.5"))
    assert is_true(built.status.conditions, "Active")


def test_active_may_be_false() -> None:
    built = cluster_queue("cq").active().active(False, reason="Stopped", message="on hold").build()
    [active] = built.status.conditions
    assert (active.status, active.reason, active.message) == ("False", "Stopped", "on hold")


def test_a_cohort() -> None:
    built = cohort("team").parent("root").quota("default", cpu=3).fair_weight(1).build()
    assert (built.spec.parent_name, built.spec.fair_sharing) == ("root", FairSharing(weight=1))
    assert built.spec.resource_groups[0].flavors == (flavor_quotas("default", cpu=3),)


def test_a_flavor() -> None:
    built = (
        flavor("spot")
        .node_labels({"example.com/x": "1"}, zone="a")
        .taint("spot", "yes", effect="NoExecute")
        .tolerate("gpu", operator="Exists")
        .build()
    )
    assert built.spec == ResourceFlavorSpec(
        node_labels={"example.com/x": "1", "zone": "a"},
        node_taints=(Taint(key="spot", value="yes", effect="NoExecute"),),
        tolerations=(Toleration(key="gpu", operator="Exists", effect="NoSchedule"),),
    )


def test_a_priority_class() -> None:
    assert workload_priority_class("high", 1000).build().value == 1000
