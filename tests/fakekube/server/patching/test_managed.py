"""Managed fields: updates take them, applies claim them or are refused; one file, one set of rules."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakekube.model.wire import Refused
from fakekube.server.patching import managed
from fakekube.server.patching.fields import path_text, paths
from fakekube.server.patching.merging import changes, claims
from fakekube.server.patching.shapes import shape_of
from tests.fakekube.gadgets import GADGET, OBJECTS, Untouchable, port

Object = dict[str, Any]

SHAPE = shape_of(GADGET)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
V1, V2 = "parity.example.com/v1", "parity.example.com/v2"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def gadget(spec: Object | None = None, **more: Any) -> Object:
    body: Object = {"apiVersion": V1, "kind": "Gadget", "metadata": {"name": "a", "namespace": "team"}}
    return body | ({"spec": spec} if spec is not None else {}) | more


def track(old: Object | None, new: Object, manager: str = "alice", **more: Any) -> Object:
    how: dict[str, Any] = {"api_version": V1, "subresource": "", "now": NOW, "schema": GADGET}
    return managed.track(old, new, manager=manager, **(how | more))


def apply(live: Object | None, applied: Object, manager: str = "alice", **more: Any) -> Object:
    how: dict[str, Any] = {"api_version": V1, "subresource": "", "now": NOW, "schema": GADGET, "force": False}
    return managed.apply(live, applied, manager=manager, **(how | more))


def owners(obj: Object) -> dict[str, list[str]]:
    """Who owns what, as `manager/operation/subresource`."""
    return {
        "/".join(filter(None, (each["manager"], each["operation"], each.get("subresource")))): texts(each["fieldsV1"])
        for each in obj["metadata"].get("managedFields", [])
    }


def texts(fields: Object) -> list[str]:
    return sorted(path_text(path) for path in paths(fields))


def times(obj: Object) -> dict[str, str | None]:
    return {each["manager"]: each.get("time") for each in obj["metadata"].get("managedFields", [])}


def edited(obj: Object, **spec: Any) -> Object:
    return {**obj, "spec": {**obj.get("spec", {}), **spec}}


# --- updates


def test_a_creator_owns_all_but_what_nobody_owns() -> None:
    new = gadget({"color": "a"}, metadata={"name": "a", "uid": "u", "generation": 1, "labels": {"x": "y"}})
    assert owners(track(None, new)) == {
        "alice/Update": [".metadata.labels", ".metadata.labels.x", ".spec", ".spec.color"]
    }


def test_an_update_takes_what_it_changes_and_what_it_removes_is_nobodys() -> None:
    made = track(None, gadget({"color": "a", "size": 1, "note": "x", "words": ["a", "b"]}))
    spec = {"color": "b", "size": 1, "words": ["b", "c"]}
    assert owners(track(made, made | {"spec": spec}, "bob")) == {
        "alice/Update": [".spec", ".spec.size", ".spec.words", '.spec.words[="b"]'],
        "bob/Update": [".spec.color", '.spec.words[="c"]'],
    }


def test_an_owner_that_is_left_with_nothing_goes() -> None:
    made = track(track(None, gadget({})), gadget({"color": "a"}), "bob")
    assert owners(track(made, edited(made, color="b"), "carol")) == {
        "alice/Update": [".spec"],
        "carol/Update": [".spec.color"],
    }


def test_updates_of_one_manager_are_one_entry() -> None:
    made = track(None, gadget({"color": "a"}))
    again = track(made, edited(made, size=1), now=LATER)
    assert owners(again) == {"alice/Update": [".spec", ".spec.color", ".spec.size"]}
    assert times(again) == {"alice": "2026-03-01T12:01:00Z"}


def test_updates_of_other_versions_and_subresources_are_other_entries() -> None:
    made = track(None, gadget({"color": "a"}))
    made = track(made, edited(made, size=1), api_version=V2)
    made = track(made, made | {"status": {"phase": "x"}}, subresource="status")
    assert [each["apiVersion"] for each in made["metadata"]["managedFields"]] == [V1, V1, V2]
    assert owners(made)["alice/Update/status"] == [".status", ".status.phase"]


def test_an_update_that_changes_nothing_leaves_the_object_and_the_times_alone() -> None:
    made = track(None, gadget({"color": "a"}))
    assert track(made, made, "bob", now=LATER) is made
    assert track(made, copy.deepcopy(made), "bob", now=LATER) == made


def test_a_removal_alone_is_no_reason_for_a_new_time() -> None:
    made = track(None, gadget({"color": "a", "size": 1}))
    gone = track(made, made | {"spec": {"color": "a"}}, now=LATER)
    assert owners(gone) == {"alice/Update": [".spec", ".spec.color"]}
    assert times(gone) == times(made)


def test_who_forgets_to_send_the_owners_does_not_lose_them() -> None:
    made = track(None, gadget({"color": "a"}))
    assert track(made, gadget({"color": "a"}), "bob") == made


def test_owners_are_not_listed_among_the_owned() -> None:
    made = track(None, gadget({"color": "a"}, metadata={"name": "a", "managedFields": []}))
    assert owners(track(made, edited(made, color="b"), "bob"))["bob/Update"] == [".spec.color"]


@pytest.mark.parametrize("reset", [[], [{}]], ids=str)
def test_a_client_may_end_the_tracking_until_the_next_apply(reset: list[Object]) -> None:
    made = track(None, gadget({"color": "a"}))
    bare = track(made, made | {"metadata": {**made["metadata"], "managedFields": reset}})
    assert "managedFields" not in bare["metadata"]
    assert track(bare, edited(bare, color="b")) == edited(bare, color="b")
    assert owners(apply(bare, gadget({"size": 1}))) == {
        "alice/Apply": [".spec.size"],
        "before-first-apply/Update": [".spec", ".spec.color"],
    }


def test_a_client_may_name_the_owners() -> None:
    made = track(None, gadget({"color": "a"}))
    entries = [made["metadata"]["managedFields"][0] | {"manager": "carol"}]
    named = track(made, made | {"metadata": {**made["metadata"], "managedFields": entries}}, "bob")
    assert owners(named) == {"carol/Update": [".spec", ".spec.color"]}


def test_owners_that_are_none_are_not_believed() -> None:
    made = track(None, gadget({"color": "a"}))
    wrong = [{"manager": "carol", "operation": "Other"}]
    assert track(made, made | {"metadata": {**made["metadata"], "managedFields": wrong}}) == made


def test_nobody_names_owners_through_a_subresource() -> None:
    made = track(None, gadget({"color": "a"}))
    sent = made | {"metadata": {**made["metadata"], "managedFields": []}, "status": {"phase": "x"}}
    assert owners(track(made, sent, "bob", subresource="status")) == {
        "alice/Update": [".spec", ".spec.color"],
        "bob/Update/status": [".status", ".status.phase"],
    }


def test_what_the_server_puts_back_makes_no_owner() -> None:
    made = track(None, gadget({"color": "a"}, status={"phase": "x"}))
    assert owners(made) == {"alice/Update": [".spec", ".spec.color"]}
    sent = edited(made, color="b") | {"status": {"phase": "y"}}
    assert owners(track(made, sent, "bob", subresource="status"))["bob/Update/status"] == [".status.phase"]


def test_a_kind_without_a_status_of_its_own_has_owners_of_the_status() -> None:
    made = track(None, gadget(status={"phase": "x"}), resets=())
    assert owners(made) == {"alice/Update": [".status", ".status.phase"]}


def test_an_owner_in_another_version_loses_even_what_is_put_back() -> None:
    made = track(None, gadget({"color": "a"}))
    made = track(made, made | {"status": {"phase": "x"}}, "bob", subresource="status", api_version=V2)
    sent = made | {"status": {"phase": "y"}}
    assert owners(track(made, sent, "carol"))["bob/Update/status"] == [".status"]
    assert owners(track(made, sent, "carol", api_version=V2))["bob/Update/status"] == [".status", ".status.phase"]


def test_without_a_schema_maps_merge_and_lists_are_one() -> None:
    made = track(None, gadget({"words": ["a"], "options": {"x": "1"}}), schema={})
    assert owners(made)["alice/Update"] == [".spec", ".spec.options", ".spec.options.x", ".spec.words"]


def test_a_nameless_manager_is_unknown() -> None:
    assert list(owners(track(None, gadget({"color": "a"}), ""))) == ["unknown/Update"]


def test_an_update_looks_at_nothing_that_is_shared() -> None:
    made = track(None, gadget({"color": "a"})) | {"spec": Untouchable(color="a")}
    new = made | {"status": {"phase": "x"}}
    assert owners(track(made, new, "bob", subresource="status"))["bob/Update/status"] == [".status", ".status.phase"]


@given(OBJECTS, OBJECTS)
def test_after_an_update_its_manager_owns_what_changed_and_no_other(old: Object, new: Object) -> None:
    made = track(None, gadget(metadata={"name": "a", "labels": {"a": "b"}}) | old)
    sent = made | {"spec": new.get("spec", {})}
    before = copy.deepcopy((made, sent))
    result = track(made, sent, "bob")
    assert (made, sent) == before
    changed, removed = changes(made, sent, SHAPE)
    after = owners(result)
    assert after.get("bob/Update", []) == texts(changed)
    assert not {*after["alice/Update"]} & {*texts(changed), *texts(removed)}


# --- applies


def test_an_apply_makes_an_object_and_claims_what_it_names() -> None:
    made = apply(None, gadget({"color": "a", "ports": [{"number": 1}]}))
    assert made["spec"] == {"color": "a", "ports": [{"number": 1}]}
    assert owners(made) == {
        "alice/Apply": [
            ".spec.color",
            '.spec.ports[number=1,protocol="TCP"]',
            '.spec.ports[number=1,protocol="TCP"].number',
        ]
    }


def test_the_same_apply_again_is_the_live_object() -> None:
    made = apply(None, gadget({"color": "a", "words": ["x"]}))
    assert apply(made, gadget({"color": "a", "words": ["x"]}), now=LATER) is made


def test_who_applies_the_same_owns_it_too_without_a_time() -> None:
    made = apply(None, gadget({"color": "a"}))
    both = apply(made, gadget({"color": "a"}), "bob", now=LATER)
    assert owners(both) == {"alice/Apply": [".spec.color"], "bob/Apply": [".spec.color"]}
    assert times(both) == {"alice": "2026-03-01T12:00:00Z", "bob": None}


def test_what_is_applied_no_more_goes_unless_another_owns_it() -> None:
    made = apply(apply(None, gadget({"color": "a", "size": 1, "words": ["x"]})), gadget({"size": 1}), "bob")
    left = apply(made, gadget({"words": ["y"]}))
    assert left["spec"] == {"size": 1, "words": ["y"]}
    assert owners(left) == {"alice/Apply": ['.spec.words[="y"]'], "bob/Apply": [".spec.size"]}


def test_what_an_update_added_inside_stays_with_its_item() -> None:
    made = apply(None, gadget({"ports": [port(1)]}))
    named = track(made, edited(made, ports=[port(1, name="x")]), "bob")
    again = apply(named, gadget({"ports": [port(1)]}))
    assert again["spec"]["ports"] == [port(1, name="x")]
    assert apply(named, gadget({"ports": [port(2)]}))["spec"]["ports"] == [port(2)]


def conflict(error: Refused) -> tuple[int, str, str]:
    return error.code, error.reason, error.message


def test_an_apply_that_would_change_what_another_owns_is_refused() -> None:
    made = track(None, gadget({"color": "a"}), "bob")
    before = copy.deepcopy(made)
    with pytest.raises(Refused) as raised:
        apply(made, gadget({"color": "b"}))
    message = f'Apply failed with 1 conflict: conflict with "bob" using {V1}: .spec.color'
    assert conflict(raised.value) == (409, "Conflict", message)
    assert raised.value.causes == (("FieldManagerConflict", f'conflict with "bob" using {V1}', ".spec.color"),)
    assert raised.value.details == {}
    assert made == before


def test_conflicts_are_told_by_owner() -> None:
    made = apply(track(None, gadget({"color": "a", "words": []}), "bob"), gadget({"size": 1, "weight": 1}), "carol")
    made = track(made, made | {"status": {"phase": "x"}}, "bob", subresource="status")
    with pytest.raises(Refused) as raised:
        apply(made, gadget({"color": "b", "size": 2, "weight": 2}, status={"phase": "y"}), resets=())
    assert raised.value.message == (
        "Apply failed with 4 conflicts: "
        f'conflicts with "bob" with subresource "status" using {V1}:\n- .status.phase\n'
        f'conflicts with "bob" using {V1}:\n- .spec.color\n'
        'conflicts with "carol":\n- .spec.size\n- .spec.weight'
    )
    assert [field for _, _, field in raised.value.causes] == [
        ".status.phase",
        ".spec.color",
        ".spec.size",
        ".spec.weight",
    ]


def test_by_force_an_apply_takes_it() -> None:
    made = track(None, gadget({"color": "a", "size": 1}), "bob")
    taken = apply(made, gadget({"color": "b"}), force=True)
    assert taken["spec"] == {"color": "b", "size": 1}
    assert owners(taken) == {"alice/Apply": [".spec.color"], "bob/Update": [".spec", ".spec.size"]}


def test_to_apply_what_another_owner_set_alike_is_no_conflict() -> None:
    made = track(None, gadget({"color": "a"}), "bob")
    assert owners(apply(made, gadget({"color": "a"})))["bob/Update"] == [".spec", ".spec.color"]


def test_an_applier_is_one_in_all_versions() -> None:
    made = apply(None, gadget({"color": "a"}))
    again = apply(made, gadget({"color": "b"}, apiVersion=V2), api_version=V2)
    assert [(each["manager"], each["apiVersion"]) for each in again["metadata"]["managedFields"]] == [("alice", V2)]


def test_an_apply_of_a_status_claims_the_status_only() -> None:
    made = apply(None, gadget({"color": "a"}))
    sent = gadget({"color": "b"}, status={"conditions": [{"type": "A", "status": "True"}]})
    applied = apply(made, sent, "bob", subresource="status")
    assert owners(applied) == {
        "alice/Apply": [".spec.color"],
        "bob/Apply/status": [
            '.status.conditions[type="A"]',
            '.status.conditions[type="A"].status',
            '.status.conditions[type="A"].type',
        ],
    }


def test_an_apply_that_names_nothing_owns_nothing() -> None:
    assert "managedFields" not in apply(None, gadget())["metadata"]


@pytest.mark.parametrize(
    ("applied", "code", "message"),
    [
        (gadget(apiVersion=V2), 400, f"invalid object type: {V2}, Kind=Gadget"),
        (gadget(apiVersion="v1", kind="X"), 400, "invalid object type: /v1, Kind=X"),
        (gadget(kind="X"), 400, f"invalid object type: {V1}, Kind=X"),
        (gadget(metadata={"managedFields": []}), 400, "metadata.managedFields must be nil"),
        (
            gadget({"x": 1}),
            500,
            f"failed to create typed patch object (team/a; {V1}, Kind=Gadget): .spec.x: field not declared in schema",
        ),
        (
            gadget({"color": 1, "size": "1"}),
            500,
            f"failed to create typed patch object (team/a; {V1}, Kind=Gadget): errors:\n"
            "  .spec.color: expected string, got &value.valueUnstructured{Value:1}\n"
            "  .spec.size: expected numeric (int or float), got string",
        ),
    ],
    ids=["version", "core", "kind", "managed fields", "a problem", "two problems"],
)
def test_what_cannot_be_applied_is_refused(applied: Object, code: int, message: str) -> None:
    live = track(None, gadget({"color": "a"}))
    with pytest.raises(Refused) as raised:
        apply(live, applied)
    assert (raised.value.code, raised.value.message) == (code, message)


MANAGERS = st.sampled_from(["alice", "bob"])


@settings(max_examples=60)
@given(st.lists(st.tuples(MANAGERS, st.booleans(), OBJECTS), min_size=1, max_size=6))
def test_whatever_happens_before_an_applier_gets_what_it_applies(history: list[tuple[str, bool, Object]]) -> None:
    live: Object | None = None
    for manager, applies, body in history:
        sent = gadget(metadata={"name": "a", "labels": {manager: "x"}}) | body
        before = copy.deepcopy((live, sent))
        if not applies:
            kept = {**sent, "metadata": live["metadata"]} if live else sent
            live = track(live, kept, manager)
            continue
        result = apply(live, sent, manager, force=True)
        assert (live, sent) == before
        if not _is_empty_somewhere(body):
            assert apply(result, sent, manager, now=LATER) is result, "to apply it again changes nothing"
        assert owners(result)[f"{manager}/Apply"] == [f".metadata.labels.{manager}", *texts(claims(body, SHAPE))]
        live = result


def _is_empty_somewhere(value: Any) -> bool:
    """Whether it has an empty map, which may claim what others had filled and take it away later, or an empty list, which
    goes with the last thing that its applier owned beside it."""
    if not isinstance(value, dict | list):
        return False
    children = list(value.values()) if isinstance(value, dict) else value
    return not children or any(map(_is_empty_somewhere, children))


def test_an_empty_list_goes_with_the_last_field_beside_it_and_comes_when_it_is_applied_again() -> None:
    more = {"metadata": {"name": "a", "labels": {"alice": "x"}}}
    live = apply(None, gadget({"color": "a"}, **more))
    first = apply(live, gadget({"words": []}, **more))
    again = apply(first, gadget({"words": []}, **more))
    assert ("spec" in first, again["spec"]) == (False, {"words": []}), "as a real server has it"


def test_owners_in_another_version_keep_what_they_own() -> None:
    made = apply(None, gadget({"color": "a", "size": 1}, apiVersion=V2), api_version=V2)
    made = track(made, edited(made, parts={"left": "x"}), "bob")
    left = apply(made, gadget({"color": "a"}))
    assert left["spec"] == {"color": "a", "parts": {"left": "x"}}


# --- kubectl, which once applied by itself


def client_side_applied(data: Object) -> Object:
    body = gadget(data)
    note = {LAST_APPLIED: json.dumps(body)}
    return track(None, body | {"metadata": {**body["metadata"], "annotations": note}}, "kubectl-client-side-apply")


def test_kubectl_takes_over_what_it_applied_by_itself() -> None:
    live = client_side_applied({"color": "a", "size": 1})
    sent = gadget({"color": "<b>", "size": 1})
    taken = apply(live, sent, "kubectl")
    assert taken["spec"]["color"] == "<b>"
    note = taken["metadata"]["annotations"][LAST_APPLIED]
    assert note.endswith('"spec":{"color":"\\u003cb\\u003e","size":1}}\n')
    assert json.loads(note) == sent


def test_kubectl_does_not_take_what_was_changed_since() -> None:
    live = client_side_applied({"color": "a", "size": 1})
    live = track(live, edited(live, color="x"), "bob")
    with pytest.raises(Refused, match=r'1 conflict: conflict with "bob" using .*: \.spec\.color'):
        apply(live, gadget({"color": "b", "size": 2}), "kubectl")


@pytest.mark.parametrize(
    "note", ["", "no json", "[]", json.dumps(gadget(apiVersion=V2)), json.dumps(gadget({"x": 1}))], ids=str
)
def test_a_note_that_is_none_yields_nothing(note: str) -> None:
    live = track(None, gadget({"color": "a"}, metadata={"name": "a", "annotations": {LAST_APPLIED: note}}))
    with pytest.raises(Refused, match="1 conflict"):
        apply(live, gadget({"color": "b"}), "kubectl")


def test_others_than_kubectl_yield_to_nobody() -> None:
    with pytest.raises(Refused, match="1 conflict"):
        apply(client_side_applied({"color": "a"}), gadget({"color": "b"}), "alice")


def test_a_note_that_became_too_long_goes() -> None:
    live = client_side_applied({"options": {"a": "b"}})
    sent = gadget({"options": {"a": "b", "long": "x" * 300_000}})
    assert apply(live, sent, "kubectl")["metadata"]["annotations"] == {}


def test_the_note_leaves_itself_out() -> None:
    live = client_side_applied({"color": "a"})
    sent = gadget(
        {"color": "a"}, metadata={"name": "a", "namespace": "team", "annotations": {LAST_APPLIED: "x", "k": "v"}}
    )
    note = apply(live, sent, "kubectl", force=True)["metadata"]["annotations"][LAST_APPLIED]
    assert json.loads(note)["metadata"]["annotations"] == {"k": "v"}


# --- what is no write


def test_a_write_that_changes_only_times_is_none() -> None:
    made = track(None, gadget({"color": "a"}))
    entry = made["metadata"]["managedFields"][0]
    later = made | {"metadata": {**made["metadata"], "managedFields": [entry | {"time": "2027-01-01T00:00:00Z"}]}}
    assert managed.settled(made, later) is made
    assert managed.settled(made, copy.deepcopy(made)) is made
    other = edited(later, color="b")
    assert managed.settled(made, other) is other
    renamed = made | {"metadata": {**made["metadata"], "managedFields": [entry | {"manager": "x"}]}}
    assert managed.settled(made, renamed) is renamed
    bare = made | {"metadata": {"name": "a", "namespace": "team"}}
    assert managed.settled(made, bare) is bare
