"""Results of many lives are added up."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from multikueue_simulator.simulation.runs.batch import Result, Tally, _fixed_hashes


def result(seed: int, invariant: str = "") -> Result:
    return Result(seed, invariant, f"{invariant} was broken" if invariant else "", "", Counter({("A", "B"): 2}), 0.5)


def test_a_tally_adds_up_and_keeps_what_failed() -> None:
    tally = Tally()
    for each in (result(1), result(2, "I1"), result(3)):
        tally.add(each)
    assert (tally.seeds, tally.seconds, tally.phases) == (3, 1.5, {("A", "B"): 6})
    assert [each.seed for each in tally.failed] == [2]


@pytest.mark.parametrize("before", [None, "17"])
def test_processes_have_the_same_hashes_each_time(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if before is None:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    else:
        monkeypatch.setenv("PYTHONHASHSEED", before)
    with _fixed_hashes():
        assert os.environ["PYTHONHASHSEED"] == "0"
    assert os.environ.get("PYTHONHASHSEED") == before
