"""What is read of Pods."""

from __future__ import annotations

from multikueue.api.jobs.pod import (
    ADMISSION_GATE,
    GROUP_ANNOTATION,
    GROUP_LABEL,
    TOPOLOGY_GATE,
    Pod,
    group_of,
    pod_spec,
    pod_status,
)
from multikueue.api.meta import ObjectMeta, decoder, encode

BODY = {
    "spec": {"schedulingGates": [{"name": ADMISSION_GATE}], "priorityClassName": "high", "containers": []},
    "status": {
        "phase": "Pending",
        "startTime": None,
        "conditions": [
            {"type": "PodScheduled", "status": "False", "lastTransitionTime": None},
            {"type": "Initialized", "status": "True"},
        ],
    },
}


def test_what_holds_a_pod_and_how_far_it_came_is_read_whatever_is_null() -> None:
    pod = decoder(Pod)(encode(BODY))

    assert pod_spec(pod).has_gate(ADMISSION_GATE)
    assert not pod_spec(pod).has_gate(TOPOLOGY_GATE)
    assert pod_spec(pod).priority_class_name == "high"
    assert (pod_status(pod).phase, pod_status(pod).start_time) == ("Pending", None)
    assert pod_status(pod).has("Initialized")
    assert not pod_status(pod).has("PodScheduled")


def test_the_group_of_a_pod_is_named_by_annotation_before_its_label() -> None:
    label, annotation = {GROUP_LABEL: "by-label"}, {GROUP_ANNOTATION: "by-annotation"}

    assert group_of(ObjectMeta()) == ""
    assert group_of(ObjectMeta(labels=label)) == "by-label"
    assert group_of(ObjectMeta(annotations=annotation)) == "by-annotation"
    assert group_of(ObjectMeta(labels=label, annotations=annotation)) == "by-annotation"
    assert group_of(ObjectMeta(labels=label, annotations={GROUP_ANNOTATION: ""})) == "by-label"
