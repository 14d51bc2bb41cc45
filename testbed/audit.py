"""The requests to a control plane: its audit log, counted.

A watch counts once, when it begins. Any other request counts when it is answered.
"""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NewType

from testbed.client import ApiError, Client, eventually

if TYPE_CHECKING:
    from testbed.plane import ControlPlane

__all__ = ["Audit", "Call", "Event", "Mark", "count"]

Mark = NewType("Mark", int)

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
PROBE = "testbed-audit-probe"
BLOCK_BYTES = 1 << 16


class Call(NamedTuple):
    """The key by which calls are counted; `agent` is the user agent up to the first slash."""

    user: str
    agent: str
    verb: str
    resource: str

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES

    @property
    def is_watch(self) -> bool:
        return self.verb == "watch"


@dataclass(frozen=True, slots=True)
class Event:
    """One call, as the API server saw it. `resource` includes the subresource: `jobs/status`."""

    user: str
    user_agent: str
    verb: str
    resource: str
    group: str
    namespace: str
    name: str
    code: int
    received: str

    @property
    def call(self) -> Call:
        return Call(self.user, self.user_agent.partition("/")[0], self.verb, self.resource)


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
        return count(self.events(mark, until))

    def events(self, mark: Mark = Mark(0), until: Mark | None = None) -> list[Event]:
        """The calls in the order in which they were answered (watches: begun)."""
        return list(_parse(self._lines(mark, until)))

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


def count(events: Iterable[Event]) -> Counter[Call]:
    """Count events by user, agent, verb and resource."""
    return Counter(event.call for event in events)


def _parse(lines: Iterable[bytes]) -> Iterator[Event]:
    for line in lines:
        entry = json.loads(line)
        if _counts(entry):
            yield _event(entry)


def _counts(entry: dict[str, Any]) -> bool:
    if "objectRef" not in entry or entry.get("userAgent") == PROBE:
        return False
    # A watch has two entries, when it begins and when it ends; all else has one, its answer.
    return bool((entry["stage"] == "ResponseStarted") == (entry["verb"] == "watch"))


def _event(entry: dict[str, Any]) -> Event:
    target = entry["objectRef"]
    parts = (target.get("resource", ""), target.get("subresource"))
    return Event(
        user=entry["user"].get("username", ""),
        user_agent=entry.get("userAgent", ""),
        verb=entry["verb"],
        resource="/".join(part for part in parts if part),
        group=target.get("apiGroup", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=entry.get("responseStatus", {}).get("code", 0),
        received=entry.get("requestReceivedTimestamp", ""),
    )


async def _look_for(client: Client, name: str) -> None:
    try:
        await client.request("GET", f"/api/v1/namespaces/{name}")
    except ApiError as error:
        if error.status != 404:
            raise
