"""The part of JSONPath that printer columns use: fields, indices, `[*]`, and filters such as `[?(@.type=="Ready")]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

__all__ = ["Path", "Unreadable", "compiled", "printed"]

Path = Callable[[Any], list[Any]]
"""All values at a path, in order; empty if there are none."""

_Step = Callable[[Any], Iterator[Any]]

_TOKEN = re.compile(
    r"""
      \.(?P<field>(?:\\.|[^.\[\]\\\s])+)              # .name, with a dot in the name as \.
    | \[(?P<quoted>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")\]
    | \[(?P<index>-?\d+)\]
    | (?P<all>\[\*\]|\.\*)
    | \[\?\(\s*@(?P<path>[^=!<>]*?)\s*(?P<operator>==|!=)\s*(?P<literal>'[^']*'|"[^"]*"|[^\s)]+)\s*\)\]
    """,
    re.VERBOSE,
)


class Unreadable(ValueError):
    """A JSONPath that is invalid or unsupported; the message quotes it."""


@lru_cache(maxsize=4096)
def compiled(text: str) -> Path:
    """The path as a function. Raises Unreadable."""
    steps = tuple(_steps(text))

    def find(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = [inner for outer in found for inner in step(outer)]
        return found

    return find


def _steps(text: str) -> Iterator[_Step]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise Unreadable(f"unrecognized column definition {text!r}")
        yield _step(match)
        position = match.end()


def _step(match: re.Match[str]) -> _Step:
    if match["field"] is not None:
        name = re.sub(r"\\(.)", r"\1", match["field"])
        return _children if name == "*" else _field(name)
    if match["quoted"] is not None:
        return _field(re.sub(r"\\(.)", r"\1", match["quoted"][1:-1]))
    if match["index"] is not None:
        return _index(int(match["index"]))
    if match["all"] is not None:
        return _children
    return _filter(compiled(match["path"]), match["operator"] == "==", _literal(match["literal"]))


def _field(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(index: int) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _filter(path: Path, wanted: bool, literal: Any) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else ():
            if (literal in path(item)) is wanted:
                yield item

    return step


def _literal(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise Unreadable(f"unrecognized literal {text!r}") from None


def printed(value: Any) -> str:
    """A value in the format of kubectl's JSONPath: scalars bare, other values as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return msgspec.json.encode(value).decode()
