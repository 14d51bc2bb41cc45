"""The webhook's answers to reviews: one file, a table of objects and patches."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.meta import OwnerReference, encode
from multikueue.jobs.integrations.frameworks import FRAMEWORKS, TEMPLATES, Adapters
from multikueue.web.admission import AdmissionLookups, NotAReview, review
from tests.web.builders import QUEUED, Tree, response_in, review_of

ALLOWED = {"uid": "u-1", "allowed": True}
SUSPEND = {"op": "add", "path": "/spec/suspend", "value": True}
MANAGE = {"op": "add", "path": "/spec/managedBy", "value": "kueue.x-k8s.io/multikueue"}


def dispatched(namespace: str, queue: str) -> bool | None:
    return {("team", "main"): True, ("team", "local"): False}.get((namespace, queue))


KNOWN = AdmissionLookups(does_dispatch=dispatched)


def answer(body: bytes) -> Tree:
    return response_in(review(body, KNOWN))


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


def deep_review(**about: Any) -> bytes:
    body = review_of({"metadata": {"name": "j", "managedFields": ["deep"]}, "spec": {}}, **about)
    return body.replace(b'"deep"', b'{"f:a":' * 9_900 + b"{}" + b"}" * 9_900)


def test_nothing_is_said_of_what_is_nested_too_deeply_and_no_job() -> None:
    assert answer(deep_review(resource={"group": "batch", "resource": "cronjobs"})) == ALLOWED


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
        pytest.param(review_of().replace(b'"main"', b'"\xff"'), "can't be read", id="a queue that is no UTF-8"),
        pytest.param(deep_review(), "nested too deeply", id="an object that is nested too deeply"),
        pytest.param(deep_review(operation="UPDATE", old=QUEUED), "nested too deeply", id="a change of one that is so"),
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
        pytest.param(b'{"kind":' * 100_000, id="a deeper one"),
        pytest.param(review_of().replace(b'"team"', b"[" * 50_000 + b"]" * 50_000), id="a deep hole in a review"),
        pytest.param(review_of().replace(b'"u-1"', b'"\xff"'), id="a UID that is no UTF-8"),
        pytest.param(review_of().replace(b'"u-1"', b"1"), id="a UID that is no text"),
        pytest.param(review_of().replace(b"k8s.io/v1", b"k8s.io/v1beta1"), id="an old version"),
        pytest.param(review_of().replace(b'"AdmissionReview"', b'"Job"'), id="another kind"),
    ],
)
def test_no_review_at_all(body: bytes) -> None:
    with pytest.raises(NotAReview):
        review(body, KNOWN)


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
        found = review(garbage, KNOWN)
    except NotAReview:
        return
    assert msgspec.json.decode(found)["response"]


ADAPTERS = Adapters(FRAMEWORKS.values(), TEMPLATES.values())
ALL_KINDS = [{"group": one.kind.group, "resource": one.kind.plural} for one in (*ADAPTERS, *ADAPTERS.templates)]


@given(st.sampled_from(ALL_KINDS), ODD, st.binary(max_size=4), st.integers(0), st.integers(0, 8))
def test_a_review_with_a_few_other_bytes_in_it_is_answered_or_refused(
    kind: Tree, job: Any, other: bytes, at: int, length: int
) -> None:
    body = review_of(job if isinstance(job, dict) else QUEUED, operation="UPDATE", old=QUEUED, resource=kind)
    at %= len(body)
    with suppress(NotAReview):
        found = review(body[:at] + other + body[at + length :], KNOWN, ADAPTERS)
        assert msgspec.json.decode(found)["response"]


# Jobs that belong to others.


@pytest.mark.parametrize(
    ("owner", "patch"),
    [
        ({"name": "parent", "controller": True}, None),
        ({"name": "another", "controller": True}, [SUSPEND, MANAGE]),
        ({"name": "parent"}, [SUSPEND, MANAGE]),
    ],
    ids=["to one in a queue", "to one in none", "to one that does not control it"],
)
def test_a_job_that_belongs_to_one_in_a_queue_is_left_to_that(owner: Tree, patch: list[Tree] | None) -> None:
    asked: list[tuple[str, str, str]] = []

    def nested(namespace: str, controller: OwnerReference) -> bool:
        asked.append((namespace, controller.kind, controller.uid))
        return controller.name == "parent"

    job = queued()
    job["metadata"]["ownerReferences"] = [{"apiVersion": "x/v1", "kind": "X", "uid": "u"} | owner]
    known = AdmissionLookups(does_dispatch=dispatched, is_nested=nested)

    assert response_in(review(review_of(job), known)) == (
        ALLOWED if patch is None else {**ALLOWED, "patchType": "JSONPatch", "patch": patch}
    )
    assert asked == ([("team", "X", "u")] if owner.get("controller") else [])


@pytest.mark.parametrize("has_queue", [True, False], ids=["in a queue", "in the queue for all"])
@pytest.mark.parametrize("kind", ["Job", "Pod"])
def test_an_owner_that_only_has_the_name_of_a_job_exempts_nobody(kind: str, has_queue: bool) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": "stale", "controller": True}
    labels = {"kueue.x-k8s.io/queue-name": "main"} if has_queue else {}
    body = {"metadata": {"name": "x", "labels": labels, "ownerReferences": [owner]}}
    body |= {"spec": {"containers": []}} if kind == "Pod" else {"spec": {}}

    def answer(uid: str) -> Tree:
        known = AdmissionLookups(
            does_dispatch=dispatched,
            is_nested=lambda *_: True,
            is_stale=lambda _, controller: controller.uid != uid,
            has_default=lambda _: True,
        )
        request = review_of(body, resource=PODS) if kind == "Pod" else review_of(body)
        return response_in(review(request, known, WITH_PODS))

    assert "patch" in answer("parents")
    assert "patch" not in answer("stale")


def test_the_rules_hold_for_what_belongs_to_others_too() -> None:
    job = queued("No Queue")
    job["metadata"]["ownerReferences"] = [{"name": "parent", "controller": True}]
    known = AdmissionLookups(does_dispatch=dispatched, is_nested=lambda *_: True)
    assert not response_in(review(review_of(job), known))["allowed"]


# Jobs that name no queue.

LABEL = {"kueue.x-k8s.io/queue-name": "default"}
GETS = {"op": "add", "path": "/metadata/labels", "value": LABEL}
GETS_ONE_MORE = {"op": "add", "path": "/metadata/labels/kueue.x-k8s.io~1queue-name", "value": "default"}


def with_default(namespace: str, queue: str) -> bool | None:
    return {("team", "default"): True}.get((namespace, queue))


DEFAULTING = AdmissionLookups(does_dispatch=with_default, has_default=lambda namespace: namespace == "team")


def queueless(**metadata: Any) -> Tree:
    return {"metadata": {"name": "j"} | metadata, "spec": {"template": {}}}


@pytest.mark.parametrize(
    ("job", "patch"),
    [
        (queueless(), [GETS, SUSPEND, MANAGE]),
        (queueless(labels={}), [GETS_ONE_MORE, SUSPEND, MANAGE]),
        (queueless(labels={"a": "b"}), [GETS_ONE_MORE, SUSPEND, MANAGE]),
        (queueless(labels={"kueue.x-k8s.io/queue-name": ""}), [GETS_ONE_MORE, SUSPEND, MANAGE]),
        (queueless() | {"spec": {"suspend": True, "managedBy": "x/y"}}, [GETS]),
        (queueless(ownerReferences=[{"apiVersion": "batch/v1", "kind": "CronJob", "controller": True}]), None),
        (queueless(ownerReferences=[{"apiVersion": "batch/v1", "kind": "Job", "controller": True}]), []),
    ],
    ids=[
        "without labels",
        "with no label",
        "with others",
        "with an empty one",
        "held already",
        "controlled by what is no job",
        "controlled by a job",
    ],
)
def test_a_new_job_without_a_queue_gets_the_one_for_all(job: Tree, patch: list[Tree] | None) -> None:
    wanted = [GETS, SUSPEND, MANAGE] if patch is None else patch
    expected = {**ALLOWED, "patchType": "JSONPatch", "patch": wanted} if wanted else ALLOWED
    assert response_in(review(review_of(job), DEFAULTING)) == expected


@pytest.mark.parametrize(
    ("body", "known"),
    [
        (review_of(queueless(), namespace="other"), DEFAULTING),
        (review_of(queueless()), KNOWN),
        (review_of(queueless(), operation="UPDATE", old=queueless()), DEFAULTING),
    ],
    ids=["in a namespace without one", "where it is switched off", "that was there before"],
)
def test_other_jobs_without_a_queue_are_left_alone(body: bytes, known: AdmissionLookups) -> None:
    assert response_in(review(body, known)) == ALLOWED


def test_one_with_a_queue_keeps_it() -> None:
    patch = response_in(review(review_of(queued("other")), DEFAULTING))["patch"]
    assert patch == [SUSPEND]


def test_the_rules_hold_for_what_gets_a_queue() -> None:
    job = queueless(labels={"kueue.x-k8s.io/max-exec-time-seconds": "-3"})
    answered = response_in(review(review_of(job), DEFAULTING))
    assert (answered["allowed"], "patch" in answered) == (False, False)


# Kinds that are declared.

PYTORCH = {"group": "kubeflow.org", "resource": "pytorchjobs"}
WITH_PYTORCH = Adapters((FRAMEWORKS["batch/job"], FRAMEWORKS["kubeflow.org/pytorchjob"]))


def training(queue: str = "main", **policy: Any) -> Tree:
    spec: Tree = {"pytorchReplicaSpecs": {}} | ({"runPolicy": policy} if policy else {})
    return {"metadata": {"name": "t", "labels": {"kueue.x-k8s.io/queue-name": queue}}, "spec": spec}


def trained(job: Tree | None, **more: Any) -> Tree:
    return response_in(review(review_of(job, resource=PYTORCH, **more), KNOWN, WITH_PYTORCH))


@pytest.mark.parametrize(
    ("job", "patch"),
    [
        pytest.param(
            training(),
            [
                {"op": "add", "path": "/spec/runPolicy", "value": {"suspend": True}},
                {"op": "add", "path": "/spec/runPolicy/managedBy", "value": "kueue.x-k8s.io/multikueue"},
            ],
            id="what is missing on the way is made once",
        ),
        pytest.param(
            training(suspend=True, managedBy="kubeflow.org/training-operator"),
            [{"op": "add", "path": "/spec/runPolicy/managedBy", "value": "kueue.x-k8s.io/multikueue"}],
            id="the kind's own controller was not chosen",
        ),
        pytest.param(
            training("local", cleanPodPolicy="All"),
            [{"op": "add", "path": "/spec/runPolicy/suspend", "value": True}],
            id="in a queue of this cluster",
        ),
        pytest.param(
            {**training(), "spec": None},
            [
                {"op": "add", "path": "/spec", "value": {"runPolicy": {"suspend": True}}},
                {"op": "add", "path": "/spec/runPolicy/managedBy", "value": "kueue.x-k8s.io/multikueue"},
            ],
            id="a spec of nothing",
        ),
    ],
)
def test_a_new_job_of_a_declared_kind_gets_its_defaults(job: Tree, patch: list[Tree]) -> None:
    assert trained(job) == {**ALLOWED, "patchType": "JSONPatch", "patch": patch}


def test_a_manager_that_somebody_chose_stays() -> None:
    assert trained(training(suspend=True, managedBy="example.com/mine")) == ALLOWED


def test_the_rules_of_labels_hold_for_every_kind() -> None:
    assert not trained(training("Not A Name"))["allowed"]
    running, moved = training(suspend=False), training("local", suspend=False)
    assert "immutable while" in trained(moved, operation="UPDATE", old=running)["status"]["message"]
    assert trained(training("local", suspend=True), operation="UPDATE", old=training(suspend=True)) == ALLOWED


def test_a_kind_that_is_not_in_use_is_left_alone() -> None:
    assert response_in(review(review_of(training(), resource=PYTORCH), KNOWN)) == ALLOWED


def test_what_is_no_such_job_is_refused_by_its_kind() -> None:
    assert "the PyTorchJob can't be read" in trained({"metadata": 7})["status"]["message"]


# Pods.

PODS = {"group": "", "resource": "pods"}
WITH_PODS = Adapters((FRAMEWORKS["batch/job"], FRAMEWORKS["pod"]))


@pytest.mark.parametrize(
    ("owner", "held"),
    [
        (None, True),
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}, True),
        ({"apiVersion": "batch/v1", "kind": "Job", "controller": True}, False),
        ({"apiVersion": "batch/v1", "kind": "Job"}, True),
    ],
    ids=["nobody's", "that of what is no job", "that of a job", "owned by a job that does not control it"],
)
def test_a_pod_is_held_unless_a_job_of_a_kind_in_use_controls_it(owner: Tree | None, held: bool) -> None:
    metadata = {"name": "p", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    pod = {"metadata": metadata | ({"ownerReferences": [owner]} if owner else {}), "spec": {"containers": []}}
    answer = response_in(review(review_of(pod, resource=PODS), KNOWN, WITH_PODS))

    assert answer["allowed"]
    assert ("patch" in answer) is held
    assert "warnings" not in answer


WITH_SETS = Adapters((*WITH_PODS, FRAMEWORKS["statefulset"]), (TEMPLATES["statefulset"],))


@pytest.mark.parametrize("marked", [True, False], ids=["of one in a queue", "of one in none"])
def test_the_pods_of_a_stateful_set_are_held_one_by_one(marked: bool) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}
    metadata: Tree = {"name": "web-0", "labels": {"kueue.x-k8s.io/queue-name": "main"}, "ownerReferences": [owner]}
    if marked:
        metadata["annotations"] = {"kueue.x-k8s.io/pod-suspending-parent": "statefulset"}
    pod = {"metadata": metadata, "spec": {"containers": []}}

    assert ("patch" in response_in(review(review_of(pod, resource=PODS), KNOWN, WITH_SETS))) is marked


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_a_stateful_set_is_marked_whenever_it_is_written(operation: str) -> None:
    metadata = {"name": "web", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    body = {"metadata": metadata, "spec": {"template": {"metadata": {}}}}
    asked = review_of(body, old=body, operation=operation, resource={"group": "apps", "resource": "statefulsets"})

    assert len(response_in(review(asked, KNOWN, WITH_SETS))["patch"]) == 2


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_what_jobs_are_made_from_is_marked_whenever_it_is_written(operation: str) -> None:
    metadata = {"name": "d", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    body = {"metadata": metadata, "spec": {"template": {"metadata": {}}}}
    in_use = Adapters((FRAMEWORKS["batch/job"], FRAMEWORKS["pod"]), (TEMPLATES["deployment"],))
    asked = review_of(body, old=body, operation=operation, resource={"group": "apps", "resource": "deployments"})

    assert [each["path"] for each in response_in(review(asked, KNOWN, in_use))["patch"]] == [
        "/spec/template/metadata/labels",
        "/spec/template/metadata/annotations",
    ]


# Pods, and what makes them, that name no queue.

WITH_ALL = Adapters((*WITH_PODS, FRAMEWORKS["statefulset"]), (TEMPLATES["deployment"], TEMPLATES["statefulset"]))
DEPLOYMENTS = {"group": "apps", "resource": "deployments"}
MADE: Tree = {"metadata": {"name": "d"}, "spec": {"template": {"metadata": {}}}}


@pytest.mark.parametrize(
    ("owner", "held"),
    [
        (None, True),
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}, True),
        ({"apiVersion": "batch/v1", "kind": "Job", "controller": True}, False),
        ({"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True}, False),
    ],
    ids=["nobody's", "that of what is no job", "that of a job", "that of a StatefulSet in no queue"],
)
def test_a_pod_without_a_queue_gets_the_one_for_all(owner: Tree | None, held: bool) -> None:
    pod = {"metadata": {"name": "p"} | ({"ownerReferences": [owner]} if owner else {}), "spec": {"containers": []}}
    patch = response_in(review(review_of(pod, resource=PODS), DEFAULTING, WITH_ALL)).get("patch", [])

    assert [each["path"] for each in patch[:2]] == ["/metadata/labels", "/metadata/labels"] * held
    assert [each["value"] for each in patch[1:2]] == [LABEL | {"kueue.x-k8s.io/managed": "true"}] * held


@pytest.mark.parametrize(
    ("operation", "old", "moved"),
    [
        ("CREATE", None, True),
        ("UPDATE", MADE, False),
        ("UPDATE", MADE | {"metadata": {"name": "d", "labels": LABEL}}, True),
    ],
    ids=["a new one", "one that was there before", "one whose label is dropped"],
)
def test_what_pods_are_made_from_gets_the_queue_for_all(operation: str, old: Tree | None, moved: bool) -> None:
    asked = review_of(MADE, operation=operation, old=old, resource=DEPLOYMENTS)
    response = response_in(review(asked, DEFAULTING, WITH_ALL))

    assert response["allowed"]
    assert [each["path"] for each in response.get("patch", [])] == [
        "/metadata/labels",
        "/spec/template/metadata/labels",
        "/spec/template/metadata/annotations",
    ] * moved


def test_a_job_of_a_namespace_that_is_not_managed_is_let_through_as_it_is() -> None:
    known = AdmissionLookups(
        does_dispatch=dispatched, has_default=lambda _: True, is_managed=lambda namespace: namespace != "team"
    )
    assert response_in(review(review_of(queued()), known)) == ALLOWED
    assert response_in(review(review_of(QUEUED), known)) == ALLOWED
