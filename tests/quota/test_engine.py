"""What the engine makes of what is seen, and which change has whom looked at again: one file, one engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from multikueue.api.kueue.admission_checks import AdmissionCheck
from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.api.kueue.queues import ClusterQueue, LabelSelector
from multikueue.api.kueue.workload import ADMISSION_GATED_BY_ANNOTATION, WAITING_FOR_REPLACEMENT
from multikueue.api.meta import Condition
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.visibility.explain import explain
from tests.builders import NOW, admission_check, cluster_queue, cohort, flavor, local_queue, namespace, workload
from tests.quota.builders import SECOND, Play, key_of, two_queues, wants

# --- waking ----------------------------------------------------------------------------------------------------------


def parked(compatibility: Compatibility = NEWEST) -> Play:
    """A full queue with a parked workload."""
    play = Play.with_queue(Engine(EngineRules(compatibility=compatibility)), cpu=4)
    play.submit(wants("running", age=1, cpu=4))
    play.settle()
    play.submit(wants("parked", cpu=3))
    play.settle()
    play.wait(2)
    play.settle()
    return play


def test_freed_quota_wakes_parked_work_a_second_later() -> None:
    play = parked()
    assert play.engine.scheduler.next_look(play.now) is None

    play.finish("running")

    assert play.engine.scheduler.next_look(play.now) == play.now + SECOND
    assert play.run() == []
    play.wait(1)
    assert play.run() == ["parked"]


def test_a_gated_workload_holds_nobody_up_and_queues_once_its_gates_are_open() -> None:
    play = Play.with_queue(cpu=4)
    gated = wants("gated", age=1, cpu=4)
    play.submit(gated.annotations({ADMISSION_GATED_BY_ANNOTATION: "example.com/a"}), wants("free", cpu=1))
    assert play.run() == ["free"]

    play.finish("free")
    play.submit(gated)

    assert play.run() == ["gated"]


def test_a_group_that_waits_for_a_replacement_holds_nobody_up_and_queues_once_it_is_there() -> None:
    play = Play.with_queue(cpu=4)
    waits = wants("waits", age=1, cpu=4)
    play.submit(waits.condition(WAITING_FOR_REPLACEMENT, reason="PodsFailed"), wants("free", cpu=1))
    assert play.settle() == ["free"]

    play.finish("free")
    play.submit(waits.condition(WAITING_FOR_REPLACEMENT, "False", reason="PodsReady"))

    assert play.run() == ["waits"]


def test_a_gate_means_nothing_where_gates_are_off() -> None:
    play = Play.with_queue(Engine(EngineRules(should_check_gates=False)), cpu=4)
    play.submit(wants("gated", cpu=4).annotations({ADMISSION_GATED_BY_ANNOTATION: "example.com/a"}))
    assert play.run() == ["gated"]


@pytest.mark.parametrize(("cpu", "one_by_one"), [(2, False), (3, True)])
def test_what_comes_by_itself_overtakes_what_is_parked(cpu: int, one_by_one: bool) -> None:
    play = parked(replace(NEWEST, has_equivalence_classes=not one_by_one))
    play.finish("running")
    play.submit(wants("newcomer", cpu=cpu))

    assert play.run() == ["newcomer"]


def test_who_asks_for_the_same_as_what_is_parked_is_parked_unseen_with_its_verdict_until_the_next_flush() -> None:
    play = parked()
    play.finish("running")
    play.submit(wants("newcomer", age=-1, cpu=3))
    parked_for = play.engine.view.verdict(key_of("parked"))

    assert play.run() == []
    assert parked_for is not None
    assert play.engine.view.verdict(key_of("newcomer")) == parked_for
    play.wait(1)
    assert play.run() == ["parked"]


@pytest.mark.parametrize(("one_by_one", "cycles"), [(True, 3), (False, 2)])
def test_who_asks_for_the_same_as_a_head_that_fits_nowhere_is_parked_with_it(one_by_one: bool, cycles: int) -> None:
    """Between the two in the queue is one that asks for something else, and fits."""
    queue = cluster_queue("cq").quota("default", cpu=4).build()
    engine = Engine(EngineRules(compatibility=replace(NEWEST, has_equivalence_classes=not one_by_one)))
    play = Play(queue, local_queue("lq", "cq").build(), engine=engine)
    play.submit(wants("first", age=3, cpu=5), wants("other", age=2, cpu=1), wants("second", age=1, cpu=5))
    looks = 0
    while (due := engine.scheduler.next_look(play.now)) is not None and due <= play.now:
        play.cycle()
        looks += 1

    assert looks == cycles
    assert engine.view.verdict(key_of("second")) == engine.view.verdict(key_of("first"))


def test_qe_301_several_changes_in_one_tree_wake_once() -> None:
    play = parked()
    play.finish("running")
    play.wait(0.5)
    play.apply(cluster_queue("cq").quota("default", cpu=5).build())

    assert play.engine.scheduler.next_look(play.now) == play.now + SECOND / 2


WAKING: dict[str, Callable[[Play], Any]] = {
    "more quota": lambda play: play.apply(cluster_queue("cq").quota("default", cpu=8).build()),
    "QE-056 a cohort with capacity": lambda play: play.apply(
        cohort("rich").quota("default", cpu=9).build(),
        cluster_queue("cq").quota("default", cpu=4).cohort("rich").build(),
    ),
    "QE-349 reclaimed pods": lambda play: play.see(
        msgspec.structs.replace(
            play.workloads[key_of("running")],
            status=msgspec.structs.replace(
                play.workloads[key_of("running")].status,
                reclaimable_pods=workload("x").reclaimable(main=1).build().status.reclaimable_pods,
            ),
        )
    ),
    "a deleted workload": lambda play: play.engine.observe(workload("running").build(), None, play.now),
    "a deactivated workload": lambda play: play.see(wants("running", cpu=4).inactive().build()),
}


@pytest.mark.parametrize("change", WAKING.values(), ids=WAKING)
def test_parked_work_enters_after(change: Callable[[Play], Any]) -> None:
    play = parked()
    change(play)
    play.wait(1)

    assert play.run() == ["parked"]


CLOSED: dict[str, Callable[[Play], Any]] = {
    "stopped": lambda play: play.apply(local_queue("other").stopped("HoldAndDrain").build()),
    "deleted": lambda play: play.engine.observe(local_queue("other").build(), None, play.now),
}


@pytest.mark.parametrize("close", CLOSED.values(), ids=CLOSED)
def test_what_a_closed_local_queue_gives_back_wakes_nobody_for_a_long_while(close: Callable[[Play], Any]) -> None:
    """Kueue looks for those to wake by the LocalQueue, and wakes nobody at all without (quota-engine 2.3)."""
    play = Play.with_queue(cpu=4)
    play.apply(local_queue("other").build())
    play.submit(wants("running", queue="other", age=1, cpu=4))
    play.settle()
    play.submit(wants("parked", age=1, cpu=3), wants("behind", cpu=2))
    play.settle()
    close(play)
    play.wait(2)
    play.settle()
    freed = play.now

    play.finish("running")
    assert play.used() == "0"
    assert play.engine.scheduler.next_look(play.now) == freed + 300 * SECOND
    play.wait(60)
    play.submit(wants("newcomer", cpu=1))
    assert play.run() == ["newcomer"]
    play.wait(240)
    assert play.run() == ["parked"]


ALSO_ENDS: dict[str, Callable[[Play], Any]] = {
    "one that ends": lambda play: play.finish("small"),
    "one that waits and goes": lambda play: play.engine.observe(workload("large").build(), None, play.now),
    "one that waits and is switched off": lambda play: play.see(wants("large", cpu=99).inactive().build()),
}


@pytest.mark.parametrize("event", ALSO_ENDS.values(), ids=ALSO_ENDS)
def test_an_event_wakes_them_before_that(event: Callable[[Play], Any]) -> None:
    play = Play.with_queue(cpu=4)
    play.apply(local_queue("other").build())
    play.submit(wants("running", queue="other", age=1, cpu=3), wants("small", age=1, cpu=1))
    play.settle()
    play.submit(wants("parked", cpu=3), wants("large", cpu=99))
    play.wait(2)
    play.settle()
    play.apply(local_queue("other").stopped("HoldAndDrain").build())
    play.finish("running")

    event(play)
    play.wait(1)
    assert play.run() == ["parked"]
    assert play.engine.scheduler.next_look(play.now) is None


def test_qe_308_a_status_write_does_not_wake_parked_work() -> None:
    play = parked()
    play.see(play.workloads[key_of("parked")])

    assert play.engine.scheduler.next_look(play.now) is None


@pytest.mark.parametrize("has_object", [True, False], ids=["a Cohort with an object", "a Cohort without"])
def test_usage_that_a_status_tells_has_the_tree_judged_again_below(has_object: bool) -> None:
    """Another queue may have begun to borrow, and so have candidates for preemption."""
    play = Play.with_queue(cpu=4)
    play.apply(*(cohort("c").build() for _ in range(has_object)))
    queue = cluster_queue("cq").quota("default", cpu=4).cohort("c").build()
    play.apply(queue)
    play.submit(wants("running", age=1, cpu=4))
    play.settle()
    play.submit(wants("parked", cpu=3))
    play.wait(2)
    play.settle()
    assert play.engine.scheduler.next_look(play.now) is None

    for looks in (play.now + SECOND if has_object else None, None):
        status = play.engine.view.cluster_queue_status("cq", play.now)
        play.apply(msgspec.structs.replace(queue, status=status))
        assert play.engine.scheduler.next_look(play.now) == looks
        play.wait(1)
        play.settle()


def test_a_back_off_ends_by_itself() -> None:
    play = Play.with_queue(cpu=4)
    play.wait(2)
    play.run()
    play.submit(wants("a", cpu=1).requeue_state(1, at=play.now + 5 * SECOND))
    assert play.run() == []
    assert play.engine.scheduler.next_look(play.now) == play.now + 5 * SECOND

    play.wait(5)

    assert play.run() == ["a"]


def test_qe_057_capacity_in_another_branch_is_reachable() -> None:
    play = Play(
        cohort("left").parent("root").build(),
        cohort("right").parent("root").build(),
        cluster_queue("cq").cohort("left").quota("default", cpu=0).build(),
        cluster_queue("rich").cohort("right").quota("default", cpu=4).build(),
        local_queue("lq").build(),
    )
    play.submit(wants("a", cpu=4))

    assert play.run() == ["a"]


def test_qe_058_the_quota_of_a_deleted_queue_is_gone() -> None:
    play = Play(
        cluster_queue("cq").cohort("c").quota("default", cpu=0).build(),
        cluster_queue("lender").cohort("c").quota("default", cpu=4).build(),
        local_queue("lq").build(),
    )
    play.engine.observe(cluster_queue("lender").build(), None, play.now)
    play.submit(wants("a", cpu=4))

    assert play.run() == []


def test_qe_135_and_303_a_ring_of_cohorts_stops_its_queues_until_it_is_broken() -> None:
    play = Play(
        cohort("x").parent("y").build(),
        cohort("y").build(),
        cluster_queue("cq").cohort("x").quota("default", cpu=4).build(),
        local_queue("lq").build(),
    )
    play.apply(cohort("y").parent("x").build())
    play.submit(wants("a", cpu=1))
    assert play.run() == []
    assert play.verdict("a") == "ClusterQueue cq is inactive: it is below a cycle of Cohorts: x -> y -> x"

    play.apply(cohort("y").build())
    play.wait(1)

    assert play.run() == ["a"]


def test_a_deleted_cohort_takes_its_quota_along() -> None:
    play = Play(
        cohort("c").quota("default", cpu=4).build(),
        cluster_queue("cq").cohort("c").quota("default", cpu=0).build(),
        local_queue("lq").build(),
    )
    play.engine.observe(cohort("c").build(), None, play.now)
    play.submit(wants("a", cpu=1))

    assert play.run() == []


def test_qe_006_a_namespace_that_is_not_selected_waits_until_its_labels_match() -> None:
    selective = cluster_queue("cq").quota("default", cpu=4).namespaces(LabelSelector(match_labels={"team": "a"}))
    play = Play(selective.strict_fifo().build(), local_queue("lq").build())
    play.submit(wants("a", cpu=1))
    assert play.run() == []
    assert play.verdict("a") == "Workload namespace doesn't match ClusterQueue selector"

    play.wait(5)
    play.run()
    play.engine.observe(None, namespace("default").labels(team="a").build(), play.now)
    assert play.engine.scheduler.next_look(play.now) == play.now + SECOND
    play.wait(1)

    assert play.run() == ["a"]


def test_a_workload_of_an_unknown_namespace_waits_for_it() -> None:
    play = Play(cluster_queue("cq").quota("default", cpu=4).build(), local_queue("lq", namespace="new").build())
    play.submit(workload("a", namespace="new").queue("lq").request(cpu=1))
    assert play.run() == []

    play.engine.observe(None, namespace("new").build(), play.now)
    play.wait(1)

    assert play.run() == ["a"]


def test_a_namespace_that_was_deleted_is_unknown() -> None:
    play = Play.with_queue(cpu=4)
    play.engine.observe(namespace("default").build(), None, play.now)
    play.submit(wants("a", cpu=1))

    assert play.run() == []
    assert play.verdict("a") == "Unknown workload namespace"


def test_qe_003_a_workload_without_queue_is_left_alone_until_it_comes() -> None:
    play = Play(cluster_queue("cq").quota("default", cpu=4).build())
    play.submit(wants("a", cpu=1))
    assert play.run() == []
    assert play.engine.view.verdict(key_of("a")) is None

    play.apply(local_queue("lq").build())

    assert play.run() == ["a"]


def test_qe_305_a_cluster_queue_picks_up_what_waited_for_it() -> None:
    play = Play(local_queue("lq").build())
    play.submit(wants("a", cpu=1))
    play.apply(cluster_queue("cq").quota("default", cpu=4).build())

    assert play.run() == ["a"]


def test_qe_306_a_local_queue_that_moves_takes_its_work_along() -> None:
    play = Play(
        cluster_queue("small").quota("default", cpu=0).build(),
        cluster_queue("large").quota("default", cpu=4).build(),
        local_queue("lq", "small").build(),
    )
    play.submit(wants("a", cpu=1))
    assert play.run() == []

    play.apply(local_queue("lq", "large").build())

    assert play.engine.view.pending_in("small") == ()
    assert play.run() == ["a"]


def test_qe_307_a_workload_that_moves_is_looked_at_in_its_new_queue() -> None:
    play = Play(
        cluster_queue("small").quota("default", cpu=0).build(),
        cluster_queue("large").quota("default", cpu=4).build(),
        local_queue("a", "small").build(),
        local_queue("b", "large").build(),
    )
    play.submit(wants("w", queue="a", cpu=1))
    play.run()
    play.submit(wants("w", queue="b", cpu=1))

    assert play.run() == ["w"]
    assert play.engine.view.pending_in("small") == ()


def test_qe_307_a_head_that_moves_leaves_the_way_open_to_the_next() -> None:
    play = two_queues(
        cluster_queue("strict").quota("default", cpu=4).strict_fifo().build(),
        cluster_queue("large").quota("default", cpu=4).build(),
    )
    play.submit(wants("head", queue="a", age=2, cpu=5), wants("next", queue="a", age=1, cpu=4))
    assert play.run() == []
    assert play.verdict("next") == ""

    play.submit(wants("head", queue="b", age=2, cpu=5))

    assert play.run() == ["next"]


def test_qe_008_a_missing_flavor_stops_its_queue() -> None:
    play = Play(cluster_queue("cq").quota("rare", cpu=4).build(), local_queue("lq").build())
    play.submit(wants("a", cpu=1))
    assert play.run() == []
    assert play.engine.view.verdict(key_of("a")) is None
    assert [problem.reason for problem in play.engine.view.cluster_queue_problems("cq")] == ["FlavorNotFound"]

    play.apply(flavor("rare").build())
    assert play.run() == ["a"]

    play.engine.observe(flavor("rare").build(), None, play.now)
    assert play.engine.view.is_active("cq") is False


def test_an_inactive_check_stops_its_queue() -> None:
    play = Play(cluster_queue("cq").quota("default", cpu=4).checks("mk").build(), local_queue("lq").build())
    play.submit(wants("a", cpu=1))
    play.apply(admission_check("mk").active(False).build())
    assert play.run() == []

    play.apply(admission_check("mk").active().build())
    assert play.run() == ["a"]

    play.engine.observe(admission_check("mk").build(), None, play.now)
    assert play.engine.view.is_active("cq") is False


STOPS = {
    "its ClusterQueue": (
        lambda: cluster_queue("cq").quota("default", cpu=4).stopped().build(),
        lambda: cluster_queue("cq").quota("default", cpu=4).build(),
    ),
    "its LocalQueue": (lambda: local_queue("lq").stopped().build(), lambda: local_queue("lq").build()),
    "its ClusterQueue, being deleted": (
        lambda: cluster_queue("cq").quota("default", cpu=4).deleted().build(),
        lambda: cluster_queue("cq").quota("default", cpu=4).build(),
    ),
}


@pytest.mark.parametrize(("stop", "start"), STOPS.values(), ids=STOPS)
def test_qe_329_nobody_enters_while_stopped_then_by_priority(stop: Callable[[], Any], start: Callable[[], Any]) -> None:
    play = Play.with_queue(cpu=4)
    play.apply(stop())
    play.submit(wants("low", age=5, cpu=4), wants("high", cpu=4).priority(1))
    assert play.run() == []

    play.apply(start())

    assert play.run() == ["high"]


def test_qe_139_a_stopped_queue_goes_on_lending() -> None:
    play = two_queues(
        cluster_queue("a").cohort("c").quota("default", cpu=0).build(),
        cluster_queue("b").cohort("c").quota("default", cpu=4).stopped().build(),
    )
    play.submit(wants("w", queue="a", cpu=4))

    assert play.run() == ["w"]


def test_a_workload_being_deleted_waits_no_more() -> None:
    play = Play.with_queue(cpu=0)
    play.submit(wants("a", cpu=1))
    play.run()
    play.submit(wants("a", cpu=1).deleted())

    assert play.engine.view.pending_in("cq") == ()
    assert play.engine.view.verdict(key_of("a")) is None


def test_removing_what_is_unknown_is_no_matter() -> None:
    engine = Engine()
    engine.observe(cluster_queue("x").build(), None, NOW)
    engine.observe(local_queue("x").build(), None, NOW)
    engine.observe(cohort("x").build(), None, NOW)
    engine.observe(flavor("x").build(), None, NOW)
    engine.observe(admission_check("x").build(), None, NOW)
    engine.observe(namespace("x").build(), None, NOW)
    engine.observe(workload("x").build(), None, NOW)

    assert engine.scheduler.next_look(NOW) is None


def test_seeing_the_same_objects_again_changes_nothing() -> None:
    queue, check = cluster_queue("cq").quota("default", cpu=4).checks("mk").build(), admission_check("mk").active()
    seen: list[ClusterQueue | AdmissionCheck] = [queue, check.build()]
    play = Play(*seen, cohort("c").build(), local_queue("lq").build())
    play.wait(2)
    play.run()

    play.apply(*seen, cohort("c").build(), local_queue("lq").build(), flavor("default").build())
    play.engine.observe(None, namespace("default").build(), play.now)

    assert play.engine.scheduler.next_look(play.now) is None


# --- cohorts that go round ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closing", range(4))
@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("below", [0, 2], ids=["in it", "below it"])
def test_a_cycle_of_cohorts_is_named_until_it_ends(length: int, below: int, closing: int) -> None:
    """By each ClusterQueue under it and by its workloads, whichever Cohort closed it; kueue#14983."""
    names = [f"c{number}" for number in range(length)]
    words = " -> ".join((*names, names[0]))
    last = closing % length
    tree = [cohort(name).parent(names[(number + 1) % length]) for number, name in enumerate(names) if number != last]
    tree += [cohort(f"b{number}").parent(f"b{number - 1}" if number else "c0") for number in range(below)]
    homes = [f"b{below - 1}"] if below else names
    queues = [cluster_queue(f"q-{home}").cohort(home).quota("default", cpu=4) for home in homes]
    lines = [local_queue(f"l-{home}", f"q-{home}") for home in homes]
    play = Play(*(each.build() for each in (*tree, *queues, *lines)))

    def active(home: str) -> Condition:
        (condition,) = play.engine.view.cluster_queue_status(f"q-{home}", play.now).conditions
        return condition

    concerned = play.engine.observe(None, cohort(names[last]).parent(names[(last + 1) % length]).build(), play.now)
    assert {f"q-{home}" for home in homes} <= set(concerned)
    play.submit(*(wants(f"w-{home}", queue=f"l-{home}", cpu=1) for home in homes))
    assert play.settle() == []
    for home in homes:
        assert (active(home).status, active(home).reason) == ("False", "CohortCycleDetected")
        assert words in active(home).message
        assert words in play.verdict(f"w-{home}")
        told = explain(play.engine.view, key_of(f"w-{home}"), play.now)
        assert told is not None
        assert words in told.problem

    seen = cohort(names[last]).parent(names[(last + 1) % length]).build()
    concerned = play.engine.observe(seen, cohort(names[last]).build(), play.now)
    assert {f"q-{home}" for home in homes} <= set(concerned)
    play.wait(1)
    assert sorted(play.settle()) == sorted(f"w-{home}" for home in homes)
    assert {active(home).status for home in homes} == {"True"}
