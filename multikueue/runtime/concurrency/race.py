"""Concurrent work of which the first to end cancels the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio


async def first(*works: Callable[[], Awaitable[object]]) -> None:
    """Runs all; when one returns, cancels the rest and returns. An exception is raised in an exception group."""
    async with anyio.create_task_group() as tasks:

        async def run(work: Callable[[], Awaitable[object]]) -> None:
            await work()
            tasks.cancel_scope.cancel()

        for work in works:
            tasks.start_soon(run, work)
