"""Loggers, which load structlog when there is something to say: what only might say something need not pay for it."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

__all__ = ["bind", "get_logger"]


class _Logger:
    @cached_property
    def _structlogs(self) -> Any:
        return _structlog().get_logger()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._structlogs, name)


def get_logger() -> Any:
    """A logger of structlog's."""
    return _Logger()


def bind(**facts: object) -> None:
    """What every event of this task and of those that it starts has from now on."""
    _structlog().contextvars.bind_contextvars(**facts)


@cache
def _structlog() -> Any:
    from multikueue.telemetry.spared import structlog

    return structlog
