"""Rules of parents and variants (KEP 8691): the parent loses what its variant loses, and variants take turns to preempt."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.concurrent_admission import GATE
from multikueue.api.kueue.preemption_gates import BLOCKED, opened_at, states, with_state
from multikueue.api.kueue.unadmitted import ADMISSION_GATED
from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    PODS_READY,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    Finish,
    Workload,
)
from multikueue.api.meta import ObjectKey
from multikueue.quota.workload.lifecycle import VariantFacts, step
from multikueue.quota.workload.outcome import Cause, Eviction, Verdict
from multikueue.quota.workload.reasons import Reasons
from multikueue.testing import NOW, WorkloadBuilder
from tests.quota.builders import SECOND
from tests.quota.workload.steps import ADMISSION, MINUTE, facts, shown, taken, workload

VARIANT = workload().variant("parent", "spot")
MIGRATION = Eviction(ObjectKey("default", "wl"), Cause.MIGRATION, "a better one comes", by="cq")


def after(builder: WorkloadBuilder, **known: Any) -> Workload:
    value = builder.build()
    return shown(value, taken(builder, facts(**known)).status)


def opened(builder: WorkloadBuilder) -> Workload:
    value = builder.build()
    return replace(value, status=with_state(value.status, GATE, "Open", NOW))


def reason(value: Workload, type_: str) -> str:
    found = value.condition(type_)
    assert found is not None
    return found.reason


def test_a_parent_is_evicted_when_its_variant_is() -> None:
    value = after(workload().admitted(), loss=Finish(reason="VariantEvicted", message="it was"), is_holding=True)
    assert value.has(EVICTED)
    assert (reason(value, EVICTED), value.has(ADMITTED)) == ("VariantEvicted", True)


@pytest.mark.parametrize("why", ["VariantEvicted", "ConcurrentAdmission"])
def test_a_parent_that_has_lost_its_variant_may_queue_by_itself_if_ever_it_has_to(why: str) -> None:
    value = after(workload().admitted().evicted(why))
    assert (value.has(QUOTA_RESERVED), value.has(REQUEUED)) == (False, True)


def test_a_migration_evicts_a_variant_for_its_sibling_and_is_no_preemption() -> None:
    value = after(VARIANT.admitted(), preemption=MIGRATION, is_holding=True)
    assert (reason(value, EVICTED), value.condition(PREEMPTED)) == ("FlavorMigration", None)


def test_it_waits_for_its_parent_and_then_stays_out_of_the_queue_for_a_while() -> None:
    gone = shown(VARIANT.build(), after(VARIANT.admitted().evicted("FlavorMigration")).status)
    told = gone.condition(REQUEUED)
    assert told is not None
    assert (gone.has(QUOTA_RESERVED), told.status, told.reason) == (False, "False", "FlavorMigration")
    since = told.last_transition_time
    assert since is not None
    early = step(gone, facts(since + MINUTE))
    assert (early.status, early.again_after) == (gone.status, 4 * MINUTE)
    late = shown(gone, step(gone, facts(since + 5 * MINUTE)).status)
    assert late.has(REQUEUED)


def test_a_gate_that_is_in_the_way_is_told() -> None:
    value = after(VARIANT, verdict=Verdict("gated", is_gated=True))
    assert value.has(BLOCKED)
    assert reason(value, BLOCKED) == "PreemptionGated"


def test_in_a_word_it_is_gated_and_no_admission_gate_is_said_to_open() -> None:
    granular = Reasons(is_granular=True)
    verdict = Verdict("gated", reason=granular.of(ADMISSION_GATED), is_gated=True)
    value = shown(VARIANT.build(), step(VARIANT.build(), facts(verdict=verdict, reasons=granular)).status)
    again = step(value, facts(verdict=verdict, reasons=granular))
    assert reason(value, QUOTA_RESERVED) == "AdmissionGated"
    assert (again.status, again.events) == (value.status, ())


def test_other_verdicts_say_nothing_of_gates() -> None:
    assert after(VARIANT, verdict=Verdict("no room")).condition(BLOCKED) is None


def test_the_gate_of_the_one_whose_turn_it_is_opens() -> None:
    now = NOW + 100 * SECOND
    found = step(VARIANT.build(), facts(now, variant=VariantFacts(opens_gate=True, gates_again_after=MINUTE)))
    assert opened_at(shown(VARIANT.build(), found.status), GATE) == now
    assert found.again_after == MINUTE
    assert [event.reason for event in found.events] == ["PreemptionUngatedVariant"]


def test_with_quota_it_is_blocked_no_more() -> None:
    value = after(VARIANT.condition(BLOCKED, reason="PreemptionGated"), reservation=ADMISSION)
    assert value.has(QUOTA_RESERVED)
    assert not value.has(BLOCKED)


EVICTIONS = {
    "by a preferred sibling": MIGRATION,
    "by work of more priority": replace(MIGRATION, cause=Cause.IN_QUEUE),
}


@pytest.mark.parametrize("eviction", EVICTIONS.values(), ids=EVICTIONS.keys())
def test_an_eviction_closes_its_gate(eviction: Eviction) -> None:
    value = step(opened(VARIANT.admitted()), facts(preemption=eviction, is_holding=True)).status
    assert [(each.name, each.position) for each in states(value)] == [(GATE, "Closed")]


def test_its_pods_are_those_of_its_parent() -> None:
    ready = workload().condition(PODS_READY, reason="Started").build().condition(PODS_READY)
    value = after(VARIANT.admitted(), variant=VariantFacts(pods_ready=ready))
    assert value.has(PODS_READY)
    assert reason(value, PODS_READY) == "Started"
