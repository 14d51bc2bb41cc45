"""Objects drawn from the real CustomResourceDefinitions: nothing raises and nothing is lost (see `tests.jobs.faithful`)."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakekube.builtins.builtin_schemas import schema_of
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from testbed.crds import definitions
from tests.jobs.faithful import drawn_job, is_faithful
from tests.jobs.kinds.pods.faithful import drawn_pod, is_faithful_group, is_faithful_pod
from tests.real.skipping import needs_programs

pytestmark = [pytest.mark.real, pytest.mark.timeout(180), needs_programs("the definitions are in its modules")]

DECLARED = {name: adapter for name, adapter in FRAMEWORKS.items() if isinstance(adapter, DeclaredJob)}
GROUPS = ("jobset", "kubeflow", "mpi", "ray", "trainer", "appwrapper")


def schema(adapter: DeclaredJob) -> Any:
    """Of the version that we use."""
    kind = adapter.kind
    names = {crd["metadata"]["name"]: crd for group in GROUPS for crd in definitions(group)}
    versions = names[f"{kind.plural}.{kind.group}"]["spec"]["versions"]
    return next(each["schema"]["openAPIV3Schema"] for each in versions if each["name"] == kind.version)


@cache
def pod_schema() -> Any:
    """Of a Pod, with the spec that JobSet's definition has for those of its templates."""
    known: Any = schema(DECLARED["jobset.x-k8s.io/jobset"])
    for field in ("spec", "replicatedJobs", "template", "spec", "template", "spec"):
        inner = known["properties"][field]
        known = inner.get("items", inner)
    return {"properties": {"spec": known, "status": schema_of("", "v1", "Pod")["properties"]["status"]}}


@pytest.mark.parametrize("framework", DECLARED)
@settings(max_examples=200)
@given(seed=st.integers(0, 2**32))
def test_no_object_of_a_real_definition_breaks_anything_or_loses_a_field(framework: str, seed: int) -> None:
    adapter, chance = DECLARED[framework], Random(seed)
    shape = schema(adapter)
    first, second = (drawn_job(chance, adapter, shape) for _ in range(2))
    is_faithful(adapter, first, other=second)


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 3))
def test_no_pod_or_group_of_a_real_spec_breaks_anything_or_loses_a_field(seed: int, size: int) -> None:
    chance, shape = Random(seed), pod_schema()
    first, second = ([drawn_pod(chance, shape, name=name, members=size) for name in "abc"[:size]] for _ in range(2))
    is_faithful_group(first, others=second)
    is_faithful_pod(drawn_pod(chance, shape), other=drawn_pod(chance, shape))
