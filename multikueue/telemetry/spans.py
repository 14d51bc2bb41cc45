"""Spans on their way to a collector: OpenTelemetry's own exporter and queue, loaded only where traces are on.

Who takes part in dispatch hands over a span that has ended and goes on: a thread of OpenTelemetry's sends it, and its queue
drops what does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Thread
from typing import Any

from multikueue.errors import ConfigurationError

__all__ = ["MOST_WAITING", "EndedSpan", "SpanSink"]

MOST_WAITING = 4096
"""Spans that wait to be sent."""

TIMEOUT = 10.0
"""Seconds for one request to the collector, its repetitions included."""

AT_END = 2.0
"""Seconds for which the end of the process waits for spans that are not sent yet."""


@dataclass(frozen=True, slots=True)
class EndedSpan:
    """A span that has ended. Identifiers are in hex, `parent` is empty for the first one. `problem`: why it failed."""

    name: str
    trace: str
    id: str
    parent: str
    start: datetime
    end: datetime
    facts: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


class SpanSink:
    """Takes spans in without a wait. `exporter`: OpenTelemetry's, by default OTLP over HTTP to the endpoint.

    Raises ConfigurationError if the extra `traces` is not installed.
    """

    def __init__(self, endpoint: str, exporter: Any = None) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise ConfigurationError("traces.endpoint needs the extra: pip install 'multikueue[traces]'") from None
        self._exporter = exporter or OTLPSpanExporter(endpoint=endpoint, timeout=TIMEOUT)
        self._processor = BatchSpanProcessor(self._exporter, max_queue_size=MOST_WAITING)
        self._resource = Resource.create({"service.name": "multikueue"})

    def take(self, span: EndedSpan) -> None:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import Status, StatusCode

        ended = ReadableSpan(
            name=span.name,
            context=_context(span.trace, span.id),
            parent=_context(span.trace, span.parent) if span.parent else None,
            resource=self._resource,
            attributes={name: value for name, value in span.facts.items() if value},
            status=Status(StatusCode.ERROR, span.problem) if span.problem else Status(StatusCode.UNSET),
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(max(span.start, span.end)),
        )
        self._processor.on_end(ended)

    def close(self) -> None:
        """Send what waits, for a short time at most."""
        ending = Thread(target=self._processor.shutdown, name="spans", daemon=True)
        ending.start()
        ending.join(AT_END)
        if ending.is_alive():  # it waits between two attempts to reach the collector
            self._exporter.shutdown()
            ending.join(AT_END)


def _context(trace: str, span: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000) * 1_000_000
