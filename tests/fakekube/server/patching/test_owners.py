"""The entries of managedFields: read, taken from, put together and sorted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from fakekube.server.patching.owners import (
    Entry,
    Owner,
    Owners,
    cap,
    entry_of,
    fields_of,
    given,
    listed,
    owners_of,
    take,
    with_entries,
)

NOW = datetime(2026, 3, 1, 12, 0, 30, 999_999, tzinfo=UTC)


def updater(name: str, *, version: str = "x/v1", subresource: str = "") -> Owner:
    return Owner(name, "Update", version, subresource)


def applier(name: str, *, subresource: str = "") -> Owner:
    return Owner(name, "Apply", "", subresource)


def owning(*owners: Owner, fields: dict[str, Any] | None = None, seconds: int = 0) -> Owners:
    time = NOW + timedelta(seconds=seconds)
    return {owner: entry_of(owner, fields or {"f:a": {}}, owner.version or "x/v1", time) for owner in owners}


def with_(entries: list[Entry]) -> dict[str, Any]:
    return {"kind": "X", "metadata": {"name": "a", "managedFields": entries}}


def test_an_entry_says_who_and_when_in_seconds_of_utc() -> None:
    time = NOW.astimezone(timezone(timedelta(hours=5)))
    assert entry_of(updater("u", subresource="status"), {"f:a": {}}, "x/v1", time) == {
        "manager": "u",
        "operation": "Update",
        "apiVersion": "x/v1",
        "time": "2026-03-01T12:00:30Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:a": {}},
        "subresource": "status",
    }
    assert "time" not in entry_of(applier("a"), {"f:a": {}}, "x/v1", None)


def test_owners_come_back_from_their_entries() -> None:
    owners = owning(updater("u"), applier("u"), updater("u", subresource="status"), updater("u", version="x/v2"))
    assert owners_of(with_(listed(owners))) == owners
    assert owners_of(None) == {}
    assert owners_of({"metadata": {}}) == {}


def test_one_that_applies_is_the_same_in_all_versions() -> None:
    entries = [entry_of(applier("a"), {"f:a": {}}, version, NOW) for version in ("x/v1", "x/v2")]
    assert list(owners_of(with_(entries))) == [applier("a")]


SAID = {
    updater("u"): '"u" using x/v1',
    updater("u", subresource="status"): '"u" with subresource "status" using x/v1',
    applier('a"b'): '"a\\"b"',
    applier("a", subresource="scale"): '"a" with subresource "scale"',
}


@pytest.mark.parametrize("owner", SAID, ids=str)
def test_an_owner_is_told_as_in_a_conflict(owner: Owner) -> None:
    assert str(owner) == SAID[owner]


def test_conflicts_are_sorted_by_owner_with_subresources_first() -> None:
    owners = [updater("b"), applier("b"), applier("b", subresource="status"), updater("a")]
    ranked = sorted(owners, key=lambda owner: owner.rank)
    assert ranked == [updater("a"), applier("b", subresource="status"), applier("b"), updater("b")]


def test_entries_are_sorted_by_operation_time_and_name() -> None:
    late, early = (
        owning(updater("a"), seconds=2),
        owning(updater("b"), updater("c", subresource="status"), updater("c")),
    )
    owners = late | early | owning(applier("z"), seconds=5)
    names = [(entry["manager"], entry.get("subresource", "")) for entry in listed(owners)]
    assert names == [("z", ""), ("b", ""), ("c", ""), ("c", "status"), ("a", "")]


def test_who_loses_all_goes_and_who_loses_nothing_keeps_the_entry() -> None:
    rich = owning(updater("rich"), fields={"f:a": {}, "f:b": {}})
    other = owning(updater("other"), fields={"f:c": {}})
    owners = rich | other | owning(updater("poor"))
    take(owners, lambda _: {"f:a": {}})
    assert list(owners) == [updater("rich"), updater("other")]
    assert fields_of(owners, updater("rich")) == {"f:b": {}}
    assert owners[updater("other")] is other[updater("other")]
    assert rich[updater("rich")]["fieldsV1"] == {"f:a": {}, "f:b": {}}, "entries are never changed"


def test_from_each_owner_something_else_may_be_taken() -> None:
    owners = owning(updater("a"), updater("b"))
    take(owners, lambda entry: {"f:a": {}} if entry["manager"] == "a" else {})
    assert list(owners) == [updater("b")]


def test_ten_updaters_are_left_alone() -> None:
    owners = owning(*(updater(str(number)) for number in range(10)), applier("a"))
    before = dict(owners)
    cap(owners)
    assert owners == before


def test_the_oldest_updaters_of_a_version_become_ancient() -> None:
    owners: Owners = {}
    for number in range(12):
        owners |= owning(updater(f"u{number:02}"), fields={f"f:{number:02}": {}}, seconds=number)
    owners |= owning(updater("lone", version="x/v2"), applier("a"), seconds=-1)
    cap(owners)
    assert len([owner for owner in owners if owner.operation == "Update"]) == 10
    assert owners[updater("ancient-changes")]["time"] == "2026-03-01T12:00:33Z", "of the last that went in"
    assert fields_of(owners, updater("ancient-changes")).keys() == {"f:00", "f:01", "f:02", "f:03"}
    assert updater("lone", version="x/v2") in owners, "nobody else was of its version"
    assert applier("a") in owners


ENTRY = entry_of(updater("u"), {"f:a": {}}, "x/v1", NOW)
GIVEN: dict[str, tuple[Any, list[Owner] | None]] = {
    "an empty list": ([], []),
    "an empty entry": ([{}], []),
    "an entry": ([ENTRY], [updater("u")]),
    "another operation": ([ENTRY | {"operation": "Create"}], None),
    "no version": ([ENTRY | {"apiVersion": ""}], None),
    "another type of fields": ([ENTRY | {"fieldsType": "FieldsV2"}], None),
    "no type of fields": ([{k: v for k, v in ENTRY.items() if k != "fieldsType"}], None),
    "fields that are none": ([ENTRY | {"fieldsV1": {"a": {}}}], None),
    "fields that are a list": ([ENTRY | {"fieldsV1": ["a"]}], None),
    "no list": (3, None),
    "a list of texts": (["x"], None),
    "one good and one bad": ([ENTRY, {"manager": "x"}], None),
}


@pytest.mark.parametrize("case", GIVEN)
def test_what_a_client_says_of_owners_is_believed_if_it_is_in_order(case: str) -> None:
    entries, expected = GIVEN[case]
    named = given(entries)
    assert (named if named is None else list(named)) == expected


def test_what_a_client_says_is_brought_into_form() -> None:
    named = given([ENTRY | {"fieldsV1": {'v: "a"': {".": {}}}}])
    assert named is not None
    assert fields_of(named, updater("u")) == {'v:"a"': {}}


def test_an_object_with_the_same_entries_is_the_same() -> None:
    obj = with_([ENTRY])
    assert with_entries(obj, [dict(ENTRY)]) is obj
    bare = {"kind": "X", "metadata": {"name": "a"}}
    assert with_entries(bare, []) is bare
    assert with_entries(obj, []) == bare
    assert with_entries(bare, [ENTRY]) == obj
    assert with_entries(with_([]), []) == bare, "no empty list stays"
