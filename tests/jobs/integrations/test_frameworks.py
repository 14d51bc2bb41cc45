from __future__ import annotations

import pytest

from multikueue.jobs.integrations.frameworks import BATCH_ONLY, Adapters
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.testing import job, workload


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


def test_a_kind_that_cannot_be_in_use_yet_is_known_by_its_group_and_name_in_any_version() -> None:
    adapters = Adapters((), unclear={"Gadget.example.com"})
    assert adapters.is_unclear("example.com/v2", "Gadget")
    assert not adapters.is_unclear("example.org/v1", "Gadget")
    assert adapters.owner("example.com/v1", "Gadget") is None
