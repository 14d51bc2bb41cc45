from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.server.patching import patches
from multikueue.api.kueue.workload import QUEUE_LABEL
from multikueue.api.meta import encode
from multikueue.jobs.framework.adapter import MANAGED
from multikueue.jobs.framework.webhook import Submitted, default_job, read_job, refusal

QUEUE = "kueue.x-k8s.io/queue-name"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
CLASS = "kueue.x-k8s.io/priority-class"
LIMIT = "kueue.x-k8s.io/max-exec-time-seconds"
MINIMUM = "kueue.x-k8s.io/job-min-parallelism"
EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"

SUSPEND = {"op": "add", "path": "/spec/suspend", "value": True}
MANAGE = {"op": "add", "path": "/spec/managedBy", "value": MANAGED}


def raw(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> bytes:
    """A Job in the queue `main`, unless labels are given."""
    metadata = {"labels": {QUEUE: "main"} if labels is None else labels, "annotations": annotations}
    return encode({"metadata": metadata, "spec": spec})


def submitted(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> Submitted:
    return read_job(raw(labels, annotations, **spec))


@pytest.mark.parametrize(
    ("job", "dispatched", "patch"),
    [
        pytest.param(raw(), True, [SUSPEND, MANAGE], id="a new job in a queue that is dispatched"),
        pytest.param(raw(), False, [SUSPEND], id="a new job in a queue of this cluster"),
        pytest.param(raw(suspend=False), True, [SUSPEND, MANAGE], id="said not to be suspended"),
        pytest.param(raw(suspend=True, managedBy=MANAGED), True, [], id="says it all by itself"),
        pytest.param(raw(managedBy="kubernetes.io/job-controller"), True, [SUSPEND, MANAGE], id="Kubernetes' default"),
        pytest.param(raw(managedBy="other.io/x"), True, [SUSPEND], id="a manager that somebody chose"),
        pytest.param(raw(suspend=None, managedBy=None), True, [SUSPEND, MANAGE], id="null says nothing"),
        pytest.param(raw(labels={}), True, [], id="no queue"),
        pytest.param(raw(labels={QUEUE: ""}), True, [], id="an empty queue"),
        pytest.param(
            b'{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}}}',
            True,
            [{"op": "add", "path": "/spec", "value": {"suspend": True, "managedBy": MANAGED}}],
            id="no spec at all",
        ),
        pytest.param(b"{}", True, [], id="nothing at all"),
    ],
)
def test_defaults(job: bytes, dispatched: bool, patch: list[dict[str, Any]]) -> None:
    assert default_job(job, is_multikueue_queue=dispatched) == patch


def gang(**more: Any) -> dict[str, Any]:
    """`spec.scheduling` of a Job since Kubernetes 1.37."""
    return {"schedulingPolicy": {"gang": more}}


@pytest.mark.parametrize("job", [b"", b"[]", b'{"spec":7}', b'{"metadata":{"labels":{"a":1}}}', b"\xff"])
def test_what_is_no_job_is_an_error(job: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_job(job)


@given(
    suspend=st.none() | st.booleans(), manager=st.sampled_from([None, "", MANAGED, "other"]), dispatched=st.booleans()
)
def test_defaults_of_a_defaulted_job_are_none(suspend: bool | None, manager: str | None, dispatched: bool) -> None:
    patch = default_job(raw(suspend=suspend, managedBy=manager), is_multikueue_queue=dispatched)
    spec = {"suspend": suspend, "managedBy": manager} | {op["path"].split("/")[-1]: op["value"] for op in patch}
    assert default_job(raw(**spec), is_multikueue_queue=dispatched) == []


@pytest.mark.parametrize(
    ("job", "words"),
    [
        pytest.param(submitted(), None, id="an ordinary job"),
        pytest.param(submitted({QUEUE: "Main!"}), "queue-name", id="a queue that cannot exist"),
        pytest.param(submitted({QUEUE: "a." * 127}), "queue-name", id="a queue with a name too long"),
        pytest.param(submitted({QUEUE: "q", PREBUILT: "-x"}), "prebuilt-workload-name", id="no name of a Workload"),
        pytest.param(submitted(None, {PREBUILT: "-x"}), "annotations[kueue.x-k8s.io/pre", id="none by annotation"),
        pytest.param(submitted({QUEUE: "q", LIMIT: "10"}), None, id="a time limit"),
        pytest.param(submitted({QUEUE: "q", LIMIT: "0"}), "greater than 0", id="no time at all"),
        pytest.param(submitted({QUEUE: "q", LIMIT: "soon"}), "'soon'", id="a limit that is no number"),
        pytest.param(submitted({QUEUE: "q", LIMIT: "9" * 5000}), "max-exec-time", id="a limit that is far too large"),
        pytest.param(submitted(None, {MINIMUM: "2"}, parallelism=3), None, id="fewer pods will do"),
        pytest.param(submitted(None, {MINIMUM: "3"}, parallelism=3), "between 1 and 2", id="no fewer than all"),
        pytest.param(
            submitted(None, {MINIMUM: "2"}, parallelism=3, completions=2), "between 1 and 1", id="completions"
        ),
        pytest.param(submitted(None, {MINIMUM: "1"}), "fewer than two pods", id="a minimum for one pod"),
        pytest.param(submitted(None, {MINIMUM: "x"}, parallelism=3), "'x'", id="a minimum that is no number"),
        *(
            pytest.param(submitted(None, {MINIMUM: "2"}, parallelism=4, scheduling=scheduling), words, id=name)
            for name, scheduling, words in (
                ("a minimum below what starts together", gang(minCount=3), "gang.minCount, 3, got '2'"),
                ("a minimum of what starts together", gang(minCount=2), None),
                ("a gang that follows the parallelism", gang(), None),
                ("a gang of null", gang(minCount=None), None),
                ("no gang", {"schedulingPolicy": {"basic": {}}}, None),
                ("no policy", {"schedulingPolicy": None}, None),
                ("no scheduling", None, None),
            )
        ),
        pytest.param(submitted(None, parallelism=4, scheduling=gang(minCount=3)), None, id="a gang without a minimum"),
        pytest.param(submitted(None, {EQUAL: "false"}), None, id="completions need not be equal"),
        pytest.param(submitted(None, {EQUAL: "maybe"}), "true or false", id="no boolean"),
        pytest.param(
            submitted(None, {EQUAL: "true"}, completionMode="Indexed", parallelism=2, completions=2), None, id="equal"
        ),
        pytest.param(submitted(None, {EQUAL: "true"}, parallelism=2, completions=2), "not Indexed", id="not Indexed"),
        pytest.param(
            submitted(None, {EQUAL: "true"}, completionMode="Indexed", parallelism=2),
            "spec.completions",
            id="not equal",
        ),
    ],
)
def test_new_jobs_that_are_refused(job: Submitted, words: str | None) -> None:
    reason = refusal(job)
    assert reason is None if words is None else words in (reason or "")


def held(labels: dict[str, str], annotations: dict[str, str] | None = None, **spec: Any) -> Submitted:
    return submitted(labels, annotations, suspend=True, **spec)


def free(labels: dict[str, str], annotations: dict[str, str] | None = None, **spec: Any) -> Submitted:
    return submitted(labels, annotations, suspend=False, **spec)


A, B = {QUEUE: "a"}, {QUEUE: "b"}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param(held(A), held(B), None, id="another queue while suspended"),
        pytest.param(free(A), held(B), None, id="another queue when suspended by the same change"),
        pytest.param(free(A), free(B), "suspend it first", id="another queue while it runs"),
        pytest.param(held(A), free(B), "queue-name", id="another queue when started by the same change"),
        pytest.param(free(A), free({}), "queue-name", id="no queue while it runs"),
        pytest.param(held(A), held(A | {PREBUILT: "w"}), None, id="another Workload while suspended"),
        pytest.param(
            free(A), free(A | {PREBUILT: "w"}), "labels[kueue.x-k8s.io/pre", id="another Workload while it runs"
        ),
        pytest.param(held(A), held(A, {PREBUILT: "w"}), None, id="another Workload by annotation while suspended"),
        pytest.param(
            free(A, {PREBUILT: "v"}),
            free(A, {PREBUILT: "w"}),
            "annotations[kueue.x-k8s.io/prebuilt",
            id="another Workload by annotation while it runs",
        ),
        pytest.param(held(A), held(A | {LIMIT: "5"}), None, id="a time limit while suspended"),
        pytest.param(free(A), held(A | {LIMIT: "5"}), "max-exec-time", id="a time limit on a job that ran"),
        pytest.param(held(A), free(A | {LIMIT: "5"}), "max-exec-time", id="a time limit at the start"),
        pytest.param(free(A | {CLASS: "x"}), free(A | {CLASS: "y"}), None, id="another class while it runs"),
        pytest.param(held(A | {CLASS: "x"}), held(A), "not removed", id="no class any more"),
        pytest.param(held(A), held(A | {CLASS: "x"}), None, id="a class while suspended"),
        pytest.param(free(A), free(A | {CLASS: "x"}), "can't be added", id="a class while it runs"),
        pytest.param(
            free(A, {MINIMUM: "1"}, parallelism=3),
            free(A, {MINIMUM: "1"}, parallelism=4),
            "spec.parallelism",
            id="another parallelism with partial admission while it runs",
        ),
        pytest.param(
            held(A, {MINIMUM: "1"}, parallelism=3),
            held(A, {MINIMUM: "1"}, parallelism=4),
            None,
            id="another parallelism with partial admission while suspended",
        ),
        pytest.param(free(A, parallelism=3), free(A, parallelism=4), None, id="another parallelism"),
        pytest.param(free(A), held(A), None, id="stopped"),
    ],
)
def test_changes_that_are_refused(old: Submitted, new: Submitted, words: str | None) -> None:
    reason = refusal(new, old)
    assert reason is None if words is None else words in (reason or "")


def test_all_reasons_are_given_at_once() -> None:
    reason = refusal(submitted({QUEUE: "!", LIMIT: "x"}))
    assert reason is not None
    assert len(reason.split("; ")) == 2


@pytest.mark.parametrize(
    ("metadata", "labels"),
    [
        ({}, {QUEUE_LABEL: "default"}),
        ({"labels": {"a": "b"}}, {"a": "b", QUEUE_LABEL: "default"}),
        ({"labels": {QUEUE_LABEL: ""}}, {QUEUE_LABEL: "default"}),
    ],
    ids=["without labels", "with others", "with an empty one"],
)
def test_what_is_put_into_a_queue_says_so_as_its_patch_does(metadata: dict[str, Any], labels: dict[str, str]) -> None:
    job = read_job(encode({"metadata": metadata}))
    patch = job.queue_patch("default")
    patched = patches.json_patch({"metadata": metadata}, [patch])

    assert job.in_queue("default").labels == patched["metadata"]["labels"] == labels
