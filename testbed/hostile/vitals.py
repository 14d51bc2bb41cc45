"""The state of the process under test: its memory, its turns of the event loop, and its log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from testbed.process import Process

__all__ = ["NOTHING", "Taken", "Vitals", "in_buckets"]

LONGEST_TURN = re.compile(r"^multikueue_event_loop_longest_turn_own_seconds(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
TURNS = re.compile(r'^multikueue_event_loop_turn_seconds_bucket\{.*?le="([^"]+)".*?\} (\S+)$', re.MULTILINE)
RESET_PEAK = "5"
"""Written to /proc/PID/clear_refs: VmHWM is then the peak since this write."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Figures of a period: peak resident memory, and an upper bound of the longest turn in seconds of wall time (a bound
    of the histogram). 0 where unknown."""

    mebibytes: float
    turn: float


NOTHING = Taken(0.0, 0.0)


class Vitals:
    """Figures of one process; its peaks are kept over restarts."""

    def __init__(self, process: Process, url: str) -> None:
        self._process = process
        self._url = url
        self._offset = 0
        self.peak_mebibytes = 0.0
        self.longest_turn: float | None = None
        """Seconds, without those in which other processes had the CPU; None until the process reports it."""
        self._turns: dict[float, float] = {}

    def mark(self) -> None:
        """Begin a turn: `log` returns the lines from here on."""
        self._offset = self._process.log.stat().st_size

    def log(self) -> list[str]:
        with self._process.log.open(errors="replace") as log:
            log.seek(self._offset)
            return log.read().splitlines()

    @property
    def mebibytes(self) -> float:
        """Present resident memory in MiB (Linux only); 0 for a process that has ended."""
        return self._memory("VmRSS:") if self._process.running else 0.0

    async def take(self) -> Taken:
        """Memory and turns since the last call; NOTHING for a process that has ended."""
        if not self._process.running:
            return NOTHING
        memory = self._peak()
        self.peak_mebibytes = max(self.peak_mebibytes, memory)
        before = self._turns
        await self.answers(timeout=5)
        return Taken(
            memory, max((bound for bound in self._turns if self._turns[bound] > before.get(bound, 0)), default=0.0)
        )

    async def answers(self, *, timeout: float) -> bool:
        """Whether /metrics answers in time; its histogram of turns is noted."""
        try:
            patience = aiohttp.ClientTimeout(total=timeout)
            async with aiohttp.ClientSession(timeout=patience) as session, session.get(self._url) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            return False
        if found := LONGEST_TURN.search(text):
            self.longest_turn = max(self.longest_turn or 0.0, float(found[1]))
        self._turns = in_buckets(text)
        return True

    def _peak(self) -> float:
        """Peak resident memory in MiB since the last call (Linux only)."""
        peak = self._memory("VmHWM:")
        Path(f"/proc/{self._process.pid}/clear_refs").write_text(RESET_PEAK)
        return peak

    def _memory(self, name: str) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition(name)[2].split()[0]) / 1024


def in_buckets(metrics: str) -> dict[float, float]:
    """Turns per bucket: the bucket's upper bound in seconds to the turns between the previous bound and this one."""
    found, below = {}, 0.0
    for bound, count in TURNS.findall(metrics):
        found[float(bound)], below = float(count) - below, float(count)
    return found
