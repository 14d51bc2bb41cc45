"""StatefulSets at the admission webhook."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multikueue.api.jobs.pod import PARENT_ANNOTATION
from multikueue.api.kueue.workload import PREBUILT_LABEL, QUEUE_LABEL
from multikueue.api.meta import encode
from multikueue.jobs.kinds.deployment import SubmittedDeployment
from multikueue.jobs.kinds.stateful_set.adapter import STATEFUL_SET
from tests.jobs.kinds.stateful_set.test_adapter import MARK, body, made

Tree = dict[str, Any]


def submitted(*, status: Tree | None = None, **more: Any) -> SubmittedDeployment:
    return STATEFUL_SET.submitted(msgspec.Raw(encode(body(**more) | {"status": status or {}})))


def patched(job: SubmittedDeployment) -> Tree:
    return {patch["path"]: patch["value"] for patch in STATEFUL_SET.defaults(job, is_multikueue_queue=True)}


def test_its_pods_say_whose_they_are_and_come_to_the_webhook() -> None:
    assert patched(submitted(annotations={})) == {
        "/spec/template/metadata/labels": {"app": "web", QUEUE_LABEL: "main"},
        "/spec/template/metadata/annotations": MARK,
    }
    assert patched(submitted(labels={}, annotations={})) == {}


def test_what_another_kind_has_made_is_left_alone() -> None:
    theirs = {PARENT_ANNOTATION: "leaderworkerset"}

    assert patched(submitted(annotations=theirs)) == {}
    changed = submitted(annotations=theirs, replicas=3)
    assert STATEFUL_SET.refusal(changed, submitted(annotations=theirs)) is None
    assert STATEFUL_SET.queue_name(made(annotations=theirs)) == ""


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (submitted(), None),
        (submitted(name="n" * 45), None),
        (submitted(name="n" * 46), "at most 45 characters"),
        (submitted(labels={QUEUE_LABEL: "Main"}), "expected a DNS subdomain name"),
        (submitted(labels={QUEUE_LABEL: "main", PREBUILT_LABEL: "mine"}), "the Workload that is made for it"),
    ],
    ids=["one", "a long name", "too long a name", "a queue that is none", "a Workload of the user's"],
)
def test_what_must_not_be_is_refused(job: SubmittedDeployment, told: str | None) -> None:
    why = STATEFUL_SET.refusal(job)

    assert why is None if told is None else why is not None and told in why


@pytest.mark.parametrize(
    ("change", "status", "told"),
    [
        ({"image": "y"}, {"readyReplicas": 2}, None),
        ({"cpu": "2"}, {}, "what decides about its admission"),
        ({"replicas": 3}, {}, "only to and from 0"),
        ({"replicas": 0}, {"readyReplicas": 2}, None),
        ({"labels": {QUEUE_LABEL: "b"}}, {}, None),
        ({"labels": {QUEUE_LABEL: "b"}}, {"readyReplicas": 1}, "immutable"),
        ({"labels": {}}, {}, "can be changed but not removed"),
    ],
    ids=[
        "another image",
        "other requests",
        "another size",
        "down to zero",
        "moved while none is ready",
        "moved while some are",
        "out of its queue",
    ],
)
def test_what_its_workload_was_made_from_stays(change: Tree, status: Tree, told: str | None) -> None:
    why = STATEFUL_SET.refusal(submitted(**change), submitted(status=status))

    assert why is None if told is None else why is not None and told in why


@pytest.mark.parametrize(("left", "told"), [(0, None), (1, "still in progress")])
def test_it_is_scaled_up_from_zero_once_none_is_left(left: int, told: str | None) -> None:
    why = STATEFUL_SET.refusal(submitted(status={"replicas": left}), submitted(replicas=0))

    assert why is None if told is None else why is not None and told in why
