"""Configures the logs of the process: JSON lines, or lines for people.

A log event has a name `noun.verb` (`leadership.gained`, `reconcile.failed`) and fields. Modules call `get_logger()`
and pass fields as keyword arguments; fields of a whole reconcile are bound once as context. A field has a plain value,
a key as `str(key)`; a value that JSON cannot express becomes its `str`. docs/metrics.md lists the events.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from multikueue.telemetry.sink import STDERR
from multikueue.telemetry.spared import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

    from multikueue.settings import Log

__all__ = ["configure", "set_level"]


def configure(log: Log, *, stream: BinaryIO | None = None) -> None:
    """Configure the logs of the process: JSON lines, or lines for people. Colours only on a terminal, and never if
    NO_COLOR is set (no-color.org).

    Events below the level cost less than a microsecond: their methods do nothing. The logs go to `stream`, by default
    to standard error, together with the warnings and errors that libraries log by the standard library. On standard
    error a log never blocks and never raises (`sink`).
    """
    out: Any = stream or STDERR
    terminal = stream.isatty() if stream else sys.stderr is not None and sys.stderr.isatty()
    as_json = log.format == "json" or (log.format == "auto" and not terminal)
    set_level(log.level)
    structlog.configure(
        processors=[
            *_COMMON,
            *(
                (structlog.processors.format_exc_info, _to_json)
                if as_json
                else _console(has_colors=terminal and not os.environ.get("NO_COLOR"))
            ),
        ],
        wrapper_class=_Logger,
        context_class=dict,
        logger_factory=structlog.BytesLoggerFactory(out),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_Libraries()], level=logging.WARNING, force=True)


class _Logger(structlog.make_filtering_bound_logger(logging.DEBUG)):  # type: ignore[misc]  # a class made on the spot
    """The class of all loggers. structlog caches loggers, so a change of the level changes their class."""


def set_level(level: str) -> None:
    """Set the lowest level shown, for all existing and future loggers."""
    for name, method in vars(structlog.make_filtering_bound_logger(level)).items():
        if not name.startswith("__"):
            setattr(_Logger, name, method)


def _to_json(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    return msgspec.json.encode(event, enc_hook=str)


def _to_bytes(_logger: WrappedLogger, _method: str, event: Any) -> bytes:
    return str(event).encode()


_COMMON: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def _console(*, has_colors: bool) -> tuple[Processor, ...]:
    renderer = structlog.dev.ConsoleRenderer(colors=has_colors, exception_formatter=structlog.dev.plain_traceback)
    return (renderer, _to_bytes)


class _Libraries(logging.Handler):
    """Hands a record of the standard library to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        # The event loop reports each broken connection; the call on that connection reports it better.
        broke = record.name == "asyncio" and message.startswith("Fatal error on ")
        structlog.get_logger().log(
            logging.DEBUG if broke else record.levelno,
            "library.logged",
            logger=record.name,
            message=message,
            exc_info=record.exc_info,
        )
