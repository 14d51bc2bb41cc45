"""Label selectors and field selectors: parsed from text or an object, with a method `matches`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from fakekube.model.refusals import bad_request
from fakekube.model.values.names import label_value, qualified_name
from fakekube.model.wire import Object

__all__ = [
    "EVERYTHING",
    "Alias",
    "FieldSelector",
    "LabelSelector",
    "field_selector",
    "field_value",
    "label_selector",
    "selector_of",
]

_NO_LABELS: Mapping[str, str] = {}


class Alias(NamedTuple):
    """The path behind a field selector whose name is not a path, and the value of an absent field."""

    path: str
    missing: str = ""


_NO_ALIASES: Mapping[str, Alias] = {}

EXISTS, ABSENT, IN, NOT_IN, GREATER, LESS = "exists", "!", "in", "notin", ">", "<"


class _Requirement(NamedTuple):
    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator == IN:
            return value is not None and value in self.values
        if self.operator == NOT_IN:
            return value is None or value not in self.values
        if self.operator in (EXISTS, ABSENT):
            return (value is not None) == (self.operator == EXISTS)
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        (bound,) = self.values
        if value is None or not _INTEGER(value):
            return False
        return int(value) > int(bound) if self.operator == GREATER else int(value) < int(bound)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of requirements; without any, every object matches."""

    requirements: tuple[_Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        present = labels or _NO_LABELS
        return all(each.holds(present) for each in self.requirements)


EVERYTHING = LabelSelector()

_INTEGER = re.compile(r"-?\d+").fullmatch
_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s!()=,<>]+|$)")
_PUNCTUATION = frozenset({"=", "==", "!=", "!", "(", ")", ",", "<", ">", ""})


@lru_cache(2048)
def label_selector(text: str) -> LabelSelector:
    """Parse `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`. Raises Refused (400)."""
    tokens = _Tokens(text)
    if tokens.next == "":
        return EVERYTHING
    if tokens.next == ",":
        raise tokens.out_of_place("!, identifier, or 'end of string'")
    requirements = [_requirement(tokens)]
    while tokens.next == ",":
        tokens.take()
        requirements.append(_requirement(tokens))
    if tokens.next:
        raise tokens.out_of_place("',' or 'end of string'")
    return LabelSelector(tuple(requirements))


def selector_of(selector: Mapping[str, Any] | None) -> LabelSelector:
    """The selector of a LabelSelector object with `matchLabels` and `matchExpressions`; an empty one matches
    everything."""
    if not selector:
        return EVERYTHING
    exact = [_Requirement(key, IN, frozenset({value})) for key, value in (selector.get("matchLabels") or {}).items()]
    return LabelSelector((*exact, *(_expression(each) for each in selector.get("matchExpressions") or ())))


_OPERATORS = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": ABSENT}


def _expression(expression: Mapping[str, Any]) -> _Requirement:
    operator = _OPERATORS.get(expression["operator"])
    if operator is None:
        raise bad_request(f'"{expression["operator"]}" is not a valid label selector operator')
    return _Requirement(expression["key"], operator, frozenset(expression.get("values") or ()))


class _Tokens:
    """The tokens of a selector, with a lookahead of one."""

    def __init__(self, text: str) -> None:
        self.text, self._position, self.next = text, 0, ""
        self.take()

    def take(self) -> str:
        """Consume and return the next token; empty at the end."""
        taken = self.next
        match = _TOKEN.match(self.text, self._position)
        assert match is not None, "any character begins some token"
        self.next, self._position = match[1], match.end()
        return taken

    def word(self, expected: str) -> str:
        if self.next in _PUNCTUATION:
            raise self.unexpected(expected)
        return self.take()

    def unexpected(self, expected: str) -> Exception:
        """The error for a wrong token within a requirement."""
        return bad_request(f"unable to parse requirement: found '{self.next}', expected: {expected}")

    def out_of_place(self, expected: str) -> Exception:
        """The error for a wrong token before or after a requirement."""
        return bad_request(f"found '{self.next}', expected: {expected}")


def _requirement(tokens: _Tokens) -> _Requirement:
    if tokens.next == "!":
        tokens.take()
        return _Requirement(_key(tokens), ABSENT)
    key = _key(tokens)
    if tokens.next in ("", ","):
        return _Requirement(key, EXISTS)
    operator = tokens.take()
    if operator in ("=", "=="):
        return _Requirement(key, IN, frozenset({_value(tokens, key)}))
    if operator == "!=":
        return _Requirement(key, NOT_IN, frozenset({_value(tokens, key)}))
    if operator in (IN, NOT_IN):
        return _Requirement(key, operator, frozenset(_values(tokens, key)))
    if operator in (GREATER, LESS):
        return _Requirement(key, operator, frozenset({_bound(tokens)}))
    raise bad_request(f"unable to parse requirement: found '{operator}', expected: {_ALL_OPERATORS}")


_ALL_OPERATORS = "in, notin, =, ==, !=, gt, lt"


def _key(tokens: _Tokens) -> str:
    key = tokens.word("!, identifier, or 'end of string'")
    if problems := qualified_name(key):
        raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{key}": {"; ".join(problems)}')
    return key


def _value(tokens: _Tokens, key: str) -> str:
    """One value, which may be empty."""
    return _checked("" if tokens.next in ("", ",") else tokens.word("identifier"), key)


def _values(tokens: _Tokens, key: str) -> Iterator[str]:
    if tokens.next != "(":
        raise tokens.unexpected("'('")
    tokens.take()
    yield "" if tokens.next in (",", ")") else _checked(tokens.word("',', ')' or identifier"), key)
    while tokens.next == ",":
        tokens.take()
        yield "" if tokens.next in (",", ")") else _checked(tokens.word("',', ')' or identifier"), key)
    if tokens.next != ")":
        raise tokens.unexpected("',' or ')'")
    tokens.take()


def _bound(tokens: _Tokens) -> str:
    bound = tokens.word("identifier")
    if not _INTEGER(bound):
        message = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise bad_request(f'unable to parse requirement: values[0]: Invalid value: "{bound}": {message}')
    return bound


def _checked(value: str, key: str) -> str:
    if problems := label_value(value):
        shown = f'values[0][{key}]: Invalid value: "{value}": {"; ".join(problems)}'
        raise bad_request(f"unable to parse requirement: {shown}")
    return value


class _Term(NamedTuple):
    path: str
    equal: bool
    value: str


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A conjunction of terms. A missing field has the value ''."""

    terms: tuple[_Term, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(term.path for term in self.terms)

    def matches(self, item: Object, aliases: Mapping[str, Alias] = _NO_ALIASES) -> bool:
        """Whether an object matches. `aliases` are the selectors whose names are not paths."""
        return all((_value_of(item, term.path, aliases) == term.value) == term.equal for term in self.terms)

    def exactly(self, path: str) -> str | None:
        """The value that the selector demands of a field; None if it demands none."""
        return next((term.value for term in self.terms if term.path == path and term.equal), None)


def _value_of(item: Object, path: str, aliases: Mapping[str, Alias]) -> str:
    alias = aliases.get(path)
    if alias is None:
        return field_value(item, path)
    return field_value(item, alias.path) or alias.missing


@lru_cache(2048)
def field_selector(text: str) -> FieldSelector:
    r"""Parse `a.b=c,d!=e`. In values `\,`, `\=` and `\\` are escapes. Raises Refused (400)."""
    return FieldSelector(tuple(_term(each, text) for each in _split(text) if each))


_OPERATOR = re.compile(r"(?<!\\)(!=|==|=)")
_COMMA = re.compile(r"((?:\\.|[^\\,])*)(?:,|$)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)?", re.DOTALL)


def _split(text: str) -> list[str]:
    return [match[1] for match in _COMMA.finditer(text)]


def _term(text: str, whole: str) -> _Term:
    path, *rest = _OPERATOR.split(text, maxsplit=1)
    if not rest:
        raise bad_request(f"invalid selector: '{whole}'; can't understand '{text}'")
    operator, value = rest
    return _Term(path, operator != "!=", _unescaped(value))


def _unescaped(value: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1] is None or match[1] not in "\\,=":
            raise bad_request(f"invalid field selector: invalid escape sequence: {match[0]}")
        return str(match[1])

    return _ESCAPE.sub(replace, value)


def field_value(item: Object, path: str) -> str:
    """The value of the field at `a.b.c` as text, as selectors compare it."""
    value: Any = item
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
