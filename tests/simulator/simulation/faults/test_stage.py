"""Events happen in their time, or at their write, and are over in theirs; managers that end are started again."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from fakekube.model.wire import Request
from fakekube.network.link import State
from multikueue.settings import InForce
from multikueue_simulator.simulation.faults.adversary_injector import AdversaryInjector
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector
from multikueue_simulator.simulation.faults.partial_injector import Logs, PartialInjector
from multikueue_simulator.simulation.faults.stage import Stage
from multikueue_simulator.simulation.plan.plan import Break, Crash, Cut, DeleteJob, Event, Freeze, JobPlan, Plan, Stop
from multikueue_simulator.simulation.runs.life import settings_of, timings_of
from multikueue_simulator.time import VirtualClock, run
from multikueue_simulator.world.world import World

WRITE, READ = Request(method="POST", path="/api"), Request(method="GET", path="/api")


class Play:
    """A stage with what it told, each with its time rounded to a tenth of a second."""

    def __init__(self, world: World, stage: Stage, told: list[tuple[float, str]]) -> None:
        self.world, self.stage, self.told = world, stage, told

    def write(self) -> None:
        self.stage.arriving(WRITE)
        self.stage.arrived(WRITE)

    def state(self, host: str = "worker1") -> State:
        return self.world.network.link("manager-0", host).state

    @property
    def manager(self) -> Any:
        return self.world.managers["manager-0"]


def played(
    *events: Event, jobs: tuple[JobPlan, ...] = (), elected: bool = False
) -> Callable[[Callable[[Play], Coroutine[Any, Any, None]]], None]:
    plan = Plan(seed=1, events=events, jobs=jobs, elected=elected)

    def play(test: Callable[[Play], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with anyio.create_task_group() as tasks:
                told: list[tuple[float, str]] = []
                world = World(plan.layout, clock=VirtualClock(), seed=1)
                world.apply_fixtures()
                injector = FaultInjector(world, plan, tasks)
                adversary_injector = AdversaryInjector(world, injector, broken=lambda _invariant, _text: None)
                stage = Stage(
                    world,
                    plan,
                    injector,
                    adversary_injector,
                    PartialInjector(world, injector, Logs()),
                    lambda text: told.append((round(anyio.current_time(), 1), text)),
                )
                world.add_manager(
                    "manager-0", InForce(settings_of(plan, plan.replicas[0]), timings_of(plan)), ended=stage.ended
                )
                stage.begin()
                await test(Play(world, stage, told))
                tasks.cancel_scope.cancel()

        run(main)

    return play


def test_an_event_begins_and_ends_in_its_time() -> None:
    @played(Break(at=2.0, lasts=3.0, host="worker1", state=State.HANG))
    async def _(play: Play) -> None:
        states = []
        for _second in range(7):
            states.append(play.state())
            await anyio.sleep(1)
        assert states.count(State.HANG) == 3
        assert (states[0], states[-1]) == (State.UP, State.UP)
        assert [text for _, text in play.told[1:]] == [
            "the link from manager-0 to worker1 is in state hang, for 3 s",
            "no more: the link from manager-0 to worker1 is in state hang",
        ]


@pytest.mark.parametrize("before", [True, False], ids=["before it", "after it"])
def test_an_event_happens_at_a_write(before: bool) -> None:
    @played(Break(at=1.0, write=2, before=before, lasts=3.0, host="worker1", state=State.RESET))
    async def _(play: Play) -> None:
        play.write()
        await anyio.sleep(2)
        play.stage.arriving(READ)
        play.stage.arrived(READ)
        play.write()
        assert play.state() is State.UP, "reads do not count, and neither do writes before its time"
        play.stage.arriving(WRITE)
        assert (play.state() is State.RESET) is before
        play.stage.arrived(WRITE)
        assert play.state() is State.RESET
        await anyio.sleep(4)
        assert play.state() is State.UP


def test_a_crash_ends_a_manager_for_its_time() -> None:
    @played(Crash(at=5.0, lasts=4.0))
    async def _(play: Play) -> None:
        await anyio.sleep(6)
        assert not play.manager.is_running
        await anyio.sleep(4)
        assert play.manager.is_running
        assert [at for at, text in play.told if text == "manager-0 starts"] == [0.0, 9.0]


def test_a_manager_that_ends_by_itself_is_started_again() -> None:
    @played(Stop(at=5.0, lasts=0.0))
    async def _(play: Play) -> None:
        await anyio.sleep(10)
        assert play.manager.is_running
        assert play.manager.runs == 2


@pytest.mark.parametrize(
    ("elected", "lasts", "runs"),
    [(False, 60.0, 1), (True, 1.0, 1), (True, 60.0, 2)],
    ids=["alone", "a nap", "too long"],
)
def test_a_frozen_manager_goes_on_unless_its_mandate_has_lapsed(elected: bool, lasts: float, runs: int) -> None:
    @played(Freeze(at=20.0, lasts=lasts), elected=elected)
    async def _(play: Play) -> None:
        await anyio.sleep(25 + lasts)
        assert play.manager.is_running
        assert play.manager.runs == runs
        assert play.stage.injector.woken == 20.0 + lasts
        assert play.stage.injector.faults.sleeps == [(20.0, 20.0 + lasts)]


def test_a_frozen_manager_that_dies_is_gone_and_comes_back() -> None:
    @played(Freeze(at=5.0, lasts=50.0), Crash(at=6.0, lasts=2.0))
    async def _(play: Play) -> None:
        await anyio.sleep(20)
        assert (play.manager.is_running, play.manager.runs) == (True, 2)


def test_healing_ends_what_lasts_and_nothing_goes_wrong_any_more() -> None:
    late = Break(at=8.0, lasts=5.0, host="worker2", state=State.RESET)
    at_a_write = Break(at=1.0, write=9, lasts=5.0, host="worker3", state=State.RESET)

    @played(Break(at=2.0, lasts=50.0, host="worker1", state=State.HANG), Crash(at=3.0, lasts=90.0), late, at_a_write)
    async def _(play: Play) -> None:
        await anyio.sleep(5)
        play.stage.heal()
        assert play.state() is State.UP
        assert play.manager.is_running
        for _write in range(10):
            play.write()
        await anyio.sleep(10)
        assert [play.state(host) for host in ("worker2", "worker3")] == [State.UP, State.UP]


def test_jobs_are_submitted_in_their_time_and_what_is_refused_is_told_all_the_same() -> None:
    @played(Cut(at=1.0, host="worker1"), DeleteJob(at=1.5, job="late"), jobs=(JobPlan(name="late", at=2.0),))
    async def _(play: Play) -> None:
        await anyio.sleep(1.8)
        assert play.told[-1][1] == "a user deletes job late"
        await anyio.sleep(1)
        assert play.told[-1] == (2.0, "a user submits job late to queue main: 1 pods of 1 CPU for 1 s")
