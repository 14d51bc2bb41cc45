"""The supervisor: failed work starts again, for ever and calmly."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from multikueue.errors import ClusterUnreachable, ConfigurationError, Conflict, InvariantBroken, StrategyError
from multikueue.runtime import Backoff, supervise
from multikueue.runtime.controller.supervisor import describe, is_expected, is_fatal, leaves
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


CONFLICT = Conflict(409, "Conflict", "somebody wrote first")
BUG = KeyError("x")
BROKEN = InvariantBroken("two winners")


def group(*errors: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("several", errors)


def test_leaves_of_a_group_of_groups_come_in_order() -> None:
    assert list(leaves(group(CONFLICT, group(DOWN, BUG)))) == [CONFLICT, DOWN, BUG]


@pytest.mark.parametrize(
    ("error", "expected", "fatal"),
    [
        pytest.param(StrategyError("raised"), True, False, id="an error of ours is expected"),
        pytest.param(TimeoutError(), True, False, id="a deadline that passed is expected"),
        pytest.param(BUG, False, False, id="anything else is not"),
        pytest.param(group(CONFLICT, DOWN), True, False, id="a group of expected errors is expected"),
        pytest.param(group(CONFLICT, BUG), False, False, id="one surprise makes the group a surprise"),
        pytest.param(BROKEN, True, True, id="a broken invariant is fatal"),
        pytest.param(group(CONFLICT, group(BROKEN)), True, True, id="so is one deep in a group"),
    ],
)
def test_what_an_error_means(error: Exception, expected: bool, fatal: bool) -> None:
    assert (is_expected(error), is_fatal(error)) == (expected, fatal)


def test_a_description_is_one_line_with_all_of_it() -> None:
    assert describe(group(DOWN, BUG)) == "ClusterUnreachable: cluster worker-1 is unreachable: refused; KeyError: 'x'"


def test_delays_double_up_to_the_cap() -> None:
    backoff = Backoff(first=5 * SECOND, cap=320 * SECOND, jitter=0)
    assert [backoff.delay(n) / SECOND for n in range(9)] == [0, 5, 10, 20, 40, 80, 160, 320, 320]


def test_another_factor_grows_faster() -> None:
    backoff = Backoff(first=SECOND, cap=100 * SECOND, factor=10, jitter=0)
    assert [backoff.delay(n) / SECOND for n in (1, 2, 3, 4)] == [1, 10, 100, 100]


def test_a_million_failures_wait_for_the_cap() -> None:
    assert Backoff(first=SECOND, cap=60 * SECOND, jitter=0).delay(10**6) == 60 * SECOND


@pytest.mark.parametrize(
    ("jitter", "draw", "seconds"),
    [
        pytest.param(0.5, 0.0, 8, id="half jitter takes nothing off at best"),
        pytest.param(0.5, 1.0, 4, id="half jitter takes half off at worst"),
        pytest.param(1, 0.75, 2, id="full jitter may take off nearly all"),
    ],
)
def test_jitter_takes_a_share_off(jitter: float, draw: float, seconds: float) -> None:
    backoff = Backoff(first=SECOND, cap=60 * SECOND, jitter=jitter, draw=lambda: draw)
    assert backoff.delay(4) == seconds * SECOND


@given(failures=st.integers(1, 10**9), jitter=st.floats(0, 1))
def test_a_delay_is_never_negative_nor_over_the_cap(failures: int, jitter: float) -> None:
    assert timedelta() <= Backoff(first=SECOND, cap=30 * SECOND, jitter=jitter).delay(failures) <= 30 * SECOND


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: Backoff(first=timedelta(), cap=SECOND), id="no first delay"),
        pytest.param(lambda: Backoff(first=2 * SECOND, cap=SECOND), id="a cap below the first delay"),
        pytest.param(lambda: Backoff(first=SECOND, cap=SECOND, factor=1), id="no growth"),
        pytest.param(lambda: Backoff(first=SECOND, cap=SECOND, jitter=1.5), id="more chance than delay"),
    ],
)
def test_a_backoff_that_cannot_work_is_refused(build: object) -> None:
    assert callable(build)
    with pytest.raises(ConfigurationError, match="back-off: expected 0 < first <= cap"):
        build()
