"""Routes, flushes and back-offs over all queues."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.cache import QuotaCache
from multikueue.quota.engine import Engine
from multikueue.quota.queueing import queue_manager
from multikueue.quota.queueing.pending_workload import Reason
from multikueue.quota.queueing.queue_manager import QueueManager
from multikueue.quota.queueing.requeueing import FLUSH_DELAY
from tests.builders import NOW, cluster_queue, local_queue, namespace, workload
from tests.quota.builders import after, key_of, waiting, wants


def cache(known: str = "default") -> QuotaCache:
    """One ClusterQueue cq, for workloads of one namespace."""
    whole = QuotaCache()
    whole.set_cluster_queue(cluster_queue("cq").build())
    whole.catalog.set_namespace(namespace(known).build())
    return whole


def manager(*names: str, selects: str = "default") -> QueueManager:
    """One ClusterQueue cq reached by LocalQueue lq, with these workloads."""
    whole = QueueManager(cache(selects))
    whole.set_queue("cq", is_strict=False, now=NOW)
    whole.set_route(key_of("lq"), "cq", NOW)
    for name in names:
        whole.add_or_update(waiting(wants(name)), NOW)
    return whole


def park(whole: QueueManager, queue: str = "cq") -> None:
    while head := whole.lines[queue].pop():
        whole.give_back(head, Reason.GENERIC, NOW)


def test_a_workload_is_in_line_only_while_its_route_is_open() -> None:
    whole = manager("a")
    assert (whole.busy(), whole.members(key_of("lq"))) == (["cq"], 1)

    whole.set_route(key_of("lq"), None, NOW)
    assert (whole.busy(), whole.lines["cq"].size, whole.members(key_of("lq"))) == ([], 0, 1)

    for _ in range(2):
        whole.set_route(key_of("lq"), "cq", NOW)
    assert whole.busy() == ["cq"]


def test_opening_a_route_offers_even_what_was_parked() -> None:
    whole = manager("a")
    park(whole)
    assert whole.busy() == []

    whole.set_route(key_of("lq"), None, NOW)
    whole.set_route(key_of("lq"), "cq", NOW)

    assert whole.busy() == ["cq"]


def test_opening_a_route_offers_what_was_evicted_when_it_closed_in_its_place() -> None:
    whole = manager("young")
    stopped = wants("old", age=9).condition("Requeued", "False", reason="LocalQueueStopped")
    punished = wants("other", age=99).condition("Requeued", "False", reason="AdmissionCheck")
    whole.set_route(key_of("lq"), None, NOW)
    for builder in (stopped, punished):
        whole.add_or_update(waiting(builder), NOW)

    whole.set_route(key_of("lq"), "cq", NOW)
    heads = [head.key.name for head in iter(whole.lines["cq"].pop, None)]
    assert heads == ["old", "young"]


def test_a_route_to_a_queue_that_is_yet_to_come_offers_nothing() -> None:
    whole = QueueManager(cache())
    whole.add_or_update(waiting(wants("old").condition("Requeued", "False", reason="LocalQueueStopped")), NOW)
    whole.set_route(key_of("lq"), "cq", NOW)
    assert whole.busy() == []

    whole.set_queue("cq", is_strict=False, now=NOW)
    assert whole.busy() == ["cq"]


def test_a_head_whose_route_closed_meanwhile_stays_a_member_only() -> None:
    whole = manager("a")
    head = whole.lines["cq"].pop()
    assert head
    whole.set_route(key_of("lq"), None, NOW)

    whole.give_back(head, Reason.FAILED_AFTER_NOMINATION, NOW)

    assert (whole.lines["cq"].size, whole.members(key_of("lq"))) == (0, 1)


def test_removing_forgets_a_workload_everywhere() -> None:
    whole = manager("a", "b")
    whole.remove(key_of("a"))
    whole.remove(key_of("a"))

    assert (whole.get(key_of("a")), whole.lines["cq"].size, whole.members(key_of("lq"))) == (None, 1, 1)


def test_a_workload_that_moves_leaves_its_old_line() -> None:
    whole = manager("a")
    whole.set_queue("other", is_strict=True, now=NOW)
    whole.set_route(key_of("lq2"), "other", NOW)

    whole.add_or_update(waiting(wants("a", queue="lq2")), NOW)

    assert whole.busy() == ["other"]
    assert (whole.members(key_of("lq")), whole.members(key_of("lq2"))) == (0, 1)


def test_flushes_of_one_tree_are_collected_from_the_first_on() -> None:
    whole = manager()
    whole.requeueing.request_flush("cohort/c", NOW)
    whole.requeueing.request_flush("cohort/c", after(0.9))
    whole.requeueing.request_flush("queue/x", after(0.5))

    assert whole.requeueing.next_due() == NOW + FLUSH_DELAY
    whole.requeueing.wake_due(after(0.9))
    assert whole.requeueing.next_due() == NOW + FLUSH_DELAY
    whole.requeueing.wake_due(after(1))
    assert whole.requeueing.next_due() == after(1.5)


def test_a_flush_offers_what_is_selected() -> None:
    whole = manager("a", selects="team")
    whole.set_route(ObjectKey("team", "lq"), "cq", NOW)
    whole.add_or_update(waiting(wants("b", namespace="team")), NOW)
    park(whole)

    whole.requeueing.wake("cq", NOW)
    whole.requeueing.wake_due(NOW + FLUSH_DELAY)

    head = whole.lines["cq"].pop()
    assert head
    assert (head.key.name, whole.busy()) == ("b", [])


def test_the_end_of_a_back_off_offers_a_workload_once() -> None:
    whole = manager()
    whole.add_or_update(waiting(wants("a").requeue_state(1, at=after(5))), NOW)
    assert (whole.busy(), whole.requeueing.next_due()) == ([], after(5))

    whole.requeueing.wake_due(after(4))
    assert whole.busy() == []

    whole.requeueing.wake_due(after(5))
    assert (whole.busy(), whole.requeueing.next_due()) == (["cq"], None)


def test_a_back_off_that_was_prolonged_or_is_of_no_interest_any_more_wakes_nobody() -> None:
    whole = manager()
    whole.add_or_update(waiting(wants("longer").requeue_state(1, at=after(5))), NOW)
    whole.add_or_update(waiting(wants("longer").requeue_state(2, at=after(9))), NOW)
    whole.add_or_update(waiting(wants("gone").requeue_state(1, at=after(5))), NOW)
    whole.remove(key_of("gone"))

    whole.requeueing.wake_due(after(5))
    assert whole.busy() == []
    whole.requeueing.wake_due(after(9))
    assert whole.busy() == ["cq"]


def test_a_removed_queue_is_not_busy_and_comes_back_with_its_work() -> None:
    whole = manager("a")
    whole.remove_queue("cq")
    assert whole.busy() == []

    whole.set_queue("cq", is_strict=False, now=NOW)

    assert whole.busy() == ["cq"]


@pytest.fixture
def two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_manager, "MOVED_AT_A_TIME", 2)


NAMES = ("a", "b", "c", "d", "e")


def heads(whole: QueueManager) -> list[str]:
    return [head.key.name for head in iter(whole.lines["cq"].pop, None)]


def moved(whole: QueueManager) -> Iterator[list[str]]:
    """The ClusterQueues that have a head, before each step."""
    while whole.is_moving:
        yield whole.busy()
        whole.move_some(NOW)
    yield whole.busy()


def test_many_leave_their_line_some_at_a_time_and_none_of_them_is_a_head(two_at_a_time: None) -> None:
    whole = manager(*NAMES)
    whole.set_route(key_of("lq"), None, NOW)
    assert list(moved(whole)) == [[]] * 4
    assert whole.lines["cq"].size == 0


def test_many_come_some_at_a_time_and_none_is_a_head_before_all_are_there(two_at_a_time: None) -> None:
    whole = manager()
    whole.set_route(key_of("lq"), None, NOW)
    for age, name in enumerate(NAMES):
        whole.add_or_update(waiting(wants(name, age=age)), NOW)
    whole.set_route(key_of("lq"), "cq", NOW)
    assert list(moved(whole)) == [[], [], [], ["cq"]]
    assert heads(whole) == list(reversed(NAMES))


def test_whose_queue_changes_again_before_all_have_moved_need_not_wait_for_it(two_at_a_time: None) -> None:
    whole = manager(*NAMES)
    for queue in (None, "cq"):
        whole.set_route(key_of("lq"), queue, NOW)
    assert (whole.is_moving, whole.busy(), whole.lines["cq"].size) == (False, ["cq"], 5)


def test_who_leaves_or_is_seen_again_before_it_has_moved_is_where_it_belongs(two_at_a_time: None) -> None:
    whole = manager(*NAMES)
    whole.set_route(key_of("lq"), None, NOW)
    whole.leave(key_of("a"))
    whole.add_or_update(waiting(wants("b")), NOW)
    whole.add_or_update(waiting(wants("c").queue("other")), NOW)
    assert whole.lines["cq"].size == 2
    assert list(moved(whole))[-1] == []
    assert (whole.lines["cq"].size, whole.members(key_of("lq"))) == (0, 3)


def test_a_look_is_due_as_long_as_some_have_to_move(two_at_a_time: None) -> None:
    """Also where none is a head."""
    engine = Engine()
    engine.observe(None, cluster_queue("cq").build(), NOW)
    engine.observe(None, local_queue("lq", "cq").build(), NOW)
    for name in NAMES:
        engine.observe(None, workload(name).queue("lq").request(cpu=1).build(), NOW)
    while engine.scheduler.next_look(NOW) == NOW:
        engine.scheduler.cycle(NOW)
    engine.observe(None, local_queue("lq", "cq").stopped().version(2).build(), NOW)
    looks = 0
    while engine.scheduler.next_look(NOW) == NOW:
        engine.scheduler.cycle(NOW)
        looks += 1
    assert looks == 3


@pytest.mark.parametrize("seed", range(20))
def test_in_the_end_all_stand_as_if_they_had_moved_at_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    luck = random.Random(seed)
    deeds = [luck.choice(("stop", "open", "line up", "leave", "step")) for _ in range(60)]
    lines = []
    for number in (1, 1000):
        monkeypatch.setattr(queue_manager, "MOVED_AT_A_TIME", number)
        whole, luck = manager(), random.Random(seed)
        for deed in deeds:
            name = f"w{luck.randrange(12)}"
            if deed == "line up":
                whole.add_or_update(waiting(wants(name, age=luck.randrange(50))), NOW)
            elif deed == "leave":
                whole.leave(key_of(name))
            elif deed == "step":
                whole.move_some(NOW)
            else:
                whole.set_route(key_of("lq"), "cq" if deed == "open" else None, NOW)
        while whole.is_moving:
            whole.move_some(NOW)
        lines.append((whole.busy(), whole.members(key_of("lq")), heads(whole)))
    assert lines[0] == lines[1]
