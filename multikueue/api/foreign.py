"""What somebody else says, judged where we first look at it.

Text is cut, times are ones that can be, and an odd object does not answer each question. A worker's API server may send
anything of the right shape. Whatever that is, it must cost that worker no more than its turn, so nothing here raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import msgspec

from multikueue.api.meta import LONGEST_MESSAGE, Condition
from multikueue.errors import InvalidObject

__all__ = ["LONGEST_EXCERPT", "asked", "excerpt", "heard", "moment"]

LONGEST_EXCERPT = 1000
_LONGEST_REASON = 1024
_USER_INFO = re.compile(r"(?<=://)[^/?#\s]*@")
_YEARS = range(1970, 9000)

_ODD = (msgspec.MsgspecError, InvalidObject, ArithmeticError, AttributeError, RecursionError, TypeError, ValueError)
"""What a look into JSON of any shape may raise."""

T = TypeVar("T")


def excerpt(text: str, longest: int = LONGEST_EXCERPT) -> str:
    """Text of others as it may stand in errors, logs and statuses: short, printable, and no URL in it has a password."""
    if len(text) <= longest and text.isprintable() and "@" not in text:
        return text
    shown = _USER_INFO.sub("***@", text)[: longest + 1]
    shown = "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in shown)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def moment(time: datetime | None) -> datetime | None:
    """A time that can be: with a zone, and far enough from the ends of the calendar to be reckoned with; else None."""
    return time if time is not None and time.year in _YEARS and time.tzinfo is not None else None


def heard(condition: Condition | None) -> Condition | None:
    """A condition as the API would have it: no longer than it may be, since a time that can be, or none."""
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


def asked(question: Callable[[], T], otherwise: T) -> T:
    """The answer to a question about an odd object; `otherwise` if it is so odd that there is none."""
    try:
        return question()
    except _ODD:
        return otherwise
