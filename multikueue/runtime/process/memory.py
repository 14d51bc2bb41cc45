"""Memory of the process: what goes back to the system, and what the search for garbage looks at."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NoReturn

import anyio

__all__ = [
    "LARGE_BLOCK",
    "THRESHOLDS",
    "collect_in_small_steps",
    "give_free_pages_back",
    "give_large_blocks_back",
    "look_at_all_garbage",
    "mapping_buffers",
]

THRESHOLDS = (2_500, 2, 2)
"""Net new objects until the youngest are searched, and how many searches of them pass before the older ones are searched too:
some 30,000 objects are the most that one search looks at, since those that it leaves are not looked at again."""

FULL_SEARCH_INTERVAL = timedelta(hours=6)
"""Between two searches among all objects."""

LARGE_BLOCK = 2**19
"""Bytes. Pages and large bodies and lines are larger. A read of a socket is not: for each uvloop takes 256 KiB, whatever
comes, and were that large, the system would map, shrink and unmap it each time: a twentieth of the CPU of a job."""

BUFFER = 2**18
"""Bytes that uvloop takes for a TLS connection, for as long as it lasts, and hardly touches."""

SPARE = 2**20
"""Free bytes at the end of the heap that stay with the process. Reads take theirs there, again and again."""

FREE_PAGES_INTERVAL = timedelta(minutes=1)
"""Between two times at which free pages inside the heap go back."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""The constants of malloc.h."""


def give_large_blocks_back() -> bool:
    """From now on a block of LARGE_BLOCK bytes or more goes back to the system when it is freed, and so does the end of the
    heap, but for SPARE bytes. False without glibc.

    By default glibc does so only until the first such block is freed: then it takes all blocks up to that size, 32 MiB
    at most, from its heap, which shrinks only at its end. So one large answer would cost its memory forever, and
    several of growing size more than that.
    """
    return _mallopt(_M_TRIM_THRESHOLD, SPARE) and _mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)


_mapping = 0
"""How many blocks of `mapping_buffers` there are now: malloc has one threshold for the process."""


@contextmanager
def mapping_buffers() -> Iterator[None]:
    """In this block a BUFFER for which the end of the heap has no room gets pages of its own, and only those that are touched
    are taken from the system: 28 KiB less for each worker. Blocks may overlap: the last to end ends it for all. Does
    nothing without glibc."""
    global _mapping
    if not _mapping:
        _mallopt(_M_MMAP_THRESHOLD, BUFFER)
    _mapping += 1
    try:
        yield
    finally:
        _mapping -= 1
        if not _mapping:
            _mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)


async def give_free_pages_back(*, sleep: Callable[[float], Any] = anyio.sleep) -> NoReturn:
    """Once a minute give free pages inside the heap back to the system. A Job of 1 MiB in a hundred parts leaves 15 MiB of
    them, between objects that stay. Does nothing without glibc."""
    while True:
        await sleep(FREE_PAGES_INTERVAL.total_seconds())
        with suppress(OSError, AttributeError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)


def _mallopt(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).mallopt(option, value))
    except (OSError, AttributeError, TypeError):
        return False


def collect_in_small_steps() -> Callable[[], None]:
    """From now on a search for garbage takes milliseconds, whatever the number of objects kept.

    What a full search leaves stays for long: objects of caches, mostly, none of which is part of a cycle. So it is frozen,
    which is to say that later searches do not look at it; it is freed as ever when it has no references any more. Returns a
    function that ends this.
    """

    def collected(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()

    gc.callbacks.append(collected)
    gc.collect()
    # A full search waits for a fourth of what the last one left. This one leaves nothing: all is frozen by now.
    gc.collect()
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)

    def end() -> None:
        gc.callbacks.remove(collected)
        gc.set_threshold(*before)
        gc.unfreeze()

    return end


async def look_at_all_garbage(*, sleep: Callable[[float], Any] = anyio.sleep) -> NoReturn:
    """A few times a day look at all objects: connections that ended long ago may be cycles that were frozen."""
    while True:
        await sleep(FULL_SEARCH_INTERVAL.total_seconds())
        gc.unfreeze()
        gc.collect()
