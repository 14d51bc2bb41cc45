"""What is named first of what there is."""

from __future__ import annotations

import pytest

from multikueue.cli.terminal.nearest import there_are

CASES = {
    "nothing is there": ("x", [], "there are none"),
    "nothing is near": ("zzz", ["b", "a"], "there are: a, b"),
    "one is near": ("wroker-2", ["manager", "worker-2"], "did you mean 'worker-2'? there are: worker-2, manager"),
    "the kind before it is no part of it": (
        "trian",
        ["a", "job/train"],
        "did you mean 'job/train'? there are: job/train, a",
    ),
    "there are many": (
        "x",
        [f"{n:02}" for n in range(12)],
        f"there are: {', '.join(f'{n:02}' for n in range(10))} and 2 more",
    ),
}


@pytest.mark.parametrize(("named", "known", "expected"), CASES.values(), ids=CASES.keys())
def test_there_are(named: str, known: list[str], expected: str) -> None:
    assert there_are(named, known) == expected
