"""What parents and variants are told of each other."""

from __future__ import annotations

import pytest

from multikueue.api.kueue.preemption_gates import BLOCKED
from multikueue.api.kueue.workload import PODS_READY, Finish
from multikueue.quota.workload.family import Family, family_of
from multikueue.quota.workload.family_facts import of_parent, of_variant
from multikueue.quota.workload.outcome import Verdict
from multikueue.quota.workload.readiness import WaitForPodsReady
from multikueue.testing import NOW, WorkloadBuilder, cluster_queue, workload
from tests.quota.builders import facts_of
from tests.quota.workload.steps import MINUTE

QUEUE = cluster_queue("cq").quota("reserved", cpu=1).quota("spot", cpu=9).concurrently().build().spec
PARENT = workload("wl").queue("lq").request(cpu=1)
SPOT = workload("wl-spot").queue("lq").request(cpu=1).variant("wl", "spot")
ADMITTED = SPOT.reserved(flavors={"cpu": "spot"}).admitted()
RUNNING = PARENT.reserved(flavors={"cpu": "spot"}).reclaimable(main=1).condition(PODS_READY, reason="Started")


def family(parent: WorkloadBuilder, variant: WorkloadBuilder) -> Family:
    return family_of(parent.build(), [variant.build()], QUEUE)


def test_a_parent_gets_what_its_variant_has_and_no_verdict_of_its_own() -> None:
    facts = of_parent(facts_of(NOW, verdict=Verdict("no room"), misconfiguration="odd"), family(PARENT, ADMITTED))
    assert facts.scheduling.reservation == ADMITTED.build().status.admission
    assert (facts.scheduling.verdict, facts.scheduling.misconfiguration, facts.scheduling.loss) == (None, "", None)


def test_it_loses_what_its_variant_loses() -> None:
    facts = of_parent(facts_of(NOW), family(RUNNING, ADMITTED.evicted()))
    assert facts.scheduling.loss == Finish(reason="VariantEvicted", message="Admitted variant was evicted")


HOLDING = {
    "its parent has its quota": (RUNNING, ADMITTED, True),
    "its parent has none": (PARENT, ADMITTED, False),
    "its parent has that of another": (PARENT.reserved(flavors={"cpu": "reserved"}), ADMITTED, False),
}


@pytest.mark.parametrize(("parent", "variant", "expected"), HOLDING.values(), ids=HOLDING.keys())
def test_whether_a_variant_has_to_keep_its_quota(
    parent: WorkloadBuilder, variant: WorkloadBuilder, expected: bool
) -> None:
    facts = of_variant(facts_of(NOW, is_run_by_others=True), variant.build(), family(parent, variant))
    assert (facts.job.is_holding, facts.job.is_run_by_others) == (expected, False)


def test_what_runs_by_it_tells_of_its_pods() -> None:
    facts = of_variant(facts_of(NOW), ADMITTED.build(), family(RUNNING, ADMITTED))
    assert facts.job.reclaimable == RUNNING.build().status.reclaimable_pods
    assert facts.variant.pods_ready == RUNNING.build().condition(PODS_READY)


def test_that_its_pods_are_late_is_the_parents_concern() -> None:
    late = facts_of(NOW, wait_for_pods_ready=WaitForPodsReady(timeout=MINUTE, recovery_timeout=None, limit=None))
    assert of_variant(late, ADMITTED.build(), family(RUNNING, ADMITTED)).wait_for_pods_ready is None


def test_it_ends_as_its_parent_ends() -> None:
    facts = of_variant(facts_of(NOW), ADMITTED.build(), family(RUNNING.finished(message="done"), ADMITTED))
    assert facts.job.job_finished == Finish(reason="Succeeded", message="done")


def test_it_is_told_when_it_may_preempt() -> None:
    blocked = SPOT.condition(BLOCKED, reason="PreemptionGated")
    facts = of_variant(facts_of(NOW), blocked.build(), family(PARENT, blocked))
    assert (facts.variant.opens_gate, facts.variant.gates_again_after) == (True, 5 * MINUTE)


def test_without_a_family_nothing_keeps_it() -> None:
    facts = of_variant(facts_of(NOW), ADMITTED.build(), None)
    assert (facts.job.is_holding, facts.job.job_finished, facts.variant.opens_gate) == (False, None, False)
