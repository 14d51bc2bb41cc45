"""Objects, their versions, and the history between them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.model.storage import Change, Compacted, Revisions, Storage, key_of

TOYS = "toys.example.com"


def item(name: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": name}, **content}


def names(storage: Storage, namespace: str = "", **options: Any) -> list[str]:
    return [version.key for version in storage.select(TOYS, namespace, **options)]


def test_each_write_has_a_version_of_its_own_over_all_resources() -> None:
    storage = Storage()
    first = storage.put(TOYS, "n/a", item("a"))
    other = storage.put("games.example.com", "n/a", item("a"))
    second = storage.put(TOYS, "n/a", item("a", size=2))
    gone = storage.remove(TOYS, "n/a")
    assert [each.rv for each in (first, other, second, gone)] == [2, 3, 4, 5]
    assert storage.rv == 5
    assert storage.get(TOYS, "n/a") is None


def test_stores_with_one_counter_tell_what_came_first() -> None:
    revisions = Revisions()
    one, other = Storage(revisions=revisions), Storage(revisions=revisions)
    written = [store.put(TOYS, key, item(key)).rv for key, store in (("a", one), ("b", other), ("c", one))]
    assert written == [2, 3, 4]
    assert one.rv == other.rv == 4
    assert [change.version.rv for change in one.since(TOYS, 2)] == [4]
    assert [version.key for version in one.select_at(TOYS, 3)] == ["a"]


def test_an_object_says_its_version_and_what_was_given_is_not_touched() -> None:
    given_ = item("a", spec={"deep": {"size": 1}})
    storage = Storage()
    stored = storage.put(TOYS, "n/a", given_).object
    assert stored["metadata"] == {"name": "a", "resourceVersion": "2"}
    assert given_["metadata"] == {"name": "a"}
    assert stored["spec"] is given_["spec"], "unchanged parts are shared"


def test_a_deletion_shows_the_last_state_under_a_new_version() -> None:
    storage = Storage()
    storage.put(TOYS, "n/a", item("a", size=7))
    gone = storage.remove(TOYS, "n/a")
    assert (gone.object["size"], gone.object["metadata"]["resourceVersion"]) == (7, "3")
    last = storage.put(TOYS, "n/a", item("a"))
    assert storage.remove(TOYS, "n/a", item("a", size=8)).object["size"] == 8
    assert last.rv == 4


def test_what_is_not_there_cannot_be_removed() -> None:
    with pytest.raises(KeyError):
        Storage().remove(TOYS, "n/a")


def test_bytes_are_made_once_and_fit_each_version_of_the_api() -> None:
    version = Storage().put(TOYS, "n/a", item("a", size=2))
    assert version.rest is version.rest
    whole = b'{"apiVersion":"example.com/v2","kind":"Toy",' + version.rest
    assert json.loads(whole) == {**version.object, "apiVersion": "example.com/v2"}


def test_objects_are_listed_by_their_keys() -> None:
    storage = Storage()
    for key in ("b/a", "a/b", "a-b/c", "a/a", "ab/a"):
        storage.put(TOYS, key, item(key))
    # As etcd sorts: "-" comes before "/".
    assert names(storage) == ["a-b/c", "a/a", "a/b", "ab/a", "b/a"]
    assert names(storage, "a") == ["a/a", "a/b"]
    assert names(storage, after="a/a") == ["a/b", "ab/a", "b/a"]
    assert names(storage, "a", after="a/a") == ["a/b"]
    assert names(storage, "nobody") == []
    assert storage.select("nothing", "a") == []


def test_the_past_can_be_seen_again() -> None:
    storage = Storage()
    storage.put(TOYS, "n/a", item("a"))
    then = storage.put(TOYS, "n/b", item("b", size=1)).rv
    storage.put(TOYS, "n/b", item("b", size=2))
    storage.put(TOYS, "n/c", item("c"))
    storage.remove(TOYS, "n/a")
    assert [version.key for version in storage.select_at(TOYS, then)] == ["n/a", "n/b"]
    assert storage.select_at(TOYS, then)[1].object["size"] == 1
    assert [version.key for version in storage.select_at(TOYS, then, "n", after="n/a")] == ["n/b"]
    assert [version.key for version in storage.select_at(TOYS, storage.rv)] == ["n/b", "n/c"]


def test_changes_since_a_version_come_in_order() -> None:
    storage = Storage()
    start = storage.put(TOYS, "n/a", item("a")).rv
    storage.put("games.example.com", "n/x", item("x"))
    storage.put(TOYS, "n/a", item("a", size=2))
    storage.remove(TOYS, "n/a")
    changes = storage.since(TOYS, start)
    assert [(change.type, change.version.rv) for change in changes] == [("MODIFIED", 4), ("DELETED", 5)]
    assert [change.old.rv for change in changes if change.old] == [2, 4]
    assert storage.since(TOYS, 99) == []


def test_what_is_compacted_cannot_be_asked_for() -> None:
    storage = Storage()
    old = storage.put(TOYS, "n/a", item("a")).rv
    new = storage.put(TOYS, "n/b", item("b")).rv
    storage.compact(old)
    assert len(storage.since(TOYS, old)) == 1
    storage.compact()
    with pytest.raises(Compacted, match=rf"too old resource version: {old} \({new}\)"):
        storage.since(TOYS, old)
    with pytest.raises(Compacted):
        storage.select_at(TOYS, old)
    assert storage.since(TOYS, new) == []


def test_the_history_has_an_end() -> None:
    storage = Storage(history=8)
    for size in range(30):
        storage.put(TOYS, "n/a", item("a", size=size))
    kept = storage.since(TOYS, storage.rv - 8)
    assert len(kept) == 8
    with pytest.raises(Compacted):
        storage.since(TOYS, storage.rv - 15)


def test_listeners_hear_of_their_resource_or_of_all() -> None:
    storage, mine, all_ = Storage(), [], []
    stop = storage.subscribe(lambda change: mine.append(change.version.key), TOYS)
    stop_all = storage.subscribe(lambda change: all_.append(change.version.key))
    storage.put(TOYS, "a", item("a"))
    storage.put("games.example.com", "b", item("b"))
    stop()
    storage.put(TOYS, "c", item("c"))
    stop_all()
    storage.put(TOYS, "d", item("d"))
    assert (mine, all_) == (["a"], ["a", "b", "c"])


def test_a_listener_may_write_and_all_hear_it_in_order() -> None:
    storage, heard = Storage(), []

    def echo(change: Change) -> None:
        if change.type == "ADDED":
            storage.put(TOYS, change.version.key, {**change.version.object, "echo": True})

    storage.subscribe(echo, TOYS)
    storage.subscribe(lambda change: heard.append((change.type, change.version.rv)), TOYS)
    storage.put(TOYS, "a", item("a"))
    assert heard == [("ADDED", 2), ("MODIFIED", 3)]


def test_a_listener_that_fails_does_not_silence_the_storage() -> None:
    storage, heard = Storage(), []

    def fail(_change: Change) -> None:
        raise RuntimeError("broken")

    stop = storage.subscribe(fail, TOYS)
    with pytest.raises(RuntimeError):
        storage.put(TOYS, "a", item("a"))
    stop()
    storage.subscribe(lambda change: heard.append(change.version.key), TOYS)
    storage.put(TOYS, "b", item("b"))
    assert heard == ["b"]


def test_keys_have_a_namespace_if_there_is_one() -> None:
    assert (key_of("n", "a"), key_of("", "a")) == ("n/a", "a")


STEPS = st.lists(st.tuples(st.sampled_from(["put", "remove"]), st.sampled_from("abc")), max_size=30)


@given(STEPS)
def test_the_history_leads_from_any_state_to_the_present(steps: list[tuple[str, str]]) -> None:
    storage = Storage()
    states: dict[int, dict[str, int]] = {storage.rv: {}}
    for number, (step, key) in enumerate(steps):
        if step == "put":
            storage.put(TOYS, key, item(key, number=number))
        elif storage.get(TOYS, key):
            storage.remove(TOYS, key)
        states[storage.rv] = {version.key: version.rv for version in storage.select(TOYS)}
    for rv, state in states.items():
        assert {version.key: version.rv for version in storage.select_at(TOYS, rv)} == state
        replayed = dict(state)
        for change in storage.since(TOYS, rv):
            replayed[change.version.key] = change.version.rv
            if change.type == "DELETED":
                del replayed[change.version.key]
        assert replayed == states[storage.rv]
