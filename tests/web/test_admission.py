from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.meta import encode
from multikueue.web.admission import NotAReview, review
from tests.web.builders import QUEUED, Tree, response_in, review_of

ALLOWED = {"uid": "u-1", "allowed": True}
SUSPEND = {"op": "add", "path": "/spec/suspend", "value": True}
MANAGE = {"op": "add", "path": "/spec/managedBy", "value": "kueue.x-k8s.io/multikueue"}


def dispatched(namespace: str, queue: str) -> bool | None:
    return {("team", "main"): True, ("team", "local"): False}.get((namespace, queue))


def answer(body: bytes) -> Tree:
    return response_in(review(body, dispatched))


def queued(queue: str = "main", **spec: Any) -> Tree:
    job = copy.deepcopy(QUEUED)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    job["spec"] |= spec
    return job


@pytest.mark.parametrize(
    ("job", "patch"),
    [
        pytest.param(queued(), [SUSPEND, MANAGE], id="in a queue that is dispatched"),
        pytest.param(queued("local"), [SUSPEND], id="in a queue of this cluster"),
        pytest.param(queued(suspend=True), [MANAGE], id="suspended already"),
    ],
)
def test_a_new_job_gets_its_defaults(job: Tree, patch: list[Tree]) -> None:
    assert answer(review_of(job)) == {**ALLOWED, "patchType": "JSONPatch", "patch": patch}


def test_a_job_that_has_them_passes() -> None:
    job = queued(suspend=True, managedBy="kueue.x-k8s.io/multikueue")
    assert answer(review_of(job)) == ALLOWED


def test_a_queue_that_does_not_exist_yet_is_warned_about() -> None:
    response = answer(review_of(queued("later")))
    assert response["patch"] == [SUSPEND]
    (warning,) = response["warnings"]
    assert "LocalQueue later doesn't exist in namespace team" in warning


def test_no_warning_where_the_user_chose() -> None:
    assert "warnings" not in answer(review_of(queued("later", managedBy="kueue.x-k8s.io/multikueue")))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(review_of({"metadata": {"name": "j"}, "spec": {}}), id="a job without a queue"),
        pytest.param(review_of(None, operation="DELETE", old=QUEUED), id="a deletion"),
        pytest.param(review_of(resource={"group": "batch", "resource": "cronjobs"}), id="another resource"),
        pytest.param(review_of(resource={"group": "", "resource": "jobs"}), id="another group"),
        pytest.param(review_of(subResource="status", operation="UPDATE", old=QUEUED), id="a status"),
        pytest.param(review_of(queued(), operation="UPDATE", old=queued()), id="a change that changes nothing"),
        pytest.param(review_of(queued(suspend=True), operation="UPDATE", old=queued(suspend=False)), id="a stop"),
    ],
)
def test_allowed_as_it_is(body: bytes) -> None:
    assert answer(body) == ALLOWED


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(review_of(queued("No Queue")), "queue-name", id="a name that cannot be"),
        pytest.param(
            review_of(queued("local"), operation="UPDATE", old=queued()), "immutable", id="a forbidden change"
        ),
        pytest.param(
            review_of({"metadata": {}, "spec": {}}, operation="UPDATE", old=queued()),
            "immutable",
            id="no queue any more",
        ),
        pytest.param(review_of(7), "can't be read", id="no object"),
        pytest.param(review_of(None), "can't be read", id="null"),
        pytest.param(review_of({"metadata": {"labels": [1]}}), "can't be read", id="no labels"),
        pytest.param(review_of(QUEUED, operation="UPDATE", old=None), "can't be read", id="no old object"),
    ],
)
def test_denied_with_the_reason(body: bytes, words: str) -> None:
    response = answer(body)
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("u-1", False, 403)
    assert words in response["status"]["message"]
    assert "patch" not in response


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\x00", id="no text"),
        pytest.param(b"{}", id="an empty object"),
        pytest.param(b"[" * 100_000, id="a deep hole"),
        pytest.param(b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', id="no request"),
        pytest.param(review_of().replace(b'"u-1"', b"1"), id="a UID that is no text"),
        pytest.param(review_of().replace(b"k8s.io/v1", b"k8s.io/v1beta1"), id="an old version"),
        pytest.param(review_of().replace(b'"AdmissionReview"', b'"Job"'), id="another kind"),
    ],
)
def test_no_review_at_all(body: bytes) -> None:
    with pytest.raises(NotAReview):
        review(body, dispatched)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda t: st.lists(t, max_size=3) | st.dictionaries(st.text(max_size=5), t, max_size=3),
    max_leaves=8,
)
PARTS = (
    "metadata",
    "labels",
    "annotations",
    "spec",
    "suspend",
    "managedBy",
    "kueue.x-k8s.io/queue-name",
    "parallelism",
)
ODD = st.recursive(JSON, lambda t: st.dictionaries(st.sampled_from(PARTS), t, max_size=4), max_leaves=10)


@given(job=ODD, old=ODD, operation=st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT", ""]))
def test_whatever_comes_is_answered(job: Any, old: Any, operation: str) -> None:
    response = answer(review_of(job, old=old, operation=operation))
    assert response["uid"] == "u-1"
    assert isinstance(response["allowed"], bool)


@given(garbage=st.binary(max_size=50) | JSON.map(encode))
def test_whatever_comes_is_an_answer_or_a_refusal(garbage: bytes) -> None:
    try:
        found = review(garbage, dispatched)
    except NotAReview:
        return
    assert msgspec.json.decode(found)["response"]
