"""The play as plain lines, for pipes and files: what happens, and now and then how far it is."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from multikueue_simulator.demo.board.board import Board
from multikueue_simulator.demo.screen.picture import story

__all__ = ["Lines"]

PROGRESS = 5.0
"""Seconds between two lines about progress."""


@dataclass(slots=True)
class Lines:
    """Prints the notable moments of a board once; with a `name` in front where there are several."""

    board: Board
    console: Console
    jobs: int
    name: str = ""
    _told: int = 0
    _due: float = 0.0

    def draw(self, at: float) -> None:
        """Print what is new."""
        new = self.board.noted - self._told
        self._told = self.board.noted
        for moment in [*self.board.moments][-new:] if new else ():
            if moment.style:
                self._print(story(moment))
        if at >= self._due:
            self._print(Text(f"{at:6.1f} s  {self.board.finished} of {self.jobs} jobs finished"))
            self._due = at + PROGRESS

    def _print(self, line: Text) -> None:
        self.console.print(Text.assemble(f"{self.name}: ", line) if self.name else line, soft_wrap=True)
