"""One workload at a time: nobody gets quota while pods of another are not ready (quota-engine 5.2, QE-340)."""

from __future__ import annotations

import msgspec

from multikueue.api.kubernetes.builtins import LimitRange, LimitRangeItem, LimitRangeSpec
from multikueue.api.kueue.workload import PODS_READY, QUOTA_RESERVED
from multikueue.api.meta import Condition, ObjectMeta
from multikueue.quota.engine import Engine, EngineRules
from tests.builders import cluster_queue, flavor, local_queue, workload
from tests.quota.builders import Play, key_of, wants


def play(*, block: bool = True, cpu: int = 10) -> Play:
    """Two queues with room for all."""
    queues = [cluster_queue(name).quota("default", cpu=cpu).build() for name in ("cq", "other")]
    lines = local_queue("lq", "cq").build(), local_queue("theirs", "other").build()
    return Play(*queues, *lines, engine=Engine(EngineRules(should_block_admission=block)))


def ready(scene: Play, name: str) -> None:
    """All pods of the workload run."""
    value = scene.workloads[key_of(name)]
    condition = Condition(type=PODS_READY, status="True", reason="Started", message="", last_transition_time=scene.now)
    status = msgspec.structs.replace(value.status, conditions=(*value.status.conditions, condition))
    scene.see(msgspec.structs.replace(value, status=status))


def why(scene: Play, name: str) -> tuple[str, str, str]:
    found = scene.workloads[key_of(name)].condition(QUOTA_RESERVED)
    assert found
    return found.status, found.reason, found.message


WAITING = ("False", "Waiting", "waiting for all admitted workloads to be in PodsReady condition")


def test_qe_340_the_second_waits_until_the_first_is_ready() -> None:
    scene = play()
    scene.submit(wants("first", cpu=1, age=9), wants("second", cpu=1))
    assert scene.settle() == ["first"]
    assert why(scene, "second") == WAITING
    assert scene.engine.scheduler.next_look(scene.now) is None  # nobody asks again and again

    ready(scene, "first")
    assert scene.settle() == ["second"]


def test_qe_340_queues_wait_for_each_other() -> None:
    scene = play()
    scene.submit(wants("first", cpu=1, age=9), wants("second", queue="theirs", cpu=1))
    assert scene.settle() == ["first"]
    assert why(scene, "second") == WAITING


def test_qe_340_without_blocking_both_get_quota() -> None:
    scene = play(block=False)
    scene.submit(wants("first", cpu=1, age=9), wants("second", queue="theirs", cpu=1))
    assert sorted(scene.settle()) == ["first", "second"]


def test_qe_340_an_eviction_lets_the_next_in_too() -> None:
    scene = play()
    scene.submit(wants("first", cpu=1, age=9), wants("second", cpu=1))
    scene.settle()
    scene.submit(wants("first", cpu=1, age=9).inactive())
    assert scene.settle() == ["second"]


def test_who_is_held_goes_first_whoever_comes_meanwhile() -> None:
    scene = play()
    scene.submit(wants("first", cpu=1, age=9), wants("second", cpu=1))
    scene.settle()
    scene.submit(wants("urgent", cpu=1).priority(9))
    assert scene.settle() == []
    ready(scene, "first")
    assert scene.settle() == ["second"]
    assert why(scene, "urgent") == WAITING


def test_one_that_does_not_fit_is_refused_and_holds_nobody_up() -> None:
    scene = play()
    scene.submit(wants("first", cpu=1, age=9), wants("large", cpu=99, age=5), wants("second", cpu=1))
    assert scene.settle() == ["first"]
    assert why(scene, "large")[1] == "Pending"
    assert why(scene, "second") == WAITING


def test_what_is_gone_is_not_let_in() -> None:
    scene = play()
    scene.submit(wants("first", cpu=1, age=9), wants("second", cpu=1, age=5), wants("third", cpu=1))
    scene.settle()
    scene.engine.observe(workload("second").build(), None, scene.now)
    del scene.workloads[key_of("second")]
    ready(scene, "first")
    assert scene.settle() == ["third"]


def test_nor_what_asks_for_something_else_by_a_new_limit_range() -> None:
    scene = play()
    scene.submit(wants("first", cpu=1, age=9), wants("second", cpu=1))
    scene.settle()
    at_least = LimitRangeItem(type="Container", min={"cpu": "2"})
    meta = ObjectMeta(name="limits", namespace="default")
    scene.apply(LimitRange(metadata=meta, spec=LimitRangeSpec(limits=(at_least,))))
    ready(scene, "first")
    assert scene.settle() == []
    assert "LimitRange" in why(scene, "second")[2]


def test_nor_what_asks_for_something_else_now() -> None:
    scene = play()
    scene.submit(wants("first", cpu=1, age=9), wants("second", cpu=1))
    scene.settle()
    scene.submit(wants("second", cpu=99))
    ready(scene, "first")
    assert scene.settle() == []
    assert why(scene, "second")[1] == "Pending"


def test_nor_into_a_queue_that_was_stopped() -> None:
    scene = play()
    scene.submit(wants("first", cpu=1, age=9), wants("second", cpu=1))
    scene.settle()
    scene.apply(local_queue("lq", "cq").stopped().build())
    ready(scene, "first")
    assert scene.settle() == []


def test_nor_where_there_is_no_room_any_more() -> None:
    """Unlike in Kueue, which would give out what is not there."""
    scene = play()
    scene.submit(wants("first", cpu=1, age=9), wants("second", cpu=5))
    scene.settle()
    scene.apply(flavor("default").build(), cluster_queue("cq").quota("default", cpu=4).build())
    ready(scene, "first")
    assert scene.settle() == []
    assert scene.used() == "1"


def test_quota_taken_back_opens_the_gate() -> None:
    scene = play()
    scene.submit(wants("first", cpu=1, age=9), wants("second", cpu=1))
    assert scene.run() == ["first"]
    scene.engine.scheduler.forget(key_of("first"), scene.now)
    assert scene.run() == ["second"]
