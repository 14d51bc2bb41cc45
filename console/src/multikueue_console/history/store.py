"""The store of runs: SQLite in a file by default, PostgreSQL by URL.

What is recorded may be recorded again: each row has the key of what happened, and a fact that is known is never taken back. So
a crash, a replayed list and two consoles at once count nothing twice. Runs older than the time for details are summed up by
hour, in the transaction that removes them; what ended before that time is not taken in any more, as it may be in the sums.
Who writes has a lock on the state until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec
from msgspec.structs import asdict
from sqlalchemy import Connection, Engine, create_engine, delete, event, func, or_, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError

from multikueue.errors import ConfigurationError, MultiKueueError
from multikueue_console.history.runs import Gap, Outcome, Run, RunEnd, RunNews
from multikueue_console.history.tables import GAPS, HOURS, RUNS, STATE, migrate
from multikueue_console.history.use import HourKey, Share, Use, hour_of, shares_of

__all__ = ["HistoryUnavailable", "Keep", "RunHistory", "run_of"]

BATCH = 1000
"""Runs that are summed up in one transaction."""

MOST_GAPS = 1000

AWAY = timedelta(minutes=2)
"""A longer time in which nobody recorded is a gap."""

LOCK = 7_105_340_121
"""The key of PostgreSQL's advisory lock for migrations."""

_IS_OPEN = or_(RUNS.c.ended_at.is_(None), RUNS.c.outcome == Outcome.UNKNOWN.value)
"""Whether the end of a run is not known yet. A workload that was not shown for a while may be shown again."""

_TIMES = ("queued_at", "reserved_at", "started_at", "ended_at")


class HistoryUnavailable(MultiKueueError):
    """The database refuses or does not answer: a full disk, a lost connection. Nothing of the call was recorded."""


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept: runs in full for `detail` and at most `most` that have ended, sums by hour for `sums`."""

    detail: timedelta = timedelta(days=90)
    sums: timedelta = timedelta(days=730)
    most: int = 1_000_000


class RunHistory:
    """Its methods block: call them in a thread. Each raises HistoryUnavailable, and has then changed nothing, but for
    `fold`, whose batches stay."""

    def __init__(self, engine: Engine, keep: Keep) -> None:
        self._engine, self._keep = engine, keep

    @classmethod
    def open(cls, url: str, keep: Keep | None = None) -> Self:
        """Open `sqlite:///FILE` or `postgresql://...` and bring its tables up to date. Raises ConfigurationError for
        another URL, a missing driver, and a database that a newer version has written."""
        engine = _engine(url)
        history = cls(engine, keep or Keep())
        try:
            with history.transaction() as connection:
                if engine.dialect.name == "postgresql":
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
                migrate(connection)
        except BaseException:
            history.close()
            raise
        return history

    def close(self) -> None:
        self._engine.dispose()

    # --- recording ---

    def record(self, news: Sequence[RunNews], now: datetime) -> None:
        """Record what workloads tell, all or nothing, and that somebody records at `now`."""
        with self.transaction() as connection:
            folded = self._lock(connection)
            self._note_alive(connection, _seconds(now))
            for each in news:
                if each.end is not None and _seconds(each.end.at) < folded:
                    continue
                if each.run is not None:
                    self._put(connection, each.run, folded)
                if each.end is not None:
                    self._end(connection, each.end)

    def end_missing(self, shown: Collection[str], now: datetime, *, namespace: str = "") -> int:
        """End the runs of workloads that are shown no more, of that namespace or all, and return how many: `shown` has the
        UIDs of all that are. When they ended nobody saw; they count until somebody recorded last."""
        with self.transaction() as connection:
            self._lock(connection)
            alive = connection.scalar(select(STATE.c.alive_at)) or _seconds(now)
            opened = select(RUNS.c.workload, RUNS.c.attempt, RUNS.c.reserved_at).where(RUNS.c.ended_at.is_(None))
            if namespace:
                opened = opened.where(RUNS.c.namespace == namespace)
            missing = [row for row in connection.execute(opened) if row.workload not in shown]
            for row in missing:
                connection.execute(
                    update(RUNS)
                    .where(RUNS.c.workload == row.workload, RUNS.c.attempt == row.attempt, RUNS.c.ended_at.is_(None))
                    .values(ended_at=max(alive, row.reserved_at or 0), outcome=Outcome.UNKNOWN.value)
                )
            return len(missing)

    def note_gap(self, gap: Gap) -> None:
        with self.transaction() as connection:
            self._lock(connection)
            self._note_gap(connection, _seconds(gap.since), _seconds(gap.until), gap.reason)

    def _put(self, connection: Connection, run: Run, folded: int) -> None:
        """Add a run, or what was not known of it. It ended at the latest with the next reservation of its workload, and so did
        an earlier run that seemed to go on."""
        assert run.reserved_at is not None, "a run begins with its reservation"
        row = _row(run)
        next_one = connection.scalar(
            select(func.min(RUNS.c.reserved_at)).where(
                RUNS.c.workload == run.workload, RUNS.c.reserved_at > row["reserved_at"]
            )
        )
        if next_one is not None and next_one < folded:
            return  # who tells of it is late, and it may be in the sums
        earlier = (RUNS.c.workload == run.workload, RUNS.c.reserved_at < row["reserved_at"])
        connection.execute(update(RUNS).where(*earlier, RUNS.c.ended_at.is_(None)).values(_unseen(row["reserved_at"])))
        if row["queued_at"] is None:
            before = select(func.max(RUNS.c.ended_at)).where(
                RUNS.c.workload == run.workload, RUNS.c.ended_at <= row["reserved_at"]
            )
            row["queued_at"] = connection.scalar(before)
        new = self.insert(RUNS).values(row)
        known = {name: func.coalesce(RUNS.c[name], new.excluded[name]) for name in ("queued_at", "started_at")}
        told = {name: new.excluded[name] for name in ("cluster", "cpu", "gpu", "ended_at", "outcome")}
        connection.execute(
            new.on_conflict_do_update(index_elements=["workload", "attempt"], set_={**known, **told}, where=_IS_OPEN)
        )
        if next_one is not None:
            own = (RUNS.c.workload == run.workload, RUNS.c.attempt == run.attempt, _IS_OPEN)
            connection.execute(update(RUNS).where(*own).values(_unseen(next_one)))

    def _end(self, connection: Connection, end: RunEnd) -> None:
        """End the open run. Without one the end itself is a run whose beginning nobody saw, unless it is known."""
        at, uid = _seconds(end.at), end.run.workload
        values = {"ended_at": at, "outcome": end.outcome.value, "reason": end.reason}
        ended = connection.execute(
            update(RUNS).where(RUNS.c.workload == uid, _IS_OPEN, RUNS.c.reserved_at <= at).values(values)
        )
        if ended.rowcount or end.run.reserved_at is not None:
            return
        known = select(RUNS.c.attempt).where(RUNS.c.workload == uid, RUNS.c.ended_at >= at).limit(1)
        if connection.scalar(known) is None:
            lone = self.insert(RUNS).values({**_row(end.run), **values})
            connection.execute(lone.on_conflict_do_nothing())

    def _note_alive(self, connection: Connection, now: int) -> None:
        """Somebody records at `now`. The time since the last record is a gap if it is long, and told if it is negative."""
        before = connection.scalar(select(STATE.c.alive_at))
        if before is not None and now - before > AWAY.total_seconds():
            self._note_gap(
                connection, before, now, "nothing was recorded; what clusters did not show any more is missing"
            )
        elif before is not None and before - now > AWAY.total_seconds():
            self._note_gap(connection, now, before, "the clock was set back")
        if before != now:
            connection.execute(update(STATE).values(alive_at=now))

    def _note_gap(self, connection: Connection, since: int, until: int, reason: str) -> None:
        gap = self.insert(GAPS).values(since=since, until=until, reason=reason)
        connection.execute(gap.on_conflict_do_nothing())
        oldest = select(GAPS.c.since).order_by(GAPS.c.since.desc()).offset(MOST_GAPS).limit(1).scalar_subquery()
        connection.execute(delete(GAPS).where(GAPS.c.since <= oldest))

    # --- keeping within bounds ---

    def fold(self, now: datetime) -> int:
        """Sum up the runs that are too old for details, remove sums that are too old, and return how many runs that were.

        Age is counted from the newest end that was recorded if that is before `now`: a clock that is ahead removes nothing.
        """
        folded = 0
        while True:
            with self.transaction() as connection:
                number = self._fold_some(connection, now)
            folded += number
            if number < BATCH:
                return folded

    def _fold_some(self, connection: Connection, now: datetime) -> int:
        self._lock(connection)
        newest = connection.scalar(select(func.max(RUNS.c.ended_at)))
        if newest is None:
            return 0
        present = min(_seconds(now), newest)
        horizon = present - int(self._keep.detail.total_seconds())
        beyond = connection.scalar(
            select(RUNS.c.ended_at)
            .where(RUNS.c.ended_at.is_not(None))
            .order_by(RUNS.c.ended_at.desc())
            .offset(self._keep.most)
            .limit(1)
        )
        horizon = max(horizon, beyond + 1 if beyond is not None else 0)
        old = connection.execute(
            select(RUNS).where(RUNS.c.ended_at < horizon).order_by(RUNS.c.ended_at).limit(BATCH)
        ).all()
        sums: dict[HourKey, Use] = {}
        for row in old:
            for key, use in shares_of(run_of(row), now):
                sums[key] = sums.get(key, Use()) + use
        for key, use in sums.items():
            self._add(connection, key, use)
        for row in old:
            connection.execute(delete(RUNS).where(RUNS.c.workload == row.workload, RUNS.c.attempt == row.attempt))
        if old:
            until = func.max if connection.dialect.name == "sqlite" else func.greatest
            connection.execute(update(STATE).values(folded_until=until(STATE.c.folded_until, horizon)))
        connection.execute(delete(HOURS).where(HOURS.c.hour < present - int(self._keep.sums.total_seconds())))
        connection.execute(delete(GAPS).where(GAPS.c.until < present - int(self._keep.sums.total_seconds())))
        return len(old)

    def _add(self, connection: Connection, key: HourKey, use: Use) -> None:
        row = {**key._asdict(), "hour": _seconds(key.hour), **asdict(use)}
        new = self.insert(HOURS).values(row)
        larger = func.max if connection.dialect.name == "sqlite" else func.greatest
        added = {name: HOURS.c[name] + new.excluded[name] for name in asdict(use) if name != "longest_wait"}
        added["longest_wait"] = larger(HOURS.c.longest_wait, new.excluded.longest_wait)
        connection.execute(
            new.on_conflict_do_update(index_elements=["hour", "namespace", "queue", "user", "cluster"], set_=added)
        )

    # --- reading ---

    def shares(self, since: datetime, now: datetime, *, namespaces: Collection[str] | None = None) -> Iterator[Share]:
        """What there is to sum up since then, of these namespaces or all: see `use.sums`."""
        first = _seconds(hour_of(since))
        hours = select(HOURS).where(HOURS.c.hour >= first)
        runs = select(RUNS).where(or_(RUNS.c.ended_at.is_(None), RUNS.c.ended_at >= first))
        if namespaces is not None:
            hours = hours.where(HOURS.c.namespace.in_(namespaces))
            runs = runs.where(RUNS.c.namespace.in_(namespaces))
        with self.snapshot() as connection:
            for row in connection.execute(hours):
                fields = row._asdict()
                hour = _time(fields.pop("hour"))
                where = {name: fields.pop(name) for name in HourKey._fields[1:]}
                yield HourKey(hour=hour, **where), Use(**fields)
            for row in connection.execute(runs.execution_options(yield_per=BATCH)):
                yield from shares_of(run_of(row), now)

    def runs(self, *, workload: str = "", queue: str = "", most: int = 1000) -> list[Run]:
        """The newest runs, of that workload (by UID) or ClusterQueue or of all, the newest first."""
        wanted = select(RUNS).order_by(func.coalesce(RUNS.c.reserved_at, RUNS.c.ended_at).desc()).limit(most)
        if workload:
            wanted = wanted.where(RUNS.c.workload == workload)
        if queue:
            wanted = wanted.where(RUNS.c.cluster_queue == queue)
        with self.snapshot() as connection:
            return [run_of(row) for row in connection.execute(wanted)]

    def gaps(self, since: datetime) -> list[Gap]:
        """The gaps that end after `since`, in their order."""
        wanted = select(GAPS).where(GAPS.c.until > _seconds(since)).order_by(GAPS.c.since)
        with self.snapshot() as connection:
            return [
                Gap(since=_time(row.since), until=_time(row.until), reason=row.reason)
                for row in connection.execute(wanted)
            ]

    # --- the database ---

    def _lock(self, connection: Connection) -> int:
        """Keep other writers out until the transaction ends, and return until when runs are summed up. SQLite has one writer
        anyway (`_begin_sqlite`)."""
        state = select(STATE.c.folded_until)
        if connection.dialect.name == "postgresql":
            state = state.with_for_update()
        return connection.scalar(state) or 0

    def insert(self, table: Any) -> Any:
        """An insert that knows conflicts, in the dialect of the database."""
        return (postgresql.insert if self._engine.dialect.name == "postgresql" else sqlite.insert)(table)

    @contextmanager
    def transaction(self, *, is_reading: bool = False) -> Iterator[Connection]:
        """A transaction that is committed at the end of the block. Raises HistoryUnavailable."""
        engine = self._engine.execution_options(is_reading=is_reading)
        try:
            with engine.begin() as connection:
                yield connection
        except DatabaseError as error:
            raise HistoryUnavailable(f"the history is not available: {error.orig or error}".splitlines()[0]) from error

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A transaction that only reads, and sees all tables as of one moment: a run is in one of them."""
        with self.transaction(is_reading=True) as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            yield connection


def _engine(url: str) -> Engine:
    if url.startswith(("postgresql://", "postgres://")):
        url = f"postgresql+psycopg://{url.partition('://')[2]}"
    elif not url.startswith("sqlite:///"):
        raise ConfigurationError("a history is sqlite:///FILE or postgresql://USER@HOST/NAME")
    try:
        engine = create_engine(url, pool_pre_ping=True)
    except ImportError:
        raise ConfigurationError("PostgreSQL needs its driver: pip install 'multikueue-console[postgresql]'") from None
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise ConfigurationError("a history is sqlite:///FILE or postgresql://USER@HOST/NAME") from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _: object) -> None:
    """One writer and many readers, and waits for the writer; what is committed survives a crash of the machine."""
    connection.isolation_level = None  # the driver opens no transactions of its own
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    """Who writes keeps other writers out from the start: what it reads first stays true until it writes."""
    is_reading = connection.get_execution_options().get("is_reading", False)
    connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")


def _unseen(at: int) -> dict[str, Any]:
    """The end of a run that only the next reservation tells of."""
    return {"ended_at": at, "outcome": Outcome.EVICTED.value, "reason": "NotSeen"}


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _row(run: Run) -> dict[str, Any]:
    fields = asdict(run)
    return {**fields, **{name: _seconds(fields[name]) for name in _TIMES if fields[name] is not None}}


def run_of(row: Any) -> Run:
    """The run in a row that has the columns of `RUNS`."""
    fields = {name: getattr(row, name) for name in Run.__struct_fields__}
    return Run(**{**fields, **{name: _time(fields[name]) for name in _TIMES if fields[name] is not None}})
