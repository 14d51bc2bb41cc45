from __future__ import annotations

import pytest

from multikueue.jobs.kinds.app_wrapper.template_defaults import completed
from tests.jobs.all_kinds import template


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("x", "Always"),
        ("x:latest", "Always"),
        ("host:5000/x", "Always"),
        ("host:5000/x:1", "IfNotPresent"),
        ("x@sha256:abc", "IfNotPresent"),
        ("x:latest@sha256:abc", "Always"),
    ],
)
def test_what_may_be_another_image_tomorrow_is_pulled_again(image: str, policy: str) -> None:
    assert completed(template(image))["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_what_is_said_stays_and_patience_of_its_own_goes() -> None:
    found = completed({"metadata": {"labels": {"a": "b"}, "name": "x"}, "spec": {"terminationGracePeriodSeconds": 5}})
    assert found["metadata"] == {"labels": {"a": "b"}}
    assert "terminationGracePeriodSeconds" not in found["spec"]
    assert completed({"spec": {"schedulerName": "own"}})["spec"]["schedulerName"] == "own"


def test_init_containers_are_completed_too() -> None:
    spec = {"initContainers": [{"name": "i", "terminationMessagePolicy": "FallbackToLogsOnError"}], "containers": []}
    (container,) = completed({"spec": spec})["spec"]["initContainers"]
    assert (container["terminationMessagePolicy"], container["resources"]) == ("FallbackToLogsOnError", {})
