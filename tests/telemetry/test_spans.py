from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import SimpleQueue
from threading import Thread
from threading import enumerate as enumerate_threads
from time import monotonic
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from multikueue.errors import ConfigurationError
from multikueue.telemetry.spans import MOST_WAITING, EndedSpan, SpanSink

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
RUN = EndedSpan(
    name="run",
    trace="0123456789abcdef0123456789abcdef",
    id="0123456789abcdef",
    parent="fedcba9876543210",
    start=NOW,
    end=NOW + timedelta(seconds=2),
    facts={"multikueue.cluster": "east", "multikueue.queue": ""},
    problem="Preempted: by another",
)


@contextmanager
def collector() -> Iterator[tuple[str, SimpleQueue[Any]]]:
    """A collector that takes OTLP in, and what it has taken."""
    taken: SimpleQueue[Any] = SimpleQueue()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.put(ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", taken
        server.shutdown()


def test_a_collector_gets_a_span_as_it_was_told() -> None:
    with collector() as (address, taken):
        sink = SpanSink(address)
        sink.take(RUN)
        sink.close()
        (resource,) = taken.get(timeout=10).resource_spans
    (span,) = resource.scope_spans[0].spans
    assert (span.name, span.trace_id.hex(), span.span_id.hex()) == ("run", RUN.trace, RUN.id)
    assert span.parent_span_id.hex() == RUN.parent
    assert span.end_time_unix_nano - span.start_time_unix_nano == 2_000_000_000
    assert {each.key: each.value.string_value for each in span.attributes} == {"multikueue.cluster": "east"}
    assert (span.status.code, span.status.message) == (2, "Preempted: by another")
    service = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert service["service.name"] == "multikueue"


def test_a_collector_that_is_away_holds_up_nobody() -> None:
    sink = SpanSink("http://127.0.0.1:9/v1/traces")
    began = monotonic()
    for _ in range(2 * MOST_WAITING):
        sink.take(RUN)
    sink.close()
    assert monotonic() - began < 20
    assert not [each for each in enumerate_threads() if each.name == "spans"]


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'multikueue\[traces\]'"):
        SpanSink("http://127.0.0.1:9/v1/traces")
