"""Raw parts of objects are decoded once while they are in use, and take little memory afterwards."""

from __future__ import annotations

import tracemalloc

import msgspec

from multikueue.api.jobs.job import Job, job_spec, job_status
from multikueue.api.kueue.workload import Workload, WorkloadStatus, workload_spec
from multikueue.api.meta import encode


def with_spec(priority: int, *, pads: int = 0) -> Workload:
    labels = {f"l{number}": "x" for number in range(pads)}
    pods = {"name": "main", "count": 1, "template": {"metadata": {"labels": labels}}}
    return Workload(spec=msgspec.Raw(encode({"priority": priority, "podSets": [pods]})))


def test_a_spec_is_decoded_once_while_it_is_in_use() -> None:
    used = with_spec(1)
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
    assert after - before < 8 * size
