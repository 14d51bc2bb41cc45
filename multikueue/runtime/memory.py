"""The threshold of glibc's malloc above which free memory goes back to the system."""

from __future__ import annotations

import ctypes

__all__ = ["LARGE_BLOCK", "give_large_blocks_back"]

LARGE_BLOCK = 2**16
"""Bytes. Pages, bodies, lines and single reads of a socket are larger; long-lived objects are smaller."""

_M_MMAP_THRESHOLD = -3
"""The constant of malloc.h."""


def give_large_blocks_back() -> bool:
    """From now on a block of LARGE_BLOCK bytes or more goes back to the system when it is freed. False without glibc.

    By default glibc does so only until the first such block is freed: then it takes all blocks up to that size, 32 MiB
    at most, from its heap, which shrinks only at its end. So one large answer would cost its memory for ever, and
    several of growing size more than that.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK))
    except (OSError, AttributeError, TypeError):
        return False
