"""Beside the peer without limits: its ratio decides."""

from __future__ import annotations

from benchmarks.sides import LIFTED
from benchmarks.work.lifted import lines
from tests.benchmarks.builders import figures, peer, script


def test_twice_the_rate_of_the_peer_is_asked_for() -> None:
    rate, cpu, unfinished = lines({"ours": figures(), "script": script(), "peer": peer(dispatch_rate=6.1)}, "10 jobs")
    assert (rate.figure, rate.ratio, rate.goal, rate.ok) == (
        "10 jobs: dispatched per second",
        1.967,
        "≥ 2 x peer",
        False,
    )
    assert (cpu.goal, cpu.ok) == ("", None)
    assert unfinished.ours == 0


def test_without_the_peer_nothing_is_judged() -> None:
    assert [line.ok for line in lines({"ours": figures(), "script": script()}, "10 jobs")] == [None, None, None]


def test_what_is_lifted_are_the_rate_of_its_calls_and_the_reconciles_at_a_time() -> None:
    assert min(LIFTED["clientConnection"].values()) >= 100_000
    assert set(LIFTED["controller"]["groupKindConcurrency"]) >= {"Job.batch", "Workload.kueue.x-k8s.io"}
