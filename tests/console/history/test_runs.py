from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from multikueue.testing import NOW
from multikueue_console.history.runs import Run

RUN = Run(workload="uid", attempt="one", namespace="team", name="train", reserved_at=NOW)


def test_a_run_runs_from_its_start_to_its_end_or_until_now() -> None:
    later = NOW + timedelta(seconds=90)
    assert RUN.seconds(later) == 0
    assert replace(RUN, started_at=NOW).seconds(later) == 90
    assert replace(RUN, started_at=NOW, ended_at=NOW + timedelta(seconds=30)).seconds(later) == 30


def test_clocks_that_differ_give_no_negative_times() -> None:
    odd = replace(RUN, queued_at=NOW, started_at=NOW - timedelta(seconds=5), ended_at=NOW - timedelta(seconds=9))
    assert (odd.seconds(NOW), odd.waited) == (0, 0)


def test_a_wait_is_known_once_it_is_over_and_its_beginning_was_seen() -> None:
    assert RUN.waited is None
    assert replace(RUN, started_at=NOW).waited is None
    assert replace(RUN, queued_at=NOW - timedelta(minutes=1), started_at=NOW).waited == 60
