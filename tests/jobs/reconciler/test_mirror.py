"""Beside Kueue, which queues, starts and stops: only the status comes home."""

from __future__ import annotations

import pytest

from multikueue.api.jobs.job import Job
from multikueue.jobs.framework.actions import (
    PatchJobStatus,
)
from multikueue.jobs.reconciler.decide import JobView, mirror
from tests.builders import NOW, job
from tests.jobs.builders import Tree, ours, plain, with_status
from tests.jobs.reconciler.decisions import ADMITTED, EVICTED, FREE, HELD, REMOTE_COMPLETE, REMOTE_RUNNING

# --- beside Kueue, which queues, starts and stops ----------------------------------------------------------------------


def mirrored(view: JobView) -> Tree | None:
    """The status fields written, None if nothing is."""
    decided = mirror(view, NOW)
    assert decided.events == ()
    if not decided.actions:
        return None
    (action,) = decided.actions
    assert isinstance(action, PatchJobStatus)
    written: Tree = plain(action.patch["status"])
    return written


STOPPING = ours().running(active=1).build()
"""Suspended by Kueue, with a pod still counted."""


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(JobView(job=HELD), id="a job without a Workload: Kueue makes it"),
        pytest.param(JobView(job=FREE), id="an unsuspended job: Kueue holds it"),
        pytest.param(JobView(job=HELD, workloads=(ADMITTED,)), id="an admitted job: Kueue starts it"),
        pytest.param(JobView(job=FREE, workloads=(EVICTED,)), id="an evicted job: Kueue stops it"),
        pytest.param(JobView(job=job("j").build(), remote=REMOTE_COMPLETE), id="a job that is not ours"),
        pytest.param(JobView(job=ours().deleted().build(), remote=REMOTE_COMPLETE), id="a job being deleted"),
        pytest.param(JobView(job=ours().running().complete().build(), remote=REMOTE_RUNNING), id="a finished job"),
        pytest.param(JobView(job=HELD, remote=REMOTE_RUNNING), id="a held job: a start would freeze its template"),
    ],
)
def test_beside_kueue_nothing_is_done_but_the_status(view: JobView) -> None:
    assert mirrored(view) is None


def test_beside_kueue_the_status_comes_home() -> None:
    written = mirrored(JobView(job=FREE, workloads=(ADMITTED,), remote=REMOTE_RUNNING))
    assert written is not None
    assert written["active"] == 1
    assert written["startTime"]


@pytest.mark.parametrize("local", [pytest.param(HELD, id="held"), pytest.param(FREE, id="free")])
def test_beside_kueue_the_end_comes_home(local: Job) -> None:
    written = mirrored(JobView(job=local, remote=REMOTE_COMPLETE))
    assert written is not None
    assert "Complete" in [c["type"] for c in written["conditions"]]


def test_beside_kueue_a_job_that_was_stopped_tells_when_its_pods_are_gone() -> None:
    assert mirrored(JobView(job=STOPPING, remote=REMOTE_RUNNING)) is None
    written = mirrored(JobView(job=STOPPING, remote=job("j").build()))
    assert written is not None
    assert written["active"] is None


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(JobView(job=STOPPING), id="whose copy is gone"),
        pytest.param(JobView(job=STOPPING, remote=REMOTE_RUNNING, is_remote_lost=True), id="whose worker is lost"),
    ],
)
def test_beside_kueue_a_stopped_job_has_no_pods_any_more(view: JobView) -> None:
    written = mirrored(view)
    assert written is not None
    assert written["active"] is None


def test_beside_kueue_mirroring_twice_writes_once() -> None:
    written = mirrored(JobView(job=FREE, remote=REMOTE_RUNNING))
    assert written is not None
    assert mirrored(JobView(job=with_status(FREE, written), remote=REMOTE_RUNNING)) is None
