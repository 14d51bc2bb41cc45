"""What holds for jobs of any kind."""

from __future__ import annotations

import pytest

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kubernetes.printed import WORKLOAD_ANNOTATION
from multikueue.api.kueue.workload import Workload
from multikueue.jobs.framework.adapter import Adapter, OwnJob, is_local
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.kinds.pods.pod import PLAIN_POD
from tests.builders import job, workload
from tests.builders.workloads import JobBuilder
from tests.jobs import places
from tests.jobs.builders import ours
from tests.jobs.kinds.pods.builders import pod

NOBODYS = job("j").queue("main").build()
ADMITTED = workload("w").reserved().admitted().build()
WON = workload("w").reserved().admitted().cluster_name("w1").build()

CASES: dict[str, tuple[Adapter, AnyJob, Workload, bool, bool]] = {
    "a job of nobody's, not dispatched": (BATCH_JOB, NOBODYS, ADMITTED, False, True),
    "one that is dispatched": (BATCH_JOB, NOBODYS, ADMITTED, True, False),
    "one that has a winner": (BATCH_JOB, NOBODYS, WON, False, False),
    "one that is managed by us": (BATCH_JOB, ours().build(), ADMITTED, False, False),
    "a Pod, which nothing but its gate holds": (PLAIN_POD, pod(), ADMITTED, False, True),
    "a Pod that is dispatched": (PLAIN_POD, pod(), ADMITTED, True, False),
}


@pytest.mark.parametrize(("adapter", "seen", "its", "dispatched", "here"), CASES.values(), ids=CASES.keys())
def test_whose_pods_are_to_run_here(
    adapter: Adapter, seen: AnyJob, its: Workload, dispatched: bool, here: bool
) -> None:
    assert is_local(adapter, seen, its, is_dispatched=dispatched) is here


RUNS_HERE = {
    "a job that workers run": (job("job").managed_by().running(), False),
    "one that nobody has started": (job("job").suspended(), False),
    "one that was stopped, while its pods end": (job("job").suspended().running(), True),
    "one that was started, and has no pods yet": (job("job"), True),
}


@pytest.mark.parametrize(("made", "runs"), RUNS_HERE.values(), ids=RUNS_HERE)
def test_what_may_run_on_the_manager_cluster(made: JobBuilder, runs: bool) -> None:
    assert OwnJob(made.build(), BATCH_JOB).may_run is runs


def test_a_job_that_still_says_where_it_ran_is_not_dispatched_yet() -> None:
    stopped = ours().build()
    ran = {"spec": {"template": {"metadata": {"annotations": {WORKLOAD_ANNOTATION: "wl"}}}}}
    assert [OwnJob(each, BATCH_JOB).may_run for each in (stopped, places.applied(stopped, ran))] == [False, True]
