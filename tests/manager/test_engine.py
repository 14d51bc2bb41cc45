"""The quota engine by its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from multikueue.manager.engine import engine_of
from multikueue.quota.engine import Engine
from multikueue.quota.requests.devices import DeviceRules
from multikueue.quota.workload.outcome import Reasons
from multikueue.settings import Quota
from tests.builders import NOW, cluster_queue, flavor, local_queue, namespace, workload


def requests_counted(engine: Engine, **asked: Any) -> Mapping[str, int]:
    """What one pending workload with such pods counts as."""
    queues = (cluster_queue("cq").quota("default", cpu=1), local_queue("lq", "cq"))
    pending = workload("pending").queue("lq").request(**asked).build()
    for value in (namespace("default").build(), flavor("default").build(), *(each.build() for each in queues), pending):
        engine.observe(None, value, NOW)
    found = engine.view.pending_workload(pending.key)
    assert found is not None
    (pod_set,) = found.demand.pod_sets
    return pod_set.requests


@pytest.mark.parametrize(
    ("settings", "counted"),
    [
        ({}, {"gpu": 2, "net": 1}),
        ({"exclude_resource_prefixes": ["ne"]}, {"gpu": 2}),
        ({"transformations": [{"input": "gpu", "outputs": {"credits": "40"}}]}, {"gpu": 2, "credits": 80, "net": 1}),
        (
            {"transformations": [{"input": "gpu", "outputs": {"credits": "40"}, "strategy": "Replace"}]},
            {"credits": 80, "net": 1},
        ),
    ],
    ids=["as they are", "without an excluded resource", "retained beside its output", "replaced by its output"],
)
def test_requests_count_as_the_settings_say(settings: dict[str, Any], counted: dict[str, int]) -> None:
    assert requests_counted(engine_of(Quota.model_validate(settings)), gpu=2, net=1) == counted


@pytest.mark.parametrize(
    ("settings", "minded"),
    [
        ({}, True),
        ({"compatibility": "0.18"}, False),
        ({"compatibility": "0.16", "admission_gates": True}, True),
        ({"admission_gates": False}, False),
    ],
)
def test_admission_gates_hold_work_back_as_in_the_release_unless_told_otherwise(
    settings: dict[str, Any], minded: bool
) -> None:
    assert engine_of(Quota.model_validate(settings)).rules.should_check_gates == minded


@pytest.mark.parametrize(
    ("settings", "reasons"),
    [
        ({}, Reasons()),
        ({"unadmitted_reasons": True}, Reasons(is_granular=True)),
        ({"unadmitted_reasons": True, "explicit_status": True}, Reasons(is_granular=True, is_explicit=True)),
    ],
)
def test_workloads_say_why_they_wait_as_the_settings_say(settings: dict[str, Any], reasons: Reasons) -> None:
    assert engine_of(Quota.model_validate(settings)).rules.reasons == reasons


@pytest.mark.parametrize(
    ("settings", "rules"),
    [
        ({}, DeviceRules()),
        ({"compatibility": "0.18"}, DeviceRules(has_extended=False)),
        (
            {"compatibility": "0.16"},
            DeviceRules(is_counting=False, should_refuse=False, has_extended=False, has_details=False),
        ),
        (
            {"compatibility": "0.16", "dra": {"enabled": True}},
            DeviceRules(should_refuse=False, has_extended=False, has_details=False),
        ),
        ({"dra": {"enabled": False}}, DeviceRules(is_counting=False)),
        (
            {"dra": {"enabled": False, "extended_resources": False}},
            DeviceRules(is_counting=False, has_extended=False),
        ),
        (
            {"dra": {"device_class_mappings": [{"name": "gpu", "device_class_names": ["a", "b"]}]}},
            DeviceRules(of_class={"a": "gpu", "b": "gpu"}),
        ),
    ],
    ids=[
        "as in the newest release",
        "without extended resources as in 0.18",
        "not at all as in 0.16",
        "in 0.16 where it is on",
        "refused where it is off",
        "refused where all of it is off",
        "by class",
    ],
)
def test_devices_count_as_in_the_release_unless_told_otherwise(settings: dict[str, Any], rules: DeviceRules) -> None:
    assert engine_of(Quota.model_validate(settings)).devices == rules
