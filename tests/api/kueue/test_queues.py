"""Which quotas of a ClusterQueue are in force."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.kueue.queues import ClusterQueue
from multikueue.api.meta import decoder, encode


def group(flavor: str) -> dict[str, Any]:
    return {
        "coveredResources": ["cpu"],
        "flavors": [{"name": flavor, "resources": [{"name": "cpu", "nominalQuota": 1}]}],
    }


REF = {"apiGroup": "kueue.x-k8s.io", "kind": "DynamicQuotaOrchestrator", "name": "all"}

STATUSES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "the spec's, where nobody wrote others": ({}, ["spec"]),
    "those of an orchestrator": (
        {"effectiveQuotas": {"orchestratorRef": REF, "resourceGroups": [group("written")]}},
        ["written"],
    ),
    "none, where an orchestrator wrote an empty list": (
        {"effectiveQuotas": {"orchestratorRef": REF, "resourceGroups": []}},
        [],
    ),
}


@pytest.mark.parametrize(("status", "flavors"), STATUSES.values(), ids=STATUSES)
def test_the_quotas_in_force(status: dict[str, Any], flavors: list[str]) -> None:
    queue = decoder(ClusterQueue)(encode({"spec": {"resourceGroups": [group("spec")]}, "status": status}))

    assert [flavor.name for each in queue.resource_groups_in_force for flavor in each.flavors] == flavors
