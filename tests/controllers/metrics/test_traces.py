"""The trace of a workload, with the whole manager over clusters in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from multikueue.api import kinds
from multikueue.api.kueue.trace_context import TRACEPARENT_ANNOTATION, trace_id, traceparent
from multikueue.telemetry.spans import SpanSink
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio


class Traced:
    """A manager with traces, and the spans that it has told."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._sink = SpanSink("", self._exporter)
        self.world: Table = table(spans=self._sink)

    def spans(self) -> Sequence[ReadableSpan]:
        self._sink.close()
        return self._exporter.get_finished_spans()


def tree(spans: Sequence[ReadableSpan]) -> dict[str, list[str]]:
    """The names of spans by the name of their parent."""
    names = {each.context.span_id: each.name for each in spans if each.context}
    found: dict[str, list[str]] = {}
    for each in spans:
        found.setdefault(names.get(each.parent.span_id, "?") if each.parent else "", []).append(each.name)
    return {parent: sorted(children) for parent, children in found.items()}


def facts(spans: Sequence[ReadableSpan], name: str, fact: str) -> list[str]:
    return sorted(str((each.attributes or {}).get(f"multikueue.{fact}", "")) for each in spans if each.name == name)


async def test_a_workload_that_ran_is_one_tree_over_all_clusters() -> None:
    traced = Traced()
    world = traced.world
    await world.begin()
    world.run("w1")
    await world.settle()
    uid = world.workload()["metadata"]["uid"]
    world.finish("w1")
    await world.settle()
    spans = traced.spans()
    assert tree(spans) == {
        "": ["workload"],
        "workload": ["attempt", "wait"],
        "attempt": ["copy", "copy", "copy", "dispatch", "run"],
    }
    assert {f"{each.context.trace_id:032x}" for each in spans if each.context} == {trace_id(uid)}
    assert facts(spans, "copy", "cluster") == ["w1", "w2", "w3"]
    assert facts(spans, "copy", "admitted") == ["false", "false", "true"]
    assert facts(spans, "run", "cluster") == ["w1"]
    assert {each.status.status_code for each in spans} == {StatusCode.UNSET}


async def test_an_eviction_ends_its_attempt_with_a_status_and_the_next_one_follows() -> None:
    traced = Traced()
    world = traced.world
    await world.begin()
    world.evict("w1")
    await world.settle()
    first = [each for each in traced.spans() if each.name == "attempt"]
    assert [each.status.status_code for each in first] == [StatusCode.ERROR]
    assert facts(first, "attempt", "cluster") == ["w1"]


async def test_a_copy_names_the_trace_of_its_workload() -> None:
    world = Traced().world
    world.submit()
    await world.settle()
    uid = world.workload()["metadata"]["uid"]
    for cluster in world.workers.values():
        (copy,) = cluster.all(kinds.WORKLOADS)
        assert copy["metadata"]["annotations"][TRACEPARENT_ANNOTATION] == traceparent(uid)


async def test_without_traces_there_is_nothing_of_them() -> None:
    world = table()
    world.submit()
    await world.settle()
    (copy,) = world.workers["w1"].all(kinds.WORKLOADS)
    assert TRACEPARENT_ANNOTATION not in copy["metadata"]["annotations"]
    observers = [look for look, _ in world.store.workloads._looks]
    assert {type(getattr(each, "__self__", None)).__name__ for each in observers} == {"Observer"}
