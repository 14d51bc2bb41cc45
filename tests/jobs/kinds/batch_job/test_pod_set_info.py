"""A batch Job that runs on its own cluster: where its pods go, and its own template again (QE-356, QE-357)."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.jobs.job import Job
from multikueue.api.kueue.workload import Workload
from multikueue.jobs.framework.actions import PatchJob, PatchJobStatus
from multikueue.jobs.framework.pod_set_info import BadPodSetInfo, placement
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.kinds.batch_job.template import BATCH_POD_SET_INFO
from tests.builders import JobBuilder, WorkloadBuilder, job
from tests.jobs.builders import become, tree, with_spec, with_status, workload_of
from tests.jobs.places import FLAVORS, TOLERATION, admitted, applied

Tree = dict[str, Any]

GENERATED = {"job-name": "j", "controller-uid": "u", "batch.kubernetes.io/controller-uid": "u"}
STARTED: Tree = {"active": 1, "startTime": "2026-01-01T00:00:00Z"}
WITHOUT_PODS: Tree = {"status": {"active": 0}}


def held(builder: JobBuilder | None = None, **spec: Any) -> Job:
    """As the API server shows it: a template always has metadata."""
    seen = (builder or job("j")).queue("main").request(cpu=1).suspended().build()
    pods = tree(seen.spec)["template"]["spec"] | spec
    return with_spec(seen, template={"metadata": {"labels": GENERATED}, "spec": pods})


def partial(**more: str) -> Job:
    """A job of four pods for which two will do."""
    marks = {"kueue.x-k8s.io/job-min-parallelism": "2"} | more
    return held(job("j").parallelism(4).completions(4).annotations(marks))


def start(seen: Job, workload: Workload) -> Tree:
    patch = BATCH_JOB.start_patch(seen)
    assert patch is not None
    return BATCH_POD_SET_INFO.start_patch(seen, patch, placement(workload, FLAVORS).places)


def started(seen: Job, workload: Workload) -> Job:
    """The job as it runs."""
    found: Job = with_status(applied(seen, start(seen, workload)), STARTED)
    return found


def suspended(seen: Job) -> Job:
    found: Job = applied(seen, BATCH_JOB.stop_patch(seen) or {})
    return found


def stopped(seen: Job, workload: Workload | None) -> Job:
    """The job after it was suspended and its pods went, and each step that follows."""
    seen = applied(suspended(seen), WITHOUT_PODS)
    while (step := BATCH_POD_SET_INFO.restoration(seen, workload)) is not None:
        seen = applied(seen, step.patch)
    return seen


def test_it_starts_where_its_flavor_is_and_only_as_it_was_seen() -> None:
    seen = held()
    workload = admitted(workload_of(seen))
    assert start(seen, workload) == {
        "metadata": {"uid": seen.metadata.uid, "resourceVersion": seen.metadata.resource_version},
        "spec": {
            "suspend": False,
            "template": {
                "metadata": {
                    "labels": {
                        "kueue.x-k8s.io/podset": "main",
                        "kueue.x-k8s.io/local-queue-name": "main",
                        "kueue.x-k8s.io/cluster-queue-name": "cq",
                    },
                    "annotations": {"kueue.x-k8s.io/workload": workload.metadata.name},
                },
                "spec": {"nodeSelector": {"pool": "blue"}, "tolerations": [TOLERATION]},
            },
        },
    }


def test_one_that_says_otherwise_cannot_be_started() -> None:
    seen = held(nodeSelector={"pool": "green"})
    with pytest.raises(BadPodSetInfo, match="key=pool, value1=green, value2=blue"):
        start(seen, admitted(workload_of(seen)))


def test_without_places_it_starts_as_it_is() -> None:
    seen = held()
    assert start(seen, workload_of(seen)) == BATCH_JOB.start_patch(seen)


def test_its_workload_describes_it_as_it_runs() -> None:
    seen = held(tolerations=[{"key": "own"}])
    workload = admitted(workload_of(seen))
    assert BATCH_JOB.is_equivalent(started(seen, workload), workload)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(held(), id="without wishes"),
        pytest.param(held(nodeSelector={"zone": "a"}, tolerations=[{"key": "own"}]), id="with wishes"),
        pytest.param(partial(), id="with fewer pods"),
    ],
)
def test_stopped_it_is_what_it_was(seen: Job) -> None:
    workload = admitted(workload_of(seen), 2 if seen.metadata.annotations else None)
    runs = started(seen, workload)
    assert BATCH_POD_SET_INFO.pod_set_info_of(runs)
    found = stopped(runs, become(workload, WorkloadBuilder.evicted))
    assert tree(found.spec) == tree(seen.spec)
    assert not BATCH_POD_SET_INFO.pod_set_info_of(found)


def test_its_start_is_forgotten_before_its_template_may_change() -> None:
    seen = held()
    workload = admitted(workload_of(seen))
    runs = started(seen, workload)
    held_back = applied(suspended(runs), WITHOUT_PODS)
    first = BATCH_POD_SET_INFO.restoration(held_back, workload)
    assert first == PatchJobStatus(
        {
            "metadata": {"uid": seen.metadata.uid, "resourceVersion": seen.metadata.resource_version},
            "status": {"startTime": None},
        }
    )
    assert isinstance(BATCH_POD_SET_INFO.restoration(applied(held_back, first.patch), workload), PatchJob)


def test_its_template_changes_without_pods_only() -> None:
    """Kubernetes 1.36 refuses it before (KEP 5440)."""
    seen = held()
    workload = admitted(workload_of(seen))
    assert BATCH_POD_SET_INFO.restoration(suspended(started(seen, workload)), workload) is None


def test_what_was_never_started_is_left_alone() -> None:
    seen = held()
    assert BATCH_POD_SET_INFO.restoration(seen, workload_of(seen)) is None
    mentioned = held(hostname='"kueue.x-k8s.io/workload"')
    assert BATCH_POD_SET_INFO.restoration(mentioned, workload_of(mentioned)) is None


def test_without_its_workload_it_loses_its_marks() -> None:
    seen = held()
    found = stopped(started(seen, admitted(workload_of(seen))), None)
    assert not BATCH_POD_SET_INFO.pod_set_info_of(found)
    assert tree(found.spec)["template"]["spec"]["nodeSelector"] == {"pool": "blue"}


@pytest.mark.parametrize(
    ("annotations", "completions"),
    [({}, 4), ({"kueue.x-k8s.io/job-completions-equal-parallelism": "true"}, 2)],
    ids=["its completions stay", "its completions follow"],
)
def test_with_quota_for_fewer_pods_it_has_fewer(annotations: dict[str, str], completions: int) -> None:
    seen = partial(**annotations)
    workload = admitted(workload_of(seen), 2)
    runs = started(seen, workload)
    spec = tree(runs.spec)
    assert (spec["parallelism"], spec["completions"]) == (2, completions)
    assert BATCH_JOB.is_equivalent(runs, workload)
    assert tree(stopped(runs, workload).spec) == tree(seen.spec)


def test_a_number_of_pods_that_its_user_chose_meanwhile_stays() -> None:
    seen = partial()
    workload = admitted(workload_of(seen), 2)
    runs = with_spec(started(seen, workload), parallelism=3)
    assert not BATCH_JOB.is_equivalent(runs, workload)
    assert tree(stopped(runs, workload).spec)["parallelism"] == 3


def test_a_held_job_with_fewer_pods_than_its_workload_is_another_one() -> None:
    seen = partial()
    workload = admitted(workload_of(seen), 2)
    assert not BATCH_JOB.is_equivalent(with_spec(seen, parallelism=2), workload)
