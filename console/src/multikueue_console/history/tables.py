"""The tables of the history, and the migrations that lead to them. Times are whole seconds since 1970, as Kubernetes has them.

A migration is a function of a connection, and runs once, in the transaction that notes its number. What was released stays as
it is; a change of the tables is one more migration.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    insert,
    inspect,
    select,
    text,
    update,
)

from multikueue.errors import ConfigurationError

__all__ = ["GAPS", "HOURS", "MIGRATIONS", "RUNS", "SETTLED", "STATE", "TELLING", "migrate"]

METADATA = MetaData()

RUNS = Table(
    "runs",
    METADATA,
    Column("workload", String, nullable=False),
    Column("attempt", String, nullable=False),
    Column("namespace", String, nullable=False),
    Column("name", String, nullable=False),
    Column("queue", String, nullable=False),
    Column("cluster_queue", String, nullable=False),
    Column("user", String, nullable=False),
    Column("cluster", String, nullable=False),
    Column("cpu", Float, nullable=False),
    Column("gpu", Float, nullable=False),
    Column("queued_at", BigInteger),
    Column("reserved_at", BigInteger),
    Column("started_at", BigInteger),
    Column("ended_at", BigInteger),
    Column("outcome", String, nullable=False),
    Column("reason", String, nullable=False),
    PrimaryKeyConstraint("workload", "attempt", name="runs_key"),
    Index("runs_by_end", "ended_at"),
)
"""Each run in full, for as long as details are kept."""

HOURS = Table(
    "hours",
    METADATA,
    Column("hour", BigInteger, nullable=False),
    Column("namespace", String, nullable=False),
    Column("queue", String, nullable=False),
    Column("user", String, nullable=False),
    Column("cluster", String, nullable=False),
    Column("ended", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("evicted", BigInteger, nullable=False),
    Column("preempted", BigInteger, nullable=False),
    Column("waits", BigInteger, nullable=False),
    Column("wait_seconds", Float, nullable=False),
    Column("longest_wait", Float, nullable=False),
    Column("cpu_seconds", Float, nullable=False),
    Column("gpu_seconds", Float, nullable=False),
    PrimaryKeyConstraint("hour", "namespace", "queue", "user", "cluster", name="hours_key"),
)
"""The sums of older runs, which are in `runs` no more."""

GAPS = Table(
    "gaps",
    METADATA,
    Column("since", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("reason", String, nullable=False),
    PrimaryKeyConstraint("since", "until", name="gaps_key"),
)

STATE = Table(
    "state",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("folded_until", BigInteger, nullable=False),
    Column("alive_at", BigInteger),
)
"""One row: the number of migrations that have run; until when runs are summed up; when somebody recorded last."""

OF_NOTICES = MetaData()

SETTLED = Table(
    "settled_notices",
    OF_NOTICES,
    Column("id", String, primary_key=True),
    Column("at", BigInteger, nullable=False, index=True),
)
"""The notices that are not sent any more: confirmed, refused, or of a queue that nobody asked about; `at`: when it happened."""

TELLING = Table(
    "telling",
    OF_NOTICES,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("floor", BigInteger, nullable=False),
)
"""One row once notices were on: what happened before `floor` is not told."""


def _first(connection: Connection) -> None:
    METADATA.create_all(connection)
    connection.execute(insert(STATE).values(id=1, version=0, folded_until=0))


def _notices(connection: Connection) -> None:
    OF_NOTICES.create_all(connection)
    connection.execute(text("CREATE INDEX runs_by_start ON runs (started_at)"))


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_first, _notices)


def migrate(connection: Connection, migrations: tuple[Callable[[Connection], None], ...] = MIGRATIONS) -> None:
    """Run what has not run yet. The caller has a transaction and keeps others out. Raises ConfigurationError if a newer
    version has written the history: then nothing changes."""
    version = connection.scalar(select(STATE.c.version)) if inspect(connection).has_table(STATE.name) else 0
    assert version is not None, "the first migration writes the row"
    if version > len(migrations):
        raise ConfigurationError(
            f"the history has version {version}, this program knows {len(migrations)}: run a newer multikueue-console"
        )
    for run in migrations[version:]:
        run(connection)
    if version < len(migrations):
        connection.execute(update(STATE).values(version=len(migrations)))
