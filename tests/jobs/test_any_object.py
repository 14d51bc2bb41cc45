"""Objects drawn from schemas: whatever a job has in it, nothing raises and nothing is lost (see `faithful`)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fakekube.builtins.builtin_schemas import schema_of
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.integrations.frameworks import FRAMEWORKS, GATED
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from tests.jobs.faithful import drawn_job, is_faithful, placed
from tests.jobs.kinds.pods.faithful import drawn_pod, is_faithful_group, is_faithful_pod

BATCH: Any = schema_of("batch", "v1", "Job")
TEMPLATE = BATCH["properties"]["spec"]["properties"]["template"]


def validated(schema: Any) -> Any:
    """The schema of batch Jobs with as much of what their validation demands beside it as decides about their shape."""
    if isinstance(schema, list):
        return [validated(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    stricter = {name: validated(each) for name, each in schema.items()}
    if schema.get("type") == "integer":
        stricter["minimum"] = 0
    if schema.get("type") == "object":
        stricter["required"] = [name for name in ("template", "type", "status") if name in schema.get("properties", {})]
    return stricter


def schema(adapter: Adapter) -> Any:
    """The API server's own for batch Jobs; for declared kinds what their declarations say of them."""
    return placed(adapter.declared, TEMPLATE) if isinstance(adapter, DeclaredJob) else validated(BATCH)


KINDS = [name for name in FRAMEWORKS if name not in GATED]
"""The others have no fields to hold them or to say who manages them: Pods have invariants of their own,
and `test_stateful_set`."""
POD: Any = schema_of("", "v1", "Pod")
SCHEMAS = {name: schema(FRAMEWORKS[name]) for name in KINDS}


@pytest.mark.parametrize("framework", KINDS)
@settings(max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_no_object_breaks_anything_or_loses_a_field(framework: str, seed: int) -> None:
    adapter, chance = FRAMEWORKS[framework], Random(seed)
    first, second = (drawn_job(chance, adapter, SCHEMAS[framework]) for _ in range(2))
    is_faithful(adapter, first, other=second)


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_no_pod_breaks_anything_or_loses_a_field(seed: int) -> None:
    chance = Random(seed)
    first, second = (drawn_pod(chance, validated(POD)) for _ in range(2))
    is_faithful_pod(first, other=second)


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 3))
@example(seed=454952, size=1)  # a port 0 beside one without a number
@example(seed=931419398, size=3)  # two claims of one name
def test_no_group_of_pods_breaks_anything_or_loses_a_field(seed: int, size: int) -> None:
    chance, schema = Random(seed), validated(POD)
    first, second = ([drawn_pod(chance, schema, name=name, members=size) for name in "abc"[:size]] for _ in range(2))
    is_faithful_group(first, others=second)


@pytest.mark.parametrize("framework", KINDS)
def test_a_megabyte_is_no_matter(framework: str) -> None:
    adapter = FRAMEWORKS[framework]
    made = drawn_job(Random(1), adapter, SCHEMAS[framework])
    made["metadata"]["name"] = "n" * 253
    made["spec"]["blob"] = {"text": "\\" * 2**20, "numbers": [0.1, 1e300, -(2**63), 2**70]}
    is_faithful(adapter, made | {"status": {"x": ["y" * 2**20]}}, other=made | {"status": {"x": 1.5}})


def test_a_batch_job_may_say_of_its_conditions_what_it_likes() -> None:
    """No API server looks at it: the status of a condition is any text."""
    made = drawn_job(Random(1), FRAMEWORKS["batch/job"], SCHEMAS["batch/job"])
    is_faithful(FRAMEWORKS["batch/job"], made | {"status": {"conditions": [{"type": "Odd", "status": "maybe"}]}})
