"""The engine and preemption: victims keep their quota until they have gone; one file (quota-engine 3.7, 4.3)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.api.kueue.queues import BorrowWithinCohort
from multikueue.api.kueue.workload import (
    ADMITTED,
    ELASTIC_ANNOTATION,
    EVICTED,
    PREEMPTED,
    QUOTA_RESERVED,
    REPLACES_ANNOTATION,
    REQUEUED,
    Workload,
)
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.preemption.fair import FairPreemption
from tests.builders import (
    NOW,
    ClusterQueueBuilder,
    WorkloadBuilder,
    cluster_queue,
    cohort,
    flavor,
    limits,
    local_queue,
    pod_set,
    workload,
)
from tests.quota.builders import Play, key_of, wants

LOWER: dict[str, Any] = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "LowerPriority"}


def queue(name: str, cpu: Any, *, rules: dict[str, Any] | None = None) -> ClusterQueueBuilder:
    return cluster_queue(name).cohort("all").quota("default", cpu=cpu).preempt(**(rules or LOWER))


def one(cpu: int = 4, engine: Engine | None = None) -> Play:
    """One queue with preemption by priority."""
    return Play(queue("cq", cpu).build(), local_queue("lq", "cq").build(), engine=engine)


def conditions(value: Workload) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in value.status.conditions}


def settle(play: Play) -> None:
    """Cycles and writes until nothing changes; whoever is evicted goes on running."""
    while True:
        play.run()
        if not [key for key in list(play.workloads) if play.write(key, is_holding=True)]:
            return


def stop(play: Play, name: str) -> None:
    """The pods of an evicted workload are gone."""
    assert play.write(key_of(name))
    settle(play)


def pressed() -> Play:
    """A weak workload has all the quota, a strong one wants it."""
    play = one()
    play.submit(wants("low", cpu=4).priority(-1))
    settle(play)
    play.submit(wants("high", cpu=4).priority(1))
    return play


def test_a_cycle_names_whom_it_evicts_and_the_engine_knows_why_until_it_is_written() -> None:
    play = pressed()
    cycle = play.engine.scheduler.cycle(play.now)

    assert (cycle.evicted, cycle.reserved, cycle.pending) == ([key_of("low")], [], [key_of("high")])
    assert cycle.is_productive
    eviction = play.engine.scheduler.eviction(key_of("low"))
    assert eviction
    assert eviction.cause.value == "InClusterQueue"
    assert eviction.message.endswith("preemptor path: /all/cq; preemptee path: /all/cq")

    play.write(key_of("low"), is_holding=True)
    assert play.engine.scheduler.eviction(key_of("low")) is None


def test_the_victim_is_told_keeps_its_quota_while_it_runs_and_queues_again_when_it_has_stopped() -> None:
    play = pressed()
    settle(play)

    assert conditions(play.workloads[key_of("low")]) == {
        QUOTA_RESERVED: ("True", QUOTA_RESERVED),
        ADMITTED: ("True", ADMITTED),
        EVICTED: ("True", "Preempted"),
        PREEMPTED: ("True", "InClusterQueue"),
    }
    assert play.used() == "4"
    assert play.verdict("high").endswith("Pending the preemption of 1 workload(s)")
    play.wait(1)
    settle(play)
    assert play.engine.scheduler.next_look(play.now) is None  # it waits without being looked at again and again

    stop(play, "low")
    assert play.reserved() == ["high"]
    found = conditions(play.workloads[key_of("low")])
    assert (found[REQUEUED], found[QUOTA_RESERVED]) == (("True", "Preempted"), ("False", "Pending"))
    assert play.engine.view.pending_in("cq") == (key_of("low"),)


def test_the_eviction_is_counted_in_the_status_and_past_with_the_next_reservation() -> None:
    play = pressed()
    settle(play)
    stop(play, "low")
    play.finish("high")
    play.wait(1)
    settle(play)

    found = play.workloads[key_of("low")]
    assert found.status.scheduling_stats
    assert [(each.reason, each.underlying_cause, each.count) for each in found.status.scheduling_stats.evictions] == [
        ("Preempted", "", 1)
    ]
    assert conditions(found)[EVICTED] == ("False", QUOTA_RESERVED)
    assert conditions(found)[PREEMPTED] == ("False", QUOTA_RESERVED)
    message = next(each.message for each in found.status.conditions if each.type == PREEMPTED)
    assert message.startswith("Previously: Preempted to accommodate")


def test_a_reservation_that_is_not_written_yet_can_be_taken_back() -> None:
    play = one()
    play.submit(wants("low", cpu=4).priority(-1))
    assert play.run() == ["low"]
    play.submit(wants("high", cpu=4).priority(1))
    play.run()

    first = play.step(key_of("low"))
    assert first.again_after == timedelta()  # the reservation must be seen before it can end
    play.write(key_of("low"))
    assert conditions(play.workloads[key_of("low")])[QUOTA_RESERVED][0] == "True"
    play.settle()
    assert play.reserved() == ["high"]


def test_if_it_cannot_be_written_at_all_the_eviction_is_void_too() -> None:
    play = one()
    play.submit(wants("low", cpu=4).priority(-1))
    play.run()
    play.submit(wants("high", cpu=4).priority(1))
    play.run()
    play.engine.scheduler.forget(key_of("low"), play.now)

    assert play.engine.scheduler.eviction(key_of("low")) is None
    assert play.run() == ["high"]


def test_a_victim_that_goes_for_another_reason_needs_no_eviction() -> None:
    play = pressed()
    play.run()
    play.finish("low")

    assert play.engine.scheduler.eviction(key_of("low")) is None
    assert play.run() == ["high"]


def test_who_waits_for_victims_stays_the_head_of_a_best_effort_queue() -> None:
    play = one()
    play.submit(wants("low", cpu=2).priority(-1), wants("mid", cpu=2))
    settle(play)
    play.submit(wants("first", cpu=4).priority(1))
    settle(play)
    play.submit(wants("second", cpu=2).priority(9))
    settle(play)
    assert play.engine.view.pending_in("cq") == (key_of("first"), key_of("second"))

    stop(play, "low")
    assert play.reserved() == ["mid"]  # what is free now is kept for the first
    stop(play, "mid")
    assert play.reserved() == ["first"]


def test_but_not_after_it_was_deleted() -> None:
    play = one()
    play.submit(wants("low", cpu=4).priority(-1))
    settle(play)
    play.submit(wants("first", cpu=4).priority(1))
    settle(play)
    play.submit(wants("second", cpu=4).priority(9))
    play.engine.observe(workload("first").build(), None, play.now)
    del play.workloads[key_of("first")]
    settle(play)

    stop(play, "low")
    assert play.reserved() == ["second"]


def test_a_preemptor_takes_what_is_enough_by_now() -> None:
    play = one(6)
    play.submit(wants("a", cpu=3).priority(-1), wants("b", cpu=3))
    settle(play)
    play.submit(wants("high", cpu=4).priority(1))
    settle(play)
    play.apply(queue("cq", 7).build())  # now one of them would do, but both are told already
    play.wait(1)
    settle(play)

    assert play.verdict("high").endswith("Pending the preemption of 1 workload(s)")
    stop(play, "a")
    assert "high" in play.reserved()


def test_heads_that_lose_by_what_they_would_have_evicted_are_counted() -> None:
    play = Play(
        *(queue(name, cpu).build() for name, cpu in (("a", 2), ("b", 2), ("c", 0))),
        *(local_queue(name, name).build() for name in "abc"),
    )
    play.submit(wants("low", queue="c", cpu=4).priority(-1))
    settle(play)
    play.submit(wants("x", queue="a", cpu=2, age=2), wants("y", queue="b", cpu=2, age=1))
    assert play.engine.scheduler.cycle(play.now).skips == {"b": 1}


@pytest.mark.parametrize("fair", [False, True], ids=["by priority", "fair"])
def test_two_heads_do_not_both_get_the_room_of_one_beside_a_victim_that_still_runs(fair: bool) -> None:
    """Kueue reckons with the victim's quota for both, as somebody waits for it in the same cycle."""
    play = Play(
        *(queue(name, cpu).build() for name, cpu in (("a", limits(4, borrowing=0)), ("b", 0), ("c", 2), ("d", 4))),
        *(local_queue(name, name).build() for name in "abc"),
        engine=Engine(EngineRules(fair_sharing=FairPreemption() if fair else None)),
    )
    play.submit(wants("low", queue="a", cpu=4).priority(-1), wants("other", queue="b", cpu=2))
    settle(play)
    play.submit(wants("high", queue="a", cpu=1).priority(1))
    settle(play)
    assert EVICTED in conditions(play.workloads[key_of("low")])
    play.submit(wants("x", queue="c", cpu=3), wants("y", queue="b", cpu=4))
    settle(play)
    held = {key.name for key, each in play.workloads.items() if each.has(QUOTA_RESERVED)}
    assert held - {"low", "other"} in ({"x"}, {"y"})


def test_workloads_of_a_held_queue_are_no_victims() -> None:
    play = Play(
        queue("a", 4).build(),
        queue("b", 0).build(),
        *(local_queue(name, name).build() for name in "ab"),
    )
    play.submit(wants("low", queue="b", cpu=4).priority(-1))
    settle(play)
    play.apply(queue("b", 0).stopped("Hold").build())
    play.submit(wants("x", queue="a", cpu=2))
    settle(play)
    assert EVICTED not in conditions(play.workloads[key_of("low")])


def test_shares_are_shown_where_sharing_is_fair() -> None:
    fair = Engine(EngineRules(fair_sharing=FairPreemption()))
    play = Play(
        cohort("all").build(),
        queue("a", 1).build(),
        queue("b", 3).build(),
        local_queue("lq", "a").build(),
        engine=fair,
    )
    play.submit(wants("w", cpu=2))
    settle(play)
    shown = fair.view.cluster_queue_status("a", NOW).fair_sharing
    assert shown
    assert shown.weighted_share == 250
    assert fair.view.cohorts_above("a") == ("all",)
    cohort_share = fair.view.cohort_status("all").fair_sharing
    assert cohort_share
    assert cohort_share.weighted_share == 0
    assert Play(queue("a", 1).build()).engine.view.cluster_queue_status("a", NOW).fair_sharing is None


# What holds for all.

POLICY = st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
LIMIT = st.none() | st.integers(0, 4)


@st.composite
def plays(draw: st.DrawFn) -> tuple[Play, list[WorkloadBuilder]]:
    """Four queues below two cohorts, and some workloads for them."""
    fair = FairPreemption() if draw(st.booleans()) else None
    objects: list[Any] = [
        cohort("all").quota("default", cpu=draw(st.integers(0, 3))).build(),
        cohort("part")
        .parent("all")
        .quota("default", cpu=limits(draw(st.integers(0, 3)), borrowing=draw(LIMIT), lending=draw(LIMIT)))
        .build(),
    ]
    for name in "abcd":
        reclaim = draw(st.sampled_from(["Never", "LowerPriority", "Any"]))
        rules = {
            "within_cluster_queue": draw(POLICY),
            "reclaim_within_cohort": reclaim,
            "borrow_within_cohort": BorrowWithinCohort(policy="LowerPriority")
            if reclaim != "Never" and draw(st.booleans())
            else None,
        }
        nominal = draw(st.integers(0, 4))
        quota = limits(nominal, borrowing=draw(LIMIT), lending=draw(st.none() | st.integers(0, nominal)))
        builder = queue(name, quota, rules=rules).cohort(draw(st.sampled_from(["all", "part"])))
        objects += [
            (builder.strict_fifo() if draw(st.booleans()) else builder).build(),
            local_queue(name, name).build(),
        ]
    workloads = [
        wants(f"w{number}", queue=draw(st.sampled_from("abcd")), age=20 - number, cpu=draw(st.integers(1, 4))).priority(
            draw(st.integers(-1, 2))
        )
        for number in range(draw(st.integers(1, 10)))
    ]
    return Play(*objects, engine=Engine(EngineRules(fair_sharing=fair))), workloads


def assert_within_quota(play: Play) -> None:
    for name in "abcd":
        node = play.engine._cache.forest.queue(name)  # what the tree allows is asked of the tree
        assert node
        for each in (node, *node.ancestors()):
            cell = each.cells[("default", "cpu")]
            limit = cell.quota.borrowing_limit
            if cell.parent is None:
                assert cell.usage <= cell.subtree
            elif limit is not None:
                assert cell.usage <= cell.subtree + limit


@settings(max_examples=60)
@given(plays(), st.data())
def test_usage_never_exceeds_what_the_tree_allows_whoever_comes_and_goes(
    found: tuple[Play, list[WorkloadBuilder]], data: st.DataObject
) -> None:
    play, workloads = found
    for builder in workloads:
        play.submit(builder)
        settle(play)
        assert_within_quota(play)
        evicted = [key for key, value in play.workloads.items() if value.has(EVICTED) and value.has(QUOTA_RESERVED)]
        someone_stops: bool = data.draw(st.booleans())
        if evicted and someone_stops:
            stop(play, data.draw(st.sampled_from(evicted)).name)
            play.wait(1)
            settle(play)
            assert_within_quota(play)


@settings(max_examples=30)
@given(plays())
def test_the_tree_agrees_with_a_recount_of_all_reservations(found: tuple[Play, list[WorkloadBuilder]]) -> None:
    play, workloads = found
    for builder in workloads:
        play.submit(builder)
        settle(play)
    engine = play.engine
    shown = {name: usage_of(engine, name) for name in "abcd"}
    engine._cache.forest.stale = True  # the next cycle rebuilds it
    engine.scheduler.cycle(play.now)
    assert {name: usage_of(engine, name) for name in "abcd"} == shown


def usage_of(engine: Engine, name: str) -> list[int]:
    node = engine._cache.forest.queue(name)
    assert node
    return [each.cells[("default", "cpu")].usage for each in (node, *node.ancestors())]


def test_a_head_that_waits_for_one_flavor_takes_another_that_becomes_free() -> None:
    """In one flavor each resource could be had, but not both; in the other somebody goes for it."""
    own = cluster_queue("own").cohort("all").quota("default", cpu=4, gpu=0).quota("spot", cpu=4, gpu=1)
    other = cluster_queue("other").cohort("all").quota("default", cpu=0, gpu=4).quota("spot", cpu=0, gpu=0)
    play = Play(
        flavor("spot").build(),
        own.strict_fifo()
        .preempt(reclaim_within_cohort="LowerPriority")
        .fungibility(when_can_preempt="MayStopSearch")
        .build(),
        other.build(),
        *(local_queue(name, name).build() for name in ("own", "other")),
    )
    play.submit(*(wants(f"guest{n}", queue="other", age=9 - n, cpu=4) for n in (1, 2)))
    settle(play)
    play.submit(wants("head", queue="own", cpu=4, gpu=1).priority(1))
    settle(play)
    assert [key.name for key, each in play.workloads.items() if each.has(EVICTED)] == ["guest2"]

    play.finish("guest1")

    assert play.run() == ["head"]
    assert play.used("own", "default") == "4"


# Fair sharing over several rounds.


def fair_play(*queues: ClusterQueueBuilder, cpu: int) -> Play:
    names = [each.build().metadata.name for each in queues]
    return Play(
        cohort("all").quota("default", cpu=cpu).build(),
        *(each.build() for each in queues),
        *(local_queue(name, name).build() for name in names),
        engine=Engine(EngineRules(fair_sharing=FairPreemption())),
    )


ANY: dict[str, Any] = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "Any"}


def evicted(play: Play) -> list[str]:
    return sorted(key.name for key, value in play.workloads.items() if value.has(EVICTED))


def test_qe_237_a_strong_head_that_asks_for_too_much_does_not_stand_in_the_way_of_a_fair_one() -> None:
    play = fair_play(queue("p1", 0, rules=ANY), queue("p2", 0, rules=ANY), cpu=9)
    play.submit(*(wants(f"a{number}", queue="p1", cpu=2, age=9 - number) for number in range(1, 5)))
    settle(play)
    play.submit(wants("greedy", queue="p2", cpu=6).priority(999))
    settle(play)
    assert evicted(play) == []

    play.submit(wants("fair", queue="p2", cpu=5))
    settle(play)
    assert len(evicted(play)) == 2
    for name in evicted(play):
        stop(play, name)
    assert "fair" in play.reserved()
    assert [play.engine.view.queue_share(name) for name in ("p1", "p2")] == [(False, 4000 / 9), (False, 5000 / 9)]


def test_qe_242_queues_without_weight_do_not_take_from_each_other_in_turns() -> None:
    nothing = [queue(name, 0, rules=ANY).fair_weight(0) for name in "ab"]
    play = fair_play(*nothing, cpu=8)
    play.submit(wants("a-strong", queue="a", cpu=4, age=3).priority(9001))
    play.submit(wants("a-weak", queue="a", cpu=4, age=2).priority(100))
    settle(play)
    play.submit(wants("b", queue="b", cpu=4, age=1).priority(100))
    settle(play)
    assert evicted(play) == ["a-weak"]

    stop(play, "a-weak")
    play.wait(1)
    settle(play)
    assert sorted(play.reserved()) == ["a-strong", "b"]
    assert evicted(play) == ["a-weak"]


def test_qe_258_shares_settle_where_they_are_equal() -> None:
    play = fair_play(queue("a", 3, rules=ANY), queue("b", 1, rules=ANY), queue("shared", 4, rules=ANY), cpu=0)
    play.submit(*(wants(f"a{number}", queue="a", cpu=1, age=30 - number) for number in range(8)))
    settle(play)
    assert play.engine.view.queue_share("a") == (False, 625.0)

    play.submit(*(wants(f"b{number}", queue="b", cpu=1, age=9 - number) for number in range(5)))
    settle(play)
    while leaving := [
        key.name for key, value in play.workloads.items() if value.has(EVICTED) and value.has(QUOTA_RESERVED)
    ]:
        stop(play, leaving[0])
    assert [play.engine.view.queue_share(name) for name in "ab"] == [(False, 250.0), (False, 250.0)]


def crowded(wanted: WorkloadBuilder, *, engine: Engine | None = None) -> list[str]:
    """Who has to go for that one, in a queue where weak workloads of one core each have the cpu that is left of 7 cores
    and 2 Gi."""
    quota = cluster_queue("cq").quota("default", cpu=7, memory="2Gi").preempt(**LOWER).build()
    play = Play(quota, local_queue("lq", "cq").build(), engine=engine)
    play.submit(slice_of("old", age=9, cpu=3).priority(9))
    play.submit(*(wants(f"low{number}", cpu=1, age=5 - number).priority(-1) for number in range(4)))
    settle(play)
    assert play.used() == "7"
    play.submit(wanted.priority(1))
    settle(play)
    return evicted(play)


def slice_of(name: str, *, replaces: str = "", **more: Any) -> WorkloadBuilder:
    marks = {ELASTIC_ANNOTATION: "true"} | ({REPLACES_ANNOTATION: f"default/{replaces}"} if replaces else {})
    return wants(name, **more).owner_job("job").annotations(marks)


CLAIMS = {
    "all of its pods": (wants("w", cpu=1).count(2), 2),
    "as many of its pods as there is memory for": (
        workload("w").queue("lq").pod_sets(pod_set(count=4).min_count(1).request(cpu=1, memory="1Gi")),
        2,
    ),
    "what it asks for, and nothing for what it asks none of": (
        workload("w").queue("lq").request({"example.com/gpu": 0}, cpu=2),
        2,
    ),
    "the difference to the slice it replaces": (slice_of("w", replaces="old", cpu=5), 2),
    "no more than the slice it replaces has": (slice_of("w", replaces="old", cpu=3), 0),
}


@pytest.mark.parametrize(("wanted", "going"), CLAIMS.values(), ids=CLAIMS.keys())
def test_qe_111_a_head_has_others_go_for(wanted: WorkloadBuilder, going: int) -> None:
    assert len(crowded(wanted, engine=Engine(EngineRules(has_elastic_jobs=True)))) == going
