"""What a world is furnished with is taken by an API server, and means what it says."""

from __future__ import annotations

from base64 import b64decode

import msgspec
import pytest

from multikueue.api.jobs.job import Job
from multikueue.api.meta import decoder, encode
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.kube.auth.kubeconfig import parse
from multikueue_simulator.workers.jobs.jobs import FAIL_ANNOTATION, RUN_SECONDS_ANNOTATION
from multikueue_simulator.world import objects


@pytest.mark.parametrize("managed", [True, False], ids=["managed", "not managed"])
def test_a_job_is_dispatched_if_it_is_managed(managed: bool) -> None:
    body = objects.job("j", "team", queue="main", managed=managed)
    job = decoder(Job)(encode(body | {"metadata": body["metadata"] | {"uid": "u"}}))
    assert (BATCH_JOB.unmanaged_reason(job) is None) is managed
    assert BATCH_JOB.queue_name(job) == "main"


def test_a_job_says_how_long_its_pods_run_and_how_many_fail() -> None:
    body = objects.job("j", "team", queue=None, seconds=2.5, failures="true")
    assert body["metadata"]["annotations"] == {RUN_SECONDS_ANNOTATION: "2.5", FAIL_ANNOTATION: "true"}
    assert body["metadata"]["labels"] == {}
    assert FAIL_ANNOTATION not in objects.job("j", "team", queue=None)["metadata"]["annotations"]


def test_a_secret_has_a_kubeconfig_that_can_be_used() -> None:
    body = objects.kubeconfig_secret("w1", "kueue-system", server="https://w1", token="t")
    assert body["metadata"]["name"] == objects.secret_name("w1")
    assert (
        objects.multikueue_cluster("w1")["spec"]["clusterSource"]["kubeConfig"]["location"] == body["metadata"]["name"]
    )
    config = b64decode(body["data"]["kubeconfig"])
    assert msgspec.json.decode(config)["current-context"] == "w1"
    assert parse(config).current_context == "w1"


def test_a_queue_without_checks_names_none() -> None:
    assert "admissionChecksStrategy" not in objects.cluster_queue("q", cpu=4)["spec"]
    checks = objects.cluster_queue("q", cpu=4, checks=("multikueue",))["spec"]["admissionChecksStrategy"]
    assert checks == {"admissionChecks": [{"name": "multikueue"}]}


def test_decisions_of_a_placement() -> None:
    status = objects.decisions(("w1", "w2"))["status"]
    assert [each["clusterName"] for each in status["decisions"]] == ["w1", "w2"]
