"""Code of strangers, run where it can do little harm: in threads of its own, few at a time, each with a deadline."""

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

__all__ = ["Aside", "Crowded", "Overdue"]

T = TypeVar("T")

Outcome = Callable[[T | Exception], None]


class Overdue(MultiKueueError):
    """There was no result within the deadline."""


class Crowded(MultiKueueError):
    """All seats are taken by calls that are overdue and do not end."""


@dataclass(slots=True, eq=False)
class _Errand(Generic[T]):
    call: Callable[[], T]
    told: Outcome[T]
    timer: asyncio.TimerHandle | None = None
    given_up: bool = False


@dataclass(slots=True)
class Aside(Generic[T]):
    """Runs calls in daemon threads, at most `seats` at a time; the others wait their turn.

    Each call's outcome is told once, in the event loop: its result, what it raised, or `Overdue` after `deadline`. A
    thread cannot be ended from outside: an overdue one is left alone, and keeps its seat until it does end. So a call
    that blocks for ever costs a seat, and once all are lost every call is `Crowded` at once. Threads that are left do not
    hold up the end of the process. Owned by one event loop, like its `told`s.
    """

    deadline: timedelta
    seats: int = 4
    _waiting: deque[_Errand[T]] = field(default_factory=deque)
    _seated: set[_Errand[T]] = field(default_factory=set)

    def run(self, call: Callable[[], T], told: Outcome[T]) -> None:
        """Have `call` run; `told` hears of its outcome, at once if there is no hope for a seat."""
        self._waiting.append(_Errand(call, told))
        self._next()

    def _next(self) -> None:
        while self._waiting and len(self._seated) < self.seats:
            self._start(self._waiting.popleft())
        if all(errand.given_up for errand in self._seated):
            while self._waiting:
                lost = f"{len(self._seated)} calls have not come back; once one does, it is asked again"
                self._waiting.popleft().told(Crowded(lost))

    def _start(self, errand: _Errand[T]) -> None:
        loop = asyncio.get_running_loop()
        self._seated.add(errand)
        errand.timer = loop.call_later(self.deadline.total_seconds(), self._give_up, errand)
        Thread(target=self._work, args=(errand, loop), name="aside", daemon=True).start()

    def _work(self, errand: _Errand[T], loop: asyncio.AbstractEventLoop) -> None:
        """In the thread. Whatever comes, the seat is given back; a loop that is closed wants nothing back."""
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._ended, errand, _outcome(errand.call))

    def _ended(self, errand: _Errand[T], outcome: T | Exception) -> None:
        self._seated.discard(errand)
        if errand.timer is not None:
            errand.timer.cancel()
        if not errand.given_up:
            errand.told(outcome)
        self._next()

    def _give_up(self, errand: _Errand[T]) -> None:
        errand.given_up = True
        errand.told(Overdue(f"no answer within {self.deadline.total_seconds():g}s"))
        self._next()


def _outcome(call: Callable[[], T]) -> T | Exception:
    try:
        return call()
    except Exception as error:  # noqa: BLE001  # it is told to whoever asked
        return error
    except BaseException as end:  # noqa: BLE001  # it ended its thread
        return Overdue(f"ended by {type(end).__name__}")
