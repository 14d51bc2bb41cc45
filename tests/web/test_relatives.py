"""What is passed on of a worker's pods, whatever it says."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.kubernetes.printed import DEFAULT_CONTAINER_ANNOTATION, POD_SET_LABEL, PrintedEvent, PrintedPod
from multikueue.api.meta import decoder, encode
from multikueue.web.relatives import MOST_CONTAINERS, shown_event, shown_pod

Tree = dict[str, Any]

META = {"name": "p", "namespace": "team", "uid": "u", "creationTimestamp": "2026-01-01T12:00:00Z"}
ENDED = {"terminated": {"exitCode": 3, "reason": "Error", "signal": 9}}
WAITS = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
WHOLE: Tree = {
    "metadata": {**META, "labels": {POD_SET_LABEL: "main"}, "annotations": {DEFAULT_CONTAINER_ANNOTATION: "a"}},
    "spec": {"nodeName": "n", "initContainers": [{"name": "i"}], "containers": [{"name": "a"}, {"name": "b"}]},
    "status": {
        "phase": "Failed",
        "reason": "Evicted",
        "podIP": "10.0.0.1",
        "initContainerStatuses": [{"name": "i", "ready": True, "restartCount": 0, "state": {"running": {}}}],
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}],
        "containerStatuses": [
            {"name": "a", "image": "x", "restartCount": 2, "state": ENDED},
            {"name": "b", "state": WAITS},
        ],
    },
}


def pod(body: Tree) -> PrintedPod:
    return decoder(PrintedPod)(encode(body))


def test_all_that_people_look_at_is_shown() -> None:
    assert shown_pod(pod(WHOLE)) == pod(WHOLE)


def test_what_a_container_wrote_at_its_end_is_not() -> None:
    told = {"terminated": {**ENDED["terminated"], "message": "the password is dear"}}
    status = {**WHOLE["status"], "containerStatuses": [{"name": "a", "image": "x", "state": told}]}
    assert "dear" not in encode(shown_pod(pod({**WHOLE, "status": status}))).decode()


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"labels": {POD_SET_LABEL: "main", "team": "x"}}, id="other labels"),
        pytest.param({"annotations": {DEFAULT_CONTAINER_ANNOTATION: "a", "secret": "x"}}, id="other annotations"),
        pytest.param({"resourceVersion": "7", "finalizers": ["f"], "ownerReferences": [{"name": "x"}]}, id="the rest"),
        pytest.param({"deletionTimestamp": "9999-12-31T23:59:59Z"}, id="an impossible time"),
    ],
)
def test_nothing_else_is(more: Tree) -> None:
    assert shown_pod(pod({**WHOLE, "metadata": WHOLE["metadata"] | more})) == pod(WHOLE)


def test_texts_and_lists_have_an_end() -> None:
    long = "x" * 10_000
    many = [{"name": long, "state": {"waiting": {"reason": long}}}] * (10 * MOST_CONTAINERS)
    status: Tree = dict.fromkeys(("phase", "reason", "podIP"), long)
    status |= dict.fromkeys(("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"), many)
    spec = {"nodeName": long, **dict.fromkeys(("initContainers", "containers", "ephemeralContainers"), many)}
    meta = {**dict.fromkeys(("name", "namespace", "uid"), long), "labels": {POD_SET_LABEL: long}}
    shown = shown_pod(pod({"metadata": meta, "spec": spec, "status": status}))
    assert len(shown.spec.containers) == len(shown.status.container_statuses) == MOST_CONTAINERS
    assert len(encode(shown)) < 6 * MOST_CONTAINERS * 1000


ABOUT = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
AT = "2026-01-01T12:00:00Z"
TOLD: Tree = {
    "metadata": META,
    "involvedObject": ABOUT,
    "type": "Warning",
    "reason": "BackOff",
    "message": "again",
    "count": 3,
    "firstTimestamp": AT,
    "lastTimestamp": AT,
    "eventTime": AT,
    "series": {"lastObservedTime": AT, "count": 4},
}


def event(body: Tree) -> PrintedEvent:
    return decoder(PrintedEvent)(encode(body))


def test_an_event_is_shown_as_it_was_told() -> None:
    assert shown_event(event(TOLD)) == event(TOLD)
    assert shown_event(event({**TOLD, "series": None})) == event({**TOLD, "series": None})


def test_an_event_without_end_is_cut_and_impossible_times_are_dropped() -> None:
    long = "x" * 10_000
    texts = dict.fromkeys(("type", "reason", "message"), long)
    times = dict.fromkeys(("firstTimestamp", "lastTimestamp", "eventTime"), "9999-12-31T23:59:59Z")
    shown = shown_event(event({**TOLD, **texts, **times, "involvedObject": dict.fromkeys(ABOUT, long)}))
    assert len(encode(shown)) < 5000
    assert (shown.first_timestamp, shown.last_timestamp, shown.event_time) == (None, None, None)
