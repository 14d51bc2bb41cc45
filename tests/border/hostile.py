"""Objects as nobody should write them: of any JSON at all, or honest ones with something odd in any place."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import strategies as st

Tree = Any
Path = tuple[Any, ...]
_HOLE = "\N{REPLACEMENT CHARACTER}hole"

LEAVES = st.sampled_from(
    [
        "null",
        "true",
        "0",
        "-1",
        "1e3",
        "1e400",
        "9" * 30,
        "-" + "9" * 30,
        "9" * 5000,
        str(2**63 - 1),
        str(-(2**63)),
        '""',
        '"1e1000000"',
        '"-1e1000000"',
        '"%s"' % ("9" * 5000),
        '"1e-1000000"',
        '"0x10"',
        '"NaN"',
        '"\\u0000"',
        '"\\u00b2"',
        '"\\uffff\\ud83d\\ude00"',
        '"%s"' % ("x" * 40_000),
        '"9999-12-31T23:59:59Z"',
        '"0001-01-01T00:00:00+23:59"',
        '"2026-01-01T00:00:00"',
        '"../../x"',
        "[]",
        "{}",
        "[null]",
        '{"":null}',
        '["a",1,{}]',
        '{"a":{"b":["c"]}}',
        "[" * 300 + "]" * 300,
        '{"a":' * 900 + "1" + "}" * 900,
        '[{"x":' * 800 + "1" + "}]" * 800,
    ]
)
"""JSON texts, since some of them no program would write."""

ANYTHING = st.recursive(
    LEAVES | st.text(max_size=20).map(json.dumps) | st.integers().map(str),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: f"[{','.join(parts)}]")
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "status", "name", "items", "type"]), inner, max_size=3
        ).map(lambda parts: "{" + ",".join(f"{json.dumps(name)}:{part}" for name, part in parts.items()) + "}")
    ),
    max_leaves=6,
)


def places(tree: Tree, path: Path = ()) -> list[Path]:
    """Where something is, in all of the tree."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [place for name, part in inner for place in ((*path, name), *places(part, (*path, name)))]


def _at(tree: Tree, steps: list[Any]) -> Tree:
    for step in steps:
        tree = tree[step] if isinstance(tree, dict | list) else None
    return tree


def spoiled(tree: Tree, spots: list[tuple[Path, str]]) -> bytes:
    """The tree with other JSON in some places."""
    made = json.loads(json.dumps(tree))
    texts: list[str] = []
    for path, text in spots:
        *steps, last = path
        inner = _at(made, steps)
        if isinstance(inner, dict | list):
            inner[last] = f"{_HOLE}{len(texts)}"
            texts.append(text)
    body = json.dumps(made, ensure_ascii=False)
    for number, text in enumerate(texts):
        body = body.replace(f'"{_HOLE}{number}"', text)
    return body.encode()


def hostile(tree: Tree) -> st.SearchStrategy[bytes]:
    """An honest object with something odd in one or two places; its name, namespace and version stay."""
    kept = {("metadata",), ("metadata", "name"), ("metadata", "namespace"), ("metadata", "resourceVersion")}
    spots = st.sampled_from([place for place in places(tree) if place not in kept])
    return st.lists(st.tuples(spots, LEAVES), min_size=1, max_size=2).map(lambda chosen: spoiled(tree, chosen))


def tree_of(item: msgspec.Struct, **more: Any) -> Tree:
    """An honest object as its kind's API server would send it, with nothing left out."""
    return msgspec.json.decode(msgspec.json.encode(item)) | more
