"""Work that passes the head of a StrictFIFO queue, and never delays it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multikueue.api.queues import BACKFILL_ANNOTATION
from multikueue.quota.backfill import DEPTH, backfill_problem, fills_back
from multikueue.quota.engine import Engine
from multikueue.quota.fair import FairSharing
from multikueue.testing import ClusterQueueBuilder, cluster_queue, flavor, limits, local_queue, pod_set
from tests.quota.builders import Play, key_of, wants

ON = {BACKFILL_ANNOTATION: "SpareQuota"}
GPU = "nvidia.com/gpu"


def gpus(count: int) -> dict[str, Any]:
    return {GPU: count}


def queue(*, on: bool = True, cpu: Any = 8, gpu: Any = 4) -> ClusterQueueBuilder:
    """cpu of one flavor and GPUs of another, in a strict line."""
    made = cluster_queue("cq").quota("default", cpu=cpu).quota("gpus", {GPU: gpu}).strict_fifo()
    return made.annotations(ON) if on else made


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
    assert scene.engine.next_look(scene.now) is None or scene.engine.next_look(scene.now) > scene.now  # type: ignore[operator]


def test_several_pass_as_long_as_the_head_s_need_remains() -> None:
    scene = blocked(queue(), **WANTS_BOTH)
    scene.submit(*(wants(f"filler{number}", cpu=2, age=9 - number) for number in range(3)))
    assert scene.run() == ["filler0"]
    scene.submit(wants("small", cpu=1))
    assert scene.run() == ["small"]
    assert scene.engine.pending_in("cq")[0].name == "head"


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
    assert scene.engine.eviction(key_of("weak"))
    assert not scene.engine.eviction(key_of("filler"))


def test_a_head_that_can_never_run_lets_nobody_pass_by_this() -> None:
    scene = play(queue())
    broken = pod_set("main").template(
        b'{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}}]}}'
    )
    scene.submit(wants("head", age=9).pod_sets(broken), wants("filler", **gpus(1)))
    assert scene.run() == []


def test_best_effort_queues_need_none() -> None:
    builder = cluster_queue("cq").quota("default", cpu=8).annotations(ON)
    assert not fills_back(builder.build())


def test_shares_do_not_matter_to_it() -> None:
    scene = play(queue().cohort("all"), engine=Engine(fair_sharing=FairSharing()))
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
    scene.engine.remove_workload(key_of("large0"), scene.now)
    assert scene.run() == ["small"]


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({}, ""),
        (ON, ""),
        (
            {BACKFILL_ANNOTATION: "yes"},
            'ClusterQueue cq: annotation multikueue.dev/backfill: expected "SpareQuota", got "yes"',
        ),
    ],
    ids=["none", "on", "nonsense"],
)
def test_reading_the_annotation(annotations: dict[str, str], problem: str) -> None:
    value = cluster_queue("cq").strict_fifo().annotations(annotations).build()
    assert (fills_back(value), backfill_problem(value)) == (annotations == ON, problem)


# --- it never delays the head ----------------------------------------------------------------------------------------


class Task(NamedTuple):
    at: int
    seconds: int
    cpu: int
    gpu: int
    priority: int


TASKS = st.lists(
    st.builds(
        Task,
        at=st.integers(0, 6),
        seconds=st.integers(1, 9),
        cpu=st.integers(0, 6),
        gpu=st.integers(0, 4),
        priority=st.integers(0, 1),
    ),
    min_size=3,
    max_size=9,
)
LONG = 100


class Life(NamedTuple):
    """When each got quota; who passed a head, and which, by second."""

    starts: dict[str, int]
    passed: dict[int, str]


def live(tasks: list[Task], *, until: int = LONG) -> Life:
    """The life of one queue, second by second. Before the second `until` others may pass its head."""
    scene = play(queue(on=until > 0))
    starts: dict[str, int] = {}
    passed: dict[int, str] = {}
    for second in range(LONG):
        if second == until:
            scene.apply(queue(on=False).build())
        for number, task in enumerate(tasks):
            name = f"t{number}"
            if task.at == second:
                scene.submit(wants(name, cpu=task.cpu, **gpus(task.gpu), age=-task.at).priority(task.priority))
            if name in starts and starts[name] + task.seconds == second:
                scene.engine.remove_workload(key_of(name), scene.now)
        for name in scene.run():
            starts[name] = second
            ahead = [key.name for key in scene.engine.pending_in("cq")]
            if ahead and tasks[int(name[1:])].priority <= tasks[int(ahead[0][1:])].priority:
                passed.setdefault(second, ahead[0])
        scene.wait(1)
        if len(starts) == len(tasks):
            break
    return Life(starts, passed)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TASKS)
def test_whoever_passes_delays_no_head(tasks: list[Task]) -> None:
    """Two lives that differ in what was allowed to pass in one second: the head of then starts no later for it."""
    for second, head in live(tasks).passed.items():
        without, passed = live(tasks, until=second), live(tasks, until=second + 1)
        assert passed.starts[head] <= without.starts[head]


def test_the_lives_above_are_such_that_some_pass() -> None:
    tasks = [Task(0, 9, 3, 3, 0), Task(1, 5, 1, 4, 0), Task(2, 5, 4, 0, 0)]
    assert live(tasks) == Life({"t0": 0, "t2": 2, "t1": 9}, {2: "t1"})
    assert live(tasks, until=0).starts["t2"] > 2
