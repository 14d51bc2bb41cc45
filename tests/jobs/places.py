"""Flavors, and workloads that were admitted in them."""

from __future__ import annotations

from typing import Any

import msgspec

from fakekube.server.patching.patches import merge_patch
from multikueue.api.kueue.queues import ResourceFlavor
from multikueue.api.kueue.workload import Admission, AdmissionCheckState, PodSetAssignment, Workload, workload_spec
from multikueue.api.meta import encode
from tests.builders import WorkloadBuilder, flavor
from tests.jobs.builders import become, plain

Tree = dict[str, Any]

BLUE = flavor("blue").node_labels(pool="blue").tolerate("blue", operator="Exists").build()
RED = flavor("red").node_labels(pool="red").build()
FLAVORS: dict[str, ResourceFlavor] = {"blue": BLUE, "red": RED, "any": flavor("any").build()}
TOLERATION = {"key": "blue", "operator": "Exists", "effect": "NoSchedule"}
"""What the flavor `blue` lets its pods tolerate."""


def admitted(seen: Workload, count: int | None = None, /, **flavors: str) -> Workload:
    """The Workload with quota for all of its pod sets, or so many pods of each: resource to flavor, else cpu of blue."""
    sets = workload_spec(seen).pod_sets
    given = tuple(
        PodSetAssignment(name=each.name, flavors=flavors or {"cpu": "blue"}, count=count or each.count) for each in sets
    )
    seen = become(become(seen, WorkloadBuilder.reserved), WorkloadBuilder.admitted)
    status = msgspec.structs.replace(
        seen.status, admission=Admission(cluster_queue="cq", pod_set_assignments=given), cluster_name=None
    )
    return msgspec.structs.replace(seen, status=status)


def told(seen: Workload, *updates: Tree) -> Workload:
    """The Workload with a check for each of these podSetUpdates."""
    checks = tuple(
        AdmissionCheckState(name=f"check{n}", state="Ready", message="", pod_set_updates=msgspec.Raw(encode([update])))
        for n, update in enumerate(updates)
    )
    return msgspec.structs.replace(seen, status=msgspec.structs.replace(seen.status, admission_checks=checks))


def applied(seen: Any, patch: Tree) -> Any:
    """The object after that merge patch."""
    return msgspec.json.decode(encode(merge_patch(plain(seen), plain(patch))), type=type(seen))
