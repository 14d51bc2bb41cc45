"""The stream of one page: what a person may see of the fleet and of the rows, as server-sent events.

Events are `hello`, `fleet` (the whole picture, which is small), `reset`, `rows` (arrays, as `WorkloadRow` has its fields),
`gone` (UIDs), `whole` (the end of a beginning), `calm` (nothing new for a while; says what is out of reach) and `bye`. A reader
holds a number and no buffer: who reads slowly gets less often what is then newest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from multikueue_console.model.workloads import WorkloadRow
from multikueue_console.watch.fleet_watch import FleetWatch
from multikueue_console.web.rights import Visible

__all__ = ["Pictures", "event", "events_for"]

PAUSE = 0.15
"""Seconds between two looks for news."""

CALM = 15.0
"""Seconds without news after which a stream says that it lives."""

PIECE = 400
"""Rows in one event: about 100 KiB, which each reader holds until it has taken them."""

FIELDS = WorkloadRow.__struct_fields__

_encode = msgspec.json.Encoder().encode


def event(name: str, data: Any, *, number: str = "") -> bytes:
    """One server-sent event; `data` becomes JSON, which has no line breaks."""
    head = f"id: {number}\n" if number else ""
    return f"{head}event: {name}\ndata: ".encode() + (data if isinstance(data, bytes) else _encode(data)) + b"\n\n"


class Pictures:
    """Pictures of the fleet as JSON, computed once for all who may see the same."""

    def __init__(self, watch: FleetWatch) -> None:
        self._watch = watch
        self._made: dict[Visible, tuple[int, bytes]] = {}

    def of(self, visible: Visible) -> bytes:
        known = self._made.get(visible)
        if known is not None and known[0] == self._watch.version:
            return known[1]
        picture = _encode(self._watch.picture(visible.namespaces, visible.shared))
        if len(self._made) > 100:
            self._made.clear()
        self._made[visible] = (self._watch.version, picture)
        return picture


async def events_for(
    watch: FleetWatch,
    pictures: Pictures,
    visible: Callable[[], Awaitable[Visible | None]],
    hello: dict[str, Any],
    last: str = "",
) -> AsyncIterator[bytes]:
    """The events for one reader, from the one numbered `last` on if that can be. `visible` is asked again all the time: once it
    says None the stream ends, and once it says something else the reader starts over."""
    may: Visible | None = None
    number, shown, calm_since = 0, b"", anyio.current_time()
    yield event("hello", {**hello, "fields": FIELDS})
    while True:
        found = await visible()
        if found is None:
            yield event("bye", {})
            return
        if found != may:
            number = _resumed(last, watch, found) if may is None else 0
            may = found
        changed, piece = watch.changed, b""
        picture = pictures.of(may)
        if picture != shown:
            shown, piece = picture, event("fleet", picture)
        news = watch.feed.since(number)
        rows = news.rows if may.namespaces is None else [row for row in news.rows if may.has(row.namespace)]
        gone = [uid for uid, namespace in news.gone if may.has(namespace)]
        is_new = number != news.number or news.is_whole
        number = news.number
        at = f"{watch_name(watch)}.{number}.{hash(may) & 0xFFFFFFFF:x}"
        if news.is_whole and is_new:
            piece += event("reset", {"rows": len(rows)})
        if gone:
            piece += event("gone", gone)
        if piece:
            yield piece
        for begin in range(0, len(rows), PIECE):
            part = rows[begin : begin + PIECE]
            is_last = begin + PIECE >= len(rows)
            yield event("rows", part, number=at if is_last else "")
            await anyio.lowlevel.checkpoint()
        if piece or rows:
            calm_since = anyio.current_time()
        if news.is_whole and is_new:
            yield event("whole", {"rows": len(rows)}, number=at)
        elif anyio.current_time() - calm_since >= CALM:
            calm_since = anyio.current_time()
            yield event("calm", {"health": watch.health})
        await anyio.sleep(PAUSE)
        with anyio.move_on_after(CALM / 3):
            await changed.wait()


def watch_name(watch: FleetWatch) -> str:
    """The name of this watch in numbers of events: those of another process mean nothing here."""
    return f"{id(watch):x}"


def _resumed(last: str, watch: FleetWatch, visible: Visible) -> int:
    name, _, rest = last.partition(".")
    number, _, rights = rest.partition(".")
    is_mine = name == watch_name(watch) and rights == f"{hash(visible) & 0xFFFFFFFF:x}"
    return int(number) if is_mine and number.isdecimal() else 0
