from __future__ import annotations

import pytest

from multikueue.api.kueue.workload import ELASTIC_ANNOTATION, REPLACES_ANNOTATION, SLICE_REPLACED
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.workload.lookup import Pair, pick
from tests.builders import WorkloadBuilder, workload


def of(kind: str, name: str, *, api_version: str = "batch/v1", own: str = "") -> WorkloadBuilder:
    made = workload(own or f"{kind.lower()}-{name}")
    return made.owned_by(api_version=api_version, kind=kind, name=name, uid=f"{kind}-{name}")


def pairs(*builders: WorkloadBuilder) -> list[Pair]:
    return [({}, each.build()) for each in builders]


JOB, SET = of("Job", "train"), of("JobSet", "train", api_version="jobset.x-k8s.io/v1alpha2")
ALL = pairs(JOB, SET, of("Job", "other"), workload("alone"))


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("job/train", "job-train"),
        ("jobs/train", "job-train"),
        ("Job/train", "job-train"),
        ("job.batch/train", "job-train"),
        ("jobset/train", "jobset-train"),
        ("jobsets.jobset.x-k8s.io/train", "jobset-train"),
        ("other", "job-other"),
        ("alone", "alone"),
        ("job-train", "job-train"),
        ("workload/job-train", "job-train"),
        ("wl/alone", "alone"),
        ("workload.kueue.x-k8s.io/alone", "alone"),
    ],
)
def test_a_workload_is_named_as_kubectl_names_things(named: str, expected: str) -> None:
    assert pick(ALL, named, "default")[1].metadata.name == expected


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("train", "choose one of job/train, jobset/train"),
        ("nothing", "there are: alone, job/other, job/train, jobset/train"),
        ("trian", "did you mean .*train.* there are: "),
        ("job.example.com/train", "there is no workload 'job.example.com/train'"),
        ("workload/train", "there is no workload 'workload/train'"),
        ("pytorchjob/train", "there is no workload"),
    ],
)
def test_what_is_not_clear_is_an_error_with_the_choices(named: str, expected: str) -> None:
    with pytest.raises(CommandFailed, match=expected):
        pick(ALL, named, "default")


def test_two_of_one_job_are_told_apart_by_their_own_names() -> None:
    items = pairs(of("Job", "train", own="one"), of("Job", "train", own="two"))
    with pytest.raises(CommandFailed, match="choose one of one, two"):
        pick(items, "train", "default")


def test_one_that_is_being_deleted_makes_room_for_the_next() -> None:
    going = of("Job", "train", own="old").deleted()
    assert pick(pairs(going, JOB), "train", "default")[1].metadata.name == "job-train"
    assert pick(pairs(going), "train", "default")[1].metadata.name == "old"


def test_many_are_not_all_listed() -> None:
    with pytest.raises(CommandFailed, match=r"w00, .* and 2 more"):
        pick(pairs(*(workload(f"w{number:02}") for number in range(12))), "x", "default")


def slice_(name: str, *, replaces: str = "") -> WorkloadBuilder:
    marks = {ELASTIC_ANNOTATION: "true"} | ({REPLACES_ANNOTATION: f"default/{replaces}"} if replaces else {})
    return of("Job", "train", own=name).annotations(marks)


SLICES = {
    "the only one": ((slice_("one"),), "one"),
    "the next still waits": ((slice_("one"), slice_("two", replaces="one")), "one"),
    "the next has its place": ((slice_("one").finished(SLICE_REPLACED), slice_("two", replaces="one")), "two"),
    "all the others are gone": ((slice_("three", replaces="two"),), "three"),
}


@pytest.mark.parametrize(("slices", "expected"), SLICES.values(), ids=SLICES.keys())
def test_of_an_elastic_job_the_slice_that_runs_is_meant(slices: tuple[WorkloadBuilder, ...], expected: str) -> None:
    assert pick(pairs(*slices), "job/train", "default")[1].metadata.name == expected
