"""Data from other clusters, checked where it is first read.

Text is cut, impossible times are dropped, and a malformed object may give no answer. A worker's API server may send
anything of the right shape. It must cost that worker no more than its turn, so nothing here raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from traceback import extract_tb
from typing import TypeVar

import msgspec

from multikueue.api.meta import LONGEST_MESSAGE, Condition
from multikueue.errors import InvalidObject, MultiKueueError

__all__ = ["LONGEST_EXCERPT", "answer_or", "bounded", "excerpt", "moment", "why_unreadable"]


LONGEST_EXCERPT = 1000
_LONGEST_REASON = 1024
_USER_INFO = re.compile(r"(?<=://)[^/?#\s]*@")
_YEARS = range(1970, 9000)

_ODD = (msgspec.MsgspecError, InvalidObject, ArithmeticError, AttributeError, RecursionError, TypeError, ValueError)
"""Exceptions from reading JSON of any shape."""

T = TypeVar("T")


def excerpt(text: str, longest: int = LONGEST_EXCERPT) -> str:
    """Foreign text as it may stand in errors, logs and statuses: short, printable, and without the password of a
    URL."""
    if len(text) <= longest and text.isprintable() and "@" not in text:
        return text
    shown = _USER_INFO.sub("***@", text)[: longest + 1]
    shown = "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in shown)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def moment(time: datetime | None) -> datetime | None:
    """The time, if it has a zone and is far enough from the ends of the calendar for arithmetic; else None."""
    return time if time is not None and time.year in _YEARS and time.tzinfo is not None else None


def bounded(condition: Condition | None) -> Condition | None:
    """The condition within the limits of the API: its texts cut, an impossible time dropped."""
    if condition is None or _is_sound(condition):
        return condition
    return msgspec.structs.replace(
        condition,
        reason=condition.reason[:_LONGEST_REASON],
        message=condition.message[:LONGEST_MESSAGE],
        last_transition_time=moment(condition.last_transition_time),
    )


def _is_sound(condition: Condition) -> bool:
    short = len(condition.reason) <= _LONGEST_REASON and len(condition.message) <= LONGEST_MESSAGE
    return short and moment(condition.last_transition_time) is condition.last_transition_time


def answer_or(question: Callable[[], T], otherwise: T) -> T:
    """The answer of `question` about a foreign object; `otherwise` if the object is too malformed for one."""
    try:
        return question()
    except _ODD:
        return otherwise


_LONGEST = 300
"""Characters: the text is shown to people, and may be foreign."""


def why_unreadable(error: Exception) -> str:
    """The reason in one line; for an unexpected error also where it happened."""
    return " ".join(excerpt(_words(error), _LONGEST).split())


def _words(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MultiKueueError | msgspec.MsgspecError | UnicodeDecodeError):
        return str(error)
    last = next(reversed(extract_tb(error.__traceback__)), None)
    place = f" (in {last.name}, line {last.lineno} of {last.filename.rpartition('/')[2]})" if last else ""
    return f"{type(error).__name__}{place}: {error}"
