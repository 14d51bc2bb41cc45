"""Validation of names, label values and qualified names, with Kubernetes' messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

__all__ = ["NameRule", "dns_label", "dns_subdomain", "label_value", "path_segment", "qualified_name"]

NameRule = Callable[[str], Sequence[str]]
"""From a name to the messages about it; none for a valid name."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch

_LONGEST_LABEL = 63
_LONGEST_SUBDOMAIN = 253

_BAD_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_BAD_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_VALUE}')"
)
_BAD_QUALIFIED = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)


@lru_cache(4096)
def dns_label(name: str) -> tuple[str, ...]:
    """The rule of namespaces: at most 63 characters, no dots."""
    if _is_label(name):
        return _length(name, _LONGEST_LABEL)
    return _length(name, _LONGEST_LABEL) + (("must not contain dots",) if _is_subdomain(name) else (_BAD_LABEL,))


@lru_cache(4096)
def dns_subdomain(name: str) -> tuple[str, ...]:
    """The rule of most kinds: labels joined by dots, at most 253 characters."""
    return _length(name, _LONGEST_SUBDOMAIN) + (() if _is_subdomain(name) else (_BAD_SUBDOMAIN,))


@lru_cache(4096)
def path_segment(name: str) -> tuple[str, ...]:
    """The rule of RBAC's kinds: any segment of a path."""
    if name in (".", ".."):
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{each}'" for each in "/%" if each in name)


@lru_cache(4096)
def label_value(value: str) -> tuple[str, ...]:
    return _length(value, _LONGEST_LABEL) + (() if _is_value(value) else (_BAD_VALUE,))


@lru_cache(4096)
def qualified_name(name: str) -> tuple[str, ...]:
    """The rule of label keys: `[DNS subdomain/]name`."""
    prefix, slash, rest = name.rpartition("/")
    if "/" in prefix:
        return (
            f"a qualified name {_BAD_QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    return (_prefix(prefix) if slash else ()) + _name_part(rest)


def _prefix(prefix: str) -> tuple[str, ...]:
    if not prefix:
        return ("prefix part must be non-empty",)
    return tuple(f"prefix part {each}" for each in dns_subdomain(prefix))


def _name_part(name: str) -> tuple[str, ...]:
    if not name:
        return ("name part must be non-empty", f"name part {_BAD_QUALIFIED}")
    long = tuple(f"name part {each}" for each in _length(name, _LONGEST_LABEL))
    return long + (() if _is_qualified(name) else (f"name part {_BAD_QUALIFIED}",))


def _length(name: str, longest: int) -> tuple[str, ...]:
    return (f"must be no more than {longest} characters",) if len(name) > longest else ()
