"""What a Workload's status must say when it is written, and whose a Workload is."""

from __future__ import annotations

import pytest

from multikueue.api.kueue.workload import (
    JOB_OWNER_GVK_ANNOTATION,
    JOB_OWNER_NAME_ANNOTATION,
    EvictionCount,
    PodSetAssignment,
    ReclaimablePod,
    SchedulingStats,
    Workload,
    WorkloadStatus,
    owner_of,
)
from multikueue.api.meta import ObjectMeta, OwnerReference, encode


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


POD = OwnerReference(api_version="v1", kind="Pod", name="web-0", uid="p")
SET = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="web", uid="s")
JOB = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="j", controller=True)


@pytest.mark.parametrize(
    ("kind", "owners", "found"),
    [
        ("", (POD, SET), None),
        ("", (POD, JOB), JOB),
        ("apps/v1, Kind=StatefulSet", (POD, SET), SET),
        ("apps/v1, Kind=StatefulSet", (JOB, SET), SET),
        ("apps/v1, Kind=StatefulSet", (POD,), None),
        ("apps/v1beta1, Kind=StatefulSet", (POD, SET), None),
    ],
    ids=["of a group", "controlled", "named", "named and controlled", "named and gone", "of another version"],
)
def test_whose_it_is(kind: str, owners: tuple[OwnerReference, ...], found: OwnerReference | None) -> None:
    marks = {JOB_OWNER_GVK_ANNOTATION: kind, JOB_OWNER_NAME_ANNOTATION: "web"} if kind else {}

    assert owner_of(Workload(metadata=ObjectMeta(annotations=marks, owner_references=owners))) == found
