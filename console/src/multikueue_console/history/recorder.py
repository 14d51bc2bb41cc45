"""Feeds the store from a watch: changes are gathered for a second, and wait in bounded memory while the database is away."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from functools import partial

import anyio
import anyio.to_thread

from multikueue_console.history.runs import Gap, RunNews
from multikueue_console.history.store import HistoryUnavailable, RunHistory
from multikueue_console.history.story import news_of_removal

__all__ = ["Recorder"]

GATHERED = 1.0
"""Seconds between two transactions."""

FOLDED = timedelta(minutes=10)
"""The time between two times of summing up."""

LONGEST_PAUSE = 30.0
"""Seconds between two attempts while the database is away."""

MOST = 20_000
"""Changes that wait for the database."""

BATCH = 500
"""Changes in one transaction."""

DROPPED = "the database was away; what was deleted meanwhile is missing"


class Recorder:
    """`changed` takes in what a watch of these namespaces tells (an empty name is all), and `run` writes it. `tell` is called
    with a sentence when the database is away, and with an empty text when it is back.

    A workload shows what happened to it until it is deleted. So when more waits than there is room for, the changes are
    dropped, and `shown` is asked again; what was deleted meanwhile is a gap.
    """

    def __init__(
        self,
        history: RunHistory,
        now: Callable[[], datetime],
        shown: Callable[[], Iterable[RunNews]],
        *,
        namespaces: Collection[str] = ("",),
        tell: Callable[[str], None] = lambda _: None,
        most: int = MOST,
    ) -> None:
        self._history, self._now, self._shown, self._tell, self._most = history, now, shown, tell, most
        self._namespaces, self._is_current = tuple(namespaces), False
        self._waiting: list[RunNews] = []
        self._dropped_since: datetime | None = None
        self._folded_at: datetime | None = None

    def changed(self, before: RunNews | None, now: RunNews | None) -> None:
        """A workload changed; None: it was not there before, or is gone."""
        if before is not None and (now is None or now.workload != before.workload):
            self._take(news_of_removal(before, self._now()))
        if now is not None:
            self._take(now)

    def _take(self, news: RunNews) -> None:
        if news.run is None and news.end is None:
            return  # it has not had quota yet
        if self._dropped_since is None and len(self._waiting) >= self._most:
            self._dropped_since, self._is_current = self._now(), False
            self._waiting.clear()
        if self._dropped_since is None:
            self._waiting.append(news)

    async def run(self) -> None:
        """Record until it is cancelled, from when the watch shows all workloads."""
        pause = GATHERED
        while True:
            try:
                await self.flush()
            except HistoryUnavailable as error:
                self._tell(str(error))
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                if pause > GATHERED:
                    self._tell("")
                pause = GATHERED
            await anyio.sleep(pause)

    async def flush(self) -> None:
        """Write what waits; at first, and after changes were dropped, all that is shown.

        Raises HistoryUnavailable; what was not written still waits then.
        """
        if not self._is_current:
            await self._catch_up()
        while len(self._waiting) > BATCH:
            await self._first()
        await self._first()
        now = self._now()
        if self._folded_at is None or abs(now - self._folded_at) >= FOLDED:
            await anyio.to_thread.run_sync(self._history.fold, now)
            self._folded_at = now

    async def _catch_up(self) -> None:
        """End the runs of what is not shown any more, at the time of the last record; then record what is shown."""
        shown = list(self._shown())
        uids = {each.workload for each in shown}
        for namespace in self._namespaces:
            missing = partial(self._history.end_missing, uids, self._now(), namespace=namespace)
            await anyio.to_thread.run_sync(missing)
        for begin in range(0, len(shown), BATCH):
            await anyio.to_thread.run_sync(self._history.record, shown[begin : begin + BATCH], self._now())
        if self._dropped_since is not None:
            gap = Gap(since=self._dropped_since, until=self._now(), reason=DROPPED)
            await anyio.to_thread.run_sync(self._history.note_gap, gap)
            self._dropped_since = None
        self._is_current = True

    async def _first(self) -> None:
        batch = self._waiting[:BATCH]
        await anyio.to_thread.run_sync(self._history.record, batch, self._now())
        del self._waiting[: len(batch)]
