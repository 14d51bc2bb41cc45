"""The builders, where they decide something."""

from __future__ import annotations

from testbed import objects
from testbed.kueue import _merged


def test_a_job_asks_for_its_queue_and_waits_suspended() -> None:
    body = objects.job("one", "team", queue="main", parallelism=3, managed_by="kueue.x-k8s.io/multikueue")
    assert body["metadata"] == {"name": "one", "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    spec = {key: value for key, value in body["spec"].items() if key != "template"}
    assert spec == {"parallelism": 3, "completions": 3, "suspend": True, "managedBy": "kueue.x-k8s.io/multikueue"}


def test_a_cluster_queue_covers_the_resources_of_its_quota() -> None:
    spec = objects.cluster_queue("all", quota={"cpu": "4"}, cohort="team", checks=["dispatch"])["spec"]
    assert spec == {
        "namespaceSelector": {},
        "cohortName": "team",
        "admissionChecksStrategy": {"admissionChecks": [{"name": "dispatch"}]},
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
            }
        ],
    }


def test_a_condition_is_found_by_its_type() -> None:
    body = {"status": {"conditions": [{"type": "Active", "status": "True"}]}}
    assert objects.condition(body, "Active") == {"type": "Active", "status": "True"}
    assert objects.condition(body, "Finished") is None
    assert objects.condition({"status": {"conditions": None}}, "Active") is None


def test_configurations_are_merged_key_by_key() -> None:
    below = {"client": {"qps": 50, "burst": 100}, "frameworks": ["a", "b"]}
    assert _merged(below, {"client": {"qps": 300}, "frameworks": ["c"]}) == {
        "client": {"qps": 300, "burst": 100},
        "frameworks": ["c"],
    }
    assert below["client"] == {"qps": 50, "burst": 100}
