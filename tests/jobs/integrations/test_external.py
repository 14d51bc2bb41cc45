"""Kinds whose Workloads somebody else makes."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.meta import decoder, encode
from multikueue.jobs.integrations.external import external, plural
from multikueue.jobs.reconciler.decide import JobView, decide
from multikueue.testing import NOW
from tests.jobs.builders import plain, with_status

PIPELINE = external("PipelineRun.v1.tekton.dev")
SPEC = {"managedBy": "kueue.x-k8s.io/multikueue", "suspend": False, "tasks": [{"name": "a"}]}


def job(spec: dict[str, Any] | None = None) -> Any:
    metadata = {"name": "run", "namespace": "team", "uid": "u", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    made = {"metadata": metadata, "spec": SPEC if spec is None else spec}
    return decoder(PIPELINE.kind.type)(encode(made))


def test_the_kind_is_the_one_of_its_name() -> None:
    assert (PIPELINE.kind.api_version, PIPELINE.kind.plural) == ("tekton.dev/v1", "pipelineruns")


@pytest.mark.parametrize(
    ("kind", "expected"), [("Job", "jobs"), ("Policy", "policies"), ("Relay", "relays"), ("Batch", "batches")]
)
def test_the_plural_is_guessed_as_others_guess_it(kind: str, expected: str) -> None:
    assert plural(kind) == expected


def test_the_copy_is_the_object_without_its_managed_by() -> None:
    copy = plain(PIPELINE.remote_body(job(), workload_name="wl", origin="mk", attempt="now", queue="main"))
    assert copy["spec"] == {"suspend": False, "tasks": [{"name": "a"}]}
    assert copy["metadata"]["labels"]["kueue.x-k8s.io/prebuilt-workload-name"] == "wl"
    assert "ownerReferences" not in copy["metadata"]


def test_nothing_is_done_to_the_job_but_to_tell_it_its_status() -> None:
    remote = with_status(job(), {"phase": "Running"})
    assert decide(JobView(job=job()), NOW, PIPELINE).actions == ()
    (told,) = decide(JobView(job=job(), remote=remote), NOW, PIPELINE).actions
    assert plain(told.patch)["status"] == {"phase": "Running"}  # type: ignore[union-attr]
    assert decide(JobView(job=remote, remote=remote), NOW, PIPELINE).actions == ()


@pytest.mark.parametrize("manager", [None, "tekton.dev/own"])
def test_a_job_that_others_manage_is_left_alone(manager: str | None) -> None:
    foreign = job({"managedBy": manager} if manager else {})
    assert PIPELINE.unmanaged_reason(foreign) is not None
    assert decide(JobView(job=foreign, remote=with_status(job(), {"x": 1})), NOW, PIPELINE).actions == ()
