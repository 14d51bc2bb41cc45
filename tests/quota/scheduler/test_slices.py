"""Slices of elastic jobs: one takes the place of another, and asks for the difference (quota-engine 3.1)."""

from __future__ import annotations

import pytest

from multikueue.api.kueue.workload import ELASTIC_ANNOTATION, FINISHED, REPLACES_ANNOTATION, SLICE_REPLACED, Workload
from multikueue.quota.engine import Engine, EngineRules
from tests.builders import NOW, WorkloadBuilder, cluster_queue, flavor, local_queue, workload
from tests.quota.builders import SECOND, Play, after, facts_of, key_of, step, wants


def elastic(name: str, *, cpu: int, replaces: str = "", age: int = 0, job: str = "job") -> WorkloadBuilder:
    marks = {ELASTIC_ANNOTATION: "true"} | ({REPLACES_ANNOTATION: f"default/{replaces}"} if replaces else {})
    return wants(name, age=age, cpu=cpu).owner_job(job).annotations(marks)


def play(**quota: int) -> Play:
    return Play.with_queue(Engine(EngineRules(has_elastic_jobs=True)), **quota)


def with_one(used: int = 3, *, quota: int = 5) -> Play:
    """A slice has quota, and all has been written."""
    scene = play(cpu=quota)
    scene.submit(elastic("old", age=9, cpu=used))
    assert scene.settle() == ["old"]
    return scene


FITS = {
    "the difference fits where the whole would not": (5, True),
    "no more than there is": (6, False),
    "as much as before": (3, True),
    "less than before": (2, True),
}


@pytest.mark.parametrize(("asks", "fits"), FITS.values(), ids=FITS.keys())
def test_a_slice_asks_for_the_difference(asks: int, fits: bool) -> None:
    scene = with_one()
    scene.submit(elastic("new", replaces="old", cpu=asks))
    assert scene.run() == (["new"] if fits else [])
    assert scene.used() == str(asks if fits else 3)


def test_of_another_queue_it_asks_for_everything() -> None:
    scene = Play(
        cluster_queue("cq").quota("default", cpu=5).build(),
        cluster_queue("other").quota("default", cpu=4).build(),
        local_queue("lq", "cq").build(),
        local_queue("there", "other").build(),
        engine=Engine(EngineRules(has_elastic_jobs=True)),
    )
    scene.submit(elastic("old", age=9, cpu=3))
    scene.run()
    scene.submit(elastic("new", replaces="old", cpu=5).queue("there"))
    assert scene.run() == []


def test_one_that_is_no_slice_asks_for_everything() -> None:
    scene = with_one()
    scene.submit(wants("new", cpu=5).annotations({REPLACES_ANNOTATION: "default/old"}))
    assert scene.run() == []


def test_of_another_job_it_cannot_take_the_place() -> None:
    """Or whoever may write Workloads could have quota that counts as another's."""
    scene = with_one()
    scene.submit(elastic("new", replaces="old", cpu=5, job="another"))
    assert scene.run() == []
    scene.submit(elastic("new", replaces="old", cpu=2, job="another"))
    assert scene.settle() == ["new"]
    scene.engine.observe(None, scene.workloads[key_of("old")], after(1))
    assert scene.used() == "5"


def test_copies_on_a_worker_have_no_owner_yet() -> None:
    scene = Play.with_queue(Engine(EngineRules(has_elastic_jobs=True, has_copies=True)), cpu=5)
    scene.submit(elastic("old", age=9, cpu=3))
    scene.settle()
    marks = {ELASTIC_ANNOTATION: "true", REPLACES_ANNOTATION: "default/old"}
    scene.submit(wants("new", cpu=5).annotations(marks))
    assert scene.settle() == ["new"]
    assert scene.used() == "5"


def test_two_that_replace_each_other_do_not_both_vanish() -> None:
    scene = play(cpu=5)
    for name, other in (("one", "two"), ("two", "one")):
        scene.submit(elastic(name, replaces=other, cpu=2).reserved("cq"))
    scene.engine.observe(None, scene.workloads[key_of("one")], after(1))
    assert scene.used() == "2"


def test_without_elastic_jobs_a_slice_is_a_workload_like_any_other() -> None:
    scene = Play.with_queue(cpu=5)
    scene.submit(elastic("old", age=9, cpu=3))
    scene.run()
    scene.submit(elastic("new", replaces="old", cpu=5))
    assert scene.run() == []


def test_the_one_before_it_counts_no_more_whatever_is_seen_of_it() -> None:
    scene = with_one()
    scene.submit(elastic("new", replaces="old", cpu=5))
    scene.run()
    scene.engine.observe(None, scene.workloads[key_of("old")], after(1))
    assert scene.used() == "5"
    scene.engine.observe(workload("old").build(), None, after(2))
    assert scene.used() == "5"


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_a_process_that_begins_between_the_two_writes_counts_it_once(order: tuple[str, str]) -> None:
    scene = with_one()
    scene.submit(elastic("new", replaces="old", cpu=5))
    assert scene.settle() == ["new"]
    again = play(cpu=5)
    for name in order:
        again.engine.observe(None, scene.workloads[key_of(name)], after(1))
    assert again.used() == "5"


def test_what_could_not_be_written_gives_the_one_before_it_its_quota_again() -> None:
    scene = with_one()
    scene.engine.observe(None, elastic("new", replaces="old", cpu=5).build(), NOW)
    assert scene.engine.scheduler.cycle(NOW).reserved == [key_of("new")]
    scene.engine.scheduler.forget(key_of("new"), after(1))
    assert scene.used() == "3"


def test_unless_that_is_finished_by_then() -> None:
    scene = with_one()
    scene.engine.observe(None, elastic("new", replaces="old", cpu=5).build(), NOW)
    scene.engine.scheduler.cycle(NOW)
    scene.engine.observe(workload("old").build(), None, after(1))
    scene.engine.scheduler.forget(key_of("new"), after(2))
    assert scene.used() == "0"


def test_a_slice_that_is_evicted_leaves_room_for_all_of_it() -> None:
    scene = with_one()
    scene.submit(elastic("new", replaces="old", cpu=5))
    scene.run()
    scene.engine.observe(workload("old").build(), None, after(1))
    scene.engine.observe(workload("new").build(), None, after(1))
    assert scene.used() == "0"


def test_it_gets_the_flavors_of_the_one_before_it() -> None:
    queue = cluster_queue("cq").quota("first", cpu=4).quota("second", cpu=9).build()
    scene = Play(
        flavor("first").build(),
        flavor("second").build(),
        queue,
        local_queue("lq", "cq").build(),
        engine=Engine(EngineRules(has_elastic_jobs=True)),
    )
    scene.submit(elastic("old", age=9, cpu=3))
    scene.run()
    scene.submit(elastic("new", replaces="old", cpu=5))
    assert scene.run() == []
    assert "flavor first" in scene.verdict("new")
    assert "flavor second" not in scene.verdict("new")
    scene.apply(cluster_queue("cq").quota("first", cpu=5).quota("second", cpu=9).build())
    scene.wait(2)
    assert scene.run() == ["new"]


def test_of_a_flavor_that_its_queue_has_no_more_it_gets_nothing() -> None:
    scene = with_one()
    scene.apply(flavor("other").build(), cluster_queue("cq").quota("other", cpu=9).build())
    scene.submit(elastic("new", replaces="old", cpu=5))
    assert scene.run() == []


def test_it_never_asks_the_one_before_it_to_go() -> None:
    queue = cluster_queue("cq").quota("default", cpu=5).preempt(within_cluster_queue="LowerPriority").build()
    scene = Play(queue, local_queue("lq", "cq").build(), engine=Engine(EngineRules(has_elastic_jobs=True)))
    scene.submit(elastic("old", age=9, cpu=3), wants("low", age=8, cpu=2).priority(-1))
    scene.run()
    scene.submit(elastic("new", replaces="old", cpu=5).priority(1))
    cycle = scene.engine.scheduler.cycle(scene.now)
    assert (cycle.reserved, cycle.evicted) == ([], [key_of("low")])


def test_nobody_asks_one_to_go_that_was_replaced_in_the_same_cycle() -> None:
    """The quota that it had is another's by then."""
    one = cluster_queue("one").quota("default", cpu=3).cohort("all").build()
    two = cluster_queue("two").quota("default", cpu=3).cohort("all").preempt(reclaim_within_cohort="Any").build()
    scene = Play(
        one,
        two,
        local_queue("lq", "one").build(),
        local_queue("theirs", "two").build(),
        engine=Engine(EngineRules(has_elastic_jobs=True)),
    )
    scene.submit(elastic("old", age=9, cpu=5))
    scene.run()
    scene.submit(elastic("new", replaces="old", age=5, cpu=6), wants("claim", queue="theirs", cpu=3))
    cycle = scene.engine.scheduler.cycle(scene.now)
    assert len(cycle.reserved) + len(cycle.evicted) == 1
    assert key_of("claim") not in cycle.reserved


# --- the step -----------------------------------------------------------------------------------------------------------


def successor() -> Workload:
    return workload("new").reserved("cq").build()


def test_the_one_before_it_is_finished_once_another_has_quota_in_its_place() -> None:
    old = workload("old").reserved("cq", at=NOW - SECOND).admitted().build()
    done = step(old, facts_of(NOW, successor=successor()))
    (finished,) = (c for c in done.status.conditions if c.type == FINISHED)
    assert (finished.status, finished.reason) == ("True", SLICE_REPLACED)
    assert "Workload new" in finished.message
    assert [event.reason for event in done.events] == [SLICE_REPLACED]


def test_a_slice_gets_the_cluster_of_the_one_before_it_with_its_quota() -> None:
    new = workload("new").build()
    admission = successor().status.admission
    done = step(new, facts_of(NOW, reservation=admission, takes_over="w1"))
    assert done.status.cluster_name == "w1"
    assert step(new, facts_of(NOW, reservation=admission)).status.cluster_name is None
