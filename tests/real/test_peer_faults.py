"""What a comparison asks of a manager under faults: each row that Kueue's own was measured in (F1 to F11)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest

from testbed.bed import Testbed
from testbed.proxy import Link
from tests.real.harness import Manager, Starts, Team, Wins, complaints, starts, team, wins

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(300)]

MODES = ("hang", "blackhole", "reset", "refuse")
BURST = 36


@dataclass(frozen=True, slots=True)
class Pace:
    """How a burst of jobs was admitted: jobs per second, and the longest time without any admission."""

    rate: float
    longest_pause: float


async def _burst(crew: Team, won: Wins, names: Sequence[str], *, until: int | None = None) -> Pace:
    began = time.monotonic()
    await _submit(crew, names)
    count = until or len(names)
    await won.reach(count, timeout=60)
    moments = sorted(moment for moment, _ in won.found.values())[:count]
    return Pace(count / (moments[-1] - began), max(won.pauses(began)))


async def _submit(crew: Team, names: Sequence[str], *, at_once: int = 12) -> None:
    waiting = iter(names)

    async def submitter() -> None:
        for name in waiting:
            await crew.submit(name)

    async with anyio.create_task_group() as tasks:
        for _ in range(at_once):
            tasks.start_soon(submitter)


def _names(count: int) -> list[str]:
    return [f"job{number:03d}" for number in range(count)]


async def test_learn(bed: Testbed, manager: Manager) -> None:
    for mode in ("hang", "reset"):
            async with team(bed) as crew, wins(crew) as won:
                await crew.all_active()
                if True:
                    async with anyio.create_task_group() as tasks:
                        at = 0.0
                        async def ill():
                            nonlocal at
                            await won.reach(BURST // 4)
                            getattr(crew.links["worker3"], mode)()
                            at = time.monotonic()
                            print("ill", time.strftime("%X"))
                        tasks.start_soon(ill)
                        try:
                            print(mode, await _burst(crew, won, _names(BURST)))
                        except AssertionError as error:
                            print(error)
                        print(mode, sorted((round(m-at,2), w[-1]) for m, w in won.found.values()))
