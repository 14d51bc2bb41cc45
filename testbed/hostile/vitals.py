"""How the tried process is: its memory, its turns of the event loop, and what it logged."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp

from testbed.process import Process

__all__ = ["Vitals"]

LONGEST_TURN = re.compile(r"^multikueue_event_loop_longest_turn_seconds(?:\{[^}]*\})? (\S+)$", re.MULTILINE)

MORE = 1.25
"""What is told: by so much more than ever before."""


class Vitals:
    """Of one process, over its lives: what it was at most is kept when it ends and is started again."""

    def __init__(self, process: Process, url: str) -> None:
        self._process = process
        self._url = url
        self._offset = 0
        self.peak_mebibytes = 0.0
        self.longest_turn: float | None = None
        """Seconds; None as long as the process does not say."""

    def mark(self) -> None:
        """A new turn begins: `log` answers what comes from here on."""
        self._offset = self._process.log.stat().st_size

    def log(self) -> list[str]:
        with self._process.log.open(errors="replace") as log:
            log.seek(self._offset)
            return log.read().splitlines()

    async def take(self) -> list[str]:
        """Look at memory and turns, and tell what is far more than ever before. A process that has ended leaves what was
        seen before."""
        memory, turn = self.peak_mebibytes, self.longest_turn or 0.0
        if self._process.running:
            self.peak_mebibytes = max(self.peak_mebibytes, self._peak())
            await self.answers(timeout=5)
        news = []
        if self.peak_mebibytes > MORE * memory:
            news.append(f"peak memory is now {self.peak_mebibytes:.0f} MiB")
        if (self.longest_turn or 0.0) > MORE * turn:
            news.append(f"the longest turn is now {(self.longest_turn or 0.0) * 1000:.0f} ms")
        return news

    async def answers(self, *, timeout: float) -> bool:
        """Whether /metrics answers in time; what it says of the longest turn is noted."""
        try:
            patience = aiohttp.ClientTimeout(total=timeout)
            async with aiohttp.ClientSession(timeout=patience) as session, session.get(self._url) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            return False
        if found := LONGEST_TURN.search(text):
            self.longest_turn = max(self.longest_turn or 0.0, float(found[1]))
        return True

    def _peak(self) -> float:
        """The most memory that was ever resident (Linux only)."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024
