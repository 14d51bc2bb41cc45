"""Elastic batch Jobs on the manager: their Workloads, and what their copy on a worker must have (contract 3.5, 5.3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from multikueue.api.jobs.job import Job
from multikueue.api.jobs.pod import Pod
from multikueue.api.kueue.workload import (
    ATTEMPT_ANNOTATION,
    ELASTIC_ANNOTATION,
    PREBUILT_ANNOTATION,
    PREBUILT_LABEL,
    REPLACES_ANNOTATION,
    SLICE_NAME_ANNOTATION,
    ReclaimablePod,
    Workload,
)
from multikueue.jobs.framework.actions import CreateWorkload, PatchJobStatus, PatchWorkloadStatus, UpdateWorkloadSpec
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.kinds.batch_job.slices import (
    freed,
    in_order,
    is_sliced,
    remote_patch,
    slice_body,
    slice_workload_name,
)
from multikueue.jobs.reconciler.decide import JobView, decide, mirror
from tests.builders import NOW, JobBuilder, job
from tests.jobs.builders import become, ours, plain, stored, with_spec, with_status


def elastic(parallelism: int, *, generation: int = 1, suspended: bool = False) -> Job:
    builder = (
        ours().annotations({ELASTIC_ANNOTATION: "true"}).parallelism(parallelism).completions(99).suspended(suspended)
    )
    found = builder.build()
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, generation=generation))


def slice_of(sized: Job, *, replaces: Workload | None = None) -> Workload:
    return stored(slice_body(sized, priority=Priority(), replaces=replaces), uid=f"uid-{sized.metadata.generation}")


def running(waiting: Workload) -> Workload:
    return become(waiting, lambda w: w.reserved().cluster_name("w1").admitted())


FIRST = slice_of(elastic(3))
RUNS = running(FIRST)
SECOND = slice_of(elastic(5, generation=2), replaces=FIRST)
REPLACED = become(RUNS, lambda w: w.finished("WorkloadSliceReplaced"))


def view(sized: Job, *workloads: Workload) -> JobView:
    return JobView(job=sized, workloads=workloads, is_elastic=True)


def told(seen: JobView) -> list[str]:
    """The actions in short, with the count or the annotation that matters."""
    return [_told(action) for action in decide(seen, NOW).actions]


def _told(action: Any) -> str:
    match action:
        case UpdateWorkloadSpec():
            return f"update {action.key.name} to {action.patch['spec']['podSets'][0]['count']}"
        case CreateWorkload():
            meta = action.body["metadata"]
            return f"create {meta['name']} for {meta['annotations'].get(REPLACES_ANNOTATION, 'nobody')}"
        case PatchWorkloadStatus():
            return f"{action.patch['status']['conditions'][-1].reason} {action.key.name}"
    return type(action).__name__


ONE, TWO = FIRST.metadata.name, SECOND.metadata.name
PENDING_AGAIN = become(SECOND, lambda w: w.reserved().evicted().unreserved())

STEPS: dict[str, tuple[JobView, list[str]]] = {
    "the first Workload replaces nobody": (view(elastic(3, suspended=True)), [f"create {ONE} for nobody"]),
    "a job of the size of its Workload": (view(elastic(3), RUNS), []),
    "scaled down while it runs, its Workload follows": (view(elastic(2, generation=2), RUNS), [f"update {ONE} to 2"]),
    "scaled up while it runs, it gets another one": (
        view(elastic(5, generation=2), RUNS),
        [f"create {TWO} for default/{ONE}"],
    ),
    "scaled up before it has quota, its Workload follows": (
        view(elastic(5, generation=2, suspended=True), FIRST),
        [f"update {ONE} to 5"],
    ),
    "scaled up while it is being evicted, it is stopped first": (
        view(elastic(5, generation=2), become(RUNS, lambda w: w.evicted())),
        ["PatchJob"],
    ),
    "while the new one waits for quota, the job runs on": (view(elastic(5, generation=2), RUNS, SECOND), []),
    "scaled again meanwhile, the one that waits follows": (
        view(elastic(7, generation=3), RUNS, SECOND),
        [f"update {TWO} to 7"],
    ),
    "in either direction": (view(elastic(3, generation=3), RUNS, SECOND), [f"update {TWO} to 3"]),
    "while the new one is on its way to the worker, the job runs on": (
        view(elastic(5, generation=2), REPLACED, become(SECOND, lambda w: w.reserved().cluster_name("w1"))),
        [],
    ),
    "then it runs as the new one": (view(elastic(5, generation=2), REPLACED, running(SECOND)), []),
    "scaled back to the size of one that was replaced": (
        view(elastic(3, generation=3), REPLACED, running(SECOND)),
        [f"update {TWO} to 3"],
    ),
    "and up once more, the new one is replaced in its turn": (
        view(elastic(6, generation=3), REPLACED, running(SECOND)),
        [f"create {slice_workload_name(elastic(6, generation=3).metadata)} for default/{TWO}"],
    ),
    "the slice that lost its quota while another waits is over": (
        view(elastic(5, generation=2), become(RUNS, lambda w: w.evicted().unreserved()), SECOND),
        [f"OutOfSync {ONE}"],
    ),
    "a new one that was evicted stops the job": (
        view(elastic(5, generation=2), REPLACED, become(running(SECOND), lambda w: w.evicted())),
        ["PatchJob"],
    ),
    "both have quota for a moment, and the old one is about to be finished": (
        view(elastic(5, generation=2), RUNS, become(SECOND, lambda w: w.reserved().cluster_name("w1"))),
        [],
    ),
    "a job that was not elastic when its Workload was made starts over": (
        view(elastic(2, generation=2), running(stored(BATCH_JOB.workload_body(elastic(3), priority=Priority())))),
        ["PatchJob", "DeleteWorkload"],
    ),
    "other pods are another job": (
        view(with_spec(elastic(5, generation=2), template=plain({"spec": {"containers": [{"name": "x"}]}})), RUNS),
        ["PatchJob", "DeleteWorkload"],
    ),
    "a slice that was replaced is no Workload to begin with": (
        view(elastic(3, generation=3, suspended=True), REPLACED),
        [f"create {slice_workload_name(elastic(3, generation=3).metadata)} for nobody"],
    ),
}


@pytest.mark.parametrize(("seen", "actions"), STEPS.values(), ids=STEPS.keys())
def test_the_size_of_a_job_is_followed(seen: JobView, actions: list[str]) -> None:
    assert told(seen) == actions


def test_without_elastic_jobs_a_job_of_another_size_starts_over() -> None:
    seen = replace(view(elastic(2, generation=2), RUNS), is_elastic=False)
    assert told(seen) == ["PatchJob", "DeleteWorkload"]


def test_an_update_of_the_size_changes_nothing_else() -> None:
    (update,) = decide(view(elastic(2, generation=2), RUNS), NOW).actions
    assert isinstance(update, UpdateWorkloadSpec)
    (pod_set,) = plain(update.patch)["spec"]["podSets"]
    assert pod_set | {"count": 3} == msgspec.json.decode(RUNS.spec)["podSets"][0]
    assert update.patch["metadata"]["resourceVersion"] == RUNS.metadata.resource_version


def test_slices_are_named_and_marked_as_kueue_does() -> None:
    assert slice_workload_name(elastic(3).metadata) != slice_workload_name(elastic(3, generation=2).metadata)
    assert FIRST.metadata.annotations == {ELASTIC_ANNOTATION: "true", SLICE_NAME_ANNOTATION: ONE}
    assert SECOND.metadata.annotations == FIRST.metadata.annotations | {REPLACES_ANNOTATION: f"default/{ONE}"}
    third = slice_of(elastic(6, generation=3), replaces=SECOND)
    assert third.metadata.annotations[SLICE_NAME_ANNOTATION] == ONE


SLICED = {
    "an elastic batch Job": (elastic(1), True),
    "one that is not": (ours().build(), False),
    "one that says something else": (ours().annotations({ELASTIC_ANNOTATION: "yes"}).build(), False),
    "one with a Workload of the user's": (
        ours().annotations({ELASTIC_ANNOTATION: "true"}).prebuilt("mine").build(),
        False,
    ),
    "a Pod": (Pod(metadata=elastic(1).metadata), False),
}


def test_what_began_as_elastic_stays_so() -> None:
    assert is_sliced(ours().build(), [RUNS])


def test_beside_kueue_the_end_of_the_last_slice_is_that_of_the_job() -> None:
    done = become(running(SECOND), lambda w: w.finished())
    (end_from_workload,) = mirror(view(elastic(5, generation=2), REPLACED, done), NOW).actions
    assert isinstance(end_from_workload, PatchJobStatus)
    assert "Complete" in [c["type"] for c in plain(end_from_workload.patch)["status"]["conditions"]]


@pytest.mark.parametrize(("found", "expected"), SLICED.values(), ids=SLICED.keys())
def test_which_jobs_have_slices(found: Job, expected: bool) -> None:
    assert is_sliced(found) is expected


def test_of_the_same_second_the_one_that_replaces_comes_after() -> None:
    assert in_order([SECOND, FIRST]) == in_order([FIRST, SECOND]) == (FIRST, SECOND)


# --- the copy on the worker -------------------------------------------------------------------------------------------


def remote(parallelism: int, *, of: str = ONE, attempt: str = "a") -> JobBuilder:
    return job("j").parallelism(parallelism).completions(99).prebuilt(of).attempt(attempt)


PATCHES: dict[str, tuple[Job, Job, Workload, dict[str, Any] | None]] = {
    "in step": (elastic(3), remote(3).build(), FIRST, None),
    "scaled down": (
        elastic(2),
        remote(3).build(),
        slice_of(elastic(2)),
        {"spec": {"parallelism": 2}},
    ),
    "scaled up, and its new slice is not there yet": (elastic(5, generation=2), remote(3).build(), FIRST, None),
    "taken over by the new slice": (
        elastic(5, generation=2),
        remote(3).build(),
        SECOND,
        {
            "metadata": {"labels": {PREBUILT_LABEL: TWO}},
            "spec": {"parallelism": 5},
        },
    ),
    "taken over by the new slice, from Kueue's own MultiKueue": (
        elastic(5, generation=2),
        job("j").parallelism(3).completions(99).attempt("a").annotations({PREBUILT_ANNOTATION: ONE}).build(),
        SECOND,
        {
            "metadata": {"annotations": {PREBUILT_ANNOTATION: TWO}},
            "spec": {"parallelism": 5},
        },
    ),
    "of another attempt": (
        elastic(3),
        remote(3, attempt="b").build(),
        FIRST,
        {"metadata": {"annotations": {ATTEMPT_ANNOTATION: "a"}}},
    ),
    "with as many completions": (
        with_spec(elastic(2), completions=2),
        with_spec(remote(3).build(), completions=3),
        slice_of(elastic(2)),
        {"spec": {"parallelism": 2, "completions": 2}},
    ),
}


@pytest.mark.parametrize(("local", "there", "workload", "patch"), PATCHES.values(), ids=PATCHES.keys())
def test_what_the_copy_lacks(local: Job, there: Job, workload: Workload, patch: dict[str, Any] | None) -> None:
    found = remote_patch(local, there, workload, attempt="a")
    if patch is None:
        assert found is None
        return
    assert found is not None
    meta = {"uid": there.metadata.uid, "resourceVersion": there.metadata.resource_version}
    assert found == patch | {"metadata": meta | patch.get("metadata", {})}


def test_the_first_slice_names_itself_also_under_another_name() -> None:
    sized = elastic(3, suspended=True)
    own = slice_workload_name(sized.metadata)
    (action,) = decide(JobView(job=sized, is_elastic=True, is_taken=own.__eq__), NOW).actions
    assert isinstance(action, CreateWorkload)
    meta = action.body["metadata"]
    assert meta["name"] != own
    assert meta["annotations"][SLICE_NAME_ANNOTATION] == meta["name"]


# --- what it gives back ----------------------------------------------------------------------------------------------

ORDINARY = become(RUNS, lambda w: w.annotations({ELASTIC_ANNOTATION: "false"}))


@pytest.mark.parametrize(
    ("runs_with", "over", "size", "expected"),
    [
        pytest.param(6, 95, 6, 2, id="of the size of its Workload"),
        pytest.param(6, 95, 4, 0, id="its Workload is scaled down to what runs"),
        pytest.param(6, 95, 5, 1, id="its Workload is scaled down by a part of what is over"),
        pytest.param(6, 97, 3, 1, id="its Workload is scaled down by more than what is over"),
        pytest.param(4, 95, 6, 0, id="its Workload is larger"),
        pytest.param(6, 0, 4, 0, id="nothing is over"),
    ],
)
def test_a_slice_gives_back_what_is_over_of_its_own_size(runs_with: int, over: int, size: int, expected: int) -> None:
    runs = with_status(elastic(runs_with), {"succeeded": over, "active": min(runs_with, 99 - over)})
    found = freed(BATCH_JOB.reclaimable(runs), runs, running(slice_of(elastic(size))))
    assert found == ((ReclaimablePod(name="main", count=expected),) if expected else ())


def test_the_pods_of_what_has_no_slices_are_counted_as_told() -> None:
    runs, told = with_status(elastic(6), {"succeeded": 95}), (ReclaimablePod(name="main", count=2),)
    assert freed(told, runs, ORDINARY) == told
    assert freed(told, with_status(ours().build(), {}), RUNS) == told
