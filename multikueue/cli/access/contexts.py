"""Completion of contexts, and of names that a cluster is asked for.

A failure completes nothing: an error message would disturb the line that is being typed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import typer

__all__ = ["beginning", "contexts", "given", "quietly"]

COMPLETION_TIMEOUT = timedelta(seconds=2)
"""The time for an answer: typing a name takes no longer."""


def contexts(ctx: typer.Context, incomplete: str) -> list[str]:
    """The contexts of the kubeconfig."""
    from multikueue.kube.auth import credentials

    async def work() -> list[str]:
        return list(await credentials.contexts(given(ctx, "kubeconfig")))

    return beginning(incomplete, quietly(work))


def given(ctx: typer.Context, name: str) -> Any:
    """Kubeconfig and context of the manager cluster as the line has them by now."""
    return ctx.params.get(f"manager_{name}") or ctx.params.get(name)


def beginning(incomplete: str, names: list[str]) -> list[str]:
    """The names that begin so, each once."""
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def quietly(work: Callable[[], Awaitable[list[str]]]) -> list[str]:
    """The answer, or none if it fails or takes too long."""
    import anyio

    async def patiently() -> list[str]:
        with anyio.move_on_after(COMPLETION_TIMEOUT.total_seconds()):
            return await work()
        return []

    try:
        return anyio.run(patiently)
    except Exception:  # noqa: BLE001  # a line that is being typed is no place for it
        return []
