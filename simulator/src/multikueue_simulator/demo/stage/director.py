"""Carries out the steps of a play, whether the script or a viewer wants them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import singledispatchmethod

import anyio
from anyio.abc import TaskGroup

from fakekube.network.link import State
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue_simulator.demo.board.board import Board
from multikueue_simulator.demo.scripts.values import (
    Decide,
    Die,
    Fill,
    Hang,
    KillManager,
    Recover,
    Return,
    Scale,
    Step,
)
from multikueue_simulator.demo.stage.scene import decide
from multikueue_simulator.demo.stage.served import Served
from multikueue_simulator.world import objects
from multikueue_simulator.world.processes import ManagerProcess
from multikueue_simulator.world.world import NAMESPACE, World

__all__ = ["Director"]


@dataclass(slots=True, kw_only=True)
class Director:
    """Performs steps in a world. `dead` are the workers that died and are not back."""

    world: World
    board: Board
    manager: ManagerProcess
    tasks: TaskGroup
    speed: float
    served: Served | None = None
    dead: list[str] = field(default_factory=list)
    hanging: set[str] = field(default_factory=set)
    is_manager_down: bool = False

    def worker_of(self, step: Step, hero: str) -> str:
        """The worker that a step is about, empty if it is about none."""
        match step:
            case Die(""):
                course = self.board.courses.get(hero)
                return (course.winner if course else "") or [*self.world.workers][-1]
            case Return(""):
                return self.dead[0] if self.dead else ""
            case Die(worker) | Return(worker) | Hang(worker) | Recover(worker) | Fill(worker):
                return worker
        return ""

    async def perform(self, step: Step, worker: str) -> None:
        """Do it; `worker` is that of `worker_of`."""
        await self._do(step, worker)

    @singledispatchmethod
    async def _do(self, step: Step, worker: str) -> None:
        raise NotImplementedError(step, worker)

    @_do.register
    async def _die(self, _deed: Die, worker: str) -> None:
        if worker in self.dead:
            return
        self.dead.append(worker)
        self._link(worker, State.REFUSE)
        self.world.workers[worker].kueue.kill()
        self.world.workers[worker].runner.kill()
        if self.served is not None:
            self.tasks.start_soon(self.served.close, worker)  # its readers have a second to leave

    @_do.register
    async def _return(self, _deed: Return, worker: str) -> None:
        if worker not in self.dead:
            return
        self.dead.remove(worker)
        self._link(worker, State.HANG if worker in self.hanging else State.UP)
        self.world.workers[worker].kueue.begin(self.tasks)
        self.world.workers[worker].runner.begin(self.tasks)
        if self.served is not None:
            await self.served.open(worker)

    @_do.register
    async def _hang(self, _deed: Hang, worker: str) -> None:
        self.hanging.add(worker)
        if worker not in self.dead:
            self._link(worker, State.HANG)

    @_do.register
    async def _recover(self, _deed: Recover, worker: str) -> None:
        self.hanging.discard(worker)
        if worker not in self.dead:
            self._link(worker, State.UP)

    @_do.register
    async def _fill(self, step: Fill, worker: str) -> None:
        """Jobs submitted on the worker itself, which fill it as the demo's own jobs end there."""
        queue, seconds = self.world.layout.queues[0].name, step.seconds / self.speed
        for number in range(math.ceil(self.board.stands[worker].cpu / 2)):
            body = objects.job(f"theirs-{number}", NAMESPACE, queue=queue, cpu=2, seconds=seconds, managed=False)
            self.world.workers[worker].site.create(kinds.JOBS, body)

    @_do.register
    async def _kill_manager(self, step: KillManager, _worker: str) -> None:
        if self.is_manager_down:
            return
        self.is_manager_down = True
        self.manager.kill()
        self.tasks.start_soon(self._start_manager, step.seconds / self.speed)

    async def _start_manager(self, after: float) -> None:
        await anyio.sleep(after)
        started = self.manager.begin(self.tasks)
        self.is_manager_down = False
        await started.wait()

    @_do.register
    async def _scale(self, step: Scale, _worker: str) -> None:
        path, body = kinds.JOBS.path(ObjectKey(NAMESPACE, step.job)), {"spec": {"parallelism": step.pods}}
        await self.world.manager.ask("PATCH", path, body, content_type="application/merge-patch+json")

    @_do.register
    async def _decide(self, step: Decide, _worker: str) -> None:
        decide(self.world, step.workers)

    def _link(self, worker: str, state: State) -> None:
        self.world.network.link(self.manager.name, worker).become(state)
