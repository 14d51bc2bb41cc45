"""The example files of docs/examples: each is one job of a known kind with a queue, and counts as its first line says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import QUEUE_LABEL
from multikueue.api.meta import decoder, encode
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.integrations.frameworks import known_kind
from tests.jobs.builders import plain

FOLDER = Path(__file__).parents[2] / "docs" / "examples"
COUNTS = {
    "appwrapper": {"appwrapper-0": 2},
    "deployment": {"main": 2},
    "jaxjob": {"worker": 2},
    "job": {"main": 3},
    "jobset": {"leader": 1, "workers": 4},
    "mpijob": {"launcher": 1, "worker": 2},
    "paddlejob": {"worker": 2},
    "pod": {"main": 1},
    "pytorchjob": {"master": 1, "worker": 2},
    "raycluster": {"head": 1, "small": 2},
    "rayjob": {"head": 1, "small": 2, "submitter": 1},
    "rayservice": {"head": 1, "small": 2},
    "statefulset": {"main": 3},
    "tfjob": {"ps": 1, "worker": 2},
    "trainjob": {"node": 2},
    "xgboostjob": {"master": 1, "worker": 2},
}
"""The pods of each pod set."""

ELSEWHERE = {
    "deployment": "its Pods have Workloads",
    "trainjob": "its pods are those of a runtime",
}
"""What has no Workload that follows from the file alone. tests/simulator/test_examples.py runs these too."""


def workload_of(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job of a file as the manager reads it, and the Workload that it gets."""
    job = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    adapter = known_kind(job["apiVersion"], job["kind"])
    assert adapter is not None
    stored = {**job, "metadata": {**job["metadata"], "namespace": "default", "uid": "u"}}
    seen: AnyJob = decoder(adapter.kind.type)(encode(stored))
    return job, plain(adapter.workload_body(seen, priority=Priority()))


def test_each_file_is_in_the_table() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(COUNTS)


@pytest.mark.parametrize("name", [name for name in COUNTS if name not in ELSEWHERE])
def test_an_example_asks_for_what_it_says(name: str) -> None:
    job, made = workload_of(name)

    assert job["metadata"]["labels"] == {QUEUE_LABEL: "main"}
    assert made["spec"]["queueName"] == "main"
    assert {each["name"]: each["count"] for each in made["spec"]["podSets"]} == COUNTS[name]
