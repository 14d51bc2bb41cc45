"""Virtual time: an event loop whose clock stands still while anything happens and jumps when nothing does.

A day passes in the time its events take, and the same program does the same things in the same order each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio._backends._asyncio import CancelScope

__all__ = ["EPOCH", "NothingLeft", "VirtualClock", "VirtualLoop", "run"]

T = TypeVar("T")

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""When each world begins."""


class NothingLeft(Exception):
    """Every task waits for another one: nothing will ever happen again."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without files, sockets and threads; its own selector, which passes the time instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self._passed = 0.0
        self._selector = self

    def time(self) -> float:
        return self._passed

    def select(self, timeout: float | None) -> tuple[()]:
        if timeout is None:
            raise NothingLeft("every task waits, and no timer is set")
        self._passed += max(0.0, timeout)
        return ()

    def _process_events(self, _events: object) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody else could have woken us."""


class VirtualClock:
    """The clock of a virtual loop, as `runtime.Clock`; `skew` is how far it is ahead of the world's."""

    def __init__(self, *, start: datetime = EPOCH, skew: timedelta = timedelta()) -> None:
        self._start = start + skew

    def now(self) -> datetime:
        return self._start + timedelta(seconds=anyio.current_time())

    def monotonic(self) -> float:
        return anyio.current_time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def run(main: Callable[[], Awaitable[T]]) -> T:
    """What `main` returns, after as much virtual time as it takes. What would run in a thread runs on the spot.

    Raises NothingLeft if it waits for what can never happen.
    """
    with _without_threads(), _in_order():
        return anyio.run(main, backend="asyncio", backend_options={"loop_factory": VirtualLoop})


@contextmanager
def _without_threads() -> Iterator[None]:
    real = anyio.to_thread.run_sync

    async def run_sync(function: Callable[..., Any], *arguments: Any, **_options: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return function(*arguments)

    anyio.to_thread.run_sync = run_sync  # type: ignore[assignment]  # its options are about threads
    try:
        yield
    finally:
        anyio.to_thread.run_sync = real


@contextmanager
def _in_order() -> Iterator[None]:
    """anyio keeps the tasks and scopes that a cancellation reaches in sets, whose order depends on addresses in memory;
    here it is the order in which they were begun."""
    real = CancelScope.__init__

    def ordered(self: CancelScope, *arguments: Any, **options: Any) -> None:
        real(self, *arguments, **options)
        self._tasks = cast("set[Any]", _Ordered())
        self._child_scopes = cast("set[Any]", _Ordered())

    CancelScope.__init__ = ordered  # type: ignore[method-assign]
    try:
        yield
    finally:
        CancelScope.__init__ = real  # type: ignore[method-assign]


class _Ordered(dict[Any, None]):
    """What anyio needs of a set."""

    def add(self, item: object) -> None:
        self[item] = None

    def remove(self, item: object) -> None:
        del self[item]

    def discard(self, item: object) -> None:
        self.pop(item, None)
