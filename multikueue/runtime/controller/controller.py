"""The controller loop: workers that take keys from a queue and reconcile each, as many as there are keys at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Generic, TypeVar

import anyio
import anyio.abc
import msgspec

from multikueue.errors import ClusterUnreachable, Conflict, NotKept, NotLeading, Throttled, Unauthorized
from multikueue.runtime.controller.queue import Closed, WorkQueue
from multikueue.runtime.controller.supervisor import describe, is_expected, is_fatal, leaves
from multikueue.telemetry import bind, get_logger

K = TypeVar("K", bound=Hashable)

log = get_logger()


class Result(msgspec.Struct, frozen=True):
    """A successful reconcile; with `again_after`, the key is due again then even if nothing happens."""

    again_after: timedelta | None = None


DONE = Result()
AGAIN = Result(again_after=timedelta())

LASTING = 5
"""Failures of a key in a row from which on trouble with a cluster is logged as a warning."""

UNDONE = timedelta(seconds=5)
"""An object that a server does not keep as written is written once in so long at most, when it fails again and again."""


@dataclass(slots=True, kw_only=True)
class _Controller(Generic[K]):
    """Owner of its workers. `context` is that of their tasks, whatever task adds the key that one more is started for."""

    name: str
    queue: WorkQueue[K]
    reconcile: Callable[[K], Awaitable[Result]]
    on_error: Callable[[K, Exception], None]
    tasks: anyio.abc.TaskGroup
    most: Callable[[], int]
    spare: int
    context: Context = field(default_factory=copy_context)
    _working: int = 0
    _waiting: int = 0

    def hire(self) -> None:
        """One more worker, unless there are as many as may be."""
        if self._working < self.most():
            self._working += 1
            self.context.run(partial(self.tasks.start_soon, self._work, name=f"{self.name}-{self._working}"))

    async def _work(self) -> None:
        """One worker, until the queue is closed, or no key is left for it and enough others wait for the next ones."""
        bind(controller=self.name)
        queue = self.queue
        try:
            while self._working <= self.most() and (self._waiting < self.spare or queue.is_ready):
                self._waiting += 1
                try:
                    key = await queue.get()
                except Closed:
                    break
                finally:
                    self._waiting -= 1
                # The worker's task has a context of its own, where the next key replaces this one: no need to unbind.
                bind(key=str(key))
                try:
                    result = await self.reconcile(key)
                except asyncio.CancelledError:
                    self._hire_no_more()  # before `done`, which may call for a worker
                    raise
                except Exception as error:  # noqa: BLE001  # the boundary: one key's failure is never another's
                    self._failed(key, error)
                else:
                    queue.forget(key)
                    if result.again_after is not None:
                        queue.add_after(key, result.again_after)
                finally:
                    queue.done(key)
                if queue.is_ready:
                    self.hire()  # more may work than when the key was added
                    await asyncio.sleep(0)  # a reconcile with nothing to do may never yield to other tasks
        except asyncio.CancelledError:
            self._hire_no_more()
            raise
        self._working -= 1

    def _hire_no_more(self) -> None:
        """When a worker is cancelled, all are: one that came later would miss the cancellation, and wait forever."""
        self.queue.unserved = None

    def _failed(self, key: K, error: Exception) -> None:
        if is_fatal(error):
            raise error
        self.on_error(key, error)
        delay = self.queue.retry(key, at_least=_asked_to_wait(error), unheard=_fought_over(error))
        _log_retry(error, delay=delay, failures=self.queue.failures(key))


def _asked_to_wait(error: Exception) -> timedelta:
    """The longest wait that a server asked for."""
    waits = (leaf.after or 0.0 for leaf in leaves(error) if isinstance(leaf, Throttled))
    return timedelta(seconds=max(waits, default=0.0))


def _fought_over(error: Exception) -> timedelta:
    """How long a key rests whatever happens: where a webhook undoes what we write, and another program writes that again, each
    attempt makes news."""
    return UNDONE if any(isinstance(leaf, NotKept) for leaf in leaves(error)) else timedelta()


def _log_retry(error: Exception, *, delay: timedelta, failures: int) -> None:
    facts = {"error": describe(error), "retry_after": round(delay.total_seconds(), 3), "failures": failures}
    if not is_expected(error):
        log.error("reconcile.crashed", **facts, exc_info=error)
    elif all(isinstance(leaf, (Conflict, NotLeading)) for leaf in leaves(error)):
        log.debug("reconcile.conflicted", **facts)
    elif failures < LASTING and all(isinstance(leaf, (ClusterUnreachable, Unauthorized)) for leaf in leaves(error)):
        log.debug("reconcile.failed", **facts)  # its connection logs it once, instead of once per key
    else:
        log.warning("reconcile.failed", **facts)


def _ignore(_key: object, _error: Exception) -> None:
    pass


async def run_controller(
    name: str,
    queue: WorkQueue[K],
    reconcile: Callable[[K], Awaitable[Result]],
    *,
    workers: int | Callable[[], int],
    spare: int | None = None,
    on_error: Callable[[K, Exception], None] = _ignore,
) -> None:
    """Runs `reconcile` over the keys of `queue` with at most that many workers, until the queue is closed. The
    number may change: `workers` returns it each time.

    A worker begins when a key waits for one, and ends when `spare` others (None: any number) wait for keys: there may be
    thousands of queues, nearly all of them empty.

    An error costs its own key a back-off, and other keys nothing; Throttled waits at least as long as the server asked.
    There is no deadline here: each call that a reconcile makes has its own. `on_error` gets every failure, for metrics;
    an exception from it ends the controller. So does InvariantBroken, raised within an exception group. Cancellation
    passes.
    """
    most = workers if callable(workers) else partial(int, workers)
    try:
        async with anyio.create_task_group() as tasks:
            controller = _Controller(
                name=name,
                queue=queue,
                reconcile=reconcile,
                on_error=on_error,
                tasks=tasks,
                most=most,
                spare=most() if spare is None else spare,
            )
            for _ in range(min(most(), max(1, len(queue)))):
                controller.hire()
            queue.unserved = controller.hire
    finally:
        queue.unserved = None
