from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.meta import encode
from multikueue.jobs.trees import paths

TREE = {
    "spec": {
        "parts": [{"name": "a", "n": 1}, {"name": "b"}, None],
        "named": {"x": {"n": 2}, "y": {"n": 3}},
        "off": None,
    },
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Failed", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("spec.parts[*].name", ["a", "b"], id="each item of a list"),
        pytest.param("spec.named[*].n", [2, 3], id="each value of an object"),
        pytest.param("spec.parts[*].n", [1], id="what only some items have"),
        pytest.param("status.conditions[type=Ready].status", ["True"], id="the item that says so"),
        pytest.param("status.conditions[type=Gone].status", [], id="an item that is not there"),
        pytest.param("spec.off", [], id="null is nothing"),
        pytest.param("spec.parts.name", [], id="a field of a list"),
        pytest.param("nothing.at.all", [], id="nothing there"),
    ],
)
def test_what_is_at_a_path(path: str, expected: list[Any]) -> None:
    assert list(paths.found(TREE, path)) == expected
    assert paths.only(TREE, path, "none") == (expected[0] if expected else "none")


@pytest.mark.parametrize("text", ["", ".", "a..b", "a[", "a[*", "[*]", "a[*][*]x", "a b[x]", "*"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a path"):
        paths.only({}, text)


def test_a_path_of_several_places_has_no_keys() -> None:
    assert paths.keys_of("spec.runPolicy.suspend") == ("spec", "runPolicy", "suspend")
    with pytest.raises(ValueError, match="one field"):
        paths.keys_of("spec.parts[*].name")


@pytest.mark.parametrize("path", ["a[*]", "a[x=1].b", "a[*].b"])
def test_a_place_is_one_field_or_some_items(path: str) -> None:
    assert paths.place_of("spec.gates[name=a.b/c]") == ("spec", "gates", ("name", "a.b/c"))
    with pytest.raises(ValueError, match="one field, or of items"):
        paths.place_of(path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a":[{"m":"x","n":1.0},{"m":"y"},{"m":"x"}]}', '{"a":[{"m":"y"}]}'),
        ('{"a":[{"m":"x"}]}', '{"a":[]}'),
        ('{"a":[1,"x",null,{"n":"x"}]}', '{"a":[1,"x",null,{"n":"x"}]}'),
        ('{"a":{"m":"x"}}', '{"a":{"m":"x"}}'),
        ('{"a":null}', '{"a":null}'),
        ('{"b":1}', '{"b":1}'),
    ],
)
def test_items_are_dropped_by_what_a_field_of_theirs_says(before: str, after: str) -> None:
    assert encode(paths.without(msgspec.Raw(before.encode()), paths.place_of("a[m=x]"))).decode() == after


def test_what_lies_beside_the_way_stays_byte_for_byte() -> None:
    raw = msgspec.Raw(b'{"a":1.10,"way":{"x":1,"big":12345678901234567890123, "odd" : "\\u00e9"},"z":1e3}')
    assert encode(paths.without(raw, ("way", "x"))) == (
        b'{"a":1.10,"way":{"big":12345678901234567890123,"odd":"\\u00e9"},"z":1e3}'
    )
    assert encode(paths.with_value(raw, ("way", "x"), True)) == bytes(raw).replace(b'"x":1,', b'"x":true,').replace(
        b', "odd" : ', b',"odd":'
    )


def test_a_way_that_is_not_there_is_made_or_left() -> None:
    assert encode(paths.with_value(msgspec.Raw(b'{"b":null}'), ("b", "c"), True)) == b'{"b":{"c":true}}'
    raw = msgspec.Raw(b'{"a":[1]}')
    assert paths.without(raw, ("b", "c")) is raw
    assert encode(paths.without(raw, ("a", "c"))) == bytes(raw)
    assert paths.peek(raw, ("a", "c")) is None
    assert paths.peek(raw, ("a",)) == [1]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(
    tree=st.dictionaries(st.sampled_from("abc"), _json), keys=st.lists(st.sampled_from("abc"), min_size=1, max_size=3)
)
def test_a_value_that_is_set_is_there_and_one_that_is_dropped_is_not(tree: dict[str, Any], keys: list[str]) -> None:
    raw, way = msgspec.Raw(encode(tree)), tuple(keys)
    changed = msgspec.Raw(encode(paths.with_value(raw, way, "set")))
    assert paths.peek(changed, way) == "set"
    assert paths.peek(msgspec.Raw(encode(paths.without(changed, way))), way) is None
    assert paths.peek(msgspec.Raw(encode(paths.nested(way, 1))), way) == 1
