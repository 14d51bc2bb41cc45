"""How the Workloads of an elastic job are marked."""

from __future__ import annotations

import pytest

from multikueue.api.kueue.slices import is_elastic, is_past, replaced_key, slice_name
from multikueue.api.kueue.workload import (
    ELASTIC_ANNOTATION,
    FAILED,
    OUT_OF_SYNC,
    REPLACES_ANNOTATION,
    SLICE_NAME_ANNOTATION,
    SLICE_REPLACED,
    SUCCEEDED,
)
from tests.builders import workload

ELASTIC = {ELASTIC_ANNOTATION: "true"}

MARKS = {
    "none": ({}, ""),
    "the first of its job": (ELASTIC, ""),
    "the next": (ELASTIC | {REPLACES_ANNOTATION: "default/old"}, "old"),
    "one that is not elastic": ({REPLACES_ANNOTATION: "default/old"}, ""),
    "one that says that it replaces itself": (ELASTIC | {REPLACES_ANNOTATION: "default/wl"}, ""),
    "one that says that it replaces one of another namespace": (ELASTIC | {REPLACES_ANNOTATION: "other/old"}, ""),
    "one that says no key": (ELASTIC | {REPLACES_ANNOTATION: "old"}, ""),
}


@pytest.mark.parametrize(("marks", "replaced"), MARKS.values(), ids=MARKS.keys())
def test_what_a_workload_replaces(marks: dict[str, str], replaced: str) -> None:
    key = replaced_key(workload("wl").annotations(marks).build())
    assert (key.name if key is not None else "") == replaced


def test_only_true_is_elastic() -> None:
    assert is_elastic(workload("wl").annotations(ELASTIC).build())
    assert not is_elastic(workload("wl").annotations({ELASTIC_ANNOTATION: "True"}).build())


def test_all_slices_have_the_name_of_the_first() -> None:
    assert slice_name(workload("wl").build()) == "wl"
    assert slice_name(workload("wl").annotations({SLICE_NAME_ANNOTATION: "first"}).build()) == "first"


@pytest.mark.parametrize("reason", [SLICE_REPLACED, OUT_OF_SYNC])
def test_a_job_goes_on_without_one_that_is_past(reason: str) -> None:
    assert is_past(workload("wl").finished(reason).build())


@pytest.mark.parametrize("reason", [SUCCEEDED, FAILED])
def test_the_end_of_a_job_is_no_such_thing(reason: str) -> None:
    assert not is_past(workload("wl").finished(reason).build())
    assert not is_past(workload("wl").build())
