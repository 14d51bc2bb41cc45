"""Problems of queues and the figures of their status (quota-scenarios 9.13, contract 1.4)."""

from __future__ import annotations

import pytest

from multikueue.api.kueue.queues import FlavorUsage, ResourceUsage
from multikueue.api.meta import Condition
from multikueue.quota.cache.reservations import QueueUsage
from multikueue.quota.cache.status import (
    PROVISIONING_CONTROLLER_NAME,
    Problem,
    cluster_queue_problems,
    cluster_queue_status,
    local_queue_status,
)
from multikueue.quota.cache.tree import quotas
from tests.builders import (
    NOW,
    AdmissionCheckBuilder,
    ClusterQueueBuilder,
    LocalQueueBuilder,
    admission_check,
    cluster_queue,
    flavor,
    local_queue,
)
from tests.quota.builders import after

FLAVORS = {each.value.metadata.name: each.build() for each in (flavor(), flavor("spot"), flavor("near").topology())}
PLAIN = cluster_queue("cq").quota("default", cpu=4)
QUOTAS = quotas(PLAIN.build().spec.resource_groups)
CHECKED = PLAIN.checks("mk")


def reasons(queue: ClusterQueueBuilder, *checks: AdmissionCheckBuilder) -> list[str]:
    known = {check.value.metadata.name: check.active().build() for check in checks}
    return [problem.reason for problem in cluster_queue_problems(queue.build(), flavors=FLAVORS, checks=known)]


MK, OTHER = admission_check("mk"), admission_check("mk2")
PROVISIONING = admission_check("prov").controller(PROVISIONING_CONTROLLER_NAME)

PROBLEMS = {
    "none": (PLAIN, (), []),
    "being deleted, whatever else": (PLAIN.stopped().deleted(), (), ["Terminating"]),
    "stopped": (PLAIN.stopped("HoldAndDrain"), (), ["Stopped"]),
    "a flavor that does not exist": (PLAIN.quota("gone", cpu=1), (), ["FlavorNotFound"]),
    "a check that does not exist": (CHECKED, (), ["AdmissionCheckNotFound"]),
    "several at once, in order": (
        CHECKED.stopped().quota("gone", cpu=1),
        (),
        ["Stopped", "FlavorNotFound", "AdmissionCheckNotFound"],
    ),
    "one MultiKueue check": (CHECKED, (MK,), []),
    "two MultiKueue checks": (CHECKED.checks("mk2"), (MK, OTHER), ["MultipleMultiKueueAdmissionChecks"]),
    "a MultiKueue check for some flavors": (
        PLAIN.quota("spot", cpu=4).check_on("mk", "default"),
        (MK,),
        ["MultiKueueAdmissionCheckAppliedPerFlavor"],
    ),
    "a MultiKueue check for all flavors, one by one": (
        PLAIN.quota("spot", cpu=4).check_on("mk", "spot", "default"),
        (MK,),
        [],
    ),
    "everything that is wrong with a MultiKueue check": (
        PLAIN.quota("spot", cpu=4).check_on("mk", "default").checks("mk2", "prov"),
        (MK, OTHER, PROVISIONING),
        [
            "MultipleMultiKueueAdmissionChecks",
            "MultiKueueAdmissionCheckAppliedPerFlavor",
            "MultiKueueWithProvisioningRequest",
        ],
    ),
    "a flavor with a topology, without MultiKueue": (PLAIN.quota("near", cpu=1), (), ["TopologyNotFound"]),
    "a flavor with a topology, placed on workers": (CHECKED.quota("near", cpu=1), (MK,), []),
    "a flavor with a topology, and provisioning": (
        PLAIN.quota("near", cpu=1).checks("prov"),
        (PROVISIONING,),
        ["TopologyNotFound"],
    ),
    "MultiKueue and provisioning": (CHECKED.checks("prov"), (MK, PROVISIONING), ["MultiKueueWithProvisioningRequest"]),
    "MultiKueue and any other check": (CHECKED.checks("prov"), (MK, PROVISIONING.controller("mine")), []),
    "provisioning for some flavors": (PLAIN.check_on("prov", "default"), (PROVISIONING,), []),
}


@pytest.mark.parametrize(("queue", "checks", "expected"), PROBLEMS.values(), ids=PROBLEMS)
def test_qe_324_what_keeps_a_queue_from_admitting(
    queue: ClusterQueueBuilder, checks: tuple[AdmissionCheckBuilder, ...], expected: list[str]
) -> None:
    assert reasons(queue, *checks) == expected


def test_qe_324_in_kueues_words() -> None:
    queue = PLAIN.quota("spot", cpu=4).quota("near", cpu=4).check_on("mk", "default").checks("mk2", "prov")
    known = {each.value.metadata.name: each.active().build() for each in (MK, OTHER, PROVISIONING)}
    found = cluster_queue_problems(queue.build(), flavors=FLAVORS, checks=known)
    assert [problem.message for problem in found] == [
        "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: mk,mk2",
        "Cannot specify MultiKueue AdmissionCheck per flavor, found: mk",
        "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: mk,mk2, prov",
    ]
    alone = cluster_queue_problems(PLAIN.quota("near", cpu=4).build(), flavors=FLAVORS, checks={})
    assert alone == (Problem("TopologyNotFound", 'there is no Topology "racks" for TAS flavor "near"'),)


def test_qe_324_an_inactive_check_is_a_problem() -> None:
    problems = cluster_queue_problems(
        CHECKED.build(), flavors={"default": flavor().build()}, checks={"mk": MK.active(False).build()}
    )

    assert problems == (Problem("AdmissionCheckInactive", "references inactive AdmissionCheck(s): mk"),)


TALLY = QueueUsage(
    reserving=3,
    admitted=1,
    reservation={("default", "cpu"): 5000, ("default", "memory"): 2**30},
    usage={("default", "cpu"): 1500},
)


def test_qe_325_figures_follow_the_order_of_the_spec_and_show_what_is_borrowed() -> None:
    queue = cluster_queue("cq").cohort("c").quota("default", memory="2Gi", cpu=4).quota("spot", {"example.com/gpu": 1})
    status = cluster_queue_status(
        queue.build(), TALLY, quotas(queue.build().spec.resource_groups), pending=2, problems=(), now=NOW
    )

    assert (status.pending_workloads, status.reserving_workloads, status.admitted_workloads) == (2, 3, 1)
    assert status.flavors_reservation == (
        FlavorUsage(
            name="default",
            resources=(
                ResourceUsage(name="cpu", total="5", borrowed="1"),
                ResourceUsage(name="memory", total="1Gi", borrowed="0"),
            ),
        ),
        FlavorUsage(name="spot", resources=(ResourceUsage(name="example.com/gpu", total="0", borrowed="0"),)),
    )
    assert status.flavors_usage[0].resources[0] == ResourceUsage(name="cpu", total="1500m", borrowed="0")


def test_without_a_cohort_nothing_is_borrowed() -> None:
    status = cluster_queue_status(PLAIN.build(), TALLY, QUOTAS, pending=0, problems=(), now=NOW)

    assert status.flavors_reservation[0].resources == (ResourceUsage(name="cpu", total="5", borrowed="0"),)


def test_an_active_queue_says_so() -> None:
    status = cluster_queue_status(PLAIN.generation(3).build(), QueueUsage(), QUOTAS, pending=0, problems=(), now=NOW)

    assert status.conditions == (
        Condition(
            type="Active",
            status="True",
            reason="Ready",
            message="Can admit new workloads",
            last_transition_time=NOW,
            observed_generation=3,
        ),
    )


def test_all_findings_are_told_under_the_most_important_reason() -> None:
    problems = (Problem("Stopped", "is stopped"), Problem("FlavorNotFound", "references missing ResourceFlavor(s): x"))
    (condition,) = cluster_queue_status(
        PLAIN.build(), QueueUsage(), QUOTAS, pending=0, problems=problems, now=NOW
    ).conditions

    assert (condition.status, condition.reason) == ("False", "Stopped")
    assert condition.message == "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): x."


def test_a_terminating_queue_has_its_own_words() -> None:
    queue = PLAIN.deleted().build()
    problems = cluster_queue_problems(queue, flavors={}, checks={})
    (condition,) = cluster_queue_status(queue, QueueUsage(), QUOTAS, pending=0, problems=problems, now=NOW).conditions

    assert condition.message == "Can't admit new workloads; clusterQueue is terminating"


def test_the_transition_time_moves_only_with_the_status() -> None:
    written = PLAIN.active().build()
    later = cluster_queue_status(
        written, QueueUsage(), QUOTAS, pending=0, problems=(Problem("Stopped", "is stopped"),), now=after(9)
    )

    assert cluster_queue_status(written, QueueUsage(), QUOTAS, pending=0, problems=(), now=after(9)).conditions[
        0
    ].last_transition_time == (NOW)
    assert later.conditions[0].last_transition_time == after(9)


def test_what_an_orchestrator_wrote_stays() -> None:
    queue = PLAIN.effective(PLAIN).build()
    status = cluster_queue_status(queue, QueueUsage(), QUOTAS, pending=0, problems=(), now=NOW)

    assert status.effective_quotas == queue.status.effective_quotas is not None


LOCAL = {
    "ready": (local_queue("lq"), True, True, ("True", "Ready", "Can submit new workloads to localQueue")),
    "stopped, whatever the ClusterQueue": (
        local_queue("lq").stopped(),
        True,
        False,
        ("False", "Stopped", "LocalQueue is stopped"),
    ),
    "without ClusterQueue": (
        local_queue("lq"),
        False,
        False,
        ("False", "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"),
    ),
    "with an inactive ClusterQueue": (
        local_queue("lq"),
        True,
        False,
        ("False", "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"),
    ),
}


@pytest.mark.parametrize(("local", "exists", "active", "expected"), LOCAL.values(), ids=LOCAL)
def test_qe_326_a_local_queue_is(
    local: LocalQueueBuilder, exists: bool, active: bool, expected: tuple[str, str, str]
) -> None:
    queue = PLAIN.build() if exists else None
    (condition,) = local_queue_status(
        local.build(), queue, QueueUsage(), pending=0, is_active=active, now=NOW
    ).conditions

    assert (condition.status, condition.reason, condition.message) == expected


def test_qe_326_a_local_queue_shows_totals_only() -> None:
    status = local_queue_status(local_queue("lq").build(), PLAIN.build(), TALLY, pending=7, is_active=True, now=NOW)

    assert (status.pending_workloads, status.reserving_workloads, status.admitted_workloads) == (7, 3, 1)
    assert status.flavors_usage == (FlavorUsage(name="default", resources=(ResourceUsage(name="cpu", total="1500m"),)),)
