"""How durations are written, and drains, which may wait for one: the one grammar of settings, options and annotations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

__all__ = ["Drain", "duration", "parse_drain", "parse_duration"]

_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"
_DURATION = re.compile(rf"[+-]?(?:{_NUMBER}|(?:{_NUMBER}(?:ns|us|µs|ms|s|m|h|d))+)")
_DURATION_PART = re.compile(rf"({_NUMBER})(ns|us|µs|ms|s|m|h|d|$)")
_LONGEST_TEXT = 60
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}


def duration(value: object) -> object:
    """As Kubernetes writes it, days (`30d`) too, or a number of seconds as text; anything else comes back as it is."""
    if not isinstance(value, str) or _DURATION.fullmatch(value) is None:
        return value
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(value))
    try:
        return timedelta(seconds=-seconds if value.startswith("-") else seconds)
    except OverflowError:
        raise ValueError("expected a duration of less than a thousand million days") from None


def parse_duration(text: str) -> timedelta | None:
    """The duration in an annotation or an option, 0 or more; None if it is none."""
    if not text or len(text) > _LONGEST_TEXT:
        return None
    try:
        found = duration(text)
    except ValueError:
        return None
    span = found if isinstance(found, timedelta) else _in_other_forms(text)
    return span if span is not None and span >= timedelta() else None


def _in_other_forms(text: str) -> timedelta | None:
    """As `PT1H` and `00:15:00`, which settings take too. Rare, so pydantic is loaded only then."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(timedelta).validate_python(text)
    except ValidationError:
        return None


@dataclass(frozen=True, slots=True)
class Drain:
    """What becomes of what runs on a worker that is drained: it queues again `after` that time; None: it goes on to its end.
    `should_signal`: its pods are told until when they have time."""

    after: timedelta | None = None
    should_signal: bool = False

    def __str__(self) -> str:
        if self.after is None:
            return "wait"
        if self.should_signal:
            return f"signal={self.after.total_seconds():g}s"
        return f"wait={self.after.total_seconds():g}s" if self.after else "requeue"


def parse_drain(text: str) -> Drain | None:
    """`requeue`, `wait`, `wait=8h`, or `signal=15m`; None for anything else."""
    word, sign, time = text.strip().partition("=")
    if word == "requeue" and not sign:
        return Drain(timedelta())
    after = parse_duration(time)
    if word == "signal":
        return Drain(after, should_signal=True) if after is not None else None
    return Drain(after) if word == "wait" and bool(sign) == (after is not None) else None
