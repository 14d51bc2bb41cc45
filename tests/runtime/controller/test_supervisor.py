"""The supervisor: failed work starts again, for ever and calmly."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest
from structlog.testing import capture_logs

from multikueue.errors import ClusterUnreachable, InvariantBroken
from multikueue.runtime import Backoff, supervise
from multikueue_simulator.time import VirtualClock

pytestmark = pytest.mark.anyio

SECOND = timedelta(seconds=1)
DOWN = ClusterUnreachable("worker-1", "refused")
BACKOFF = Backoff(first=SECOND, cap=8 * SECOND, jitter=0)


class Work:
    """Lives as long as it is told and then raises, life after life; the life after the last returns."""

    def __init__(self, *lives: tuple[float, Exception]) -> None:
        self.lives = list(lives)
        self.started: list[float] = []

    async def __call__(self) -> None:
        self.started.append(round(anyio.current_time(), 3))
        if not self.lives:
            return
        seconds, error = self.lives.pop(0)
        await anyio.sleep(seconds)
        raise error


async def test_failed_work_starts_again_after_a_growing_wait() -> None:
    work = Work(*[(0, DOWN)] * 6)
    began = anyio.current_time()
    await supervise("worker-1", work, backoff=BACKOFF, clock=VirtualClock())
    assert [at - began for at in work.started] == pytest.approx([0, 1, 3, 7, 15, 23, 31])


async def test_work_that_lived_for_a_while_starts_over() -> None:
    work = Work((0, DOWN), (0, DOWN), (60, DOWN), (0, DOWN))
    with capture_logs() as logs:
        await supervise("worker-1", work, backoff=BACKOFF, clock=VirtualClock())
    assert [log["failures"] for log in logs] == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("error", "event", "level"),
    [
        pytest.param(DOWN, "subtree.restarting", "warning", id="an expected error is a warning"),
        pytest.param(ExceptionGroup("x", [DOWN]), "subtree.restarting", "warning", id="so is a group of them"),
        pytest.param(KeyError("x"), "subtree.crashed", "error", id="a bug is an error"),
    ],
)
async def test_failures_are_logged_for_what_they_are(error: Exception, event: str, level: str) -> None:
    with capture_logs() as logs:
        await supervise("worker-1", Work((0, error)), backoff=BACKOFF, clock=VirtualClock())
    assert [(log["event"], log["log_level"], log["name"], log["again_after"]) for log in logs] == [
        (event, level, "worker-1", 1.0)
    ]
    assert (logs[0].get("exc_info") is error) == (level == "error")


async def test_a_broken_invariant_ends_the_supervision() -> None:
    with pytest.raises(InvariantBroken):
        await supervise("worker-1", Work((0, InvariantBroken("x"))), backoff=BACKOFF, clock=VirtualClock())


@pytest.mark.parametrize("cancelled_at", [5, 10.5], ids=["while it works", "while it waits"])
async def test_cancellation_passes(cancelled_at: float) -> None:
    work = Work((10, DOWN))
    with anyio.move_on_after(cancelled_at) as scope:
        await supervise("worker-1", work, backoff=BACKOFF, clock=VirtualClock())
    assert scope.cancelled_caught
    assert len(work.started) == 1


async def test_by_default_restarts_are_spread_over_the_whole_wait() -> None:
    with capture_logs() as logs:
        await supervise("worker-1", Work(*[(0, DOWN)] * 30), clock=VirtualClock())
    waits = [log["again_after"] for log in logs]
    assert max(waits) <= 30
    assert min(waits[5:]) < 15 < max(waits[5:])
