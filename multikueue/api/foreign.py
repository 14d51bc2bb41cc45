"""What somebody else says, judged where we first look at it.

Text is cut, times are ones that can be, and an odd object does not answer each question. A worker's API server may send
anything of the right shape. Whatever that is, it must cost that worker no more than its turn, so nothing here raises.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import msgspec

from multikueue.api.meta import LONGEST_MESSAGE, Condition
from multikueue.errors import InvalidObject

__all__ = ["asked", "excerpt", "heard", "moment"]

_EXCERPT = 1000
_LONGEST_REASON = 1024
_YEARS = range(1970, 9000)

_ODD = (msgspec.MsgspecError, InvalidObject, ArithmeticError, AttributeError, RecursionError, TypeError, ValueError)
"""What a look into JSON of any shape may raise."""

T = TypeVar("T")


def excerpt(text: str) -> str:
    """A text short enough to be one of many in a message of ours."""
    return text if len(text) <= _EXCERPT else f"{text[: _EXCERPT - 1]}…"


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
