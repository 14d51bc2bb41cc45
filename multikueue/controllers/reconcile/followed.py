"""The workers whose quotas ClusterQueues of the manager follow."""

from __future__ import annotations

from collections.abc import Iterable

import anyio

__all__ = ["Followed"]


class Followed:
    """Owner: `controllers.quota.capacity`. The connection of a worker watches the worker's queues while it is among them."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._change = anyio.Event()

    def __contains__(self, worker: str) -> bool:
        return worker in self._names

    def put(self, workers: Iterable[str]) -> None:
        """From now on these are followed, and no others."""
        before, self._names = self._names, frozenset(workers)
        if before != self._names:
            self._change.set()
            self._change = anyio.Event()

    async def until(self, worker: str, *, is_followed: bool) -> None:
        """Returns once the worker is followed, or is no more."""
        while (worker in self) is not is_followed:
            await self._change.wait()
