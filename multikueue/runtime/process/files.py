"""Watches files for changes, whatever happens to their directories meanwhile.

It polls, because the system's notifications (inotify) are about directories. They are silent when a directory is
missing at first, is removed and recreated, is on a network, or when a link far from the file is swapped, as Kubernetes
does with mounted Secrets (`..data`). A poll is one `stat` per file, and follows all links.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

import anyio.to_thread

from multikueue.runtime.clock import Clock, SystemClock

__all__ = ["LOOK_EVERY", "watch_files"]

LOOK_EVERY = timedelta(milliseconds=100)
"""Time between two polls, and so the time that a file being written has to be complete."""

_IDLE = timedelta(seconds=1)
"""Time between two checks whether there is a file to watch."""

_Trace = tuple[int, ...]
"""Values that change when the file does; the error number if it cannot be seen."""


@dataclass(slots=True)
class _PathState:
    """The last state of a file, and whether that is still to be reported."""

    trace: _Trace
    has_news: bool = True


async def watch_files(
    paths: Callable[[], Iterable[str]],
    on_change: Callable[[str], None],
    *,
    every: timedelta = LOOK_EVERY,
    clock: Clock | None = None,
) -> None:
    """Calls `on_change` for each of `paths` that changed, appeared or vanished, forever.

    A path is reported once when it is first asked for. After that it is reported once it looks the same in two polls in
    a row, so that a file written in pieces, or removed and recreated, is reported as a whole. `paths` is called before
    each poll.
    """
    clock = clock or SystemClock()
    known: dict[str, _PathState] = {}
    while True:
        wanted = tuple(dict.fromkeys(paths()))
        # In a thread: `stat` of a file on a network may block.
        traces = await anyio.to_thread.run_sync(_look, wanted, abandon_on_cancel=True) if wanted else {}
        for path in known.keys() - traces.keys():
            del known[path]
        for path in _settled(known, traces):
            on_change(path)
        await clock.sleep((every if wanted else max(every, _IDLE)).total_seconds())


def _settled(known: dict[str, _PathState], traces: dict[str, _Trace]) -> Iterable[str]:
    """The paths whose changes have come to rest."""
    for path, trace in traces.items():
        state = known.get(path)
        if state is None or state.trace != trace:
            known[path] = _PathState(trace)
        elif state.has_news:
            state.has_news = False
            yield path


def _look(paths: Iterable[str]) -> dict[str, _Trace]:
    return {path: _trace(path) for path in paths}


def _trace(path: str) -> _Trace:
    try:
        found = os.stat(path)
    except OSError as error:
        return (error.errno or 0,)
    except ValueError:  # not a path: it has a null byte
        return (-1,)
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
