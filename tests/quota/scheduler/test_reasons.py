"""Granular reasons of what a cycle finds (KEP 10852)."""

from __future__ import annotations

from multikueue.api.kueue.queues import ClusterQueue
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.workload.outcome import Reasons
from tests.builders import cluster_queue, cohort, flavor, limits, local_queue, pod_set
from tests.quota.builders import Play, key_of, wants


def play(*queues: ClusterQueue, should_block_admission: bool = False) -> Play:
    """The first ClusterQueue is that of the LocalQueue lq."""
    engine = Engine(EngineRules(reasons=Reasons(is_granular=True), should_block_admission=should_block_admission))
    return Play(*queues, local_queue("lq", queues[0].metadata.name).build(), engine=engine)


def reason(found: Play, name: str) -> str:
    """The reason of the verdict on a workload."""
    verdict = found.engine.view.verdict(key_of(name))
    return verdict.reason if verdict else ""


def test_a_workload_waits_for_quota_that_others_have() -> None:
    found = play(cluster_queue("cq").quota("default", cpu=2).build())
    found.submit(wants("first", cpu=2, age=1), wants("second", cpu=1))
    found.settle()

    assert reason(found, "second") == "WaitingForQuota"
    condition = found.workloads[key_of("second")].condition("QuotaReserved")
    assert condition is not None
    assert condition.reason == "WaitingForQuota"


def test_a_workload_asks_for_more_than_there_will_ever_be() -> None:
    found = play(cluster_queue("cq").quota("default", cpu=2).build())
    found.submit(wants("big", cpu=3))
    found.settle()

    assert reason(found, "big") == "ExceedsMaxQuota"


def test_a_workload_suits_no_flavor() -> None:
    found = play(cluster_queue("cq").quota("gpu", cpu=2).build())
    found.apply(flavor("gpu").node_labels(type="gpu").build())
    picky = wants("picky").pod_sets(pod_set().request(cpu=1).node_selector(type="cpu"))
    found.submit(picky)
    found.settle()

    assert reason(found, "picky") == "NoMatchingFlavor"


def test_a_workload_waits_for_those_that_it_preempts() -> None:
    found = play(cluster_queue("cq").quota("default", cpu=2).preempt(within_cluster_queue="LowerPriority").build())
    found.submit(wants("victim", cpu=2))
    found.settle()
    found.submit(wants("urgent", cpu=2).priority(9))
    found.run()

    assert reason(found, "urgent") == "WaitingForPreemptedWorkloads"


def test_one_of_two_queues_that_want_the_same_waits_for_quota() -> None:
    queues = [cluster_queue(name).cohort("all").quota("default", cpu=0).build() for name in ("cq", "other")]
    found = play(*queues)
    found.apply(cohort("all").quota("default", cpu=2).build(), local_queue("b", "other").build())
    found.submit(wants("first", cpu=2, age=1), wants("second", queue="b", cpu=2))
    found.cycle()

    assert reason(found, "second") == "WaitingForQuota"


def test_a_workload_of_a_namespace_that_is_not_selected_is_misconfigured_behind_a_head_that_waits_too() -> None:
    queue = cluster_queue("cq").quota("default", cpu=2).strict_fifo().namespaces(None).build()
    found = play(queue)
    found.submit(wants("stray", cpu=1))

    assert found.engine.view.misconfiguration(key_of("stray")) == (
        "Workload namespace doesn't match ClusterQueue selector"
    )
    found.settle()
    assert reason(found, "stray") == "Misconfigured"


def test_a_workload_waits_until_the_pods_of_others_are_ready() -> None:
    found = play(cluster_queue("cq").quota("default", cpu=2).build(), should_block_admission=True)
    found.submit(wants("first", cpu=1, age=1))
    found.settle()
    found.submit(wants("second", cpu=1))
    found.settle()

    assert reason(found, "second") == "WaitingForPodsReady"


def test_work_that_asks_for_the_same_has_the_same_reason() -> None:
    found = play(cluster_queue("cq").quota("default", cpu=limits(2)).build())
    found.submit(*(wants(name, cpu=3) for name in ("one", "two")))
    found.settle()

    assert {reason(found, name) for name in ("one", "two")} == {"ExceedsMaxQuota"}
