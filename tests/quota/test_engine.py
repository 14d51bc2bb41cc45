"""The engine from event to decision: cycles, assumptions, waking, stopping (quota-engine 9.1, 9.2, 9.12, 9.13)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue import AdmissionCheck
from multikueue.api.queues import ClusterQueue, LabelSelector
from multikueue.api.workload import Admission, Workload, workload_spec
from multikueue.quota.amounts import Accounting
from multikueue.quota.engine import Cycle, Engine
from multikueue.quota.flavors import Assignment
from multikueue.quota.waiting import Progress
from multikueue.testing import (
    NOW,
    admission_check,
    cluster_queue,
    cohort,
    flavor,
    limits,
    local_queue,
    namespace,
    pod_set,
    workload,
)
from tests.quota.builders import SECOND, Play, after, key_of, names, wants


def two_queues(first: ClusterQueue, second: ClusterQueue) -> Play:
    """LocalQueues a and b lead to the two."""
    return Play(
        first, second, local_queue("a", first.metadata.name).build(), local_queue("b", second.metadata.name).build()
    )


# --- one queue -------------------------------------------------------------------------------------------------------


def test_a_workload_that_fits_is_reserved_and_counts_at_once() -> None:
    play = Play.with_queue(cpu=10)
    play.submit(wants("a", cpu=4))

    cycle = play.engine.cycle(play.now)

    assert cycle == Cycle(reserved=(key_of("a"),), heads=1, productive=True)
    reservation = play.engine.reservation(key_of("a"))
    assert reservation
    assert reservation.cluster_queue == "cq"
    assert play.used() == "4"


def test_several_are_assumed_before_any_status_is_written() -> None:
    play = Play.with_queue(cpu=10)
    play.submit(*(wants(f"w{i}", age=9 - i, cpu=4) for i in range(4)))

    assert play.run() == ["w0", "w1"]
    assert play.used() == "8"
    assert play.engine.pending_in("cq") == (key_of("w2"), key_of("w3"))


def test_qe_005_a_refusal_says_why_once() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("a", cpu=5))

    assert play.engine.cycle(play.now) == Cycle(pending=(key_of("a"),), heads=1)
    assert play.verdict("a").endswith("current podset request (5) > maximum capacity (4)")
    verdict = play.engine.verdict(key_of("a"))
    assert verdict
    assert verdict.resource_requests[0].resources == {"cpu": "5"}
    assert play.engine.cycle(play.now) == Cycle()


def test_alike_workloads_are_refused_together() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(*(wants(f"w{i}", age=9 - i, cpu=5) for i in range(3)), wants("small", cpu=4))

    first = play.engine.cycle(play.now)

    assert names(first.pending) == ("w0", "w1", "w2")
    assert play.cycle() == ("small",)


def test_qe_314_in_a_best_effort_queue_nobody_is_blocked_by_one_that_does_not_fit() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("large", cpu=5).priority(999), wants("small", cpu=4))

    assert play.run() == ["small"]


def test_qe_322_a_strict_queue_waits_behind_its_head_until_it_is_switched() -> None:
    strict = cluster_queue("cq").quota("default", cpu=4).strict_fifo()
    play = Play(strict.build(), local_queue("lq").build())
    play.submit(wants("first", age=2, cpu=3), wants("large", age=1, cpu=2), wants("small", cpu=1))

    assert play.run() == ["first"]
    assert play.engine.next_look(play.now) == after(1)  # only the flush since the queue was made

    play.apply(cluster_queue("cq").quota("default", cpu=4).build())

    assert play.run() == ["small"]


def test_a_blocked_strict_head_is_looked_at_again_when_something_changes() -> None:
    strict = cluster_queue("cq").quota("default", cpu=4).strict_fifo()
    play = Play(strict.build(), local_queue("lq").build())
    play.submit(wants("first", age=2, cpu=3), wants("large", age=1, cpu=2))
    play.settle()
    assert play.cycle() == ()

    play.finish("first")

    assert play.engine.next_look(play.now) == play.now
    assert play.run() == ["large"]


def test_qe_323_a_blocked_strict_head_does_not_stop_another_queue_from_borrowing() -> None:
    blocked = cluster_queue("a").cohort("c").quota("default", cpu=0).strict_fifo().build()
    other = cluster_queue("b").cohort("c").quota("default", cpu=0).build()
    play = two_queues(blocked, other)
    play.apply(cluster_queue("lender").cohort("c").quota("default", cpu=4).build())
    play.submit(wants("large", queue="a", cpu=9), wants("small", queue="b", cpu=3))

    assert play.run() == ["small"]


def test_qe_074_a_head_that_waits_for_its_own_quota_keeps_it_from_those_after_it() -> None:
    owner = cluster_queue("a").cohort("c").quota("default", cpu=4).build()
    other = cluster_queue("b").cohort("c").quota("default", cpu=4).build()
    play = two_queues(owner, other)
    play.submit(wants("running", queue="b", cpu=6))
    play.settle()
    play.submit(wants("owner", queue="a", cpu=4), wants("borrower", queue="b", cpu=2))

    play.cycle()

    assert play.engine.reservation(key_of("borrower")) is None
    assert play.verdict("borrower") == "Workload no longer fits after processing another workload"


def test_who_lost_to_a_head_that_is_parked_now_is_looked_at_again_without_it() -> None:
    owner = cluster_queue("a").cohort("c").quota("default", cpu=4).build()
    other = cluster_queue("b").cohort("c").quota("default", cpu=4).build()
    play = two_queues(owner, other)
    play.submit(wants("running", queue="b", cpu=6))
    play.settle()
    play.submit(wants("owner", queue="a", cpu=4), wants("borrower", queue="b", cpu=2))

    assert play.run() == ["borrower"]


def test_who_lost_to_a_head_that_stays_is_not_looked_at_again_and_again() -> None:
    owner = cluster_queue("a").cohort("c").quota("default", cpu=4).strict_fifo().build()
    other = cluster_queue("b").cohort("c").quota("default", cpu=4).build()
    play = two_queues(owner, other)
    play.submit(wants("running", queue="b", cpu=6))
    play.settle()
    play.submit(wants("owner", queue="a", cpu=4), wants("borrower", queue="b", cpu=2))

    assert play.run() == []
    assert play.engine.cycle(play.now) == Cycle()


def test_qe_012_a_request_above_its_limit_is_refused() -> None:
    play = Play.with_queue(cpu=4)
    template = b'{"spec":{"containers":[{"resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}}]}}'
    play.submit(workload("a").queue("lq").pod_sets(pod_set().template(template)))
    play.run()

    assert play.verdict("a").startswith("resources validation failed:")


def test_qe_024_failed_checks_of_a_pending_workload_keep_it_out() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("a", cpu=1).check("mk", "Rejected"))
    play.run()

    assert play.verdict("a") == "The workload has failed admission checks"


def test_excluded_resources_do_not_count() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("a", cpu=1).request({"example.com/gpu": 1}))
    assert play.run() == []

    play = Play.with_queue(Engine(accounting=Accounting(excluded=("example.com/",))), cpu=4)
    play.submit(wants("a", cpu=1).request({"example.com/gpu": 1}))
    assert play.run() == ["a"]


# --- assuming and forgetting -----------------------------------------------------------------------------------------


def assumed() -> tuple[Play, Workload]:
    """A workload that a cycle just gave quota to, as it was before."""
    play = Play.with_queue(cpu=4)
    play.submit(wants("a", cpu=3))
    play.run()
    return play, play.workloads[key_of("a")]


def test_an_older_state_does_not_undo_an_assumption() -> None:
    play, before = assumed()
    play.see(before)
    play.see(msgspec.structs.replace(before, status=workload("a").unreserved(message="no room").build().status))

    assert play.engine.reservation(key_of("a")) is not None
    assert play.used() == "3"
    assert play.run() == []


def test_the_written_reservation_confirms_it() -> None:
    play, _ = assumed()
    play.write(key_of("a"))

    assert play.engine.reservation(key_of("a")) is None
    assert play.reserved() == ["a"]
    assert play.used() == "3"


def test_qe_004_forgetting_gives_the_head_back() -> None:
    play, _ = assumed()
    play.engine.forget(key_of("a"), play.now)

    assert play.engine.reservation(key_of("a")) is None
    assert play.used() == "0"
    assert play.run() == ["a"]


def test_forgetting_what_was_never_assumed_is_no_matter() -> None:
    play = Play.with_queue(cpu=4)
    play.engine.forget(key_of("a"), play.now)

    assert play.used() == "0"


ENDS: dict[str, Callable[[Play, Workload], None]] = {
    "finished": lambda play, before: play.finish("a"),
    "deactivated": lambda play, before: play.see(wants("a", cpu=3).inactive().build()),
    "deleted": lambda play, before: play.engine.remove_workload(key_of("a"), play.now),
    "changed to be too large": lambda play, before: play.see(wants("a", cpu=9).build()),
    "moved to a queue that does not exist": lambda play, before: play.see(wants("a", queue="x", cpu=3).build()),
    "its ClusterQueue is stopped": lambda play, before: play.apply(
        cluster_queue("cq").quota("default", cpu=4).stopped().build()
    ),
    "its LocalQueue is stopped": lambda play, before: play.apply(local_queue("lq").stopped().build()),
    "its LocalQueue is deleted": lambda play, before: play.engine.remove_local_queue(
        local_queue("lq").build().key, play.now
    ),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_assumption_ends_when_its_workload_is(end: Callable[[Play, Workload], None]) -> None:
    play, before = assumed()
    end(play, before)

    assert play.engine.reservation(key_of("a")) is None
    assert play.used() == "0"


def test_a_workload_that_was_switched_off_has_to_go_though_it_is_switched_on_again() -> None:
    """Others may have its quota by then. Once its status shows that it goes, there is nothing more to say."""
    play = Play.with_queue(cpu=4)
    running = wants("running", cpu=4).reserved("cq")
    play.see(running.build())
    play.see(running.inactive().build())
    assert play.used() == "0"
    assert play.engine.was_switched_off(key_of("running"))

    play.see(running.build())
    assert (play.used(), play.engine.was_switched_off(key_of("running"))) == ("4", True)
    play.see(running.evicted("Deactivated").build())
    assert not play.engine.was_switched_off(key_of("running"))


@pytest.mark.parametrize(
    "end",
    [
        lambda play: play.see(wants("a", cpu=4).inactive().build()),
        lambda play: play.see(wants("a", cpu=4).build()),
        lambda play: play.finish("a"),
        lambda play: play.engine.remove_workload(key_of("a"), play.now),
    ],
    ids=["off without quota", "on without quota", "finished", "deleted"],
)
def test_one_that_has_no_quota_has_none_to_give_up(end: Callable[[Play], object]) -> None:
    play = Play.with_queue(cpu=4)
    play.see(wants("a", cpu=4).reserved("cq").inactive().build())
    end(play)
    assert not play.engine.was_switched_off(key_of("a"))


# --- waking ----------------------------------------------------------------------------------------------------------


def parked() -> Play:
    """A full queue with a parked workload."""
    play = Play.with_queue(cpu=4)
    play.submit(wants("running", age=1, cpu=4))
    play.settle()
    play.submit(wants("parked", cpu=3))
    play.settle()
    play.wait(2)
    play.settle()
    return play


def test_freed_quota_wakes_parked_work_a_second_later() -> None:
    play = parked()
    assert play.engine.next_look(play.now) is None

    play.finish("running")

    assert play.engine.next_look(play.now) == play.now + SECOND
    assert play.run() == []
    play.wait(1)
    assert play.run() == ["parked"]


def test_what_comes_by_itself_overtakes_what_is_parked() -> None:
    play = parked()
    play.finish("running")
    play.submit(wants("newcomer", cpu=3))

    assert play.run() == ["newcomer"]


def test_qe_301_several_changes_in_one_tree_wake_once() -> None:
    play = parked()
    play.finish("running")
    play.wait(0.5)
    play.apply(cluster_queue("cq").quota("default", cpu=5).build())

    assert play.engine.next_look(play.now) == play.now + SECOND / 2


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
    "a deleted workload": lambda play: play.engine.remove_workload(key_of("running"), play.now),
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
    "deleted": lambda play: play.engine.remove_local_queue(local_queue("other").build().key, play.now),
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
    assert play.engine.next_look(play.now) == freed + 300 * SECOND
    play.wait(60)
    play.submit(wants("newcomer", cpu=1))
    assert play.run() == ["newcomer"]
    play.wait(240)
    assert play.run() == ["parked"]


ALSO_ENDS: dict[str, Callable[[Play], Any]] = {
    "one that ends": lambda play: play.finish("small"),
    "one that waits and goes": lambda play: play.engine.remove_workload(key_of("large"), play.now),
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
    assert play.engine.next_look(play.now) is None


def test_qe_308_a_status_write_does_not_wake_parked_work() -> None:
    play = parked()
    play.see(play.workloads[key_of("parked")])

    assert play.engine.next_look(play.now) is None


def test_a_back_off_ends_by_itself() -> None:
    play = Play.with_queue(cpu=4)
    play.wait(2)
    play.run()
    play.submit(wants("a", cpu=1).requeue_state(1, at=play.now + 5 * SECOND))
    assert play.run() == []
    assert play.engine.next_look(play.now) == play.now + 5 * SECOND

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
    play.engine.remove_cluster_queue("lender", play.now)
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
    assert play.verdict("a") == "ClusterQueue cq is inactive"

    play.apply(cohort("y").build())
    play.wait(1)

    assert play.run() == ["a"]


def test_a_deleted_cohort_takes_its_quota_along() -> None:
    play = Play(
        cohort("c").quota("default", cpu=4).build(),
        cluster_queue("cq").cohort("c").quota("default", cpu=0).build(),
        local_queue("lq").build(),
    )
    play.engine.remove_cohort("c", play.now)
    play.submit(wants("a", cpu=1))

    assert play.run() == []


# --- several queues --------------------------------------------------------------------------------------------------


def test_qe_040_heads_of_several_queues_are_judged_in_one_cycle() -> None:
    play = two_queues(
        cluster_queue("a").quota("default", cpu=10).build(), cluster_queue("b").quota("default", cpu=10).build()
    )
    play.submit(wants("one", queue="a", cpu=10), wants("two", queue="b", cpu=10))

    assert set(play.cycle()) == {"one", "two"}


def test_qe_042_of_two_heads_that_want_the_same_the_more_important_gets_it() -> None:
    play = two_queues(
        cluster_queue("a").cohort("c").quota("default", cpu=10).build(),
        cluster_queue("b").cohort("c").quota("default", cpu=10).build(),
    )
    play.submit(wants("low", queue="a", age=5, cpu=16), wants("high", queue="b", cpu=16).priority(1))

    assert play.cycle() == ("high",)
    assert play.verdict("low") == "Workload no longer fits after processing another workload"
    assert play.run() == []


def test_qe_045_those_that_stay_low_in_the_tree_go_first() -> None:
    play = Play(
        cohort("guaranteed").parent("root").quota("default", cpu=4).build(),
        cluster_queue("g").cohort("guaranteed").quota("default", cpu=0).build(),
        cluster_queue("besteffort").cohort("root").quota("default", cpu=0).build(),
        local_queue("g", "g").build(),
        local_queue("b", "besteffort").build(),
    )
    play.submit(wants("within", queue="g", cpu=4), wants("beyond", queue="b", cpu=4).priority(3))

    assert play.run() == ["within"]


def test_qe_036_what_is_not_lent_is_not_taken() -> None:
    play = two_queues(
        cluster_queue("a").cohort("lend").quota("default", cpu=limits(3, lending=2)).build(),
        cluster_queue("b").cohort("lend").quota("default", cpu=limits(2, lending=2)).build(),
    )
    play.submit(wants("first", queue="b", cpu=2))
    play.settle()
    play.submit(wants("second", queue="b", cpu=3))
    assert play.run() == []

    play.submit(wants("third", queue="b", cpu=2))
    assert play.run() == ["third"]


def test_qe_048_the_second_flavor_serves_where_the_first_is_too_small() -> None:
    play = Play(
        cluster_queue("cq").quota("default", cpu=50).quota("spot", cpu=100).build(),
        flavor("spot").build(),
        local_queue("lq").build(),
    )
    play.submit(wants("a", cpu=80))
    play.run()

    assert play.used(flavor="spot") == "80"


# --- who may enter ---------------------------------------------------------------------------------------------------


def test_where_one_pod_set_finds_no_flavor_those_before_it_try_others() -> None:
    queue = cluster_queue("cq").quota("default", cpu=4).quota("spot", cpu=4)
    play = Play(flavor("spot").taint("special").build(), queue.build(), local_queue("lq").build())
    pods = pod_set("first").request(cpu=3).tolerate("special"), pod_set("second").request(cpu=2)
    play.submit(wants("w").pod_sets(*pods))

    assert play.cycle() == ()
    assert play.verdict("w").startswith("couldn't assign flavors to pod set second: insufficient quota for cpu")
    assert play.cycle() == ("w",)
    reservation = play.engine.reservation(key_of("w"))
    assert reservation
    assert [each.flavors for each in reservation.pod_set_assignments] == [{"cpu": "spot"}, {"cpu": "default"}]


def test_a_search_that_goes_round_and_round_is_given_up_until_something_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = Play(cluster_queue("cq").quota("default", cpu=4).strict_fifo().build(), local_queue("lq").build())
    play.submit(wants("w", cpu=5))
    flips = itertools.cycle(({"cpu": 0}, {"cpu": -1}))
    monkeypatch.setattr(Assignment, "progress", lambda _self: Progress(generation=1, tried=(next(flips),)))

    looks = 0
    while looks < 50 and play.engine.next_look(play.now) == play.now:
        assert play.cycle() == ()
        looks += 1

    assert looks == 3


def test_qe_006_a_namespace_that_is_not_selected_waits_until_its_labels_match() -> None:
    selective = cluster_queue("cq").quota("default", cpu=4).namespaces(LabelSelector(match_labels={"team": "a"}))
    play = Play(selective.strict_fifo().build(), local_queue("lq").build())
    play.submit(wants("a", cpu=1))
    assert play.run() == []
    assert play.verdict("a") == "Workload namespace doesn't match ClusterQueue selector"

    play.wait(5)
    play.run()
    play.engine.set_namespace(namespace("default").labels(team="a").build(), play.now)
    assert play.engine.next_look(play.now) == play.now + SECOND
    play.wait(1)

    assert play.run() == ["a"]


def test_a_workload_of_an_unknown_namespace_waits_for_it() -> None:
    play = Play(cluster_queue("cq").quota("default", cpu=4).build(), local_queue("lq", namespace="new").build())
    play.submit(workload("a", namespace="new").queue("lq").request(cpu=1))
    assert play.run() == []

    play.engine.set_namespace(namespace("new").build(), play.now)
    play.wait(1)

    assert play.run() == ["a"]


def test_a_namespace_that_was_deleted_is_unknown() -> None:
    play = Play.with_queue(cpu=4)
    play.engine.remove_namespace("default", play.now)
    play.submit(wants("a", cpu=1))

    assert play.run() == []
    assert play.verdict("a") == "Unknown workload namespace"


def test_qe_003_a_workload_without_queue_is_left_alone_until_it_comes() -> None:
    play = Play(cluster_queue("cq").quota("default", cpu=4).build())
    play.submit(wants("a", cpu=1))
    assert play.run() == []
    assert play.engine.verdict(key_of("a")) is None

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

    assert play.engine.pending_in("small") == ()
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
    assert play.engine.pending_in("small") == ()


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
    assert play.engine.verdict(key_of("a")) is None
    assert [problem.reason for problem in play.engine.cluster_queue_problems("cq")] == ["FlavorNotFound"]

    play.apply(flavor("rare").build())
    assert play.run() == ["a"]

    play.engine.remove_flavor("rare", play.now)
    assert play.engine.is_active("cq") is False


def test_an_inactive_check_stops_its_queue() -> None:
    play = Play(cluster_queue("cq").quota("default", cpu=4).checks("mk").build(), local_queue("lq").build())
    play.submit(wants("a", cpu=1))
    play.apply(admission_check("mk").active(False).build())
    assert play.run() == []

    play.apply(admission_check("mk").active().build())
    assert play.run() == ["a"]

    play.engine.remove_check("mk", play.now)
    assert play.engine.is_active("cq") is False


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

    assert play.engine.pending_in("cq") == ()
    assert play.engine.verdict(key_of("a")) is None


def test_a_reservation_made_by_another_process_counts() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("a", cpu=3).reserved("cq"))

    assert play.used() == "3"
    play.submit(wants("b", cpu=2))
    assert play.run() == []


def test_seeing_a_reserved_workload_again_changes_nothing() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("a", cpu=3).reserved("cq"))
    play.wait(2)
    play.run()

    play.submit(wants("a", cpu=3).reserved("cq").labels(seen="again"))

    assert play.used() == "3"
    assert play.engine.next_look(play.now) is None


def test_a_queue_that_is_made_anew_knows_what_it_lent() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("a", cpu=3).reserved("cq"))
    play.engine.remove_cluster_queue("cq", play.now)
    play.apply(cluster_queue("cq").quota("default", cpu=4).build())
    play.submit(wants("b", cpu=2))

    assert play.used() == "3"
    assert play.run() == []


# --- answers ---------------------------------------------------------------------------------------------------------


def test_qe_339_required_checks_depend_on_the_flavors() -> None:
    queue = cluster_queue("cq").quota("a", cpu=1).quota("b", cpu=1).checks("all").check_on("only-b", "b")
    engine = Play(queue.build()).engine

    assert engine.required_checks("cq", ()) == ("all",)
    assert engine.required_checks("cq", ("a",)) == ("all",)
    assert engine.required_checks("cq", ("a", "b")) == ("all", "only-b")
    assert engine.required_checks("unknown", ("a",)) == ()


def test_the_status_of_a_queue_counts_what_is_assumed() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("a", age=1, cpu=3), wants("b", cpu=3))
    play.run()
    status = play.engine.cluster_queue_status("cq", play.now)

    assert (status.pending_workloads, status.reserving_workloads, status.admitted_workloads) == (1, 1, 0)
    status = play.engine.local_queue_status(local_queue("lq").build().key, play.now)
    assert (status.pending_workloads, status.reserving_workloads, status.admitted_workloads) == (1, 1, 0)
    assert status.conditions[0].reason == "Ready"


def test_unknown_names_are_answered_with_nothing() -> None:
    engine = Engine()

    assert engine.cluster_queue("x") is None
    assert engine.local_queue(key_of("x")) is None
    assert engine.pending_in("x") == ()
    assert engine.cluster_queue_problems("x") == ()
    assert engine.is_active("x") is False
    assert engine.next_look(NOW) is None
    assert engine.cycle(NOW) == Cycle()
    with pytest.raises(KeyError):
        engine.cluster_queue_status("x", NOW)


def test_removing_what_is_unknown_is_no_matter() -> None:
    engine = Engine()
    engine.remove_cluster_queue("x", NOW)
    engine.remove_local_queue(key_of("x"), NOW)
    engine.remove_cohort("x", NOW)
    engine.remove_flavor("x", NOW)
    engine.remove_check("x", NOW)
    engine.remove_namespace("x", NOW)
    engine.remove_workload(key_of("x"), NOW)

    assert engine.next_look(NOW) is None


def test_seeing_the_same_objects_again_changes_nothing() -> None:
    queue, check = cluster_queue("cq").quota("default", cpu=4).checks("mk").build(), admission_check("mk").active()
    seen: list[ClusterQueue | AdmissionCheck] = [queue, check.build()]
    play = Play(*seen, cohort("c").build(), local_queue("lq").build())
    play.wait(2)
    play.run()

    play.apply(*seen, cohort("c").build(), local_queue("lq").build(), flavor("default").build())
    play.engine.set_namespace(namespace("default").build(), play.now)

    assert play.engine.next_look(play.now) is None


# --- laws ------------------------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "cycle", "write", "forget", "finish", "delete", "deactivate", "evict", "wait"]),
        st.integers(0, 5),
        st.integers(0, 5),
    ),
    max_size=40,
)


def cohort_play() -> Play:
    play = two_queues(
        cluster_queue("a").cohort("c").quota("default", cpu=limits(5, borrowing=3, lending=4)).build(),
        cluster_queue("b").cohort("c").quota("default", cpu=4).build(),
    )
    play.apply(cohort("c").quota("default", cpu=2).build())
    return play


def act(play: Play, event: str, index: int, amount: int) -> None:
    name = f"w{index}"
    key = key_of(name)
    match event:
        case "submit" if key not in play.workloads:
            play.submit(wants(name, queue="ab"[index % 2], cpu=amount))
        case "cycle":
            play.cycle()
        case "write" if key in play.workloads:
            play.write(key)
        case "forget":
            play.engine.forget(key, play.now)
        case "finish" if key in play.workloads:
            play.finish(name)
        case "delete" if key in play.workloads:
            del play.workloads[key]
            play.engine.remove_workload(key, play.now)
        case "deactivate" if key in play.workloads:
            value = play.workloads[key]
            inactive = wants(name, queue="ab"[index % 2], cpu=amount).inactive().build()
            play.see(msgspec.structs.replace(inactive, status=value.status))
        case "evict" if key in play.workloads:
            value = play.workloads[key]
            evicted = workload(name).evicted().build().status.conditions
            conditions = (*(c for c in value.status.conditions if c.type != "Evicted"), *evicted)
            play.see(
                msgspec.structs.replace(value, status=msgspec.structs.replace(value.status, conditions=conditions))
            )
        case "wait":
            play.wait(amount / 2)


def holds(play: Play, value: Workload) -> Admission | None:
    """What a workload holds by its status or by assumption, as an observer would say."""
    if value.has("Finished") or not workload_spec(value).active:
        return None
    return play.engine.reservation(value.key) or (value.status.admission if value.has("QuotaReserved") else None)


def total(play: Play, queue: str) -> int:
    held = (holds(play, value) for value in play.workloads.values())
    assignments = (pods for each in held if each and each.cluster_queue == queue for pods in each.pod_set_assignments)
    return sum(int(pods.resource_usage["cpu"]) for pods in assignments)


@settings(max_examples=150)
@given(EVENTS)
def test_usage_is_what_the_workloads_hold_and_never_more_than_the_tree_allows(
    events: list[tuple[str, int, int]],
) -> None:
    play = cohort_play()
    for event in events:
        act(play, *event)
        used = {queue: total(play, queue) for queue in ("a", "b")}
        assert {queue: int(play.used(queue)) for queue in used} == used
        assert used["a"] <= 8
        assert max(0, used["a"] - 1) + used["b"] <= 4 + 4 + 2


@settings(max_examples=60)
@given(EVENTS)
def test_when_all_is_gone_nothing_is_left(events: list[tuple[str, int, int]]) -> None:
    play = cohort_play()
    for event in events:
        act(play, *event)
    for key in list(play.workloads):
        play.engine.remove_workload(key, play.now)
    play.wait(2)
    play.run()
    play.submit(wants("borrower", queue="a", cpu=8), wants("other", queue="b", cpu=3))

    assert play.run() == ["other", "borrower"]


@settings(max_examples=60)
@given(EVENTS)
def test_assuming_and_forgetting_restores_the_queues(events: list[tuple[str, int, int]]) -> None:
    play = cohort_play()
    for event in events:
        act(play, *event)
    before = {name: (play.used(name), play.engine.pending_in(name)) for name in ("a", "b")}
    reserved = play.engine.cycle(play.now).reserved
    for key in reserved:
        play.engine.forget(key, play.now)

    assert {name: (play.used(name), play.engine.pending_in(name)) for name in ("a", "b")} == before


# --- what others may look at -----------------------------------------------------------------------------------------


def test_who_was_not_looked_at_is_told_apart_from_who_has_to_wait_for_a_change() -> None:
    play = Play.with_queue(cpu=1)
    play.submit(wants("a", cpu=2), wants("b", cpu=1))
    lq = ObjectKey("default", "lq")
    assert play.engine.waiting_by_local_queue("cq") == (Counter({lq: 2}), Counter())
    assert play.engine.waiting("cq") == (2, 0)
    play.run()
    assert play.engine.waiting_by_local_queue("cq") == (Counter(), Counter({lq: 1}))
    assert play.engine.waiting("cq") == (0, 1)
    assert play.engine.waiting("unknown") == (0, 0)
    assert play.engine.waiting_by_local_queue("unknown") == (Counter(), Counter())


def test_in_a_queue_that_admits_nothing_nobody_is_about_to_be_looked_at() -> None:
    play = Play.with_queue(cpu=1)
    play.submit(wants("a", cpu=1))
    play.apply(cluster_queue("cq").quota("default", cpu=1).stopped().build())
    assert play.engine.waiting_by_local_queue("cq") == (Counter(), Counter({ObjectKey("default", "lq"): 1}))
    assert play.engine.waiting("cq") == (0, 1)


def test_the_line_of_a_queue_is_shown_as_it_stands_and_left_as_it_is() -> None:
    play = Play.with_queue(cpu=0)
    play.submit(wants("a", cpu=1), wants("b", cpu=1, age=5), wants("c", cpu=1).priority(9))
    play.run()
    due = play.engine.next_look(play.now)
    shown = [waiting.key.name for waiting in play.engine.waiting_in("cq")]
    assert shown == ["c", "b", "a"] == [key.name for key in play.engine.pending_in("cq")]
    assert play.engine.next_look(play.now) == due
    assert play.engine.waiting_in("unknown") == ()


def test_a_cycle_says_at_how_many_heads_it_looked() -> None:
    play = Play.with_queue(cpu=0)
    assert play.engine.cycle(play.now).heads == 0
    play.submit(wants("a", cpu=1))
    assert play.engine.cycle(play.now).heads == 1
    assert play.engine.cycle(play.now).heads == 0
