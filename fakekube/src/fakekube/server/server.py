"""What all verbs of one API server share: what is served, where it is stored, and whence come time and chance."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from fakekube.builtins import kinds as builtins
from fakekube.builtins import rules
from fakekube.builtins.rules import Rules
from fakekube.model.metadata import timestamp
from fakekube.model.resources import Registry, Resource
from fakekube.model.storage import Storage
from fakekube.schemas.schema import Schema
from fakekube.server.admission import Admission
from fakekube.wire import Object, Request

__all__ = ["LoopScheduler", "Scheduler", "Server", "Timer", "Virtual"]


class Timer(Protocol):
    """Something that will be called, unless it is cancelled before."""

    def cancel(self) -> object: ...


class Scheduler(Protocol):
    """Who calls later. An event loop does; so does whatever turns time in a test."""

    def call_later(self, seconds: float, function: Callable[[], None], /) -> Timer: ...


class LoopScheduler:
    """The event loop that runs when it is asked."""

    def call_later(self, seconds: float, function: Callable[[], None], /) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, function)


Virtual = Callable[[Object, Request], Object]
"""Makes the answer to an object that is created and not stored, such as a SubjectAccessReview. Raises Refused."""


@dataclass(eq=False, kw_only=True)
class Server:
    """One API server. Owns nothing that changes but its storage and its registry."""

    registry: Registry
    storage: Storage
    now: Callable[[], datetime]
    rng: random.Random
    scheduler: Scheduler = field(default_factory=LoopScheduler)
    admission: Admission | None = None
    managed_fields: bool = True
    virtual: Mapping[tuple[str, str], Virtual] = field(default_factory=dict)
    """(group, plural) of kinds that are answered and not stored."""
    watch_buffer: int = 10_000
    """Lines a reader of a watch may be behind, on top of the first state, before the watch is closed."""
    bookmarks: float = 60.0
    """Seconds between bookmarks on a watch."""

    def rules(self, resource: Resource) -> Rules:
        return (
            rules.custom(resource)
            if resource.custom
            else builtins.RULES.get(f"{resource.plural}.{resource.group}", rules.PLAIN)
        )

    def schema(self, resource: Resource) -> Schema:
        return Schema.of(resource)

    def stamp(self) -> str:
        return timestamp(self.now())

    def uid(self) -> str:
        """A random UUID of version 4."""
        digits = f"{self.rng.getrandbits(128):032x}"
        variant = "89ab"[int(digits[16], 16) & 3]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

    def ending(self) -> str:
        """Five random characters for the end of a generated name: no vowels, so no words."""
        return "".join(self.rng.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
