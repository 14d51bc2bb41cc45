from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from multikueue.testing import NOW
from multikueue_console.history.recorder import Recorder
from multikueue_console.history.runs import RunNews
from multikueue_console.history.store import HistoryUnavailable, RunHistory
from multikueue_console.history.story import news_of
from tests.console.history.lives import at, evicted, finished, readmitted, running, submitted

pytestmark = pytest.mark.anyio


class Watched:
    """What is shown, told to a recorder, with a clock that is set by hand."""

    def __init__(self, history: RunHistory, *, most: int = 100) -> None:
        self.shown: dict[str, RunNews] = {}
        self.minute = 11.0
        self.recorder = Recorder(history, self.now, lambda: self.shown.values(), most=most)

    def now(self) -> datetime:
        return at(self.minute)

    def show(self, name: str, news: RunNews | None) -> None:
        before = self.shown.pop(name, None)
        if news is not None:
            self.shown[name] = news
        self.recorder.changed(before, news)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[RunHistory]:
    opened = RunHistory.open(f"sqlite:///{tmp_path / 'history.db'}")
    yield opened
    opened.close()


async def test_what_a_watch_tells_is_recorded(history: RunHistory) -> None:
    watched = Watched(history)
    for each in (submitted(), running(), evicted(), readmitted()):
        watched.show("train", news_of(each.build()))
        await watched.recorder.flush()
    watched.minute = 50
    watched.show("train", None)
    await watched.recorder.flush()
    assert [(run.outcome, run.ended_at) for run in history.runs()] == [("deleted", at(50)), ("preempted", at(30))]


async def test_a_workload_of_the_same_name_is_another_one(history: RunHistory) -> None:
    watched = Watched(history)
    await watched.recorder.flush()
    watched.show("train", news_of(running().build()))
    watched.minute = 20
    watched.show("train", news_of(running(start=19).uid("another").build()))
    await watched.recorder.flush()
    assert {run.workload: run.outcome for run in history.runs()} == {"uid-train": "deleted", "another": ""}


async def test_a_console_that_was_away_catches_up_and_says_what_it_missed(history: RunHistory) -> None:
    first = Watched(history)
    for name in ("gone", "ended"):
        first.show(name, news_of(running(name).build()))
    await first.recorder.flush()

    second = Watched(history)
    second.minute = 120
    second.show("ended", news_of(finished("ended", end=100)))
    await second.recorder.flush()
    assert {run.name: (run.outcome, run.ended_at) for run in history.runs()} == {
        "gone": ("unknown", at(11)),
        "ended": ("succeeded", at(100)),
    }
    (gap,) = history.gaps(NOW)
    assert (gap.since, gap.until) == (at(11), at(120))


async def test_what_waits_for_the_database_is_bounded_and_what_is_shown_is_not_lost(
    history: RunHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(history, most=3)
    await watched.recorder.flush()

    def away(*_: object) -> None:
        raise HistoryUnavailable("the disk is full")

    monkeypatch.setattr(history, "record", away)
    for number in range(10):
        watched.show(f"job-{number}", news_of(running(f"job-{number}").build()))
    with pytest.raises(HistoryUnavailable):
        await watched.recorder.flush()
    monkeypatch.undo()

    watched.minute += timedelta(minutes=1).total_seconds() / 60
    await watched.recorder.flush()
    assert len(history.runs()) == 10
    assert [gap.reason for gap in history.gaps(NOW)] == ["the database was away; what was deleted meanwhile is missing"]
