"""What is counted and told about workloads, in one file, with the whole manager over clusters in memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Counter, Histogram
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from multikueue.api import kinds
from multikueue.api.kueue.usage import WorkloadUsage
from multikueue.api.meta import ObjectKey
from multikueue.controllers.metrics.observer import Observer
from multikueue.quota.engine import Engine
from multikueue.store.queues import NoQueues
from multikueue.store.store import Store
from multikueue.telemetry.metrics import LabelledInstrument, Metrics
from tests.builders import NOW, workload
from tests.cluster import Cluster
from tests.controllers.table import NAMESPACE, Body, Table, table

JOB = ObjectKey(NAMESPACE, "job")
PHASES = "multikueue_dispatch_phase_duration_seconds"


@pytest.fixture(autouse=True)
def _unbound() -> Iterator[None]:
    structlog.contextvars.clear_contextvars()
    yield
    structlog.reset_defaults()


def value(world: Table, name: str, **labels: str) -> float:
    wanted = frozenset(labels.items())
    families = text_string_to_metric_families(world.world.metrics.render().decode())
    samples = (sample for family in families for sample in family.samples)
    return sum(s.value for s in samples if s.name == name and wanted <= frozenset(s.labels.items()))


async def told(world: Table) -> list[dict[str, Any]]:
    """What the manager logs about workloads until it comes to rest."""
    with capture_logs() as entries:
        await world.settle()
    return [
        dict(entry) for entry in entries if entry["event"].startswith("workload.") and entry["log_level"] != "debug"
    ]


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["event"].removeprefix("workload.") for entry in entries]


@pytest.mark.anyio
async def test_each_decision_on_the_straight_way_is_told_once() -> None:
    world = table()
    world.submit()
    created, reserved = await told(world)
    assert (created["event"], created["job"], created["queue"]) == ("workload.created", "job", "main")
    assert (reserved["event"], reserved["nominated"]) == ("workload.reserved", ("w1", "w2", "w3"))
    world.admit("w1")
    [admitted] = await told(world)
    assert (admitted["event"], admitted["cluster"]) == ("workload.admitted", "w1")
    world.finish("w1")
    [finished] = await told(world)
    assert (finished["event"], finished["cluster"], finished["reason"]) == ("workload.finished", "w1", "Succeeded")
    assert {entry["workload"] for entry in (created, reserved, admitted, finished)} == {str(world.key())}
    assert reserved["attempt"] == admitted["attempt"] == finished["attempt"] != ""


@pytest.mark.anyio
async def test_the_straight_way_is_counted_once() -> None:
    world = table()
    await world.begin()
    assert value(world, "kueue_quota_reserved_workloads_total", cluster_queue="cq", priority_class="") == 1
    assert value(world, "kueue_admitted_workloads_total", cluster_queue="cq") == 1
    assert value(world, "kueue_admission_checks_wait_time_seconds_count", cluster_queue="cq") == 1
    for worker in ("w1", "w2", "w3"):
        assert value(world, "multikueue_workloads_dispatched_total", cluster=worker, cluster_queue="cq") == 1
    assert value(world, "multikueue_workloads_admitted_total") == 1
    assert value(world, "multikueue_workloads_admitted_total", cluster="w1") == 1
    assert value(world, "multikueue_copies_removed_total", reason="lost") == 2
    for phase in ("workload_created", "quota_reserved", "first_copy", "admitted_remotely", "job_created", "ready"):
        assert value(world, f"{PHASES}_count", phase=phase) == 1, phase
    assert value(world, "multikueue_dispatch_duration_seconds_count") == 1
    world.finish("w1")
    await world.settle()
    assert value(world, "kueue_finished_workloads_total", cluster_queue="cq") == 1
    assert value(world, "multikueue_copies_removed_total", reason="finished", cluster="w1") == 1
    assert value(world, f"{PHASES}_count", phase="finished") == 1
    assert world.observer.finished == {ObjectKey(NAMESPACE, "main"): 1}


@pytest.mark.anyio
async def test_the_last_phase_is_taken_even_if_the_worker_never_says_that_the_workload_is_finished() -> None:
    world = table()
    await world.begin()
    world.finish_job("w1")
    await world.settle()
    assert value(world, "kueue_finished_workloads_total", cluster_queue="cq") == 1
    assert value(world, f"{PHASES}_count", phase="finished") == 1


@pytest.mark.anyio
async def test_phases_add_up_to_the_whole() -> None:
    world = table()
    ticks = iter(range(1000))
    world.observer.seconds = lambda: float(next(ticks))
    await world.begin()
    whole = value(world, "multikueue_dispatch_duration_seconds_sum")
    assert value(world, f"{PHASES}_sum") == pytest.approx(whole)


@pytest.mark.anyio
async def test_waits_are_measured_from_creation() -> None:
    world = table(quota=0)
    world.submit()
    await world.settle()
    world.time += timedelta(seconds=100)
    groups = world.manager.find(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"))
    assert groups is not None
    spec = groups["spec"]
    spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "9"
    world.manager.change(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"), {"spec": spec})
    world.time += timedelta(seconds=2)
    await world.settle()
    assert value(world, "kueue_quota_reserved_wait_time_seconds_sum", cluster_queue="cq") == 102


@pytest.mark.anyio
async def test_a_retry_an_eviction_and_the_next_attempt_are_told_and_counted() -> None:
    world = table()
    await world.begin()
    world.evict("w1")
    entries = await told(world)
    assert names(entries) == ["retried", "evicted", "requeued"]
    assert "w1" in entries[0]["why"]
    assert (entries[0]["cluster"], entries[1]["reason"]) == ("w1", "AdmissionCheck")
    assert value(world, "multikueue_retries_total", cluster="w1") == 1
    assert value(world, "kueue_evicted_workloads_total", reason="AdmissionCheck", underlying_cause="") == 1
    assert value(world, "kueue_evicted_workloads_once_total", reason="AdmissionCheck", detailed_reason="") == 1
    world.time += timedelta(minutes=5)
    world.queues.workloads.add(world.key())
    assert "reserved" in names(await told(world))
    assert value(world, "kueue_quota_reserved_workloads_total") == 2
    assert value(world, f"{PHASES}_count", phase="quota_reserved") == 1, "only a first attempt has a way before"
    assert value(world, f"{PHASES}_count", phase="first_copy") == 2


@pytest.mark.anyio
async def test_a_deactivated_workload_is_counted_by_reason_and_cause() -> None:
    world = table()
    await world.begin()
    spec = world.workload()["spec"] | {"active": False}
    world.manager.change(kinds.WORKLOADS, world.key(), {"spec": spec})
    await world.settle()
    assert value(world, "kueue_evicted_workloads_total", reason="Deactivated") == 1


@pytest.mark.anyio
async def test_nothing_is_told_when_nothing_changed() -> None:
    world = table()
    world.submit()
    await world.settle()
    for key in (world.key(), *(ObjectKey(NAMESPACE, "none"),)):
        world.queues.workloads.add(key)
    assert await told(world) == []


@pytest.mark.anyio
async def test_a_process_that_just_began_counts_only_what_happens_from_then_on() -> None:
    world = table()
    for name in ("done", "running"):
        world.submit(name)
    await world.settle()
    for name in ("done", "running"):
        world.admit("w1", name)
    await world.settle()
    world.finish("w1", "done")
    await world.settle()
    with capture_logs() as entries:
        world.start()
        await world.settle()
    assert [entry for entry in entries if entry["event"].startswith("workload.")] == []
    assert value(world, "kueue_admitted_workloads_total") == 0
    assert value(world, "multikueue_workloads_dispatched_total") == 0
    assert world.observer.finished == {ObjectKey(NAMESPACE, "main"): 1}
    world.finish("w1", "running")
    assert names(await told(world)) == ["finished"]
    assert value(world, "kueue_finished_workloads_total", cluster_queue="cq") == 1


@pytest.mark.anyio
async def test_a_standby_tells_and_counts_nothing() -> None:
    world = table()
    world.observer.is_acting = False
    world.submit()
    assert await told(world) == []
    assert value(world, "kueue_quota_reserved_workloads_total") == 0


def _raises(*_args: object, **_labels: object) -> None:
    raise OSError("database is locked")


LOOKS = (
    (Observer, "_job_changed"),
    (Observer, "_workload_changed"),
    (Observer, "_copy_changed"),
    (Observer, "_remote_job_changed"),
    (Observer, "reach_changed"),
    (Observer, "worker_met"),
)
INSTRUMENTS = ((LabelledInstrument, "__call__"), (Histogram, "observe"), (Counter, "inc"))
COUNTS = (*LOOKS, *INSTRUMENTS[:2])


@pytest.mark.anyio
@pytest.mark.parametrize(
    "failing",
    [*((each,) for each in (*LOOKS, *INSTRUMENTS)), COUNTS],
    ids=[*(f"{kind.__name__}.{name} fails" for kind, name in (*LOOKS, *INSTRUMENTS)), "all of them fail"],
)
async def test_a_look_that_fails_keeps_no_job_from_its_end(
    failing: tuple[tuple[type, str], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, name in failing:
        monkeypatch.setattr(kind, name, _raises)
    world = table()
    world.submit()
    await world.settle()
    assert world.copies() == ["w1", "w2", "w3"]
    world.cut("w3")
    world.admit("w1")
    await world.settle()
    assert world.runs_on() == ["w1"]
    world.connect("w3")
    world.finish("w1")
    await world.settle()
    finished = world.condition("Finished")
    assert finished is not None
    assert finished["status"] == "True"
    assert world.copies() == []
    assert [cache.unreadable for _, _, cache in world.store.caches() if cache.unreadable] == []


@pytest.mark.anyio
async def test_a_look_that_fails_is_counted_each_time_and_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Observer, "_copy_changed", _raises)
    world = table()
    world.submit()
    with capture_logs() as entries:
        await world.settle()
    assert [entry["what"] for entry in entries if entry["event"] == "look.failed"] == ["copies"]
    assert value(world, "multikueue_look_failures_total", what="copies") == 3


@pytest.mark.anyio
async def test_nothing_is_remembered_of_what_is_over() -> None:
    world = table()
    for name in ("finished", "deleted", "never taken in"):
        world.submit(name, queue="nowhere" if name == "never taken in" else "main")
    await world.settle()
    world.admit("w1", "finished")
    await world.settle()
    world.finish("w1", "finished")
    for name in ("deleted", "never taken in"):
        found = world.manager.find(kinds.JOBS, ObjectKey(NAMESPACE, name))
        assert found is not None
        await world.manager.delete(kinds.JOBS, ObjectKey(NAMESPACE, name), uid=found["metadata"]["uid"])
    await world.settle()
    left = [key for key in world.observer._stories if world.store.workloads.get(key) is None]
    assert (left, world.observer._submitted) == ([], {})


@pytest.mark.anyio
async def test_the_time_for_which_losers_had_quota_is_counted() -> None:
    """The winner's is no loser's, and who waits has none."""
    world = table()
    world.submit()
    await world.settle()
    world.admit("w2")
    world.time += timedelta(seconds=7)
    world.admit("w1")
    world.time += timedelta(seconds=5)
    await world.settle()
    [winner] = world.runs_on()
    loser = {"w1": "w2", "w2": "w1"}[winner]
    held = {"w1": 5, "w2": 12}
    assert value(world, "multikueue_losers_quota_seconds_total", cluster=loser) == held[loser]
    assert value(world, "multikueue_losers_quota_seconds_total") == held[loser]
    world.finish(winner)
    world.time += timedelta(seconds=60)
    await world.settle()
    assert value(world, "multikueue_losers_quota_seconds_total") == held[loser]


@pytest.mark.anyio
async def test_the_preemptions_that_losers_caused_are_counted() -> None:
    """Of a copy of ours, and of a workload of others. What the winner preempted is not."""
    world = table()
    for name in ("job", "victim"):
        world.submit(name)
    await world.settle()
    room = world.store.rooms.worker("w2")
    room.workloads.upsert(usage("theirs"))
    for worker, cluster in world.workers.items():
        copy = cluster.find(kinds.WORKLOADS, world.key())
        assert copy is not None
        uid = copy["metadata"]["uid"]
        preempt(cluster, world.key("victim"), uid)
        if worker == "w2":
            room.workloads.upsert(usage("theirs", preemptor=uid))
            room.workloads.upsert(usage("theirs", preemptor=uid, version="3"))
    await world.settle()
    assert value(world, "multikueue_losers_preemptions_total") == 0, "nobody has lost yet"
    world.admit("w1")
    await world.settle()
    assert world.runs_on() == ["w1"]
    found = {name: value(world, "multikueue_losers_preemptions_total", cluster=name) for name in world.workers}
    assert found == {"w1": 0, "w2": 2, "w3": 1}


def evicted_for(preemptor: str) -> Body:
    message = f"Preempted to accommodate a workload (UID: {preemptor}, JobUID: UNKNOWN) due to prioritization"
    stamp = "2026-01-01T12:00:00Z"
    return {"type": "Evicted", "status": "True", "reason": "Preempted", "message": message, "lastTransitionTime": stamp}


def preempt(cluster: Cluster, victim: ObjectKey, preemptor: str) -> None:
    """The worker's Kueue takes a copy down for another one."""
    cluster.change(kinds.WORKLOADS, victim, {"status": {"conditions": [evicted_for(preemptor)]}})


def usage(name: str, *, preemptor: str = "", version: str = "") -> WorkloadUsage:
    """A workload of others, as a worker's watch tells it."""
    body = {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": name,
            "resourceVersion": version or ("2" if preemptor else "1"),
        },
        "spec": {},
        "status": {"conditions": [evicted_for(preemptor)] if preemptor else []},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=WorkloadUsage)


@pytest.mark.anyio
async def test_copies_without_owner_are_counted_as_orphans() -> None:
    world = table()
    world.submit()
    await world.settle()
    copy = world.workers["w2"].find(kinds.WORKLOADS, world.key())
    assert copy is not None
    world.workers["w2"].put(kinds.WORKLOADS, {**copy, "metadata": {**copy["metadata"], "name": "stray", "uid": "x"}})
    await world.settle()
    assert value(world, "multikueue_copies_removed_total", cluster="w2", reason="orphan") == 1


@pytest.mark.anyio
async def test_the_states_of_workers_are_counted_when_they_change() -> None:
    world = table()
    before = value(world, "multikueue_cluster_status_changes_total", cluster="w2", status="isolated")
    world.cut("w2")
    world.connect("w2")
    assert value(world, "multikueue_cluster_status_changes_total", cluster="w2", status="isolated") == before + 1


@pytest.mark.anyio
async def test_queues_that_are_gone_have_no_series() -> None:
    world = table()
    world.submit()
    await world.settle()
    assert 'cluster_queue="cq"' in world.world.metrics.render().decode()
    world.manager.drop(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"))
    assert 'cluster_queue="cq"' not in world.world.metrics.render().decode()


CONDITIONS = st.dictionaries(
    st.sampled_from(["QuotaReserved", "Admitted", "Evicted", "Finished", "Requeued", "Strange"]),
    st.tuples(
        st.sampled_from(["True", "False", "Unknown"]), st.sampled_from(["", "DueTo", "ADueToBDueToC", "Preempted"])
    ),
)


@given(st.lists(CONDITIONS, min_size=1, max_size=6), st.booleans())
def test_whatever_states_a_workload_goes_through_the_observer_keeps_quiet(steps: list[Any], per_queue: bool) -> None:
    """An error here would end the watch that it looks on."""
    store = Store(Engine(), NoQueues(), lambda: NOW)
    observer = Observer(store=store, metrics=Metrics(has_local_queues=per_queue), now=lambda: NOW, is_acting=True)
    observer.attach()
    with capture_logs():
        for version, states in enumerate(steps, start=1):
            builder = workload("wl", namespace="team").queue("lq")
            for type_, (status, reason) in states.items():
                builder = builder.condition(type_, status, reason=reason)
            store.workloads.upsert(builder.version(version).build())
        held = store.workloads.get(ObjectKey("team", "wl"))
        assert held is not None
        store.workloads.remove(held)
    assert observer.finished.total() == 0
    assert observer._stories == {}
