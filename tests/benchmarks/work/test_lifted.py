"""Beside the peer without limits: its ratio decides."""

from __future__ import annotations

import pytest

from benchmarks.sides import LIFTED
from benchmarks.work.lifted import SHIPPED, lines
from tests.benchmarks.builders import figures, peer, script


@pytest.mark.parametrize(("rate", "ratio", "ok"), [(6.0, 2.0, True), (6.1, 1.967, False)])
def test_twice_the_rate_of_the_peer_without_limits_is_asked_for(rate: float, ratio: float, ok: bool) -> None:
    sides = {"ours": figures(), "script": script(), "peer": peer(dispatch_rate=rate), SHIPPED: peer()}
    without, cpu, shipped, _, unfinished = lines(sides, "10 jobs")
    assert (without.figure, without.ratio, without.goal, without.ok) == (
        "10 jobs, the peer without limits: dispatched per second",
        ratio,
        "≥ 2 x peer",
        ok,
    )
    assert (cpu.goal, cpu.ok) == ("", None)
    assert (shipped.figure, shipped.ratio, shipped.ok) == (
        "10 jobs, the peer as shipped: dispatched per second",
        10.0,
        None,
    )
    assert (unfinished.ours, unfinished.ok) == (0, True)


def test_without_the_peer_its_rate_is_not_judged() -> None:
    assert [line.ok for line in lines({"ours": figures(), "script": script()}, "10 jobs")] == [None, None, True]


def test_what_is_lifted_are_the_rate_of_its_calls_and_the_reconciles_at_a_time() -> None:
    assert min(LIFTED["clientConnection"].values()) >= 100_000
    assert set(LIFTED["controller"]["groupKindConcurrency"]) >= {"Job.batch", "Workload.kueue.x-k8s.io"}
