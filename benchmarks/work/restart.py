"""(f) A restart, and a change of the leader, with many workloads pending and running: how soon the next one is dispatched,
beside the time that it takes to list them all, and what is written though nothing has changed.

Jobs are of ten sizes and three priorities. The manager's quota holds as many as are to run, so the next one starts when one
ends: that happens while no manager acts.
Neither the script nor the peer has a part: one keeps nothing, and the other would take hours to have as many running.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

import anyio

from benchmarks.bench import Say, calls_since, marks
from benchmarks.calls import Calls
from benchmarks.driver import Driver
from benchmarks.figures import at_most
from benchmarks.lines import Line, grown, itself, longest_turn
from benchmarks.sides import Ours, Restarted
from benchmarks.timeline import Stage
from benchmarks.wire import Wire
from benchmarks.work.core import Result, Setting
from benchmarks.work.mixed import add_priorities, cpu_of, mixed, reached
from fakekube.front_end.audit import WRITES
from testbed.bed import Testbed

__all__ = ["Found", "Sizes", "lines", "measure", "needless"]

WORKERS = 3
PENDING, RUNNING = {True: 10_000, False: 3_000}, {True: 5_000, False: 100}
MANY = 10_000
"""With fewer workloads, the start of an interpreter takes longer than to list them."""

MOST_SECONDS, MOST_LISTS = 15, 1.2
QUIET_SECONDS = 12
"""Who writes nothing for so long is at rest: jobs that wait are called suspended after ten."""

PATIENCE_SECONDS = 120
CALM_SECONDS = 600
LEADER = {"MULTIKUEUE_LEADER_ELECTION__ENABLED": "true"}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many workloads wait for quota, and how many have it and run."""

    pending: int
    running: int

    @classmethod
    def of(cls, setting: Setting) -> Sizes:
        return cls(setting.pending or PENDING[setting.full], setting.running or RUNNING[setting.full])

    @property
    def all(self) -> int:
        return self.pending + self.running

    def __str__(self) -> str:
        return f"{self.pending:,} pending, {self.running:,} running"


@dataclass(frozen=True, slots=True)
class Found:
    """Seconds to list everything; seconds from a start, a stop and a kill to the next dispatch; milliseconds of the longest
    turn from that start to the dispatch; and writes, by kind, of a manager that came when nothing had changed, by a restart
    and as the next leader."""

    listed: float
    restarted: float
    stopped: float
    killed: float
    turn: float
    rewritten: Mapping[str, float]
    taken_over: Mapping[str, float]


async def measure(setting: Setting) -> Result:
    sizes = Sizes.of(setting)
    async with setting.clusters(setting.workers or WORKERS) as bed:
        found = await _measure(bed, sizes, setting.say)
    return Result(lines(found, sizes))


async def _measure(bed: Testbed, sizes: Sizes, say: Say) -> Found:
    """The clusters are of no use afterwards: to remove so many objects would take longer than to measure."""
    side = Restarted(bed)
    side.quota = {"cpu": f"{cpu_of(sizes.running)}m", "memory": "1000000Gi"}
    async with AsyncExitStack() as stack:
        stack.push_async_callback(side.stop)
        say(f"{side.name}: starting")
        await side.set_up()
        await add_priorities(bed)
        wires = [await stack.enter_async_context(Wire.open(plane)) for plane in bed.planes.values()]
        driver = Driver(wires[0], wires[1:], namespace=side.namespace)
        crowd = Crowd(bed, driver, sizes, say)
        stack.push_async_callback(crowd.end)
        async with driver.watching():
            await crowd.gather()
            listed = await _seconds(driver.list_all)
            rewritten = await crowd.writes_of(side.restart, "a restart")
            restarted = await crowd.dispatch_after_start(side)
            turn = await side.longest_turn()
            await side.stop()
            stopped, killed, taken_over = await _change_leaders(crowd)
    return Found(listed, restarted, stopped, killed, turn, rewritten, taken_over)


async def _change_leaders(crowd: Crowd) -> tuple[float, float, Mapping[str, float]]:
    """Seconds from a stop and from a kill to the next dispatch, and what the next leader wrote for nothing."""
    leader, standby = await crowd.replica("manager.acting"), await crowd.replica("manager.ready")

    async def hand_over() -> None:
        await leader.stop()
        await standby.says("manager.acting")

    await crowd.at_rest()
    taken_over = await crowd.writes_of(hand_over, "a change of the leader")
    leader, standby = standby, await crowd.replica("manager.ready")
    stopped = await crowd.dispatch_after(leader.stop)
    leader, standby = standby, await crowd.replica("manager.ready")
    killed = await crowd.dispatch_after(leader.process.kill)
    return stopped, killed, taken_over


class Replica(Ours):
    """Ours with a lease, and a log of its own."""

    def __init__(self, bed: Testbed, number: int) -> None:
        super().__init__(bed, env=LEADER)
        self.process.log = bed.folder / f"replica-{number}.log"

    async def says(self, event: str) -> None:
        async def said() -> bool:
            return event in self.process.log.read_text(errors="replace")

        await self.process.wait_until(said, timeout=PATIENCE_SECONDS)


@dataclass(slots=True)
class Crowd:
    """The workloads, and the managers that come and go."""

    bed: Testbed
    driver: Driver
    sizes: Sizes
    say: Say
    replicas: list[Replica] = field(default_factory=list)

    async def gather(self) -> None:
        """Until some run, with all of the quota, the others are queued, and all are at rest."""
        self.say(f"gathering {self.sizes}")
        self.driver.hold()
        self.driver.ask_in_turn(mixed())
        names = [f"job-{number:05}" for number in range(self.sizes.all)]
        await self.driver.submit(names[: self.sizes.running])
        for stage in (Stage.CREATED, Stage.STARTED, Stage.RELEASED):
            await reached(self.driver, stage, self.sizes.running)
        self.driver.ask_in_turn(mixed())
        await self.driver.submit(names[self.sizes.running :])
        await reached(self.driver, Stage.QUEUED, self.sizes.all)
        await self.at_rest()

    async def at_rest(self) -> None:
        """Until nobody writes any more."""
        with anyio.fail_after(CALM_SECONDS):
            while await self._writes_of(_nothing):
                self.say("not at rest yet")

    async def replica(self, event: str) -> Replica:
        """A new process, once it has said that."""
        replica = Replica(self.bed, len(self.replicas))
        self.replicas.append(replica)
        await replica.start()
        await replica.says(event)
        return replica

    async def end(self) -> None:
        for replica in self.replicas:
            await replica.stop()

    async def writes_of(self, change: Callable[[], Awaitable[None]], what: str) -> Mapping[str, float]:
        """What is written about nothing new."""
        found = await self._writes_of(change)
        self.say(f"{what}: needless writes: {dict(found) or 'none'}")
        return found

    async def _writes_of(self, change: Callable[[], Awaitable[None]]) -> Mapping[str, float]:
        before = await marks(self.bed)
        await change()
        await anyio.sleep(QUIET_SECONDS)
        return needless(*await calls_since(self.bed, before, 1))

    async def dispatch_after_start(self, side: Ours) -> float:
        """Seconds from a start to the next dispatch. A job ended before it."""
        await side.stop()
        dispatched = self._dispatched()
        await self.driver.end_one()
        return await _seconds(side.start, partial(self._more_than, dispatched))

    async def dispatch_after(self, leave: Callable[[], Awaitable[None]]) -> float:
        """Seconds from the leader's leave to the next dispatch, by another. A job ends at once after it."""
        await self.at_rest()
        return await _seconds(leave, self.driver.end_one, partial(self._more_than, self._dispatched()))

    def _dispatched(self) -> int:
        return self.driver.times.count(Stage.CREATED)

    async def _more_than(self, dispatched: int) -> None:
        """Until the next is dispatched. There may be several: an end makes room for some smaller ones."""
        await reached(self.driver, Stage.CREATED, dispatched + 1)
        self.say(f"{self._dispatched()} dispatched")


def needless(manager: Calls, workers: Calls) -> Mapping[str, float]:
    """The writes by kind, but those of the lease, which is renewed for ever."""
    found = {
        f"{name}, {where}": n
        for where, calls in (("manager", manager), ("workers", workers))
        for name, n in calls.by.items()
    }
    return {name: n for name, n in found.items() if name.split()[0] in WRITES and "leases" not in name}


async def _seconds(*steps: Callable[[], Awaitable[object]]) -> float:
    began = time.monotonic()
    for step in steps:
        await step()
    return time.monotonic() - began


async def _nothing() -> None:
    pass


def lines(found: Found, sizes: Sizes) -> list[Line]:
    most_lists = at_most(MOST_LISTS) if sizes.all >= MANY else None
    restart = f"restart with {sizes}"
    return [
        itself(f"{restart}: to list them with a plain client, s", found.listed),
        itself(f"{restart}: start to next dispatch, s", found.restarted, at_most(MOST_SECONDS)),
        grown(f"{restart}: start to next dispatch, s", "the list", most_lists, unit=found.listed, ours=found.restarted),
        longest_turn(restart, found.turn),
        itself(f"{restart}: needless writes", sum(found.rewritten.values()), at_most(0)),
        itself(f"leader stopped with {sizes}: needless writes of the next", sum(found.taken_over.values()), at_most(0)),
        itself(f"leader stopped with {sizes}: to the next dispatch, s", found.stopped, at_most(MOST_SECONDS)),
        itself(f"leader killed with {sizes}: to the next dispatch, lease of 15 s included, s", found.killed),
    ]
