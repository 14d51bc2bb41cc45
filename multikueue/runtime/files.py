"""Tells when files change, whatever their directories do meanwhile.

It looks instead of being told: the system's own news (inotify) are about directories, and are silent when a directory is
missing at first, is removed and made again, is on a network, or when a link far from the file is swapped, as Kubernetes
does with mounted Secrets (`..data`). A look is one `stat` per file, and follows all links.
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
"""Time between two looks: news are this old at most, and a file that is being written has as long to be complete."""

_IDLE = timedelta(seconds=1)
"""Time between two looks whether there is a file to watch now."""

_Trace = tuple[int, ...]
"""What changes when a file does; the number of the error if there is none to be seen."""


@dataclass(slots=True)
class _Sight:
    """How a file looked last, and whether that is still to be told."""

    trace: _Trace
    news: bool = True


async def watch_files(
    paths: Callable[[], Iterable[str]],
    on_change: Callable[[str], None],
    *,
    every: timedelta = LOOK_EVERY,
    clock: Clock | None = None,
) -> None:
    """Calls `on_change` for each of `paths` that changed, appeared or vanished, for ever.

    A path is told of once when it is first asked for, and after that once it looks the same in two looks in a row: what
    is written in pieces, or removed to be made again, is told of as a whole. `paths` is asked before each look.
    """
    clock = clock or SystemClock()
    known: dict[str, _Sight] = {}
    while True:
        wanted = tuple(dict.fromkeys(paths()))
        # In a thread: a file on a network may make whoever looks at it wait.
        traces = await anyio.to_thread.run_sync(_look, wanted, abandon_on_cancel=True) if wanted else {}
        for path in known.keys() - traces.keys():
            del known[path]
        for path in _settled(known, traces):
            on_change(path)
        await clock.sleep((every if wanted else max(every, _IDLE)).total_seconds())


def _settled(known: dict[str, _Sight], traces: dict[str, _Trace]) -> Iterable[str]:
    """The paths whose news have come to rest."""
    for path, trace in traces.items():
        sight = known.get(path)
        if sight is None or sight.trace != trace:
            known[path] = _Sight(trace)
        elif sight.news:
            sight.news = False
            yield path


def _look(paths: Iterable[str]) -> dict[str, _Trace]:
    return {path: _trace(path) for path in paths}


def _trace(path: str) -> _Trace:
    try:
        found = os.stat(path)
    except OSError as error:
        return (error.errno or 0,)
    except ValueError:  # no path at all: a null byte in it
        return (-1,)
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
