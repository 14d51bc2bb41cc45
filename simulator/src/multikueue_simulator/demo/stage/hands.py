"""What a viewer's keys do: steps in the world, and questions to our own command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from multikueue import registry
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.strategies import STRATEGY_ANNOTATION
from multikueue_simulator.demo.screen.picture import Hand
from multikueue_simulator.demo.scripts.values import Die, Hang, KillManager, Recover, Return, Step
from multikueue_simulator.demo.stage.stage import Stage
from multikueue_simulator.world import objects

__all__ = ["BUTTONS", "CLUSTER_BUTTONS", "Hands"]

BURST = 20
"""Jobs of a burst that the viewer wants."""

STRATEGIES = ("all-at-once", "incremental")
"""Strategies that need nothing else, which `s` goes round."""

BUTTONS = {"burst": f"Submit {BURST} jobs", "manager": "Kill the manager", "strategy": "Next strategy"}
"""What pages have of the keys, titles by name. What `why` and logs say they show anyway."""

CLUSTER_BUTTONS = {"kill": "Kill", "return": "Bring back", "hang": "Cut network", "recover": "Repair network"}
"""The same for one worker. What a worker is already no button does again."""

_WORDS = {
    Die: "you kill",
    Hang: "you let hang the network to",
    Return: "you bring back",
    Recover: "you repair the network to",
}

_STEPS: Mapping[str, Step] = {"kill": Die(), "return": Return(), "hang": Hang(""), "recover": Recover("")}


@dataclass(slots=True)
class Hands:
    """Keys and buttons to steps. `hand` is what the viewer has chosen; `is_done` once they have seen enough."""

    stage: Stage
    kubeconfig: Path | None = None
    hand: Hand = field(default_factory=Hand)
    is_done: bool = False
    strategy: str = ""

    def __post_init__(self) -> None:
        self.strategy = self.strategy or self.stage.options.strategy
        self.hand = Hand(worker=[*self.stage.world.workers][-1])

    async def press(self, key: str) -> None:
        """Do what a key stands for; others do nothing."""
        self.stage.keep_on()
        match key:
            case "k":
                await self._toggle(Die(), Return(), self.hand.worker in self.stage.director.dead)
            case "h":
                await self._toggle(Hang(""), Recover(""), self.hand.worker in self.stage.director.hanging)
            case "m":
                await self._do(KillManager(), "you kill the manager; it starts again in 2 s")
            case "b":
                await self.stage.burst(BURST)
            case "s":
                self._next_strategy()
            case "up" | "down":
                self.hand = replace(self.hand, job=self._neighbour(-1 if key == "up" else 1), asked="", answer="")
            case "w" | "enter":
                await self._ask("why", self._chosen())
            case "l":
                await self._ask("logs", self._chosen(), "--tail", "8")
            case "escape":
                self.hand = replace(self.hand, asked="", answer="")
            case "q":
                self.is_done = True
            case _ if key.isdigit():
                self._choose(int(key))

    async def push(self, button: str, worker: str) -> None:
        """Do what a button of a page stands for, to the worker if it is about one; others do nothing."""
        if worker in self.stage.world.workers and button in CLUSTER_BUTTONS:
            self.hand = replace(self.hand, worker=worker)
            self.stage.keep_on()
            await self._do(_STEPS[button])
        elif button in BUTTONS:
            await self.press({"burst": "b", "manager": "m", "strategy": "s"}[button])

    async def _toggle(self, step: Step, undo: Step, is_done: bool) -> None:
        await self._do(undo if is_done else step)

    async def _do(self, step: Step, text: str = "") -> None:
        text = text or f"{_WORDS[type(step)]} {self.hand.worker}"
        self.stage.board.announce(self.stage.at, text)
        await self.stage.director.perform(step, self.hand.worker)

    def _choose(self, number: int) -> None:
        workers = [*self.stage.world.workers]
        if 1 <= number <= len(workers):
            self.hand = replace(self.hand, worker=workers[number - 1])

    def _next_strategy(self) -> None:
        """Let the AdmissionCheck name the next strategy, as an administrator would while the manager runs."""
        known = [name for name in STRATEGIES if name in registry.names()]
        self.strategy = known[(known.index(self.strategy) + 1) % len(known)] if self.strategy in known else known[0]
        annotations = {"metadata": {"annotations": {STRATEGY_ANNOTATION: self.strategy}}}
        self.stage.world.manager.patch(kinds.ADMISSION_CHECKS, ObjectKey("", objects.CHECK), annotations)
        self.stage.board.announce(self.stage.at, f"from now on workers are chosen by the strategy {self.strategy}")

    def _unfinished(self) -> Sequence[str]:
        courses = self.stage.board.courses
        return [name for name, course in courses.items() if course.finished is None] or [*courses][-1:]

    def _chosen(self) -> str:
        """The chosen job; without a choice the hero, or the one that has waited the longest."""
        hero, found = self.stage.play.script.hero, self._unfinished()
        self.hand = replace(self.hand, job=self.hand.job or (hero if hero in found else next(iter(found), "")))
        return self.hand.job

    def _neighbour(self, step: int) -> str:
        found = self._unfinished()
        if not found:
            return ""
        if self.hand.job not in found:
            return found[0]
        return found[(found.index(self.hand.job) + step) % len(found)]

    async def _ask(self, command: str, job: str, *options: str) -> None:
        """Ask our own command line, and show what it says."""
        if not job or self.kubeconfig is None:
            return
        words = [command, job, *options]
        self.hand = replace(self.hand, asked=" ".join(["multikueue", *words]), answer="...")
        done = await anyio.run_process(
            [sys.executable, "-m", "multikueue", *words, "--kubeconfig", str(self.kubeconfig)],
            check=False,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
        )
        self.hand = replace(self.hand, answer=done.stdout.decode(errors="replace"))
