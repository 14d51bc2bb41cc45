"""Sizes, wherever a kind has them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakekube.builders import MERGE, TOYS, Bench, toy

SCALE = f"{TOYS}/a/scale"
JSON_PATCH = "application/json-patch+json"


@pytest.fixture
def toys(bench: Bench) -> Bench:
    bench.define()
    bench.make(TOYS, toy("a", spec={"size": 3}))
    return bench


def test_the_sizes_are_shown(toys: Bench) -> None:
    toys.patch(f"{TOYS}/a/status", {"status": {"size": 2}})
    scale = toys.get(SCALE)
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 2})
    assert scale["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ({"spec": {"replicas": 5}}, MERGE),
        ([{"op": "replace", "path": "/spec/replicas", "value": 5}], JSON_PATCH),
    ],
)
def test_a_size_is_patched(toys: Bench, body: Any, content_type: str) -> None:
    assert toys.patch(SCALE, body, content_type=content_type)["spec"] == {"replicas": 5}
    found = toys.get(f"{TOYS}/a")
    assert (found["spec"]["size"], found["metadata"]["generation"]) == (5, 2)


def test_a_size_is_replaced_if_the_version_is_right(toys: Bench) -> None:
    scale = toys.get(SCALE)
    assert toys.done("PUT", SCALE, {**scale, "spec": {"replicas": 7}})["spec"] == {"replicas": 7}
    toys.refused(409, "PUT", SCALE, {**scale, "spec": {"replicas": 8}})
    assert toys.done("PUT", SCALE, {"spec": {"replicas": 9}}, dryRun="All")["spec"] == {"replicas": 9}
    assert toys.get(SCALE)["spec"] == {"replicas": 7}


@pytest.mark.parametrize("size", [-1, "many"])
def test_sizes_that_are_none(toys: Bench, size: Any) -> None:
    refusal = toys.refused(422, "PATCH", SCALE, {"spec": {"replicas": size}}, content_type=MERGE)
    assert refusal["details"]["kind"] == "Scale"


def test_what_cannot_be_done_with_a_scale(toys: Bench) -> None:
    toys.refused(405, "DELETE", SCALE)
    toys.refused(415, "PATCH", SCALE, {}, content_type="application/apply-patch+yaml")
    toys.refused(400, "PATCH", SCALE, b"{", content_type=MERGE)
    toys.refused(404, "GET", f"{TOYS}/b/scale")
