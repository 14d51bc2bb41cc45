"""How long copies waited for quota on a worker: what is learned of whom, and how it fades."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.meta import ObjectKey
from multikueue.quota.capacity.waits import ENOUGH, HALF_LIFE, SHOWN_FOR, Like, WaitTimes, size_of
from multikueue.strategy import Waits
from tests.builders import NOW

SMALL = Like(ObjectKey("team-a", "lq"), "cpu<4")
LARGE = Like(ObjectKey("team-a", "lq"), "cpu<64")
OTHERS = Like(ObjectKey("team-b", "lq"), "cpu<4")
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def seen(*waits: timedelta | None, like: Like = SMALL, into: WaitTimes | None = None) -> WaitTimes:
    """A worker where copies got quota after these times; None: one that was taken away after a minute."""
    times = into if into is not None else WaitTimes()
    for number, wait in enumerate(waits):
        key = ObjectKey("team-a", f"{like.size}-{like.local_queue.namespace}-{number}")
        times.begins(key, like, NOW - MINUTE)
        if wait is None:
            times.goes(key, NOW)
        else:
            times.gets(key, like, wait, NOW)
    return times


@pytest.mark.parametrize(
    ("requests", "size"),
    [
        ({}, "cpu<1"),
        ({"cpu": 999}, "cpu<1"),
        ({"cpu": 1000, "memory": 2**40}, "cpu<4"),
        ({"cpu": 16_000}, "cpu<64"),
        ({"cpu": 64_000, "nvidia.com/gpu": 8}, "nvidia.com/gpu<16"),
        ({"cpu": 2000, "nvidia.com/gpu": 0}, "cpu<4"),
    ],
    ids=["nothing", "less than a core", "a core", "sixteen cores", "devices before cores", "no device after all"],
)
def test_sizes_are_powers_of_four(requests: dict[str, int], size: str) -> None:
    assert size_of(requests) == size


def test_where_nothing_was_seen_nothing_is_known() -> None:
    assert WaitTimes().waits(SMALL, NOW) == Waits()


def test_half_and_nearly_all_of_those_that_got_quota() -> None:
    waits = seen(*[SECOND] * 9, *[4 * MINUTE] * 10, 60 * MINUTE).waits(SMALL, NOW)
    assert (waits.of, waits.seen) == ("its queue and size", 20)
    assert waits.within(0.4) == SECOND
    assert 4 * MINUTE <= (waits.within(0.5) or MINUTE) < 6 * MINUTE
    assert waits.within(0.96) == waits.longest >= 60 * MINUTE


def test_one_that_was_taken_away_waited_for_at_least_that_long() -> None:
    waits = seen(*[SECOND] * 2, *[None] * 8).waits(SMALL, NOW)
    assert waits.within(0.2) == SECOND
    assert waits.within(0.5) is None
    assert waits.longest >= MINUTE


def test_one_that_still_waits_counts_by_its_age() -> None:
    times = seen(*[SECOND] * 3)
    for number in range(9):
        times.begins(ObjectKey("team-a", f"waits-{number}"), SMALL, NOW)
    later = times.waits(SMALL, NOW + timedelta(hours=1))
    assert later.within(0.5) is None
    assert later.longest >= timedelta(hours=1)


@pytest.mark.parametrize(
    ("like", "of"),
    [
        (SMALL, "its queue and size"),
        (LARGE, "its queue"),
        (OTHERS, "all there"),
    ],
)
def test_with_few_of_a_kind_others_count_too(like: Like, of: str) -> None:
    waits = seen(*[SECOND] * ENOUGH).waits(like, NOW)
    assert (waits.of, waits.within(0.5)) == (of, SECOND)


def test_a_size_of_its_own_is_told_apart_once_enough_are_known() -> None:
    times = seen(*[10 * MINUTE] * ENOUGH, like=LARGE, into=seen(*[SECOND] * ENOUGH))
    assert times.waits(SMALL, NOW).within(0.9) == SECOND
    assert (times.waits(LARGE, NOW).within(0.5) or MINUTE) >= 10 * MINUTE


def test_old_waits_fade() -> None:
    times = seen(*[10 * MINUTE] * 8)
    later = NOW + 4 * HALF_LIFE
    assert times.waits(SMALL, later).seen == pytest.approx(0.5)
    for number in range(8):
        times.gets(ObjectKey("team-a", f"new-{number}"), SMALL, SECOND, later)
    assert times.waits(SMALL, later + SHOWN_FOR).within(0.9) == SECOND


def test_those_that_the_worker_evicted_are_a_share_of_those_that_had_quota() -> None:
    times = seen(*[SECOND] * 8)
    times.loses(ObjectKey("team-a", "cpu<4-team-a-0"), NOW)
    times.loses(ObjectKey("team-a", "of nobody"), NOW)
    assert times.waits(SMALL, NOW).evicted == pytest.approx(1 / 8)


def test_an_estimate_is_the_same_for_a_moment() -> None:
    times = seen(*[SECOND] * 5)
    first = times.waits(SMALL, NOW)
    seen(*[10 * MINUTE] * 50, into=times)
    assert times.waits(SMALL, NOW + SHOWN_FOR - SECOND) is first
    assert times.waits(SMALL, NOW + SHOWN_FOR) != first


EVENTS = st.lists(
    st.tuples(st.sampled_from(["begins", "gets", "loses", "goes"]), st.integers(0, 5), st.integers(0, 10_000)),
    max_size=40,
)


@given(events=EVENTS)
def test_whatever_comes_twice_or_out_of_order_gives_shares(events: list[tuple[str, int, int]]) -> None:
    times, now = WaitTimes(), NOW
    for event, number, seconds in events:
        key, now = ObjectKey("team-a", str(number)), now + timedelta(seconds=seconds % 100)
        match event:
            case "begins":
                times.begins(key, SMALL, now)
            case "gets":
                times.gets(key, SMALL, timedelta(seconds=seconds), now)
            case "loses":
                times.loses(key, now)
            case _:
                times.goes(key, now)
    waits = times.waits(SMALL, now)
    shares = [share for share, _ in waits.steps]
    assert shares == sorted(shares)
    assert all(0 < share <= 1 + 1e-9 for share in shares)
    assert [time for _, time in waits.steps] == sorted(time for _, time in waits.steps)
    assert 0 <= waits.evicted <= 1
    assert all(time <= waits.longest for _, time in waits.steps)
