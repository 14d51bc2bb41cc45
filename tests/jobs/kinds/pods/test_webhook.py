"""What the webhook makes of Pods with a queue, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from multikueue.api.jobs.pod import (
    ADMISSION_GATE,
    GROUP_ANNOTATION,
    GROUP_COUNT_ANNOTATION,
    GROUP_LABEL,
    MANAGED_LABEL,
    PARENT_ANNOTATION,
    POD_FINALIZER,
    POD_INDEX_LABEL,
    POD_INDEX_LABEL_ANNOTATION,
    ROLE_HASH_ANNOTATION,
    TOPOLOGY_GATE,
)
from multikueue.api.kueue.workload import PREBUILT_ANNOTATION, PREBUILT_LABEL, QUEUE_LABEL
from multikueue.api.meta import encode
from multikueue.jobs.kinds.pods.members import role_hash
from multikueue.jobs.kinds.pods.pod import PlainPod
from multikueue.jobs.kinds.pods.webhook import SubmittedPod, default_pod, read_pod, refusal
from tests.jobs.kinds.pods import builders as pods

Tree = dict[str, Any]


def bare(**metadata: Any) -> Tree:
    """A Pod as a user writes it."""
    return {
        "metadata": {"name": "p", "namespace": "default", "labels": {QUEUE_LABEL: "main"}} | metadata,
        "spec": pods.spec(gated=False),
    }


def seen(body: Tree) -> SubmittedPod:
    return read_pod(encode(body))


def patched(body: Tree) -> Tree:
    """What the patch says, by place."""
    patches = default_pod(seen(body))
    assert {patch["op"] for patch in patches} <= {"add"}
    return {patch["path"]: patch["value"] for patch in patches}


def test_a_pod_is_held_marked_and_kept_until_its_end_was_seen() -> None:
    patch = patched(bare())

    assert patch["/spec/schedulingGates"] == [{"name": ADMISSION_GATE}, {"name": TOPOLOGY_GATE}]
    assert patch["/metadata/labels"] == {QUEUE_LABEL: "main", MANAGED_LABEL: "true"}
    assert patch["/metadata/finalizers"] == [POD_FINALIZER]
    assert len(patch["/metadata/annotations"][ROLE_HASH_ANNOTATION]) == 8


def test_what_is_there_stays() -> None:
    role = patched(bare())["/metadata/annotations"][ROLE_HASH_ANNOTATION]
    body = bare(finalizers=["a/b"], annotations={"note": "x", ROLE_HASH_ANNOTATION: role})
    body["spec"]["schedulingGates"] = [{"name": "mine"}]
    patch = patched(body)

    assert patch["/metadata/finalizers"] == ["a/b", POD_FINALIZER]
    assert [gate["name"] for gate in patch["/spec/schedulingGates"]] == ["mine", ADMISSION_GATE, TOPOLOGY_GATE]
    assert "/metadata/annotations" not in patch


def test_a_pod_that_says_all_that_by_itself_is_left_as_it_is() -> None:
    body = pods.body()
    body["metadata"]["annotations"] = {ROLE_HASH_ANNOTATION: role_hash(body["spec"])}

    assert default_pod(seen(body)) == []


def test_a_role_of_its_own_choice_gives_way_to_that_of_what_it_asks_for() -> None:
    patch = patched(bare(annotations={"note": "x", ROLE_HASH_ANNOTATION: "main"}))

    assert patch["/metadata/annotations"] == {"note": "x", ROLE_HASH_ANNOTATION: role_hash(bare()["spec"])}


def test_a_parent_that_controls_nothing_lends_no_role() -> None:
    marks = {PARENT_ANNOTATION: "leaderworkerset", ROLE_HASH_ANNOTATION: "leader"}
    owner = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "l", "controller": True}

    assert patched(bare(annotations=marks))["/metadata/annotations"][ROLE_HASH_ANNOTATION] != "leader"
    assert "/metadata/annotations" not in patched(bare(annotations=marks, ownerReferences=[owner]))


def test_the_role_of_a_member_cannot_change() -> None:
    before, after = (pods.body(labels={GROUP_LABEL: "g"}) for _ in range(2))
    for body, role in ((before, "cafe"), (after, "main")):
        body["metadata"]["annotations"] = {GROUP_COUNT_ANNOTATION: "2", ROLE_HASH_ANNOTATION: role}

    assert refusal(seen(after), seen(before)) == f"metadata.annotations[{ROLE_HASH_ANNOTATION}]: immutable"
    assert refusal(seen(before), seen(before)) is None


def test_one_without_a_queue_is_left_alone() -> None:
    assert default_pod(seen(bare(labels=None))) == []


def test_the_label_that_numbers_it_is_told_by_its_name() -> None:
    body = bare(annotations={POD_INDEX_LABEL_ANNOTATION: "rank"}, labels={QUEUE_LABEL: "main", "rank": "3"})

    assert patched(body)["/metadata/labels"][POD_INDEX_LABEL] == "3"


def test_who_controls_it_is_read() -> None:
    owners = [{"apiVersion": "v1", "kind": "X"}, {"apiVersion": "batch/v1", "kind": "Job", "controller": True}]

    controller = seen(bare(ownerReferences=owners)).controller
    assert controller is not None
    assert (controller.api_version, controller.kind) == ("batch/v1", "Job")
    assert seen(bare()).controller is None


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({}, None),
        ({MANAGED_LABEL: "true"}, None),
        ({MANAGED_LABEL: "yes"}, "expected 'true', got 'yes'"),
        ({QUEUE_LABEL: "Main"}, "expected a DNS subdomain name"),
        ({GROUP_LABEL: "g"}, "expected a number greater than 0, got None"),
    ],
    ids=[
        "nothing more",
        "marked",
        "marked otherwise",
        "a queue that is none",
        "a member of a group of nobody knows how many",
    ],
)
def test_what_must_not_be_is_refused(labels: Tree, told: str | None) -> None:
    why = refusal(seen(bare(labels={QUEUE_LABEL: "main"} | labels)))

    assert why is None if told is None else why is not None and told in why


def test_the_queue_of_a_pod_changes_only_while_it_is_held() -> None:
    def moved(*, gated: bool, queue: str) -> SubmittedPod:
        return seen(pods.body(gated=gated, labels={QUEUE_LABEL: queue}))

    assert refusal(moved(gated=True, queue="b"), moved(gated=True, queue="a")) is None
    assert "immutable" in (refusal(moved(gated=False, queue="b"), moved(gated=False, queue="a")) or "")


@pytest.mark.parametrize(
    ("labels", "total", "told"),
    [
        ({GROUP_LABEL: "g"}, "2", None),
        ({GROUP_LABEL: "g"}, "0", "expected a number greater than 0"),
        ({GROUP_LABEL: "G"}, "2", "expected a DNS subdomain name"),
        ({}, "2", "required with"),
        ({GROUP_LABEL: "g", PREBUILT_LABEL: "g"}, "2", "a group has the Workload that is made for it"),
    ],
    ids=["a group of two", "of none", "of no name", "without a name", "with a Workload of one's own"],
)
def test_a_group_has_a_name_and_a_number(labels: Tree, total: str, told: str | None) -> None:
    body = bare(labels={QUEUE_LABEL: "main"} | labels, annotations={GROUP_COUNT_ANNOTATION: total})
    why = refusal(seen(body))

    assert why is None if told is None else why is not None and told in why


def test_a_group_does_not_name_a_workload_by_annotation_either() -> None:
    annotations = {GROUP_COUNT_ANNOTATION: "2", PREBUILT_ANNOTATION: "g"}
    why = refusal(seen(bare(labels={QUEUE_LABEL: "main", GROUP_LABEL: "g"}, annotations=annotations)))

    assert why is not None
    assert f"annotations[{PREBUILT_ANNOTATION}]: a group has the Workload that is made for it" in why


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({GROUP_ANNOTATION: "g" * 64, GROUP_COUNT_ANNOTATION: "2"}, None),
        ({GROUP_ANNOTATION: "g"}, f"annotations[{GROUP_COUNT_ANNOTATION}]: expected a number greater than 0, got None"),
        ({GROUP_ANNOTATION: "G", GROUP_COUNT_ANNOTATION: "2"}, f"annotations[{GROUP_ANNOTATION}]: expected a DNS"),
    ],
    ids=["with a name too long for a label", "of nobody knows how many", "of no name"],
)
def test_a_group_may_be_named_by_annotation(annotations: Tree, told: str | None) -> None:
    why = refusal(seen(bare(annotations=annotations)))

    assert why is None if told is None else why is not None and told in why


def test_before_kueue_0_18_an_annotation_names_no_group() -> None:
    body = bare(annotations={GROUP_ANNOTATION: "g", GROUP_COUNT_ANNOTATION: "2"})
    read = PlainPod(has_identifier_annotations=False).submitted(Raw(encode(body)))

    assert refusal(read) == f"metadata.labels[{GROUP_LABEL}]: required with {GROUP_COUNT_ANNOTATION}"


def test_a_member_does_not_come_into_another_group_by_annotation() -> None:
    labels, total = {QUEUE_LABEL: "main", GROUP_LABEL: "a"}, {GROUP_COUNT_ANNOTATION: "2"}
    old = seen(bare(labels=labels, annotations=total))
    same, other = (seen(bare(labels=labels, annotations=total | {GROUP_ANNOTATION: name})) for name in "ab")

    assert refusal(same, old) is None
    assert refusal(other, old) == f"metadata.annotations[{GROUP_ANNOTATION}]: immutable"


def test_a_member_stays_in_its_group() -> None:
    def of(group: str) -> SubmittedPod:
        return seen(bare(labels={QUEUE_LABEL: "main", GROUP_LABEL: group}, annotations={GROUP_COUNT_ANNOTATION: "2"}))

    assert refusal(of("a"), of("a")) is None
    assert "immutable" in (refusal(of("b"), of("a")) or "")
