"""What is applied beside Kueue: the whole of what its core holds, and nothing of what others hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multikueue.api.kueue.shared_status import OUR_CONDITIONS, SHARED_CONDITIONS, applied, our_part, shared_part
from multikueue.api.kueue.workload import PodSetRequest, RequeueState, Workload, WorkloadStatus
from multikueue.api.meta import Condition, decoder, encode
from tests.builders import NOW, workload
from tests.builders.workloads import WorkloadBuilder


def reserved() -> WorkloadBuilder:
    return workload("wl").request(cpu=1).version(7).reserved().check("mk").check("other", "Ready", message="fine")


def status_of(builder: WorkloadBuilder, **more: Any) -> WorkloadStatus:
    return msgspec.structs.replace(builder.build().status, **more)


def sent(part: WorkloadStatus) -> dict[str, Any]:
    """What the API server gets to see of the status."""
    shown: dict[str, Any] = msgspec.json.decode(encode(applied(reserved().build(), part)))["status"]
    return shown


def test_it_holds_only_for_the_very_version_that_was_read() -> None:
    local = reserved().build()
    body = applied(local, shared_part(local.status))
    assert (body["apiVersion"], body["kind"]) == ("kueue.x-k8s.io/v1beta2", "Workload")
    assert body["metadata"] == {
        "name": "wl",
        "namespace": local.metadata.namespace,
        "uid": local.metadata.uid,
        "resourceVersion": "7",
    }


def test_all_that_kueue_holds_goes_along() -> None:
    shown = sent(shared_part(status_of(reserved().nominated("w1", "w2").requeue_state(2, at=NOW))))
    assert set(shown) == {"admission", "conditions", "admissionChecks", "nominatedClusterNames", "requeueState"}
    assert [check["name"] for check in shown["admissionChecks"]] == ["mk", "other"]
    assert shown["admission"]["podSetAssignments"][0]["resourceUsage"] == {"cpu": "1"}


def test_what_is_cleared_is_left_out() -> None:
    shown = sent(shared_part(status_of(reserved(), cluster_name=None, nominated_cluster_names=())))
    assert not {"clusterName", "nominatedClusterNames"} & set(shown)


@pytest.mark.parametrize(
    ("type_", "shared", "ours"),
    [
        *((type_, True, False) for type_ in sorted(SHARED_CONDITIONS)),
        *((type_, False, True) for type_ in sorted(OUR_CONDITIONS)),
        ("PodsReady", False, False),
        ("example.com/Mine", False, False),
    ],
)
def test_each_condition_has_one_field_manager(type_: str, shared: bool, ours: bool) -> None:
    condition = Condition(type=type_, status="True", message="")
    status = WorkloadStatus(conditions=(condition,))
    assert (shared_part(status).conditions == (condition,)) is shared
    assert (our_part(status).conditions == (condition,)) is ours


def test_pods_that_were_given_back_are_somebody_elses() -> None:
    assert "reclaimablePods" not in sent(shared_part(status_of(reserved().reclaimable(main=1))))


@pytest.mark.parametrize(
    ("admitted", "expected"), [(True, False), (False, True)], ids=["beside an admission", "without an admission"]
)
def test_resource_requests_go_when_an_admission_takes_their_place(admitted: bool, expected: bool) -> None:
    builder = reserved() if admitted else workload("wl")
    status = status_of(builder, resource_requests=(PodSetRequest(name="main", resources={"cpu": "1"}),))
    assert ("resourceRequests" in sent(shared_part(status))) is expected


def test_an_empty_requeue_state_is_none() -> None:
    assert "requeueState" not in sent(shared_part(status_of(reserved(), requeue_state=RequeueState())))


def test_what_we_only_carry_comes_along_byte_for_byte() -> None:
    body = b"""{"metadata": {"name": "wl"}, "status": {
        "unhealthyNodes": [{"name": "n1", "new": 1}], "preemptionGates": [{"name": "g", "position": "Open"}],
        "schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 2}]},
        "admission": {"clusterQueue": "cq", "podSetAssignments": [
            {"name": "main", "count": 1, "topologyAssignment": {"levels": ["host"], "slices": [{"x": 1}]}}]}
    }}"""
    read = decoder(Workload)(body)
    assert sent(shared_part(read.status)) == msgspec.json.decode(body)["status"]


# --- what a newer Kueue has -------------------------------------------------------------------------------------------

NEW: dict[str, Any] = {
    "newField": {"deep": [1, 2]},
    "newAtomic": ["a", "b"],
    "conditions": [
        {"type": "QuotaReserved", "status": "True", "newInCondition": "x"},
        {"type": "NewCondition", "status": "True", "reason": "New", "message": ""},
        {"type": "SomebodyElses", "status": "True", "reason": "Other", "message": ""},
    ],
    "admissionChecks": [
        {"name": "mk", "state": "Ready", "newInCheck": 7},
        {"name": "removed", "state": "Ready", "newInCheck": 8},
    ],
    "requeueState": {"count": 2, "newInState": True},
    "others": {"ours": 1, "theirs": 2},
    "elses": "not Kueue's",
}
HELD: dict[str, Any] = {
    "f:newField": {"f:deep": {}},
    "f:newAtomic": {},
    "f:conditions": {
        'k:{"type":"QuotaReserved"}': {".": {}, "f:type": {}, "f:status": {}, "f:newInCondition": {}},
        'k:{"type":"NewCondition"}': {".": {}, "f:type": {}, "f:status": {}, "f:reason": {}, "f:message": {}},
    },
    "f:admissionChecks": {
        'k:{"name":"mk"}': {".": {}, "f:name": {}, "f:state": {}, "f:newInCheck": {}},
        'k:{"name":"removed"}': {".": {}, "f:name": {}, "f:state": {}, "f:newInCheck": {}},
    },
    "f:requeueState": {"f:count": {}, "f:newInState": {}},
    "f:others": {"f:ours": {}},
}


def stored(owned: dict[str, Any], **author: str) -> dict[str, Any]:
    entry = {"manager": "kueue-admission", "operation": "Apply", "subresource": "status"} | author
    return {"metadata": {"managedFields": [{**entry, "fieldsV1": {"f:status": owned}}]}, "status": NEW}


def with_new(status: WorkloadStatus, body: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.json.decode(encode(applied(reserved().build(), shared_part(status), body)))[
        "status"
    ]
    return shown


def test_what_kueue_holds_and_we_do_not_know_goes_along_also_within_what_we_know() -> None:
    before = sent(shared_part(status_of(reserved().requeue_state(2, at=NOW))))
    shown = with_new(status_of(reserved().requeue_state(2, at=NOW)), stored(HELD))
    assert (shown["newField"], shown["newAtomic"]) == (NEW["newField"], NEW["newAtomic"])
    assert shown["others"] == {"ours": 1}, "what others own stays theirs"
    assert "elses" not in shown
    conditions = {each["type"]: each for each in shown["conditions"]}
    assert conditions.keys() == {each["type"] for each in before["conditions"]} | {"NewCondition"}
    assert conditions["QuotaReserved"]["newInCondition"] == "x"
    checks = {each["name"]: each for each in shown["admissionChecks"]}
    assert checks.keys() == {"mk", "other"}, "a check that was removed does not come back"
    assert checks["mk"] == {**before["admissionChecks"][0], "newInCheck": 7}, "what we know is as we decided"
    assert shown["requeueState"] == {**before["requeueState"], "newInState": True}


def test_what_is_cleared_does_not_come_back_with_what_is_new_in_it() -> None:
    shown = with_new(status_of(reserved()), stored(HELD))
    assert "requeueState" not in shown


@pytest.mark.parametrize("author", [{"manager": "somebody"}, {"operation": "Update"}, {"subresource": ""}], ids=str)
def test_what_others_hold_is_left_to_them(author: dict[str, str]) -> None:
    assert with_new(status_of(reserved()), stored(HELD, **author)) == sent(shared_part(status_of(reserved())))


def test_without_news_the_body_is_the_same() -> None:
    status = status_of(reserved().nominated("w1").requeue_state(2, at=NOW))
    bare = {"metadata": {"managedFields": None}, "status": {}}
    assert with_new(status, bare) == sent(shared_part(status))
