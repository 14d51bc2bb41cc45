"""The result of each hostile case and of the innocent job beside it, and the faults in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from testbed.hostile.stage import SILENCE
from testbed.hostile.vitals import NOTHING, Taken

__all__ = ["LONGEST_TURN", "Row", "Totals", "as_json", "line"]

TWICE = 2.0
FLOOR_SECONDS = 1.0
"""A shorter control counts as this: below it, times on one machine vary too much."""

LONGEST_TURN = 0.25
MOST_MEMORY = 1.5


@dataclass(frozen=True, slots=True)
class Row:
    """One turn. `control` and `innocent`: seconds until a job ran, without and with the hostile case beside it; None if
    the job did not end. `harm`: damage to others or the manager. `taken`: of the process until the innocent job ended."""

    who: str
    what: str
    became: str
    control: float | None
    innocent: float | None
    harm: Sequence[str] = ()
    taken: Taken = NOTHING

    @property
    def faults(self) -> list[str]:
        """Everything that fails the turn, in words."""
        found = list(self.harm)
        if self.became == SILENCE:
            found.append("it neither ran nor says what is wrong with it")
        if self.innocent is None:
            found.append("the innocent job did not run, or did not end")
        elif self.control is not None and self.innocent > TWICE * max(self.control, FLOOR_SECONDS):
            found.append(f"the innocent job was late: {self.innocent:.1f} s, {self.control:.1f} s without")
        return found


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of the process: resident memory in MiB at rest before the first case, at its peak, and at the end; the
    longest turn of its event loop in seconds, before the first case and at the end (None where it is not measured)."""

    memory_before: float
    peak: float
    memory: float
    turn_before: float | None
    turn: float | None

    @property
    def faults(self) -> list[str]:
        found = []
        if self.peak > MOST_MEMORY * self.memory_before:
            found.append(f"memory grew to {self._of_before(self.peak)}")
        if self.turn is not None and self.turn > self.longest:
            found.append(f"a turn of the event loop took {_ms(self.turn)}")
        return found

    @property
    def longest(self) -> float:
        """Limit of a turn: 250 ms, or on a slower machine twice the longest turn before the first case."""
        return max(LONGEST_TURN, TWICE * (self.turn_before or 0.0))

    def _of_before(self, memory: float) -> str:
        return f"{memory / self.memory_before:.2f} of before"

    def lines(self) -> list[str]:
        memory = f"{self.memory_before:.0f} MiB before"
        memory += f", {self.peak:.0f} MiB at its peak ({self._of_before(self.peak)}; at most {MOST_MEMORY})"
        memory += f", {self.memory:.0f} MiB at the end ({self._of_before(self.memory)})"
        turn = "not measured"
        if self.turn is not None:
            turn = f"{_ms(self.turn)} ({_ms(self.turn_before or 0.0)} before; at most {_ms(self.longest)})"
        return [f"memory: {memory}", f"longest turn of the event loop: {turn}"]


def line(row: Row) -> str:
    """The row as text, with its faults below."""
    taken = f"{row.taken.mebibytes:4.0f} MiB < {_ms(row.taken.turn):7}"
    head = f"{row.who:8}{row.what:58.58}{_seconds(row.control)} {_seconds(row.innocent)} {taken}  {row.became:.160}"
    notes = [f"FAILED  {fault}" for fault in row.faults]
    return "\n".join([head, *(f"{'':8}{note}" for note in notes)])


def as_json(parts: Sequence[tuple[Sequence[Row], Totals]]) -> str:
    """The cases, and the rounds of the crowd, each with their totals."""
    return json.dumps(
        [
            {
                "rows": [asdict(row) | {"faults": row.faults} for row in rows],
                "totals": asdict(totals) | {"faults": totals.faults},
            }
            for rows, totals in parts
        ],
        indent=2,
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _seconds(value: float | None) -> str:
    return "     -" if value is None else f"{value:4.1f} s"
