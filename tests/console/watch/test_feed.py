"""The numbered feed of rows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from multikueue.testing import NOW
from multikueue_console.model.objects import SeenObjects
from multikueue_console.model.workloads import Observer, WorkloadRow
from multikueue_console.watch import feed as module
from multikueue_console.watch.feed import Feed
from tests.builders.workloads import workload


def row(name: str, priority: int = 0) -> WorkloadRow:
    return replace(Observer(SeenObjects(), NOW).row(workload(name).build()), uid=name, priority=priority)


def test_a_reader_gets_each_row_once_in_its_newest_state() -> None:
    feed = Feed()
    feed.put(row("a"))
    at = feed.since(0).number
    feed.put(row("b"))
    feed.put(row("a", 1))
    feed.put(row("a", 2))
    news = feed.since(at)

    assert [(each.uid, each.priority) for each in news.rows] == [("a", 2), ("b", 0)]
    assert not news.is_whole
    assert feed.since(news.number).rows == []


def test_a_row_that_has_not_changed_is_no_news() -> None:
    feed = Feed()
    feed.put(row("a"))
    number = feed.number

    assert feed.put(row("a")) == row("a")
    assert feed.number == number


def test_what_is_gone_is_told_and_what_comes_back_is_a_row_again() -> None:
    feed = Feed()
    feed.put(row("a"))
    at = feed.number
    feed.drop("a")

    assert feed.since(at).gone == [("a", "default")]
    feed.put(row("a"))
    assert (feed.since(at).gone, len(feed.since(at).rows)) == ([], 1)


def test_who_is_too_far_behind_or_has_a_number_of_another_process_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_GONE", 2)
    feed = Feed()
    for name in "abcd":
        feed.put(row(name))
    at = feed.number
    for name in "abc":
        feed.drop(name)

    assert feed.since(at).is_whole
    assert feed.since(10_000).is_whole
    assert [each.uid for each in feed.since(at).rows] == ["d"]
