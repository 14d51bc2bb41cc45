"""What a worker's Kueue means when it calls a copy out of sync: the first field in which job and Workload differ."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.jobs.framework.difference import difference
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from tests.jobs.builders import ours, tree, with_spec, workload_of


def changed(**pods: Any) -> Any:
    """The job as a policy on the worker left it."""
    job = ours().build()
    template = tree(job.spec)["template"]
    spec = template["spec"]
    spec["containers"][0] |= pods.pop("container", {})
    return with_spec(job, template=template | {"spec": spec | pods})


CASES: dict[str, tuple[Any, str]] = {
    "the same": (changed(), ""),
    "another image": (changed(container={"image": "mirror/x"}), 'containers[0].image is "mirror/x"'),
    "another variable": (changed(container={"env": [{"name": "A", "value": "1"}]}), "containers[0].env is "),
    "a sidecar": (changed(initContainers=[{"name": "s", "image": "y"}]), "initContainers has 1 item"),
    "an overhead": (changed(overhead={"cpu": "4"}), "overhead.cpu is 4, and missing in its Workload"),
    "another amount": (changed(container={"resources": {"requests": {"cpu": "2500m"}}}), "requests.cpu is 2500m, and "),
    "another resource": (changed(container={"resources": {"limits": {"gpu": 1}}}), "resources"),
    "a runtime class": (changed(runtimeClassName="kata"), 'runtimeClassName is "kata"'),
    "more pods": (with_spec(ours().build(), parallelism=7, completions=7), "count is 7"),
}


@pytest.mark.parametrize(("job", "words"), [pytest.param(*case, id=name) for name, case in CASES.items()])
def test_the_first_field_that_differs_is_named(job: Any, words: str) -> None:
    found = difference(BATCH_JOB, job, workload_of(ours().build()))
    assert (words in found) if words else found == ""
    assert len(found) < 400
