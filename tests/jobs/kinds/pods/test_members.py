"""What a group of Pods is made of."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from multikueue.api.jobs.pod import GROUP_FAST_ANNOTATION
from multikueue.jobs.kinds.pods.members import able, has_missing, members_of, missing, parts, replaceable, role_hash
from tests.builders import job
from tests.jobs.kinds.pods.builders import OVER, RUNNING, group, member
from tests.jobs.kinds.pods.test_group import FAILED, role, statuses, workload_of

Tree = dict[str, Any]


def test_of_its_copy_those_are_missing_that_count_and_are_not_there() -> None:
    local = group(member("a", total=3), member("b", total=3, status=FAILED), member("c", total=3), member("d", total=3))

    assert [each.metadata.name for each in missing(local, None)] == ["a", "c", "d"]
    assert [each.metadata.name for each in missing(local, group(member("a"), member("b")))] == ["c", "d"]
    assert has_missing(local, group(member("a")))
    assert not has_missing(local, local)


def test_what_has_succeeded_need_not_be_there() -> None:
    assert not has_missing(statuses(OVER, RUNNING), group(member("b")))


def test_a_member_that_is_not_there_or_failed_is_to_be_replaced_by_one_of_its_role() -> None:
    whole = group(*(member(name, total=3, annotations=role(each)) for name, each in zip("abc", "xxy", strict=True)))
    _, second, third = whole.members
    room = workload_of(whole)
    failed = member("a", total=3, annotations=role("x"), status=FAILED)
    other = member("d", total=3, annotations=role("y"))
    assert [
        replaceable(group(*seen), room) for seen in (whole.members, (failed, second, third), (second, third, other))
    ] == [
        0,
        1,
        1,
    ]
    assert (able(whole), able(group(failed, second))) == (3, 1)
    assert replaceable(job("j").build(), room) is None


def test_of_a_group_that_is_admitted_early_members_may_be_to_come_but_not_all() -> None:
    early = {GROUP_FAST_ANNOTATION: "true"} | role("x")
    first = member("a", total=3, annotations=early)
    room = workload_of(group(first))
    failed = member("a", total=3, annotations=early, status=FAILED)
    second = member("b", total=3, annotations=early)
    assert [replaceable(group(*seen), room) for seen in ((first,), (failed,), (failed, second))] == [0, 1, 0]


def test_any_other_job_is_one_object() -> None:
    one = job("j").build()

    assert missing(one, None) == members_of(one) == (one,)
    assert list(parts(one, {"spec": {}})) == [(one, {"spec": {}})]


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
