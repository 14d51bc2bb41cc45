"""What the driver reads from watches, and the patch that ends a job."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from benchmarks.events import completion, job_event, workload_event


def line(**body: object) -> bytes:
    tree = {"metadata": {"name": "job-a", "resourceVersion": "7", "managedFields": [{}]}, **body}
    return json.dumps({"type": "MODIFIED", "object": tree}).encode()


def test_a_job_is_suspended_released_and_complete() -> None:
    assert job_event(line(spec={"suspend": True})).object.spec.suspend
    assert not job_event(line(spec={})).object.spec.suspend
    done = job_event(line(spec={}, status={"conditions": [{"type": "Complete", "status": "True", "reason": "x"}]}))
    assert done.has("Complete")
    assert not done.has("Failed")


def test_a_condition_that_is_false_is_not_had() -> None:
    event = workload_event(line(status={"conditions": [{"type": "Admitted", "status": "False"}]}))
    assert not event.has("Admitted")


def test_a_workload_knows_its_job_its_cluster_and_its_nominations() -> None:
    tree = json.loads(line(status={"clusterName": "w1", "nominatedClusterNames": ["w1", "w2"]}))
    tree["object"]["metadata"]["ownerReferences"] = [{"name": "a", "kind": "Job"}]
    event = workload_event(json.dumps(tree).encode())
    assert (event.job, event.object.status.cluster_name) == ("a", "w1")
    assert event.object.status.nominated_cluster_names == ("w1", "w2")
    assert event.object.metadata.resource_version == "7"


def test_a_copy_has_no_job_of_its_own() -> None:
    assert workload_event(line()).job == ""


def test_the_completion_is_one_status_with_the_time_in_utc() -> None:
    status = json.loads(completion(datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)))["status"]
    assert status["completionTime"] == "2026-01-02T03:04:05Z"
    assert [entry["type"] for entry in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert status["succeeded"] == 1
