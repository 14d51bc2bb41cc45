"""Streams: what does not grow passes, and the begin does not count."""

from __future__ import annotations

import pytest

from benchmarks.lines import Line
from benchmarks.work.stream import Flow, Moment, among, halves, lines


def flow(
    *,
    under_way: tuple[float, float] = (4, 4),
    memory: tuple[float, float] = (80, 80),
    unfinished: int = 0,
    turn: float = 20,
    cpu: float = 10,
) -> Flow:
    """A stream of a hundred jobs, of which the first ten took a second; values of the first and of the second half."""
    begin = [Moment(0, 50)] * 2
    moments = [Moment(under_way[half], memory[half]) for half in (0, 1) for _ in range(9)]
    return Flow([1.0] * 10 + [n / 1000 for n in range(1, 91)], begin + moments, unfinished, turn, cpu)


def made(ours: Flow) -> dict[str, Line]:
    return {line.figure.removeprefix("x: "): line for line in lines({"ours": ours, "script": flow()}, "x")}


def test_latencies_are_told_beside_those_of_the_script_without_the_begin() -> None:
    found = made(flow())
    figures = [found[f"submission to remote job, {name} ms"] for name in ("p50", "p95", "p99")]
    assert [(line.ours, line.script, line.ratio, line.ok) for line in figures] == [
        (45.0, 45.0, 1.0, None),
        (86.0, 86.0, 1.0, None),
        (90.0, 90.0, 1.0, None),
    ]


@pytest.mark.parametrize(
    ("ours", "missed"),
    [
        pytest.param(flow(), [], id="all stays as it is"),
        pytest.param(flow(under_way=(4, 5), memory=(80, 84)), [], id="chance moves both a little"),
        pytest.param(flow(under_way=(4, 6)), ["jobs under way in the second half"], id="a queue grows"),
        pytest.param(flow(memory=(80, 85)), ["memory in the second half, MiB"], id="memory grows"),
        pytest.param(flow(turn=101), ["longest turn of the event loop, ms"], id="a turn is long"),
        pytest.param(flow(unfinished=1), ["jobs that never finished"], id="a job is lost"),
    ],
)
def test_nothing_may_grow(ours: Flow, missed: list[str]) -> None:
    assert [figure for figure, line in made(ours).items() if line.ok is False] == missed


def test_growth_is_the_second_half_beside_the_first() -> None:
    line = made(flow(under_way=(4, 6)))["jobs under way in the second half"]
    assert (line.goal, line.ours, line.script, line.ratio) == ("≤ 1.25 x the first half", 6, 4, 1.5)


def test_a_stream_too_short_to_have_halves_judges_nobody() -> None:
    assert halves([]) == (0, 0)
    assert [line.ok for line in made(Flow()).values()] == [None, None, None, None, None, None, True]


@pytest.mark.parametrize(
    ("crowded", "verdicts"),
    [
        pytest.param(flow(cpu=15), [True, True, True, True, True], id="half as much again is borne"),
        pytest.param(flow(cpu=15.1, unfinished=1), [True, False, True, True, False], id="more is not"),
        pytest.param(flow(under_way=(4, 6)), [True, True, False, True, True], id="a queue grows"),
    ],
)
def test_those_that_wait_cost_the_stream_little(crowded: Flow, verdicts: list[bool]) -> None:
    assert [line.ok for line in among(crowded, flow(), "x")] == verdicts
