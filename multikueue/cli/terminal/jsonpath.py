"""The JSONPath of kubectl, for `-o jsonpath=`, `-o custom-columns=` and `--sort-by`. Pure.

As on https://kubernetes.io/docs/reference/kubectl/jsonpath/: fields, `[0]`, slices, `[*]`, `..name`, `[?(@.a=="b")]`,
unions, `{range}` and quoted text. A field that is missing is no error: the answer is shorter. An index that is out of
bounds, a filter of what is no list and a comparison of a string with a number are errors, as with kubectl.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import msgspec

from multikueue.errors import MultiKueueError

__all__ = ["DoesNotFit", "Path", "path", "render", "text"]

Step = Callable[[list[Any]], list[Any]]
"""From all values that are selected so far to the values below them. Raises DoesNotFit."""

_STEP = re.compile(
    r"""\s+|[@$]                                                               # the value itself
    |\[\?\((?P<filter>(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^"')])*)\)\]     # [?(...)]
    |\[(?P<inside>[^\]]*)\]                                                    # [...]
    |(?P<deep>\.\.)
    |\.?(?P<field>(?:\\.|[^\s.,\[\]$@{}\\])+)                                  # .name; after .. without a dot
    |\.                                                                        # a dot alone is the value itself
    """,
    re.VERBOSE,
)
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?\d*)(?:(:)(-?\d*))?(?::(-?\d*))?")
_PIECE = re.compile(r"""\{((?:"(?:\\.|[^"\\])*"|'[^']*'|[^{}"'])*)\}""")

_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda one, other: bool(one == other),
    "!=": lambda one, other: bool(one != other),
    "<": lambda one, other: bool(one < other),
    "<=": lambda one, other: bool(one <= other),
    ">": lambda one, other: bool(one > other),
    ">=": lambda one, other: bool(one >= other),
}
_OF_HTML = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
"""What Go's JSON escapes."""


class DoesNotFit(MultiKueueError, ValueError):  # named by the situation, as in errors.py
    """The object is not of the shape that the path expects, such as a list with that many items."""


class Path(msgspec.Struct, frozen=True):
    """A parsed path."""

    steps: tuple[Step, ...]

    def find(self, tree: Any) -> list[Any]:
        """All selected values, in their order in the object, keys in the order of their names. Raises DoesNotFit."""
        found = [tree]
        for step in self.steps:
            found = step(found)
        return found


@cache
def path(written: str) -> Path:
    """Parse a path such as `.metadata.name`, `{.metadata.name}` or `metadata.name`. Raises ValueError."""
    bare = written.strip()
    if bare.startswith("{") and bare.endswith("}"):
        bare = bare[1:-1]
    steps, at = list[Step](), 0
    while at < len(bare):
        match = _STEP.match(bare, at)
        if match is None:
            raise ValueError(f"expected a path such as .metadata.name, got {written!r}")
        steps += _steps(match)
        at = match.end()
    return Path(tuple(steps))


def text(values: Sequence[Any]) -> str:
    """Values as kubectl prints them: separated by a space, objects and lists as JSON."""
    return " ".join(_shown(value) for value in values)


def render(template: str, tree: Any) -> str:
    """The text of the template for the object. Raises ValueError, or DoesNotFit for this object."""
    nodes = _nodes(template)
    if len(nodes) == 1 and "{" not in template:  # for convenience: braces may be left out around one path
        nodes = [(template, True)]
    return "".join(_written(nodes, tree))


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).translate(_OF_HTML)


# --- steps -----------------------------------------------------------------------------------------------------------


def _steps(match: re.Match[str]) -> list[Step]:
    if match["deep"]:
        return [_deep]
    if match["field"]:
        return [_below if match["field"] == "*" else partial(_field, _bare(match["field"]))]
    if match["filter"] is not None:
        return [_filter(match["filter"])]
    if match["inside"] is not None:
        return _inside(match["inside"])
    return []


def _bare(name: str) -> str:
    """A dot in a name is written with a backslash: `.metadata.labels.multikueue\\.dev/cluster`."""
    return re.sub(r"\\(.)", r"\1", name)


def _inside(written: str) -> list[Step]:
    if "," in written:
        return [_union([Path(tuple(_inside(part.strip()))) for part in written.split(",")])]
    if match := _KEY.fullmatch(written):  # a path in quotes: 'metadata.name' is two fields
        return list(path(f".{match[1]}").steps)
    match = _SLICE.fullmatch(":" if written == "*" else written)
    if match is None or not written:
        raise ValueError(f"expected an index, a slice, * or a name in single quotes between [ and ], got [{written}]")
    first, colon, last, pace = match.groups()
    if pace and int(pace) <= 0:
        raise ValueError(f"expected a step above 0, got [{written}]")
    return [partial(_slice, _number(first), _number(last), _number(pace) or 1, colon is None, f"[{written}]")]


def _number(written: str | None) -> int | None:
    return int(written) if written and written != "-" else None


def _slice(
    first: int | None, last: int | None, pace: int, is_index: bool, written: str, values: list[Any]
) -> list[Any]:
    found = list[Any]()
    for value in values:
        if value is None:
            continue
        if not isinstance(value, list):
            raise DoesNotFit(f"expected a list before {written}, got {_shown(value)[:60]}")
        length = len(value)
        start = (first or 0) + (length if (first or 0) < 0 else 0)
        end = start + 1 if is_index else length if last is None else last + (length if last < 0 else 0)
        for at in (start, end - 1) if start != end else ():
            if not 0 <= at < length:
                raise DoesNotFit(f"{written}: array index out of bounds: index {at}, length {length}")
        if start > end:
            raise DoesNotFit(f"{written}: starting index {start} is greater than ending index {end}")
        found += value[start:end:pace]
    return found


def _union(paths: Sequence[Path]) -> Step:
    def step(values: list[Any]) -> list[Any]:
        """All values of the first, then all of the second."""
        found = list[Any]()
        for each in paths:
            selected = values
            for inner in each.steps:
                selected = inner(selected)
            found += selected
        return found

    return step


def _field(name: str, values: list[Any]) -> list[Any]:
    return [value[name] for value in values if isinstance(value, dict) and name in value]


def _below(values: list[Any]) -> list[Any]:
    found = list[Any]()
    for value in values:
        if isinstance(value, dict):
            found += [value[key] for key in sorted(value)]
        elif isinstance(value, list):
            found += value
    return found


def _deep(values: list[Any]) -> list[Any]:
    """The values and all objects and lists in them that are not empty, each before what is in it."""
    found = list[Any]()
    for value in values:
        if below := _below([value]):
            found += [value, *_deep(below)]
    return found


def _filter(written: str) -> Step:
    compared = _COMPARISON.fullmatch(written)
    left = path(compared[1] if compared else written)
    sign = _SIGNS.get(compared[2]) if compared else None
    if compared and not sign:
        raise ValueError(f"expected one of {', '.join(_SIGNS)} in [?({written})]")
    right = _operand(compared[3].strip()) if compared else left

    def is_true(item: Any) -> bool:
        found = left.find(item)
        if sign is None:
            return bool(found)
        others = right.find(item)
        if not found or not others:
            return False
        if len(found) > 1 or len(others) > 1:
            raise DoesNotFit(f"expected one value on each side of [?({written})], got {len(found)} and {len(others)}")
        if _kind(found[0]) is not _kind(others[0]):
            raise DoesNotFit(f"[?({written})] compares {_shown(found[0])[:60]} with {_shown(others[0])[:60]}")
        return sign(found[0], others[0])

    def step(values: list[Any]) -> list[Any]:
        for value in values:
            if not isinstance(value, list):
                raise DoesNotFit(f"expected a list before [?({written})], got {_shown(value)[:60]}")
        return [item for value in values for item in value if is_true(item)]

    return step


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)


def _operand(written: str) -> Path:
    """What stands to the right of a comparison: text in quotes, a number, a boolean, or a path from `@` or `$`."""
    if written.startswith(("@", "$", ".")):
        return path(written)
    if re.fullmatch(r"""'[^']*'|"[^"]*\"""", written):
        literal = written[1:-1]
    else:
        try:
            literal = json.loads(written)
        except ValueError:
            raise ValueError(f"expected text in quotes, a number, true, false or @.name, got {written}") from None
    return Path((lambda values: [literal for _ in values],))


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
        elif word == "end":
            raise ValueError("{end} without {range ...}")
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
