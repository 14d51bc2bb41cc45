from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import event

from multikueue.api.kueue.workload import Workload
from multikueue.errors import ConfigurationError
from multikueue.testing import NOW
from multikueue_console.history.runs import RunNews
from multikueue_console.history.store import HistoryUnavailable, Keep, RunHistory
from multikueue_console.history.story import news_of, news_of_removal
from multikueue_console.history.use import Use, sums
from tests.builders.workloads import WorkloadBuilder
from tests.console.history.lives import at, evicted, finished, readmitted, running, submitted
from tests.project.files import ROOT

LATER = at(24 * 60)


@pytest.fixture
def history(url: str) -> Iterator[RunHistory]:
    opened = RunHistory.open(url)
    yield opened
    opened.close()


def news(*shown: Workload) -> list[RunNews]:
    return [news_of(each) for each in shown]


def total(history: RunHistory, *, now: datetime = LATER, since: datetime = NOW) -> Use:
    return sums(history.shares(since, now), [], since=since, until=now).get((), Use())


A_LIFE = (submitted().build(), running().build(), evicted().build(), readmitted().build())


def test_a_life_is_two_runs_and_the_second_waits_from_the_end_of_the_first(history: RunHistory) -> None:
    history.record(news(*A_LIFE), at(41))
    second, first = history.runs()
    assert (first.cluster, first.outcome, first.ended_at) == ("east", "preempted", at(30))
    assert (second.cluster, second.queued_at, second.ended_at) == ("west", at(30), None)
    use = total(history, now=at(60))
    assert (use.preempted, use.gpu_seconds / 60, use.wait_seconds / 60) == (1, 2 * (20 + 20), 10 + 10)


def test_what_is_recorded_again_counts_once(history: RunHistory) -> None:
    history.record(news(*A_LIFE), at(41))
    before = history.runs()
    for shown in (A_LIFE, A_LIFE[::-1], A_LIFE[1:2], A_LIFE[2:3]):
        history.record(news(*shown), at(42))
    assert history.runs() == before


def test_an_end_of_which_nobody_saw_the_beginning_is_one_eviction_without_use(history: RunHistory) -> None:
    for _ in range(2):
        history.record(news(evicted().build()), at(31))
    use = total(history)
    assert (use.evicted, use.gpu_seconds) == (1, 0)


def test_a_run_whose_end_was_missed_ends_with_the_next_reservation(history: RunHistory) -> None:
    history.record(news(running().build()), at(11))
    history.record(news(readmitted(start=40).build()), at(41))
    second, first = history.runs()
    assert (first.ended_at, first.outcome) == (at(39), "evicted")
    assert second.ended_at is None


def test_a_console_that_is_late_changes_nothing_that_is_known(history: RunHistory) -> None:
    history.record(news(*A_LIFE), at(41))
    before = history.runs()
    history.record([*news(running().build()), news_of_removal(news_of(running().build()), at(20))], at(42))
    assert history.runs() == before


def test_a_removal_is_told_by_two_consoles_at_different_times(history: RunHistory) -> None:
    history.record(news(running().build()), at(11))
    for minute in (50, 51):
        history.record([news_of_removal(news_of(running().build()), at(minute))], at(52))
    (run,) = history.runs()
    assert (run.ended_at, run.outcome) == (at(50), "deleted")


def test_what_is_gone_when_the_console_comes_back_ends_when_somebody_recorded_last(history: RunHistory) -> None:
    history.record(news(running("gone").build(), running("there").build()), at(11))
    assert history.end_missing({"uid-there"}, at(90)) == 1
    ended = {run.name: (run.ended_at, run.outcome) for run in history.runs()}
    assert ended == {"gone": (at(11), "unknown"), "there": (None, "")}


def test_what_was_taken_for_gone_and_is_shown_again_goes_on(history: RunHistory) -> None:
    history.record(news(running().build()), at(11))
    history.end_missing(set(), at(20))
    history.record(news(running().build()), at(21))
    assert history.runs()[0].ended_at is None
    history.end_missing(set(), at(30))
    history.record(news(finished(end=100)), at(101))
    assert (history.runs()[0].ended_at, history.runs()[0].outcome) == (at(100), "succeeded")


def test_a_time_without_records_is_a_gap_and_so_is_a_clock_that_was_set_back(history: RunHistory) -> None:
    for minute in (0, 1, 60, 61, 30):
        history.record((), at(minute))
    assert [(gap.since, gap.until, gap.reason.split(";")[0]) for gap in history.gaps(NOW)] == [
        (at(1), at(60), "nothing was recorded"),
        (at(30), at(61), "the clock was set back"),
    ]


# --- bounds ---


def test_runs_that_are_too_old_become_sums_and_nothing_is_lost_or_counted_twice(url: str) -> None:
    history = RunHistory.open(url, Keep(detail=timedelta(hours=1)))
    history.record(news(*A_LIFE), at(41))
    history.record(news(finished("late", end=600)), at(601))
    before = total(history)
    assert history.fold(LATER) == 1
    assert total(history) == before
    assert history.fold(LATER) == 0
    history.record(news(*A_LIFE[:3], finished("late", end=600)), at(602))
    assert total(history).ended == before.ended
    history.close()


def test_a_clock_that_is_ahead_removes_nothing(history: RunHistory) -> None:
    history.record(news(finished(end=100)), at(101))
    assert history.fold(NOW + timedelta(days=20_000)) == 0
    assert len(history.runs()) == 1


def test_more_runs_than_are_kept_become_sums_too(url: str) -> None:
    history = RunHistory.open(url, Keep(most=3))
    history.record(news(*(finished(f"job-{number}", end=100 + number) for number in range(8))), at(200))
    before = total(history)
    assert history.fold(at(200)) == 5
    assert len(history.runs()) == 3
    assert total(history) == before
    history.close()


def test_sums_are_removed_when_they_are_too_old(url: str) -> None:
    history = RunHistory.open(url, Keep(detail=timedelta(hours=1), sums=timedelta(days=2)))
    history.record(news(finished("old", end=100)), at(101))
    history.record(news(finished("new", end=5 * 24 * 60)), at(5 * 24 * 60))
    history.fold(at(5 * 24 * 60))
    assert total(history, now=at(6 * 24 * 60)).ended == 1
    history.close()


def test_only_the_namespaces_that_are_asked_for_are_read(history: RunHistory) -> None:
    history.record(news(running("a", namespace="one").build(), running("b", namespace="two").build()), at(11))
    assert {key.namespace for key, _ in history.shares(NOW, LATER, namespaces=["two"])} == {"two"}
    assert list(history.shares(NOW, LATER, namespaces=[])) == []


# --- what goes wrong ---


class Killed(BaseException):
    """The process ends here."""


def lives(count: int) -> list[Sequence[RunNews]]:
    steps: tuple[Callable[[str], WorkloadBuilder], ...] = (running, evicted, readmitted)
    return [news(*(step(f"job-{number}").build() for number in range(count))) for step in steps]


def test_killed_at_any_statement_it_counts_nothing_twice_and_loses_nothing(url: str) -> None:
    keep = Keep(detail=timedelta(minutes=1))
    died = statement = 0
    while True:
        history = RunHistory.open(url, keep)
        left = statement

        def stop(*_: object) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        event.listen(history._engine, "before_cursor_execute", stop)
        try:
            for each in lives(1):
                history.record(each, at(41))
            history.record(news(finished("last", end=45)), at(46))
            history.fold(at(100))
        except Killed:
            died, statement = died + 1, statement + 1
            continue
        finally:
            history._engine.dispose(close=True)
        break
    assert died > 15
    history = RunHistory.open(url, keep)
    use = total(history)
    assert (use.preempted, use.waits, use.ended) == (1, 3, 2)
    history.close()


RECORDS_FOR_EVER = """
import sys
from multikueue_console.history.store import RunHistory
from multikueue_console.history.story import news_of
from tests.console.history.lives import at, finished

history = RunHistory.open(sys.argv[1])
for number in range(100_000):
    history.record([news_of(finished(f"job-{number}-{each}")) for each in range(5)], at(101))
    print(number + 1, flush=True)
"""


def test_of_a_process_that_is_killed_all_is_there_that_it_had_committed(url: str) -> None:
    command = [sys.executable, "-c", RECORDS_FOR_EVER, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None, "it is a pipe"
        for _ in range(10):
            assert process.stdout.readline()
        process.kill()
        committed = 10 + len(process.stdout.read().splitlines())
    history = RunHistory.open(url)
    assert total(history).ended in (5 * committed, 5 * committed + 5), (
        "whole records, and one that was not told at most"
    )
    history.close()


def test_a_clock_that_steps_counts_nothing_twice_and_loses_nothing(tmp_path: Path) -> None:
    found = {}
    for name, clock in {"straight": (41, 46, 47, 300, 301), "stepping": (41, 10, 5000, 46, 300)}.items():
        history = RunHistory.open(f"sqlite:///{tmp_path / name}.db", Keep(detail=timedelta(hours=1)))
        steps = [*A_LIFE, finished("last", end=45), finished("last", end=45)]
        for number, minute in enumerate(clock):
            history.record(news(*steps[: number + 2]), at(minute))
            history.fold(at(minute))
        found[name] = total(history)
        history.close()
    straight, stepping = found["straight"], found["stepping"]
    assert (stepping.preempted, stepping.waits, stepping.ended) == (straight.preempted, straight.waits, straight.ended)


def test_a_full_disk_is_told_and_nothing_is_lost_of_what_was_committed(tmp_path: Path) -> None:
    history = RunHistory.open(f"sqlite:///{tmp_path / 'small.db'}")

    @event.listens_for(history._engine, "begin")
    def small(connection: object) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 50")  # type: ignore[attr-defined]

    recorded = 0

    def fill() -> None:
        nonlocal recorded
        while True:
            history.record(news(*(finished(f"job-{recorded}-{number}") for number in range(40))), at(101))
            recorded += 1

    with pytest.raises(HistoryUnavailable, match="full"):
        fill()
    assert recorded > 0
    assert total(history).ended == 40 * recorded
    history.close()


@pytest.mark.parametrize("wrong", ["mysql://host/name", "history.db", "postgresql://host:port/x"])
def test_another_url_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="sqlite:///FILE"):
        RunHistory.open(wrong)


def test_a_database_that_is_away_is_told() -> None:
    with pytest.raises(HistoryUnavailable):
        RunHistory.open("postgresql://nobody@/none?host=/nonexistent")


def test_two_consoles_that_record_and_sum_up_at_once_count_nothing_twice(url: str) -> None:
    from threading import Thread

    keep = Keep(detail=timedelta(minutes=1))
    consoles = [RunHistory.open(url, keep) for _ in range(2)]

    def work(console: RunHistory) -> None:
        for _ in range(3):
            for each in lives(5):
                console.record(each, at(41))
            console.record(news(finished("last", end=45)), at(46))
            console.fold(at(100))

    threads = [Thread(target=work, args=(console,)) for console in consoles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    use = total(consoles[0])
    assert (use.preempted, use.waits, use.ended) == (5, 11, 6)
    for console in consoles:
        console.close()


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, and longer than a header of one" * 50)
    with pytest.raises(HistoryUnavailable):
        RunHistory.open(f"sqlite:///{tmp_path / 'notes.txt'}")
