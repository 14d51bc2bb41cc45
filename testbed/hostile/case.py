"""One hostile case: its actor, its act, and the function that plays it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from testbed.hostile.stage import Stage

__all__ = ["Account", "Case", "Harm", "Play"]

Account = Callable[[], Awaitable[str]]
"""The result of the case. Raises Harm when others were harmed."""

Play = Callable[[Stage], Awaitable[Account | str]]
"""Plays the act and leaves its traces, which `stage.undo` and the end of the turn remove. ApiError means that the API
server refused the act. Returns the result, or a function that finds it later."""


class Harm(Exception):
    """Others were harmed; the message says how."""


@dataclass(frozen=True, slots=True)
class Case:
    """`who` is a tenant, a worker, an admin or the network. What the act makes must say what is wrong with it, or run;
    `silent` is why it need not."""

    who: str
    what: str
    play: Play
    silent: str = ""
