"""Where a recording shows what we do not want to do, each with its reason: an error or a chance of Kueue's.

Steps count from 1. What is listed here is told and does not count; whatever else differs in the same story does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from tests.parity.compare import NOTHING, Disagreement

STALE = "Kueue left a figure in a queue's status as it was until the next event of that queue"
ONCE_MORE = "a share is shown again at the next event of its queue, as in Kueue, and Kueue's had one event more"
HELD = "whether work that waits in a held queue reads Pending or Inadmissible is a race within Kueue"
LATE = (
    "Kueue was slow when this was recorded: a head that is tried again and again was tried only after parked work had "
    "been woken; a Kueue with nothing else to do decides as we do"
)

WOKEN_LATE = (
    "Kueue wakes parked work up to a second after quota has become free, and until then the head of a StrictFIFO queue, "
    "which is never parked, takes it before work of a higher priority; with us both compete for it at once"
)
UNSEEN = (
    "work that asks for the same as what was parked is parked unseen since 0.17: Kueue says nothing of it, we say why it "
    "waits"
)
TIME_UP = (
    "Kueue says of work whose time was up that it is to be switched off also when it is; whoever switches it on again has "
    "it switched off at once"
)

END = 10_000
"""A step after all that a story has: what went another way once does not come back."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """`story`, `objects` and `fields` are patterns, `steps` the first and the last one; `values` are what is expected and
    what we got, if only these are meant."""

    story: str
    steps: tuple[int, int]
    objects: str
    fields: str
    why: str
    values: tuple[Any, Any] | None = None

    def covers(self, found: Disagreement) -> bool:
        first, last = self.steps
        fits = fnmatch(found.object, self.objects) and fnmatch(found.field, self.fields)
        meant = self.values in (None, (found.expected, found.got))
        return fnmatch(found.story, self.story) and first <= found.step <= last and fits and meant


EVERYWHERE = ("*", (1, END))
WAITS = (NOTHING, ["False", "Pending"])
SAYS_SO = (["True", "MaximumExecutionTimeExceeded"], NOTHING)

KNOWN = (
    Deviation(*EVERYWHERE, "workload *", "conditions.QuotaReserved", UNSEEN, WAITS),
    Deviation(*EVERYWHERE, "workload *", "conditions.DeactivationTarget", TIME_UP, SAYS_SO),
    Deviation("c2x020-random-classical", (6, END), "*", "*", LATE),
    Deviation("c2x132-random-classical", (10, END), "*", "*", LATE),
    Deviation("c2x146-random-classical", (4, END), "*", "*", LATE),
    Deviation("c2x056-random-classical", (6, 6), "ClusterQueue *", "[ru]*", STALE),
    Deviation("c2x093-random-classical", (3, 3), "ClusterQueue *", "[ru]*", STALE),
    Deviation("f2x029-random-fair", (8, 9), "ClusterQueue *", "weightedShare", STALE, (152, 116)),
    Deviation("f2x049-random-fair", (6, 6), "ClusterQueue *", "weightedShare", STALE),
    Deviation("r9000-written-fair", (3, END), "*", "weightedShare", STALE),
    Deviation("r0125-drawn-fair-2613", (5, 5), "Cohort *", "weightedShare", STALE),
    Deviation("r0186-drawn-fair-400504", (8, 10), "Cohort *", "weightedShare", STALE),
    Deviation("r0146-drawn-fair-400504", (3, 4), "ClusterQueue r0146-q3", "weightedShare", ONCE_MORE, (11, 14)),
    # Kueue writes a head's message again when only an amount in it has changed; we do not, so its queue has no event.
    Deviation("r0022-drawn-fair-11", (3, 3), "ClusterQueue r0022-q2", "weightedShare", ONCE_MORE, (232, 209)),
    Deviation("r0090-drawn-classical-7", (3, END), "*", "*", WOKEN_LATE),
    Deviation("h088-stop-local-hold", (3, 4), "ClusterQueue *", "pending", STALE),
    Deviation("f2x058-random-fair", (5, 5), "workload *", "conditions.QuotaReserved", HELD),
    Deviation("f2x071-random-fair", (8, 9), "workload *", "conditions.QuotaReserved", HELD),
)


def reason(found: Disagreement, known: Iterable[Deviation] = KNOWN) -> str:
    """Why we differ there on purpose; empty if we do not."""
    return next((each.why for each in known if each.covers(found)), "")
