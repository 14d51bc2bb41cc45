"""Values are shown as Go shows them."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.model.values.golang import json_kind, json_text, literal, shown, type_name

SHOWN: dict[str, tuple[Any, str, str, str]] = {
    "a text": ("x", "x", "string", "string"),
    "a whole number": (3, "3", "int64", "number"),
    "a fraction": (1.5, "1.5", "float64", "number"),
    "true": (True, "true", "bool", "bool"),
    "false": (False, "false", "bool", "bool"),
    "nothing": (None, "<nil>", "<nil>", "number"),
    "a map, sorted": ({"b": 1, "a": {"c": None}}, "map[a:map[c:<nil>] b:1]", "map[string]interface {}", "object"),
    "a list": (["x", True, []], "[x true []]", "[]interface {}", "array"),
}


@pytest.mark.parametrize("case", SHOWN)
def test_a_value_is_shown_as_go_prints_it(case: str) -> None:
    value, text, type_, kind = SHOWN[case]
    assert (shown(value), type_name(value), json_kind(value)) == (text, type_, kind)


def test_a_value_is_shown_as_one_would_write_it_in_go() -> None:
    value = {"b": [1, "x", None], "a": {"c": True}}
    inner = '[]interface {}{1, "x", interface {}(nil)}'
    assert literal(value) == f'map[string]interface {{}}{{"a":map[string]interface {{}}{{"c":true}}, "b":{inner}}}'


def test_json_is_compact_and_sorted_and_safe_in_html() -> None:
    assert json_text({"b": ["<&>", "é\u2028"], "a": 1}) == '{"a":1,"b":["\\u003c\\u0026\\u003e","é\\u2028"]}'
