"""Why an object was set aside: it cannot be decoded or taken in, so nothing is decided about it."""

from __future__ import annotations

from traceback import extract_tb

import msgspec

from multikueue.api.values.foreign import excerpt
from multikueue.errors import MultiKueueError

__all__ = ["why_unreadable"]

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
