from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.server.printers.jsonpath import Unreadable, compiled, printed

CONDITIONS = [{"type": "Ready", "status": "True", "n": 1}, {"type": "Done", "status": "False", "n": 2}]


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        pytest.param(".a.b", {"a": {"b": 1}}, [1], id="a field in a field"),
        pytest.param(".a.b", {"a": {}}, [], id="a field that is missing"),
        pytest.param(".a.b", {"a": "text"}, [], id="a field of a text"),
        pytest.param(".a", {"a": None}, [None], id="a field that is null"),
        pytest.param(r".a\.b/c", {"a.b/c": 1}, [1], id="a dot in a name"),
        pytest.param("['a.b'].c", {"a.b": {"c": 1}}, [1], id="a name in quotes"),
        pytest.param(".a[1]", {"a": [1, 2]}, [2], id="an index"),
        pytest.param(".a[-1]", {"a": [1, 2]}, [2], id="an index from the end"),
        pytest.param(".a[2]", {"a": [1, 2]}, [], id="an index out of range"),
        pytest.param(".a[*].b", {"a": [{"b": 1}, {}, {"b": 2}]}, [1, 2], id="all items"),
        pytest.param(".a.*", {"a": {"x": 1, "y": 2}}, [1, 2], id="all fields"),
        pytest.param('.c[?(@.type=="Ready")].status', {"c": CONDITIONS}, ["True"], id="a filter"),
        pytest.param(".c[?(@.type == 'Done')].status", {"c": CONDITIONS}, ["False"], id="a filter in single quotes"),
        pytest.param('.c[?(@.type!="Ready")].type', {"c": CONDITIONS}, ["Done"], id="what a filter leaves out"),
        pytest.param(".c[?(@.n==2)].type", {"c": CONDITIONS}, ["Done"], id="a filter by number"),
        pytest.param('.c[?(@.type=="Ready")]', {}, [], id="a filter of nothing"),
        pytest.param("", {"a": 1}, [{"a": 1}], id="the whole"),
    ],
)
def test_a_path_finds(path: str, value: Any, found: list[Any]) -> None:
    assert compiled(path)(value) == found


@pytest.mark.parametrize("path", ["a", ".a[", ".a[?(@.b)]", ".a[?(@.b==oops)]", "..a", ".a b"])
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(Unreadable):
        compiled(path)


@given(st.text())
def test_whatever_it_is_given_it_says_so(path: str) -> None:
    with suppress(Unreadable):
        compiled(path)({"a": [1]})


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (1, "1"), (True, "true"), (None, ""), (["a"], '["a"]'), ({"a": 1}, '{"a":1}'), (1.5, "1.5")],
    ids=str,
)
def test_values_are_printed_as_kubectl_does(value: Any, text: str) -> None:
    assert printed(value) == text
