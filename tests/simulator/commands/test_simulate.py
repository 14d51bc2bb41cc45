"""`multikueue simulate-faults`: what it prints, and how it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from multikueue.cli import main
from multikueue_simulator.simulation.runs import batch
from multikueue_simulator.simulation.runs.batch import Result


def result(seed: int, invariant: str = "") -> Result:
    violation = f"{invariant} at 1.000 s: it was broken" if invariant else ""
    return Result(seed, invariant, violation, "0", Counter({("UNRESERVED", "NOMINATING"): 2}), 0.1)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The seeds that violate an invariant; none are lived."""
    seeds: set[int] = set()

    def run_batch(lived: Iterable[int], *, processes: int) -> Iterator[Result]:
        return (result(seed, "I1" if seed in seeds else "") for seed in lived)

    monkeypatch.setattr(batch, "run_batch", run_batch)
    return seeds


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["simulate-faults", *words])
    return int(ended.value.code or 0)


def test_the_last_line_counts_seeds_and_failures(broken: set[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--seeds", "7", "--from", "100") == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "7 seeds, 0 failed"
    assert "UNRESERVED -> NOMINATING  14" in out


def test_seeds_that_violate_an_invariant_are_named_and_make_it_fail(
    broken: set[int], capsys: pytest.CaptureFixture[str]
) -> None:
    broken |= {3, 5}
    assert run("--seeds", "7") == 1
    out, err = capsys.readouterr()
    assert "seed 3: I1 at 1.000 s: it was broken" in out
    assert out.splitlines()[-1] == "7 seeds, 2 failed"
    assert "multikueue simulate-faults --seed 3 --story" in err


def test_one_seed_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(batch, "told", lambda seed, everything: ([f"seed {seed} {everything}"], True))
    assert run("--seed", "9", "--story") == 1
    assert capsys.readouterr().out == "seed 9 True\n"


def test_a_story_without_a_seed_is_wrong_usage(broken: set[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--story") == 2
    assert "say which with --seed" in capsys.readouterr().err
