"""What API servers refuse, or leave without an answer, try after try: told once, and counted while it lasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from datetime import datetime, timedelta

import msgspec

__all__ = ["LASTING", "Refusal", "Refusals"]

LASTING = timedelta(seconds=30)
"""From when on it is told that a write fails which may succeed at the next try."""

TOLD_AGAIN = timedelta(minutes=50)
"""When the same is told again: an API server keeps events for an hour, and commands read them."""


class Refusal(msgspec.Struct, frozen=True):
    """Since when a write fails, the latest words, and when they were last told; None: not yet."""

    since: datetime
    words: str
    told: datetime | None = None

    @property
    def is_told(self) -> bool:
        return self.told is not None


class Refusals:
    """By what is written (such as `workload`, or `job`), on which cluster (empty: the manager's), and its key."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str, Hashable], Refusal] = {}

    def fails(self, what: str, key: Hashable, words: str, now: datetime, *, cluster: str = "", is_sure: bool) -> bool:
        """A write fails with these words. Returns whether to tell them: they are new, or were told long ago.
        `is_sure`: the same write would fail again; else it is told once that lasts."""
        place = (what, cluster, key)
        before = self._of.get(place) or Refusal(now, words)
        is_due = is_sure or before.is_told or now >= before.since + LASTING
        is_news = before.told is None or before.words != words or now >= before.told + TOLD_AGAIN
        told = now if is_due and is_news else before.told
        self._of[place] = Refusal(before.since, words, told)
        return is_due and is_news

    def get(self, what: str, key: Hashable, *, cluster: str = "") -> Refusal | None:
        """The lasting failure of a write that was told."""
        found = self._of.get((what, cluster, key))
        return found if found is not None and found.is_told else None

    def over(self, what: str, key: Hashable, *, cluster: str = "") -> None:
        """The write succeeded, or is not wanted any more."""
        if self._of:
            self._of.pop((what, cluster, key), None)

    def count(self) -> Counter[tuple[str, str]]:
        """The number of told failures by what is written, and cluster."""
        return Counter((what, cluster) for (what, cluster, _), each in self._of.items() if each.is_told)
