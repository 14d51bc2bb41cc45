from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.kube.transport.loop_share import (
    BARRED_FOR,
    BURST,
    SLICE,
    UNMETERED,
    Leftovers,
    LoopShare,
)
from tests.kube.following import LISTED, running
from tests.kube.server import event, job, streams

pytestmark = pytest.mark.anyio

PART = 0.05
TURNS = 2000


class Loop:
    """An event loop whose time is what its tasks say that they take."""

    def __init__(self) -> None:
        self.now, self.others = 0.0, 0.0
        self.leftovers = Leftovers(lambda: self.now)

    def share(self, *, part: float = PART, patience: float = 1e9) -> LoopShare:
        return LoopShare(self.leftovers, part=part, patience=patience)

    def work(self, share: LoopShare, seconds: float) -> bool:
        began, self.now = self.now, self.now + seconds
        return share.spend(began)

    async def flood(self, share: LoopShare, seconds: float = SLICE / 2) -> None:
        """A reader for which there is always more to read."""
        while True:
            if self.work(share, seconds):
                await share.pause()

    async def trickle(self, share: LoopShare, seconds: float, part: float) -> None:
        """A reader that takes that part of the time."""
        due = self.now
        while True:
            if self.now < due:
                await asyncio.sleep(0)
                continue
            due = max(due, self.now - 1) + seconds / part
            if self.work(share, seconds):
                await share.pause()

    async def do(self, seconds: float) -> None:
        """What is no reading, such as decisions and writes: always something to do."""
        while True:
            self.now += seconds
            self.others += seconds
            await asyncio.sleep(0)


async def played(*works: Coroutine[None, None, None], turns: int = TURNS) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()


async def test_who_is_trusted_is_not_measured() -> None:
    assert not UNMETERED.spend(0.0)
    await UNMETERED.pause()
    assert UNMETERED.seconds == 0


async def test_alone_one_may_take_all_of_it() -> None:
    loop = Loop()
    greedy = loop.share()
    await played(loop.flood(greedy))
    assert greedy.seconds == pytest.approx(loop.now)


@pytest.mark.parametrize("others", [0.001, 0.01, 0.05], ids=["short turns", "longer ones", "long ones"])
@pytest.mark.parametrize("many", [1, 4], ids=["one", "four"])
@pytest.mark.parametrize("readers", [1, 16], ids=["with one reader", "with many readers each"])
async def test_who_exceed_their_shares_have_a_third_together(others: float, many: int, readers: int) -> None:
    loop = Loop()
    shares = [loop.share() for _ in range(many)]
    await played(loop.do(others), *(loop.flood(share) for share in shares for _ in range(readers)))
    bursts = many * (BURST + readers * 2 * SLICE)
    assert sum(share.seconds for share in shares) <= bursts + loop.now * 0.34


async def test_of_those_each_has_as_much_as_another_however_many_readers_it_has() -> None:
    loop = Loop()
    few, many = loop.share(), loop.share()
    await played(loop.do(0.001), loop.flood(few), *(loop.flood(many) for _ in range(16)))
    assert few.seconds == pytest.approx(many.seconds, rel=0.2)


async def test_who_stays_within_its_share_never_waits_beside_those_who_do_not() -> None:
    loop = Loop()
    modest = loop.share()
    greedy = [loop.share() for _ in range(4)]
    await played(loop.do(0.001), loop.trickle(modest, SLICE, PART / 2), *(loop.flood(share) for share in greedy))
    assert modest.seconds > 0
    assert modest.stood == 0
    assert all(share.stood > 0 for share in greedy)


async def test_who_was_quiet_for_some_seconds_has_a_share_again() -> None:
    loop = Loop()
    share = loop.share()
    loop.work(share, 10.0)
    assert share.is_used_up
    loop.now += BURST / PART + 0.01
    assert not share.is_used_up


async def test_who_never_lets_us_catch_up_is_barred_for_a_while() -> None:
    loop = Loop()
    share = loop.share(patience=5.0)
    await played(loop.do(0.001), loop.flood(share), turns=20_000)
    assert share.is_barred
    loop.now += BARRED_FOR
    assert not share.is_barred


async def test_long_after_it_was_quiet_one_burst_is_no_reason() -> None:
    loop = Loop()
    share = loop.share(patience=5.0)
    loop.now += 3600
    for _ in range(100):
        if loop.work(share, SLICE):
            await share.pause()
    assert not share.is_barred


@pytest.mark.parametrize("part", [0.1, 0.2], ids=["a tenth", "a fifth"])
async def test_what_a_worker_says_of_our_own_jobs_is_no_reason_while_others_have_something_to_do(part: float) -> None:
    loop = Loop()
    share = loop.share(patience=5.0)
    await played(loop.do(0.001), loop.trickle(share, SLICE, part), turns=30_000)
    assert loop.now > 10
    assert share.seconds >= 0.8 * part * loop.now
    assert not share.is_barred


@given(st.lists(st.floats(0, 0.5), max_size=60), st.floats(0.001, 1))
def test_the_debt_is_paid_within_a_time_that_does_not_depend_on_what_was_taken(
    works: Sequence[float], part: float
) -> None:
    loop = Loop()
    share = loop.share(part=part)
    for seconds in works:
        loop.work(share, seconds)
    loop.now += BURST / part * 1.001
    assert not share.is_used_up
    assert share.seconds == pytest.approx(sum(works))


async def test_work_on_lists_and_lines_is_paid_for_and_waits_for_its_turn() -> None:
    class Counted(LoopShare):
        """A share of which each piece of work is a slice."""

        spent = pauses = 0

        def spend(self, began: float) -> bool:
            self.spent += began > 0
            return True

        async def pause(self) -> None:
            self.pauses += 1
            await anyio.lowlevel.checkpoint()

    share = Counted()
    lines = streams(*(event("MODIFIED", job("a", version=n)) for n in range(11, 21)), then="silence")
    async with running(LISTED, lines, share=share) as run:
        await run.until(lambda: run.sink.versions.get("a") == 20)
    assert share.spent == share.pauses == 10 + 1, "ten lines, and the one step in which the sink takes in a list"
