"""The label that says where a job runs comes with the start, and goes with the stop."""

from __future__ import annotations

import msgspec
import pytest

from multikueue.api.jobs.job import Job
from multikueue.api.kueue.workload import CLUSTER_LABEL
from multikueue.jobs.framework.actions import PatchJob
from multikueue.jobs.framework.workloads import remote_metadata
from multikueue.jobs.reconciler import where
from multikueue.jobs.reconciler.decide import JobView, decide
from multikueue.testing import NOW
from tests.jobs.builders import become, ours, workload_of

HELD = ours().build()
ADMITTED = become(workload_of(HELD), lambda w: w.reserved().cluster_name("w1").admitted())
EVICTED = become(ADMITTED, lambda w: w.evicted(message="Preempted"))


def labelled(job: Job, value: str) -> Job:
    meta = job.metadata
    return msgspec.structs.replace(
        job, metadata=msgspec.structs.replace(meta, labels=meta.labels | {CLUSTER_LABEL: value})
    )


def patch_of(view: JobView) -> dict[str, object]:
    (action,) = decide(view, NOW).actions
    assert isinstance(action, PatchJob)
    metadata: dict[str, object] = action.patch["metadata"]
    return metadata


def test_the_start_of_a_job_says_where() -> None:
    assert patch_of(JobView(job=HELD, workloads=(ADMITTED,), is_dispatched=True))["labels"] == {CLUSTER_LABEL: "w1"}


def test_the_stop_of_a_job_takes_it_away() -> None:
    runs = labelled(ours().suspended(False).build(), "w1")

    assert patch_of(JobView(job=runs, workloads=(EVICTED,), is_dispatched=True))["labels"] == {CLUSTER_LABEL: None}


def test_a_job_without_it_is_stopped_as_before() -> None:
    free = ours().suspended(False).build()

    assert "labels" not in patch_of(JobView(job=free, workloads=(EVICTED,), is_dispatched=True))


@pytest.mark.parametrize("cluster", [None, "", "x" * 64], ids=["on no cluster", "no name", "no value of a label"])
def test_what_cannot_be_told_is_not(cluster: str | None) -> None:
    patch = {"spec": {"suspend": False}}

    assert where.with_cluster_label(patch, cluster) == patch


def test_a_copy_does_not_say_where_an_earlier_one_was() -> None:
    job = labelled(HELD, "w0")

    made = remote_metadata(job, workload_name="w", origin="us", attempt="1", queue=None)

    assert CLUSTER_LABEL not in made["labels"]
