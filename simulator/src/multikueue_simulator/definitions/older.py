"""Kueue's v1beta1, which Kueue still serves: v1beta2 with the changes in these tables (contract 1.2-1.5).

No webhook converts between the two, as on a server with Kueue's definitions but without its webhook.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fakekube.schemas.notation import (
    SUBDOMAIN,
    Kind,
    Schema,
    array,
    column,
    number,
    of,
    record,
    table,
    text,
    time,
)
from multikueue.api.multikueue import clusters
from multikueue_simulator.definitions import rules
from multikueue_simulator.definitions.queues import CONSUMED, USAGE_OF_LOCAL_QUEUE

__all__ = ["with_v1beta1"]

Change = Mapping[str, Any] | None
"""Keywords to set, or None to remove a keyword; None as a whole removes the place."""


def with_v1beta1(kind: Kind) -> Kind:
    """The kind with v1beta1 as an additional served version."""
    (newest,) = kind.versions
    older = replace(
        newest,
        name="v1beta1",
        storage=False,
        schema=_amended(newest.schema, _CHANGES.get(kind.kind, {})),
        columns=_COLUMNS.get(kind.kind, newest.columns),
        deprecated=kind.kind not in _UP_TO_DATE,
    )
    return replace(kind, versions=(older, newest))


def _amended(schema: Schema, changes: Mapping[str, Change]) -> Schema:
    for path, change in changes.items():
        schema = _changed(schema, _parts(path), change)
    return schema


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("[]", ".[]").split(".") if part]


def _changed(schema: Schema, parts: Sequence[str], change: Change) -> Schema:
    if not parts:
        return {keyword: value for keyword, value in {**schema, **(change or {})}.items() if value is not None}
    head, *rest = parts
    if head == "[]":
        return {**schema, "items": _changed(schema["items"], rest, change)}
    properties = dict(schema.get("properties", {}))
    if change is None and not rest:
        del properties[head]
    else:
        properties[head] = _changed(properties.get(head, {}), rest, change)
    return {**schema, "properties": properties}


_UP_TO_DATE = frozenset({"MultiKueueConfig"})
"""Kinds whose older version is not deprecated."""

_NO_LONGEST = {"maxLength": None}
_NO_SHORTEST = {"minLength": None}
_NO_MOST = {"maxItems": None}
_NO_LIST_TYPE = {"x-kubernetes-list-type": None, "x-kubernetes-list-map-keys": None}
_NAME = text(253, SUBDOMAIN)

_WORKLOAD: Mapping[str, Change] = {
    "": {"x-kubernetes-validations": rules.OLD_WORKLOAD},
    ".spec": {"required": ["podSets"], "x-kubernetes-validations": rules.OLD_WORKLOAD_SPEC},
    ".spec.podSets[]": {"required": ["count", "template"]},
    **{
        f".spec.podSets[].topologyRequest.{field}": _NO_LONGEST
        for field in (
            "podIndexLabel",
            "podSetGroupName",
            "podSetSliceRequiredTopology",
            "preferred",
            "required",
            "subGroupIndexLabel",
        )
    },
    ".spec.priorityClassRef": None,
    ".spec.priorityClassName": _NAME,
    ".spec.priorityClassSource": text(
        one_of=("kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""), default=""
    ),
    ".status.accumulatedPastExecutionTimeSeconds": None,
    ".status.accumulatedPastExexcutionTimeSeconds": number(),
    ".status.admission": {"required": ["clusterQueue", "podSetAssignments"]},
    ".status.admission.podSetAssignments[]": {"required": ["name"]},
    ".status.admission.podSetAssignments[].delayedTopologyRequest": {"enum": None, "maxLength": None},
    ".status.admission.podSetAssignments[].topologyAssignment": {
        "required": ["domains", "levels"],
        "x-kubernetes-validations": None,
    },
    ".status.admission.podSetAssignments[].topologyAssignment.levels[]": _NO_LONGEST,
    ".status.admission.podSetAssignments[].topologyAssignment.slices": None,
    ".status.admission.podSetAssignments[].topologyAssignment.domains": array(
        record(
            needs=("count", "values"),
            values=array(text(), kind="atomic", least=1, most=16),
            count=number(1),
        )
    ),
    ".status.admissionChecks[].name": _NO_SHORTEST,
    ".status.admissionChecks[].podSetUpdates[].tolerations": _NO_LIST_TYPE,
    ".status.clusterName": _NO_LONGEST,
    ".status.conditions": _NO_MOST,
    ".status.nominatedClusterNames[]": _NO_LONGEST,
    ".status.schedulingStats.evictions": _NO_MOST,
    ".status.unhealthyNodes": {**_NO_MOST, **_NO_LIST_TYPE},
    ".status.unhealthyNodes[].name": _NO_LONGEST,
}

_CHECKS = ".spec.admissionChecksStrategy.admissionChecks"

_CLUSTER_QUEUE: Mapping[str, Change] = {
    ".spec": {"x-kubernetes-validations": rules.OLD_CLUSTER_QUEUE},
    ".spec.cohortName": None,
    ".spec.cohort": _NAME,
    ".spec.admissionChecks": array(text(316)),
    ".spec.admissionChecksStrategy": {"required": None},
    _CHECKS: {"minItems": None, **_NO_MOST, **_NO_LIST_TYPE},
    f"{_CHECKS}[].name": _NO_SHORTEST,
    f"{_CHECKS}[].onFlavors": {**_NO_MOST, **_NO_LIST_TYPE},
    ".spec.admissionScope.admissionMode": {"enum": None},
    ".spec.flavorFungibility.whenCanBorrow": {"enum": ["Borrow", "MayStopSearch", "TryNextFlavor"]},
    ".spec.flavorFungibility.whenCanPreempt": {"enum": ["MayStopSearch", "Preempt", "TryNextFlavor"]},
    ".spec.resourceGroups[].coveredResources": _NO_LIST_TYPE,
    ".status.conditions": _NO_MOST,
    ".status.fairSharing.admissionFairSharingStatus": CONSUMED,
    ".status.pendingWorkloadsStatus": record(
        needs=("lastChangeTime",),
        clusterQueuePendingWorkload=array(
            record(needs=("name", "namespace"), name=text(), namespace=text()), kind="atomic"
        ),
        lastChangeTime=time(),
    ),
}

_LOCAL_QUEUE: Mapping[str, Change] = {
    ".status.flavorsUsage": None,
    ".status.flavorUsage": USAGE_OF_LOCAL_QUEUE,
    ".status.conditions": _NO_MOST,
    ".status.flavors": array(
        record(
            needs=("name",),
            name=_NAME,
            resources=array(text(), kind="set", most=16),
            nodeLabels=table(text(), most=8, atomic=True),
            nodeTaints=array(
                record(needs=("effect", "key"), key=text(), value=text(), effect=text(), timeAdded=time()),
                kind="atomic",
                most=8,
            ),
            topology=record(
                needs=("levels", "name"), name=_NAME, levels=array(text(), kind="atomic", least=1, most=16)
            ),
        ),
        keys=("name",),
        most=16,
    ),
}

_COHORT: Mapping[str, Change] = {
    ".spec.resourceGroups[].coveredResources": _NO_LIST_TYPE,
    ".status.fairSharing.admissionFairSharingStatus": CONSUMED,
}

_ADMISSION_CHECK: Mapping[str, Change] = {
    ".spec.controllerName": {**_NO_LONGEST, **_NO_SHORTEST},
    **{f".spec.parameters.{field}": _NO_SHORTEST for field in ("apiGroup", "kind", "name")},
    ".spec.retryDelayMinutes": number(bits=64, default=15),
    ".status.conditions": _NO_MOST,
}

_MULTIKUEUE_CLUSTER: Mapping[str, Change] = {
    ".spec": {"required": ["kubeConfig"]},
    ".spec.clusterSource": None,
    ".spec.kubeConfig": of(
        clusters.KubeConfigSource,
        needs=("location", "locationType"),
        locationType=text(one_of=("Secret", "Path"), default="Secret"),
    ),
    ".spec.clusterProfileRef": of(clusters.ClusterProfileRef, needs=("name",), name=text(256, shortest=1)),
    ".status.conditions": _NO_MOST,
}

_CHANGES: Mapping[str, Mapping[str, Change]] = {
    "Workload": _WORKLOAD,
    "WorkloadPriorityClass": {".description": _NO_LONGEST},
    "ClusterQueue": _CLUSTER_QUEUE,
    "LocalQueue": _LOCAL_QUEUE,
    "Cohort": _COHORT,
    "AdmissionCheck": _ADMISSION_CHECK,
    "MultiKueueConfig": {".spec.clusters[]": _NO_LONGEST},
    "MultiKueueCluster": _MULTIKUEUE_CLUSTER,
    "ProvisioningRequestConfig": {
        ".spec.provisioningClassName": _NO_SHORTEST,
        ".spec.podSetUpdates.nodeSelector": _NO_LIST_TYPE,
    },
}

_COLUMNS = {
    "ClusterQueue": (
        column("Cohort", ".spec.cohort"),
        column("Strategy", ".spec.queueingStrategy", priority=1),
        column("Pending Workloads", ".status.pendingWorkloads", "integer"),
        column("Admitted Workloads", ".status.admittedWorkloads", "integer", priority=1),
    )
}
