"""A play under way: its clock, its jobs and its acts, and the board that observes them. On real or on virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from fakekube.model.storage import Change
from fakekube.model.wire import Refused
from multikueue.api import kinds
from multikueue_simulator.demo.board.board import Board
from multikueue_simulator.demo.scripts.story import burst
from multikueue_simulator.demo.scripts.values import Play, ScriptedEvent, Submission
from multikueue_simulator.demo.stage.director import Director
from multikueue_simulator.demo.stage.options import Options
from multikueue_simulator.demo.stage.scene import body_of
from multikueue_simulator.world.world import NAMESPACE, World

__all__ = ["PATIENCE", "Stage", "board_of"]

PATIENCE = 60.0
"""Seconds from the last job, or the last key, until the demo gives up."""

AGAIN = 0.2
"""Seconds until a user submits again what the webhook of a manager that is down did not take."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """The world, the play, and the board that observes it. `webhook`: the manager has one, so that jobs need only their
    queue."""

    options: Options
    play: Play
    world: World
    board: Board
    director: Director
    webhook: bool = True
    began: float = 0.0
    extra: int = 0
    """Jobs that the viewer submitted."""
    _wanted_until: float = 0.0

    @property
    def at(self) -> float:
        """Seconds of the script since the start."""
        return (anyio.current_time() - self.began) * self.options.speed

    @property
    def jobs(self) -> int:
        return len(self.play.script.submissions) + self.extra

    @property
    def is_over(self) -> bool:
        """Whether all jobs have finished, and nothing of the script is left."""
        acts = self.play.script.acts
        return self.board.is_over(self.jobs) and not (self.options.act and acts and self.at < acts[-1].at)

    @property
    def deadline(self) -> float:
        submissions = self.play.script.submissions
        last = submissions[-1].at if submissions else 0.0
        return max(last, self._wanted_until) + PATIENCE * self.options.speed

    async def until(self, at: float) -> None:
        await anyio.sleep(max(0.0, (at - self.at) / self.options.speed))

    def attend(self) -> None:
        """Report all changes to the board."""
        for site in self.world.sites:
            site.cluster.storage.subscribe(self._spectator(site.name))

    def _spectator(self, name: str) -> Callable[[Change], None]:
        def see(change: Change) -> None:
            self.board.see(name, change.type, change.version.object, self.at)

        return see

    async def submit_all(self) -> None:
        for submission in self.play.script.submissions:
            await self.until(submission.at)
            await self.submit(submission)

    async def submit(self, job: Submission) -> None:
        """Submit a job as any user would, and again if it is not taken: the manager may be down."""
        body = body_of(job, speed=self.options.speed, managed=not self.webhook)
        while True:
            try:
                await self.world.manager.ask("POST", kinds.JOBS.collection(NAMESPACE), body)
            except Refused as refused:
                if refused.code < 500:
                    raise
                await anyio.sleep(AGAIN)
            else:
                return

    async def act_all(self) -> None:
        for act in self.play.script.acts:
            await self.until(act.at)
            await self._act(act)

    async def _act(self, act: ScriptedEvent) -> None:
        worker = self.director.worker_of(act.step, self.play.script.hero) if act.step is not None else ""
        self.board.announce(self.at, act.text.format(worker=worker))
        if act.hint:
            self.board.note(self.at, f"try: {act.hint}", "cyan")
        if act.step is not None:
            await self.director.perform(act.step, worker)

    async def burst(self, count: int) -> None:
        """Submit jobs at once, as the viewer wants."""
        first = self.jobs + 1
        self.extra += count
        self.board.announce(self.at, f"a burst: {count} jobs at once")
        for job in burst(count, at=self.at, seed=self.options.seed, first=first):
            await self.submit(job)

    def keep_on(self) -> None:
        """The viewer has done something: give what follows its time."""
        self._wanted_until = self.at


def board_of(play: Play) -> Board:
    """The board before anything has happened."""
    layout = play.layout
    return Board([queue.name for queue in layout.queues], {share.name: share.cpu for share in layout.workers})
