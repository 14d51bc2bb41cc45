"""The CEL rules of a schema (`x-kubernetes-validations`): when to evaluate them, on which fields, and their messages.

The conversion of an object into CEL's values costs a hundred times more than the check of its structure. So a rule gets
only the fields that its text names, and is not evaluated if its result is known: if no field it reads has changed, or
if an operand of its `||` is of a simple form and holds ("absent, or unchanged, or ...").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from fakekube.model.refusals import Problem as FieldProblem
from fakekube.model.refusals import shown
from fakekube.model.wire import Json
from fakekube.schemas import cel_library as cel
from fakekube.schemas.structure import Path

__all__ = ["ABSENT", "MapKey", "Rule", "render_cel_path", "unchanged"]

ABSENT: Any = object()
"""Stands for the missing old value."""

Names = tuple[str, ...]


def unchanged(path: str) -> str:
    """CEL for: a field of `self` (as `spec.queueName`) is unchanged, which includes absent. One of the simple forms."""
    return f"(has(self.{path}) == has(oldSelf.{path}) && (!has(self.{path}) || self.{path} == oldSelf.{path}))"


_STRING = re.compile(
    r"""[rR]?('''.*?(?<!\\)'''|\"\"\".*?(?<!\\)\"\"\"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")""", re.DOTALL
)
_READ = re.compile(
    r"(?P<has>\bhas\s*\(\s*)?(?<![\w.])(?P<who>self|oldSelf)(?P<path>(?:\s*\.\s*[A-Za-z_]\w*)*)(?P<call>\s*\()?"
)


class _Read(NamedTuple):
    """A field that a rule reads: its value, or only its presence. `path` is as the rule writes it."""

    old: bool
    path: Names
    presence: bool

    @property
    def place(self) -> Names:
        return tuple(_unescaped(name) for name in self.path)


Known = Callable[[Json, Json], bool]
"""Whether a simple condition holds for a new and an old value (or ABSENT), without CEL. False means unknown."""


def _known(part: str) -> Known | None:
    """The check for a part of a rule; None unless the part has one of the simple forms."""
    for form, meaning in _FORMS:
        if match := re.fullmatch(form, part):
            return meaning(*(_names(group) for group in match.groups()))
    return None


def _names(path: str) -> Names:
    """The path in objects for a path in a rule, which escapes some names."""
    return tuple(_unescaped(name) for name in path.split(".") if name)


def _same(path: Names) -> Known:
    def holds(new: Json, old: Json) -> bool:
        if old is ABSENT:
            return False
        for name in path:
            if new is old:  # so are all fields below
                return True
            new = new.get(name, ABSENT) if isinstance(new, dict) else new
            old = old.get(name, ABSENT) if isinstance(old, dict) else old
        return bool(new == old)

    return holds


def _equal(path: Names) -> Known:
    same = _same(path)
    return lambda new, old: _at(new, path) is not ABSENT and same(new, old)


def _present(path: Names) -> Known:
    return lambda new, _old: _at(new, path) is not ABSENT


def _missing(path: Names) -> Known:
    """The check for an absent field in a present object. In an absent object the check is an error in CEL, so no
    answer."""
    return lambda new, _old: _at(new, path) is ABSENT and isinstance(_at(new, path[:-1]), dict)


def _was_missing(path: Names) -> Known:
    missing = _missing(path)
    return lambda _new, old: old is not ABSENT and missing(old, ABSENT)


def _alike(one: Names, other: Names) -> Known:
    def holds(new: Json, _old: Json) -> bool:
        these, those = _at(new, one), _at(new, other)
        return isinstance(these, list | dict) and isinstance(those, list | dict) and len(these) == len(those)

    return holds


def _empty(path: Names) -> Known:
    def holds(new: Json, _old: Json) -> bool:
        value = _at(new, path)
        return isinstance(value, list | dict) and not value

    return holds


def _lets_be(part: str) -> bool:
    """Whether a part of a rule is true of every unchanged value."""
    return part == "self == oldSelf" or re.fullmatch(_SAME, part) is not None


_SAME = r"\(has\(self\.([\w.]+)\) == has\(oldSelf\.\1\) && \(!has\(self\.\1\) \|\| self\.\1 == oldSelf\.\1\)\)"

_FORMS: tuple[tuple[str, Callable[..., Known]], ...] = (
    (_SAME, _same),
    (r"self((?:\.\w+)*) == oldSelf\1", _equal),
    (r"has\(self\.([\w.]+)\)", _present),
    (r"!has\(self\.([\w.]+)\)", _missing),
    (r"!has\(oldSelf\.([\w.]+)\)", _was_missing),
    (r"size\(self((?:\.\w+)*)\) == size\(self((?:\.\w+)*)\)", _alike),
    (r"size\(self((?:\.\w+)*)\) == 0", _empty),
)


class Rule:
    """One rule at one place of a schema."""

    def __init__(self, declared: Mapping[str, Any], *, kind: str) -> None:
        self._declared = declared
        self._kind = kind
        self.text: str = declared["rule"]
        self._reads = list(_reads(self.text))
        self._tops = {read.place[0] if read.path else "" for read in self._reads}
        self._knowns = [known for part in _disjuncts(self.text) if (known := _known(part)) is not None]
        reads_old = any(read.old for read in self._reads)
        self.optional_old = bool(declared.get("optionalOldSelf"))
        self.is_transition = reads_old and not self.optional_old
        self.is_reflexive = not reads_old or any(_lets_be(part) for part in _disjuncts(self.text))
        """Whether the rule holds for every unchanged value that was valid."""

    def problem(self, new: Json, old: Json, path: Path) -> FieldProblem | None:
        """Evaluate the rule for a value and the old one (or ABSENT). Returns its problem, if any."""
        variables = self._variables(new, old)
        try:
            if self._program.execute(_context(self._program, variables)) is True:
                return None
        except (KeyError, TypeError, ValueError, RuntimeError, IndexError, OverflowError) as error:
            return self._failed(error, path)
        return self._broken(new, variables, path)

    def must_be_asked(self, new: Json, old: Json) -> bool:
        """Whether the result of the rule is unknown."""
        if old is ABSENT and self.is_transition:
            return False
        for holds in self._knowns:  # a plain loop for speed: each write checks each rule
            if holds(new, old):
                return False
        if old is not ABSENT and self.is_reflexive and self._is_untouched(new, old):
            return False
        if old is ABSENT or self.is_transition or self.optional_old:
            return True
        return any(_changed(new, old, read.place, presence=read.presence) for read in self._reads)

    def _is_untouched(self, new: Json, old: Json) -> bool:
        """Whether all fields that the rule reads are identical; compares only the top level."""
        if not isinstance(new, dict) or not isinstance(old, dict) or "" in self._tops:
            return new is old
        return all(new.get(name) is old.get(name) for name in self._tops)

    def _variables(self, new: Json, old: Json) -> dict[str, Any]:
        variables = {"self": _projected(new, [read for read in self._reads if not read.old])}
        if self.optional_old:
            variables["oldSelf"] = cel.OptionalValue.none() if old is ABSENT else cel.OptionalValue.of(old)
        elif self.is_transition:
            variables["oldSelf"] = _projected(old, [read for read in self._reads if read.old])
        return variables

    @cached_property
    def _program(self) -> cel.Program:
        return cel.compiled(self.text)

    @cached_property
    def _message_program(self) -> cel.Program | None:
        text = self._declared.get("messageExpression")
        return cel.compiled(text) if text else None

    def _message(self, new: Json, variables: dict[str, Any]) -> str:
        fixed = str(self._declared.get("message") or f"failed rule: {self.text.strip()}")
        if self._message_program is None:
            return fixed
        try:
            said = self._message_program.execute(_context(self._message_program, variables | {"self": new}))
        except (KeyError, TypeError, ValueError, RuntimeError):
            return fixed
        return said if isinstance(said, str) and said.strip() else fixed

    def _broken(self, new: Json, variables: dict[str, Any], path: Path) -> FieldProblem:
        message, reason = self._message(new, variables), self._declared.get("reason") or "FieldValueInvalid"
        field = (render_cel_path(path) + str(self._declared.get("fieldPath", ""))).removeprefix(".") or "<nil>"
        value = "" if isinstance(new, dict | list) else f": {shown(new)}"
        bodies = {
            "FieldValueInvalid": f"Invalid value{value}: {message}",
            "FieldValueForbidden": f"Forbidden: {message}",
            "FieldValueRequired": f"Required value: {message}",
            "FieldValueDuplicate": f"Duplicate value{value}",
        }
        return FieldProblem(reason, field, bodies[reason])

    def _failed(self, error: Exception, path: Path) -> FieldProblem:
        said = f"no such key: {error.args[0]}" if isinstance(error, KeyError) else str(error)
        told = self._declared.get("message") or self.text.strip()
        field = render_cel_path(path).removeprefix(".") or "<nil>"
        return FieldProblem(
            "FieldValueInvalid", field, f'Invalid value: "{self._kind}": {said} evaluating rule: {told}'
        )


def render_cel_path(path: Path) -> str:
    """A path as in problems of CEL rules, with map keys in brackets. Empty for the root."""
    return "".join(f"[{part}]" if isinstance(part, int | MapKey) else f".{part}" for part in path)


class MapKey(str):
    """A map key in a path, in contrast to a field name."""

    __slots__ = ()


def _bare(text: str) -> str:
    """The rule with blank string literals, so that words in them are not taken for names."""
    return _STRING.sub(lambda match: "'" + " " * (len(match.group()) - 2) + "'", text)


def _reads(text: str) -> Iterator[_Read]:
    for match in _READ.finditer(_bare(text)):
        names = tuple(re.findall(r"\w+", match["path"]))
        if match["call"] and names:
            names = names[:-1]
        presence = bool(match["has"]) and bool(names) and not match["call"]
        yield _Read(match["who"] == "oldSelf", names, presence)


def _disjuncts(text: str) -> list[str]:
    """The operands of the rule's top-level `||`; the whole rule if it has a conditional or an `&&` there."""
    bare, depth, start, parts = _bare(text), 0, 0, []
    for index, letter in enumerate(bare):
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0 and (letter == "?" or bare.startswith("&&", index)):
            return [text.strip()]
        if depth == 0 and bare.startswith("||", index):
            parts.append(text[start:index].strip())
            start = index + 2
    return [*parts, text[start:].strip()]


def _changed(new: Json, old: Json, path: Names, *, presence: bool) -> bool:
    before, after = _at(old, path), _at(new, path)
    if presence:
        return (before is ABSENT) != (after is ABSENT)
    return bool(before != after)


def _at(value: Json, path: Names) -> Json:
    for name in path:
        if not isinstance(value, dict):
            return value
        value = value.get(name, ABSENT)
    return value


def _projected(value: Json, reads: list[_Read]) -> Json:
    """The value reduced to the fields that are read; a field is reduced to True if only its presence is read."""
    if not isinstance(value, dict):
        return _escaped(value)
    if any(not read.path and not read.presence for read in reads):
        return _escaped(value)
    found: dict[str, Any] = {}
    for name in dict.fromkeys(read.path[0] for read in reads if read.path):
        inner = value.get(_unescaped(name), ABSENT)
        if inner is ABSENT:
            continue
        below = [read._replace(path=read.path[1:]) for read in reads if read.path[:1] == (name,)]
        found[name] = True if all(read.presence and not read.path for read in below) else _projected(inner, below)
    return found


# Rules escape field names that are reserved words of CEL, and characters that are invalid in CEL's names.
_RESERVED = frozenset(
    (
        "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
        "namespace", "null", "package", "return", "true", "var", "void", "while",
    )
)  # fmt: skip
_SIGNS = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def _unescaped(name: str) -> str:
    if "__" not in name:
        return name
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _RESERVED:
        return name[2:-2]
    for sign, escape in _SIGNS.items():
        name = name.replace(escape, sign)
    return name


def _escaped(value: Json) -> Json:
    """The value with fields renamed that have reserved names. Other characters stay, as such keys may be keys of
    maps."""
    if isinstance(value, dict):
        return {f"__{name}__" if name in _RESERVED else name: _escaped(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_escaped(inner) for inner in value]
    return value


def _context(program: cel.Program, variables: dict[str, Any]) -> cel.Context:
    return cel.Context(variables, {name: _FUNCTIONS[name] for name in program.functions() if name in _FUNCTIONS})


_FUNCTIONS: Mapping[str, Any] = cel.STDLIB_FUNCTIONS
