"""What API servers refuse, or leave without an answer, try after try: told once, and counted while it lasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from multikueue.api.meta import ObjectKey

__all__ = ["LASTING", "Refusal", "Refusals", "StatusKey"]

LASTING = timedelta(seconds=30)
"""From when on it is told that a write fails which may succeed at the next try."""

TOLD_AGAIN = timedelta(minutes=50)
"""When the same is told again: an API server keeps events for an hour, and commands read them."""


class StatusKey(NamedTuple):
    """The key of the status of an object of that kind (`Kind.name`)."""

    kind: str
    key: ObjectKey


class Refusal(msgspec.Struct, frozen=True):
    """Since when a write fails, what it is, the latest words, and when they were last told; None: not yet."""

    since: datetime
    what: str
    words: str
    told: datetime | None = None

    @property
    def is_told(self) -> bool:
        return self.told is not None


class Refusals:
    """By the key of what is written, and the cluster (empty: the manager's)."""

    def __init__(self) -> None:
        self._of: dict[Hashable, dict[str, Refusal]] = {}

    def fails(self, key: Hashable, what: str, why: str, now: datetime, *, cluster: str = "", is_sure: bool) -> bool:
        """A write fails. Returns whether to tell them: they are new, or were told long ago.
        `is_sure`: the same write would fail again; else it is told once that lasts."""
        before, words = self.get(key, cluster=cluster), f"{what}: {why}"
        if before is None or before.what != what:
            before = Refusal(now, what, words)
        is_due = is_sure or before.is_told or now >= before.since + LASTING
        is_news = before.told is None or before.words != words or now >= before.told + TOLD_AGAIN
        told = now if is_due and is_news else before.told
        self._of.setdefault(key, {})[cluster] = Refusal(before.since, what, words, told)
        return is_due and is_news

    def get(self, key: Hashable, *, cluster: str = "") -> Refusal | None:
        found = self._of.get(key) if self._of else None
        return found.get(cluster) if found else None

    def told(self, key: Hashable, cluster: str) -> str:
        """The words that were told of that cluster; empty if none were."""
        found = self.get(key, cluster=cluster)
        return found.words if found is not None and found.is_told else ""

    def over(self, key: Hashable, *, cluster: str = "", what: str = "") -> bool:
        """The write (empty: whichever) succeeded, or is not wanted any more. Returns whether its failure had been told."""
        ended = self.get(key, cluster=cluster)
        if ended is None or what not in ("", ended.what):
            return False
        del self._of[key][cluster]
        if not self._of[key]:
            del self._of[key]
        return ended.is_told

    def clusters(self, key: Hashable) -> tuple[str, ...]:
        """Where writes of that key fail."""
        return tuple(self._of.get(key, ())) if self._of else ()

    def count(self, now: datetime) -> Counter[tuple[str, str]]:
        """The number of failures that are sure or last, by the kind of key, and cluster."""
        return Counter(
            ("workload" if cluster else "status" if isinstance(key, StatusKey) else "job", cluster)
            for key, found in self._of.items()
            for cluster, each in found.items()
            if each.is_told or now >= each.since + LASTING
        )
