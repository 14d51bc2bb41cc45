"""Strategies: each beside all-at-once, and the part of `external` that is external."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.timeline import Distribution
from benchmarks.work.strategies import Cost, Nominator, lines

FIRST = Cost(calls=20.0, held=1.5, preemptions=40, start=Distribution(1.0, 2.0, 20), unfinished=0)
NARROW = Cost(calls=14.0, held=0.0, preemptions=0, start=Distribution(3.0, 8.0, 20), unfinished=1)
PEER = Cost(calls=60.0, held=3.0, preemptions=40, start=None, unfinished=0)


def test_each_strategy_is_beside_the_first_and_so_is_the_peer() -> None:
    found = {line.figure: line for line in lines({"all-at-once": FIRST, "incremental": NARROW}, PEER)}
    calls, held = "API calls per job", "seconds that losers hold quota, per job"
    assert [(found[f"strategy {name}: {calls}"].ratio, found[f"strategy {name}: {calls}"].peer) for name in NAMES] == [
        (1.0, 60.0),
        (0.7, None),
    ]
    assert found[f"strategy incremental: {held}"].ratio == 0.0
    assert found["strategy incremental: submission to start of the remote job, p95 s"].ratio == 4.0
    assert [found[f"strategy {name}: jobs that never finished"].ok for name in NAMES] == [True, False]


def test_without_anything_to_compare_there_is_no_ratio() -> None:
    found = {line.figure: line for line in lines({"all-at-once": NARROW}, None)}
    line = found["strategy all-at-once: preemptions by losers"]
    assert (line.ours, line.peer, line.ratio) == (0, None, None)


NAMES = ("all-at-once", "incremental")


def line(name: str, *, reserved: bool = True, change: str = "MODIFIED") -> bytes:
    conditions: list[dict[str, Any]] = [{"type": "QuotaReserved", "status": str(reserved)}]
    about = {"name": name, "resourceVersion": "1"}
    return json.dumps({"type": change, "object": {"metadata": about, "status": {"conditions": conditions}}}).encode()


def test_workloads_with_quota_are_nominated_once_in_turn() -> None:
    nominator = Nominator(["w1", "w2"])
    seen = [line("a", reserved=False), line("a"), line("b"), line("a"), line("gone", change="DELETED"), line("c")]
    found = [each for each in map(nominator.nomination, seen) if each is not None]
    assert [(each.workload, json.loads(each.status)["status"]["nominatedClusterNames"]) for each in found] == [
        ("a", ["w1"]),
        ("b", ["w2"]),
        ("c", ["w1"]),
    ]
