"""Nested jobs: a job owned by a job in a queue is suspended and started with its owner (quota-engine 6.1).

A JobSet controls its Jobs, and a RayJob its RayCluster, by an owner reference. Along such a chain the uppermost job in
a queue has the one Workload for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

import msgspec

from multikueue.jobs.framework.adapter import Adapter

__all__ = ["MOST_HOPS", "Ancestor", "Nested", "is_whole", "nested"]

MOST_HOPS = 10
"""The number of owners that Kueue follows upwards."""


class Nested(Enum):
    """The state of the job that owns a nested job."""

    ADMITTED = auto()
    WAITING = auto()
    UNSEEN = auto()
    """An owner of a kind in use is not in the store: it may not be seen yet, or is being deleted."""
    TOO_DEEP = auto()


class Ancestor(msgspec.Struct, frozen=True):
    """A job of a kind in use that owns another, directly or not. `is_admitted`: its own Workload is admitted."""

    is_in_queue: bool
    is_admitted: bool


def is_whole(adapter: Adapter) -> bool:
    """Whether jobs of this kind may own others or be owned: true if a field of their own suspends them. Kinds that only
    the gates of their Pods hold record their owner in other marks."""
    return adapter.may_resume and adapter.is_mirrored


def nested(line: Iterable[Ancestor | None]) -> Nested | None:
    """The state of the uppermost owner in a queue; None if there is none. `line` is the chain of owners from below, up
    to the last of a kind in use; a None in it is an owner that is not in the store."""
    highest = None
    for hops, above in enumerate(line, 1):
        if above is None:
            return Nested.UNSEEN
        if hops > MOST_HOPS:
            return Nested.TOO_DEEP
        highest = above if above.is_in_queue else highest
    if highest is None:
        return None
    return Nested.ADMITTED if highest.is_admitted else Nested.WAITING
