"""A job is started, stopped, and its status brought home."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.api.jobs.job import Job
from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import (
    Workload,
)
from multikueue.jobs.framework.actions import (
    JobDecision,
    PatchJob,
    PatchJobStatus,
)
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.reconciler.decide import JobView, decide, mirror
from tests.builders import NOW, job
from tests.jobs import places
from tests.jobs.builders import Tree, become, ours, plain, tree, with_spec, with_status, workload_of
from tests.jobs.reconciler.decisions import (
    ADMITTED,
    EVICTED,
    FREE,
    HELD,
    PENDING,
    RELEASED,
    REMOTE_COMPLETE,
    REMOTE_RUNNING,
    RESERVED,
    START,
    START_ON_W1,
    STOP,
    STOPPED,
    SUCCEEDED,
    actions,
    rest,
)

FAILED = become(ADMITTED, lambda w: w.finished("Failed", message="Job has reached the specified backoff limit"))


def status_written(view: JobView) -> Tree:
    """The status fields of the one action there must be."""
    (action,) = actions(view)
    assert isinstance(action, PatchJobStatus)
    written: Tree = plain(action.patch["status"])
    return written


# --- running ---------------------------------------------------------------------------------------------------------


def test_admitted_and_suspended_starts() -> None:
    assert actions(JobView(job=HELD, workloads=(ADMITTED,))) == (START_ON_W1,)


@pytest.mark.parametrize("has_check", [True, False], ids=["in its Workload too", "in its queue alone by now"])
def test_a_job_that_was_admitted_before_its_queue_had_a_check_starts_once_a_worker_has_it(*, has_check: bool) -> None:
    admitted = become(PENDING, lambda w: w.reserved().admitted())
    assert actions(JobView(job=HELD, workloads=(admitted,), is_dispatched=has_check)) == ()
    won = become(admitted, lambda w: w.cluster_name("w1"))
    assert actions(JobView(job=HELD, workloads=(won,), is_dispatched=has_check)) == (START_ON_W1,)


@pytest.mark.parametrize(
    ("workload", "why"),
    [
        pytest.param(PENDING, "Not admitted by cluster queue", id="without quota"),
        pytest.param(RESERVED, "Not admitted by cluster queue", id="not admitted yet"),
        pytest.param(EVICTED, "Preempted to accommodate a workload", id="evicted"),
        pytest.param(become(ADMITTED, lambda w: w.deleted()), "Workload is deleted", id="its Workload is deleted"),
    ],
)
def test_running_without_leave_is_stopped(workload: Workload, why: str) -> None:
    decision = decide(JobView(job=FREE, workloads=(workload,), remote=REMOTE_RUNNING), NOW)
    assert decision.actions == (STOP,)
    assert decision.events == (Event("Normal", "Stopped", why),)


def test_the_status_of_the_winner_is_mirrored() -> None:
    view = JobView(job=FREE, workloads=(ADMITTED,), remote=REMOTE_RUNNING)
    assert status_written(view) == {"active": 1, "startTime": "2026-01-01T12:00:00Z", "conditions": []}


@pytest.mark.parametrize(
    ("way", "local", "workload"),
    [
        pytest.param(decide, FREE, ADMITTED, id="while it runs"),
        pytest.param(decide, STOPPED, EVICTED, id="while it ends on its worker"),
        pytest.param(mirror, FREE, ADMITTED, id="while it runs, beside Kueue"),
        pytest.param(mirror, STOPPED, EVICTED, id="while it ends on its worker, beside Kueue"),
    ],
)
def test_after_a_status_that_is_all_there_is_nothing_to_do(
    way: Callable[[JobView, datetime], JobDecision], local: Job, workload: Workload
) -> None:
    view = JobView(job=local, workloads=(workload,), remote=job("j").running(active=1).build())
    (action,) = way(view, NOW).actions
    assert isinstance(action, PatchJobStatus)
    assert action.is_all
    patched = with_status(local, plain(action.patch["status"]))
    assert way(replace(view, job=patched), NOW).actions == ()


@pytest.mark.parametrize(
    ("remote", "is_all"),
    [
        pytest.param(None, False, id="not seen yet"),
        pytest.param(job("j").build(), True, id="that waits"),
        pytest.param(REMOTE_RUNNING, False, id="that runs already"),
    ],
)
def test_a_start_is_all_if_the_remote_job_has_nothing_to_tell(remote: Job | None, is_all: bool) -> None:
    view = JobView(job=HELD, workloads=(ADMITTED,), remote=remote)
    (action,) = decide(view, NOW).actions
    assert isinstance(action, PatchJob)
    assert action.is_all is is_all
    assert (actions(replace(view, job=FREE)) == ()) is (is_all or remote is None)


@pytest.mark.parametrize("way", [decide, mirror], ids=["by ourselves", "beside Kueue"])
def test_a_status_that_ends_the_job_is_not_all(way: Callable[[JobView, datetime], JobDecision]) -> None:
    (action,) = way(JobView(job=FREE, workloads=(ADMITTED,), remote=REMOTE_COMPLETE), NOW).actions
    assert isinstance(action, PatchJobStatus)
    assert not action.is_all


def test_a_lost_worker_says_nothing_new() -> None:
    assert actions(JobView(job=FREE, workloads=(ADMITTED,), remote=REMOTE_RUNNING, is_remote_lost=True)) == ()


@pytest.mark.parametrize(
    ("local", "workload"),
    [
        pytest.param(FREE, ADMITTED, id="as usual"),
        pytest.param(HELD, ADMITTED, id="before the local job was started"),
        pytest.param(HELD, RESERVED, id="before the win was recorded"),
        pytest.param(FREE, EVICTED, id="evicted at the last moment"),
        pytest.param(HELD, RELEASED, id="the quota is released already"),
        pytest.param(FREE, become(ADMITTED, lambda w: w.finished()), id="the Workload was finished first"),
    ],
)
def test_the_result_goes_first(local: Job, workload: Workload) -> None:
    written = status_written(JobView(job=local, workloads=(workload,), remote=REMOTE_COMPLETE))
    assert [c["type"] for c in written["conditions"]] == ["SuccessCriteriaMet", "Complete"]


@pytest.mark.parametrize(
    ("local", "workload", "types"),
    [
        pytest.param(
            FREE, SUCCEEDED, ["SuccessCriteriaMet", "Complete"], id="a success, before the job was seen to run"
        ),
        pytest.param(HELD, SUCCEEDED, ["SuccessCriteriaMet", "Complete"], id="a success, before the job was started"),
        pytest.param(
            ours().running(active=1).build(), FAILED, ["FailureTarget", "Failed"], id="a failure while it ran"
        ),
    ],
)
@pytest.mark.parametrize("way", [decide, mirror], ids=["by ourselves", "beside Kueue"])
def test_a_job_whose_copy_vanished_ends_as_its_workload_says(
    way: Callable[[JobView, datetime], JobDecision], local: Job, workload: Workload, types: list[str]
) -> None:
    (action,) = way(JobView(job=local, workloads=(workload,)), NOW).actions
    assert isinstance(action, PatchJobStatus)
    written = plain(action.patch["status"])
    end = workload.condition("Finished")
    assert end is not None
    assert [(c["type"], c["message"]) for c in written["conditions"]] == [(type_, end.message) for type_ in types]
    assert not written.get("active")
    ended = with_status(local, written)
    assert BATCH_JOB.finished(ended) is not None
    assert way(JobView(job=ended, workloads=(workload,)), NOW).actions == ()


def test_after_an_eviction_the_status_follows_the_remote_down() -> None:
    fewer = job("j").running(active=1).build()
    assert status_written(JobView(job=STOPPED, workloads=(EVICTED,), remote=fewer))["active"] == 1


@pytest.mark.parametrize(
    ("remote", "lost"),
    [
        pytest.param(None, False, id="the remote is gone"),
        pytest.param(job("j").condition("Suspended").build(), False, id="the remote is suspended"),
        pytest.param(REMOTE_RUNNING, True, id="the worker is lost"),
    ],
)
@pytest.mark.parametrize("workload", [EVICTED, RELEASED, PENDING], ids=["evicted", "released", "pending"])
def test_with_nothing_running_the_status_is_reset(remote: Job | None, lost: bool, workload: Workload) -> None:
    view = JobView(job=STOPPED, workloads=(workload,), remote=remote, is_remote_lost=lost)
    assert status_written(view) == {"active": None, "startTime": None}


def test_a_job_that_runs_here_is_never_written_to() -> None:
    local = job("j").queue("main").suspended().running().build()
    view = JobView(job=local, workloads=(EVICTED,), remote=REMOTE_RUNNING, is_queue_multikueue=False)
    assert actions(view) == ()


def test_a_job_that_runs_here_is_started_and_stopped() -> None:
    held = job("j").queue("main").suspended().build()
    free = job("j").queue("main").build()
    seen = workload_of(held)
    admitted = become(seen, lambda w: w.admitted())
    assert actions(JobView(job=held, workloads=(admitted,), is_queue_multikueue=False)) == (START,)
    assert actions(JobView(job=free, workloads=(seen,), is_queue_multikueue=False)) == (STOP,)


LOCAL = job("j").queue("main").suspended().build()
BLUE = places.admitted(workload_of(LOCAL))


def here(seen: Job, *workloads: Workload, **more: Any) -> JobView:
    """A job of a queue that is not dispatched."""
    found = {"flavors": places.FLAVORS} | more
    return JobView(job=seen, workloads=workloads, is_queue_multikueue=False, is_dispatched=False, **found)


def test_a_job_that_runs_here_goes_where_its_flavor_is() -> None:
    (action,) = actions(here(LOCAL, BLUE))
    assert isinstance(action, PatchJob)
    assert action.patch["metadata"] == START.patch["metadata"]
    assert action.patch["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "blue"}


@pytest.mark.parametrize(
    "view",
    [
        pytest.param({"is_dispatched": True}, id="its Workload has our check"),
        pytest.param({"workloads": (become(BLUE, lambda w: w.cluster_name("w1")),)}, id="it has a winner"),
    ],
)
def test_one_that_does_not_run_here_is_told_nothing(view: dict[str, Any]) -> None:
    (action,) = actions(replace(here(LOCAL, BLUE), **view))

    assert isinstance(action, PatchJob)
    assert action.patch["spec"] == START.patch["spec"]


def test_one_that_is_managed_by_us_is_started_nowhere_while_its_queue_is_gone() -> None:
    """It had quota and a check before. Started here it could not be copied once both are back, and would wait for ever."""
    view = replace(here(LOCAL, BLUE), job=HELD)
    assert actions(view) == ()
    won = become(BLUE, lambda w: w.cluster_name("w1"))
    (action,) = actions(replace(view, workloads=(won,)))
    assert isinstance(action, PatchJob)
    assert action.patch["spec"] == START.patch["spec"]


def test_it_waits_for_a_flavor_that_is_missing() -> None:
    decision = decide(here(LOCAL, BLUE, flavors={}), NOW)
    assert (decision.actions, decision.again_after) == ((), timedelta(seconds=5))


def test_it_is_not_started_against_the_demands_of_a_check() -> None:
    contradicting = places.told(BLUE, {"name": "main", "nodeSelector": {"pool": "red"}})
    assert decide(here(LOCAL, contradicting), NOW) == JobDecision()


@pytest.mark.parametrize(
    "workloads",
    [
        pytest.param((become(BLUE, lambda w: w.evicted()),), id="evicted"),
        pytest.param((become(BLUE, lambda w: w.deleted()),), id="its Workload is deleted"),
        pytest.param((workload_of(with_spec(LOCAL, parallelism=2)),), id="changed"),
        pytest.param((), id="its Workload is gone"),
    ],
)
def test_a_job_that_is_stopped_does_not_say_any_more_where_it_ran(workloads: tuple[Workload, ...]) -> None:
    (start,) = actions(here(LOCAL, BLUE))
    assert isinstance(start, PatchJob)
    runs = with_status(places.applied(LOCAL, start.patch), {"startTime": "2026-01-01T12:00:00Z"})
    at_rest = rest(here(runs, *workloads)).view
    found = tree(at_rest.job.spec)["template"]
    assert "annotations" not in found.get("metadata", {})
    assert bool(found["spec"].get("nodeSelector")) is (not workloads)
    (left,) = (tree(w.spec)["podSets"][0]["template"] for w in at_rest.workloads)
    assert "annotations" not in left.get("metadata", {})
