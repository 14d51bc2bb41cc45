"""An event that we emit about an object, as a value: deciders return it, a controller's recorder emits it."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["REFUSED", "Event"]

REFUSED = "Refused"
"""The reason of an event with an API server's words about a write that it refuses again and again."""


class Event(msgspec.Struct, frozen=True):
    """`reason` and `message` as in a Kubernetes Event; reasons are Kueue's where it has one."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    is_routine: bool = False
    """Whether every workload gets this event in normal operation."""
