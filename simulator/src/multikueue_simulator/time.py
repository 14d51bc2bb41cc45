"""Virtual time: an event loop whose clock stands still while any task runs, and otherwise jumps to the next timer.

A simulated day takes only the time of its events, and a program does the same things in the same order each time. Tasks
may be grouped into processes, each of which can be stopped for a while, as by SIGSTOP.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Any, TypeVar, TypeVarTuple, Unpack, cast

import anyio
from anyio._backends._asyncio import AsyncIOBackend, CancelScope, TaskGroup
from anyio._core._eventloop import get_async_backend, loaded_backends

__all__ = ["EPOCH", "NothingLeft", "VirtualClock", "VirtualLoop", "process", "process_now", "run", "the_loop"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""The beginning of each world."""


class NothingLeft(Exception):
    """A deadlock: every task waits for another one, and no timer is set."""


_process: ContextVar[str] = ContextVar("process", default="")


@contextmanager
def process(name: str) -> Iterator[None]:
    """Assign the tasks started in this block, and the tasks they start, to a process."""
    token = _process.set(name)
    try:
        yield
    finally:
        _process.reset(token)


def process_now() -> str:
    """The process of the running code; empty if it has none."""
    return _process.get()


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without files, sockets and threads, which advances its clock instead of waiting.

    A stopped process runs no callbacks. When it continues, all callbacks that are due by then run at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0
        self._stopped: dict[str, deque[asyncio.Handle]] = {}
        # Attributes of the base class, unknown to type checkers.
        self._ready: deque[asyncio.Handle]
        self._stopping: bool

    def time(self) -> float:
        return self._passed

    def jump(self, seconds: float) -> None:
        """Advance the clock, as if a task had blocked the loop for that long."""
        self._passed += seconds

    def stop_process(self, name: str) -> None:
        self._stopped.setdefault(name, deque())

    def is_stopped(self, name: str) -> bool:
        return name in self._stopped

    def continue_process(self, name: str) -> None:
        self._ready.extend(self._stopped.pop(name, ()))

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._passed + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As in the base class, on a heap that never compares handles, which would dominate the run time. Timers of the
        same instant run in the order of their creation."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        heappush(self._timers, (when, self._count, handle))
        return handle

    def _run_once(self) -> None:
        """As in the base class, without files and threads."""
        ready, timers = self._ready, self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not ready and not self._stopping:
            if not timers:
                raise NothingLeft("every task waits, and no timer is set")
            self._passed = max(self._passed, timers[0][0])
        now = self._passed
        while timers and timers[0][0] <= now:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled or (self._stopped and self._is_held(handle)):
                continue
            handle._run()

    def _is_held(self, handle: asyncio.Handle) -> bool:
        held = self._stopped.get(handle._context.get(_process, ""))  # type: ignore[attr-defined]  # asyncio's own
        if held is not None:
            held.append(handle)
        return held is not None

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when they are due."""

    def _process_events(self, _events: object) -> None:
        """No-op, as there are no file events."""

    def _write_to_self(self) -> None:
        """No-op, as no other thread can wake the loop."""


def the_loop() -> VirtualLoop:
    """The running loop. Raises TypeError if it is not virtual."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise TypeError(f"expected to run on virtual time, got {type(loop).__name__}")
    return loop


class VirtualClock:
    """The clock of a virtual loop, as `runtime.Clock`; `skew` is its lead over the world's clock."""

    def __init__(self, *, start: datetime = EPOCH, skew: timedelta = timedelta()) -> None:
        self._start = start + skew

    def now(self) -> datetime:
        return self._start + timedelta(seconds=asyncio.get_running_loop().time())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def run(main: Callable[[], Awaitable[T]]) -> T:
    """The result of `main`, after as much virtual time as it takes. Work for threads runs in the loop.

    Raises NothingLeft if `main` waits for an event that can never happen.
    """
    with _backend():
        return anyio.run(main, backend="asyncio", backend_options={"loop_factory": VirtualLoop})


@contextmanager
def _backend() -> Iterator[None]:
    """Replace anyio's backend for a while. anyio looks it up in a table, by the name of the running library, and has no
    public way to replace it temporarily. So only the table entry changes, and nothing within anyio."""
    real = get_async_backend("asyncio")
    loaded_backends["asyncio"] = _Backend
    try:
        yield
    finally:
        loaded_backends["asyncio"] = real


class _Backend(AsyncIOBackend):
    """anyio's backend for asyncio, without threads and without randomness."""

    @classmethod
    def create_cancel_scope(cls, *, deadline: float = math.inf, shield: bool = False) -> CancelScope:
        return _Scope(deadline=deadline, shield=shield)

    @classmethod
    def create_task_group(cls) -> TaskGroup:
        return _Group()

    @classmethod
    async def run_sync_in_worker_thread(
        cls,
        func: Callable[[Unpack[Ts]], T],
        args: tuple[*Ts],
        abandon_on_cancel: bool = False,  # noqa: ARG003  # the work is done at once, so it cannot be abandoned
        limiter: object = None,  # noqa: ARG003
    ) -> T:
        await cls.checkpoint()
        return func(*args)


class _Scope(CancelScope):
    """A cancel scope with a fixed order of cancellation. anyio keeps tasks and scopes in sets, whose order depends on
    addresses in memory; here it is their order of creation."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._tasks = cast("set[Any]", _Ordered())
        self._child_scopes = cast("set[Any]", _Ordered())


class _Group(TaskGroup):
    def __init__(self) -> None:
        super().__init__()
        self.cancel_scope = _Scope()


class _Ordered(dict[Any, None]):
    """The methods of a set that anyio uses."""

    def add(self, item: object) -> None:
        self[item] = None

    def remove(self, item: object) -> None:
        del self[item]

    def discard(self, item: object) -> None:
        self.pop(item, None)
