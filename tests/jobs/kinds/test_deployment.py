"""What the webhook makes of Deployments with a queue, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.jobs.pod import MANAGED_LABEL, PARENT_ANNOTATION
from multikueue.api.kueue.workload import PRIORITY_CLASS_LABEL, QUEUE_LABEL
from multikueue.api.meta import encode
from multikueue.jobs.kinds.deployment import DEPLOYMENT, SubmittedDeployment

Tree = dict[str, Any]


def seen(*, ready: int = 0, labels: Tree | None = None, template: Tree | None = None) -> SubmittedDeployment:
    body = {
        "metadata": {"name": "d", "labels": {QUEUE_LABEL: "main"} if labels is None else labels},
        "spec": {"template": {"metadata": {"labels": {"app": "web"}} if template is None else template}},
        "status": {"readyReplicas": ready} if ready else {},
    }
    return DEPLOYMENT.submitted(encode(body))  # type: ignore[arg-type]


def patched(job: SubmittedDeployment) -> Tree:
    return {patch["path"]: patch["value"] for patch in DEPLOYMENT.defaults(job, is_multikueue_queue=True)}


def test_its_pods_come_into_the_queue_and_say_whose_they_are() -> None:
    assert patched(seen()) == {
        "/spec/template/metadata/labels": {"app": "web", MANAGED_LABEL: "true", QUEUE_LABEL: "main"},
        "/spec/template/metadata/annotations": {PARENT_ANNOTATION: "deployment"},
    }


def test_a_template_that_says_all_that_stays_as_it_is() -> None:
    marked = {
        "labels": {MANAGED_LABEL: "true", QUEUE_LABEL: "main"},
        "annotations": {PARENT_ANNOTATION: "deployment"},
    }

    assert patched(seen(template=marked)) == {}
    assert patched(seen(labels={QUEUE_LABEL: "b"}, template=marked)) == {
        "/spec/template/metadata/labels": {MANAGED_LABEL: "true", QUEUE_LABEL: "b"}
    }


def test_its_priority_class_is_that_of_its_pods() -> None:
    patch = patched(seen(labels={QUEUE_LABEL: "main", PRIORITY_CLASS_LABEL: "high"}))

    assert patch["/spec/template/metadata/labels"][PRIORITY_CLASS_LABEL] == "high"


def test_without_a_queue_it_is_none_of_ours() -> None:
    assert patched(seen(labels={})) == {}


@pytest.mark.parametrize(
    ("new", "ready", "told"),
    [
        ({QUEUE_LABEL: "b"}, 0, None),
        ({QUEUE_LABEL: "b"}, 1, "immutable"),
        ({}, 0, "can be changed but not removed"),
        ({QUEUE_LABEL: "Main"}, 0, "expected a DNS subdomain name"),
    ],
    ids=["moved while none is ready", "moved while some are", "taken out of its queue", "a queue that is none"],
)
def test_its_queue_may_change_until_it_runs(new: Tree, ready: int, told: str | None) -> None:
    why = DEPLOYMENT.refusal(seen(labels=new, ready=ready), seen(ready=ready))

    assert why is None if told is None else why is not None and told in why
