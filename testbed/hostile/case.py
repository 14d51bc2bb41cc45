"""One hostile case: its actor, its act, and the function that plays it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from testbed.hostile.stage import Stage

__all__ = ["Account", "Case", "Harm", "Play"]

Account = Callable[[], Awaitable[str]]
"""The result of the case. Raises Harm when others were harmed."""

Play = Callable[[Stage], Awaitable[Account | str]]
"""Does it, and leaves it there: `stage.undo` and the end of the turn take it away. It may raise ApiError: then the API
server refused it. Answers what became of it, or how to find out later."""


class Harm(Exception):
    """Others were harmed; the message says how."""


@dataclass(frozen=True, slots=True)
class Case:
    """`who` is a tenant, a worker, an admin or the network."""

    who: str
    what: str
    play: Play
