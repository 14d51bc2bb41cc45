"""The limit that is learned from answers: alone, and with servers that have a queue."""

from __future__ import annotations

import pytest

from multikueue.runtime import AdaptiveLimit
from multikueue.runtime.concurrency.adaptive_limit import LEAST, START

MOST = 64


def served(limit: AdaptiveLimit, *, way: float, service: float, places: int, rounds: int = 200, busy: int = 0) -> int:
    """The limit after so many rounds in which all that may be under way are sent at once to a server: it works on so many at
    a time, each for `service` seconds. With `busy` it refuses what is beyond that number."""
    at = limit_at = 0.0
    for _ in range(rounds):
        sent = limit()
        for number in range(sent):
            seconds = way + service * (1 + number // places)
            if busy and number >= busy:
                limit.refused(at=at + way, seconds=way)
            else:
                limit.answered(at=at + seconds, seconds=seconds, was_used_up=True)
            limit_at = max(limit_at, at + seconds)
        at = limit_at
    return limit()


@pytest.mark.parametrize("way", [0.0, 0.08, 0.2, 1.0])
def test_a_server_that_keeps_up_gets_as_much_as_may_be_however_far_it_is(way: float) -> None:
    assert served(AdaptiveLimit(MOST), way=way, service=0.01, places=1000, rounds=5) == MOST


def test_a_server_that_does_one_thing_at_a_time_gets_few() -> None:
    assert served(AdaptiveLimit(MOST), way=0.0, service=1.0, places=1) <= 4


def test_a_server_with_some_places_gets_about_as_many_twice_over() -> None:
    assert 8 <= served(AdaptiveLimit(MOST), way=0.0, service=1.0, places=8) <= 20


def test_a_server_that_refuses_what_is_too_much_is_asked_for_less() -> None:
    assert served(AdaptiveLimit(MOST), way=0.05, service=0.01, places=1000, busy=20) <= 21


def test_it_does_not_grow_unless_it_is_used_up() -> None:
    limit = AdaptiveLimit(MOST)
    for second in range(100):
        limit.answered(at=second, seconds=0.1, was_used_up=False)
    assert limit() == START


def test_what_was_sent_before_it_shrank_does_not_shrink_it_again() -> None:
    limit = AdaptiveLimit(MOST)
    for number in range(10):
        limit.refused(at=1 + number / 100, seconds=0.5)
    assert limit() == START // 2
    limit.refused(at=2, seconds=0.5)
    assert limit() == START // 4


def test_it_keeps_within_its_bounds() -> None:
    assert AdaptiveLimit(3)() == 3
    assert served(AdaptiveLimit(1), way=0.0, service=1.0, places=1) == 1
    limit = AdaptiveLimit(MOST)
    for second in range(20):
        limit.refused(at=second, seconds=0.1)
    assert limit() == LEAST


def test_a_way_that_has_become_longer_is_the_normal_one_after_a_while() -> None:
    limit = AdaptiveLimit(MOST)
    served(limit, way=0.01, service=0.01, places=1000, rounds=5)
    assert served(limit, way=0.3, service=0.01, places=1000, rounds=3) < MOST
    assert served(limit, way=0.3, service=0.01, places=1000, rounds=400) == MOST
