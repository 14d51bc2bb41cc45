"""Keys, conditions, times, and the decoder that reads null as absent."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from multikueue.api.jobs.job import Job, job_spec, job_status
from multikueue.api.kueue.queues import ClusterQueue
from multikueue.api.kueue.workload import Workload, WorkloadStatus, workload_spec
from multikueue.api.meta import (
    Condition,
    Object,
    ObjectKey,
    ObjectMeta,
    controller_of,
    decoder,
    encode,
    is_true,
    natural,
    render_time,
    with_condition,
    without_condition,
)
from tests.builders import NOW, workload

LATER = NOW + timedelta(seconds=5, milliseconds=700)


def condition(status: str = "True", message: str = "") -> Condition:
    return Condition(type="Active", status=status, reason="r", message=message)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "text"), [(ObjectKey("ns", "a"), "ns/a"), (ObjectKey("", "a"), "a")], ids=["namespaced", "cluster scoped"]
)
def test_a_key_reads_like_kubectl_s(key: ObjectKey, text: str) -> None:
    assert str(key) == text


def test_the_transition_time_moves_with_the_status_only() -> None:
    first = with_condition((), condition(), NOW)
    reworded = with_condition(first, condition(message="new"), LATER)
    assert reworded[0].last_transition_time == NOW
    turned = with_condition(first, condition("False"), LATER)
    assert turned[0].last_transition_time == NOW + timedelta(seconds=5)


def test_an_unchanged_condition_gives_the_very_same_tuple() -> None:
    first = with_condition((), condition(), NOW)
    assert with_condition(first, condition(), LATER) is first


def test_other_conditions_keep_their_place() -> None:
    others = with_condition(with_condition((), condition(), NOW), msgspec.structs.replace(condition(), type="B"), NOW)
    assert [c.type for c in with_condition(others, condition("False"), LATER)] == ["Active", "B"]
    assert [c.type for c in without_condition(others, "Active")] == ["B"]
    assert without_condition(others, "C") is others


def test_an_empty_message_is_written_since_the_api_demands_it() -> None:
    assert b'"message":""' in msgspec.json.encode(condition())


def test_times_are_whole_seconds_in_utc() -> None:
    east = datetime(2026, 1, 1, 14, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert render_time(east) == "2026-01-01T12:00:00Z"
    assert render_time(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00Z"


def test_null_is_read_as_absent() -> None:
    read = decoder(ClusterQueue)(
        b'{"metadata":{"labels":null},"status":{"conditions":[null]},"spec":{"stopPolicy":null}}'
    )
    assert read == ClusterQueue()


def test_a_repaired_object_keeps_what_is_only_carried() -> None:
    spec = b'{"podSets":[null,{"a":null}],"b":  1}'
    read = decoder(Workload)(b'{"metadata":{"labels":null},"spec":' + spec + b"}")
    assert bytes(read.spec) == spec


def test_what_is_no_such_object_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decoder(ClusterQueue)(b'{"spec":{"stopPolicy":"Whenever"}}')


def test_the_controller_is_the_owner_that_says_so() -> None:
    owned = workload("wl").owner_job("job").build()
    found = controller_of(owned.metadata)
    assert found is not None
    assert found.name == "job"
    assert controller_of(workload("wl").build().metadata) is None


def test_only_a_true_condition_is_true() -> None:
    assert is_true((condition(),), "Active")
    assert not is_true((condition("False"),), "Active")
    assert not is_true((), "Active")


@pytest.mark.parametrize(("text", "number"), [("12", 12), ("", 0), ("abc", 0)], ids=["a number", "none", "opaque"])
def test_versions_are_ordered_as_numbers(text: str, number: int) -> None:
    item = workload("wl").build()
    meta = msgspec.structs.replace(item.metadata, resource_version=text)
    assert msgspec.structs.replace(item, metadata=meta).version == number


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("7", 7, id="a number"),
        pytest.param(str(2**64 - 1), 2**64 - 1, id="the highest there is"),
        pytest.param("", 0, id="none"),
        pytest.param("-7", 0, id="one below zero"),
        pytest.param("\u00b2", 0, id="a digit that is no number"),
        pytest.param("\u0667", 0, id="a digit of another script"),
        pytest.param("9" * 5000, 0, id="more digits than Python reads"),
    ],
)
def test_a_resource_version_is_a_number_or_nothing(text: str, version: int) -> None:
    assert Object(metadata=ObjectMeta(resource_version=text)).version == version


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"generation": 10**30}, id="a number that no 64 bits hold"),
        pytest.param({"creationTimestamp": "2026-01-01T00:00:00"}, id="a time of no zone"),
    ],
)
def test_what_kubernetes_cannot_write_is_no_object(metadata: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        decoder(Object)(encode({"metadata": metadata}))


def with_spec(priority: int, *, pads: int = 0) -> Workload:
    labels = {f"l{number}": "x" for number in range(pads)}
    pods = {"name": "main", "count": 1, "template": {"metadata": {"labels": labels}}}
    return Workload(spec=msgspec.Raw(encode({"priority": priority, "podSets": [pods]})))


@pytest.mark.parametrize("pads", [0, 60_000], ids=["small", "of 800 KB"])
def test_a_spec_is_decoded_once_while_it_is_in_use(pads: int) -> None:
    used = with_spec(1, pads=pads)
    first = workload_spec(used)

    assert workload_spec(msgspec.structs.replace(used, status=WorkloadStatus())) is first


def test_a_jobs_spec_and_status_are_decoded_once_each_while_they_are_in_use() -> None:
    used = Job(spec=msgspec.Raw(b'{"parallelism":2}'), status=msgspec.Raw(b'{"active":1}'))
    spec, status = job_spec(used), job_status(used)
    newer = msgspec.structs.replace(used, status=msgspec.Raw(b'{"active":2}'))

    assert (spec.parallelism, status.active) == (2, 1)
    assert job_spec(newer) is spec
    assert job_status(newer).active == 2


def test_large_specs_of_workloads_that_are_gone_take_little_memory() -> None:
    size = len(bytes(with_spec(0, pads=30_000).spec))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        assert [workload_spec(with_spec(number, pads=30_000)).priority for number in range(20)] == list(range(20))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 4 * size


def test_numbers_in_names_count_as_numbers() -> None:
    assert sorted(["w10", "w2", "w1-10", "w1-9", "10", "v", "w02"], key=natural) == [
        *("10", "v", "w1-9", "w1-10", "w02", "w2", "w10"),
    ]
