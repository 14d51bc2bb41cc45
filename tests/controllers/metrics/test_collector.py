"""What a scrape reads off the state of the process."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from multikueue.api import kinds
from multikueue.api.kinds import JOBS
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import FLEET_LABEL, IN_FLEET
from multikueue.controllers.metrics.collector import StateCollector
from multikueue.kube.transport.loop_share import Leftovers, LoopShare
from multikueue.runtime.concurrency import START, AdaptiveLimit
from multikueue.settings import Quota
from tests.builders import cluster_queue, local_queue
from tests.controllers.table import NAMESPACE, Table, table

pytestmark = pytest.mark.anyio

QUOTA = ("nominal", "used", "free")
LOCAL = {"name": "main", "namespace": NAMESPACE}


def figures(world: Table, **settings: Any) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    observer = world.observer
    made = StateCollector(
        store=world.store,
        queues=world.queues,
        finished=observer.finished,
        unadmitted=observer.unadmitted,
        **settings,
    )
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in made.collect():
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = float(sample.value)
    return found


def one(world: Table, name: str, /, *, settings: dict[str, Any] | None = None, **labels: str) -> float:
    [value] = [
        v for having, v in figures(world, **(settings or {}))[name].items() if frozenset(labels.items()) <= having
    ]
    return value


async def with_jobs(*names: str, **settings: Any) -> Table:
    world = table(**settings)
    for name in names:
        world.submit(name)
    await world.settle()
    return world


async def test_a_queue_shows_who_holds_quota_who_is_admitted_and_who_waits() -> None:
    world = await with_jobs("a", "b", "c", quota=2)
    world.admit("w1", "a")
    await world.settle()
    assert one(world, "kueue_reserving_active_workloads", cluster_queue="cq") == 2
    assert one(world, "kueue_admitted_active_workloads", cluster_queue="cq") == 1
    assert one(world, "kueue_pending_workloads", cluster_queue="cq", status="inadmissible") == 1
    assert one(world, "kueue_pending_workloads", cluster_queue="cq", status="active") == 0
    assert one(world, "kueue_cluster_queue_status", cluster_queue="cq", status="active") == 1


async def test_in_a_queue_that_is_stopped_nobody_is_active() -> None:
    world = await with_jobs("a", quota=0)
    found = world.manager.find(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"))
    assert found is not None
    changed = {"spec": found["spec"] | {"stopPolicy": "Hold"}}
    world.manager.change(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"), changed)
    assert one(world, "kueue_pending_workloads", cluster_queue="cq", status="inadmissible") == 1
    assert one(world, "kueue_cluster_queue_status", cluster_queue="cq", status="pending") == 1
    assert one(world, "kueue_cluster_queue_status", cluster_queue="cq", status="active") == 0


async def test_finished_workloads_are_those_that_are_still_there() -> None:
    world = await with_jobs("a")
    world.admit("w1", "a")
    await world.settle()
    world.finish("w1", "a")
    await world.settle()
    assert one(world, "kueue_finished_workloads", cluster_queue="cq") == 1
    assert one(world, "kueue_reserving_active_workloads", cluster_queue="cq") == 0


def unadmitted(world: Table) -> dict[tuple[str, str], float]:
    """The number of workloads by reason and underlying cause, the same by ClusterQueue and by LocalQueue."""
    found = figures(world, has_local_queues=True)
    queue = {"cluster_queue": "cq"}
    counts = [
        {
            (labels["reason"], labels["underlying_cause"]): value
            for labels, value in ((dict(labels), value) for labels, value in found.get(name, {}).items())
            if where.items() <= labels.items()
        }
        for name, where in (
            ("kueue_unadmitted_workloads", queue),
            ("kueue_local_queue_unadmitted_workloads", LOCAL | queue),
        )
    ]
    assert counts[0] == counts[1]
    return counts[0]


async def test_workloads_that_are_not_admitted_are_counted_by_why_where_they_say_so() -> None:
    world = await with_jobs("a", "b", "c", quota=2, rules=Quota(unadmitted_reasons=True))
    assert unadmitted(world) == {
        ("UnsatisfiedAdmissionChecks", ""): 2,
        ("NoReservation", "WaitingForQuota"): 1,
    }
    world.admit("w1", "a")
    await world.settle()
    assert unadmitted(world) == {
        ("UnsatisfiedAdmissionChecks", ""): 1,
        ("NoReservation", "WaitingForQuota"): 1,
    }
    key = world.key("c")
    world.manager.drop(JOBS, ObjectKey(NAMESPACE, "c"))
    world.manager.drop(kinds.WORKLOADS, key)
    await world.settle()
    assert unadmitted(world) == {("UnsatisfiedAdmissionChecks", ""): 1}
    assert "kueue_local_queue_unadmitted_workloads" not in figures(world)


async def test_workloads_are_not_counted_by_why_if_they_do_not_say_so() -> None:
    world = await with_jobs("a", quota=0)
    assert "kueue_unadmitted_workloads" not in figures(world)
    assert not world.observer.unadmitted


async def test_workloads_of_a_cluster_queue_that_is_missing_are_counted_too() -> None:
    world = await with_jobs("a", quota=0, rules=Quota(unadmitted_reasons=True))
    world.manager.change(kinds.LOCAL_QUEUES, ObjectKey(NAMESPACE, "main"), {"spec": {"clusterQueue": "typo"}})
    await world.settle()
    name, reason, cause = "kueue_unadmitted_workloads", "NoReservation", "Misconfigured"
    assert one(world, name, cluster_queue="typo", reason=reason, underlying_cause=cause) == 1


async def test_quota_and_its_use_are_shown_per_flavor_and_resource_where_wanted() -> None:
    world = await with_jobs("a", "b", quota=7)
    world.admit("w1", "a")
    await world.settle()
    where = {"cluster_queue": "cq", "cohort": "", "flavor": "default", "resource": "cpu"}
    wanted = {"has_resources": True}
    assert one(world, "kueue_cluster_queue_nominal_quota", settings=wanted, **where) == 7
    assert one(world, "kueue_cluster_queue_resource_reservation", settings=wanted, **where) == 2
    assert one(world, "kueue_cluster_queue_resource_usage", settings=wanted, **where) == 1
    assert one(world, "kueue_cluster_queue_borrowing_limit", settings=wanted, **where) == 0
    assert "kueue_cluster_queue_nominal_quota" not in figures(world)


async def test_local_queues_are_shown_where_wanted() -> None:
    world = await with_jobs("a", "b", quota=1)
    wanted = {"has_local_queues": True, "has_resources": True}
    assert one(world, "kueue_local_queue_reserving_active_workloads", settings=wanted, **LOCAL) == 1
    assert one(world, "kueue_local_queue_pending_workloads", settings=wanted, status="inadmissible", **LOCAL) == 1
    assert one(world, "kueue_local_queue_resource_reservation", settings=wanted, flavor="default", **LOCAL) == 1
    assert one(world, "kueue_local_queue_status", settings=wanted, active="Unknown", **LOCAL) == 1
    assert not [name for name in figures(world) if name.startswith("kueue_local_queue")]


async def test_beside_kueue_its_figures_are_left_to_it() -> None:
    world = await with_jobs("a")
    assert not [name for name in figures(world, has_quota=False) if name.startswith("kueue_")]


async def test_a_worker_shows_its_state_and_for_how_long_it_is_away() -> None:
    world = await with_jobs("a")
    assert one(world, "multikueue_copies", cluster="w2") == 1
    world.cut("w2")
    world.time += timedelta(seconds=9)
    for name in (
        "multikueue_cluster_reachability",
        "multikueue_cluster_status",
    ):  # the second one until the next release
        assert one(world, name, cluster="w2", status="isolated") == 1
        assert one(world, name, cluster="w2", status="connected") == 0
    assert one(world, "multikueue_cluster_unreachable_seconds", cluster="w2") == 9
    assert one(world, "multikueue_cluster_unreachable_seconds", cluster="w1") == 0


async def test_the_end_of_a_workers_credential_is_shown_where_it_has_one() -> None:
    world = await with_jobs("a")
    world.store.worker("w2").uses_credential(world.time)
    assert one(world, "multikueue_cluster_credential_expiry_timestamp_seconds", cluster="w2") == world.time.timestamp()
    assert len(figures(world)["multikueue_cluster_credential_expiry_timestamp_seconds"]) == 1


async def test_what_reading_of_a_worker_takes_is_shown_while_there_is_a_connection() -> None:
    world = await with_jobs("a")
    times = iter((0.0, 1.5))
    share = world.queues.shares["w1"] = LoopShare(Leftovers(lambda: next(times)))
    share.spend(0.5)
    share.stood = 0.25
    assert one(world, "multikueue_cluster_reading_seconds_total", cluster="w1") == 1
    assert one(world, "multikueue_cluster_reading_waited_seconds_total", cluster="w1") == 0.25


async def test_how_much_a_worker_is_asked_at_a_time_is_shown_while_there_is_a_connection() -> None:
    world = await with_jobs("a")
    limit = AdaptiveLimit(64)
    world.queues.limits["w1"] = limit
    limit.refused(at=1.0, seconds=0.1)
    assert one(world, "multikueue_cluster_concurrency", cluster="w1") == START // 2
    assert len(figures(world)["multikueue_cluster_concurrency"]) == 1


async def test_what_strategies_read_of_workers_is_shown_and_nothing_where_none_reads_it() -> None:
    world = await with_jobs("a")
    names = ("multikueue_cluster_room", "multikueue_cluster_kueue_release")
    assert not {*names} & figures(world).keys()
    room = world.store.rooms.worker("w1")
    room.begin(())
    room.cluster_queues.replace([cluster_queue("theirs").quota("spot", cpu=10).build()])
    room.local_queues.replace([local_queue("main", "theirs").build()])
    for part in (("clusterqueues", ""), ("localqueues", "")):
        room.begin([part])
        room.report(*part, "")
    world.store.worker("w1").runs("0.19.2")
    shown = {(quota, one(world, names[0], flavor="spot", resource="cpu", quota=quota)) for quota in QUOTA}
    assert shown == {("nominal", 10), ("used", 0), ("free", 10)}
    assert one(world, names[1], cluster="w1", release="0.19.2") == 1


async def test_what_is_set_aside_is_counted_by_cluster_and_kind() -> None:
    world = await with_jobs("a")
    world.store.workloads.unreadable[world.key("a")] = "odd"
    world.store.worker("w2").jobs.of(JOBS).unreadable[world.key("a")] = "odd"
    assert one(world, "multikueue_objects_unreadable", cluster="(manager)", kind="Workload.kueue.x-k8s.io") == 1
    assert one(world, "multikueue_objects_unreadable", cluster="w2", kind="Job.batch") == 1
    assert one(world, "multikueue_objects_unreadable", cluster="w1", kind="Job.batch") == 0


async def test_work_queues_show_what_is_in_them() -> None:
    world = await with_jobs("a")
    taken = one(world, "multikueue_reconciles_total", controller="workloads")
    assert taken > 0
    world.queues.workloads.add(world.key("a"))
    assert one(world, "multikueue_work_queue_depth", controller="workloads", state="waiting") == 1
    assert one(world, "multikueue_work_queue_depth", controller="outbox w1", state="waiting") == 0


async def test_a_scrape_changes_nothing() -> None:
    world = await with_jobs("a", "b", "c", quota=1)
    before = (
        world.engine.view.pending_in("cq"),
        world.engine.scheduler.next_look(world.now()),
        world.manager.all(kinds.WORKLOADS),
    )
    first = figures(world, has_resources=True, has_local_queues=True)
    assert figures(world, has_resources=True, has_local_queues=True) == first
    after = (
        world.engine.view.pending_in("cq"),
        world.engine.scheduler.next_look(world.now()),
        world.manager.all(kinds.WORKLOADS),
    )
    assert after == before


async def test_each_sample_is_there_once() -> None:
    world = await with_jobs("a", "b", quota=1)
    made = StateCollector(store=world.store, queues=world.queues, has_resources=True, has_local_queues=True)
    seen = Counter((s.name, frozenset(s.labels.items())) for family in made.collect() for s in family.samples)
    assert set(seen.values()) == {1}


async def test_others_have_a_turn_after_each_family() -> None:
    world = await with_jobs("a", "b", quota=1)
    made, turns, over = StateCollector(store=world.store, queues=world.queues), 0, False

    async def count() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        gathered = await made.gather()
        over = True
    assert [each.name for each in gathered] == [each.name for each in made.collect()]
    assert turns >= len(gathered)


async def test_workers_of_a_fleet_are_counted_by_what_becomes_of_them() -> None:
    world = table()
    assert "multikueue_fleet_workers" not in figures(world)
    for name, reason in (("w1", ""), ("w2", "Held"), ("w3", "Leaving")):
        told = {
            "type": IN_FLEET,
            "status": "False",
            "reason": reason,
            "message": "",
            "lastTransitionTime": "2026-01-01T12:00:00Z",
        }
        change = {
            "metadata": {"labels": {FLEET_LABEL: "multikueue"}},
            "status": {"conditions": [told] if reason else []},
        }
        world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name), change)
    made = StateCollector(store=world.store, queues=world.queues)
    (family,) = [each for each in made.collect() if each.name == "multikueue_fleet_workers"]
    assert {sample.labels["state"]: sample.value for sample in family.samples} == {"all": 3, "leaving": 1, "held": 1}
