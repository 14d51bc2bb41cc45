"""What the objects of a cluster say, in the form in which stories expect it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from multikueue.api import kinds
from multikueue.api.kind import Kind
from tests.parity.story import Object

CONDITIONS = ("QuotaReserved", "Admitted", "Evicted", "Preempted", "Requeued", "Finished", "DeactivationTarget")
UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Objects(Protocol):
    """Where all objects of a kind can be had."""

    def all(self, kind: Kind[Any], /) -> Iterable[Object]: ...


@dataclass(frozen=True, slots=True)
class Shot:
    """What there was at one moment, by the names of kinds."""

    objects: Mapping[str, Iterable[Object]]

    def all(self, kind: Kind[Any], /) -> Iterable[Object]:
        return self.objects.get(kind.kind, ())


def state(site: Objects) -> Object:
    """All workloads, queues and cohorts by name, as the `expect` of a step."""
    return {
        "workloads": _by_name(site.all(kinds.WORKLOADS), _workload),
        "clusterQueues": _by_name(site.all(kinds.CLUSTER_QUEUES), _cluster_queue),
        "localQueues": _by_name(site.all(kinds.LOCAL_QUEUES), _local_queue),
        "cohorts": _by_name(site.all(kinds.COHORTS), _weighted_share),
    }


def one(kind: str, item: Object) -> Object:
    """What is told of one object of a kind that stories tell of."""
    return _TOLD[kind](item)


def messages(site: Objects) -> dict[str, str]:
    """Why workloads have no quota, by name, with UID in the place of each."""
    found: dict[str, str] = {}
    for workload in site.all(kinds.WORKLOADS):
        for condition in workload.get("status", {}).get("conditions", ()):
            if condition["type"] == "QuotaReserved" and condition["status"] == "False":
                found[workload["metadata"]["name"]] = UID.sub("UID", condition["message"])
    return found


def _by_name(items: Iterable[Object], told: Callable[[Object], Object]) -> Object:
    return {item["metadata"]["name"]: told(item) for item in items}


def _workload(item: Object) -> Object:
    spec, status = item["spec"], item.get("status", {})
    found: Object = {
        "active": spec.get("active", True),
        "priority": spec.get("priority", 0),
        "conditions": {type_: pair for type_, pair in _conditions(status).items() if type_ in CONDITIONS},
        "checks": {check["name"]: check["state"] for check in status.get("admissionChecks", ())},
        "reclaimable": {pods["name"]: pods["count"] for pods in status.get("reclaimablePods", ())},
    }
    if admission := status.get("admission"):
        pod_sets = {each["name"]: _pod_set(each) for each in admission["podSetAssignments"]}
        found["admission"] = {"clusterQueue": admission["clusterQueue"], "podSets": pod_sets}
    return found


def _pod_set(assignment: Object) -> Object:
    return {
        "count": assignment.get("count"),
        "flavors": assignment.get("flavors", {}),
        "usage": assignment.get("resourceUsage", {}),
    }


def _cluster_queue(item: Object) -> Object:
    status = item.get("status", {})
    return {
        **_counts(status),
        "pending": status.get("pendingWorkloads", 0),
        "reservation": _amounts(status.get("flavorsReservation", ())),
        "usage": _amounts(status.get("flavorsUsage", ())),
        **_weighted_share(item),
    }


def _local_queue(item: Object) -> Object:
    return _counts(item.get("status", {}))


def _counts(status: Mapping[str, Any]) -> Object:
    counts = {"reserving": status.get("reservingWorkloads", 0), "admitted": status.get("admittedWorkloads", 0)}
    active = _conditions(status).get("Active")
    return counts if active is None else {**counts, "active": active}


def _weighted_share(item: Object) -> Object:
    share = (item.get("status", {}).get("fairSharing") or {}).get("weightedShare")
    return {} if share is None else {"weightedShare": share}


def _conditions(status: Mapping[str, Any]) -> dict[str, list[str]]:
    return {each["type"]: [each["status"], each["reason"]] for each in status.get("conditions", ())}


def _amounts(flavors: Iterable[Object]) -> dict[str, dict[str, list[str]]]:
    """Flavor, resource, [total, borrowed], without what is zero."""
    amounts = {flavor["name"]: dict(_resources(flavor)) for flavor in flavors}
    return {name: resources for name, resources in amounts.items() if resources}


def _resources(flavor: Object) -> Iterable[tuple[str, list[str]]]:
    for resource in flavor.get("resources", ()):
        if resource.get("total", "0") != "0":
            yield resource["name"], [resource["total"], resource.get("borrowed", "0")]


_TOLD: Mapping[str, Callable[[Object], Object]] = {
    "Workload": _workload,
    "ClusterQueue": _cluster_queue,
    "LocalQueue": _local_queue,
    "Cohort": _weighted_share,
}
