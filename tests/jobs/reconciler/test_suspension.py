"""A batch Job that waits says so in its status, once, and not while pods of it run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.api.jobs.job import Job
from multikueue.api.kueue.workload import Workload
from multikueue.jobs.framework.actions import JobDecision, PatchJobStatus
from multikueue.jobs.reconciler.decide import JobView, decide
from tests.builders import NOW, job
from tests.jobs.builders import leaving, tree, with_spec, with_status
from tests.jobs.reconciler.decisions import EVICTED, HELD, PENDING

AFTER = timedelta(seconds=10)
LATER = NOW + timedelta(seconds=11)


def waiting(job_: Job = HELD, workload: Workload = PENDING, **fields: Any) -> JobView:
    return JobView(job=job_, workloads=(workload,), tell_suspended_after=AFTER, **fields)


def test_a_job_that_waits_for_long_says_that_it_is_suspended() -> None:
    (action,) = decide(waiting(), LATER).actions
    assert isinstance(action, PatchJobStatus)
    told = with_status(HELD, action.patch["status"])
    (condition,) = tree(told.status)["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Suspended", "True", "JobSuspended")
    assert decide(waiting(told), LATER) == JobDecision(), "and it says so once"


def test_a_job_that_has_not_waited_for_long_is_looked_at_again() -> None:
    assert decide(waiting(), NOW + timedelta(seconds=4)) == JobDecision(again_after=timedelta(seconds=6))


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(replace(waiting(), tell_suspended_after=None), id="where nobody wants it"),
        pytest.param(waiting(with_spec(HELD, managedBy=None), is_queue_multikueue=False), id="its own controller does"),
        pytest.param(waiting(workload=EVICTED, remote=job("j").running().build()), id="its pods run"),
        pytest.param(waiting(leaving(HELD)), id="it goes"),
    ],
)
def test_a_job_does_not_say_that_it_is_suspended(view: JobView) -> None:
    written = [action for action in decide(view, LATER).actions if isinstance(action, PatchJobStatus)]
    assert not any("Suspended" in str(action.patch) for action in written)
