from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from multikueue.api.jobs.job import AnyJob
from multikueue.jobs.framework.actions import CreateWorkload
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.reconciler.decide import JobView, decide
from multikueue.testing import NOW
from tests.jobs.all_kinds import RUNTIME
from tests.jobs.builders import stored, with_status
from tests.jobs.kinds.train_job.builders import ADAPTER, BARE, pod_sets, train_job

Tree = dict[str, Any]

GONE: Any = None


def counts(job: AnyJob) -> dict[str, int]:
    return {each["name"]: each["count"] for each in pod_sets(job)}


MPI = {"numNodes": 4, "mpi": {"runLauncherAsNode": False}}
MPI_LAUNCHER = {"numNodes": 4, "mpi": {"runLauncherAsNode": True}}


@pytest.mark.parametrize(
    ("policy", "nodes", "expected"),
    [
        pytest.param({"numNodes": 3, "torch": {}}, 2, 2, id="the job's own number"),
        pytest.param({"numNodes": 3, "torch": {}}, GONE, 3, id="the runtime's"),
        pytest.param({"torch": {}}, GONE, 1, id="nobody's"),
        pytest.param({"numNodes": 3}, 5, 5, id="without a framework"),
        pytest.param(GONE, 5, 5, id="without a policy"),
        pytest.param(GONE, GONE, 1, id="without anything"),
        pytest.param(MPI, 5, 5, id="with MPI"),
        pytest.param(MPI_LAUNCHER, 5, 4, id="with MPI, where the launcher is a node too"),
        pytest.param(MPI_LAUNCHER, 1, 1, id="at least one"),
        pytest.param(MPI_LAUNCHER, GONE, 4, id="with MPI, the runtime's"),
    ],
)
def test_how_many_nodes_there_are(policy: Tree | None, nodes: int | None, expected: int) -> None:
    assert counts(train_job({"trainer.numNodes": nodes}, {"mlPolicy": policy}))["node"] == expected


def test_only_the_jobs_without_a_step_are_replicated() -> None:
    jobs = copy.deepcopy(RUNTIME["template"]["spec"]["replicatedJobs"])
    for each in jobs:
        each["replicas"] = 2
        each["template"]["spec"]["parallelism"] = 3
    found = counts(train_job(runtime={"template.spec.replicatedJobs": jobs}))
    assert found == {"dataset-initializer": 3, "node": 2, "log": 6}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param(
            [{"name": "dataset-initializer", "succeeded": 1}], {"dataset-initializer": 3}, id="an initializer"
        ),
        pytest.param([{"name": "node", "succeeded": 1}], {"node": 2}, id="as many pods as the job has nodes"),
        pytest.param([{"name": "log", "succeeded": 1}, {"name": "node", "active": 1}], {"log": 3}, id="one of two"),
        pytest.param([{"name": "log", "succeeded": 3}], {}, id="more than there are is no news"),
        pytest.param([], {}, id="nothing is over"),
    ],
)
def test_what_is_over_of_its_runtime_gives_its_quota_back(told: list[Tree], expected: dict[str, int]) -> None:
    jobs = copy.deepcopy(RUNTIME["template"]["spec"]["replicatedJobs"])
    for each in jobs:
        each["replicas"] = 2
        each["template"]["spec"]["parallelism"] = 3
    job = with_status(train_job(runtime={"template.spec.replicatedJobs": jobs}), {"jobsStatus": told})
    assert {pods.name: pods.count for pods in ADAPTER.reclaimable(job)} == expected
    unknown = msgspec.structs.replace(job, runtime=msgspec.Raw(b"null"))
    assert ADAPTER.reclaimable(unknown) == ()


# While the runtime is not there.


def test_no_workload_is_made_before_its_pods_are_known() -> None:
    decision = decide(JobView(job=BARE), NOW, ADAPTER)
    (event,) = decision.events
    assert (decision.actions, event.reason) == ((), "PodsUnknown")
    (made,) = decide(JobView(job=train_job()), NOW, ADAPTER).actions
    assert isinstance(made, CreateWorkload)


def test_what_was_made_before_goes_on() -> None:
    seen = stored(ADAPTER.workload_body(train_job(), priority=Priority()))
    assert ADAPTER.is_equivalent(BARE, seen)
    decision = decide(JobView(job=BARE, workloads=(seen,)), NOW, ADAPTER)
    assert (decision.actions, decision.events) == ((), ())
    assert not ADAPTER.is_equivalent(train_job({"trainer.numNodes": 7}), seen)
