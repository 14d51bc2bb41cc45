"""What a group of Pods is made of."""

from __future__ import annotations

from typing import Any

from multikueue.api.jobs.pod import GROUP_FAST_ANNOTATION
from multikueue.jobs.kinds.pods.members import able, has_missing, members_of, missing, parts, replaceable
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
