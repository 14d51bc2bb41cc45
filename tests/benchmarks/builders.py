"""Figures of a side, as a run would give them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.calls import Calls
from benchmarks.figures import Figures
from benchmarks.timeline import Distribution

NO_CALLS = Calls(writes=0, reads=0, watches=0, refused=0, by={})


def calls(**more: Any) -> Calls:
    return replace(NO_CALLS, **more)


def figures(**more: Any) -> Figures:
    """A side that meets every target, were the peer ten times as slow, four times as hungry and as large."""
    perfect = Figures(
        jobs=100,
        unfinished=0,
        rested_jobs=10,
        workers=3,
        dispatch_rate=12.0,
        finish_rate=11.0,
        start=Distribution(0.080, 0.120, 10),
        completion=Distribution(0.030, 0.050, 10),
        manager=calls(writes=6.5, by={"create workloads": 1.0, "patch workloads/status": 5.5}),
        worker=calls(writes=8.0, by={"create workloads": 3.0}),
        cpu_ms=12.0,
        startup_cpu_ms=900.0,
        peak_memory=80.0,
        memory=79.0,
        steps={"workload created": Distribution(0.014, 0.027, 10)},
        rested_manager=calls(writes=7.0, by={"create workloads": 1.0}),
        rested_worker=calls(writes=8.0),
        cpu={"ours": 1.2, "etcd": 2.0},
        others=0.02,
    )
    return replace(perfect, **more)


def peer(**more: Any) -> Figures:
    return figures(**({"dispatch_rate": 1.2, "cpu_ms": 58.0, "peak_memory": 100.0} | more))


def script(**more: Any) -> Figures:
    return figures(**({"dispatch_rate": 12.5, "cpu_ms": 8.0} | more))
