"""The kinds of one's own in docs/jobs.md: short, accepted as they stand, and of use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import Finish
from multikueue.api.meta import decoder, encode
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.roles import adapters_of
from multikueue.settings import Integrations, Settings
from tests.jobs.all_kinds import template
from tests.jobs.builders import plain, with_status

DOCS = Path(__file__).parents[2] / "docs" / "jobs.md"
BLOCKS = [each for each in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL) if "declared:" in each]
LONGEST = 30
"""Lines that a kind may take."""


def declared() -> dict[str, Adapter]:
    settings = [Settings.model_validate(yaml.safe_load(block)) for block in BLOCKS]
    return {
        adapter.kind.kind: adapter for each in settings for adapter in adapters_of(each) if adapter.kind.is_optional
    }


def documented(kind: str) -> tuple[Integrations, DeclaredJob]:
    """The declaration of the kind, as settings and as an adapter."""
    (block,) = [block for block in BLOCKS if f"{kind}.v" in block]
    adapter = declared()[kind]
    assert isinstance(adapter, DeclaredJob)
    return Settings.model_validate(yaml.safe_load(block)).integrations, adapter


def made(adapter: Adapter, spec: dict[str, Any]) -> AnyJob:
    whole = {"metadata": {"name": "job", "namespace": "default", "uid": "u"}, "spec": spec}
    seen: AnyJob = decoder(adapter.kind.type)(encode(whole))
    return seen


def pod_sets(adapter: Adapter, spec: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = plain(adapter.workload_body(made(adapter, spec), priority=Priority()))["spec"][
        "podSets"
    ]
    return found


def copied(adapter: Adapter, spec: dict[str, Any]) -> dict[str, Any]:
    """The spec of the copy on a worker."""
    body = adapter.remote_body(made(adapter, spec), workload_name="wl", origin="mk", attempt="now")
    found: dict[str, Any] = plain(body)["spec"]
    return found


def test_each_example_is_short() -> None:
    assert {*declared()} == {"Simulation", "SparkApplication"}
    for block in BLOCKS:
        assert len(block.splitlines()) - 2 <= LONGEST, block


def test_the_example_with_templates_has_a_pod_set_per_group() -> None:
    groups = [{"name": "a", "replicas": 2, "template": template()}, {"name": "b", "template": template()}]
    found = pod_sets(declared()["Simulation"], {"groups": groups})
    assert [(each["name"], each["count"]) for each in found] == [("a", 2), ("b", 1)]


SPARK: dict[str, Any] = {
    "suspend": True,
    "driver": {"cores": 1, "coreRequest": "500m", "memory": "512m", "template": {"spec": {"containers": []}}},
    "executor": {
        "instances": 3,
        "coreRequest": "2",
        "coreLimit": "2500m",
        "memory": "4g",
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    },
}


def test_the_example_with_fields_asks_for_what_they_say() -> None:
    driver, executor = pod_sets(declared()["SparkApplication"], SPARK)
    assert (driver["name"], driver["count"], executor["name"], executor["count"]) == ("driver", 1, "executor", 3)
    assert driver["template"]["spec"] == {
        "containers": [
            {"name": "spark-kubernetes-driver", "resources": {"requests": {"cpu": "500m", "memory": "896Mi"}}}
        ]
    }
    assert executor["template"]["spec"] == {
        "containers": [
            {
                "name": "spark-kubernetes-executor",
                "resources": {"requests": {"cpu": "2", "memory": "6012954215"}, "limits": {"cpu": "2500m"}},
            }
        ],
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    }


AS_PUBLISHED: dict[str, Any] = {
    "suspend": True,
    "mode": "cluster",
    "driver": {"cores": 1, "memory": "512m", "serviceAccount": "spark"},
    "executor": {"cores": 2, "instances": 3, "memory": "4g"},
}
"""Nearly every public one names its cores alone."""


def test_cores_stand_for_a_request_of_them() -> None:
    adapter = declared()["SparkApplication"]
    said = [each["template"]["spec"]["containers"][0]["resources"] for each in pod_sets(adapter, AS_PUBLISHED)]
    assert said == [{"requests": {"cpu": "1", "memory": "896Mi"}}, {"requests": {"cpu": "2", "memory": "6012954215"}}]
    assert copied(adapter, AS_PUBLISHED) == AS_PUBLISHED


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"dynamicAllocation": {"enabled": False}}, None),
        (
            {"dynamicAllocation": {"enabled": True, "maxExecutors": 10}},
            "spec.dynamicAllocation.enabled: the quota is that of the instances it names",
        ),
        ({"executor": {"cores": 1}}, "spec.executor.instances: name how many executors take quota"),
        ({"mode": "client"}, "spec.mode: expected cluster in a queue"),
    ],
)
def test_what_kueue_refuses_is_refused_with_the_reason(change: dict[str, Any], expected: str | None) -> None:
    adapter = declared()["SparkApplication"]
    raw = encode({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "main"}}, "spec": AS_PUBLISHED | change})
    assert adapter.refusal(adapter.submitted(raw)) == expected  # type: ignore[arg-type]


def test_a_kind_without_a_manager_is_always_ours() -> None:
    adapter = declared()["SparkApplication"]
    job = made(adapter, SPARK | {"timeToLiveSeconds": 5})
    assert adapter.unmanaged_reason(job) is None
    assert copied(adapter, SPARK | {"timeToLiveSeconds": 5}) == SPARK
    raw = encode({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "main"}}, "spec": {}})
    submitted = adapter.submitted(raw)  # type: ignore[arg-type]
    assert adapter.defaults(submitted, is_multikueue_queue=True) == [
        {"op": "add", "path": "/spec/suspend", "value": True}
    ]


@pytest.mark.parametrize(
    ("state", "active", "finish"),
    [
        ("", False, None),
        ("RUNNING", True, None),
        ("COMPLETED", False, Finish(reason="Succeeded", message="")),
        ("SUBMISSION_FAILED", False, Finish(reason="Failed", message="")),
    ],
)
def test_its_states_are_those_of_its_operator(state: str, active: bool, finish: Finish | None) -> None:
    adapter = declared()["SparkApplication"]
    job = with_status(made(adapter, SPARK), {"applicationState": {"state": state}})
    assert (adapter.is_active(job), adapter.finished(job)) == (active, finish)


def test_the_table_names_each_framework() -> None:
    text = DOCS.read_text()
    assert all(name.rpartition("/")[2] in text for name in FRAMEWORKS)
