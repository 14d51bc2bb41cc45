"""The cache, one file: newest wins, what is gone stays gone, every real change is told once."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.kueue.workload import Workload, workload_spec
from multikueue.api.meta import ObjectKey
from multikueue.errors import InvariantBroken
from multikueue.store.caches.cache import ByName, Cache
from tests.builders import workload


def seen(name: str = "a", version: int = 1, uid: str = "u1", **labels: str) -> Workload:
    return workload(name).uid(uid).version(version).labels(labels).build()


def by_key(items: Iterable[Workload]) -> dict[ObjectKey, Workload]:
    return {item.key: item for item in items}


class Told:
    """A cache with one index and the list of what it told."""

    def __init__(self) -> None:
        self.changes: list[str] = []
        self.cache: Cache[Workload] = Cache(self.note, indexes={"team": lambda w: w.metadata.labels.values()})

    def note(self, old: Workload | None, new: Workload | None) -> None:
        kind = "added" if old is None else "gone" if new is None else "changed"
        item = new or old
        assert item is not None
        self.changes.append(f"{kind} {item.metadata.name}")


def test_changes_are_told_once() -> None:
    told = Told()
    told.cache.upsert(seen(version=1))
    told.cache.upsert(seen(version=2))
    told.cache.remove(seen(version=3))
    assert told.changes == ["added a", "changed a", "gone a"]


@pytest.mark.parametrize("version", [1, 2], ids=["older", "the same"])
def test_an_event_that_is_not_newer_falls_off(version: int) -> None:
    told = Told()
    told.cache.upsert(seen(version=2))
    told.cache.upsert(seen(version=version))
    assert told.changes == ["added a"]


@pytest.mark.parametrize("version", [1, 2], ids=["an answer that the watch has told already", "a newer version"])
def test_a_spec_that_stays_the_same_is_kept_once(version: int) -> None:
    cache: Cache[Workload] = Cache()
    first, later = seen(version=1), seen(version=version, uid="u1")
    cache.upsert(first)
    cache.upsert(later)
    assert later.spec is first.spec


def test_a_spec_that_changes_is_kept_as_it_is() -> None:
    cache: Cache[Workload] = Cache()
    later = workload("a").uid("u1").version(2).queue("other").build()
    cache.upsert(seen(version=1))
    cache.upsert(later)
    assert workload_spec(later).queue_name == "other"


def test_what_we_deleted_does_not_come_back_by_a_late_event() -> None:
    told = Told()
    told.cache.upsert(seen(version=1))
    told.cache.remove(seen(version=1))
    told.cache.upsert(seen(version=2))
    assert len(told.cache) == 0
    told.cache.upsert(seen(version=3, uid="u2"))
    assert told.changes == ["added a", "gone a", "added a"]


def test_an_answer_that_comes_after_the_end_does_not_bring_the_object_back() -> None:
    """The answer to a delete shows the object as it was leaving; the watch may have told of its end before."""
    told = Told()
    told.cache.upsert(seen(version=1))
    told.cache.remove(seen(version=3))
    told.cache.upsert(seen(version=2))
    assert len(told.cache) == 0


def test_the_end_of_an_earlier_object_does_not_take_the_later_one_of_its_name() -> None:
    told = Told()
    told.cache.upsert(seen(version=5, uid="u2"))
    told.cache.remove(seen(version=4, uid="u1"))
    assert len(told.cache) == 1


def test_a_list_tells_what_was_missed() -> None:
    told = Told()
    for name in ("a", "b"):
        told.cache.upsert(seen(name, version=1, uid=name))
    told.changes.clear()
    told.cache.replace([seen("b", version=3, uid="b"), seen("c", version=2, uid="c")], 4)
    assert told.changes == ["gone a", "changed b", "added c"]


def test_what_is_newer_than_a_list_survives_it() -> None:
    """Our own write may be answered while a list from before it is still on its way."""
    told = Told()
    told.cache.upsert(seen("changed", version=1, uid="u2"))
    told.cache.upsert(seen("deleted", version=1, uid="u3"))
    told.cache.expect_list()
    told.cache.upsert(seen("made", version=9))
    told.cache.upsert(seen("changed", version=9, uid="u2"))
    told.cache.remove(seen("deleted", version=9, uid="u3"))
    told.cache.replace([seen("changed", version=7, uid="u2"), seen("deleted", version=7, uid="u3")], 8)
    assert {item.metadata.name: item.version for item in told.cache} == {"made": 9, "changed": 9}
    told.cache.expect_list()
    told.cache.replace([seen("changed", version=9, uid="u2")], 9)
    assert {item.metadata.name: item.version for item in told.cache} == {"changed": 9}


def test_what_came_while_a_list_was_asked_for_and_is_older_than_it_is_as_the_list_says() -> None:
    told = Told()
    told.cache.expect_list()
    told.cache.upsert(seen("gone", version=3))
    told.cache.upsert(seen("changed", version=3, uid="u2"))
    told.cache.replace([seen("changed", version=5, uid="u2")], 8)
    assert {item.metadata.name: item.version for item in told.cache} == {"changed": 5}


def test_what_came_while_a_list_was_asked_for_is_not_mixed_up_with_what_was_known_before() -> None:
    told = Told()
    told.cache.upsert(seen("a", version=1063))
    told.cache.upsert(seen("b", version=1064, uid="u2"))
    told.cache.expect_list()
    told.cache.upsert(seen("a", version=58))  # of a cluster that was restored from a backup
    told.cache.upsert(seen("b", version=59, uid="u2"))
    told.cache.replace([seen("a", version=58)], 58)
    assert [(each.metadata.name, each.version) for each in told.cache] == [("a", 58), ("b", 59)]


def test_others_have_turns_while_a_long_list_is_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.store.caches.cache.STEP", 2)
    told = Told()
    told.cache.replace([seen(f"old-{n}", uid=f"o{n}") for n in range(4)])
    told.changes.clear()
    steps = told.cache.replacing(by_key(seen(f"new-{n}", uid=f"n{n}") for n in range(4)), 2)
    assert [len(told.changes) for _ in steps] == [2, 4, 6, 8]


def test_what_is_told_while_a_long_list_is_taken_in_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """In whichever step: what the list has is as it was before."""
    for when in range(9):
        monkeypatch.setattr("multikueue.store.caches.cache.STEP", 1)
        told = Told()
        told.cache.replace([seen(name, uid=name) for name in ("dropped", "changed", "deleted")], 5)
        told.cache.expect_list()
        listed = [seen("changed", 7, uid="changed"), seen("deleted", 7, uid="deleted"), seen("more", 7, uid="more")]
        for step, _ in enumerate(told.cache.replacing(by_key(listed), 8)):
            if step == when:
                told.cache.upsert(seen("made", 9, uid="made"))
                told.cache.upsert(seen("changed", 9, uid="changed"))
                told.cache.remove(seen("deleted", 9, uid="deleted"))
        expected = {"changed": 9, "made": 9, "more": 7} if when < 6 else {"changed": 7, "deleted": 7, "more": 7}
        assert {item.metadata.name: item.version for item in told.cache} == expected, when


def test_the_newest_version_since_the_last_list_is_known() -> None:
    told = Told()
    told.cache.replace([seen(version=3)], 4)
    assert told.cache.newest() == 4
    for step, version in ((told.cache.upsert, 11), (told.cache.upsert, 8), (told.cache.remove, 13)):
        step(seen(version=version))
        assert told.cache.newest() == max(version, 11)
    told.cache.expect_list()
    told.cache.replace([], 2)
    assert told.cache.newest() == 2


def test_a_list_of_one_namespace_says_nothing_of_another() -> None:
    told = Told()
    for name, namespace in (("a", "one"), ("b", "two")):
        told.cache.upsert(workload(name, namespace=namespace).uid(name).version(5).build())
    told.cache.expect_list("one")
    told.cache.expect_list("two")
    told.cache.upsert(workload("c", namespace="two").uid("c").version(9).build())
    told.cache.replace([], 7, "one")
    assert [item.metadata.name for item in told.cache] == ["b", "c"]
    assert (told.cache.newest("one"), told.cache.newest("two")) == (7, 9)
    told.cache.replace([], 8, "two")
    assert [item.metadata.name for item in told.cache] == ["c"], "it came after the list of its namespace was asked for"


def test_a_list_wins_over_what_was_known_before_it_was_asked_for() -> None:
    """A store that was restored from a backup counts its versions from there, and has again what was deleted since."""
    told = Told()
    told.cache.upsert(seen("changed", version=100, uid="u1", team="new"))
    told.cache.upsert(seen("same", version=50, uid="u2"))
    told.cache.upsert(seen("made since", version=101, uid="u3"))
    told.cache.remove(seen("deleted since", version=102, uid="u4"))
    told.changes.clear()
    told.cache.expect_list()
    restored = [seen("changed", version=40, team="old"), seen("same", version=50, uid="u2")]
    told.cache.replace([*restored, seen("deleted since", version=30, uid="u4")], 60)
    assert sorted(told.changes) == ["added deleted since", "changed changed", "gone made since"]
    assert [item.version for item in told.cache.by("team", "old")] == [40]
    told.cache.upsert(seen("changed", version=61, team="next"))
    assert len(told.cache.by("team", "next")) == 1, "from then on what is newer is newer"


def test_an_index_follows() -> None:
    told = Told()
    told.cache.upsert(seen(version=1, team="red"))
    told.cache.upsert(seen(version=2, team="blue"))
    assert told.cache.by("team", "red") == ()
    assert [w.metadata.name for w in told.cache.by("team", "blue")] == ["a"]
    assert told.cache.keys_by("team", "blue") == tuple(w.key for w in told.cache.by("team", "blue"))
    told.cache.remove(seen(version=3))
    assert told.cache.by("team", "blue") == ()


events = st.lists(
    st.tuples(st.sampled_from(["upsert", "remove", "replace"]), st.sampled_from("abc"), st.sampled_from("xy")),
    max_size=30,
)


@given(events)
def test_listeners_could_rebuild_the_cache_from_what_they_were_told(steps: list[tuple[str, str, str]]) -> None:
    mirror: dict[str, Workload] = {}

    def follow(old: Workload | None, new: Workload | None) -> None:
        assert (old.metadata.name if old else None) in (None, *mirror)
        if new is None:
            assert old is not None
            del mirror[old.metadata.name]
        else:
            mirror[new.metadata.name] = new

    cache: Cache[Workload] = Cache(follow, indexes={"team": lambda w: w.metadata.labels.values()})
    for version, (verb, name, team) in enumerate(steps, 1):
        known = cache.get(ObjectKey("default", name))
        uid = known.metadata.uid if known else f"{name}{version}"
        item = seen(name, version=version, uid=uid, team=team)
        cache.replace([item], version) if verb == "replace" else getattr(cache, verb)(item)
        assert {w.metadata.name: w for w in cache} == mirror
        indexed = {w.metadata.name for value in "xy" for w in cache.by("team", value)}
        assert indexed == set(mirror)


def test_iterating_while_changing_is_safe() -> None:
    told = Told()
    told.cache.upsert(seen("a"))
    told.cache.upsert(seen("b", uid="u2"))
    for item in told.cache:
        told.cache.remove(msgspec.structs.replace(item))
    assert len(told.cache) == 0


def test_who_looks_on_is_told_after_the_owner_and_of_real_changes_only() -> None:
    told = Told()
    told.cache.observe(lambda old, new: told.changes.append(f"looked on: {old is not None}, {new is not None}"))
    told.cache.upsert(seen(version=2))
    told.cache.upsert(seen(version=1))
    told.cache.remove(seen(version=3))
    assert told.changes == ["added a", "looked on: False, True", "gone a", "looked on: True, False"]


def test_objects_by_name_are_those_of_now() -> None:
    cache: Cache[Workload] = Cache()
    by_name = ByName(cache)
    first = workload("a", namespace="").uid("u1").version(1).build()
    cache.upsert(first)
    assert dict(by_name) == {"a": first}
    assert (len(by_name), "b" in by_name, by_name.get("b")) == (1, False, None)
    cache.remove(first)
    assert not by_name


# Whoever is told may fail.


class Trouble(Exception):
    """What nobody foresaw."""


class Picky(Told):
    """One that does not take what is labelled so, after it has begun to."""

    def note(self, old: Workload | None, new: Workload | None) -> None:
        super().note(old, new)
        if new is not None and "bad" in new.metadata.labels.values():
            raise Trouble("too odd")


def test_a_new_object_that_nobody_can_take_in_is_set_aside() -> None:
    told = Picky()
    told.cache.upsert(seen(team="bad"))
    assert told.cache.get(seen().key) is None
    assert told.cache.by("team", "bad") == ()
    assert told.changes == ["added a", "gone a"]
    assert "too odd" in told.cache.unreadable[seen().key]


def test_one_that_was_fine_before_stays_as_it_was() -> None:
    told = Picky()
    told.cache.upsert(seen(version=1, team="x"))
    told.cache.upsert(seen(version=2, team="bad"))
    assert [w.version for w in told.cache.by("team", "x")] == [1]
    assert told.cache.unreadable.keys() == {seen().key}


@pytest.mark.parametrize("version", [2, 3], ids=["told of again", "changed"])
def test_it_is_tried_again_when_it_is_told_of_again(version: int) -> None:
    told = Picky()
    told.cache.upsert(seen(version=2, team="bad"))
    told.cache.upsert(seen(version=version, team="x"))
    assert told.cache.by("team", "x") == (seen(version=version, team="x"),)
    assert told.cache.unreadable == {}


@pytest.mark.parametrize("before", [None, "x"], ids=["a new one", "a change"])
def test_a_follower_that_fails_has_all_put_back_for_everybody(before: str | None) -> None:
    told, failing, late = Told(), Picky(), Told()
    for follower in (failing, late):
        told.cache.follow(follower.note)
    if before is not None:
        told.cache.upsert(seen(version=1, team=before))
    told.cache.upsert(seen(version=2, team="bad"))
    there = ["added a"] if before is not None else []
    there_and_back = [*there, "changed a", "changed a"] if before is not None else ["added a", "gone a"]
    assert told.changes == failing.changes == there_and_back
    assert late.changes == there
    assert [w.version for w in told.cache] == ([1] if before is not None else [])
    assert told.cache.unreadable.keys() == {seen().key}


def test_all_are_told_that_an_object_is_gone_be_it_that_one_of_them_fails() -> None:
    def failing(_old: object, new: object) -> None:
        if new is None:
            raise Trouble("too odd")

    cache, late = Cache[Workload](failing), Told()
    cache.follow(late.note)
    cache.upsert(seen(version=1))
    cache.remove(seen(version=2))
    assert late.changes == ["added a", "gone a"]
    assert len(cache) == 0


# Whoever looks on may fail, too: it is no part of the change.


class Onlooker(Told):
    """One whose every look fails, and what became of its failures."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[str] = []

    def look(self, old: Workload | None, new: Workload | None) -> None:
        self.note(old, new)
        raise OSError("database is locked")

    def failed(self, error: Exception) -> None:
        self.failures.append(str(error))
        raise OSError("nor can this be said")


def test_an_onlooker_that_fails_costs_nobody_anything() -> None:
    told, onlooker, late = Told(), Onlooker(), Told()
    told.cache.observe(onlooker.look, onlooker.failed)
    told.cache.observe(onlooker.look)
    told.cache.observe(late.note)
    told.cache.follow(late.note)
    told.cache.upsert(seen(version=1, team="x"))
    told.cache.upsert(seen(version=2, team="x"))
    told.cache.replace([seen("b", uid="u2", version=3)], 3)
    assert [w.metadata.name for w in told.cache] == ["b"]
    assert told.cache.unreadable == {}
    changes = ["added a", "changed a", "gone a", "added b"]
    assert told.changes == changes
    assert onlooker.changes == late.changes == [each for each in changes for _ in range(2)]
    assert onlooker.failures == ["database is locked"] * len(changes)


def test_an_onlooker_is_told_of_nothing_that_is_rolled_back() -> None:
    told, onlooker = Picky(), Told()
    told.cache.observe(onlooker.note)
    told.cache.upsert(seen(team="bad"))
    assert onlooker.changes == []


def test_an_onlooker_sees_the_change_as_made_by_all_who_follow() -> None:
    cache, order = Cache[Workload](), list[str]()
    cache.observe(lambda _old, new: order.append(f"looks, {len(cache)}"))
    cache.follow(lambda _old, new: order.append("decides"))
    cache.upsert(seen())
    assert order == ["decides", "looks, 1"]


def test_an_onlooker_is_told_what_is_gone_be_it_that_a_follower_fails() -> None:
    def failing(_old: object, new: object) -> None:
        if new is None:
            raise Trouble("too odd")

    cache, onlooker = Cache[Workload](failing), Told()
    cache.observe(onlooker.note)
    cache.upsert(seen(version=1))
    cache.remove(seen(version=2))
    assert onlooker.changes == ["added a", "gone a"]


def test_the_rest_of_a_list_is_taken_in() -> None:
    told = Picky()
    told.cache.replace([seen("a", uid="a"), seen("b", uid="b", team="bad"), seen("c", uid="c")], 1)
    assert [w.metadata.name for w in told.cache] == ["a", "c"]
    assert told.cache.unreadable.keys() == {seen("b").key}


def test_an_object_that_cannot_even_be_indexed_changes_nothing() -> None:
    told: list[object] = []
    cache: Cache[Workload] = Cache(
        lambda old, new: told.append((old, new)), indexes={"x": lambda w: [w.metadata.labels["x"]]}
    )
    cache.upsert(seen())
    assert (len(cache), told) == (0, [])
    assert "KeyError" in cache.unreadable[seen().key]


def test_a_bug_that_could_do_harm_is_not_swallowed() -> None:
    def broken(_old: object, _new: object) -> None:
        raise InvariantBroken("two at once")

    with pytest.raises(InvariantBroken):
        Cache[Workload](broken).upsert(seen())
