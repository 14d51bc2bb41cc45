from __future__ import annotations

import re

from multikueue.api.kueue.trace_context import span_id, trace_id, traceparent


def test_a_header_is_as_w3c_has_it_and_the_same_in_each_process() -> None:
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", traceparent("uid"))
    assert traceparent("uid") == f"00-{trace_id('uid')}-{span_id('uid', 'workload')}-01"


def test_spans_of_a_workload_differ_and_those_of_another_one_too() -> None:
    assert len({span_id("a"), span_id("a", "run"), span_id("a", "run", "1"), span_id("b"), span_id("b", "run")}) == 5
