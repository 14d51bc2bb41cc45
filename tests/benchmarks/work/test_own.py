"""The user's strategy of the benchmark is one, and is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.work.own import NAME, OneEach, installed
from multikueue.testing import check_strategy, fleet, strategy_workload


def test_it_keeps_the_contract() -> None:
    check_strategy(OneEach())


def test_each_workload_begins_with_one_worker_and_not_all_with_the_same() -> None:
    found = [
        OneEach().nominate(strategy_workload(f"job-{n}").build(), fleet("a", "b", "c").build()).clusters
        for n in range(20)
    ]
    assert {len(clusters) for clusters in found} == {1}
    assert {clusters[0] for clusters in found} == {"a", "b", "c"}


def test_it_is_found_by_its_entry_point_with_its_options(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "multikueue", "strategies", "show", NAME]
    done = subprocess.run(
        command, env={**os.environ, **installed(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert "patience" in done.stdout
