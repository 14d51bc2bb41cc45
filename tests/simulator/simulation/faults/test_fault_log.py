"""What the invariants ask of the troubles of a world."""

from __future__ import annotations

import pytest

from multikueue_simulator.simulation.faults.fault_log import EVERYBODY, FaultLog

HOST = "worker1"


def faults(*spans: tuple[float, float | None], source: str = EVERYBODY, deaf: bool = True) -> FaultLog:
    made = FaultLog()
    for begin, end in spans:
        made.begin(source, HOST, begin, deaf=deaf).end = end
    return made


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [(0.0, 1.0, False), (1.0, 3.0, True), (4.0, 9.0, True), (6.0, 9.0, False)],
    ids=["before", "at its beginning", "within", "after"],
)
def test_whether_there_was_any_in_a_time(begin: float, end: float, expected: bool) -> None:
    assert faults((2.0, 5.0)).between(HOST, begin, end) is expected
    assert not faults((2.0, 5.0)).between("worker2", begin, end)


@pytest.mark.parametrize(
    ("spans", "now", "expected"),
    [
        ([(2.0, None)], 9.0, 2.0),
        ([(2.0, 5.0)], 9.0, None),
        ([(2.0, 5.0), (5.5, None)], 9.0, 2.0),
        ([(2.0, 4.0), (7.0, None)], 9.0, 7.0),
        ([], 9.0, None),
    ],
    ids=["it lasts", "it is over", "a short return does not count", "a long return does", "there is none"],
)
def test_since_when_a_host_may_have_been_away(
    spans: list[tuple[float, float | None]], now: float, expected: float | None
) -> None:
    assert faults(*spans).away_since(HOST, now, gap=1.0) == expected


@pytest.mark.parametrize(
    ("sleep", "expected"),
    [((4.5, 7.5), 2.0), ((5.5, 7.5), 7.0), ((0.0, 3.0), 7.0)],
    ids=["nobody was awake for long enough to see it back", "somebody was", "that was before"],
)
def test_who_slept_through_a_return_cannot_tell_it_from_none(sleep: tuple[float, float], expected: float) -> None:
    seen = faults((2.0, 4.0), (7.0, None))
    seen.sleeps.append(sleep)
    assert seen.away_since(HOST, 9.0, gap=1.0) == expected


@pytest.mark.parametrize(
    ("sleep", "expected"), [((4.2, 8.5), 2.0), ((4.2, 6.0), None)], ids=["until just now", "before"]
)
def test_who_slept_since_a_return_has_not_seen_it(sleep: tuple[float, float], expected: float | None) -> None:
    seen = faults((2.0, 4.0))
    seen.sleeps.append(sleep)
    assert seen.away_since(HOST, 9.0, gap=1.0) == expected


def test_nobody_can_reach_a_host_while_what_keeps_everybody_away_lasts() -> None:
    assert faults((2.0, None), (1.0, 4.0)).deaf_since(HOST, 9.0) == 2.0
    assert faults((2.0, None), source="manager-0").deaf_since(HOST, 9.0) is None
    assert faults((2.0, None), deaf=False).deaf_since(HOST, 9.0) is None


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([("manager-0", 2.0, None)], 2.0),
        ([("manager-1", 2.0, None)], None),
        ([(EVERYBODY, 2.0, None)], 2.0),
        ([("manager-1", 2.0, 8.0), ("manager-0", 7.0, None)], 7.0),
        ([("manager-0", 2.0, 4.0), ("manager-0", 4.5, None)], 2.0),
        ([("manager-0", 2.0, 4.0), ("manager-0", 7.0, None)], 7.0),
    ],
    ids=["its own link", "another's", "everybody's", "own after another's", "a short return", "a long one"],
)
def test_what_one_replica_cannot_reach_is_by_its_own_links(
    spans: list[tuple[str, float, float | None]], expected: float | None
) -> None:
    made = FaultLog()
    for source, begin, end in spans:
        made.begin(source, HOST, begin).end = end
    assert made.away_from("manager-0", HOST, 9.0, gap=1.0, news="manager") == expected


@pytest.mark.parametrize(("told", "expected"), [(True, 2.0), (False, None)], ids=["by an object", "by the link itself"])
def test_only_what_an_object_tells_lasts_until_it_is_read(told: bool, expected: float | None) -> None:
    made = FaultLog()
    made.begin(EVERYBODY, HOST, 2.0, told=told).end = 4.0
    made.begin("manager-0", "manager", 3.0)
    assert made.away_from("manager-0", HOST, 9.0, gap=1.0, news="manager") == expected


def test_who_was_frozen_while_a_host_was_back_has_not_seen_it() -> None:
    made = faults((2.0, 4.0), (7.0, None), source="manager-0")
    made.naps["manager-0"] = [(4.5, 7.5)]
    assert made.away_from("manager-0", HOST, 9.0, gap=1.0, news="manager") == 2.0


@pytest.mark.parametrize(("nap", "expected"), [((4.2, 8.5), 2.0), ((4.2, 6.0), None)], ids=["until just now", "before"])
def test_who_was_frozen_since_a_host_was_back_has_not_seen_it(nap: tuple[float, float], expected: float | None) -> None:
    made = faults((2.0, 4.0), source="manager-0")
    made.naps["manager-0"] = [nap]
    assert made.away_from("manager-0", HOST, 9.0, gap=1.0, news="manager") == expected
