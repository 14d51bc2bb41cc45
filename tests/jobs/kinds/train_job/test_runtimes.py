from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.jobs.integrations.declarations import TRAIN_JOB
from tests.jobs.kinds.train_job.builders import BARE, pod_sets, train_job

Tree = dict[str, Any]


@pytest.mark.parametrize(
    ("ref", "key"),
    [
        ({"name": "r"}, JobKey("ClusterTrainingRuntime.trainer.kubeflow.org", "", "r")),
        ({"name": "r", "kind": "TrainingRuntime"}, JobKey("TrainingRuntime.trainer.kubeflow.org", "default", "r")),
    ],
    ids=["one of the cluster", "one of its namespace"],
)
def test_the_runtime_a_job_names(ref: Tree, key: JobKey) -> None:
    assert TRAIN_JOB.runtimes is not None
    assert TRAIN_JOB.runtimes.key(train_job({"runtimeRef": ref})) == key


def problem(job: AnyJob) -> str:
    assert TRAIN_JOB.runtimes is not None
    return TRAIN_JOB.runtimes.problem(job) or ""


def test_without_its_runtime_a_job_has_no_pods_and_says_why() -> None:
    assert problem(BARE) == 'ClusterTrainingRuntime "torch" not found: create it, here and on the workers'
    assert pod_sets(BARE) == []
    assert problem(train_job()) == ""


def test_what_only_trainer_knows_is_said() -> None:
    assert "torchtune" in problem(train_job({"trainer.command": ["tune", "run"]}))
    assert problem(train_job({"trainer.command": ["tune", "run"]}, {"mlPolicy": {}})) == ""
    assert "Flux" in problem(train_job(runtime={"mlPolicy": {"numNodes": 2, "flux": {}}}))
