"""A thread pool with a deadline for each call, for foreign code: a call that hangs must not hold up the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Thread
from typing import Generic, TypeVar

from multikueue.errors import MultiKueueError

__all__ = ["DeadlineExceeded", "DeadlinePool", "PoolSaturated"]

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
    overdue calls have all slots, every call is `PoolSaturated` at once. Threads that remain do not hold up the end of
    the process. Owned by one event loop, like its `report`s.
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
