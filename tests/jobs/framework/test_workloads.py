from __future__ import annotations

import pytest

from multikueue.api.kinds import JOBS
from multikueue.api.kueue.workload import PREBUILT_LABEL
from multikueue.api.meta import ObjectMeta
from multikueue.jobs.framework.workloads import (
    free_name,
    job_uid_labels,
    may_be_its,
    named,
    positive,
    topology_request,
    workload_name,
)
from tests.builders import job as made


@pytest.mark.parametrize(
    ("name", "uid", "expected"),
    [
        # Each hash by: printf 'Job\nbatch\n<name>\n<uid>' | sha1sum | cut -c1-5
        pytest.param("train", "6f1c3a52-95d7-4e0b-9d7a-0f4ac1b5d9e2", "job-train-c4fa1", id="an ordinary job"),
        pytest.param("train", "00000000-0000-0000-0000-000000000000", "job-train-7c585", id="the same name again"),
        pytest.param("a.b", "u", "job-a.b-a88e6", id="a name with a dot"),
    ],
)
def test_name_is_the_one_kueue_gives(name: str, uid: str, expected: str) -> None:
    assert workload_name(JOBS, ObjectMeta(name=name, uid=uid)) == expected


def test_name_of_a_long_job_still_fits_into_a_label() -> None:
    longest_as_is = workload_name(JOBS, ObjectMeta(name="x" * 53, uid="u"))
    cut = workload_name(JOBS, ObjectMeta(name="x" * 54, uid="u"))
    assert longest_as_is.startswith(f"job-{'x' * 53}-")
    assert (len(longest_as_is), len(cut)) == (63, 63)
    assert longest_as_is[:57] == cut[:57]
    assert longest_as_is[57:] != cut[57:]


@pytest.mark.parametrize(
    "job", ["train", "t" * 60, "t" * 41 + "-more"], ids=["an ordinary job", "a long one", "one cut at a dash"]
)
def test_what_may_be_a_jobs_own_workload_is_told_by_its_name(job: str) -> None:
    body = made(job).labels({PREBUILT_LABEL: "mine"}).build()
    own = workload_name(JOBS, body.metadata)
    names = (own, named(JOBS, body.metadata, "2"), free_name(own, "u", lambda _: False), "mine")
    assert all(may_be_its(name, JOBS, body) for name in names)
    assert not any(may_be_its(name, JOBS, body) for name in ("theirs", "job-other-12345", "pod-train-12345"))


def test_a_cut_name_has_no_empty_part() -> None:
    name = workload_name(JOBS, ObjectMeta(name="x" * 52 + ".yyyy", uid="u"))
    assert name.startswith("job-" + "x" * 52 + "-")


@pytest.mark.parametrize(
    ("uid", "labelled"), [("6f1c3a52-95d7", True), ("", False), ("x" * 64, False), ("-x", False), ("a/b", False)]
)
def test_uid_label_only_where_labels_can_hold_it(uid: str, labelled: bool) -> None:
    assert bool(job_uid_labels(ObjectMeta(uid=uid))) is labelled


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("1", 1), ("+5", 5), ("2147483647", 2147483647), ("2147483648", None), ("0", None), ("-1", None)),
        *(("1.5", None), ("", None), (" 1", None), ("1_0", None), ("९", None)),
    ],
)
def test_positive_reads_what_kueue_reads(text: str, number: int | None) -> None:
    assert positive(text) == number


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, {}, id="asks for nothing"),
        pytest.param({"required": "rack"}, {"required": "rack"}, id="required"),
        pytest.param({"required": "rack", "preferred": "block"}, {"required": "rack"}, id="required goes first"),
        pytest.param({"preferred": "block"}, {"preferred": "block"}, id="preferred"),
        pytest.param({"unconstrained": "true"}, {"unconstrained": True}, id="unconstrained"),
        pytest.param({"unconstrained": "yes"}, {}, id="a word that is no boolean"),
        pytest.param(
            {"slice-required": "rack", "slice-size": "4"},
            {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 4},
            id="slices",
        ),
        pytest.param({"slice-required": "rack", "slice-size": "many"}, {}, id="slices of no size"),
        pytest.param({"group": "g"}, {}, id="a group without a level"),
        pytest.param(
            {"group": "g", "preferred": "rack"},
            {"podSetGroupName": "g", "preferred": "rack"},
            id="a group with a level",
        ),
    ],
)
def test_topology_request(annotations: dict[str, str], expected: dict[str, object]) -> None:
    keys = {
        "required": "kueue.x-k8s.io/podset-required-topology",
        "preferred": "kueue.x-k8s.io/podset-preferred-topology",
        "unconstrained": "kueue.x-k8s.io/podset-unconstrained-topology",
        "slice-required": "kueue.x-k8s.io/podset-slice-required-topology",
        "slice-size": "kueue.x-k8s.io/podset-slice-size",
        "group": "kueue.x-k8s.io/podset-group-name",
    }
    given = {keys[short]: value for short, value in annotations.items()}
    assert topology_request(given, pod_index_label="index") == {"podIndexLabel": "index", **expected}
