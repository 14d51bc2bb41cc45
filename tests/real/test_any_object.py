"""Objects drawn from the real CustomResourceDefinitions: nothing raises and nothing is lost (see `tests.jobs.faithful`)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.jobs.declared import DeclaredJob
from multikueue.jobs.table import FRAMEWORKS
from testbed.crds import definitions
from tests.jobs.faithful import drawn_job, is_faithful
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


@pytest.mark.parametrize("framework", DECLARED)
@settings(max_examples=200)
@given(seed=st.integers(0, 2**32))
def test_no_object_of_a_real_definition_breaks_anything_or_loses_a_field(framework: str, seed: int) -> None:
    adapter, chance = DECLARED[framework], Random(seed)
    shape = schema(adapter)
    first, second = (drawn_job(chance, adapter, shape) for _ in range(2))
    is_faithful(adapter, first, other=second)
