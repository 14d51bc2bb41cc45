"""The requests to a control plane, read from its audit log between marks."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NewType

from fakekube.front_end.audit import Call, Event, read
from testbed.client import ApiError, Client, eventually

if TYPE_CHECKING:
    from testbed.plane import ControlPlane

__all__ = ["Audit", "Mark"]

Mark = NewType("Mark", int)

PROBE = "testbed-audit-probe"
BLOCK_BYTES = 1 << 16


class Audit:
    """The audit log of one plane, read between marks."""

    def __init__(self, path: Path, plane: ControlPlane) -> None:
        self.path = path
        self._plane = plane

    def mark(self) -> Mark:
        """The end of the last whole line of the log now. Calls answered a moment ago may not be in it yet: see
        `settled`."""
        if not self.path.exists():
            return Mark(0)
        with self.path.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            while end:  # a block may be within one line
                start = max(0, end - BLOCK_BYTES)
                log.seek(start)
                if (found := log.read(end - start).rfind(b"\n")) >= 0:
                    return Mark(start + found + 1)
                end = start
        return Mark(0)

    async def settled(self) -> Mark:
        """A mark after everything that was answered before this call."""
        name = f"{PROBE}-{secrets.token_hex(6)}"
        before = self.mark()
        async with self._plane.client(user_agent=PROBE) as client:
            await _look_for(client, name)
        await eventually(lambda: self._has(name, before), interval=0.005)
        return self.mark()

    def since(self, mark: Mark, until: Mark | None = None) -> Counter[Call]:
        """The number of each call from the mark on."""
        return Counter(event.call for event in self.events(mark, until))

    def events(self, mark: Mark = Mark(0), until: Mark | None = None) -> list[Event]:
        """The calls but our own probes, in the order in which they were answered (watches: begun)."""
        return [event for event in read(self._lines(mark, until)) if event.user_agent != PROBE]

    async def _has(self, name: str, mark: Mark) -> bool:
        return any(name.encode() in line for line in self._lines(mark, None))

    def _lines(self, mark: Mark, until: Mark | None) -> list[bytes]:
        if not self.path.exists():
            return []
        with self.path.open("rb") as log:
            log.seek(mark)
            text = log.read() if until is None else log.read(until - mark)
        # The server may be in the middle of the last line.
        return text[: text.rfind(b"\n") + 1].splitlines()


async def _look_for(client: Client, name: str) -> None:
    try:
        await client.request("GET", f"/api/v1/namespaces/{name}")
    except ApiError as error:
        if error.status != 404:
            raise
