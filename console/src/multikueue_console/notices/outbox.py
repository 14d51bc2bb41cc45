"""Which notices are to be sent: what the history has and nobody has confirmed.

There is no queue: a notice waits as the run that it is about. So a recorder that is killed between two lines loses none, and
what is confirmed is confirmed for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import and_, delete, func, literal, select, union_all, update

from multikueue_console.history.runs import Outcome, Run
from multikueue_console.history.store import RunHistory, run_of
from multikueue_console.history.tables import RUNS, SETTLED, TELLING
from multikueue_console.notices.notice import Notice, NoticeKind, notice_of_wait
from multikueue_console.notices.settings import NoticeSettings

__all__ = ["Outbox"]

BATCH = 200
"""Notices that are looked up at once."""


class Outbox:
    """Its methods block, and raise HistoryUnavailable. `begin` comes first."""

    def __init__(self, history: RunHistory, settings: NoticeSettings) -> None:
        self._history, self._settings = history, settings
        self._told_waits: set[str] = set()

    def begin(self, now: datetime) -> None:
        """What happened before notices were on for the first time is not told."""
        with self._history.transaction() as connection:
            first = self._history.insert(TELLING).values(id=1, floor=int(now.timestamp()))
            connection.execute(first.on_conflict_do_nothing())

    def bound(self, now: datetime) -> int:
        """Give up what is too old or too much, and return how many notices that were. Age is counted from the newest start or
        end in the history if that is before `now`: a clock that is ahead gives up nothing."""
        span = int(self._settings.time_to_send.total_seconds())
        with self._history.transaction() as connection:
            newest = connection.execute(select(func.max(RUNS.c.started_at), func.max(RUNS.c.ended_at))).one()
            before = connection.scalar(select(TELLING.c.floor)) or 0
            floor = max(before, min(int(now.timestamp()), max(newest[0] or 0, newest[1] or 0)) - span)
            waiting = _unsettled().subquery()
            beyond = select(waiting.c.at).where(waiting.c.at >= floor).order_by(waiting.c.at.desc())
            surplus = connection.scalar(beyond.offset(self._settings.most).limit(1))
            floor = max(floor, surplus + 1 if surplus is not None else 0)
            if floor == before:
                return 0
            lost = select(func.count()).where(waiting.c.at < floor, waiting.c.at >= before)
            number = connection.scalar(lost.select_from(waiting)) or 0
            connection.execute(update(TELLING).values(floor=floor))
            connection.execute(delete(SETTLED).where(SETTLED.c.at < floor))
            return number

    def due(self, waits: Iterable[Run], now: datetime) -> list[Notice]:
        """The oldest notices that are to be sent, `BATCH` at most of runs and of waits each. What the settings do not ask for
        is settled on the way. `waits`: the jobs that wait now."""
        found: list[Notice] = []
        while not found:
            batch = self._of_runs()
            found = [each for each in batch if self._is_wanted(each)]
            self.settle([each for each in batch if not self._is_wanted(each)])
            if len(batch) < BATCH:
                break
        return [*found, *self._of_waits(waits, now)]

    def settle(self, notices: Collection[Notice]) -> None:
        """These need not be sent any more."""
        if not notices:
            return
        with self._history.transaction() as connection:
            rows = [{"id": each.id, "at": int(each.at.timestamp())} for each in notices]
            connection.execute(self._history.insert(SETTLED).on_conflict_do_nothing(), rows)

    def _is_wanted(self, notice: Notice) -> bool:
        asked = self._settings.of_queue(notice.run)
        return asked is not None and notice.kind in asked.notices

    def _of_runs(self) -> list[Notice]:
        waiting, before = _unsettled().subquery(), RUNS.alias("before")
        last = (
            select(before.c.cluster)
            .where(before.c.workload == RUNS.c.workload, before.c.reserved_at < RUNS.c.reserved_at)
            .where(before.c.cluster != "")
            .order_by(before.c.reserved_at.desc())
            .limit(1)
            .scalar_subquery()
        )
        wanted = (
            select(RUNS, waiting.c.id, waiting.c.at, waiting.c.is_end, last.label("last_cluster"))
            .join(waiting, and_(waiting.c.workload == RUNS.c.workload, waiting.c.attempt == RUNS.c.attempt))
            .order_by(waiting.c.at, waiting.c.id)
            .limit(BATCH)
        )
        with self._history.snapshot() as connection:
            return [_notice(row) for row in connection.execute(wanted)]

    def _of_waits(self, waits: Iterable[Run], now: datetime) -> list[Notice]:
        over = {each.id: each for run in waits if (each := self._long_wait(run)) is not None and each.at <= now}
        self._told_waits &= over.keys()
        untold = sorted((each for each in over.values() if each.id not in self._told_waits), key=lambda each: each.at)
        if not untold:
            return []
        with self._history.snapshot() as connection:
            floor = connection.scalar(select(TELLING.c.floor)) or 0
            for begin in range(0, len(untold), BATCH):
                some = [each for each in untold[begin : begin + BATCH] if each.at.timestamp() >= floor]
                settled = select(SETTLED.c.id).where(SETTLED.c.id.in_([each.id for each in some]))
                known = set(connection.scalars(settled))
                self._told_waits |= known
                if len(some) > len(known):
                    return [each for each in some if each.id not in known]
        return []

    def _long_wait(self, run: Run) -> Notice | None:
        asked = self._settings.of_queue(run)
        longest = asked.longest_wait if asked is not None else None
        return notice_of_wait(run, longest) if longest is not None else None


def _unsettled() -> Any:
    """Starts and failures without a line in `SETTLED`: identifier, time, key of the run, and whether it is an end."""
    started = RUNS.c.workload + "/start/" + RUNS.c.attempt
    failed = RUNS.c.workload + "/failed"
    columns = (RUNS.c.workload, RUNS.c.attempt)
    starts = select(started.label("id"), RUNS.c.started_at.label("at"), *columns, literal(0).label("is_end"))
    ends = select(failed.label("id"), RUNS.c.ended_at.label("at"), *columns, literal(1).label("is_end"))
    return union_all(
        starts.where(RUNS.c.started_at >= _floor(), ~_is_settled(started)),
        ends.where(RUNS.c.ended_at >= _floor(), RUNS.c.outcome == Outcome.FAILED.value, ~_is_settled(failed)),
    )


def _floor() -> Any:
    return select(TELLING.c.floor).scalar_subquery()


def _is_settled(identifier: Any) -> Any:
    return select(SETTLED.c.id).where(SETTLED.c.id == identifier).exists()


def _notice(row: Any) -> Notice:
    run, at = run_of(row), datetime.fromtimestamp(row.at, UTC)
    if row.is_end:
        return Notice(id=row.id, kind=NoticeKind.FAILED, at=at, run=run)
    has_moved = row.last_cluster is not None and row.last_cluster != run.cluster
    kind = NoticeKind.MOVED if has_moved else NoticeKind.STARTED
    return Notice(id=row.id, kind=kind, at=at, run=run, moved_from=row.last_cluster if has_moved else "")
