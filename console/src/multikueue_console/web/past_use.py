"""Who used and waited how much before now, from the history, of the namespaces that one person may see."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec

from multikueue_console.history.report import MEASURES, ReportRow, rows_of
from multikueue_console.history.use import sums

if TYPE_CHECKING:
    from collections.abc import Callable

    from multikueue_console.history.store import RunHistory

__all__ = ["WAYS", "PastUse"]

WAYS: Mapping[str, tuple[str, ...]] = {
    "namespace": ("namespace",),
    "queue": ("namespace", "queue"),
    "user": ("user",),
    "cluster": ("cluster",),
    "hour": ("hour",),
}
"""What a page groups by, and the dimensions of a report that this takes."""

MOST_ROWS = 200
"""Rows of an answer: those that used the most, or the last hours."""

MOST_GAPS = 5

LIFETIME = timedelta(minutes=1)
"""The time for which an answer holds: a month of a large history takes seconds to sum up."""

MOST_ANSWERS = 100


class PastUse:
    """One question at a time reads the history, in a thread: the pages of others go on meanwhile."""

    def __init__(self, history: RunHistory, now: Callable[[], datetime]) -> None:
        self._history, self._now = history, now
        self._turn = anyio.Lock()
        self._told: dict[tuple[Any, ...], tuple[datetime, bytes]] = {}

    async def told(self, way: str, days: int, namespaces: Collection[str] | None) -> bytes:
        """The use of the last days by one of `WAYS`, of these namespaces or all, as JSON. Raises HistoryUnavailable."""
        asked = (way, days, None if namespaces is None else frozenset(namespaces))
        async with self._turn:
            known, now = self._told.pop(asked, None), self._now()
            if known is None or not known[0] <= now < known[0] + LIFETIME:
                summed = partial(self._summed, way, now - timedelta(days=days), now, asked[2])
                known = (now, await anyio.to_thread.run_sync(summed))
            self._told[asked] = known
            while len(self._told) > MOST_ANSWERS:
                del self._told[next(iter(self._told))]
            return known[1]

    def _summed(self, way: str, since: datetime, now: datetime, namespaces: Collection[str] | None) -> bytes:
        shares = self._history.shares(since, now, namespaces=namespaces)
        rows = rows_of(sums(shares, WAYS[way], since=since, until=now))
        rows = rows[::-1] if way == "hour" else sorted(rows, key=_heaviest)
        items = [
            {"name": "/".join(row.group), **{name: getattr(row, name) for name in MEASURES}} for row in rows[:MOST_ROWS]
        ]
        gaps = self._history.gaps(since)[-MOST_GAPS:]
        return msgspec.json.encode({"items": items, "length": len(rows), "gaps": gaps})


def _heaviest(row: ReportRow) -> tuple[float, float, int]:
    return -row.gpu_hours, -row.cpu_hours, -row.ended
