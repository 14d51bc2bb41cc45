"""Work that passes the head of a StrictFIFO queue, and never delays it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.api.kueue.queues import BACKFILL_ANNOTATION
from multikueue.api.kueue.workload import BACKFILLED, EVICTED, PREEMPTED
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.preemption.fair import FairPreemption
from multikueue.quota.scheduler.backfill import DEPTH, backfill, backfill_problem, start_of
from multikueue.quota.workload.ends import end_of
from tests.builders import (
    ClusterQueueBuilder,
    WorkloadBuilder,
    cluster_queue,
    flavor,
    limits,
    local_queue,
    pod_set,
    workload,
)
from tests.quota.builders import Play, after, key_of, wants

ON = {BACKFILL_ANNOTATION: "SpareQuota"}
GPU = "nvidia.com/gpu"


def gpus(count: int) -> dict[str, Any]:
    return {GPU: count}


def queue(*, on: bool = True, mode: str = "SpareQuota", cpu: Any = 8, gpu: Any = 4) -> ClusterQueueBuilder:
    """cpu of one flavor and GPUs of another, in a strict line."""
    made = cluster_queue("cq").quota("default", cpu=cpu).quota("gpus", {GPU: gpu}).strict_fifo()
    return made.annotations({BACKFILL_ANNOTATION: mode}) if on else made


def play(builder: ClusterQueueBuilder, *others: ClusterQueueBuilder, engine: Engine | None = None) -> Play:
    made = Play(flavor("gpus").build(), builder.build(), local_queue("lq", "cq").build(), engine=engine)
    made.apply(*(other.build() for other in others))
    return made


def blocked(builder: ClusterQueueBuilder, *others: ClusterQueueBuilder, **head: Any) -> Play:
    """All GPUs but one are in use, and so are three cpus; the head wants what `head` says."""
    made = play(builder, *others)
    made.submit(wants("running", age=99, cpu=3, **gpus(3)))
    made.settle()
    made.submit(wants("head", age=50, **head))
    made.settle()
    assert "head" not in made.reserved()
    return made


WANTS_GPUS: dict[str, Any] = {GPU: 4}
WANTS_BOTH: dict[str, Any] = {"cpu": 2, GPU: 4}

CASES: dict[str, tuple[ClusterQueueBuilder, dict[str, Any], dict[str, Any], bool]] = {
    "it uses nothing the head needs": (queue(), WANTS_GPUS, {"cpu": 5}, True),
    "it uses what the head needs": (queue(), WANTS_GPUS, {GPU: 1}, False),
    "the head's need remains": (queue(), WANTS_BOTH, {"cpu": 3}, True),
    "the head's need would not remain": (queue(), WANTS_BOTH, {"cpu": 4}, False),
    "it does not fit": (queue(), WANTS_GPUS, {"cpu": 6}, False),
    "backfill is off": (queue(on=False), WANTS_GPUS, {"cpu": 1}, False),
    "what the head needs might be lent": (queue().cohort("all"), WANTS_BOTH, {"cpu": 1}, False),
    "what the head needs not might be lent": (queue().cohort("all"), WANTS_GPUS, {"cpu": 1}, True),
    "what the head needs is never lent": (queue(cpu=limits(8, lending=0)).cohort("all"), WANTS_BOTH, {"cpu": 3}, True),
    "enough is never lent": (queue(cpu=limits(8, lending=1)).cohort("all"), WANTS_BOTH, {"cpu": 3}, False),
    "it would have to borrow": (queue(cpu=4).cohort("all"), WANTS_GPUS, {"cpu": 2}, False),
}


@pytest.mark.parametrize(("builder", "head", "filler", "passes"), CASES.values(), ids=CASES.keys())
def test_who_may_pass_the_head(
    builder: ClusterQueueBuilder, head: dict[str, Any], filler: dict[str, Any], passes: bool
) -> None:
    bank = cluster_queue("bank").cohort("all").quota("default", cpu=9)
    scene = blocked(builder, *([bank] if builder.build().spec.cohort_name else []), **head)
    scene.submit(wants("filler", **filler))
    assert ("filler" in scene.run()) is passes
    due = scene.engine.scheduler.next_look(scene.now)
    assert due is None or due > scene.now


def test_several_pass_as_long_as_the_head_s_need_remains() -> None:
    scene = blocked(queue(), **WANTS_BOTH)
    scene.submit(*(wants(f"filler{number}", cpu=2, age=9 - number) for number in range(3)))
    assert scene.run() == ["filler0"]
    scene.submit(wants("small", cpu=1))
    assert scene.run() == ["small"]
    assert scene.engine.view.pending_in("cq")[0].name == "head"


def test_the_head_starts_as_soon_as_it_fits() -> None:
    scene = blocked(queue(), **WANTS_BOTH)
    scene.submit(wants("filler", cpu=3))
    scene.settle()
    scene.finish("running")
    assert scene.run() == ["head"]


def test_nobody_is_evicted_for_one_that_passes() -> None:
    builder = queue().preempt(within_cluster_queue="LowerPriority")
    scene = blocked(builder, **WANTS_GPUS)
    scene.submit(wants("weak", cpu=5).priority(-1))
    assert scene.run() == ["weak"]
    scene.submit(wants("strong", cpu=5, age=1).priority(0))
    assert scene.run() == []


def test_behind_a_head_that_has_others_evicted_one_may_pass() -> None:
    scene = play(queue().preempt(within_cluster_queue="LowerPriority"))
    scene.submit(wants("weak", cpu=1, **gpus(4)).priority(-1))
    scene.settle()
    scene.submit(wants("head", age=9, **gpus(4)), wants("filler", cpu=1))
    assert scene.run() == ["filler"]
    assert scene.engine.scheduler.eviction(key_of("weak"))
    assert not scene.engine.scheduler.eviction(key_of("filler"))


def test_a_head_that_can_never_run_lets_nobody_pass_by_this() -> None:
    scene = play(queue())
    broken = pod_set("main").template(
        b'{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}}]}}'
    )
    scene.submit(wants("head", age=9).pod_sets(broken), wants("filler", **gpus(1)))
    assert scene.run() == []


def test_best_effort_queues_need_none() -> None:
    builder = cluster_queue("cq").quota("default", cpu=8).annotations(ON)
    assert backfill(builder.build()) == ""


def test_shares_do_not_matter_to_it() -> None:
    scene = play(queue().cohort("all"), engine=Engine(EngineRules(fair_sharing=FairPreemption())))
    scene.submit(wants("head", age=9, **gpus(5)), wants("filler", cpu=1))
    assert scene.run() == ["filler"]


def test_turning_it_on_is_enough() -> None:
    scene = blocked(queue(on=False), **WANTS_GPUS)
    scene.submit(wants("filler", cpu=1))
    assert scene.run() == []
    scene.apply(queue().build())
    assert scene.run() == ["filler"]


def test_so_many_are_looked_at() -> None:
    scene = blocked(queue(), **WANTS_GPUS)
    scene.submit(*(wants(f"large{number}", age=9, cpu=6) for number in range(DEPTH)))
    scene.submit(wants("small", cpu=1))
    assert scene.run() == []
    scene.engine.observe(workload("large0").build(), None, scene.now)
    assert scene.run() == ["small"]


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({}, ""),
        (ON, ""),
        (
            {BACKFILL_ANNOTATION: "yes"},
            'ClusterQueue cq: annotation multikueue.dev/backfill: expected "SpareQuota" or "KnownEnds", got "yes"',
        ),
    ],
    ids=["none", "on", "nonsense"],
)
def test_reading_the_annotation(annotations: dict[str, str], problem: str) -> None:
    value = cluster_queue("cq").strict_fifo().annotations(annotations).build()
    assert (backfill(value), backfill_problem(value)) == ("SpareQuota" if annotations == ON else "", problem)


# --- work that is over before -----------------------------------------------------------------------------------------

MINUTE = timedelta(minutes=1)


def timed(*, minutes: int = 10, builder: ClusterQueueBuilder | None = None, **head: Any) -> Play:
    """Three of four GPUs are in use for so many minutes at most; the head wants all."""
    scene = play(builder or queue(mode="KnownEnds"))
    scene.submit(wants("running", age=99, **gpus(3)).max_execution_time(minutes * MINUTE))
    scene.settle()
    scene.submit(wants("head", age=50, **(head or gpus(4))))
    scene.settle()
    return scene


TIMED: dict[str, tuple[Play, int | None, bool]] = {
    "over in time": (timed(), 9, True),
    "not over in time": (timed(), 10, False),
    "without an end": (timed(), None, False),
    "ends do not count": (timed(builder=queue()), 1, False),
    "nobody knows when the head starts": (timed(builder=queue(mode="KnownEnds").cohort("all")), 1, False),
}


@pytest.mark.parametrize(("scene", "minutes", "passes"), TIMED.values(), ids=TIMED.keys())
def test_who_is_over_before_the_head_starts(scene: Play, minutes: int | None, passes: bool) -> None:
    filler = wants("filler", **gpus(1))
    scene.submit(filler if minutes is None else filler.max_execution_time(minutes * MINUTE))
    assert ("filler" in scene.settle()) is passes
    kept = scene.workloads[key_of("filler")].condition(BACKFILLED)
    assert (kept.message if kept else "") == ("2026-01-01T12:09:30Z" if passes else "")


def test_what_it_ran_before_leaves_it_less_time() -> None:
    scene = timed()
    value = wants("filler", **gpus(1)).max_execution_time(12 * MINUTE).build()
    past = msgspec.structs.replace(value.status, accumulated_past_execution_time_seconds=180)
    scene.see(msgspec.structs.replace(value, status=past))
    assert scene.settle() == ["filler"]


def test_who_has_no_end_is_taken_to_stay() -> None:
    scene = play(queue(mode="KnownEnds"))
    scene.submit(wants("known", age=99, **gpus(2)).max_execution_time(10 * MINUTE), wants("unknown", age=98, **gpus(1)))
    scene.settle()
    scene.submit(wants("head", age=50, **gpus(4)), wants("filler", **gpus(1)).max_execution_time(MINUTE))
    assert scene.settle() == []
    scene.engine.observe(workload("head").build(), None, scene.now)
    del scene.workloads[key_of("head")]
    assert scene.settle() == ["filler"]


def test_a_head_that_makes_do_with_less_may_start_sooner() -> None:
    scene = play(queue(mode="KnownEnds"))
    first = wants("first", age=99, **gpus(2)).max_execution_time(4 * MINUTE)
    scene.submit(first, wants("second", age=98, **gpus(2)).max_execution_time(9 * MINUTE))
    scene.settle()
    head = pod_set("main", count=4).min_count(2).request(gpus(1))
    scene.submit(wants("head", age=50).pod_sets(head))
    seen = scene.engine.view.head(next(scene.engine.view.waiting_in("cq")), "cq")
    assert start_of(seen, scene.engine.view.reservations_in("cq"), scene.now) == after(240)


def test_for_a_head_that_has_others_evicted_no_end_is_known() -> None:
    scene = play(queue(mode="KnownEnds").preempt(within_cluster_queue="LowerPriority"))
    scene.submit(wants("weak", age=99, **gpus(3)).priority(-1).max_execution_time(10 * MINUTE))
    scene.settle()
    scene.submit(wants("head", age=50, **gpus(4)), wants("filler", **gpus(1)).max_execution_time(MINUTE))
    assert scene.run() == []


def test_one_that_started_late_goes_when_the_head_is_to_start() -> None:
    scene = timed()
    late = wants("filler", **gpus(1)).reserved("cq", flavors={GPU: "gpus"}).admitted()
    scene.submit(late.condition(BACKFILLED, message="2026-01-01T12:09:30Z"))
    scene.wait(9 * 60 + 29)
    assert not scene.write(key_of("filler"), is_holding=True)
    assert scene.step(key_of("filler"), is_holding=True).again_after == timedelta(seconds=1)
    scene.wait(1)
    assert scene.write(key_of("filler"), is_holding=True)
    evicted = scene.workloads[key_of("filler")].condition(EVICTED)
    assert evicted
    assert (evicted.status, evicted.reason) == ("True", "Preempted")
    assert not scene.workloads[key_of("filler")].has(PREEMPTED)  # so it is none of the budget's


def test_later_quota_is_its_own_again() -> None:
    scene = timed()
    scene.submit(wants("filler", **gpus(1)).max_execution_time(5 * MINUTE))
    scene.settle()
    scene.wait(600)
    scene.finish("running")
    scene.settle()
    scene.wait(1)
    scene.finish("head")
    scene.settle()
    scene.wait(1)
    scene.settle()
    value = scene.workloads[key_of("filler")]
    assert value.has("QuotaReserved")
    assert value.condition(BACKFILLED) is None


def test_another_process_knows_the_ends_too() -> None:
    scene = timed()
    scene.submit(wants("filler", **gpus(1)).max_execution_time(5 * MINUTE))
    scene.settle()
    again = play(queue(mode="KnownEnds"))
    for value in scene.workloads.values():
        again.see(value)
    for each in (scene, again):
        ends = {holding.key.name: holding.ends_by for holding in each.engine.view.reservations_in("cq")}
        assert ends == {"running": after(600), "filler": after(300)}


def test_words_that_are_no_time_end_nothing() -> None:
    assert end_of(wants("w").condition(BACKFILLED, message="soon").build().status) is None


# --- it never delays the head ----------------------------------------------------------------------------------------


class Task(NamedTuple):
    """At a minute somebody asks for this, and uses it for so many minutes, which they say before or not."""

    at: int
    minutes: int
    cpu: int
    gpu: int
    says: bool = True


TASKS = st.lists(
    st.builds(
        Task,
        at=st.integers(0, 6),
        minutes=st.integers(1, 9),
        cpu=st.sampled_from([0, 1, 5]),
        gpu=st.integers(1, 4),
        says=st.sampled_from([True, True, False]),
    ),
    min_size=3,
    max_size=9,
)
LONG = 100


class Life(NamedTuple):
    """When each got quota; who passed a head, and which, by minute."""

    starts: dict[str, int]
    passed: dict[int, str]


def asked(task: Task, name: str) -> WorkloadBuilder:
    made = wants(name, cpu=task.cpu, **gpus(task.gpu), age=-60 * task.at)
    return made.max_execution_time(task.minutes * MINUTE) if task.says else made


def rank(tasks: list[Task], name: str) -> tuple[int, str]:
    return tasks[int(name[1:])].at, name


def stay(task: Task, mode: str) -> int:
    """Known ends promise nothing where somebody ends earlier than they have to, and who says no end never has to."""
    return task.minutes if task.says or mode == "SpareQuota" else LONG


def live(tasks: list[Task], mode: str, *, until: int = LONG) -> Life:
    """The life of one queue, minute by minute. Before the minute `until` others may pass its head."""
    scene = play(queue(on=until > 0, mode=mode))
    starts: dict[str, int] = {}
    passed: dict[int, str] = {}
    for minute in range(LONG):
        if minute == until:
            scene.apply(queue(on=False).build())
        for number, task in enumerate(tasks):
            name = f"t{number}"
            if task.at == minute:
                scene.submit(asked(task, name))
            if name in starts and starts[name] + stay(task, mode) == minute:
                scene.engine.observe(workload(name).build(), None, scene.now)
                del scene.workloads[key_of(name)]
        for name in scene.settle():
            starts[name] = minute
            ahead = [key.name for key in scene.engine.view.pending_in("cq")]
            if ahead and rank(tasks, ahead[0]) < rank(tasks, name):
                passed.setdefault(minute, ahead[0])
        scene.wait(60)
        if len(starts) == len(tasks):
            break
    return Life(starts, passed)


@pytest.mark.parametrize("mode", ["SpareQuota", "KnownEnds"])
@settings(max_examples=20)
@given(tasks=TASKS)
def test_whoever_passes_delays_no_head(mode: str, tasks: list[Task]) -> None:
    """Two lives that differ in what was allowed to pass in one minute: the head of then starts no later for it.

    All are of one priority: nobody foresees who comes later and goes before the head.
    """
    for minute, head in live(tasks, mode).passed.items():
        without, passed = live(tasks, mode, until=minute), live(tasks, mode, until=minute + 1)
        assert passed.starts.get(head, LONG) <= without.starts.get(head, LONG)


def test_the_lives_above_are_such_that_some_pass() -> None:
    tasks = [Task(0, 9, 3, 3), Task(1, 5, 1, 4), Task(2, 5, 4, 0), Task(2, 5, 0, 1)]
    assert live(tasks, "SpareQuota") == Life({"t0": 0, "t2": 2, "t1": 9, "t3": 14}, {2: "t1"})
    assert live(tasks, "KnownEnds") == Life({"t0": 0, "t2": 2, "t3": 2, "t1": 9}, {2: "t1"})
    assert live(tasks, "KnownEnds", until=0).starts == {"t0": 0, "t1": 9, "t2": 9, "t3": 14}
