"""The JSONPath of kubectl, for `-o jsonpath=`, `-o custom-columns=` and `--sort-by`. Pure.

As on https://kubernetes.io/docs/reference/kubectl/jsonpath/: fields, `[0]`, slices, `[*]`, `..name`, `[?(@.a=="b")]`,
unions, `{range}` and quoted text. A path that finds nothing is no error: the answer is shorter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

__all__ = ["Path", "path", "render", "text"]

Step = Callable[[Any], Iterator[Any]]
"""From one value to the selected values below it."""

_STEP = re.compile(
    r"""\.\.(?P<deep>(?:\\.|[^.\[\\])+)      # ..name
    |\.?\[(?P<inside>(?:'[^']*'|"[^"]*"|[^\]'"])*)\]   # [...]
    |\.(?P<field>(?:\\.|[^.\[\\])+|)         # .name; a dot alone is the value itself
    """,
    re.VERBOSE,
)
_FILTER = re.compile(r"\?\(\s*@(?P<path>[^=!<>\s]*)\s*(?:(?P<sign>==|!=|<=|>=|<|>)\s*(?P<value>.+?)\s*)?\)")
_SLICE = re.compile(r"(-?\d*):(-?\d*)(?::(\d+))?")
_PIECE = re.compile(r"""\{((?:"(?:\\.|[^"\\])*"|'[^']*'|[^{}"'])*)\}""")

_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda one, other: bool(one == other),
    "!=": lambda one, other: bool(one != other),
    "<": lambda one, other: bool(one < other),
    "<=": lambda one, other: bool(one <= other),
    ">": lambda one, other: bool(one > other),
    ">=": lambda one, other: bool(one >= other),
}


class Path(msgspec.Struct, frozen=True):
    """A parsed path."""

    steps: tuple[Step, ...]

    def find(self, tree: Any) -> list[Any]:
        """All selected values, in their order in the object."""
        found = [tree]
        for step in self.steps:
            found = [below for value in found for below in step(value)]
        return found


@cache
def path(written: str) -> Path:
    """Parse a path such as `.metadata.name`, `{.metadata.name}` or `metadata.name`. Raises ValueError."""
    bare = written.strip()
    if bare.startswith("{") and bare.endswith("}"):
        bare = bare[1:-1].strip()
    bare = bare.removeprefix("$").removeprefix("@")
    if not bare.startswith((".", "[")):
        bare = f".{bare}"
    steps, at = list[Step](), 0
    while at < len(bare):
        match = _STEP.match(bare, at)
        if match is None:
            raise ValueError(f"expected a path such as .metadata.name, got {written!r}")
        steps += [_step(match)] if match[0] != "." else []
        at = match.end()
    return Path(tuple(steps))


def text(values: Sequence[Any]) -> str:
    """Values as kubectl prints them: separated by a space, objects and lists as JSON."""
    return " ".join(_shown(value) for value in values)


def render(template: str, tree: Any) -> str:
    """The text of the template for the object. Raises ValueError."""
    nodes = _nodes(template)
    if len(nodes) == 1 and "{" not in template:  # as kubectl: braces may be left out around one path
        nodes = [(template, True)]
    return "".join(_written(nodes, tree))


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# --- steps -----------------------------------------------------------------------------------------------------------


def _step(match: re.Match[str]) -> Step:
    if match["deep"]:
        return _deep(_bare(match["deep"]))
    if match["inside"] is None:
        return _field(_bare(match["field"]))
    return _inside(match["inside"].strip())


def _bare(name: str) -> str:
    """A dot in a name is written with a backslash: `.metadata.labels.multikueue\\.dev/cluster`."""
    return re.sub(r"\\(.)", r"\1", name)


def _inside(written: str) -> Step:
    if not written:
        raise ValueError("expected an index, a name or * between [ and ]")
    if match := _FILTER.fullmatch(written):
        return _filter(match)
    if match := _SLICE.fullmatch(written):
        bounds = [int(part) if part else None for part in match.groups()]
        return lambda value: iter(value[slice(*bounds)] if isinstance(value, list) else ())
    if "," in written:
        steps = [_inside(part.strip()) for part in written.split(",")]
        return lambda value: (below for step in steps for below in step(value))
    if written[0] in "'\"":
        return _field(written[1:-1])
    if re.fullmatch(r"-?\d+", written):
        number = int(written)
        return lambda value: iter(value[number : number + 1 or None] if isinstance(value, list) else ())
    return _field(written)


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if name == "*":
            yield from _below(value)
        elif isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _deep(name: str) -> Step:
    here = _field(name)

    def step(value: Any) -> Iterator[Any]:
        yield from here(value)
        for below in _below(value):
            yield from step(below)

    return step


def _below(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _filter(match: re.Match[str]) -> Step:
    wanted = path(match["path"] or ".")
    sign, value = match["sign"], match["value"]
    other = _literal(value) if sign else None

    def is_true(item: Any) -> bool:
        found = wanted.find(item)
        if not sign:
            return bool(found)
        try:
            return any(_SIGNS[sign](each, other) for each in found)
        except TypeError:  # a string and a number have no order
            return False

    return lambda items: (item for item in _below(items) if is_true(item))


def _literal(written: str) -> Any:
    if written[0] in "'\"":
        return written[1:-1]
    try:
        return json.loads(written)
    except ValueError:
        return written


# --- templates -------------------------------------------------------------------------------------------------------


def _nodes(template: str) -> list[tuple[str, bool]]:
    """Pieces of a template: plain text (False), and contents of braces (True)."""
    nodes, at = list[tuple[str, bool]](), 0
    for match in _PIECE.finditer(template):
        nodes += [(template[at : match.start()], False)] if match.start() > at else []
        nodes.append((match[1].strip(), True))
        at = match.end()
    rest = template[at:]
    if "{" in rest:
        raise ValueError(f"a brace is not closed: {rest!r}")
    return [*nodes, (rest, False)] if rest else nodes


def _written(nodes: Sequence[tuple[str, bool]], tree: Any) -> Iterator[str]:
    at = 0
    while at < len(nodes):
        word, is_code = nodes[at]
        at += 1
        if not is_code:
            yield word
        elif word.startswith(("'", '"')):
            yield _quoted(word)
        elif word.startswith("range "):
            end = _end(nodes, at)
            for value in path(word.removeprefix("range ")).find(tree):
                yield from _written(nodes[at:end], value)
            at = end + 1
        else:
            yield text(path(word).find(tree))


def _end(nodes: Sequence[tuple[str, bool]], at: int) -> int:
    """The position of the end of the range that is open here."""
    depth = 1
    for number in range(at, len(nodes)):
        word, is_code = nodes[number]
        depth += is_code and word.startswith("range ")
        depth -= is_code and word == "end"
        if not depth:
            return number
    raise ValueError("{range ...} without {end}")


def _quoted(word: str) -> str:
    if word.startswith("'"):
        return word[1:-1]
    return str(json.loads(word))
