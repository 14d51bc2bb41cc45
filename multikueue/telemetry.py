"""Logs and counters: how the shell says what happened.

Logs are events with fields, named `noun.verb` (`workload.dispatched`, `reconcile.failed`): `structlog.get_logger()`
where one is needed, facts as keyword arguments, what holds for a whole reconcile bound once as context. A field holds a
plain value, a key as `str(key)`; what JSON does not know becomes its `str`.

Counters live in a `Metrics` that is handed in, never in globals. The pure rooms use neither.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, BinaryIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from multikueue.settings import Log

__all__ = ["Metrics", "configure"]


def configure(log: Log, *, stream: BinaryIO | None = None) -> None:
    """Sets up the logs of the process: JSON lines, or lines for people with colours only on a terminal.

    Events below the level cost less than a microsecond: their methods do nothing. Writes to `stream`, else to standard
    error. What libraries log by the standard library goes the same way, from warnings up.
    """
    out = stream or sys.stderr.buffer
    terminal = out.isatty()
    as_json = log.format == "json" or (log.format == "auto" and not terminal)
    structlog.configure(
        processors=[*_COMMON, *(_json() if as_json else _console(colors=terminal))],
        wrapper_class=structlog.make_filtering_bound_logger(log.level),
        context_class=dict,
        logger_factory=structlog.BytesLoggerFactory(out),
        cache_logger_on_first_use=True,
    )
    _route_libraries()


class Metrics:
    """Counters by name and labels. One event loop owns it; reading takes a copy.

    A name is a noun in the plural, such as `api_calls`; labels are values in an order that the name implies, such as
    cluster, verb, kind and outcome.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, ...]] = Counter()

    def count(self, name: str, *labels: str, by: int = 1) -> None:
        self._counts[name, *labels] += by

    def get(self, name: str, *labels: str) -> int:
        """The sum over all counters of that name whose labels begin with these."""
        wanted = (name, *labels)
        return sum(count for key, count in self._counts.items() if key[: len(wanted)] == wanted)

    def snapshot(self) -> Mapping[tuple[str, ...], int]:
        """All counters now, by name and labels, sorted."""
        return dict(sorted(self._counts.items()))


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)


def _to_json(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    return _encode(event)


def _to_bytes(_logger: WrappedLogger, _method: str, event: Any) -> bytes:
    return str(event).encode()


_COMMON: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def _json() -> tuple[Processor, ...]:
    return (structlog.processors.format_exc_info, _to_json)


def _console(*, colors: bool) -> tuple[Processor, ...]:
    renderer = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    return (renderer, _to_bytes)


class _Libraries(logging.Handler):
    """Hands a record of the standard library to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger().log(
            record.levelno,
            "library.logged",
            logger=record.name,
            message=record.getMessage(),
            exc_info=record.exc_info,
        )


def _route_libraries() -> None:
    logging.basicConfig(handlers=[_Libraries()], level=logging.WARNING, force=True)
