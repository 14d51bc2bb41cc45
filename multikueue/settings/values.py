"""Kinds of values that settings have: how they are written, and what is refused, said as "expected ..."."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from multikueue.durations import duration, parse_drain

__all__ = [
    "Span",
    "Wait",
    "drain_policy",
    "from_commas",
    "https",
    "label_key",
    "label_selector",
    "label_terms",
    "label_value",
    "not_pods",
    "number_as_text",
    "object_name",
    "percent_or_number",
    "quantity",
    "resource_name",
    "server_template",
    "share",
    "with_cluster",
]

_QUANTITY = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+|[KMGTPE]i|[numkMGTPE]?)")
_PERCENT = r"(?:100|[1-9]?\d)%"
_RESERVE = re.compile(rf"{_PERCENT}|[^=\s]+\s*=\s*(?:{_PERCENT}|{_QUANTITY.pattern})")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_TERM = re.compile(
    r"(?P<key>[^\s!=(),]+)\s*((?P<sign>==?|!=)\s*(?P<value>[^\s!=(),]*)|(?P<set>in|notin)\s*\((?P<values>[^()]*)\))"
    r"|(?P<not>!?)\s*(?P<alone>[^\s!=(),]+)"
)
_OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def from_commas(value: object) -> object:
    """A list as one types it into an environment variable."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def number_as_text(value: object) -> object:
    """A quantity that YAML takes for a number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def quantity(value: str) -> str:
    if _QUANTITY.fullmatch(value) is None:
        raise ValueError("expected a quantity such as 500m, 2 or 1Gi")
    return value


def share(value: str) -> str:
    parts = [part.strip() for part in value.split(",")]
    names = [part.rpartition("=")[0].strip() for part in parts]
    if not all(map(_RESERVE.fullmatch, parts)) or len(set(names)) < len(names):
        raise ValueError("expected a percentage, resources with a percentage or quantity, or both: 10%,cpu=4,memory=5%")
    return value


def percent_or_number(value: str) -> str:
    if re.fullmatch(rf"{_PERCENT}|\d{{1,6}}", value) is None:
        raise ValueError("expected a percentage or a number: 20%, 5")
    return value


def drain_policy(value: str) -> str:
    if value != value.strip() or parse_drain(value) is None:
        raise ValueError("expected requeue, wait, or wait or signal with a time, such as wait=8h")
    return value


def with_cluster(value: str) -> str:
    """A name with a place for that of a cluster."""
    if value.count("{cluster}") != 1 or _OBJECT_NAME.fullmatch(value.replace("{cluster}", "a")) is None:
        raise ValueError("expected the name of an object with {cluster} in it, such as multikueue-{cluster}")
    return value


def server_template(value: str) -> str:
    if value and (value.count("{cluster}") != 1 or not value.startswith("https://")):
        raise ValueError("expected a URL that starts with https:// and has {cluster} in it")
    return value


def label_key(value: str) -> str:
    prefix, slash, name = value.rpartition("/")
    if (slash and _OBJECT_NAME.fullmatch(prefix) is None) or _LABEL_VALUE.fullmatch(name) is None:
        raise ValueError("expected the key of a label, such as team or example.com/team")
    return value


def resource_name(value: str) -> str:
    try:
        return label_key(value if len(value) <= 253 else "")
    except ValueError:
        raise ValueError("expected a name such as gpu or example.com/gpu, at most 253 characters") from None


def label_selector(value: str) -> str:
    label_terms(value)
    return value


def label_terms(text: str) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """The terms of a label selector as kubectl takes it: key, operator as in a LabelSelector, values. Raises ValueError."""
    terms = (each.strip() for each in re.split(r",(?![^(]*\))", text) if each.strip())
    return tuple(map(_label_term, terms))


def _label_term(text: str) -> tuple[str, str, tuple[str, ...]]:
    found = _LABEL_TERM.fullmatch(text)
    if found is None:
        raise ValueError("expected a label selector such as team=a, team in (a,b), team or !team, with commas between")
    key = label_key(found["key"] or found["alone"])
    if found["sign"] is None and found["set"] is None:
        return key, "DoesNotExist" if found["not"] else "Exists", ()
    values = (found["value"],) if found["sign"] else [each.strip() for each in found["values"].split(",")]
    is_not = found["sign"] == "!=" or found["set"] == "notin"
    return key, "NotIn" if is_not else "In", tuple(label_value(each) if each else each for each in values)


def not_pods(value: str) -> str:
    """The output of a transformation. Kueue counts pods itself, each as one, and refuses them here since 0.19.3."""
    if value == "pods":
        raise ValueError("expected a resource other than pods, which count as one each")
    return value


def label_value(value: str) -> str:
    if _LABEL_VALUE.fullmatch(value) is None:
        raise ValueError(
            "expected a label value: 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends"
        )
    return value


def object_name(value: str) -> str:
    if len(value) > 253 or _OBJECT_NAME.fullmatch(value) is None:
        raise ValueError("expected the name of an object: small letters, digits, '-' and '.', at most 253")
    return value


def https(value: str) -> str:
    if not value.startswith("https://"):
        raise ValueError("expected a URL that starts with https://")
    return value


def _not_negative(value: timedelta) -> timedelta:
    if value < timedelta():
        raise ValueError("expected a duration of 0 or more")
    return value


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta():
        raise ValueError("expected a duration longer than 0")
    return value


Span = Annotated[timedelta, BeforeValidator(duration), AfterValidator(_not_negative)]
"""A duration that may be zero."""

Wait = Annotated[timedelta, BeforeValidator(duration), AfterValidator(_positive)]
"""A duration longer than nothing."""
