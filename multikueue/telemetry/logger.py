"""Loggers that load structlog with the first event, so that modules that rarely log import fast."""

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
    """A structlog logger, loaded on first use."""
    return _Logger()


def bind(**facts: object) -> None:
    """Add fields to all later events of this task and of the tasks that it starts."""
    _structlog().contextvars.bind_contextvars(**facts)


@cache
def _structlog() -> Any:
    from multikueue.telemetry.spared import structlog

    return structlog
