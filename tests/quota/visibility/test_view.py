"""What is answered to those who only ask."""

from __future__ import annotations

from collections import Counter

import pytest

from multikueue.api.kueue.workload import Admission, PodSetAssignment
from multikueue.api.meta import ObjectKey
from multikueue.quota.engine import Engine
from multikueue.quota.scheduler.scheduler import Cycle
from tests.builders import NOW, cluster_queue, local_queue
from tests.quota.builders import Play, key_of, wants

# --- answers ---------------------------------------------------------------------------------------------------------


def _on(*flavors: str) -> Admission:
    return Admission(pod_set_assignments=tuple(PodSetAssignment(flavors={"cpu": name}) for name in flavors))


def test_qe_339_required_checks_depend_on_the_flavors() -> None:
    queue = (
        cluster_queue("cq")
        .quota("a", cpu=1)
        .quota("b", cpu=1)
        .checks("all")
        .check_on("only-b", "b")
        .check_on("both", "b", "a")
    )
    engine = Play(queue.build()).engine

    assert engine.view.required_checks("cq", None) == ("all", "both")
    assert engine.view.required_checks("cq", _on("a")) == ("all", "both")
    assert engine.view.required_checks("cq", _on("a", "b")) == ("all", "only-b", "both")
    assert engine.view.required_checks("unknown", _on("a")) == ()


def test_the_status_of_a_queue_counts_what_is_assumed() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("a", age=1, cpu=3), wants("b", cpu=3))
    play.run()
    status = play.engine.view.cluster_queue_status("cq", play.now)

    assert (status.pending_workloads, status.reserving_workloads, status.admitted_workloads) == (1, 1, 0)
    local = play.engine.view.local_queue_status(local_queue("lq").build().key, play.now)
    assert (local.pending_workloads, local.reserving_workloads, local.admitted_workloads) == (1, 1, 0)
    assert local.conditions[0].reason == "Ready"


def test_unknown_names_are_answered_with_nothing() -> None:
    engine = Engine()

    assert engine.view.cluster_queue("x") is None
    assert engine.view.local_queue(key_of("x")) is None
    assert engine.view.pending_in("x") == ()
    assert engine.view.cluster_queue_problems("x") == ()
    assert engine.view.is_active("x") is False
    assert engine.scheduler.next_look(NOW) is None
    assert engine.scheduler.cycle(NOW) == Cycle()
    with pytest.raises(KeyError):
        engine.view.cluster_queue_status("x", NOW)


# --- what others may look at -----------------------------------------------------------------------------------------


def test_who_was_not_looked_at_is_told_apart_from_who_has_to_wait_for_a_change() -> None:
    play = Play.with_queue(cpu=1)
    play.submit(wants("a", cpu=2), wants("b", cpu=1))
    lq = ObjectKey("default", "lq")
    assert play.engine.view.waiting_by_local_queue("cq") == (Counter({lq: 2}), Counter())
    assert play.engine.view.waiting("cq") == (2, 0)
    play.run()
    assert play.engine.view.waiting_by_local_queue("cq") == (Counter(), Counter({lq: 1}))
    assert play.engine.view.waiting("cq") == (0, 1)
    assert play.engine.view.waiting("unknown") == (0, 0)
    assert play.engine.view.waiting_by_local_queue("unknown") == (Counter(), Counter())


def test_in_a_queue_that_admits_nothing_nobody_is_about_to_be_looked_at() -> None:
    play = Play.with_queue(cpu=1)
    play.submit(wants("a", cpu=1))
    play.apply(cluster_queue("cq").quota("default", cpu=1).stopped().build())
    assert play.engine.view.waiting_by_local_queue("cq") == (Counter(), Counter({ObjectKey("default", "lq"): 1}))
    assert play.engine.view.waiting("cq") == (0, 1)


def test_the_line_of_a_queue_is_shown_as_it_stands_and_left_as_it_is() -> None:
    play = Play.with_queue(cpu=0)
    play.submit(wants("a", cpu=1), wants("b", cpu=1, age=5), wants("c", cpu=1).priority(9))
    play.run()
    due = play.engine.scheduler.next_look(play.now)
    shown = [waiting.key.name for waiting in play.engine.view.waiting_in("cq")]
    assert shown == ["c", "b", "a"] == [key.name for key in play.engine.view.pending_in("cq")]
    assert play.engine.scheduler.next_look(play.now) == due
    assert play.engine.view.pending_in("unknown") == ()
