"""What glibc's malloc does with memory that is free again."""

from __future__ import annotations

import ctypes

__all__ = ["LARGE_BLOCK", "give_large_blocks_back"]

LARGE_BLOCK = 2**16
"""Bytes. Pages, bodies, lines and what a socket brings at once are larger; what lives long is smaller."""

_M_MMAP_THRESHOLD = -3
"""Its name in malloc.h."""


def give_large_blocks_back() -> bool:
    """From now on a block of LARGE_BLOCK bytes or more goes back to the system when it is freed. False without glibc.

    Left to itself glibc does so only until the first such block is freed: then it takes all up to that size, and 32 MiB at
    most, from its heap, which shrinks at its end only. So one large answer would cost its memory for ever, and several of
    growing size more than that.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK))
    except (OSError, AttributeError, TypeError):
        return False
