"""Amounts below zero in templates: whatever the template is, nothing raises."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.jobs.trees.templates import negative_amounts

ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(["-5", "1Gi"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["requests", "limits", "resources", "cpu", "overhead"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(spec=st.dictionaries(st.sampled_from(["containers", "initContainers", "resources", "overhead"]), ODD))
def test_no_template_breaks_it(spec: dict[str, Any]) -> None:
    list(negative_amounts({"name": "main", "template": {"spec": spec}}))


@pytest.mark.parametrize("amount", ["0", "-0", 0, "1", "500m", "much", None, [], "+3"])
def test_what_is_not_below_zero_is_no_problem(amount: Any) -> None:
    container = {"resources": {"requests": {"cpu": amount}}}
    assert list(negative_amounts({"name": "main", "template": {"spec": {"containers": [container]}}})) == []


@pytest.mark.parametrize("amount", ["-50", "-1n", "-.5", "-1e3", -3, -0.5, "-9E"])
def test_what_is_below_zero_is_told_as_it_was_written(amount: Any) -> None:
    container = {"resources": {"limits": {"nvidia.com/gpu": amount}}}
    assert list(negative_amounts({"name": "main", "template": {"spec": {"initContainers": [{}, container]}}})) == [
        f"pods main: spec.initContainers[1].resources.limits[nvidia.com/gpu]: expected 0 or more, got {amount!r}"
    ]
