"""The invariants have teeth: bugs that are planted on purpose are caught, each by a seed or by a test that is named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from multiprocessing.pool import AsyncResult

import pytest

from multikueue_simulator.simulation.runs.batch import alike
from tests.simulation.bugs import BUGS, Bug, Catch, catch


@pytest.fixture(scope="module")
def hunts() -> Iterator[dict[str, AsyncResult[Catch | None]]]:
    """All at once, in several processes; each test has one of its own, which has loaded nothing that is replaced."""
    with alike(os.cpu_count() or 1) as lives, alike(1, tasks=1) as tests:
        yield {
            name: (tests if isinstance(bug.caught_by, str) else lives).apply_async(catch, (name,))
            for name, bug in BUGS.items()
        }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", BUGS.values(), ids=lambda bug: bug.name.replace("_", " "))
def test_a_planted_bug_is_caught(bug: Bug, hunts: dict[str, AsyncResult[Catch | None]]) -> None:
    found = hunts[bug.name].get()
    assert found is not None, f"`python -m tests.simulation.bugs {bug.name}` says which seed catches it now"


def test_there_are_enough_of_them() -> None:
    assert len(BUGS) >= 15
    assert all(bug.caught_by < bug.within for bug in BUGS.values() if isinstance(bug.caught_by, int))
