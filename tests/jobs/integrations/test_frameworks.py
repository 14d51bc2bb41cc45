from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multikueue.api.kueue.workload import QUEUE_LABEL
from multikueue.api.meta import encode
from multikueue.jobs.integrations.declarations import DECLARATIONS
from multikueue.jobs.integrations.frameworks import BATCH_ONLY, FRAMEWORKS, TEMPLATES, Adapters
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from tests.builders import job, workload
from tests.jobs.all_kinds import body

Tree = dict[str, Any]


def test_a_batch_job_is_known_by_value_and_by_name() -> None:
    assert BATCH_ONLY.of(job("j").build()) is BATCH_JOB
    assert BATCH_ONLY.owner("batch/v1", "Job") is BATCH_JOB
    assert BATCH_ONLY.resource("batch", "jobs") is BATCH_JOB
    assert BATCH_ONLY.named("Job.batch") is BATCH_JOB


def test_others_are_not() -> None:
    assert BATCH_ONLY.owner("batch/v2", "Job") is None
    assert BATCH_ONLY.resource("apps", "jobs") is None
    with pytest.raises(KeyError):
        BATCH_ONLY.of(workload("w").build())  # type: ignore[arg-type]


def test_a_kind_has_one_adapter() -> None:
    with pytest.raises(ValueError, match="one adapter per kind"):
        Adapters((BATCH_JOB, BATCH_JOB))


# --- a queue's name is not taken away from what runs -------------------------------------------------------------------

ALL = {**FRAMEWORKS, **TEMPLATES}
RUNNING: dict[str, Tree] = {
    "batch/job": {"spec": {"suspend": False}},
    "pod": {"spec": {"containers": [], "schedulingGates": []}, "status": {"phase": "Running"}},
    "statefulset": {"spec": {"replicas": 1}, "status": {"replicas": 1, "readyReplicas": 1}},
    "deployment": {"spec": {"replicas": 1}, "status": {"replicas": 1, "readyReplicas": 1}},
    **{each.framework: body(DeclaredJob(each), suspend=False) for each in DECLARATIONS},
}


def test_each_kind_is_in_the_table() -> None:
    assert RUNNING.keys() == ALL.keys()


@pytest.mark.parametrize("labels", [{}, {QUEUE_LABEL: ""}], ids=["its label goes", "it becomes empty"])
@pytest.mark.parametrize("framework", RUNNING)
def test_what_runs_is_not_taken_out_of_its_queue(framework: str, labels: Tree) -> None:
    """kueue#14666: what is taken out would run on, and nobody would count it."""
    adapter, body = ALL[framework], RUNNING[framework]

    def submitted(labels: Tree) -> Any:
        return adapter.submitted(msgspec.Raw(encode(body | {"metadata": {"name": "x", "labels": labels}})))

    old, new = submitted({QUEUE_LABEL: "main"}), submitted(labels)
    assert adapter.refusal(old, old) is None
    assert QUEUE_LABEL in str(adapter.refusal(new, old))
