"""Groups of Pods, gathered from the Pods of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import msgspec
import pytest

from multikueue.api.jobs.pod import GROUP_ANNOTATION, GROUP_LABEL, Pod, PodGroup
from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION
from multikueue.api.meta import ObjectKey
from multikueue.store.caches.cache import Cache
from multikueue.store.caches.groups import Groups, group_key
from multikueue.testing import NOW
from tests.jobs.kinds.pods.builders import member, pod

KEY = ObjectKey("default", "g")


class Counted(Cache[Pod]):
    """Counts the members that somebody looked at."""

    looked_at = 0

    def by(self, index: str, value: Hashable) -> tuple[Pod, ...]:
        found = super().by(index, value)
        self.looked_at += len(found)
        return found


def gathered(*, copies: bool = False) -> tuple[Cache[Pod], Cache[PodGroup]]:
    pods: Cache[Pod] = Cache(indexes={"group": group_key})
    return pods, Groups(pods, are_copies=copies)


def changed(seen: Pod, *, version: str = "9", **metadata: Any) -> Pod:
    return msgspec.structs.replace(
        seen, metadata=msgspec.structs.replace(seen.metadata, resource_version=version, **metadata)
    )


def known(groups: Cache[PodGroup]) -> PodGroup:
    found = groups.get(KEY)
    assert found is not None
    return found


def test_a_group_has_its_members_and_a_pod_of_none_makes_none() -> None:
    pods, groups = gathered()
    for each in (member("b"), pod("x"), member("a")):
        pods.upsert(each)

    assert [each.metadata.name for each in known(groups).members] == ["a", "b"]
    assert len(groups) == 1


def test_members_are_found_by_annotation_too() -> None:
    pods, groups = gathered()
    for each in (member("a"), member("b", labels={GROUP_LABEL: "other"}, annotations={GROUP_ANNOTATION: "g"})):
        pods.upsert(each)

    assert [each.metadata.name for each in known(groups).members] == ["a", "b"]
    assert len(groups) == 1


def test_a_list_of_many_members_looks_at_each_once() -> None:
    pods = Counted(indexes={"group": group_key})
    groups = Groups(pods)
    pods.replace([member(f"m{number}") for number in range(4000)])
    assert pods.looked_at == 0
    assert len(known(groups).members) == 4000
    assert (len(groups), len(tuple(groups)), groups.get(KEY)) == (1, 1, known(groups))
    assert pods.looked_at == 4000


@pytest.mark.parametrize(
    "asked",
    [lambda groups: groups.get(KEY), lambda groups: groups.by("name", "g"), tuple, len],
    ids=["by its key", "by an index", "for all", "how many there are"],
)
def test_whoever_asks_has_it_as_its_members_are(asked: Callable[[Groups], object]) -> None:
    told: list[tuple[PodGroup | None, PodGroup | None]] = []
    pods: Cache[Pod] = Cache(indexes={"group": group_key})
    groups = Groups(
        pods, lambda old, new: told.append((old, new)), indexes={"name": lambda group: (group.metadata.name,)}
    )
    pods.upsert(member("a"))
    pods.upsert(member("b"))
    assert not told

    asked(groups)

    assert [(old, new and len(new.members)) for old, new in told] == [(None, 2)]


def test_it_is_another_one_with_other_members_and_the_same_whatever_becomes_of_them() -> None:
    pods, groups = gathered()
    pods.upsert(member("a"))
    alone = known(groups).metadata
    pods.upsert(changed(member("a"), labels={**member("a").metadata.labels, "x": "y"}))
    still = known(groups).metadata
    pods.upsert(member("b"))
    both = known(groups).metadata

    assert (alone.uid, alone.generation) == (still.uid, still.generation)
    assert still.labels["x"] == "y"
    assert both.uid != still.uid
    assert both.generation != still.generation


def test_it_goes_with_its_last_member_and_comes_back_with_the_very_same() -> None:
    pods, groups = gathered()
    pods.upsert(member("a"))
    pods.replace(())
    assert groups.get(KEY) is None
    pods.replace((member("a"),))
    assert len(known(groups).members) == 1


def test_it_is_being_deleted_when_all_its_members_are() -> None:
    pods, groups = gathered()
    for each in (member("a"), member("b")):
        pods.upsert(each)
    pods.upsert(changed(member("a"), deletion_timestamp=NOW))
    assert known(groups).metadata.deletion_timestamp is None
    pods.upsert(changed(member("b"), deletion_timestamp=NOW))
    assert known(groups).metadata.deletion_timestamp == NOW


def test_a_copy_that_is_kept_is_not_leaving_yet() -> None:
    pods, groups = gathered(copies=True)
    pods.upsert(changed(member("a"), deletion_timestamp=NOW))
    assert known(groups).metadata.deletion_timestamp is None
    pods.upsert(changed(member("a"), version="10", deletion_timestamp=NOW, finalizers=()))
    assert known(groups).metadata.deletion_timestamp == NOW


def test_it_is_of_an_attempt_if_all_its_members_are() -> None:
    pods, groups = gathered()
    pods.upsert(member("a", annotations={ATTEMPT_ANNOTATION: "1"}))
    assert known(groups).metadata.annotations[ATTEMPT_ANNOTATION] == "1"
    pods.upsert(member("b", annotations={ATTEMPT_ANNOTATION: "2"}))
    assert known(groups).metadata.annotations[ATTEMPT_ANNOTATION] == ""


def test_a_group_that_was_set_aside_and_goes_is_set_aside_no_more() -> None:
    def picky(_old: PodGroup | None, new: PodGroup | None) -> None:
        if new is not None:
            raise ValueError("odd")

    pods: Cache[Pod] = Cache(indexes={"group": group_key})
    groups = Groups(pods, picky)
    pods.upsert(member("a"))
    assert groups.get(KEY) is None
    assert groups.unreadable.keys() == {KEY}

    pods.remove(member("a"))
    assert groups.get(KEY) is None
    assert groups.unreadable == {}


QUESTIONS: dict[str, Callable[[Cache[PodGroup]], object]] = {
    "len": len,
    "iter": lambda groups: [each.key for each in groups],
    "all_keys": lambda groups: groups.all_keys(),
    "going_on": lambda groups: [each.key for each in groups.going_on()],
    "get": lambda groups: groups.get(KEY) is not None,
    "by": lambda groups: [each.key for each in groups.by("team", "a")],
    "keys_by": lambda groups: groups.keys_by("team", "a"),
    "named": lambda groups: groups.named("team"),
}
ANSWERS = {"len": 1, "get": True, "named": ("a",)}


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_is_answered_by_the_members_of_now(question: str) -> None:
    """Whichever comes first after a change: none may see the groups of before."""
    pods: Cache[Pod] = Cache(indexes={"group": group_key})
    groups = Groups(pods, indexes={"team": lambda _group: ["a"]})
    pods.upsert(member("x"))
    assert QUESTIONS[question](groups) in (ANSWERS.get(question), [KEY], (KEY,))
