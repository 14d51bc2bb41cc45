"""The role of a Pod: the hash that Kueue gives it."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from multikueue.jobs.kinds.pods.roles import role_hash

CONTAINER = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
SPEC = {"containers": [CONTAINER], "priority": 0}


def test_the_hash_is_that_of_the_shape_as_go_writes_it() -> None:
    """The text that is hashed, written out; that Kueue says the same is seen beside it (tests/real/test_pods.py)."""
    text = (
        '{"spec":{"affinity":null,"containers":[{"ports":null,"resources":{"requests":{"cpu":"1"}}}],'
        '"initContainers":null,"nodeSelector":null,"overhead":null,"priority":0,"resourceClaims":null,'
        '"runtimeClassName":null,"tolerations":null,"topologySpreadConstraints":null}}'
    )
    assert role_hash(SPEC) == sha256(text.encode()).hexdigest()[:8]


@pytest.mark.parametrize(
    "change",
    [
        {"nodeSelector": {"a": "b"}},
        {"priority": 7},
        {"tolerations": [{"operator": "Exists"}]},
        {"initContainers": [CONTAINER]},
        {"containers": [CONTAINER | {"resources": {"requests": {"cpu": "2"}}}]},
        {"containers": [CONTAINER | {"ports": [{"containerPort": 80}]}]},
        {"resources": {"requests": {"cpu": "1000"}}},
        {"resources": {"limits": {"cpu": "1000"}}},
    ],
    ids=[
        "where it may run",
        "priority",
        "tolerations",
        "an init container",
        "what it requests",
        "ports",
        "what the pod as a whole requests",
        "what bounds the pod as a whole",
    ],
)
def test_what_decides_about_admission_makes_another_role(change: dict[str, Any]) -> None:
    assert role_hash(SPEC | change) != role_hash(SPEC)


def test_a_sidecar_is_another_role_than_an_init_container() -> None:
    sidecar = CONTAINER | {"restartPolicy": "Always"}

    assert role_hash(SPEC | {"initContainers": [sidecar]}) != role_hash(SPEC | {"initContainers": [CONTAINER]})


@pytest.mark.parametrize(
    "same",
    [
        {"restartPolicy": "Never"},
        {"containers": [CONTAINER | {"image": "y", "resources": CONTAINER["resources"] | {"limits": {"cpu": "9"}}}]},  # type: ignore[operator]
        {"tolerations": []},
        {"nodeSelector": {}},
    ],
    ids=["restart policy", "image and limits", "an empty list", "an empty map"],
)
def test_what_does_not_decide_leaves_the_role(same: dict[str, Any]) -> None:
    assert role_hash(SPEC | same) == role_hash(SPEC)


def test_maps_are_told_apart_by_what_is_in_them_and_not_by_their_order() -> None:
    one, other = ({"nodeSelector": dict(pairs)} for pairs in ([("a", "<"), ("b", "2")], [("b", "2"), ("a", "<")]))

    assert role_hash(SPEC | one) == role_hash(SPEC | other)
