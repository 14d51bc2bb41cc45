"""The variants of a parent in the queue and in the cycle: one is admitted, and a preferred one takes its place."""

from __future__ import annotations

from datetime import datetime

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.concurrent_admission import FLAVORS_ANNOTATION, GATE
from multikueue.api.kueue.preemption_gates import with_state
from multikueue.api.kueue.workload import Admission, PodSetAssignment, Workload
from multikueue.quota.engine import Engine
from multikueue.testing import (
    ClusterQueueBuilder,
    WorkloadBuilder,
    admission_check,
    cluster_queue,
    flavor,
    local_queue,
)
from tests.quota.builders import Play, key_of, wants

QUEUE = cluster_queue("cq").quota("reserved", cpu=4).quota("spot", cpu=4)
CONCURRENT = QUEUE.concurrently()
PREEMPTING = CONCURRENT.preempt(within_cluster_queue="LowerPriority")


def play(queue: ClusterQueueBuilder = CONCURRENT, *, on: bool = True) -> Play:
    flavors = (flavor("reserved").build(), flavor("spot").build())
    local = local_queue("lq", "cq").build()
    return Play(*flavors, queue.build(), local, engine=Engine(has_variants=on))


def variant(flavor: str, *, of: str = "wl", cpu: int = 3) -> WorkloadBuilder:
    return wants(f"{of}-{flavor}", cpu=cpu).variant(of, flavor)


def opened(builder: WorkloadBuilder, at: datetime) -> Workload:
    value = builder.build()
    return replace(value, status=with_state(value.status, GATE, "Open", at))


def on(name: str, value: Play) -> str:
    """The flavor that a workload has."""
    admission = value.engine.scheduler.reservation(key_of(name)) or value.workloads[key_of(name)].status.admission
    return admission.pod_set_assignments[0].flavors["cpu"] if admission is not None else ""


def test_a_parent_does_not_queue() -> None:
    world = play()
    world.submit(wants("wl", cpu=1))
    assert world.run() == []
    assert world.engine.view.pending_in("cq") == ()


def test_with_the_gate_off_it_queues_like_others_and_so_do_they() -> None:
    world = play(on=False)
    world.submit(wants("wl", cpu=1), variant("spot"))
    assert sorted(world.run()) == ["wl", "wl-spot"]
    assert on("wl-spot", world) == "reserved"


def test_work_that_waited_before_the_queue_had_a_policy_does_not_queue_any_more() -> None:
    world = play(QUEUE)
    world.submit(wants("big", cpu=99))
    assert world.engine.view.pending_in("cq") == (key_of("big"),)
    world.apply(CONCURRENT.build())
    assert world.engine.view.pending_in("cq") == ()


LOCAL = local_queue("lq", "cq").build()


def test_what_waited_for_its_queue_to_come_is_a_parent_there() -> None:
    world = play()
    world.engine.observe(LOCAL, None, world.now)
    world.submit(wants("wl", cpu=1))
    world.apply(LOCAL)
    assert world.engine.view.pending_workload(key_of("wl")) is None
    assert world.run() == []


def test_a_parent_that_loses_its_queue_queues_by_itself_in_another_one() -> None:
    world = play()
    world.apply(cluster_queue("plain").quota("reserved", cpu=4).build())
    world.submit(wants("wl", cpu=1))
    world.engine.observe(LOCAL, None, world.now)
    world.apply(local_queue("lq", "plain").build())
    assert world.run() == ["wl"]


def test_many_parents_stay_out_of_the_queue_while_they_move_to_it() -> None:
    world = play()
    world.engine.observe(LOCAL, None, world.now)
    world.submit(*(wants(f"wl-{n}", cpu=1) for n in range(600)))
    world.apply(LOCAL)
    assert world.run() == []
    assert world.engine.view.pending_in("cq") == ()


def test_without_the_policy_a_parent_queues_by_itself() -> None:
    world = play()
    world.submit(wants("wl", cpu=1))
    world.apply(QUEUE.build())
    assert world.run() == ["wl"]


def test_without_the_policy_a_parent_whose_quota_cannot_be_read_is_in_nobodys_way() -> None:
    world = play()
    usage = PodSetAssignment(name="main", flavors={"cpu": "spot"}, resource_usage={"cpu": "one"}, count=1)
    odd = wants("odd", cpu=1).reserved().build()
    world.see(replace(odd, status=replace(odd.status, admission=Admission("cq", (usage,)))))
    world.submit(wants("wl", cpu=1))
    world.apply(QUEUE.build())
    assert world.run() == ["wl"]


def test_without_the_policy_a_parent_that_runs_has_its_quota_by_itself() -> None:
    world = play()
    spot = variant("spot").reserved(flavors={"cpu": "spot"}).admitted().build()
    world.submit(wants("wl", cpu=3).reserved(flavors={"cpu": "spot"}).admitted())
    world.see(spot)
    world.apply(QUEUE.build())
    world.engine.observe(spot, None, world.now)
    assert world.used(flavor="spot") == "3"


def test_what_runs_when_its_queue_gets_a_policy_has_its_own_quota_until_it_gives_that_up() -> None:
    world = play(QUEUE)
    running = wants("wl", cpu=3).reserved(flavors={"cpu": "spot"}).admitted()
    world.submit(running)
    world.apply(CONCURRENT.build())
    world.submit(running.evicted("ConcurrentAdmission"))
    assert world.used(flavor="spot") == "3"
    world.submit(wants("wl", cpu=3))
    assert world.used(flavor="spot") == "0"


def running_on_spot() -> tuple[Play, WorkloadBuilder, WorkloadBuilder]:
    """A parent that runs by its variant for spot, and both."""
    world = play()
    running = wants("wl", cpu=3).reserved(flavors={"cpu": "spot"}).admitted()
    spot = variant("spot").reserved(flavors={"cpu": "spot"}).admitted()
    world.submit(running)
    world.see(spot.build())
    return world, running, spot


def test_a_variant_that_is_deleted_leaves_its_quota_to_its_parent_until_that_gives_it_up() -> None:
    world, running, spot = running_on_spot()
    world.engine.observe(spot.build(), None, world.now)
    world.submit(running.evicted("ConcurrentAdmission"))
    assert world.used(flavor="spot") == "3"
    world.submit(wants("wl", cpu=3))
    assert world.used(flavor="spot") == "0"


def test_so_does_one_that_is_deactivated() -> None:
    world, running, spot = running_on_spot()
    world.see(spot.inactive().build())
    world.see(spot.inactive().evicted("Deactivated").build())
    world.submit(running.evicted("VariantEvicted"))
    assert world.used(flavor="spot") == "3"
    world.submit(wants("wl", cpu=3))
    assert world.used(flavor="spot") == "0"


def test_who_deactivates_the_parent_has_all_its_quota_given_back() -> None:
    world, running, spot = running_on_spot()
    world.submit(running.inactive())
    world.see(spot.inactive().build())
    assert world.used(flavor="spot") == "0"


def test_after_a_restart_a_parent_without_its_variant_still_has_its_quota_until_it_gives_that_up() -> None:
    world = play()
    world.submit(wants("wl", cpu=3).reserved(flavors={"cpu": "spot"}).admitted().evicted("ConcurrentAdmission"))
    assert world.used(flavor="spot") == "3"
    world.submit(wants("wl", cpu=3))
    assert world.used(flavor="spot") == "0"


@pytest.mark.parametrize("name", ["reserved", "spot"])
def test_a_variant_that_is_deleted_beside_the_one_that_runs_leaves_nothing(name: str) -> None:
    world = play()
    other = wants("other", cpu=3).variant("wl", name).reserved(flavors={"cpu": name}).build()
    world.submit(
        wants("wl", cpu=3).reserved(flavors={"cpu": "spot"}).admitted(),
        variant("spot").reserved(flavors={"cpu": "spot"}).admitted(),
    )
    world.see(other)
    world.engine.observe(other, None, world.now)
    assert (world.used(flavor="reserved"), world.used(flavor="spot")) == ("0", "3")


def test_the_quota_of_a_parent_counts_once() -> None:
    world = play()
    world.submit(
        wants("wl", cpu=3).reserved(flavors={"cpu": "spot"}).admitted(),
        variant("spot").reserved(flavors={"cpu": "spot"}).admitted(),
    )
    assert world.used(flavor="spot") == "3"


@pytest.mark.parametrize("name", ["reserved", "spot"])
def test_a_variant_gets_its_flavor_only(name: str) -> None:
    world = play()
    world.submit(variant(name))
    assert world.run() == [f"wl-{name}"]
    assert on(f"wl-{name}", world) == name


def test_so_does_any_work_that_names_flavors() -> None:
    world = play()
    world.submit(wants("other", cpu=1).variant("wl", "").annotations({FLAVORS_ANNOTATION: "spot,gone"}))
    world.run()
    assert on("other", world) == "spot"


def test_a_variant_without_room_says_which_flavors_it_leaves_out() -> None:
    world = play()
    world.submit(variant("spot", cpu=5))
    assert world.run() == []
    assert "skipping flavor reserved due to WorkloadAllowedResourceFlavorAnnotation annotation" in world.verdict(
        "wl-spot"
    )


def test_siblings_go_in_the_order_of_their_flavors() -> None:
    world = play()
    world.submit(variant("spot").uid("a"), variant("reserved").uid("b"))
    assert world.engine.view.pending_in("cq") == (key_of("wl-reserved"), key_of("wl-spot"))


def test_only_one_of_a_parent_is_admitted() -> None:
    world = play()
    world.submit(variant("reserved"), variant("spot"))
    assert world.run() == ["wl-reserved"]
    assert world.verdict("wl-spot") == "A more favorable variant is already admitted"


def test_that_one_has_quota_while_its_checks_run_keeps_nobody_back() -> None:
    world = play(CONCURRENT.checks("slow"))
    world.apply(admission_check("slow").controller("someone").active().build())
    world.submit(variant("reserved"), variant("spot"))
    assert world.run() == ["wl-reserved", "wl-spot"]


def test_the_check_that_dispatches_is_the_parents() -> None:
    world = play(CONCURRENT.checks("mk"))
    world.apply(admission_check("mk").active().build())
    world.submit(variant("reserved"), variant("spot"))
    assert world.run() == ["wl-reserved"]


def test_variants_of_another_parent_are_no_siblings() -> None:
    world = play()
    world.submit(variant("reserved"), variant("spot", of="other"))
    assert sorted(world.run()) == ["other-spot", "wl-reserved"]


def on_spot(queue: ClusterQueueBuilder = CONCURRENT) -> Play:
    """A parent that runs on spot, and whose preferred variant comes."""
    world = play(queue)
    world.submit(variant("spot").reserved(flavors={"cpu": "spot"}).admitted(), variant("reserved"))
    return world


def test_a_preferred_one_evicts_its_sibling_and_waits_for_it() -> None:
    world = on_spot()
    assert world.run() == []
    eviction = world.engine.scheduler.eviction(key_of("wl-spot"))
    assert eviction is not None
    assert "due to migration to more favorable resource flavor" in eviction.message
    assert world.verdict("wl-reserved") == ". Pending the migration of 1 workload(s)"


def test_then_it_gets_its_quota() -> None:
    world = on_spot()
    world.run()
    world.write(key_of("wl-spot"), is_holding=True)
    assert world.run() == []
    world.write(key_of("wl-spot"))
    assert world.run() == ["wl-reserved"]


STAYS = {
    "its queue retains the first admission": QUEUE.concurrently("RetainFirstAdmission"),
    "its flavor is behind the last acceptable one": (
        cluster_queue("cq")
        .quota("best", cpu=0)
        .quota("reserved", cpu=4)
        .quota("spot", cpu=4)
        .concurrently(down_to="best")
    ),
}


@pytest.mark.parametrize("queue", STAYS.values(), ids=STAYS.keys())
def test_it_evicts_nobody_where(queue: ClusterQueueBuilder) -> None:
    world = play(queue)
    world.apply(flavor("best").build())
    world.submit(variant("spot").reserved(flavors={"cpu": "spot"}).admitted(), variant("reserved"))
    assert world.run() == []
    assert world.engine.scheduler.eviction(key_of("wl-spot")) is None


# Preemption gates.


def crowded(*waiting: WorkloadBuilder) -> Play:
    """Both flavors are full of unimportant work."""
    world = play(PREEMPTING)
    for name in ("reserved", "spot"):
        world.submit(
            wants(f"low-{name}", cpu=4).variant(f"low-{name}", name).reserved(flavors={"cpu": name}).admitted()
        )
    world.submit(*waiting)
    return world


def test_behind_a_closed_gate_it_preempts_nobody() -> None:
    world = crowded(variant("reserved").priority(5))
    assert world.run() == []
    verdict = world.engine.view.verdict(key_of("wl-reserved"))
    assert verdict is not None
    assert verdict.is_gated
    assert verdict.message == "Workload requires preemption, but it's gated"
    assert world.engine.scheduler.eviction(key_of("low-reserved")) is None


def test_an_open_gate_lets_it_preempt() -> None:
    gated = variant("reserved").priority(5)
    world = crowded(gated)
    world.run()
    world.see(opened(gated, world.now))
    world.run()
    assert world.engine.scheduler.eviction(key_of("low-reserved")) is not None


def test_others_that_ask_for_the_same_are_judged_by_themselves() -> None:
    world = crowded(variant("reserved").priority(5))
    world.see(opened(variant("reserved", of="next").priority(5), world.now))
    world.run()
    assert world.engine.scheduler.eviction(key_of("low-reserved")) is not None
