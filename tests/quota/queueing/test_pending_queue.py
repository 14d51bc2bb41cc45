"""The line of one ClusterQueue (quota-scenarios 9.12)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.meta import ObjectKey
from multikueue.quota.queueing.pending_queue import PendingQueue
from multikueue.quota.queueing.pending_workload import PendingWorkload, Progress, Reason
from multikueue.quota.workload.outcome import Verdict
from tests.builders import NOW, WorkloadBuilder
from tests.quota.builders import after, waiting, wants

EVERYBODY = lambda namespace: True  # noqa: E731


def line(*builders: WorkloadBuilder, strict: bool = False, now: datetime = NOW) -> PendingQueue:
    queue = PendingQueue(is_strict=strict)
    for builder in builders:
        queue.push_or_update(waiting(builder), now)
    return queue


def popped(queue: PendingQueue) -> list[str]:
    heads = []
    while head := queue.pop():
        heads.append(head.key.name)
    return heads


def test_qe_289_priority_beats_age_and_qe_290_then_age_counts() -> None:
    queue = line(wants("young", age=1), wants("old", age=9), wants("important", age=0).priority(1))

    assert popped(queue) == ["important", "old", "young"]


def test_an_update_moves_a_workload_to_its_new_place_and_keeps_one_copy() -> None:
    queue = line(wants("a", age=3), wants("b", age=2), wants("c", age=1), wants("c", age=1).priority(5))

    assert (queue.size, popped(queue)) == (3, ["c", "a", "b"])


REQUEUES = {
    "best effort, failed after nomination": (False, Reason.FAILED_AFTER_NOMINATION, None, True),
    "best effort, another namespace": (False, Reason.NAMESPACE_MISMATCH, None, False),
    "best effort, no fit": (False, Reason.GENERIC, None, False),
    "best effort, no fit with a flavor left to try": (False, Reason.GENERIC, Progress(1, ({"cpu": 0},)), True),
    "best effort, others are leaving for it": (False, Reason.PENDING_PREEMPTION, None, True),
    "strict, others are leaving for it": (True, Reason.PENDING_PREEMPTION, None, True),
    "strict, no fit": (True, Reason.GENERIC, None, True),
    "strict, failed after nomination": (True, Reason.FAILED_AFTER_NOMINATION, None, True),
    "strict, another namespace": (True, Reason.NAMESPACE_MISMATCH, None, False),
}


@pytest.mark.parametrize(("strict", "reason", "progress", "again"), REQUEUES.values(), ids=REQUEUES)
def test_qe_293_qe_294_where_a_head_goes_that_comes_back(
    strict: bool, reason: Reason, progress: Progress | None, again: bool
) -> None:
    queue = line(wants("a"), strict=strict)
    head = queue.pop()
    assert head
    head.progress = progress

    queue.give_back(head, reason, NOW)

    assert queue.size == 1
    assert (queue.top() is head) is again


def favoured(*, strict: bool = False) -> PendingQueue:
    """Others leave for the old one; an important one comes."""
    queue = line(wants("old", age=9), wants("young"), strict=strict)
    old = queue.pop()
    assert old
    queue.give_back(old, Reason.PENDING_PREEMPTION, NOW)
    queue.push_or_update(waiting(wants("important").priority(1)), NOW)
    return queue


def test_qe_312_who_others_leave_for_stays_the_head() -> None:
    queue = favoured()
    assert [each.key.name for each in queue.in_order()] == ["old", "important", "young"]
    assert popped(queue) == ["old", "important", "young"]
    assert popped(favoured(strict=True)) == ["important", "old", "young"]


def test_qe_312_it_does_not_stand_in_the_way_while_parked_and_is_first_again_once_awake() -> None:
    queue = favoured()
    old = queue.pop()
    assert old
    queue.give_back(old, Reason.GENERIC, NOW)
    important = queue.top()
    assert important
    assert important.key.name == "important"

    queue.flush(NOW, EVERYBODY)
    assert popped(queue) == ["old", "important", "young"]


def test_qe_313_until_it_is_gone() -> None:
    queue = favoured()
    queue.remove(waiting(wants("old")).key)
    queue.push_or_update(waiting(wants("old", age=9)), NOW)
    assert popped(queue) == ["important", "old", "young"]


def test_a_head_that_is_taken_and_given_back_again_and_again_leaves_nothing_behind() -> None:
    queue = favoured()
    for _ in range(9):
        head = queue.pop()
        assert head
        queue.give_back(head, Reason.PENDING_PREEMPTION, NOW)
    assert popped(queue) == ["old", "important", "young"]
    assert queue.size == 0


def test_qe_287_a_workload_in_back_off_is_not_offered() -> None:
    queue = line(wants("a").requeue_state(1, at=after(5)))
    assert queue.top() is None

    queue.flush(after(4), EVERYBODY)
    assert queue.top() is None

    queue.flush(after(5), EVERYBODY)  # QE-288: the boundary counts as over
    assert popped(queue) == ["a"]


def test_qe_287_requeued_false_holds_back_whatever_the_time() -> None:
    held = wants("a").requeue_state(1, at=after(5)).condition("Requeued", "False", reason="AdmissionCheck")
    queue = line(held)
    queue.flush(after(60), EVERYBODY)
    assert queue.top() is None

    queue.push_or_update(waiting(held.condition("Requeued", reason="BackoffFinished")), after(60))

    assert popped(queue) == ["a"]


def parked(builder: WorkloadBuilder) -> PendingQueue:
    queue = line(builder)
    head = queue.pop()
    assert head
    queue.give_back(head, Reason.GENERIC, NOW)
    return queue


UPDATES = {
    "a verdict in its status": (lambda wl: wl.unreserved(message="no room"), False),
    "a label": (lambda wl: wl.labels(team="a"), False),
    "another queue": (lambda wl: wl.queue("other"), True),
    "another priority": (lambda wl: wl.priority(3), True),
    "reclaimed pods": (lambda wl: wl.reclaimable(main=1), True),
    "an eviction": (lambda wl: wl.evicted(), True),
    "back in the queue": (lambda wl: wl.condition("Requeued", reason="Preempted"), True),
    "a back-off that is over": (lambda wl: wl.requeue_state(1, at=NOW), True),
}


@pytest.mark.parametrize(("change", "unparked"), UPDATES.values(), ids=UPDATES)
def test_qe_296_only_an_update_that_may_matter_unparks(change: object, unparked: bool) -> None:
    original = wants("a", cpu=1)
    queue = parked(original)

    news = queue.push_or_update(waiting(change(original)), NOW)  # type: ignore[operator]

    assert news is unparked
    assert (queue.top() is not None) is unparked
    assert queue.size == 1


def test_qe_297_a_flush_leaves_those_whose_namespace_is_not_selected() -> None:
    queue = line(wants("a", age=1), wants("b", namespace="team"))
    for head in (queue.pop(), queue.pop()):
        assert head
        queue.give_back(head, Reason.GENERIC, NOW)

    queue.flush(NOW, lambda namespace: namespace == "team")

    assert popped(queue) == ["b"]
    assert queue.size == 1


def test_qe_298_what_is_in_the_heap_is_not_parked() -> None:
    queue = line(wants("a"))
    queue.give_back(waiting(wants("a")), Reason.GENERIC, NOW)

    assert popped(queue) == ["a"]


def test_qe_299_giving_back_twice_keeps_one_copy() -> None:
    queue = line(wants("a"), strict=True)
    head = queue.pop()
    assert head
    queue.give_back(head, Reason.GENERIC, NOW)
    queue.give_back(head, Reason.GENERIC, NOW)

    assert (queue.size, popped(queue)) == (1, ["a"])


def test_qe_300_a_parked_workload_can_be_removed() -> None:
    queue = parked(wants("a"))
    queue.remove(waiting(wants("a")).key)
    queue.flush(NOW, EVERYBODY)

    assert (queue.size, queue.top()) == (0, None)


def test_a_removed_workload_leaves_no_head_behind() -> None:
    queue = line(wants("a", age=1), wants("b"))
    queue.remove(waiting(wants("a")).key)

    assert popped(queue) == ["b"]


def test_an_update_of_no_consequence_keeps_how_far_the_search_came() -> None:
    queue = line(wants("a"), strict=True)
    head = queue.pop()
    assert head
    head.progress = Progress(1, ({"cpu": 0},))
    queue.give_back(head, Reason.GENERIC, NOW)

    queue.push_or_update(waiting(wants("a").unreserved(message="no room")), NOW)

    top = queue.top()
    assert top is not head
    assert top
    assert top.progress == Progress(1, ({"cpu": 0},))


def test_all_that_wait_are_shown_in_order_parked_or_not() -> None:
    queue = parked(wants("old", age=5))
    queue.push_or_update(waiting(wants("young")), NOW)

    assert [each.key.name for each in queue.in_order()] == ["old", "young"]


# --- beside a slow and obvious queue -----------------------------------------------------------------------------------

PEOPLE = [
    waiting(wants(f"{name}{kind}", age=9 - age, cpu=kind).priority(kind // 2))
    for age, name in enumerate("abc")
    for kind in (1, 2, 3)
]
"""Three of each of three kinds, of which two have the same priority."""

NO, NEVER = Verdict("no"), Verdict("never")


class Obvious:
    """The queue as a list: who waits, whether awake, and what they heard."""

    def __init__(self) -> None:
        self.people: dict[ObjectKey, tuple[PendingWorkload, bool, Verdict | None]] = {}

    def head(self) -> PendingWorkload | None:
        active = [each for each, is_active, _ in self.people.values() if is_active]
        return min(active, key=lambda each: each.rank, default=None)

    def refuse(self, verdict: Verdict, *, again: bool) -> list[ObjectKey]:
        head = follower = self.head()
        news = []
        while head and follower and follower.ask() == head.ask():
            if self.people[follower.key][2] != verdict:
                news.append(follower.key)
            self.people[follower.key] = follower, again, verdict
            follower = None if again else self.head()
        return news


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.sampled_from(PEOPLE)),
        st.tuples(st.just("remove"), st.sampled_from(PEOPLE)),
        st.tuples(st.just("refuse"), st.sampled_from([NO, NEVER]), st.booleans()),
        st.tuples(st.just("flush")),
    ),
    max_size=40,
)


@given(STEPS)
def test_it_is_as_fast_as_it_likes_but_does_the_obvious(steps: list[tuple[Any, ...]]) -> None:
    queue, obvious = PendingQueue(), Obvious()
    for step in steps:
        match step:
            case "push", who if who.key not in obvious.people:
                who.verdict = None
                queue.push_or_update(who, NOW)
                obvious.people[who.key] = who, True, None
            case "remove", who:
                queue.remove(who.key)
                obvious.people.pop(who.key, None)
            case "refuse", verdict, again if head := queue.pop():
                news = [head.key] if head.verdict != verdict else []
                head.verdict = verdict
                queue.give_back(head, Reason.FAILED_AFTER_NOMINATION if again else Reason.GENERIC, NOW)
                news += queue.mark_inadmissible(head, verdict)
                assert sorted(news) == sorted(obvious.refuse(verdict, again=again))
            case ("flush",):
                queue.flush(NOW, EVERYBODY)
                obvious.people = {key: (who, True, heard) for key, (who, _, heard) in obvious.people.items()}
        assert queue.top() is obvious.head()
        assert {each.key: queue.verdict(each) for each in queue} == {
            key: heard for key, (_, _, heard) in obvious.people.items()
        }
        assert queue.inadmissible == sum(not is_active for _, is_active, _ in obvious.people.values())


PLACES = st.lists(
    st.tuples(st.sampled_from(["lq", "other", "third"]), st.integers(0, 2), st.integers(0, 5)), max_size=12
)


@given(PLACES, st.integers(0, 12), st.booleans())
def test_the_places_of_a_local_queue_are_those_in_the_whole_line(
    drawn: list[tuple[str, int, int]], favoured: int, is_strict: bool
) -> None:
    builders = [
        wants(f"w{number}", age=age).queue(queue).priority(priority)
        for number, (queue, priority, age) in enumerate(drawn)
    ]
    made = line(*builders, strict=is_strict)
    if favoured < len(builders):
        made._favoured = waiting(builders[favoured]).key
    expected = list(enumerate(made.in_order()))
    for queue in ("lq", "other", "third", "nobody"):
        found = list(made.places_of(ObjectKey("default", queue)))
        assert found == [(each, place) for place, each in expected if each.local_queue.name == queue]
