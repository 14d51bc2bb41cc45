"""What a strategy sees."""

from __future__ import annotations

from datetime import timedelta

from multikueue.strategy import Fleet, Placement, Worker, Workload
from multikueue.testing import NOW, fleet, strategy_workload

EARLIER = NOW - timedelta(hours=1)


def test_a_fleet_keeps_the_order_of_its_workers() -> None:
    built = fleet("b").worker("a", labels={"region": "eu"}, annotations={"x": "y"}).build()
    assert built == Fleet(
        workers=(Worker(name="b"), Worker(name="a", labels={"region": "eu"}, annotations={"x": "y"})), now=NOW
    )


def test_a_worker_that_cannot_be_used_keeps_its_place_and_labels() -> None:
    built = fleet().worker("a", labels={"region": "eu"}).worker("b").unusable("a", why="cordoned").unusable("c").build()
    assert built.workers == (
        Worker(name="a", usable=False, why="cordoned", labels={"region": "eu"}),
        Worker(name="b"),
        Worker(name="c", usable=False, why="not connected"),
    )
    assert built.names == ("b",)


def test_a_fleet_has_a_time_and_a_placement() -> None:
    built = fleet().at(EARLIER).later(timedelta(minutes=5)).placement("p", ("a",), ("c",), absent={"b": NOW}).build()
    assert built.now == EARLIER + timedelta(minutes=5)
    assert built.placement == Placement(name="p", groups=(("a",), ("c",)), absent_since={"b": NOW})


def test_a_fleet_has_no_placement_unless_one_is_named() -> None:
    assert fleet("a").build().placement is None


def test_a_workload_is_what_was_said() -> None:
    built = (
        strategy_workload("wl", namespace="team")
        .queue("gpu", cluster_queue="big")
        .priority(5)
        .request({"nvidia.com/gpu": 8}, cpu="500m")
        .request(memory="1Ki")
        .labels(team="a")
        .annotations({"example.com/x": "1"})
        .created(EARLIER)
        .reserved(EARLIER)
        .nominated("a", "b")
        .failed_on("c", at=EARLIER)
        .build()
    )
    assert built == Workload(
        namespace="team",
        name="wl",
        queue="gpu",
        cluster_queue="big",
        priority=5,
        labels={"team": "a"},
        annotations={"example.com/x": "1"},
        requests={"nvidia.com/gpu": 8, "cpu": 500, "memory": 1024},
        created_at=EARLIER,
        reserved_at=EARLIER,
        nominated_clusters=("a", "b"),
        nominated_at=NOW,
        failed_on={"c": EARLIER},
    )


def test_a_workload_nominated_nowhere_has_no_time_of_nomination() -> None:
    assert strategy_workload().nominated("a").nominated().build().nominated_at is None
