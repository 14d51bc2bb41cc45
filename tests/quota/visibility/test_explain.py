"""Why a workload waits: what is lacking, who has it, what has to end; one file, one answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.api.kueue.queues import MAX_PREEMPTED_ANNOTATION, BorrowWithinCohort
from multikueue.api.kueue.workload import NON_PREEMPTIBLE_ANNOTATION, REQUEUED
from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.reservations import Reservation
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.preemption.fair import FairPreemption
from multikueue.quota.visibility.explain import (
    CANDIDATES,
    LOOKED_AT,
    Barrier,
    Ending,
    Explanation,
    Holder,
    Shortage,
    explain,
)
from multikueue.quota.visibility.view import QuotaView
from tests.builders import (
    ClusterQueueBuilder,
    CohortBuilder,
    cluster_queue,
    cohort,
    flavor,
    local_queue,
    namespace,
    pod_set,
    workload,
)
from tests.quota.builders import Play, after, key_of, wants

LOWER: dict[str, Any] = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "LowerPriority"}


def queue(name: str, cpu: Any, **rules: Any) -> ClusterQueueBuilder:
    return cluster_queue(name).cohort("all").quota("default", cpu=cpu).preempt(**rules)


def play(*tree: ClusterQueueBuilder | CohortBuilder, engine: Engine | None = None) -> Play:
    """Each queue with a LocalQueue of its name."""
    made = Play(*(builder.build() for builder in tree), engine=engine)
    queues = [each for each in tree if isinstance(each, ClusterQueueBuilder)]
    made.apply(*(local_queue(each.value.metadata.name, each.value.metadata.name).build() for each in queues))
    return made


def why(scene: Play, name: str) -> Explanation:
    found = explain(scene.engine.view, key_of(name), scene.now)
    assert found
    return found


def one_lack(scene: Play, name: str = "w") -> Shortage:
    (lack,) = why(scene, name).lacks
    return lack


# --- what is lacking, and who has it ---------------------------------------------------------------------------------


def test_what_is_lacking_and_who_has_it() -> None:
    scene = play(queue("a", 4), queue("b", 4), queue("c", 0))
    scene.submit(wants("a1", queue="a", cpu=1), wants("b1", queue="b", cpu=2), wants("c1", queue="c", cpu=3))
    scene.settle()
    scene.submit(wants("w", queue="a", cpu="3500m"))
    scene.settle()
    found = why(scene, "w")
    assert found.message == scene.verdict("w") != ""
    assert (found.workload, found.cluster_queue, found.place, found.behind) == ("default/w", "a", 1, "")
    assert one_lack(scene) == Shortage(
        pod_set="main",
        flavor="default",
        resource="cpu",
        needed="3500m",
        available="2",
        missing="1500m",
        holders=(
            Holder(cluster_queue="c", path="/all/c", workloads=1, amount="3", borrowed="3"),
            Holder(cluster_queue="b", path="/all/b", workloads=1, amount="2", borrowed="0"),
            Holder(cluster_queue="a", path="/all/a", workloads=1, amount="1", borrowed="0"),
        ),
        barriers=(
            Barrier(cluster_queue="c", rule="reclaimWithinCohort: Never", workloads=1, amount="3"),
            Barrier(cluster_queue="b", rule="reclaimWithinCohort: Never", workloads=1, amount="2"),
            Barrier(cluster_queue="a", rule="withinClusterQueue: Never", workloads=1, amount="1"),
        ),
    )


def test_of_each_flavor_it_is_said_why_not() -> None:
    tainted = flavor("tainted").taint("gpu", "yes").build()
    scene = play(cluster_queue("a").quota("default", cpu=4).quota("tainted", cpu=9).quota("small", cpu=2))
    scene.apply(tainted, flavor("small").build())
    scene.submit(wants("a1", queue="a", cpu=4, age=1), wants("w", queue="a", cpu=3))
    scene.settle()
    found = {lack.flavor: (lack.missing, lack.problem) for lack in why(scene, "w").lacks}
    assert found == {
        "default": ("3", ""),
        "tainted": ("", "untolerated taint {gpu yes NoSchedule <nil>} in flavor tainted"),
        "small": ("1", "3 are more than it could ever use of it: 2"),
    }


def test_a_resource_that_nobody_has() -> None:
    scene = play(queue("a", 4))
    scene.submit(wants("w", queue="a").request({"nvidia.com/gpu": 1}, cpu=1))
    scene.settle()
    assert one_lack(scene) == Shortage(
        pod_set="main",
        flavor="",
        resource="nvidia.com/gpu",
        needed="1",
        problem="no flavor of the ClusterQueue has it",
        is_final=True,
    )


@pytest.mark.parametrize(
    ("asks", "final"),
    [
        pytest.param({"cpu": 6}, set(), id="another flavor could hold it"),
        pytest.param({"cpu": 9}, {"default", "spot"}, id="neither could"),
        pytest.param({"cpu": 6, "memory": 9}, {"default", "spot"}, id="each lacks another resource"),
    ],
)
def test_a_lack_is_final_once_no_flavor_is_left(asks: dict[str, int], final: set[str]) -> None:
    scene = play(cluster_queue("a").quota("default", cpu=4, memory=9).quota("spot", cpu=8, memory=4))
    scene.apply(flavor("spot").build())
    scene.submit(wants("a1", queue="a", cpu=4, age=2), wants("a2", queue="a", cpu=8, age=1))
    scene.submit(wants("w", queue="a").request(asks))
    scene.settle()
    assert {lack.flavor for lack in why(scene, "w").lacks if lack.is_final} == final


def test_a_flavor_that_is_not_there_may_come() -> None:
    scene = play(cluster_queue("a").quota("missing", cpu=4))
    scene.submit(wants("w", queue="a", cpu=1))
    scene.settle()
    assert not any(lack.is_final for lack in why(scene, "w").lacks)


def test_each_workload_whose_end_alone_will_do_is_told() -> None:
    scene = play(queue("a", 8))
    scene.submit(*(wants(f"a{cpu}", queue="a", cpu=cpu, age=9 - cpu) for cpu in (1, 3, 4)))
    scene.settle()
    scene.submit(wants("w", queue="a", cpu=3))
    scene.settle()
    found = why(scene, "w")
    assert set(found.enough) == {"default/a3", "default/a4"}
    assert [each.workload for each in found.endings] == ["default/a4"]
    assert why(scene, "w") == found, "what was tried is undone"


def test_what_earlier_pod_sets_take_counts() -> None:
    scene = play(queue("a", 4))
    both = workload("w").queue("a").pod_sets(pod_set("driver").request(cpu=1), pod_set("workers").request(cpu=4))
    scene.submit(wants("a1", queue="a", cpu=1), both)
    scene.run()
    lack = one_lack(scene)
    assert (lack.pod_set, lack.needed, lack.problem) == ("workers", "4", "5 are more than it could ever use of it: 4")


def test_only_the_largest_holders_are_named() -> None:
    scene = play(*(queue(f"q{number}", number) for number in range(1, 9)))
    scene.submit(*(wants(f"w{number}", queue=f"q{number}", cpu=number) for number in range(1, 9)))
    scene.settle()
    scene.submit(wants("w", queue="q1", cpu=1))
    scene.settle()
    assert [holder.cluster_queue for holder in one_lack(scene).holders] == ["q8", "q7", "q6", "q5", "q4"]


# --- what keeps it from being taken ----------------------------------------------------------------------------------

GUARDED = {NON_PREEMPTIBLE_ANNOTATION: "true"}

BARRIERS: dict[str, tuple[list[ClusterQueueBuilder], list[Any], dict[str, str], Engine | None]] = {
    "its own queue never": (
        [queue("a", 4)],
        [wants("x", queue="a", cpu=4).priority(-1)],
        {"a": "withinClusterQueue: Never"},
        None,
    ),
    "not of lower priority": (
        [queue("a", 4, **LOWER)],
        [wants("x", queue="a", cpu=4)],
        {"a": "withinClusterQueue: LowerPriority"},
        None,
    ),
    "no newer one of equal priority": (
        [queue("a", 4, within_cluster_queue="LowerOrNewerEqualPriority")],
        [wants("x", queue="a", cpu=4, age=9)],
        {"a": "withinClusterQueue: LowerOrNewerEqualPriority"},
        None,
    ),
    "no reclaiming": (
        [queue("a", 4), queue("b", 0)],
        [wants("x", queue="b", cpu=4).priority(-1)],
        {"b": "reclaimWithinCohort: Never"},
        None,
    ),
    "reclaiming of lower priority only": (
        [queue("a", 4, **LOWER), queue("b", 0)],
        [wants("x", queue="b", cpu=4)],
        {"b": "reclaimWithinCohort: LowerPriority"},
        None,
    ),
    "it borrows nothing": (
        [queue("a", 2, **LOWER), queue("b", 4)],
        [wants("x", queue="b", cpu=4).priority(-1)],
        {"b": "its ClusterQueue borrows nothing of it"},
        None,
    ),
    "it would have to borrow": (
        [queue("a", 2, **LOWER), queue("b", 0), queue("bank", 2)],
        [wants("x", queue="b", cpu=4).priority(-1)],
        {"b": "borrowWithinCohort: Never"},
        None,
    ),
    "it would have to borrow from one too strong": (
        [
            queue(
                "a",
                2,
                within_cluster_queue="LowerPriority",
                reclaim_within_cohort="LowerPriority",
                borrow_within_cohort=BorrowWithinCohort(policy="LowerPriority", max_priority_threshold=-5),
            ),
            queue("b", 0),
            queue("bank", 2),
        ],
        [wants("x", queue="b", cpu=4).priority(-1)],
        {"b": "borrowWithinCohort: maxPriorityThreshold -5"},
        None,
    ),
    "it asked not to be": (
        [queue("a", 4, **LOWER)],
        [wants("x", queue="a", cpu=4).priority(-1).annotations(GUARDED)],
        {"a": "non-preemptible"},
        Engine(EngineRules(has_non_preemptible=True)),
    ),
    "no budget left": (
        [queue("a", 4, **LOWER).annotations({MAX_PREEMPTED_ANNOTATION: "0/1h"})],
        [wants("x", queue="a", cpu=4).priority(-1)],
        {"a": "the preemption budget of its ClusterQueue is used up"},
        None,
    ),
    "no larger share": (
        [queue("a", 0, **LOWER), queue("b", 0), queue("bank", 8)],
        [wants("x", queue="b", cpu=4).priority(-1), wants("y", queue="a", cpu=4)],
        {"a": "withinClusterQueue: LowerPriority", "b": "fair sharing: its share is not larger"},
        Engine(EngineRules(fair_sharing=FairPreemption())),
    ),
}


@pytest.mark.parametrize(("tree", "holders", "expected", "engine"), BARRIERS.values(), ids=BARRIERS.keys())
def test_the_rule_that_forbids_preemption(
    tree: list[ClusterQueueBuilder], holders: list[Any], expected: dict[str, str], engine: Engine | None
) -> None:
    scene = play(*tree, engine=engine)
    scene.submit(*holders)
    scene.settle()
    scene.submit(wants("w", queue="a", cpu=4))
    assert scene.engine.scheduler.cycle(scene.now).evicted == []
    assert {barrier.cluster_queue: barrier.rule for barrier in one_lack(scene).barriers} == expected


def test_a_queue_that_is_stopped_keeps_what_it_has() -> None:
    scene = play(queue("a", 4, **LOWER), queue("b", 0))
    scene.submit(wants("x", queue="b", cpu=4).priority(-1))
    scene.settle()
    scene.apply(queue("b", 0).stopped().build())
    scene.submit(wants("w", queue="a", cpu=4))
    scene.run()
    assert [barrier.rule for barrier in one_lack(scene).barriers] == ["its ClusterQueue is inactive"]


def test_who_would_have_to_go_is_no_barrier() -> None:
    scene = play(queue("a", 4, **LOWER))
    scene.submit(wants("weak", queue="a", cpu=1).priority(-1), wants("strong", queue="a", cpu=3).priority(9))
    scene.settle()
    scene.submit(wants("w", queue="a", cpu=2))
    scene.run()
    (barrier,) = one_lack(scene).barriers
    assert (barrier.workloads, barrier.amount) == (1, "3")


# --- what has to end -------------------------------------------------------------------------------------------------


def ending(name: str, queue: str = "a", **more: Any) -> Ending:
    return Ending(workload=f"default/{name}", cluster_queue=queue, **more)


def test_those_have_to_end_that_are_known_to_end_soonest() -> None:
    scene = play(queue("a", 4))
    limit = timedelta(minutes=1)
    scene.submit(wants("long", queue="a", cpu=1), wants("late", queue="a", cpu=1).max_execution_time(5 * limit))
    scene.submit(wants("soon", queue="a", cpu=1).max_execution_time(limit))
    scene.submit(wants("other", queue="a", cpu=1).max_execution_time(2 * limit))
    scene.settle()
    scene.submit(wants("w", queue="a", cpu=2))
    scene.settle()
    assert why(scene, "w").endings == (
        ending("soon", at_latest=after(60)),
        ending("other", at_latest=after(120)),
    )


def test_else_few_large_ones_and_none_in_vain() -> None:
    scene = play(queue("a", 8))
    sizes = {"one": 1, "two": 2, "five": 5}
    scene.submit(*(wants(name, queue="a", cpu=cpu) for name, cpu in sizes.items()))
    scene.settle()
    scene.submit(wants("w", queue="a", cpu=5), wants("v", queue="a", cpu=7))
    scene.settle()
    assert why(scene, "w").endings == (ending("five"),)
    assert why(scene, "v").endings == (ending("five"), ending("two"))


def test_who_leaves_anyhow_comes_first() -> None:
    scene = play(queue("a", 4, **LOWER))
    scene.submit(wants("weak", queue="a", cpu=4).priority(-1))
    scene.settle()
    scene.submit(wants("w", queue="a", cpu=4))
    scene.run()
    assert why(scene, "w").endings == (ending("weak", leaving=True),)


def test_nothing_helps_where_there_is_too_little_for_ever() -> None:
    scene = play(queue("a", 4))
    scene.submit(wants("x", queue="a", cpu=1), wants("w", queue="a", cpu=9))
    scene.settle()
    assert why(scene, "w").endings == ()


def test_a_question_that_breaks_off_leaves_the_quota_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError

    scene = play(queue("a", 4))
    scene.submit(wants("x", queue="a", cpu=4))
    scene.settle()
    scene.submit(wants("w", queue="a", cpu=3))
    scene.settle()
    with monkeypatch.context() as patched:
        patched.setattr("multikueue.quota.visibility.explain._needed", broken)
        with pytest.raises(RuntimeError):
            why(scene, "w")
    assert why(scene, "w").endings == (ending("x"),)


# --- what keeps it from being looked at ------------------------------------------------------------------------------


def test_a_line_that_is_kept_strictly() -> None:
    scene = play(queue("a", 4).strict_fifo())
    scene.submit(wants("x", queue="a", cpu=4, age=9))
    scene.settle()
    scene.submit(wants("first", queue="a", cpu=4, age=5), wants("w", queue="a", cpu=1))
    scene.settle()
    assert (why(scene, "w").place, why(scene, "w").behind) == (2, "default/first")
    assert why(scene, "first").behind == ""


PROBLEMS: dict[str, tuple[Any, str]] = {
    "no LocalQueue": (
        lambda scene: scene.engine.observe(local_queue("a").build(), None, scene.now),
        "LocalQueue a doesn't exist",
    ),
    "a LocalQueue that is stopped": (
        lambda scene: scene.apply(local_queue("a", "a").stopped().build()),
        "LocalQueue a is inactive",
    ),
    "no ClusterQueue": (
        lambda scene: scene.engine.observe(cluster_queue("a").build(), None, scene.now),
        "ClusterQueue a doesn't exist",
    ),
    "a ClusterQueue that is stopped": (
        lambda scene: scene.apply(queue("a", 4).stopped().build()),
        "ClusterQueue a is stopped",
    ),
    "a namespace that is not selected": (
        lambda scene: scene.engine.observe(namespace("default").build(), None, scene.now),
        "Unknown workload namespace",
    ),
}


@pytest.mark.parametrize(("change", "expected"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_what_keeps_it_from_being_looked_at(change: Any, expected: str) -> None:
    scene = play(queue("a", 4))
    scene.submit(wants("w", queue="a", cpu=9))
    scene.run()
    change(scene)
    assert why(scene, "w").problem == expected


def test_a_backoff() -> None:
    scene = play(queue("a", 4))
    scene.submit(wants("w", queue="a", cpu=1).requeue_state(1, at=after(60)))
    assert why(scene, "w").problem == "held back until 2026-01-01T12:01:00+00:00"
    scene.submit(wants("v", queue="a", cpu=1).condition(REQUEUED, "False", reason="PodsReadyTimeout"))
    assert why(scene, "v").problem == "held back after its eviction"


def test_only_who_waits_is_explained() -> None:
    scene = play(queue("a", 4))
    scene.submit(wants("x", queue="a", cpu=4))
    scene.settle()
    assert explain(scene.engine.view, key_of("x"), scene.now) is None
    assert explain(scene.engine.view, ObjectKey("default", "nobody"), scene.now) is None


def test_one_that_fits_lacks_nothing() -> None:
    scene = play(queue("a", 4))
    scene.submit(wants("w", queue="a", cpu=4))
    found = why(scene, "w")
    assert (found.problem, found.lacks, found.endings, found.place) == ("", (), (), 1)


def test_before_the_first_cycle_the_message_is_that_of_its_condition() -> None:
    scene = play(queue("a", 4))
    scene.submit(wants("w", queue="a", cpu=9).unreserved(message="no room"))
    assert why(scene, "w").message == "no room"
    scene.cycle()
    assert why(scene, "w").message == scene.verdict("w")


def test_amounts_in_the_message_are_those_of_now() -> None:
    """Those of its condition may be of long ago: they are no news."""
    text = (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, {} more needed"
    )
    scene = play(queue("a", 4))
    scene.submit(wants("holder", queue="a", cpu=3))
    scene.settle()
    scene.submit(wants("w", queue="a", cpu=2).unreserved(message=text.format(77)))
    asked = why(scene, "w")
    scene.run()
    assert asked.message == why(scene, "w").message == scene.verdict("w") == text.format(1)


# --- what it costs ---------------------------------------------------------------------------------------------------


def crowded(rest: int) -> Play:
    """A queue with one reservation more than is looked at for barriers, and `rest` more in another queue."""
    scene = play(queue("a", LOOKED_AT), queue("b", LOOKED_AT))
    names = [(f"x{number}", "a" if number <= LOOKED_AT else "b") for number in range(LOOKED_AT + 1 + rest)]
    scene.submit(*(wants(name, queue=where, cpu=1).reserved(where) for name, where in names))
    return scene


def test_of_many_reservations_a_part_is_looked_at_and_it_says_so() -> None:
    scene = crowded(0)
    scene.submit(wants("w", queue="a", cpu=LOOKED_AT), wants("v", queue="a", cpu=LOOKED_AT + CANDIDATES))
    found = why(scene, "w")
    (lack,) = found.lacks
    assert found.partial
    assert [(barrier.workloads, barrier.rule) for barrier in lack.barriers] == [
        (LOOKED_AT, "withinClusterQueue: Never")
    ]
    assert lack.holders[0].workloads == LOOKED_AT
    assert lack.holders[0].amount == str(LOOKED_AT + 1), "it is not counted again"
    assert why(scene, "v").endings == (), "there are not enough candidates"


def test_many_reservations_cost_no_more_than_the_bound() -> None:
    """Counted in what is looked at, which is where the time goes."""

    def looked_at(rest: int) -> int:
        scene, count = crowded(rest), 0
        scene.submit(wants("w", queue="a", cpu=2 * LOOKED_AT))

        class Counting(QuotaView):
            def reservations_in(self, cluster_queue: str) -> Iterator[Reservation]:
                nonlocal count
                for each in super().reservations_in(cluster_queue):
                    count += 1
                    yield each

        view = scene.engine.view
        assert explain(Counting(view._cache, view._queues, view._scheduler), key_of("w"), scene.now)
        return count

    assert looked_at(2000) == looked_at(0) == LOOKED_AT + CANDIDATES + 2


def test_few_reservations_are_all_looked_at() -> None:
    scene = play(queue("a", 4))
    scene.submit(wants("x", queue="a", cpu=4).reserved("a"), wants("w", queue="a", cpu=1))
    assert not why(scene, "w").partial


# --- and it is true --------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.sampled_from("ab"), st.integers(-1, 1)), max_size=8),
    wanted=st.integers(1, 9),
    policy=st.sampled_from(["Never", "LowerPriority"]),
)
def test_once_those_have_ended_it_fits_and_asking_changes_nothing(
    sizes: list[tuple[int, str, int]], wanted: int, policy: str
) -> None:
    rules = {"within_cluster_queue": policy, "reclaim_within_cohort": policy}
    scene = play(queue("a", 4, **rules), queue("b", 4, **rules), cohort("all"))
    scene.submit(*(wants(f"x{n}", queue=name, cpu=cpu).priority(p) for n, (cpu, name, p) in enumerate(sizes)))
    scene.run()
    for key in list(scene.workloads):
        if scene.engine.scheduler.reservation(key) is None:
            scene.engine.observe(scene.workloads[key], None, scene.now)
            del scene.workloads[key]
    scene.submit(wants("w", queue="a", cpu=wanted))
    before = scene.used("a"), scene.used("b"), scene.engine.view.pending_in("a")
    found = why(scene, "w")
    assert found == why(scene, "w")
    assert (scene.used("a"), scene.used("b"), scene.engine.view.pending_in("a")) == before
    assert bool(found.lacks) >= bool(found.endings)
    for each in found.endings:
        scene.engine.observe(workload(each.workload.partition("/")[2]).build(), None, scene.now)
    scene.wait(1)
    assert ("w" in scene.cycle()) is (wanted <= 8)
