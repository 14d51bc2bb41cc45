"""Carries out the events of a plan in a world, each at its time, and ends them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, singledispatchmethod

from fakekube.model.wire import Request
from fakekube.network.transport import is_write
from multikueue_simulator.simulation.faults.adversary_injector import AdversaryInjector
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector, Undo, attempted
from multikueue_simulator.simulation.faults.partial_injector import PartialInjector
from multikueue_simulator.simulation.plan import plan as plans
from multikueue_simulator.simulation.plan.adversaries import MixUp
from multikueue_simulator.simulation.plan.partial import Partial, TakenOver
from multikueue_simulator.simulation.plan.plan import Adversity, Event, JobPlan, Plan
from multikueue_simulator.time import the_loop
from multikueue_simulator.world.processes import ManagerProcess
from multikueue_simulator.world.world import World

__all__ = ["Stage", "Tell"]

Tell = Callable[[str], None]
"""Receives all events in words."""

RESTART = 1.0
"""Seconds until a manager that ended by itself is restarted."""


@dataclass(slots=True)
class _Armed:
    """An event that waits for a write."""

    event: Event
    left: int


@dataclass(slots=True)
class Stage:
    """Owner of the schedule and of the managers' processes, which it restarts after their end."""

    world: World
    plan: Plan
    injector: FaultInjector
    adversary_injector: AdversaryInjector
    partial_injector: PartialInjector
    describe: Tell
    _armed: list[_Armed] = field(default_factory=list)
    _undo: dict[int, tuple[Event, Undo]] = field(default_factory=dict)
    _number: int = 0
    _down: dict[str, float] = field(default_factory=dict)
    _frozen: dict[str, float] = field(default_factory=dict)
    _healed: bool = False

    def begin(self) -> None:
        """Start the managers, and schedule all jobs and events."""
        for replica in self.plan.replicas:
            self._revive(replica.name)
        for job in self.plan.jobs:
            self._at(job.at, partial(self._submit, job))
            if job.room:
                self._at(job.room_at, partial(self._make_room, job))
        for event in (*self.plan.events, *self.plan.adversaries):
            self._schedule(event)

    def heal(self) -> None:
        """End all faults, and start no more."""
        self._healed = True
        self._armed.clear()
        for number in tuple(self._undo):
            self._over(number)
        for replica in self.plan.replicas:
            self._down.pop(replica.name, None)
            self._revive(replica.name)

    def thaw(self) -> None:
        """Continue all frozen managers, which otherwise could not even end."""
        for replica in tuple(self._frozen):
            self._go_on(replica)

    def _submit(self, job: JobPlan) -> None:
        self.describe(job.describe())
        self.injector.submit(job)

    def _make_room(self, job: JobPlan) -> None:
        self.describe(job.describe_room())
        self.injector.make_room(job)

    def arriving(self, request: Request) -> None:
        """Called before a manager's request is carried out."""
        if is_write(request):
            for armed in self._armed:
                armed.left -= 1
            self._fire(before=True)

    def arrived(self, request: Request) -> None:
        """Called after a manager's request is carried out."""
        if is_write(request):
            self._fire(before=False)

    def ended(self, replica: str) -> None:
        """Called at the end of a manager, for whatever reason. Schedules its restart."""
        back = max(self._down.pop(replica, 0.0), the_loop().time() + RESTART)
        self._at(back, lambda: self._revive(replica))

    def _fire(self, *, before: bool) -> None:
        due = [armed for armed in self._armed if armed.left <= 0 and armed.event.before == before]
        for armed in due:
            self._armed.remove(armed)
            self._happen(armed.event)

    def _schedule(self, event: Event) -> None:
        if isinstance(event, plans.Restore):
            taken = event.at if event.write else max(0.0, event.at - event.age)
            self._at(taken, partial(self.injector.back_up, event))
        self._at(event.at, lambda: self._arm(event) if event.write else self._happen(event))

    def _arm(self, event: Event) -> None:
        if not self._healed:
            self._armed.append(_Armed(event, event.write))

    def _at(self, when: float, what: Callable[[], None]) -> None:
        the_loop().call_at(when, what, context=self.world.network.context)

    def _happen(self, event: Event) -> None:
        if self._healed:
            return
        event = self.injector.placed(event)
        self.describe(event.describe() + (f", for {event.lasts:g} s" if event.lasts else ""))
        undo = attempted(lambda: self._do(event))
        if undo is None:
            return
        self._number += 1
        number = self._number
        self._undo[number] = event, undo
        self._at(the_loop().time() + event.lasts, lambda: self._over(number))

    def _over(self, number: int) -> None:
        event, undo = self._undo.pop(number, (None, None))
        if event is not None and undo is not None:
            self.describe(f"no more: {event.describe()}")
            attempted(undo)

    @singledispatchmethod
    def _do(self, event: Event) -> Undo | None:
        return self.injector.do(event)

    @_do.register
    def _misdeed(self, event: Adversity) -> Undo | None:
        return self.adversary_injector.do(event)

    @_do.register
    def _part_fails(self, event: Partial) -> Undo | None:
        return self.partial_injector.do(event)

    @_do.register
    def _taken_over(self, event: TakenOver) -> None:
        for replica in self.plan.replicas:
            self._kill(replica.name, event.down)
        self.partial_injector.do(event)

    @_do.register
    def _mix_up(self, event: MixUp) -> Undo | None:
        for replica in self.plan.replicas:
            self._kill(replica.name, event.down)
        return self.adversary_injector.do(event)

    @_do.register
    def _crash(self, event: plans.Crash) -> None:
        self._kill(event.replica, event.lasts)

    @_do.register
    def _stop(self, event: plans.Stop) -> None:
        process = self.world.managers[event.replica]
        if process.is_running:
            self._down[event.replica] = the_loop().time() + event.lasts
            process.stop()

    @_do.register
    def _freeze(self, event: plans.Freeze) -> Undo | None:
        process = self.world.managers[event.replica]
        if not process.is_running or event.replica in self._frozen:
            return None
        self._frozen[event.replica] = the_loop().time()
        the_loop().stop_process(event.replica)
        return lambda: self._thaw(process)

    def _thaw(self, process: ManagerProcess) -> None:
        """The first act of a manager after SIGCONT: it ends if it was frozen for longer than its mandate."""
        if process.name not in self._frozen:
            return
        if process.mandate is not None and process.mandate.has_lapsed():
            self._kill(process.name, 0.0)
        else:
            self._go_on(process.name)

    def _go_on(self, replica: str) -> None:
        if replica in self._frozen:
            slept, self.injector.woken = self._frozen.pop(replica), the_loop().time()
            naps = self.injector.faults.naps.setdefault(replica, [])
            naps.append((slept, self.injector.woken))
            if len(self.plan.replicas) == 1:
                self.injector.faults.sleeps.append((slept, self.injector.woken))
        the_loop().continue_process(replica)

    def _kill(self, replica: str, downtime: float) -> None:
        process = self.world.managers[replica]
        if process.is_running:
            self._down[replica] = the_loop().time() + downtime
            process.kill()
        self._go_on(replica)

    def _revive(self, replica: str) -> None:
        process = self.world.managers[replica]
        if not process.is_running and replica not in self._down:
            self.describe(f"{replica} starts")
            process.begin(self.injector.tasks)
