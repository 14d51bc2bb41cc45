"""The kind clusters, their names, and the objects on them agree. No Docker is needed to see that."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from multikueue.api import kinds
from multikueue.api.kind import Kind
from testbed.programs import DEFAULT_KUEUE
from tests.project.files import CLUSTERS, KIND_CONFIGS, blocks, objects, read

KUEUE_VERSION = "v0.19.2"
QUEUES = ["manager.yaml", "worker.yaml", "job.yaml"]


def by_kind(name: str) -> dict[str, dict[str, Any]]:
    return {found["kind"]: found for found in objects((KIND_CONFIGS / "queues" / name).read_text())}


def amounts(queue: dict[str, Any]) -> dict[str, Any]:
    (group,) = queue["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    return {resource["name"]: resource["nominalQuota"] for resource in flavor["resources"]}


@pytest.mark.parametrize("name", CLUSTERS)
def test_each_cluster_has_a_file_that_bears_its_name(name: str) -> None:
    config = yaml.safe_load((KIND_CONFIGS / f"{name}.yaml").read_text())

    assert config["apiVersion"] == "kind.x-k8s.io/v1alpha4"
    assert config["kind"] == "Cluster"
    assert config["name"] == name
    assert [node["role"] for node in config["nodes"]] == ["control-plane"]


def test_there_is_no_file_of_another_cluster() -> None:
    assert sorted(path.stem for path in KIND_CONFIGS.glob("*.yaml")) == CLUSTERS


@pytest.mark.parametrize("script", ["up.sh", "down.sh"])
def test_the_scripts_name_exactly_these_clusters(script: str) -> None:
    names = re.findall(r"(?<![\w-])(manager|worker-\d+)(?![\w.-])", (KIND_CONFIGS / script).read_text())

    assert set(names) == set(CLUSTERS)


@pytest.mark.parametrize("folder", ["crds", "kueue"])
def test_kueue_has_one_version_everywhere(folder: str) -> None:
    kustomization = yaml.safe_load((KIND_CONFIGS / folder / "kustomization.yaml").read_text())

    assert kustomization["resources"]
    assert all(f"/{KUEUE_VERSION}/" in resource for resource in kustomization["resources"])
    assert f"v{DEFAULT_KUEUE}" == KUEUE_VERSION


def test_the_manager_gets_the_crds_of_all_kinds_we_read() -> None:
    resources = yaml.safe_load((KIND_CONFIGS / "crds" / "kustomization.yaml").read_text())["resources"]
    read_by_us = {kind for kind in vars(kinds).values() if isinstance(kind, Kind) and kind.group == "kueue.x-k8s.io"}

    installed = {resource.rsplit("_", 1)[1].removesuffix(".yaml") for resource in resources}

    assert {kind.plural for kind in read_by_us} <= installed


def test_the_manager_gets_crds_that_serve_v1beta2_alone() -> None:
    (patch,) = yaml.safe_load((KIND_CONFIGS / "crds" / "kustomization.yaml").read_text())["patches"]

    assert patch["target"] == {"kind": "CustomResourceDefinition"}
    assert yaml.safe_load(patch["patch"]) == [
        {"op": "test", "path": "/spec/versions/0/name", "value": "v1beta1"},
        {"op": "replace", "path": "/spec/versions/0/served", "value": False},
        {"op": "test", "path": "/spec/versions/1/name", "value": "v1beta2"},
    ]


def test_the_workers_kueue_runs_batch_jobs_only() -> None:
    (config,) = objects((KIND_CONFIGS / "kueue" / "config.yaml").read_text())

    (name,) = config["data"]
    assert name == "controller_manager_config.yaml"
    assert yaml.safe_load(config["data"][name])["integrations"] == {"frameworks": ["batch/job"]}


@pytest.mark.parametrize("name", QUEUES)
def test_each_object_is_of_a_kind_and_version_we_read(name: str) -> None:
    known = {(kind.api_version, kind.kind) for kind in vars(kinds).values() if isinstance(kind, Kind)}

    assert {
        (found["apiVersion"], found["kind"]) for found in objects((KIND_CONFIGS / "queues" / name).read_text())
    } <= known


def test_the_queue_of_the_manager_leads_to_the_three_workers() -> None:
    manager = by_kind("manager.yaml")

    queue = manager["ClusterQueue"]
    (check,) = queue["spec"]["admissionChecksStrategy"]["admissionChecks"]
    assert manager["LocalQueue"]["spec"]["clusterQueue"] == queue["metadata"]["name"]
    assert check["name"] == manager["AdmissionCheck"]["metadata"]["name"]
    assert manager["AdmissionCheck"]["spec"]["parameters"]["name"] == manager["MultiKueueConfig"]["metadata"]["name"]
    assert manager["MultiKueueConfig"]["spec"]["clusters"] == CLUSTERS[1:]


def test_a_worker_has_the_same_local_queue_and_a_third_of_the_quota() -> None:
    manager, worker = by_kind("manager.yaml"), by_kind("worker.yaml")

    assert worker["LocalQueue"]["metadata"] == manager["LocalQueue"]["metadata"]
    assert worker["LocalQueue"]["spec"]["clusterQueue"] == worker["ClusterQueue"]["metadata"]["name"]
    assert amounts(manager["ClusterQueue"]) == {"cpu": 12, "memory": "24Gi"}
    assert amounts(worker["ClusterQueue"]) == {"cpu": 4, "memory": "8Gi"}


def test_the_job_carries_nothing_but_the_name_of_the_queue() -> None:
    job, queue = by_kind("job.yaml")["Job"], by_kind("manager.yaml")["LocalQueue"]

    assert job["metadata"]["namespace"] == queue["metadata"]["namespace"]
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": queue["metadata"]["name"]}
    assert {"suspend", "managedBy"}.isdisjoint(job["spec"])


def test_the_quickstart_shows_these_very_objects() -> None:
    shown = [document for block in blocks(read("docs/quickstart.md"), "yaml") for document in objects(block)]
    ours = [
        document for name in ["manager.yaml", "job.yaml"] for document in objects(read(KIND_CONFIGS / "queues" / name))
    ]

    assert shown == ours
