"""The instruments, and what Prometheus reads of them."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from multikueue.errors import Conflict, Throttled
from multikueue.kube.client import Call
from multikueue.telemetry.metrics import KUEUE, KUEUES_MULTIKUEUE, MANAGER, Metrics, kueue_buckets


def read(metrics: Metrics) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def labels(**pairs: str) -> frozenset[tuple[str, str]]:
    return frozenset(pairs.items())


def call(cluster: str = "w1", *, status: str = "201", seconds: float = 0.003, subresource: str = "") -> Call:
    return Call(cluster, "create", "workloads", subresource, status, seconds)


def test_buckets_are_kueues() -> None:
    assert kueue_buckets(5) == (1, 2.5, 5, 10, 20)
    assert len(kueue_buckets(14)) == 14
    assert kueue_buckets(14)[-1] == 10240


def test_calls_are_counted_by_cluster_verb_resource_and_outcome() -> None:
    metrics = Metrics()
    for each in (call(), call(), call(status="Conflict"), call(""), call(subresource="status")):
        metrics.called(each)
    requests = read(metrics)["multikueue_api_requests_total"]
    assert requests == {
        labels(cluster="w1", verb="create", resource="workloads", code="201"): 2,
        labels(cluster="w1", verb="create", resource="workloads", code="Conflict"): 1,
        labels(cluster="w1", verb="create", resource="workloads/status", code="201"): 1,
        labels(cluster=MANAGER, verb="create", resource="workloads", code="201"): 1,
    }


def test_the_time_of_calls_falls_into_buckets() -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.002, 0.3, 60.0):
        metrics.called(call(seconds=seconds))
    found = read(metrics)
    series = {dict(key)["le"]: count for key, count in found["multikueue_api_request_duration_seconds_bucket"].items()}
    assert [series[bound] for bound in ("0.002", "0.25", "0.5", "10", "+Inf")] == [2, 2, 3, 3, 4]
    [count] = found["multikueue_api_request_duration_seconds_count"].values()
    [total] = found["multikueue_api_request_duration_seconds_sum"].values()
    assert (count, round(total, 3)) == (4, 60.303)


def test_a_failed_reconcile_counts_once_per_kind_of_error() -> None:
    metrics = Metrics()
    failed = metrics.failing("workloads")
    failed("key", Conflict(409, "Conflict", "x"))
    failed("key", ExceptionGroup("both", [Conflict(409, "Conflict", "x"), Throttled(429, "TooMany", "x")]))
    assert read(metrics)["multikueue_reconcile_errors_total"] == {
        labels(controller="workloads", error="Conflict"): 2,
        labels(controller="workloads", error="Throttled"): 1,
    }


def test_only_kueues_metrics_carry_the_role_and_it_may_change() -> None:
    metrics = Metrics()
    metrics.queues.admitted("cq", "").inc()
    metrics.role = "leader"
    found = read(metrics)
    assert found["kueue_admitted_workloads_total"] == {
        labels(cluster_queue="cq", priority_class="", replica_role="leader"): 1
    }
    assert found["multikueue_sweeps_total"] == {labels(): 0}


@pytest.mark.parametrize(("role", "acts"), [("standalone", 1), ("leader", 1), ("follower", 0)])
def test_whoever_stands_by_does_not_act(role: str, acts: int) -> None:
    metrics = Metrics()
    metrics.role = role
    assert read(metrics)["multikueue_acting"] == {labels(): acts}


def test_nothing_is_exposed_about_creation_times() -> None:
    metrics = Metrics()
    metrics.dispatched("cq", "w1").inc()
    assert not [name for name in read(metrics) if name.endswith("_created")]


@pytest.mark.parametrize("wanted", [True, False], ids=["wanted", "not wanted"])
def test_local_queues_have_instruments_where_they_are_wanted(wanted: bool) -> None:
    assert (Metrics(has_local_queues=wanted).local_queues is not None) is wanted


def test_what_is_gone_has_no_series() -> None:
    metrics = Metrics(has_local_queues=True)
    assert metrics.local_queues is not None
    for name in ("one", "two"):
        metrics.dispatched("cq", name).inc()
        metrics.dispatched(name, "w1").inc()
        metrics.queues.admitted(name, "high").inc()
        metrics.local_queues.admitted_wait(name, "team", "high").observe(1)
        metrics.failing(f"outbox {name}")("key", Conflict(409, "Conflict", "look again"))
        metrics.called(call(name))
    metrics.forget_cluster("one")
    metrics.forget_cluster_queue("one")
    metrics.forget_local_queue("team", "one")
    named = {value for series in read(metrics).values() for key in series for _, value in key}
    assert not {"one", "outbox one"} & named
    assert {"two", "outbox two", "w1"} <= named
    metrics.dispatched("cq", "one").inc()
    assert (
        read(metrics)["multikueue_workloads_dispatched_total"][
            labels(cluster_queue="cq", cluster="one", replica_role="standalone")
        ]
        == 1
    ), "should it come back, it counts again"


def test_a_child_is_made_once() -> None:
    metrics = Metrics()
    assert metrics.dispatched("cq", "w1") is metrics.dispatched("cq", "w1")
    assert metrics.dispatched("cq", "w1") is not metrics.dispatched("cq", "w2")


@pytest.mark.parametrize(
    ("told", "names"),
    [
        pytest.param(KUEUE, {"kueue_admitted_workloads_total", "multikueue_workloads_dispatched_total"}, id="alone"),
        pytest.param(KUEUES_MULTIKUEUE, {"multikueue_workloads_dispatched_total"}, id="as its MultiKueue"),
        pytest.param((), set(), id="as its dispatcher"),
    ],
)
def test_beside_kueue_its_metrics_are_its_own_to_tell(told: tuple[str, ...], names: set[str]) -> None:
    metrics = Metrics(told=told)
    metrics.queues.admitted("cq", "").inc()
    metrics.dispatched("cq", "w1").inc()
    found = read(metrics)
    assert {name for name in found if name.startswith(KUEUE)} == names
    assert "multikueue_sweeps_total" in found


def test_the_longest_turn_stays_and_each_falls_into_a_bucket() -> None:
    metrics = Metrics()
    for seconds, own in ((0.002, 0.002), (0.3, 0.05), (0.1, 0.1)):
        metrics.turned(seconds, own)
    text = metrics.render().decode()
    assert "multikueue_event_loop_longest_turn_seconds 0.3" in text
    assert "multikueue_event_loop_longest_turn_own_seconds 0.1" in text
    assert 'multikueue_event_loop_turn_seconds_bucket{le="0.25"} 2.0' in text
    assert "multikueue_event_loop_turn_seconds_count 3.0" in text
