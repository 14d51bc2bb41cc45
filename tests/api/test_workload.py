"""What a Workload's status must say when it is written."""

from __future__ import annotations

from multikueue.api.meta import encode
from multikueue.api.workload import (
    EvictionCount,
    PodSetAssignment,
    ReclaimablePod,
    SchedulingStats,
    WorkloadStatus,
)


def test_what_the_api_demands_is_written_even_when_empty() -> None:
    status = WorkloadStatus(
        reclaimable_pods=(ReclaimablePod(name="main", count=0),),
        scheduling_stats=SchedulingStats(evictions=(EvictionCount(reason="Preempted", underlying_cause="", count=1),)),
    )
    written = encode(status)
    assert b'"reclaimablePods":[{"name":"main","count":0}]' in written
    assert b'"evictions":[{"reason":"Preempted","underlyingCause":"","count":1}]' in written


def test_that_no_pod_of_a_pod_set_was_admitted_is_written() -> None:
    assert encode(PodSetAssignment(name="main", count=0)) == b'{"name":"main","count":0}'
