"""Progress of slow work, on one thing or on many: after a second a spinner on a terminal, and nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from typing import TypeVar

from multikueue.cli.terminal import output
from multikueue.cli.terminal.output import CLEAR_LINE, note
from multikueue.errors import MultiKueueError

__all__ = ["conclude", "each", "estimate", "spinner"]

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 10
"""Things that are worked on at a time: each may take a connection, and clusters are shared."""

SPINNER_AFTER = timedelta(seconds=1)
"""The spinner appears after so long."""

SPINNER_STEP = timedelta(milliseconds=100)

_FRAMES = "|/-\\"


async def each(
    doing: str, things: Sequence[T], act: Callable[[T], Awaitable[R]], *, at_once: int = AT_ONCE
) -> tuple[list[R], list[MultiKueueError]]:
    """What the act answers for each thing, and what failed, both in the order of the things: one that fails keeps no other
    from it. Some are worked on `at_once`; the spinner counts, and says how long the rest takes at this rate."""
    import anyio

    answers, failures, limit = dict[int, R](), dict[int, MultiKueueError](), anyio.CapacityLimiter(at_once)
    started = anyio.current_time()

    async def one(number: int, thing: T) -> None:
        async with limit:
            try:
                answers[number] = await act(thing)
            except MultiKueueError as error:
                failures[number] = error

    def shown() -> str:
        over = len(answers) + len(failures)
        left = estimate(over, len(things), anyio.current_time() - started)
        return f"{doing} ({over} of {len(things)}{left})" if len(things) > 1 else doing

    async with spinner(shown), anyio.create_task_group() as tasks:
        for number, thing in enumerate(things):
            tasks.start_soon(one, number, thing)
    return [answers[number] for number in sorted(answers)], [failures[number] for number in sorted(failures)]


def estimate(done: int, total: int, seconds: float) -> str:
    """How long the rest takes if it goes on as in these seconds, such as `, about 3m left`; empty while that is unknown, or
    soon over."""
    left = timedelta(seconds=seconds / done * (total - done)) if done else timedelta()
    return f", about {output.since(left)} left" if left > SPINNER_AFTER * 5 else ""


def conclude(done: str, number: int, failures: Sequence[MultiKueueError]) -> None:
    """The last line of work on several things, such as `3 of 4 workers cordoned`. Raises what failed, in a group."""
    total = number + len(failures)
    if total > 1:
        note(f"{number} of {total} workers {done}.")
    if failures:
        raise ExceptionGroup("not done", failures)


@asynccontextmanager
async def spinner(doing: str | Callable[[], str]) -> AsyncIterator[None]:
    """Shows a spinner while the block runs; a note replaces its line."""
    if not output.has_spinner():
        yield
        return
    import anyio  # here: a help needs no event loop, and commands import the spinner

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_turn, doing if callable(doing) else lambda: doing)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


async def _turn(doing: Callable[[], object]) -> None:
    import anyio

    started = anyio.current_time()
    await anyio.sleep(SPINNER_AFTER.total_seconds())
    try:
        for turn in count():
            print(
                f"{CLEAR_LINE}{_FRAMES[turn % 4]} {doing()} {anyio.current_time() - started:.0f}s",
                end="",
                file=sys.stderr,
            )
            sys.stderr.flush()
            await anyio.sleep(SPINNER_STEP.total_seconds())
    finally:
        print(CLEAR_LINE, end="", file=sys.stderr, flush=True)
