"""The state that all verbs of an API server share: registry, storage, clock, and random generator."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from fakekube.builtins import kinds as builtins
from fakekube.builtins.rules import rules
from fakekube.builtins.rules.rules import Rules
from fakekube.model.metadata import timestamp
from fakekube.model.resources import Registry, Resource
from fakekube.model.storage import Storage
from fakekube.model.wire import Object, Request
from fakekube.schemas.schema import Schema
from fakekube.server.admission.admission import Admission

__all__ = ["LoopScheduler", "Scheduler", "Server", "Timer", "Virtual"]


class Timer(Protocol):
    """A delayed call that can be cancelled."""

    def cancel(self) -> object: ...


class Scheduler(Protocol):
    """Runs delayed calls: an event loop, or the virtual time of a test."""

    def call_later(self, seconds: float, function: Callable[[], None], /) -> Timer: ...


class LoopScheduler:
    """A scheduler on the running event loop."""

    def call_later(self, seconds: float, function: Callable[[], None], /) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, function)


Virtual = Callable[[Object, Request], Object]
"""Makes the answer to an object that is created but not stored, such as a SubjectAccessReview. Raises Refused."""


@dataclass(eq=False, kw_only=True)
class Server:
    """One API server. Its only mutable state is in its storage and its registry."""

    registry: Registry
    storage: Storage
    now: Callable[[], datetime]
    rng: random.Random
    scheduler: Scheduler = field(default_factory=LoopScheduler)
    admission: Admission | None = None
    managed_fields: bool = True
    virtual: Mapping[tuple[str, str], Virtual] = field(default_factory=dict)
    """Kinds that are answered instead of stored, by (group, plural)."""
    watch_buffer: int = 10_000
    """Lines by which the reader of a watch may lag, besides the initial ones, before the watch is closed."""
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
        """A random UUID, version 4."""
        digits = f"{self.rng.getrandbits(128):032x}"
        variant = "89ab"[int(digits[16], 16) & 3]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

    def ending(self) -> str:
        """Five random characters for a generated name; no vowels, so that they form no words."""
        return "".join(self.rng.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
