"""Progress of slow work: after a second a spinner on a terminal, and nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count

from multikueue.cli.terminal import output
from multikueue.cli.terminal.output import CLEAR_LINE

__all__ = ["spinner"]

SPINNER_AFTER = timedelta(seconds=1)
"""The spinner appears after so long."""

SPINNER_STEP = timedelta(milliseconds=100)

_FRAMES = "|/-\\"


@asynccontextmanager
async def spinner(doing: str) -> AsyncIterator[None]:
    """Shows a spinner while the block runs; a note replaces its line."""
    if not output.has_spinner():
        yield
        return
    import anyio  # here: a help needs no event loop, and commands import the spinner

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_turn, doing)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


async def _turn(doing: str) -> None:
    import anyio

    started = anyio.current_time()
    await anyio.sleep(SPINNER_AFTER.total_seconds())
    try:
        for turn in count():
            print(
                f"{CLEAR_LINE}{_FRAMES[turn % 4]} {doing} {anyio.current_time() - started:.0f}s",
                end="",
                file=sys.stderr,
            )
            sys.stderr.flush()
            await anyio.sleep(SPINNER_STEP.total_seconds())
    finally:
        print(CLEAR_LINE, end="", file=sys.stderr, flush=True)
