"""Patches name what changed, and nothing else."""

from __future__ import annotations

from multikueue.api.kueue.workload import RequeueState, WorkloadStatus
from multikueue.api.values.render import difference, status_patch
from tests.builders import NOW, workload


def test_no_change_is_no_patch() -> None:
    status = workload("wl").reserved("cq").build().status
    assert difference(status, status) == {}


def test_only_changed_fields_are_named_and_lists_are_whole() -> None:
    before = workload("wl").reserved("cq").check("a").check("b")
    patch = difference(before.build().status, before.check("b", "Ready").build().status)
    assert set(patch) == {"admissionChecks"}
    assert [check["state"] for check in patch["admissionChecks"]] == ["Pending", "Ready"]


def test_what_is_gone_is_null() -> None:
    before = workload("wl").reserved("cq").nominated("w1").build().status
    after = workload("wl").build().status
    patch = difference(before, after)
    assert (patch["admission"], patch["conditions"], patch["nominatedClusterNames"]) == (None, None, None)


def test_nested_values_lose_what_is_gone() -> None:
    before = WorkloadStatus(requeue_state=RequeueState(count=1, requeue_at=NOW))
    after = WorkloadStatus(requeue_state=RequeueState(count=2))
    assert difference(before, after) == {"requeueState": {"count": 2, "requeueAt": None}}


def test_a_status_patch_holds_for_one_version() -> None:
    item = workload("wl").version(7).build()
    assert status_patch(item, {"a": 1}) == {"metadata": {"resourceVersion": "7"}, "status": {"a": 1}}
