"""Jobs within jobs: a job that belongs to one in a queue is held and let go of with that (quota-engine 6.1).

What makes jobs for its own ends, a JobSet its Jobs or a RayJob its RayCluster, controls them by an owner reference. Of such a
line the uppermost job in a queue has the one Workload for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from multikueue.jobs.framework.adapter import Adapter

__all__ = ["MOST_HOPS", "Ancestor", "Nested", "is_whole", "nested"]

MOST_HOPS = 10
"""How far up Kueue looks."""


class Nested(Enum):
    """How it stands with the job that a job belongs to."""

    ADMITTED = auto()
    WAITING = auto()
    UNSEEN = auto()
    """One of the line is of a kind of ours and not to be seen: it may come, or be on its way out."""
    TOO_DEEP = auto()


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A job of a kind in use that is above another one; `admitted` says whether a Workload of its own is."""

    in_queue: bool
    admitted: bool


def is_whole(adapter: Adapter) -> bool:
    """Whether jobs of this kind may belong to others, or others to them: those that a field of their own holds. What nothing
    but the gate of its Pods holds is told by other marks whose it is."""
    return adapter.resumes and adapter.mirrors


def nested(line: Iterable[Ancestor | None]) -> Nested | None:
    """Whether a job belongs to one in a queue; None if it stands by itself. `line` is what is above it, from below; it ends
    where nothing of ours is, and None stands for what is unseen."""
    highest = None
    for hops, above in enumerate(line, 1):
        if above is None:
            return Nested.UNSEEN
        if hops > MOST_HOPS:
            return Nested.TOO_DEEP
        highest = above if above.in_queue else highest
    if highest is None:
        return None
    return Nested.ADMITTED if highest.admitted else Nested.WAITING
