"""The scheduler: who of those at the heads of their queues gets quota, and what is assumed until it is written: one file, as
cycles build on each other."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec
import pytest

from multikueue.api.kueue.compatibility import Compatibility, Release
from multikueue.api.kueue.workload import Workload
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.queueing.pending_workload import Progress
from multikueue.quota.requests.amounts import Accounting
from multikueue.quota.scheduler.flavors import Assignment
from multikueue.quota.scheduler.scheduler import Cycle
from tests.builders import cluster_queue, cohort, flavor, limits, local_queue, pod_set, workload
from tests.quota.builders import Play, after, key_of, names, two_queues, wants

# --- one queue -------------------------------------------------------------------------------------------------------


def test_a_workload_that_fits_is_reserved_and_counts_at_once() -> None:
    play = Play.with_queue(cpu=10)
    play.submit(wants("a", cpu=4))

    cycle = play.engine.scheduler.cycle(play.now)

    assert cycle == Cycle(reserved=[key_of("a")], heads=1)
    reservation = play.engine.scheduler.reservation(key_of("a"))
    assert reservation
    assert reservation.cluster_queue == "cq"
    assert play.used() == "4"


def test_several_are_assumed_before_any_status_is_written() -> None:
    play = Play.with_queue(cpu=10)
    play.submit(*(wants(f"w{i}", age=9 - i, cpu=4) for i in range(4)))

    assert play.run() == ["w0", "w1"]
    assert play.used() == "8"
    assert play.engine.view.pending_in("cq") == (key_of("w2"), key_of("w3"))


def test_qe_005_a_refusal_says_why_once() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("a", cpu=5))

    assert play.engine.scheduler.cycle(play.now) == Cycle(pending=[key_of("a")], heads=1)
    assert play.verdict("a").endswith("current podset request (5) > maximum capacity (4)")
    verdict = play.engine.view.verdict(key_of("a"))
    assert verdict
    assert verdict.resource_requests[0].resources == {"cpu": "5"}
    assert play.engine.scheduler.cycle(play.now) == Cycle()


def test_alike_workloads_are_refused_together() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(*(wants(f"w{i}", age=9 - i, cpu=5) for i in range(3)), wants("small", cpu=4))

    first = play.engine.scheduler.cycle(play.now)

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
    assert play.engine.scheduler.next_look(play.now) == after(1)  # only the flush since the queue was made

    play.apply(cluster_queue("cq").quota("default", cpu=4).build())

    assert play.run() == ["small"]


def test_a_blocked_strict_head_is_looked_at_again_when_something_changes() -> None:
    strict = cluster_queue("cq").quota("default", cpu=4).strict_fifo()
    play = Play(strict.build(), local_queue("lq").build())
    play.submit(wants("first", age=2, cpu=3), wants("large", age=1, cpu=2))
    play.settle()
    assert play.cycle() == ()

    play.finish("first")

    assert play.engine.scheduler.next_look(play.now) == play.now
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

    assert play.engine.scheduler.reservation(key_of("borrower")) is None
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
    assert play.engine.scheduler.cycle(play.now) == Cycle()


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

    play = Play.with_queue(Engine(EngineRules(accounting=Accounting(excluded=("example.com/",)))), cpu=4)
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

    assert play.engine.scheduler.reservation(key_of("a")) is not None
    assert play.used() == "3"
    assert play.run() == []


def test_the_written_reservation_confirms_it() -> None:
    play, _ = assumed()
    play.write(key_of("a"))

    assert play.engine.scheduler.reservation(key_of("a")) is None
    assert play.reserved() == ["a"]
    assert play.used() == "3"


def test_qe_004_forgetting_gives_the_head_back() -> None:
    play, _ = assumed()
    play.engine.scheduler.forget(key_of("a"), play.now)

    assert play.engine.scheduler.reservation(key_of("a")) is None
    assert play.used() == "0"
    assert play.run() == ["a"]


def test_forgetting_what_was_never_assumed_is_no_matter() -> None:
    play = Play.with_queue(cpu=4)
    play.engine.scheduler.forget(key_of("a"), play.now)

    assert play.used() == "0"


ENDS: dict[str, Callable[[Play, Workload], object]] = {
    "finished": lambda play, before: play.finish("a"),
    "deactivated": lambda play, before: play.see(wants("a", cpu=3).inactive().build()),
    "deleted": lambda play, before: play.engine.observe(workload("a").build(), None, play.now),
    "changed to be too large": lambda play, before: play.see(wants("a", cpu=9).build()),
    "moved to a queue that does not exist": lambda play, before: play.see(wants("a", queue="x", cpu=3).build()),
    "its ClusterQueue is stopped": lambda play, before: play.apply(
        cluster_queue("cq").quota("default", cpu=4).stopped().build()
    ),
    "its LocalQueue is stopped": lambda play, before: play.apply(local_queue("lq").stopped().build()),
    "its LocalQueue is deleted": lambda play, before: play.engine.observe(local_queue("lq").build(), None, play.now),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_assumption_ends_when_its_workload_is(end: Callable[[Play, Workload], object]) -> None:
    play, before = assumed()
    end(play, before)

    assert play.engine.scheduler.reservation(key_of("a")) is None
    assert play.used() == "0"


def test_a_workload_that_was_switched_off_has_to_go_though_it_is_switched_on_again() -> None:
    """Others may have its quota by then. Once its status shows that it goes, there is nothing more to say."""
    play = Play.with_queue(cpu=4)
    running = wants("running", cpu=4).reserved("cq")
    play.see(running.build())
    play.see(running.inactive().build())
    assert play.used() == "0"
    assert play.engine.scheduler.was_switched_off(key_of("running"))

    play.see(running.build())
    assert (play.used(), play.engine.scheduler.was_switched_off(key_of("running"))) == ("4", True)
    play.see(running.evicted("Deactivated").build())
    assert not play.engine.scheduler.was_switched_off(key_of("running"))


@pytest.mark.parametrize(
    "end",
    [
        lambda play: play.see(wants("a", cpu=4).inactive().build()),
        lambda play: play.see(wants("a", cpu=4).build()),
        lambda play: play.finish("a"),
        lambda play: play.engine.observe(workload("a").build(), None, play.now),
    ],
    ids=["off without quota", "on without quota", "finished", "deleted"],
)
def test_one_that_has_no_quota_has_none_to_give_up(end: Callable[[Play], object]) -> None:
    play = Play.with_queue(cpu=4)
    play.see(wants("a", cpu=4).reserved("cq").inactive().build())
    end(play)
    assert not play.engine.scheduler.was_switched_off(key_of("a"))


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
    reservation = play.engine.scheduler.reservation(key_of("w"))
    assert reservation
    assert [each.flavors for each in reservation.pod_set_assignments] == [{"cpu": "spot"}, {"cpu": "default"}]


LASTING = pytest.mark.parametrize(("release", "goes_on"), [("0.19", False), ("0.19.2", True)])


@LASTING
def test_a_search_goes_on_though_quota_moves_meanwhile(release: Release, goes_on: bool) -> None:
    """Before each cycle something small ends, so that the search would start over each time."""
    engine = Engine(EngineRules(compatibility=Compatibility.of(release)))
    queue = cluster_queue("cq").quota("default", cpu="4100m").quota("spot", cpu=4)
    play = Play(flavor("spot").taint("special").build(), queue.build(), local_queue("lq").build(), engine=engine)
    play.submit(*(wants(f"small-{number}", cpu="10m") for number in range(4)))
    play.settle()
    pods = pod_set("first").request(cpu=3).tolerate("special"), pod_set("second").request(cpu=2)
    play.submit(wants("w").pod_sets(*pods))
    reserved: list[str] = []
    for number in range(4):
        play.finish(f"small-{number}")
        reserved += play.cycle()
    assert ("w" in reserved) is goes_on


@LASTING
def test_a_head_that_others_overtake_goes_on_with_its_next_flavor(release: Release, goes_on: bool) -> None:
    """Two queues want the last of what a third one lends; who loses has a flavor of its own."""
    engine = Engine(EngineRules(compatibility=Compatibility.of(release)))
    first = cluster_queue("first").cohort("all").quota("default", cpu=limits(0)).quota("own", cpu=4)
    queues = [
        cluster_queue("lender").cohort("all").quota("default", cpu=2).build(),
        cluster_queue("fast").cohort("all").quota("default", cpu=limits(0)).build(),
        first.fungibility(when_can_borrow="Borrow").build(),
    ]
    lines = local_queue("lf", "fast").build(), local_queue("ls", "first").build()
    play = Play(flavor("own").build(), *queues, *lines, engine=engine)
    play.submit(wants("slow", queue="ls", cpu=2), wants("fast", queue="lf", cpu=2, age=9))
    assert play.cycle() == ("fast",)
    waiting = play.engine.view.pending_workload(key_of("slow"))
    assert waiting
    assert (waiting.progress is not None) is goes_on
    assert play.cycle() == ("slow",)


def test_a_search_survives_that_its_queue_has_fewer_flavors() -> None:
    queue = cluster_queue("cq").quota("default", cpu=4).quota("spot", cpu=4)
    play = Play(flavor("spot").taint("special").build(), queue.build(), local_queue("lq").build())
    pods = pod_set("first").request(cpu=3).tolerate("special"), pod_set("second").request(cpu=2)
    play.submit(wants("w").pod_sets(*pods))
    assert play.cycle() == ()
    play.apply(cluster_queue("cq").quota("default", cpu=4).build())
    assert play.run() == []
    assert "insufficient" in play.verdict("w")


def test_a_search_that_goes_round_and_round_is_given_up_until_something_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = Play(cluster_queue("cq").quota("default", cpu=4).strict_fifo().build(), local_queue("lq").build())
    play.submit(wants("w", cpu=5))
    flips = itertools.cycle(({"cpu": 0}, {"cpu": -1}))
    monkeypatch.setattr(Assignment, "progress", lambda _self: Progress(generation=1, tried=(next(flips),)))

    looks = 0
    while looks < 50 and play.engine.scheduler.next_look(play.now) == play.now:
        assert play.cycle() == ()
        looks += 1

    assert looks == 3


def test_a_cycle_says_at_how_many_heads_it_looked() -> None:
    play = Play.with_queue(cpu=0)
    assert play.engine.scheduler.cycle(play.now).heads == 0
    play.submit(wants("a", cpu=1))
    assert play.engine.scheduler.cycle(play.now).heads == 1
    assert play.engine.scheduler.cycle(play.now).heads == 0
