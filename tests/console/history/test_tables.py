from __future__ import annotations

import pytest
from sqlalchemy import Connection, text

from multikueue.errors import ConfigurationError
from multikueue_console.history import tables
from multikueue_console.history.store import RunHistory
from multikueue_console.history.story import news_of
from tests.console.history.lives import at, finished


class Killed(BaseException):
    """The process ends here."""


def test_a_history_of_yesterday_is_brought_up_to_date_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    history = RunHistory.open(url)
    history.record([news_of(finished(end=100))], at(101))
    history.close()

    def second(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE runs ADD COLUMN more INTEGER"))

    migrations = (*tables.MIGRATIONS, second)
    monkeypatch.setattr(tables.migrate, "__defaults__", (migrations,))
    for _ in range(2):
        RunHistory.open(url).close()
    monkeypatch.undo()
    with pytest.raises(ConfigurationError, match="newer"):
        RunHistory.open(url)


def test_a_migration_that_fails_changes_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RunHistory.open(url).close()

    def broken(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE runs ADD COLUMN more INTEGER"))
        raise Killed

    monkeypatch.setattr(tables.migrate, "__defaults__", ((*tables.MIGRATIONS, broken),))
    with pytest.raises(Killed):
        RunHistory.open(url)
    monkeypatch.undo()
    history = RunHistory.open(url)
    history.record([news_of(finished())], at(101))
    history.close()
