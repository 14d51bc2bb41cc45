"""Routes, flushes and back-offs over all queues."""

from __future__ import annotations

from multikueue.api.meta import ObjectKey
from multikueue.quota.backlog import FLUSH_DELAY, Backlog
from multikueue.quota.waiting import Reason
from multikueue.testing import NOW
from tests.quota.builders import after, key_of, waiting, wants


def backlog(*names: str) -> Backlog:
    """One ClusterQueue cq reached by LocalQueue lq, with these workloads."""
    whole = Backlog()
    whole.set_queue("cq", strict=False, now=NOW)
    whole.set_route(key_of("lq"), "cq", NOW)
    for name in names:
        whole.put(waiting(wants(name)), NOW)
    return whole


def park(whole: Backlog, queue: str = "cq") -> None:
    while head := whole.lines[queue].pop():
        whole.give_back(head, Reason.GENERIC, NOW)


def test_a_workload_is_in_line_only_while_its_route_is_open() -> None:
    whole = backlog("a")
    assert (whole.busy(), whole.members(key_of("lq"))) == (["cq"], 1)

    assert whole.set_route(key_of("lq"), None, NOW) is True
    assert (whole.busy(), whole.lines["cq"].size, whole.members(key_of("lq"))) == ([], 0, 1)

    assert whole.set_route(key_of("lq"), "cq", NOW) is True
    assert whole.set_route(key_of("lq"), "cq", NOW) is False
    assert whole.busy() == ["cq"]


def test_opening_a_route_offers_even_what_was_parked() -> None:
    whole = backlog("a")
    park(whole)
    assert whole.busy() == []

    whole.set_route(key_of("lq"), None, NOW)
    whole.set_route(key_of("lq"), "cq", NOW)

    assert whole.busy() == ["cq"]


def test_opening_a_route_offers_what_was_evicted_when_it_closed_in_its_place() -> None:
    whole = backlog("young")
    stopped = wants("old", age=9).condition("Requeued", "False", reason="LocalQueueStopped")
    punished = wants("other", age=99).condition("Requeued", "False", reason="AdmissionCheck")
    whole.set_route(key_of("lq"), None, NOW)
    for builder in (stopped, punished):
        whole.put(waiting(builder), NOW)

    whole.set_route(key_of("lq"), "cq", NOW)
    heads = [head.key.name for head in iter(whole.lines["cq"].pop, None)]
    assert heads == ["old", "young"]


def test_a_route_to_a_queue_that_is_yet_to_come_offers_nothing() -> None:
    whole = Backlog()
    whole.put(waiting(wants("old").condition("Requeued", "False", reason="LocalQueueStopped")), NOW)
    whole.set_route(key_of("lq"), "cq", NOW)
    assert whole.busy() == []

    whole.set_queue("cq", strict=False, now=NOW)
    assert whole.busy() == ["cq"]


def test_a_head_whose_route_closed_meanwhile_stays_a_member_only() -> None:
    whole = backlog("a")
    head = whole.lines["cq"].pop()
    assert head
    whole.set_route(key_of("lq"), None, NOW)

    whole.give_back(head, Reason.FAILED_AFTER_NOMINATION, NOW)

    assert (whole.lines["cq"].size, whole.members(key_of("lq"))) == (0, 1)


def test_removing_forgets_a_workload_everywhere() -> None:
    whole = backlog("a", "b")
    whole.remove(key_of("a"))
    whole.remove(key_of("a"))

    assert (whole.get(key_of("a")), whole.lines["cq"].size, whole.members(key_of("lq"))) == (None, 1, 1)


def test_a_workload_that_moves_leaves_its_old_line() -> None:
    whole = backlog("a")
    whole.set_queue("other", strict=True, now=NOW)
    whole.set_route(key_of("lq2"), "other", NOW)

    whole.put(waiting(wants("a", queue="lq2")), NOW)

    assert whole.busy() == ["other"]
    assert (whole.members(key_of("lq")), whole.members(key_of("lq2"))) == (0, 1)


def test_flushes_of_one_tree_are_collected_from_the_first_on() -> None:
    whole = backlog()
    whole.request_flush("cohort/c", NOW)
    whole.request_flush("cohort/c", after(0.9))
    whole.request_flush("queue/x", after(0.5))

    assert whole.next_due() == NOW + FLUSH_DELAY
    assert whole.take_due_flushes(after(0.9)) == set()
    assert whole.take_due_flushes(after(1)) == {"cohort/c"}
    assert whole.next_due() == after(1.5)


def test_a_flush_offers_what_is_selected() -> None:
    whole = backlog("a")
    whole.set_route(ObjectKey("team", "lq"), "cq", NOW)
    whole.put(waiting(wants("b", namespace="team")), NOW)
    park(whole)

    whole.flush(["cq"], NOW, lambda queue, namespace: (queue, namespace) == ("cq", "team"))

    head = whole.lines["cq"].pop()
    assert head
    assert (head.key.name, whole.busy()) == ("b", [])


def test_the_end_of_a_back_off_offers_a_workload_once() -> None:
    whole = backlog()
    whole.put(waiting(wants("a").requeue_state(1, at=after(5))), NOW)
    assert (whole.busy(), whole.next_due()) == ([], after(5))

    assert whole.end_backoffs(after(4)) == set()
    assert whole.end_backoffs(after(5)) == {"cq"}

    assert (whole.busy(), whole.next_due()) == (["cq"], None)


def test_a_back_off_that_was_prolonged_or_is_of_no_interest_any_more_wakes_nobody() -> None:
    whole = backlog()
    whole.put(waiting(wants("longer").requeue_state(1, at=after(5))), NOW)
    whole.put(waiting(wants("longer").requeue_state(2, at=after(9))), NOW)
    whole.put(waiting(wants("gone").requeue_state(1, at=after(5))), NOW)
    whole.remove(key_of("gone"))

    assert whole.end_backoffs(after(5)) == set()
    assert whole.end_backoffs(after(9)) == {"cq"}


def test_a_removed_queue_is_not_busy_and_comes_back_with_its_work() -> None:
    whole = backlog("a")
    whole.remove_queue("cq")
    assert whole.busy() == []

    whole.set_queue("cq", strict=False, now=NOW)

    assert whole.busy() == ["cq"]
