"""LocalQueues take turns (quota-engine 2.1, QE-341, QE-342, QE-344)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.api.kueue.queues import AdmissionFairSharingStatus, FairSharingStatus, LocalQueue, QueueStatus
from multikueue.quota.cache.consumed_resources import UsageDecay
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.queueing.admission_fair_sharing import AdmissionFairSharingQueue
from multikueue.quota.queueing.pending_workload import PendingWorkload, Reason
from tests.builders import NOW, ClusterQueueBuilder, cluster_queue, local_queue
from tests.quota.builders import Play, after, key_of, names, waiting, wants

HOUR = timedelta(hours=1)


def used(name: str, cpu: str, *, weight: str = "1") -> LocalQueue:
    """A LocalQueue that used so much of late."""
    plain = local_queue(name, "cq").fair_weight(weight).build()
    history = FairSharingStatus(0, AdmissionFairSharingStatus({"cpu": cpu}, NOW))
    return LocalQueue(metadata=plain.metadata, spec=plain.spec, status=QueueStatus(fair_sharing=history))


def play(queue: ClusterQueueBuilder, *queues: LocalQueue, half_life: timedelta = HOUR) -> Play:
    engine = Engine(EngineRules(admission_sharing=UsageDecay(half_life=half_life)))
    return Play(queue.build(), *queues, engine=engine)


def shared(cpu: int = 8) -> ClusterQueueBuilder:
    return cluster_queue("cq").quota("default", cpu=cpu).taking_turns()


# --- order -----------------------------------------------------------------------------------------------------------


def test_qe_341_who_used_less_goes_first() -> None:
    scene = play(shared(), used("lq-a", "8"), used("lq-b", "2"))
    scene.submit(wants("old", queue="lq-a", cpu=8, age=9), wants("new", queue="lq-b", cpu=8))
    assert scene.settle() == ["new"]


@pytest.mark.parametrize("mode", ["NoAdmissionFairSharing", ""])
def test_qe_341_without_turns_the_older_goes_first(mode: str) -> None:
    scene = play(shared().taking_turns(mode), used("lq-a", "8"), used("lq-b", "2"))
    scene.submit(wants("old", queue="lq-a", cpu=8, age=9), wants("new", queue="lq-b", cpu=8))
    assert scene.settle() == ["old"]


def test_qe_341_if_turns_are_not_switched_on_the_older_goes_first() -> None:
    scene = Play(shared().build(), used("lq-a", "8"), used("lq-b", "2"))
    scene.submit(wants("old", queue="lq-a", cpu=8, age=9), wants("new", queue="lq-b", cpu=8))
    assert scene.settle() == ["old"]


def test_qe_341_those_equal_take_one_turn_after_the_other() -> None:
    """What one got counts before it shows in its usage."""
    scene = play(shared(), used("lq-a", "4"), used("lq-b", "4"))
    ages = {"a1": 9, "a2": 8, "b1": 5, "b2": 4}
    scene.submit(*(wants(name, queue=f"lq-{name[0]}", cpu=4, age=age) for name, age in ages.items()))
    assert scene.settle() == ["a1", "b1"]


def test_qe_341_if_there_is_room_all_get_it() -> None:
    scene = play(shared(16), used("lq-a", "4"), used("lq-b", "4"))
    scene.submit(*(wants(f"{q}{n}", queue=f"lq-{q}", cpu=4) for q in "ab" for n in (1, 2)))
    assert sorted(scene.settle()) == ["a1", "a2", "b1", "b2"]


def test_qe_342_the_weight_of_a_queue_divides_what_it_used() -> None:
    scene = play(shared(), used("lq-a", "8", weight="5"), used("lq-b", "2"))
    scene.submit(wants("a", queue="lq-a", cpu=8), wants("b", queue="lq-b", cpu=8, age=9))
    assert scene.settle() == ["a"]


def test_qe_342_between_equals_priority_decides_then_age() -> None:
    scene = play(shared(4), used("lq-a", "2"), used("lq-b", "2"))
    scene.submit(wants("a", queue="lq-a", cpu=4, age=9), wants("b", queue="lq-b", cpu=4).priority(1))
    assert names(scene.engine.view.pending_in("cq")) == ("b", "a")
    scene.submit(wants("b", queue="lq-b", cpu=4))
    assert names(scene.engine.view.pending_in("cq")) == ("a", "b")


def test_usage_goes_before_priority() -> None:
    scene = play(shared(4), used("lq-a", "3"), used("lq-b", "2"))
    scene.submit(wants("a", queue="lq-a", cpu=4).priority(9), wants("b", queue="lq-b", cpu=4))
    assert names(scene.engine.view.pending_in("cq")) == ("b", "a")


def test_turns_can_be_switched_on_and_off() -> None:
    scene = play(shared(), used("lq-a", "8"), used("lq-b", "2"))
    scene.submit(wants("old", queue="lq-a", cpu=8, age=9), wants("new", queue="lq-b", cpu=8))
    scene.apply(shared().taking_turns("NoAdmissionFairSharing").build())
    assert names(scene.engine.view.pending_in("cq")) == ("old", "new")
    scene.apply(shared().build())
    assert names(scene.engine.view.pending_in("cq")) == ("new", "old")
    assert scene.engine.view.waiting("cq") == (2, 0)


# --- history ---------------------------------------------------------------------------------------------------------


def consumed(scene: Play, name: str) -> dict[str, str | int | float]:
    history = scene.engine.view.local_queue_status(key_of(name), scene.now).fair_sharing
    assert history
    assert history.admission_fair_sharing_status
    return history.admission_fair_sharing_status.consumed_resources


def test_what_is_admitted_is_in_the_history_and_fades_when_it_is_gone() -> None:
    scene = play(shared(), local_queue("lq-a", "cq").build())
    assert scene.engine.sample(key_of("lq-a"), scene.now) == timedelta(minutes=5)
    assert consumed(scene, "lq-a") == {}
    scene.submit(wants("wl", queue="lq-a", cpu=4))
    scene.settle()
    scene.wait(3600)
    scene.engine.sample(key_of("lq-a"), scene.now)
    before = consumed(scene, "lq-a")["cpu"]
    assert before == "2112251374n"  # half of 4, and half of what the first interval cost
    scene.finish("wl")
    scene.wait(3600)
    scene.engine.sample(key_of("lq-a"), scene.now)
    assert consumed(scene, "lq-a") == {"cpu": "1056125687n"}


def test_a_reservation_that_is_taken_back_costs_nothing() -> None:
    scene = play(shared(4), local_queue("lq-a", "cq").build(), local_queue("lq-b", "cq").build())
    scene.submit(wants("a", queue="lq-a", cpu=4, age=9), wants("b", queue="lq-b", cpu=4))
    assert scene.run() == ["a"]
    assert names(scene.engine.view.pending_in("cq")) == ("b",)
    scene.engine.scheduler.forget(key_of("a"), scene.now)
    assert names(scene.engine.view.pending_in("cq")) == ("a", "b")


@pytest.mark.parametrize("gone", ["lq", "cq", "stopped", "off"])
def test_there_is_nothing_to_sample(gone: str) -> None:
    scene = play(shared(), local_queue("lq-a", "cq").build())
    if gone == "lq":
        scene.engine.observe(local_queue("lq-a").build(), None, scene.now)
    elif gone == "cq":
        scene.engine.observe(cluster_queue("cq").build(), None, scene.now)
    elif gone == "stopped":
        scene.apply(local_queue("lq-a", "cq").stopped().build())
    else:
        scene = Play(shared().build(), local_queue("lq-a", "cq").build())
    assert scene.engine.sample(key_of("lq-a"), scene.now) is None


def test_a_head_that_was_refused_gives_way_when_another_queue_used_less() -> None:
    """In a strict queue nobody behind a head is looked at; but time may make another one the head."""
    scene = play(shared(4).strict_fifo(), used("lq-a", "1"), used("lq-b", "2"))
    scene.submit(wants("large", queue="lq-a", cpu=9), wants("fits", queue="lq-b", cpu=1))
    assert scene.settle() == []
    scene.wait(3 * 3600)
    scene.engine.sample(key_of("lq-b"), scene.now)
    assert scene.settle() == ["fits"]


# --- preemption ------------------------------------------------------------------------------------------------------


PREEMPTED = {
    "qe-344: who used most, whatever its priority": (
        shared(4).cohort("all").preempt(reclaim_within_cohort="Any", within_cluster_queue="Never"),
        "a",
    ),
    "without turns the lowest priority": (shared(4).taking_turns("").cohort("all"), "b"),
}


@pytest.mark.parametrize(("queue", "first"), PREEMPTED.values(), ids=PREEMPTED)
def test_who_goes_first_for_the_owner_of_what_was_lent(queue: ClusterQueueBuilder, first: str) -> None:
    owner = cluster_queue("owner").cohort("all").quota("default", cpu=4).preempt(reclaim_within_cohort="Any")
    scene = play(queue, used("lq-a", "9"), used("lq-b", "1"))
    scene.apply(owner.build(), local_queue("mine", "owner").build())
    scene.submit(wants("a", queue="lq-a", cpu=4).priority(10), wants("b", queue="lq-b", cpu=4).priority(1))
    assert sorted(scene.settle()) == ["a", "b"]
    scene.submit(wants("owners", queue="mine", cpu=4))
    assert names(scene.engine.scheduler.cycle(scene.now).evicted) == (first,)


def test_only_the_weaker_are_taken_though_stronger_ones_come_before_them() -> None:
    queue = shared(8).preempt(within_cluster_queue="LowerPriority")
    scene = play(queue, used("lq-a", "9"), used("lq-b", "1"))
    scene.submit(wants("a", queue="lq-a", cpu=4).priority(10), wants("b", queue="lq-b", cpu=4).priority(1))
    assert sorted(scene.settle()) == ["a", "b"]
    scene.submit(wants("new", queue="lq-b", cpu=4).priority(5))
    assert names(scene.engine.scheduler.cycle(scene.now).evicted) == ("b",)


# --- the line --------------------------------------------------------------------------------------------------------


def test_a_line_counts_and_shows_those_of_all_local_queues() -> None:
    usage = {key_of("a"): 2.0, key_of("b"): 1.0}
    line = AdmissionFairSharingQueue(usage.__getitem__)
    first, second, third = (waiting(wants(name, queue=name[0], cpu=1)) for name in ("a1", "b1", "b2"))
    for each in (first, second, third):
        assert line.push_or_update(each, NOW)
    assert [each.key.name for each in line.in_order()] == ["b1", "b2", "a1"]
    places = {name: [place for _, place in line.places_of(key_of(name))] for name in ("a", "b", "c")}
    assert places == {"a": [2], "b": [0, 1], "c": []}
    assert {each.key.name for each in line} == {"a1", "b1", "b2"}

    line.give_back(_popped(line), Reason.GENERIC, NOW)
    assert (line.size, line.inadmissible, [each.key.name for each in line.inadmissible_workloads()]) == (3, 1, ["b1"])
    usage[key_of("b")] = 3.0
    head = line.top()
    assert head is first
    line.flush(NOW, lambda _: True)
    assert line.inadmissible == 0
    for name in ("a1", "b1", "b2", "b2"):
        line.remove(key_of(name))
    assert (line.size, line.top(), line.pop()) == (0, None, None)


def test_a_head_on_its_way_may_be_removed_with_all_others_of_its_queue() -> None:
    line = AdmissionFairSharingQueue(lambda _: 0.0)
    one, other = waiting(wants("one", queue="a", cpu=1, age=9)), waiting(wants("other", queue="a", cpu=1))
    line.push_or_update(one, NOW)
    line.push_or_update(other, NOW)
    assert _popped(line) is one
    line.remove(other.key)
    line.remove(one.key)
    line.give_back(one, Reason.FAILED_AFTER_NOMINATION, NOW)
    assert line.top() is one


def test_for_whom_others_go_is_first_among_equals() -> None:
    usage = {key_of("a"): 1.0, key_of("b"): 1.0}
    line = AdmissionFairSharingQueue(usage.__getitem__)
    line.push_or_update(waiting(wants("a", queue="a", cpu=1)), NOW)
    line.push_or_update(waiting(wants("b", queue="b", cpu=1, age=9)), NOW)
    taken = _popped(line)
    line.give_back(taken, Reason.PENDING_PREEMPTION, NOW)
    line.push_or_update(waiting(wants("strong", queue="a", cpu=1).priority(9)), NOW)
    assert line.top() is taken
    usage[key_of("a")] = 0.0
    head = line.top()
    assert head
    assert head.key == key_of("strong")


def test_back_off_and_strictness_are_those_of_any_line() -> None:
    line = AdmissionFairSharingQueue(lambda _: 0.0)
    late = waiting(wants("late", queue="a", cpu=1).requeue_state(1, at=after(60)))
    assert not line.push_or_update(late, NOW)
    line.unpark(late.key, after(30))
    assert line.top() is None
    line.unpark(late.key, after(60))
    assert line.top() is late
    line.is_strict = True
    line.push_or_update(waiting(wants("second", queue="b", cpu=1, age=9)), NOW)
    head = _popped(line)
    line.give_back(head, Reason.GENERIC, NOW)
    assert line.is_strict
    assert line.top() is head
    line.unpark(key_of("unknown"), NOW)


def _popped(line: AdmissionFairSharingQueue) -> PendingWorkload:
    head = line.pop()
    assert head
    return head
