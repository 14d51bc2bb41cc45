"""Sentences for people, at the moments that matter."""

from __future__ import annotations

import pytest

from multikueue_simulator.demo.board import words
from multikueue_simulator.demo.board.courses import Course


def test_the_first_time_it_counts_from_the_submission() -> None:
    course = Course("q", 1.0, winner="large")
    assert words.won("a", course, 2.5, ["small"]) == "a runs on large, 1.50 s after its submission against small"


@pytest.mark.parametrize(("winner", "where"), [("large", "again: on large"), ("small", "elsewhere: on small")])
def test_the_next_time_it_says_since_when_and_where(winner: str, where: str) -> None:
    course = Course("q", 1.0, winner=winner, last="large", left=5.0)
    assert words.won("a", course, 7.0, []) == f"a runs {where}, 2.0 s after it had to leave large"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (
            "Preempted to accommodate a workload due to prioritization in the ClusterQueue",
            "for a job of higher priority",
        ),
        ("... due to reclamation within the cohort", "for the queue that its quota belongs to"),
        ("... due to Fair Sharing within the cohort", "for a queue that has less"),
        ("... due to something new", "for another job"),
    ],
)
def test_who_makes_way_knows_why(message: str, why: str) -> None:
    told = words.evicted("a", Course("q", 0.0, last="large"), lost=False, reason="Preempted", message=message)
    assert told == f"a makes way on large {why}, and queues again"


@pytest.mark.parametrize(("last", "who"), [("large", "large"), ("", "its worker")])
def test_what_is_lost_has_a_name_even_before_the_win_was_seen(last: str, who: str) -> None:
    told = words.evicted("a", Course("q", 0.0, last=last), lost=True, reason="", message="")
    assert told == f"{who} is lost: a queues again"


def test_any_other_reason_is_as_kueue_says_it() -> None:
    assert (
        words.evicted("a", Course("q", 0.0), lost=False, reason="Other", message="so") == "a goes back to its queue: so"
    )
