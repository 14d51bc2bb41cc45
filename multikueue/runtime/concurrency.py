"""Limits on what runs at the same time: a turnstile, calls to one server, a race, a pool of threads with deadlines."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Thread
from typing import Generic, TypeVar

import anyio

from multikueue.errors import MultiKueueError

__all__ = ["START", "AdaptiveLimit", "DeadlineExceeded", "DeadlinePool", "PoolSaturated", "Turnstile", "first"]

MORE = 2
"""How many more may be inside for each one that is stuck there."""


class Turnstile:
    """At most `width` are inside, in the order in which they came. After `seconds` one inside counts no more: one that gets
    stuck holds up the others no longer than that, and lets `MORE` more in until it leaves, for who is stuck needs no room. So
    hundreds that are stuck hold up the last one for some `seconds`, and not for a turn of each.

    Owned by one event loop.

    What all begin at once does not meet its own deadlines in a crowd.
    """

    def __init__(self, width: int, seconds: float) -> None:
        self._free, self._seconds, self._owed = width, seconds, 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> Callable[[], None]:
        """Waits until there is room. The returned function leaves; it may be called again, for nothing."""
        if self._free:
            self._free -= 1
        else:
            await self._admitted()
        return self._way_out()

    async def _admitted(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(turn)
            else:
                self._left()  # let in, and cancelled before it knew
            raise

    def _way_out(self) -> Callable[[], None]:
        is_inside = True
        is_stuck = False

        def get_stuck() -> None:
            nonlocal is_stuck
            is_stuck = True
            for _ in range(1 + MORE):
                self._left()

        def leave() -> None:
            nonlocal is_inside
            if is_inside:
                is_inside = False
                late.cancel()
                if is_stuck:
                    self._take_back()
                else:
                    self._left()

        late = asyncio.get_running_loop().call_later(self._seconds, get_stuck)
        return leave

    def _take_back(self) -> None:
        """The room that one who was stuck gave to others, as soon as it is free."""
        taken = min(self._free, MORE)
        self._free -= taken
        self._owed += MORE - taken

    def _left(self) -> None:
        if self._owed:
            self._owed -= 1
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


async def first(*works: Callable[[], Awaitable[object]]) -> None:
    """Runs all; when one returns, cancels the rest and returns. An exception is raised in an exception group."""
    async with anyio.create_task_group() as tasks:

        async def run(work: Callable[[], Awaitable[object]]) -> None:
            await work()
            tasks.cancel_scope.cancel()

        for work in works:
            tasks.start_soon(run, work)


START = 12
LEAST = 2

SLOW = 2.0
"""An answer is late beyond so many times the shortest of the last ones,"""

SLACK = 0.1
"""and so many seconds more: on a short way, what varies is our own loop's doing."""

AGING = 1.01
"""Each answer lets the shortest time grow by this: after some hundred answers a way that has become longer is the normal
one."""


class AdaptiveLimit:
    """A limit that grows while answers come in time, and shrinks when they come late (AIMD, as TCP's window).

    - It grows by one with each answer until it shrinks for the first time, then by one with as many answers as it lets be
      under way; in both cases only while it is used up.
    - Late answers are the work of a queue in front of the server, so it shrinks by a tenth; a server that says that it has
      too many requests, or does not answer, has it halved.
    - What was sent before it shrank does not shrink it again.

    It stays between `LEAST` and `most`. Owned by one event loop; times are seconds of one clock.
    """

    def __init__(self, most: int) -> None:
        self._most, self._least = most, min(LEAST, most)
        self._value = float(min(START, most))
        self._shortest = float("inf")
        self._shrank_at: float | None = None

    def __call__(self) -> int:
        return int(self._value)

    def answered(self, *, at: float, seconds: float, was_used_up: bool) -> None:
        """An answer came at that time. `was_used_up`: as much was under way as may be."""
        is_late = seconds > SLOW * self._shortest + SLACK
        self._shortest = min(seconds, self._shortest * AGING)
        if is_late:
            self._shrink(0.9, at, seconds)
        elif was_used_up:
            self._value = min(self._most, self._value + (1 if self._shrank_at is None else 1 / self._value))

    def refused(self, *, at: float, seconds: float) -> None:
        """The server has too many requests, or did not answer."""
        self._shrink(0.5, at, seconds)

    def _shrink(self, by: float, at: float, seconds: float) -> None:
        if self._shrank_at is None or at - seconds >= self._shrank_at:
            self._value, self._shrank_at = max(self._least, self._value * by), at


T = TypeVar("T")

Outcome = Callable[[T | Exception], None]


class DeadlineExceeded(MultiKueueError):
    """No result within the deadline."""


class PoolSaturated(MultiKueueError):
    """All threads are taken by calls that are past their deadline and have not ended."""


@dataclass(slots=True, eq=False)
class _Task(Generic[T]):
    call: Callable[[], T]
    report: Outcome[T]
    timer: asyncio.TimerHandle | None = None
    is_given_up: bool = False


@dataclass(slots=True)
class DeadlinePool(Generic[T]):
    """Runs calls in daemon threads, at most `size` at a time; the others wait.

    Each call's outcome is reported once, in the event loop: its result, its exception, or `DeadlineExceeded` after
    `deadline`. A thread cannot be ended from outside, so an overdue one keeps its slot until it ends by itself. Once
    overdue calls have all slots, every call is `PoolSaturated` at once. Threads that remain do not hold up the end of the
    process. Owned by one event loop, like its `report`s.

    For foreign code: a call that hangs must not hold up the event loop.
    """

    deadline: timedelta
    size: int = 4
    _waiting: deque[_Task[T]] = field(default_factory=deque)
    _running: set[_Task[T]] = field(default_factory=set)

    def run(self, call: Callable[[], T], report: Outcome[T]) -> None:
        """Run `call` and pass its outcome to `report`; at once if no slot can be expected to become free."""
        self._waiting.append(_Task(call, report))
        self._next()

    def _next(self) -> None:
        while self._waiting and len(self._running) < self.size:
            self._start(self._waiting.popleft())
        if all(task.is_given_up for task in self._running):
            while self._waiting:
                lost = f"{len(self._running)} calls have not come back; once one does, it is asked again"
                self._waiting.popleft().report(PoolSaturated(lost))

    def _start(self, task: _Task[T]) -> None:
        loop = asyncio.get_running_loop()
        self._running.add(task)
        task.timer = loop.call_later(self.deadline.total_seconds(), self._give_up, task)
        Thread(target=self._work, args=(task, loop), name="aside", daemon=True).start()

    def _work(self, task: _Task[T], loop: asyncio.AbstractEventLoop) -> None:
        """In the thread. The slot is given back whatever happens; a closed loop has no use for it."""
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._ended, task, _outcome(task.call))

    def _ended(self, task: _Task[T], outcome: T | Exception) -> None:
        self._running.discard(task)
        if task.timer is not None:
            task.timer.cancel()
        if not task.is_given_up:
            task.report(outcome)
        self._next()

    def _give_up(self, task: _Task[T]) -> None:
        task.is_given_up = True
        task.report(DeadlineExceeded(f"no answer within {self.deadline.total_seconds():g}s"))
        self._next()


def _outcome(call: Callable[[], T]) -> T | Exception:
    try:
        return call()
    except Exception as error:  # noqa: BLE001  # it is passed to the caller's `report`
        return error
    except BaseException as end:  # noqa: BLE001  # it was to end the thread, such as SystemExit
        return DeadlineExceeded(f"ended by {type(end).__name__}")
