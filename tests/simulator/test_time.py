"""Virtual time: it passes only when nothing else can happen, and the same program takes the same course each time."""

from __future__ import annotations

import random
import threading
import time
from datetime import timedelta

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from multikueue_simulator.time import EPOCH, NothingLeft, VirtualClock, run


def test_a_day_passes_in_no_time() -> None:
    async def main() -> float:
        await anyio.sleep(86_400)
        return anyio.current_time()

    began = time.monotonic()
    assert run(main) == pytest.approx(86_400)
    assert time.monotonic() - began < 5


def test_what_happens_at_the_same_instant_takes_no_time() -> None:
    async def main() -> float:
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        return anyio.current_time()

    assert run(main) == 0


def test_deadlines_are_kept_on_virtual_time() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            with anyio.fail_after(10):
                await anyio.sleep(11)
        assert anyio.current_time() == pytest.approx(10)

    run(main)


def test_waiting_for_what_never_comes_is_an_error_and_not_a_hang() -> None:
    with pytest.raises(NothingLeft):
        run(anyio.Event().wait)


def test_a_clock_begins_at_the_epoch_and_may_be_ahead() -> None:
    async def main() -> None:
        right, fast = VirtualClock(), VirtualClock(skew=timedelta(seconds=30))
        await right.sleep(60)
        assert right.now() == EPOCH + timedelta(minutes=1)
        assert fast.now() - right.now() == timedelta(seconds=30)
        assert right.monotonic() == pytest.approx(60)

    run(main)


def test_what_belongs_into_a_thread_runs_on_the_spot_and_threads_are_back_afterwards() -> None:
    async def main() -> int:
        return await anyio.to_thread.run_sync(threading.get_ident)

    assert run(main) == threading.get_ident()
    assert anyio.run(main) != threading.get_ident()


def test_an_error_in_main_is_raised() -> None:
    async def main() -> None:
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        run(main)


def test_tasks_are_cancelled_in_the_order_in_which_they_were_begun() -> None:
    """They are kept in a set: by their addresses in memory the order would differ from run to run."""

    async def main() -> list[int]:
        ended: list[int] = []

        async def wait(number: int) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                ended.append(number)

        async with anyio.create_task_group() as tasks:
            for number in random.Random(1).sample(range(40), 40):
                tasks.start_soon(wait, number)
            await anyio.sleep(1)
            tasks.cancel_scope.cancel()
        return ended

    assert run(main) == random.Random(1).sample(range(40), 40)
