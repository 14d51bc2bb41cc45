"""Labels: those that a Workload gets from its job, and the one that says where a job runs; and why none could take it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multikueue.api.jobs.job import AnyJob, Job
from multikueue.api.kueue.workload import CLUSTER_LABEL, JOB_UID_LABEL
from multikueue.jobs.framework.actions import PatchJob
from multikueue.jobs.framework.workloads import remote_metadata
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.jobs.reconciler.case import JobCase, copied, disagreement, labelled, with_cluster_label
from multikueue.jobs.reconciler.decide import JobView, decide
from multikueue.testing import NOW
from tests.builders import job
from tests.jobs.all_kinds import body, value
from tests.jobs.builders import become, ours, workload_of
from tests.jobs.kinds.pods.builders import FRESH, group, member

HELD = ours().build()
ADMITTED = become(workload_of(HELD), lambda w: w.reserved().cluster_name("w1").admitted())
EVICTED = become(ADMITTED, lambda w: w.evicted(message="Preempted"))


def at_cluster(job: Job, value: str) -> Job:
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
    runs = at_cluster(ours().suspended(False).build(), "w1")

    assert patch_of(JobView(job=runs, workloads=(EVICTED,), is_dispatched=True))["labels"] == {CLUSTER_LABEL: None}


def test_a_job_without_it_is_stopped_as_before() -> None:
    free = ours().suspended(False).build()

    assert "labels" not in patch_of(JobView(job=free, workloads=(EVICTED,), is_dispatched=True))


@pytest.mark.parametrize("cluster", [None, "", "x" * 64], ids=["on no cluster", "no name", "no value of a label"])
def test_what_cannot_be_told_is_not(cluster: str | None) -> None:
    patch = {"spec": {"suspend": False}}

    assert with_cluster_label(patch, cluster) == patch


def test_a_copy_does_not_say_where_an_earlier_one_was() -> None:
    job = at_cluster(HELD, "w0")

    made = remote_metadata(job, workload_name="w", origin="us", attempt="1", queue=None)

    assert CLUSTER_LABEL not in made["labels"]


KEYS = ("team", "example.com/cost")
LABELLED = ours().labels(team="a", other="b").build()
FAILED = FRESH | {"phase": "Failed"}
CASES: dict[str, tuple[AnyJob, dict[str, str], str]] = {
    "a job without them": (ours().build(), {}, ""),
    "a job with one of them": (LABELLED, {"team": "a"}, ""),
    "a job with an empty one": (ours().labels(team="").build(), {"team": ""}, ""),
    "a group that agrees": (group(*(member(n, labels={"team": "a"}) for n in "ab")), {"team": "a"}, ""),
    "a group of which one says it": (group(member("a"), member("b", labels={"team": "b"})), {"team": "b"}, ""),
    "a group that differs in what nobody asks for": (
        group(*(member(n, labels={"team": "a", "other": n}) for n in "ab")),
        {"team": "a"},
        "",
    ),
    "a group that differs": (
        group(*(member(n, labels={"team": n}) for n in "ab")),
        {"team": "a"},
        "the pods of group 'g' have different values of team",
    ),
    "a group that differs from one that has failed": (
        group(member("a", labels={"team": "a"}), member("b", labels={"team": "b"}, status=FAILED)),
        {"team": "a"},
        "the pods of group 'g' have different values of team",
    ),
}


@pytest.mark.parametrize(("seen", "labels", "problem"), CASES.values(), ids=CASES)
def test_what_is_copied_and_what_is_in_the_way(seen: AnyJob, labels: dict[str, str], problem: str) -> None:
    assert (copied(seen, KEYS), disagreement(seen, KEYS)) == (labels, problem)


def test_the_labels_that_a_workload_has_anyhow_are_its_own() -> None:
    body: dict[str, Any] = {"metadata": {"name": "w", "labels": {JOB_UID_LABEL: "uid"}}, "spec": {}}
    seen = ours().labels({"team": "a", JOB_UID_LABEL: "another"}).build()

    made = labelled(body, seen, ("team", JOB_UID_LABEL))

    assert made["metadata"] == {"name": "w", "labels": {"team": "a", JOB_UID_LABEL: "uid"}}


@pytest.mark.parametrize("keys", [(), KEYS], ids=["no key is asked for", "the job has none of them"])
def test_a_workload_without_labels_gets_no_empty_field(keys: tuple[str, ...]) -> None:
    body: dict[str, Any] = {"metadata": {"name": "w"}}
    assert labelled(body, job("j").build(), keys) == body


@pytest.mark.parametrize(
    ("framework", "managed", "hints"),
    [
        ("jobset.x-k8s.io/jobset", True, ("Recreate it without `managedBy",)),
        (
            "trainer.kubeflow.org/trainjob",
            False,
            ("no TrainJob can run on either", "Trainer removes", "Recreate it in"),
        ),
    ],
    ids=["it is for workers alone", "its kind runs in one place"],
)
def test_what_cannot_run_on_the_manager_cluster_or_on_workers_is_told_why(
    framework: str, managed: bool, hints: tuple[str, ...]
) -> None:
    adapter = FRAMEWORKS[framework]
    assert isinstance(adapter, DeclaredJob)
    made = value(adapter, body(adapter, managed=managed))
    view = JobView(job=made, may_run_here=True, is_queue_multikueue=False, is_dispatched=False)
    case = JobCase(view, adapter)
    assert all(hint in str(case.undispatchable()) for hint in hints)
