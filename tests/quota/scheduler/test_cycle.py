"""One cycle over given heads (quota-engine 3.1)."""

from __future__ import annotations

import pytest

from multikueue.quota.cache.catalog import QueueSnapshot, snapshot
from multikueue.quota.cache.tree import Forest, Member, quotas
from multikueue.quota.queueing.pending_workload import Progress, Reason
from multikueue.quota.scheduler.cycle import Decision, Head, Refuse, Reserve, run
from tests.builders import ClusterQueueBuilder, WorkloadBuilder, cluster_queue, flavor, limits, pod_set
from tests.quota.builders import waiting, wants

CPU = ("default", "cpu")


def tree(*queues: ClusterQueueBuilder, **used: int) -> dict[str, QueueSnapshot]:
    """Snapshots by name; `used` is cpu in cores by queue."""
    forest = Forest()
    built = [queue.build() for queue in queues]
    for queue in built:
        forest.declare_queue(queue.metadata.name, Member(queue.spec.cohort_name, quotas(queue.spec.resource_groups)))
    forest.build({name: {CPU: cores * 1000} for name, cores in used.items()})
    flavors = {name: flavor(name).build() for name in ("default", "spot")}
    views = {}
    for queue in built:
        node = forest.queue(queue.metadata.name)
        assert node
        views[queue.metadata.name] = snapshot(queue, node, flavors)
    return views


def head(queue: QueueSnapshot, wanted: WorkloadBuilder, *, problem: str = "") -> Head:
    return Head(waiting(wanted), queue, 1, problem)


def told(decisions: list[Decision]) -> dict[str, str]:
    """What each head got, by its name."""
    return {
        each.head.waiting.key.name: "reserved" if isinstance(each, Reserve) else f"{each.reason.name}: {each.message}"
        for each in decisions
    }


def usage(views: dict[str, QueueSnapshot]) -> dict[str, int]:
    return {name: view.node.cell(CPU).usage for name, view in views.items()}


def shared(**rule: str) -> ClusterQueueBuilder:
    return cluster_queue("a").cohort("c").quota("default", cpu=4).preempt(**rule)  # type: ignore[arg-type]


def test_a_cycle_leaves_usage_as_it_was() -> None:
    views = tree(shared(), cluster_queue("b").cohort("c").quota("default", cpu=4), b=6)
    run([head(views["a"], wants("w", cpu=4)), head(views["b"], wants("x", cpu=2))])

    assert usage(views) == {"a": 0, "b": 6000}


def test_all_heads_are_judged_before_any_is_served() -> None:
    views = tree(
        cluster_queue("a").cohort("c").quota("default", cpu=4).quota("spot", cpu=9),
        cluster_queue("b").cohort("c").quota("default", cpu=4),
    )
    decisions = run([head(views["a"], wants("late", cpu=6)), head(views["b"], wants("early", age=9, cpu=6))])

    assert told(decisions) == {
        "early": "reserved",
        "late": "FAILED_AFTER_NOMINATION: Workload no longer fits after processing another workload",
    }


def test_a_head_that_may_not_preempt_blocks_what_it_needs() -> None:
    views = tree(shared(), cluster_queue("b").cohort("c").quota("default", cpu=4), b=6)
    decisions = run([head(views["a"], wants("owner", cpu=4)), head(views["b"], wants("borrower", cpu=2))])

    assert told(decisions)["borrower"].startswith("FAILED_AFTER_NOMINATION")


def test_unless_its_queue_can_reclaim_from_anyone() -> None:
    views = tree(shared(reclaim_within_cohort="Any"), cluster_queue("b").cohort("c").quota("default", cpu=4), b=6)
    decisions = run([head(views["a"], wants("owner", cpu=4)), head(views["b"], wants("borrower", cpu=2))])

    assert told(decisions)["borrower"] == "reserved"


@pytest.mark.parametrize(
    ("limit", "outcome"), [(None, "FAILED_AFTER_NOMINATION"), (0, "reserved"), (1, "FAILED_AFTER_NOMINATION")]
)
def test_what_a_blocked_head_keeps_is_bounded_by_what_it_may_borrow(limit: int | None, outcome: str) -> None:
    waiting = cluster_queue("a").cohort("c").quota("default", cpu=limits(4, borrowing=limit))
    borrower = cluster_queue("b").cohort("c").quota("default", cpu=4)
    views = tree(waiting, borrower, cluster_queue("lender").cohort("c").quota("default", cpu=2), a=3, b=4)
    large, small = wants("large", cpu=4).priority(9), wants("small", cpu=2)  # both borrow, so the large one goes first

    found = told(run([head(views["a"], large), head(views["b"], small)]))

    assert found["large"].startswith("GENERIC")
    assert found["small"].split(":")[0] == outcome


def test_a_head_with_a_problem_is_refused_with_it() -> None:
    views = tree(shared())
    (decision,) = run([head(views["a"], wants("w", cpu=1), problem="no")])

    assert isinstance(decision, Refuse)
    assert (decision.reason, decision.message) == (Reason.GENERIC, "no")
    assert decision.resource_requests[0].resources == {"cpu": "1"}


def test_an_interrupted_search_is_kept_by_a_head_that_waits_and_lost_by_one_that_cannot_fit() -> None:
    queue = cluster_queue("a").quota("default", cpu=4).quota("spot", cpu=4).quota("spot", memory=1)
    views = tree(queue)
    waits, cannot = head(views["a"], wants("w", cpu=1, memory=1)), head(views["a"], wants("x", cpu=1, memory=2))
    views["a"].node.add({("spot", "memory"): 1})
    cannot.waiting.progress = Progress(1, ({"cpu": 0},))

    run([waits])
    run([cannot])

    assert waits.waiting.progress == Progress(1, ({"cpu": 0, "memory": -1},))
    assert cannot.waiting.progress is None


def test_a_head_that_can_do_with_less_gets_what_there_is() -> None:
    views = tree(shared(), a=1)
    pods = wants("w").pod_sets(pod_set(count=5).min_count(2).request(cpu=1))
    (decision,) = run([head(views["a"], pods)])
    assert isinstance(decision, Reserve)
    (assignment,) = decision.admission.pod_set_assignments
    assert (assignment.count, assignment.resource_usage, decision.usage) == (3, {"cpu": "3"}, {CPU: 3000})


def test_a_head_that_cannot_do_with_so_little_hears_of_what_it_asked_for() -> None:
    views = tree(shared(), a=3)
    pods = wants("w").pod_sets(pod_set(count=5).min_count(2).request(cpu=1))
    (decision,) = run([head(views["a"], pods)])
    assert isinstance(decision, Refuse)
    assert "current podset request (5)" in decision.message
