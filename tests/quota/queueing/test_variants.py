"""What a queue knows of a variant."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.concurrent_admission import FLAVORS_ANNOTATION, GATE
from multikueue.api.kueue.preemption_gates import with_state
from multikueue.api.kueue.workload import Workload
from multikueue.quota.cache.catalog import Catalog
from multikueue.quota.queueing.pending_workload import PendingWorkload
from multikueue.quota.queueing.variants import variant_of
from multikueue.testing import NOW, cluster_queue, local_queue
from tests.quota.builders import waiting_of, wants


def seen(value: Workload) -> PendingWorkload:
    catalog = Catalog()
    catalog.set_queue(cluster_queue("cq").quota("reserved", cpu=1).quota("spot", cpu=1).concurrently().build())
    catalog.set_local_queue(local_queue("lq", "cq").build())
    return variant_of(waiting_of(value), catalog)


SPOT = wants("wl-spot", cpu=1).variant("wl", "spot").uid("a").build()
RESERVED = wants("wl-reserved", cpu=1).variant("wl", "reserved").uid("z").build()


def test_its_rank_is_that_of_its_flavor_among_its_siblings() -> None:
    other = wants("wl-gone", cpu=1).variant("wl", "gone").build()
    found = sorted(map(seen, (other, SPOT, RESERVED)), key=lambda each: each.rank)
    assert [each.key.name for each in found] == ["wl-reserved", "wl-spot", "wl-gone"]


def test_age_and_priority_go_first() -> None:
    older = wants("wl-spot", cpu=1, age=1).variant("wl", "spot").build()
    assert seen(older).rank < seen(RESERVED).rank


def test_its_parent_and_flavor_are_known() -> None:
    found = seen(SPOT)
    assert (found.parent, found.flavors) == ("uid-workload-default-wl", ("spot",))


def test_other_work_may_name_flavors_too() -> None:
    value = wants("wl", cpu=1).annotations({FLAVORS_ANNOTATION: "spot"}).build()
    assert (seen(value).parent, seen(value).flavors, seen(value).is_gated) == ("", ("spot",), False)
    assert seen(value).rank == waiting_of(value).rank


@pytest.mark.parametrize(("position", "is_gated"), [("Closed", True), ("Open", False)])
def test_it_is_gated_until_its_gate_is_open(position: str, is_gated: bool) -> None:
    value = replace(SPOT, status=with_state(SPOT.status, GATE, position, NOW))
    assert seen(value).is_gated is is_gated
    assert seen(SPOT).is_gated


def test_variants_for_other_flavors_ask_for_something_else() -> None:
    assert seen(SPOT).shape() != seen(RESERVED).shape()


def test_an_opened_gate_makes_it_worth_another_look() -> None:
    value = replace(SPOT, status=with_state(SPOT.status, GATE, "Open", NOW))
    assert not seen(SPOT).is_same_for_queue(seen(value))
