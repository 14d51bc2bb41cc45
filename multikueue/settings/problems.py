"""pydantic's errors in the words of a user: "expected ...", and names that would have been right."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from difflib import get_close_matches

from pydantic_core import ErrorDetails

__all__ = ["expectation", "instead_of", "shown", "spelled"]

_EXPECTATIONS = {
    "model_type": "a group of settings",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "missing": "a value",
    "int_parsing": "a whole number",
    "bool_parsing": "true or false",
    "invalid_key": "a name",
}

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
_SHORT.maxlevel = 3


def expectation(problem: ErrorDetails) -> str:
    """The type that pydantic expected, as "expected ..."."""
    kind = problem["type"]
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind.startswith("time_delta"):
        return "expected a duration such as 15m, 1m30s or 500ms"
    return f"expected {_EXPECTATIONS.get(kind) or problem['msg'].removeprefix('Input should be ')}"


def instead_of(name: str, known: Iterable[str]) -> str:
    """The names that would have been right in place of this one: the likeliest alone if there is one."""
    names = list(known)
    close = get_close_matches(name[:100], names, n=1)
    return f"{close[0]!r}; there is no {shown(name)}" if close else f"one of {', '.join(names)}"


def spelled(path: tuple[str | int, ...]) -> str:
    """A path as people write it: `a.b[0].c`, and `a[k.example.com]` for a key with dots."""
    first, *rest = map(_name, path)
    return first + "".join(f"[{part}]" if part.isdigit() or "." in part else f".{part}" for part in rest)


def _name(part: str | int) -> str:
    """A part of a path; one that is made up must neither break the line nor fill it."""
    text = str(part)
    return text if text.isprintable() and 0 < len(text) <= 100 else shown(text)


def shown(value: object) -> str:
    """A value in one line that is not too long, whatever is in the file."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # a number of so many digits that Python does not write it
        return "a value too long to show"
