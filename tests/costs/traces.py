"""What traces add to one job: where they are off, against a manager without a line for them; and where they are on."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from multikueue.controllers.workers.connection import outbox
from multikueue.manager import life
from multikueue.telemetry.spans import SpanSink
from tests.costs.counting import DECODES, FUNCTIONS
from tests.costs.fleet import COPIES, STRATEGIES, Costs, counted_anew

__all__ = ["ENDPOINT", "HOOK", "Found", "as_markdown", "measure"]

ENDPOINT = "http://collector:4318/v1/traces"

WORKERS, JOBS = COPIES, 2

HOOK, WITHOUT = "self._traced(action.body, key) if self._is_traced else action.body", "action.body"
"""The only line for traces that a job meets, and what it is without them."""


@dataclass(frozen=True, slots=True)
class Found:
    """Counts by strategy: `bare` without a line for traces, `off` and `on`; and how many spans all jobs had."""

    bare: Mapping[str, Costs]
    off: Mapping[str, Costs]
    on: Mapping[str, Costs]
    spans: int


@cache
def measure() -> Found:
    counted_anew(WORKERS, JOBS)  # what is computed once in a process is no part of a job
    with _without():
        bare = counted_anew(WORKERS, JOBS)
    off = counted_anew(WORKERS, JOBS)
    exporters: list[InMemorySpanExporter] = []
    sinks: list[SpanSink] = []

    def sink(endpoint: str) -> SpanSink:
        exporters.append(InMemorySpanExporter())
        sinks.append(SpanSink(endpoint, exporters[-1]))
        return sinks[-1]

    with patch.object(life, "SpanSink", sink):
        counted_anew(WORKERS, JOBS, traces=ENDPOINT)
        on = counted_anew(WORKERS, JOBS, traces=ENDPOINT)
    for each in sinks:
        each.close()  # a manager that is cancelled does not wait until all is sent
    return Found(bare, off, on, len(exporters[-1].get_finished_spans()))


@contextmanager
def _without() -> Iterator[None]:
    """A manager of which the lines for traces were deleted. Raises ValueError if they are not there."""
    create = outbox.Outbox._create_workload
    text = textwrap.dedent(inspect.getsource(create))
    if HOOK not in text:
        raise ValueError(f"there is no {HOOK!r} any more")
    made: dict[str, Any] = {}
    exec(
        compile(text.replace(HOOK, WITHOUT), inspect.getsourcefile(create) or "", "exec"), vars(outbox), made
    )  # our own text
    with (
        patch.object(outbox.Outbox, "_create_workload", made["_create_workload"]),
        patch.object(life.Manager, "_trace", lambda *_: None),
    ):
        yield


def as_markdown(found: Found) -> str:
    """A table: what one job costs on the average."""
    shown = (FUNCTIONS, DECODES, "manager writes", "worker writes")
    lines = [f"| Strategy | Traces | {' | '.join(shown)} |", f"| --- | --- |{' --: |' * len(shown)}"]
    for strategy in STRATEGIES:
        if not strategy.takes_all:
            for how, costs in (("no line for them", found.bare), ("off", found.off), ("on", found.on)):
                cells = (f"{costs[strategy.name].get(what, 0):,.0f}" for what in shown)
                lines.append(f"| {strategy.name} | {how} | {' | '.join(cells)} |")
    return "\n".join(lines)
