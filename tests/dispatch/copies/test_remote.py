from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from multikueue.api.kueue.workload import Admission, PodSetAssignment, Workload, WorkloadStatus
from multikueue.api.meta import encode
from multikueue.dispatch.copies.remote import copy_body, drift
from tests.builders import workload


def of(container: dict[str, Any], **template: Any) -> Workload:
    """A Workload with one container."""
    pod_set = {
        "name": "main",
        "count": 1,
        "template": {"spec": {"containers": [{"name": "c", **container}]}, **template},
    }
    return Workload(spec=msgspec.Raw(encode({"podSets": [pod_set], "queueName": "main"})))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param(of({}), of({"resources": {}}, metadata={}), id="with empty parts"),
        pytest.param(
            of({"resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}}}),
            of({"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}),
            id="quantities in their shortest form",
        ),
        pytest.param(
            of({"env": [{"name": "A", "value": ""}], "volumeMounts": [{"name": "v", "readOnly": False}]}),
            of({"env": [{"name": "A"}], "volumeMounts": [{"name": "v"}]}),
            id="without zeros",
        ),
    ],
)
def test_a_copy_that_the_workers_kueue_rewrote_is_in_step(ours: Workload, theirs: Workload) -> None:
    assert drift(ours, theirs) == frozenset()


def test_a_copy_that_asks_for_something_else_is_not() -> None:
    assert drift(of({"image": "a"}), of({"image": "b"})) == {"podSets"}


@pytest.mark.parametrize(
    ("text", "travels"),
    [
        ("true", True),
        ("two\nlines,\ta tab", True),
        ("\u00e9\u6f22\U0001f600", True),
        ("true, \x7f", False),
        ("\x00", False),
        ("\x1b[31m", False),
        ("\x9f", False),
        ("\ufffe", False),
    ],
    ids=["a word", "lines", "letters of all alphabets", "DEL", "NUL", "an escape", "a control of C1", "no character"],
)
def test_annotations_that_no_kueue_could_apply_stay_at_home(text: str, travels: bool) -> None:
    local = workload("wl").annotations({"example.com/note": text, "example.com/other": "x"}).build()
    annotations = copy_body(local, origin="us", attempt="1")["metadata"]["annotations"]
    assert ("example.com/note" in annotations) is travels
    assert annotations["example.com/other"] == "x"


def test_a_copy_asks_for_as_many_pods_as_got_quota() -> None:
    asked: dict[str, Any] = {
        "podSets": [{"name": name, "count": 5, "minCount": 2, "template": {}} for name in ("a", "b")]
    }
    admission = Admission(
        cluster_queue="cq",
        pod_set_assignments=(PodSetAssignment(name="a", count=3), PodSetAssignment(name="b", count=5)),
    )
    local = Workload(spec=msgspec.Raw(encode(asked)), status=WorkloadStatus(admission=admission))
    spec = copy_body(local, origin="mk", attempt="1")["spec"]
    copied = Workload(spec=msgspec.Raw(bytes(spec)))
    assert [each["count"] for each in msgspec.json.decode(spec)["podSets"]] == [3, 5]
    assert drift(local, copied) == frozenset()
    assert drift(local, replace(local, status=WorkloadStatus())) == {"podSets"}
