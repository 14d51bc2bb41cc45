"""CPU time and memory of processes."""

from __future__ import annotations

import os
import sys

import pytest

from benchmarks.meters import Reading, cpu_seconds, memory, read

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_this_process_has_memory_and_its_peak_is_no_less() -> None:
    found = memory(os.getpid())
    assert 1 < found.resident <= found.peak < 100_000


def test_cpu_time_grows_with_work() -> None:
    before = cpu_seconds(os.getpid())
    while cpu_seconds(os.getpid()) < before + 0.02:
        sum(range(10_000))


def test_what_none_of_ours_used_was_used_by_strangers() -> None:
    cores = os.cpu_count() or 1
    before = Reading({"ours": 1.0, "etcd": 5.0}, machine=100.0, at=10.0)
    after = Reading({"ours": 2.0, "etcd": 5.5}, machine=100.0 + 1.5 + cores, at=14.0)
    usage = after.since(before)
    assert usage.programs == {"ours": 1.0, "etcd": 0.5}
    assert usage.others == pytest.approx(0.25)


def test_clock_ticks_never_make_the_strangers_negative() -> None:
    before = Reading({"ours": 1.0}, machine=100.0, at=10.0)
    assert Reading({"ours": 2.0}, machine=100.9, at=12.0).since(before).others == 0.0


def test_a_reading_knows_the_driver_and_the_machine() -> None:
    found = read({})
    assert list(found.programs) == ["driver"]
    assert found.machine > found.programs["driver"] > 0
