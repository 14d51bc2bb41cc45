"""A numbered feed of rows: whoever reads it resumes after the last number that it has seen.

It holds the newest state of each row and no history, so a reader that is slow, or was away, costs no memory: it gets what has
changed since, each row once. What is gone is remembered for the last `MOST_GONE` rows; whoever is behind these starts over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from multikueue_console.model.workloads import WorkloadRow

__all__ = ["MOST_GONE", "Feed", "News"]

MOST_GONE = 20_000


@dataclass(frozen=True, slots=True)
class News:
    """What a reader gets: rows that are new or have changed, the UIDs and namespaces of those that are gone, and the number to
    ask with next time. `is_whole`: these are all rows, and what the reader has is void."""

    rows: list[WorkloadRow]
    gone: list[tuple[str, str]]
    number: int
    is_whole: bool = False


class Feed:
    """The rows by UID, those that changed last at the end."""

    def __init__(self) -> None:
        self.number = 0
        self._rows: dict[str, tuple[int, WorkloadRow]] = {}
        self._gone: dict[str, tuple[int, str]] = {}
        self._floor = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[WorkloadRow]:
        return (row for _, row in self._rows.values())

    def get(self, uid: str) -> WorkloadRow | None:
        found = self._rows.get(uid)
        return found[1] if found is not None else None

    def put(self, row: WorkloadRow) -> WorkloadRow | None:
        """Takes a row in, unless nothing in it has changed. Returns the one before; the same one if nothing has changed."""
        before = self._rows.pop(row.uid, None)
        if before is not None and before[1] == row:
            self._rows[row.uid] = before
            return row
        self._gone.pop(row.uid, None)
        self.number += 1
        self._rows[row.uid] = (self.number, row)
        return before[1] if before is not None else None

    def drop(self, uid: str) -> WorkloadRow | None:
        """Takes a row out; returns it, if there was one."""
        found = self._rows.pop(uid, None)
        if found is None:
            return None
        self.number += 1
        self._gone[uid] = (self.number, found[1].namespace)
        if len(self._gone) > MOST_GONE:
            oldest = next(iter(self._gone))
            self._floor, _ = self._gone.pop(oldest)
        return found[1]

    def since(self, number: int) -> News:
        """The news after that number; all rows after 0, and after a number that is too old or was never given."""
        if not self._floor <= number <= self.number or number == 0:
            return News([row for _, row in self._rows.values()], [], self.number, is_whole=True)
        rows = [row for _, row in takewhile(lambda each: each[0] > number, reversed(self._rows.values()))]
        newest = takewhile(lambda item: item[1][0] > number, reversed(self._gone.items()))
        return News(rows, [(uid, namespace) for uid, (_, namespace) in newest], self.number)
