from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from multikueue.api.kueue.workload import Workload
from multikueue_console.history.runs import Run
from multikueue_console.history.store import RunHistory
from multikueue_console.history.story import news_of
from multikueue_console.notices import outbox
from multikueue_console.notices.notice import Notice, NoticeKind
from multikueue_console.notices.outbox import Outbox
from multikueue_console.notices.settings import NoticeSettings, QueueNotices
from tests.console.history.conftest import postgres_server, url
from tests.console.history.lives import at, evicted, finished, readmitted, running, submitted

__all__ = ["postgres_server", "url"]

ALL = QueueNotices("*/*", (NoticeKind.STARTED, NoticeKind.MOVED, NoticeKind.FAILED), "1h")


@pytest.fixture
def history(url: str) -> Iterator[RunHistory]:
    opened = RunHistory.open(url)
    yield opened
    opened.close()


def outbox_of(history: RunHistory, *, since: float = 0, most: int = 10_000, queue: QueueNotices = ALL) -> Outbox:
    made = Outbox(history, NoticeSettings(to="https://hooks.example.org", queues=(queue,), most=most))
    made.begin(at(since))
    return made


def record(history: RunHistory, *shown: Workload, minute: float = 101) -> None:
    history.record([news_of(each) for each in shown], at(minute))


def waits_of(*shown: Workload) -> list[Run]:
    return [wait for each in shown if (wait := news_of(each).wait) is not None]


def told(notices: Sequence[Notice]) -> list[str]:
    return [" ".join(filter(None, (each.run.name, each.kind, each.run.cluster, each.moved_from))) for each in notices]


def test_starts_moves_and_failures_are_due_in_their_order_until_they_are_settled(history: RunHistory) -> None:
    box = outbox_of(history)
    record(history, running().build(), evicted().build(), readmitted().build())
    record(history, finished("bad", end=100, reason="Failed"))
    due = box.due([], at(101))
    assert told(due) == ["bad started east", "train started east", "train moved west east", "bad failed east"]
    box.settle(due[:2])
    assert told(box.due([], at(101))) == ["train moved west east", "bad failed east"]
    box.settle(due)
    record(history, readmitted().build(), finished("bad", end=100, reason="Failed"))
    assert outbox_of(history, since=200).due([], at(101)) == []


def test_what_happened_before_notices_were_on_is_not_told(history: RunHistory) -> None:
    record(history, running("old", start=10).build(), running("new", start=20).build())
    assert told(outbox_of(history, since=15).due([], at(21))) == ["new started east"]


def test_a_job_that_succeeds_is_not_told_as_failed(history: RunHistory) -> None:
    box = outbox_of(history)
    record(history, finished(end=100))
    assert told(box.due([], at(101))) == ["train started east"]


@pytest.mark.parametrize(
    ("job", "minute", "expected"),
    [
        pytest.param(submitted().build(), 58, [], id="not long yet"),
        pytest.param(submitted().build(), 61, ["train waits"], id="too long"),
        pytest.param(running().build(), 61, [], id="it runs"),
        pytest.param(finished(end=50), 61, [], id="it is over"),
        pytest.param(submitted().reserved("cq", at=at(5)).build(), 61, ["train waits"], id="no worker admits it"),
        pytest.param(submitted().inactive().build(), 61, [], id="somebody holds it"),
    ],
)
def test_a_wait_is_due_once_it_is_too_long(
    history: RunHistory, job: Workload, minute: float, expected: list[str]
) -> None:
    box = outbox_of(history)
    waits = waits_of(job)
    due = box.due(waits, at(minute))
    assert told(due) == expected
    box.settle(due)
    assert box.due(waits, at(minute + 1)) == []
    assert outbox_of(history).due(waits, at(minute + 1)) == []


def test_what_nobody_asked_about_does_not_hold_up_the_rest(
    history: RunHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "BATCH", 3)
    box = outbox_of(history, queue=QueueNotices("team/*", (NoticeKind.STARTED,)))
    record(history, *(running(f"job-{each}", namespace="other").build() for each in range(7)))
    record(history, running("wanted", start=20).build())
    assert told(box.due([], at(21))) == ["wanted started east"]


def test_what_is_too_much_or_too_old_is_given_up_and_counted_once(history: RunHistory) -> None:
    box = outbox_of(history, most=3)
    record(history, *(running(f"job-{each}", start=10 + each).build() for each in range(8)))
    assert box.bound(at(30)) == 5
    assert box.bound(at(30)) == 0
    assert told(box.due([], at(30))) == [f"job-{each} started east" for each in (5, 6, 7)]
    late = running("late", start=60 * 30).build()
    record(history, late, minute=60 * 30)
    assert box.bound(at(60 * 31)) == 3
    assert told(box.due([], at(60 * 31))) == ["late started east"]


def test_a_clock_that_is_ahead_gives_up_nothing(history: RunHistory) -> None:
    box = outbox_of(history)
    record(history, running().build(), minute=11)
    assert box.bound(at(60 * 24 * 365)) == 0
    assert len(box.due([], at(60 * 24 * 365))) == 1
