"""The work queue: keys wait here, each once, until a worker takes them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from datetime import timedelta
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

import msgspec

from multikueue.errors import MultiKueueError
from multikueue.runtime.controller.supervisor import Backoff

K = TypeVar("K", bound=Hashable)

RETRIES = Backoff(first=timedelta(milliseconds=200), cap=timedelta(minutes=5))


class QueuePriority(IntEnum):
    """The order of keys: something happened, then a requeue that we asked for, then "look at everything again"."""

    LIVE = 0
    REQUEUE = 1
    RESYNC = 2


MOST_PASSED_OVER = 8
"""At most this many keys of higher priorities pass a waiting one: each priority has its share, however many keys
come."""


RESYNCS_PER_TURN = 4
"""At most this many keys of RESYNC are handed out per turn of the event loop. Most need no call, so every worker would have
one in each turn, and an answer from a cluster, which takes several turns to be read, would wait for all of them each time."""


class Closed(MultiKueueError):
    """The queue was closed: there is nothing more to do."""


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of keys by state; `waiting` by priority, `failing` if the last attempt failed.

    `taken` is how often a worker got a key so far. A key that was added again while it is processed counts in both
    places.
    """

    waiting: tuple[int, ...]
    delayed: int
    processing: int
    failing: int
    taken: int


class _Timer(NamedTuple):
    """`earliest` is the end of the wait that no news shorten, on the loop's clock."""

    when: float
    priority: QueuePriority
    handle: asyncio.TimerHandle
    earliest: float


class _Line(Generic[K]):
    """The keys of one priority: first in, first out within a tenant, and tenants in turn."""

    def __init__(self, tenant: Callable[[K], Hashable] | None) -> None:
        self._tenant = tenant
        self._keys: OrderedDict[Hashable, OrderedDict[K, None]] = OrderedDict()
        self.length = 0

    def __len__(self) -> int:
        return self.length

    def push(self, key: K) -> None:
        tenant = self._tenant(key) if self._tenant is not None else None
        self._keys.setdefault(tenant, OrderedDict())[key] = None
        self.length += 1

    def pop(self) -> K:
        tenant, keys = self._keys.popitem(last=False)
        key, _ = keys.popitem(last=False)
        if keys:
            self._keys[tenant] = keys
        self.length -= 1
        return key

    def drop(self, key: K) -> None:
        tenant = self._tenant(key) if self._tenant is not None else None
        keys = self._keys[tenant]
        del keys[key]
        if not keys:
            del self._keys[tenant]
        self.length -= 1

    def clear(self) -> None:
        self._keys.clear()
        self.length = 0


class WorkQueue(Generic[K]):
    """Keys by priority, first in first out within one, never twice at a time.

    - A key that waits already is not added twice; it keeps the highest priority and the shortest delay of all adds.
    - A key that a worker has is not given to another one: added meanwhile, it waits until `done`.
    - A key of a higher priority goes first, but at most `MOST_PASSED_OVER` of them before a lower one that waits.
    - Of the lowest priority, at most `RESYNCS_PER_TURN` per turn of the event loop are handed out.
    - Within a priority, tenants (told apart by `tenant`) take turns: the many keys of one do not delay those of others.

    `unserved`, if there is one, is called when a key waits and no worker waits for one, so that the owner of the workers may
    run one more.

    Not thread-safe: one event loop owns it, and what changes it is synchronous, so there is no lock. Use it within a
    running loop.
    """

    def __init__(self, *, retries: Backoff = RETRIES, tenant: Callable[[K], Hashable] | None = None) -> None:
        self._retries = retries
        self._waiting: tuple[_Line[K], ...] = tuple(_Line(tenant) for _ in QueuePriority)
        self._passed_over = [0 for _ in QueuePriority]
        self._place: dict[K, QueuePriority] = {}
        self._timers: dict[K, _Timer] = {}
        self._processing: set[K] = set()
        self._again: dict[K, QueuePriority] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self.unserved: Callable[[], None] | None = None
        self._taken = 0
        self._resyncs = 0
        self._idle: asyncio.Future[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        """The number of keys that wait for a worker, or for `done` to be queued again; delayed keys do not count."""
        return len(self._place) + len(self._again)

    @property
    def is_ready(self) -> bool:
        """Whether `get` would return at once: a key waits for a worker."""
        is_resting = self._resyncs >= RESYNCS_PER_TURN  # this turn of the event loop has had its keys of RESYNC
        return len(self._place) > (self._waiting[QueuePriority.RESYNC].length if is_resting else 0)

    @property
    def processing(self) -> int:
        """The number of keys that workers have."""
        return len(self._processing)

    def depth(self) -> Depth:
        waiting = [len(keys) for keys in self._waiting]
        for priority in self._again.values():
            waiting[priority] += 1
        return Depth(
            waiting=tuple(waiting),
            delayed=len(self._timers),
            processing=len(self._processing),
            failing=len(self._failures),
            taken=self._taken,
        )

    def add(self, key: K, priority: QueuePriority = QueuePriority.LIVE) -> None:
        """Queue the key now, or as soon as `retry` lets it. After `close`, nothing happens."""
        if self._closed:
            return
        timer = self._timers.get(key)
        if timer is not None:
            priority = min(priority, timer.priority)
            rest = timer.earliest - asyncio.get_running_loop().time() if timer.earliest else 0.0
            if rest > 0:
                self._start_timer(key, rest, priority)
                return
            timer.handle.cancel()
            del self._timers[key]
        if key in self._processing:
            self._again[key] = min(priority, self._again.get(key, priority))
            return
        place = self._place.get(key)
        if place is not None and place <= priority:
            return
        if place is not None:
            self._waiting[place].drop(key)
        self._waiting[priority].push(key)
        self._place[key] = priority
        if place is None:
            self._wake_one()

    def add_after(self, key: K, delay: timedelta, priority: QueuePriority = QueuePriority.REQUEUE) -> None:
        """Queue the key after `delay`, unless it is due sooner."""
        if self._closed:
            return
        if delay <= timedelta():
            self.add(key, priority)
            return
        if key in self._place or key in self._again:
            self.add(key, priority)  # due sooner already: only the priority may rise
            return
        self._start_timer(key, delay.total_seconds(), priority)

    def retry(self, key: K, *, at_least: timedelta = timedelta(), unheard: timedelta = timedelta()) -> timedelta:
        """The key failed: queue it after its back-off, which grows until `forget`. Returns the delay.

        News may be that the cause is over, so after one failure a key is due at once when they come, unless a server asked to
        wait for `at_least` so long. A key that fails again and again is due for news no sooner than after a first failure, and
        within its back-off no sooner than after `unheard`. Else a key whose every attempt makes news would never rest.
        """
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = max(self._retries.delay(failures), at_least)
        rest = at_least
        if failures > 1:
            rest = max(at_least, min(delay, max(self._retries.delay(1), unheard)))
        if key in self._again and rest:
            delay = rest
            self.add_after(key, delay, self._again.pop(key))
        else:
            self.add_after(key, delay)
        if key in self._timers:
            earliest = asyncio.get_running_loop().time() + rest.total_seconds() if rest else 0.0
            self._timers[key] = self._timers[key]._replace(earliest=earliest)
        return delay

    def hurry(self) -> None:
        """The cause of the failures is over: each key counts as failed once, and waits no longer than after its first
        failure, except for a wait that no news shorten."""
        now = asyncio.get_running_loop().time()
        for key in self._failures:
            self._failures[key] = 1
            timer = self._timers.get(key)
            delay = self._retries.delay(1).total_seconds()
            if timer is not None and timer.when > (when := max(now + delay, timer.earliest)):
                self._start_timer(key, when - now, timer.priority)

    def failures(self, key: K) -> int:
        """How often the key failed since the last `forget`."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure counts as the first."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key, which the caller has until `done`; waits for one if there is none. Raises Closed."""
        while not self._closed:
            if self.is_ready:
                key = self._next()
                del self._place[key]
                self._processing.add(key)
                self._taken += 1
                return key
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                self._wait_no_more(getter)
                raise
        raise Closed("the work queue is closed")

    def done(self, key: K) -> None:
        """The worker has finished with the key, successfully or not. Raises KeyError if no worker has it."""
        self._processing.remove(key)
        if self._idle is not None and not self._processing:
            self._idle.set_result(None)
            self._idle = None
        priority = self._again.pop(key, None)
        if priority is not None:
            self.add(key, priority)

    def close(self) -> None:
        """Drops all keys and wakes all callers of `get`, which then raise Closed."""
        self._closed = True
        for timer in self._timers.values():
            timer.handle.cancel()
        for line in self._waiting:
            line.clear()
        self._place.clear()
        self._timers.clear()
        self._again.clear()
        self.unserved = None
        while self._getters:
            self._wake_one()

    async def drained(self) -> None:
        """Waits until no worker has a key. For a closed queue, which hands out no more."""
        while self._processing:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    def _next(self) -> K:
        live = self._waiting[QueuePriority.LIVE]
        if live.length == len(self._place):
            self._passed_over[QueuePriority.LIVE] = 0
            return live.pop()
        lines = self._waiting[: QueuePriority.RESYNC] if self._resyncs >= RESYNCS_PER_TURN else self._waiting
        waiting = [number for number, line in enumerate(lines) if line.length]
        chosen = waiting[0]
        if len(waiting) > 1:
            chosen = next((each for each in waiting if self._passed_over[each] >= MOST_PASSED_OVER), chosen)
            for each in waiting:
                self._passed_over[each] += 1
        self._passed_over[chosen] = 0
        if chosen == QueuePriority.RESYNC:
            self._count_resync()
        return self._waiting[chosen].pop()

    def _count_resync(self) -> None:
        if not self._resyncs:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._resyncs += 1

    def _begin_turn(self) -> None:
        self._resyncs = 0
        if self._place:
            self._wake_one()

    def _start_timer(self, key: K, seconds: float, priority: QueuePriority) -> None:
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        known, earliest = self._timers.get(key), 0.0
        if known is not None:
            if known.when <= when and known.priority <= priority:
                return  # the status of a queue is due in a second already, whatever happens to its workloads meanwhile
            when, priority, earliest = min(when, known.when), min(priority, known.priority), known.earliest
            known.handle.cancel()
        self._timers[key] = _Timer(when, priority, loop.call_at(when, self._ring, key), earliest)

    def _ring(self, key: K) -> None:
        self.add(key, self._timers.pop(key).priority)

    def _wait_no_more(self, getter: asyncio.Future[None]) -> None:
        """The waiter is cancelled."""
        if getter.cancelled():
            with suppress(ValueError):  # skipped by a wake-up already
                self._getters.remove(getter)
        elif self.is_ready:
            self._wake_one()  # woken for a key, but cancelled: another getter must take it

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
        if self.unserved is not None:
            self.unserved()
