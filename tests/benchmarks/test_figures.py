"""Targets and their verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.figures import Figures, Row, at_most, both, ratios, rows
from benchmarks.timeline import Distribution
from tests.benchmarks.builders import calls, figures, peer, script

RATE = "dispatch of a burst, jobs/s"
CPU = "CPU per job, ms"
WRITES = "of these no event (dispatch.tell_wins)"
MEMORY = "peak memory, MiB"


def row(label: str, **sides: Figures) -> Row:
    return next(each for each in rows(sides) if each.label == label)


def test_a_side_that_is_good_enough_passes_all_targets() -> None:
    judged = [each.met for each in rows({"ours": figures(), "peer": peer()}) if each.target]
    assert judged == [True] * 9


@pytest.mark.parametrize(
    ("label", "worse"),
    [
        (RATE, {"dispatch_rate": 11.9}),
        ("jobs of the burst that never finished", {"unfinished": 1}),
        ("at rest: submit → remote job, p50 ms", {"start": Distribution(0.101, 0.2, 9)}),
        ("at rest: remote → local complete, p50 ms", {"completion": Distribution(0.101, 0.2, 9)}),
        (WRITES, {"manager": calls(writes=7.01)}),
        (WRITES, {"manager": calls(writes=8.01, by={"create events": 1.0})}),
        ("writes to all workers per job", {"worker": calls(writes=8.01)}),
        ("live reads per job", {"manager": calls(reads=0.01)}),
        ("live reads per job", {"worker": calls(reads=0.01)}),
        (CPU, {"cpu_ms": 14.6}),
        (CPU, {"cpu_ms": 15.1}),
        (MEMORY, {"peak_memory": 115.1}),
    ],
)
def test_a_miss_is_called_one(label: str, worse: dict[str, Any]) -> None:
    missed = [each.label for each in rows({"ours": figures(**worse), "peer": peer()}) if each.met is False]
    assert missed == [label]


def test_without_the_peer_ratios_are_not_judged() -> None:
    assert row(RATE, ours=figures()).met is None
    assert row(MEMORY, ours=figures()).met is None


def test_without_the_peer_half_a_target_can_still_be_missed() -> None:
    assert row(CPU, ours=figures(cpu_ms=20.0)).met is False
    assert row(CPU, ours=figures()).met is None


def test_the_target_of_worker_writes_follows_the_number_of_workers() -> None:
    label = "writes to all workers per job"
    assert row(label, ours=figures(workers=1, worker=calls(writes=4.0))).met
    assert not row(label, ours=figures(workers=1, worker=calls(writes=4.1))).met


def test_the_peer_alone_is_not_judged() -> None:
    assert {each.met for each in rows({"peer": peer()})} == {None}


def test_a_ratio_is_ours_to_the_peers() -> None:
    assert row(RATE, ours=figures(dispatch_rate=12.0), peer=peer(dispatch_rate=1.0)).ratio == 12.0
    assert row(RATE, ours=figures(), peer=peer(dispatch_rate=0.0)).ratio is None


def test_two_limits_are_said_in_one() -> None:
    assert both(at_most(1), at_most(2)).says == "≤ 1, ≤ 2"


def test_ratios_are_of_sides_of_the_same_run() -> None:
    found = ratios({"ours": figures(), "peer": peer(cpu_ms=48.0), "script": script()})
    assert [each.value for each in found] == [1.5, 0.25, 0.96, 0.9]
    assert all(each.met for each in found)


@pytest.mark.parametrize(
    ("label", "worse"),
    [
        ("CPU per job beside the script", {"script": script(cpu_ms=7.9)}),
        ("CPU per job beside the peer", {"peer": peer(cpu_ms=47.9)}),
        ("rate of dispatch beside the script", {"script": script(dispatch_rate=12.7)}),
        ("CPU from the start until ready", {"ours": figures(startup_cpu_ms=1201.0)}),
    ],
)
def test_a_ratio_that_is_missed_is_called_so(label: str, worse: dict[str, Figures]) -> None:
    found = ratios({"ours": figures(), "peer": peer(), "script": script()} | worse)
    assert [each.label.startswith(label) for each in found if each.met is False] == [True]


def test_without_the_other_side_there_is_no_ratio() -> None:
    assert [each.met for each in ratios({"ours": figures()})] == [None, None, None, True]
    assert {each.value for each in ratios({"peer": peer()})} == {None}
