from __future__ import annotations

import pytest

from multikueue.jobs.batch_job import BATCH_JOB
from multikueue.jobs.table import adapter_for, adapter_of
from multikueue.testing import job, workload


def test_a_batch_job_is_known_by_value_and_by_name() -> None:
    assert adapter_for(job("j").build()) is BATCH_JOB
    assert adapter_of("batch/v1", "Job") is BATCH_JOB


def test_others_are_not() -> None:
    assert adapter_of("batch/v2", "Job") is None
    with pytest.raises(KeyError):
        adapter_for(workload("w").build())
