from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api import kinds
from multikueue.api.jobs.job import Job, job_type
from multikueue.api.kind import Kind
from multikueue.api.kinds import JOBS, WORKLOADS
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import Object, ObjectKey
from multikueue.kube.decode import (
    UNREADABLE,
    change_of,
    cut_list_of,
    event_of,
    list_of,
    object_of,
    pieces_of,
    stub_of,
    whole,
    without_depths,
)
from tests.kube.server import deep_job, job, line_of, list_of_jobs

PAGE: dict[str, Any] = {"metadata": {"resourceVersion": "9", "continue": "more"}}


def page(*items: Any) -> bytes:
    return json.dumps(PAGE | {"items": items}).encode()


def pinned(data: bytes) -> bool:
    """Whether anybody but the caller still holds the bytes."""
    gc.collect()
    return sys.getrefcount(data) > 3


def test_a_decoded_object_does_not_keep_the_answer_alive() -> None:
    data = json.dumps(job("a", status={"active": 1})).encode()
    item = object_of(Job)(data)
    assert not pinned(data)
    assert bytes(item.spec) == b'{"parallelism": 1}'


def test_without_the_copy_it_would() -> None:
    data = json.dumps(job("a")).encode()
    item = msgspec.json.decode(data, type=Job)
    assert pinned(data)
    assert item.key == ObjectKey("ns", "a")


def test_raw_subtrees_deep_in_a_status_are_owned_too() -> None:
    assignment = {"name": "main", "topologyAssignment": {"levels": ["rack"]}}
    check = {"name": "mk", "state": "Pending", "message": "", "podSetUpdates": [{"name": "main"}]}
    status = {"admission": {"podSetAssignments": [assignment]}, "admissionChecks": [check, {**check, "name": "b"}]}
    data = json.dumps({"metadata": {"name": "w"}, "spec": {"podSets": []}, "status": status}).encode()
    item = object_of(Workload)(data)
    assert not pinned(data)
    assert item.status.admission is not None
    assert item.status.admission.pod_set_assignments[0].topology_assignment == msgspec.Raw(b'{"levels": ["rack"]}')


def test_a_list_is_decoded_whole_and_not_kept_alive() -> None:
    data = page(job("a"), job("b"))
    listing = list_of(JOBS)(data)
    assert not pinned(data)
    assert [item.key.name for item in listing.items] == ["a", "b"]
    assert (listing.resource_version, listing.cont, listing.garbage) == ("9", "more", [])


@pytest.mark.parametrize(
    "body", [b'{"metadata":{},"items":null}', b'{"metadata":{},"items":[]}', b'{"metadata":{}}'], ids=bytes.decode
)
def test_an_empty_list_in_any_spelling(body: bytes) -> None:
    assert list_of(JOBS)(body).items == []


def test_one_object_out_of_shape_does_not_spoil_the_list() -> None:
    listing = list_of(JOBS)(page(job("a"), job("b", metadata={"labels": 5}), job("c"), "what?"))
    assert [item.key.name for item in listing.items] == ["a", "c"]
    assert [stub.key for stub, _ in listing.garbage] == [ObjectKey("ns", "b"), None]


def test_the_errors_of_a_page_go_with_it() -> None:
    """Kept, each would hold the page in a cycle: 10 MiB until the next full collection, which is rare."""
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(each, msgspec.ValidationError) for each in gc.get_objects())
        assert len(list_of(JOBS)(page(*[0] * 100)).garbage) == 100
        assert sum(isinstance(each, msgspec.ValidationError) for each in gc.get_objects()) == before
    finally:
        gc.enable()


def test_text_that_is_no_unicode_spoils_only_its_object() -> None:
    body = page(job("a"), job("b", metadata={"annotations": {"x": "BAD"}})).replace(b"BAD", b"\xff")
    listing = list_of(JOBS)(body)
    assert [item.key.name for item in listing.items] == ["a"]
    assert [stub.key for stub, _ in listing.garbage] == [ObjectKey("ns", "b")]


def test_null_where_a_list_is_expected_is_absent() -> None:
    item = {"metadata": {"name": "w", "finalizers": None}, "status": {"conditions": None}}
    listing = list_of(WORKLOADS)(page(item))
    assert (listing.garbage, listing.items[0].status.conditions) == ([], ())


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b'{"items":[]}', b""], ids=["HTML", "no object", "no meta", "empty"]
)
def test_what_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        list_of(JOBS)(body)


ODD: tuple[object, ...] = (0, None, {}, [], 'a, [b] "c", {d', -1.5e3, {"a": [1, {"b": "]}"}]}, True, "")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 9, 10, 11])
@pytest.mark.parametrize("separators", [(",", ":"), (" , \n", "\t: ")], ids=["tight", "loose"])
@pytest.mark.parametrize("many", [0, 10**6], ids=["searched", "counted"])
def test_a_page_in_pieces_is_the_same(
    count: int, separators: tuple[str, str], many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multikueue.kube.decode._FEW_COMMAS", 0)
    monkeypatch.setattr("multikueue.kube.decode._MANY_COMMAS", many)
    items = (ODD * 2)[:count]
    body = json.dumps({"items": items, "metadata": {"resourceVersion": "9", "continue": "m"}}, separators=separators)
    pieces = [json.loads(piece) for piece in pieces_of(body.encode())]
    assert [item for piece in pieces for item in piece["items"]] == list(items)
    assert pieces
    assert all(piece["metadata"] == {"resourceVersion": "9", "continue": "m"} for piece in pieces)


@pytest.mark.parametrize("values", [99, 199], ids=["many", "very many"])
def test_a_page_of_many_values_comes_in_pieces_of_a_few_items(values: int) -> None:
    pieces = list(pieces_of(page(*[job(f"j{number}", spec={"x": [0] * values}) for number in range(600)])))
    assert [len(list_of(JOBS)(piece).items) for piece in pieces] == [250, 250, 100]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(b'{"metadata":{},"items":[0,' + b"0," * 30_000 + b"]}", msgspec.DecodeError, id="no JSON"),
        pytest.param(b"[" + b"0," * 30_000 + b"0]", msgspec.ValidationError, id="no object"),
        pytest.param(b'{"metadata":{},"items":[0,' + b"0," * 100_000 + b"]}", msgspec.DecodeError, id="no long JSON"),
        pytest.param(
            b'{"metadata":{},"items":[' + b"0," * 100_000 + b"[" * 300 + b"]" * 300 + b"]}", RecursionError, id="deep"
        ),
    ],
)
def test_a_large_page_that_is_none_has_no_pieces(body: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        list(pieces_of(body))


def test_an_event_keeps_its_object_raw() -> None:
    event = event_of(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}\n')
    assert (event.type, stub_of(event.object).metadata.resource_version) == ("BOOKMARK", "7")


def test_a_change_is_decoded_in_one_pass_and_does_not_keep_its_line_alive() -> None:
    line = json.dumps({"type": "ADDED", "object": job("a")}).encode() + b"\n"
    change = change_of(Job)(line)
    assert not pinned(line)
    assert (change.type, change.object.key) == ("ADDED", ObjectKey("ns", "a"))


GADGETS = job_type("Gadget")
CUSTOM = Kind("example.com", "v1", "gadgets", "Gadget", True, GADGETS)
GADGET = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "data": {"a": [1]}, "seed": 7}


def test_a_custom_job_keeps_whatever_else_it_has_at_its_top() -> None:
    """Object, list and change alike; and a batch Job, whose fields are all known, takes no second look."""
    line = json.dumps({"type": "ADDED", "object": GADGET}).encode()
    one = object_of(GADGETS)(json.dumps(GADGET).encode())
    (listed,) = list_of(CUSTOM)(page(GADGET)).items
    changed = change_of(GADGETS)(line)
    assert changed.type == "ADDED"
    for item in (one, listed, changed.object):
        assert json.loads(bytes(item.others)) == {"data": {"a": [1]}, "seed": 7}
    assert not hasattr(object_of(Job)(json.dumps(job("a") | {"data": 1}).encode()), "others")


def test_what_is_odd_in_a_change_of_a_custom_job_is_refused() -> None:
    for line in (b'{"type":"ADDED","object":5}', b'{"type":"ADDED"}', b"{"):
        with pytest.raises(msgspec.DecodeError):
            change_of(GADGETS)(line)


@pytest.mark.parametrize("data", [b"5", b'{"metadata":{"name":5}}', b"{", b'{"metadata":{"name":"\xff"}}'])
def test_a_stub_of_anything_is_empty_at_worst(data: bytes) -> None:
    assert stub_of(data).key is None


def test_a_stub_says_which_object_it_is() -> None:
    stub = stub_of(json.dumps(job("b", metadata={"labels": 5})).encode())
    assert (stub.key, stub.metadata.uid) == (ObjectKey("ns", "b"), "uid-b")


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(kinds).values() if isinstance(kind, Kind)], ids=lambda kind: kind.kind
)
def test_every_kind_of_the_table_can_be_decoded(kind: Kind[Object]) -> None:
    listing = list_of(kind)(page({"metadata": {"name": "x"}}))
    assert [item.key.name for item in listing.items] == ["x"]


def test_a_raw_subtree_where_nobody_looks_is_refused_early() -> None:
    odd = msgspec.defstruct("Odd", [("parts", dict[str, msgspec.Raw])], bases=(Object,), frozen=True, kw_only=True)
    with pytest.raises(TypeError, match="raw"):
        object_of(odd)


def test_a_struct_that_many_kinds_have_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = msgspec.defstruct("Inner", [("template", msgspec.Raw)])
    first, second = (
        msgspec.defstruct(name, [("inner", inner)], bases=(Object,), frozen=True, kw_only=True) for name in ("A", "B")
    )
    looked_at: Counter[object] = Counter()
    fields = msgspec.structs.fields

    def counted(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
        looked_at[kind] += 1
        return fields(kind)

    monkeypatch.setattr(msgspec.structs, "fields", counted)
    for kind in (first, second):
        object_of(kind)
        change_of(kind)

    assert looked_at[inner] == 1


# What is nested too deeply.

DEPTHS = [990, 1500, 9998, 100_000]
"""Too deep for some Python, or for any; whether the first is depends on how deep the caller is."""


@pytest.mark.parametrize("levels", DEPTHS[1:])
def test_a_line_with_an_object_too_deep_still_names_it(levels: int) -> None:
    line = line_of("MODIFIED", deep_job("b", levels=levels))
    with pytest.raises(RecursionError):
        event_of(line)
    event = event_of(anyio.run(without_depths, line))
    assert event.type == "MODIFIED"
    assert stub_of(event.object).key == ObjectKey("ns", "b")
    with pytest.raises(RecursionError):
        whole(event.object)


@pytest.mark.parametrize("levels", DEPTHS)
def test_an_object_too_deep_costs_a_list_that_object(levels: int) -> None:
    around = (json.dumps(job("a")).encode(), deep_job("b", levels=levels), json.dumps(job("c")).encode())
    listing = cut_list_of(JOBS)(anyio.run(without_depths, list_of_jobs(*around)))
    named = [item.key.name for item in listing.items] + [stub.metadata.name for stub, _ in listing.garbage]
    assert sorted(named) == ["a", "b", "c"]
    assert listing.resource_version == "9"
    assert [item.key.name for item in listing.items if item.key.name != "b"] == ["a", "c"]


@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_what_is_beside_the_depths_stays_as_it_is(tree: Any) -> None:
    text = json.dumps(tree).encode()
    deep_text = b"[" * 1500 + b"]" * 1500
    parts = anyio.run(without_depths, b'{"a":%s,"b":%s,"c":%s}' % (text, deep_text, text))
    assert msgspec.json.decode(parts, type=dict[str, msgspec.Raw]).keys() == {"a", "b", "c"}
    assert b'"a":%s,' % text in parts
    assert parts.endswith(b'"c":%s}' % text)


def test_what_is_no_json_and_deep_is_unreadable() -> None:
    for line in (b"[" * 5000, b'{"type":"ADDED","object":' + b"[" * 5000, b'{"a":' * 5000 + b'"'):
        with pytest.raises(UNREADABLE):
            event_of(anyio.run(without_depths, line))


@pytest.mark.anyio
async def test_others_have_their_turn_while_depths_are_cut_off() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(others)
        await without_depths(list_of_jobs(*(deep_job(f"{n}", levels=9998) for n in range(10))))
        group.cancel_scope.cancel()
    assert turns >= 9
